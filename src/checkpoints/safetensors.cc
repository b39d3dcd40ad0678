#include "checkpoints/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/misuse.h"
#include "checkpoints/extents.h"
#include "shoal/checkpoints.h"

namespace shoal::checkpoints {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

// Of the first element: readers that go past the system's memory need no copy then.
constexpr std::size_t kAlignment = FileReader::kBlock;

struct NamedDtype {
  std::string_view name;
  Dtype dtype;
};
constexpr NamedDtype kNames[] = {
    {"BOOL", Dtype::kBool}, {"I8", Dtype::kI8},   {"I16", Dtype::kI16}, {"I32", Dtype::kI32}, {"I64", Dtype::kI64},
    {"U8", Dtype::kU8},     {"U16", Dtype::kU16}, {"U32", Dtype::kU32}, {"U64", Dtype::kU64}, {"F16", Dtype::kF16},
    {"BF16", Dtype::kBF16}, {"F32", Dtype::kF32}, {"F64", Dtype::kF64}, {"C64", Dtype::kC64},
};

// Bytes of an element, as the format names its dtype; nothing for dtypes that are not of whole bytes or unknown.
std::optional<std::int64_t> bytes_of_stored(std::string_view name) {
  if (const std::optional<Dtype> dtype = dtype_of_stored(name)) return static_cast<std::int64_t>(size_of(*dtype));
  if (name.starts_with("F8_")) return 1;
  return std::nullopt;
}

}  // namespace

StoredAs stored_as(Dtype dtype) {
  if (is_key(dtype)) return {"U32", static_cast<std::int64_t>(size_of(dtype) / sizeof(std::uint32_t))};
  if (dtype == Dtype::kC128) return {"F64", 2};
  return {std::ranges::find(kNames, dtype, &NamedDtype::dtype)->name};
}

std::optional<Dtype> dtype_of_stored(std::string_view name) {
  const auto* found = std::ranges::find(kNames, name, &NamedDtype::name);
  if (found == std::end(kNames)) return std::nullopt;
  return found->dtype;
}

StoredTensor stored_tensor(std::string name, Dtype dtype, const Shape& shape) {
  const StoredAs as = stored_as(dtype);
  StoredTensor tensor{.name = std::move(name),
                      .dtype = std::string(as.dtype),
                      .shape = shape,
                      .begin = 0,
                      .bytes = num_elements(shape) * static_cast<std::int64_t>(size_of(dtype))};
  if (as.parts != 1) tensor.shape.push_back(as.parts);
  return tensor;
}

std::int64_t place_tensors(std::vector<StoredTensor>& tensors) {
  std::int64_t next = 0;
  for (StoredTensor& tensor : tensors) {
    tensor.begin = next;
    next += tensor.bytes;
  }
  return next;
}

std::string header_of(const std::vector<StoredTensor>& tensors, const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  if (!metadata.empty()) text += "\"__metadata__\":" + nlohmann::json(metadata).dump();
  for (const StoredTensor& tensor : tensors) {
    text += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":{},\"data_offsets\":[{},{}]}}", text.size() == 1 ? "" : ",",
                        nlohmann::json(tensor.name).dump(), tensor.dtype, json_list(tensor.shape), tensor.begin,
                        tensor.begin + tensor.bytes);
  }
  text += '}';
  std::uint64_t size = 0;
  text.resize((sizeof size + text.size() + kAlignment - 1) / kAlignment * kAlignment - sizeof size, ' ');
  size = text.size();
  std::string header(sizeof size, '\0');
  std::memcpy(header.data(), &size, sizeof size);
  header += text;
  if (static_cast<std::int64_t>(header.size()) > kMostHeaderBytes) {
    throw misuse<InvalidArgument>("{} tensors need a header of {} bytes; safetensors files may have {}", tensors.size(),
                                  header.size(), kMostHeaderBytes);
  }
  return header;
}

TensorFile read_header(const FileReader& file) {
  const auto refuse = [&](const std::string& why) {
    return misuse<CheckpointError>("\"{}\" is no safetensors file, or damaged: {}", file.path().string(), why);
  };
  std::uint64_t size = 0;
  if (file.size() < static_cast<std::int64_t>(sizeof size)) throw refuse(fmt::format("it has {} bytes", file.size()));
  file.read(0, &size, sizeof size);
  const std::int64_t room = std::min(kMostHeaderBytes, file.size()) - static_cast<std::int64_t>(sizeof size);
  if (size > static_cast<std::uint64_t>(room)) {
    throw refuse(fmt::format("its header should have {} bytes, but there are at most {}", size, room));
  }
  std::string text(size, '\0');
  file.read(sizeof size, text.data(), text.size());
  TensorFile result{.tensors = {}, .metadata = {}, .data_begin = static_cast<std::int64_t>(sizeof size + size)};
  const std::int64_t data_bytes = file.size() - result.data_begin;
  try {
    const auto header = nlohmann::ordered_json::parse(text);
    if (!header.is_object()) throw refuse("its header is no JSON object");
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") {
        result.metadata = entry.get<std::map<std::string, std::string>>();
        continue;
      }
      StoredTensor tensor{.name = name, .dtype = entry.at("dtype").get<std::string>(), .shape = {}};
      tensor.shape = shape_of(entry.at("shape").get<std::vector<std::int64_t>>());
      const auto offsets = entry.at("data_offsets").get<std::vector<std::int64_t>>();
      if (offsets.size() != 2 || offsets[0] < 0 || offsets[1] < offsets[0] || offsets[1] > data_bytes) {
        throw refuse(fmt::format("{} lies at [{}] of {} bytes{}", in_quotes(name), fmt::join(offsets, ", "), data_bytes,
                                 offsets.size() == 2 && offsets[1] > data_bytes ? "; the file was cut short" : ""));
      }
      tensor.begin = offsets[0];
      tensor.bytes = offsets[1] - offsets[0];
      const std::optional<std::int64_t> element = bytes_of_stored(tensor.dtype);
      const std::optional<std::int64_t> elements = checked_elements(tensor.shape);
      if (!elements || (element && *elements > data_bytes / *element) ||
          (element && *elements * *element != tensor.bytes)) {
        throw refuse(fmt::format("{} of shape {} and dtype {} has {} bytes", in_quotes(name), to_string(tensor.shape),
                                 tensor.dtype, tensor.bytes));
      }
      result.tensors.push_back(std::move(tensor));
    }
  } catch (const nlohmann::json::exception& error) {
    throw refuse(error.what());
  }
  return result;
}

}  // namespace shoal::checkpoints
