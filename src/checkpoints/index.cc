#include "checkpoints/index.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <utility>

#include "base/digest.h"
#include "base/misuse.h"
#include "checkpoints/extents.h"
#include "checkpoints/safetensors.h"
#include "shoal/checkpoints.h"

namespace shoal::checkpoints {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFormat = "shoal checkpoint";
constexpr int kVersion = 1;

std::string hex(std::uint64_t number) { return fmt::format("{:016x}", number); }

std::uint64_t number_of_hex(const std::string& text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  if (error != std::errc() || end != text.data() + text.size() || hex(number) != text) {
    throw InvalidArgument(in_quotes(text) + " is no checksum");
  }
  return number;
}

std::string text_of(std::string_view text) { return Json(text).dump(); }

std::string box_text(const StoredBox& box) {
  std::string text = fmt::format(R"({{"start":{},"shape":{},"file":{},"offset":{},"checksums":[)",
                                 json_list(box.box.start), json_list(box.box.extents), box.file, box.offset);
  for (const std::uint64_t checksum : box.checksums) {
    if (text.back() != '[') text += ',';
    text += '"' + hex(checksum) + '"';
  }
  return text + "]}";
}

StoredBox read_box(const Json& json, const Index& index, const StoredArray& array) {
  StoredBox box;
  const Shape start = shape_of(json.at("start").get<std::vector<std::int64_t>>());
  box.box = {Dims(start.begin(), start.end()), shape_of(json.at("shape").get<std::vector<std::int64_t>>())};
  if (!lies_in(box.box, array.shape)) {
    throw InvalidArgument(fmt::format("a box {} of shape {}", to_text(box.box), to_string(array.shape)));
  }
  box.file = json.at("file").get<std::size_t>();
  box.offset = json.at("offset").get<std::int64_t>();
  const std::int64_t bytes = num_elements(box.box.extents) * static_cast<std::int64_t>(size_of(array.dtype));
  if (box.file >= index.files.size() || box.offset < 0 || box.offset > index.files[box.file].bytes - bytes) {
    throw InvalidArgument(
        fmt::format("bytes {} to {} of file {}, which there are not", box.offset, box.offset + bytes, box.file));
  }
  for (const Json& checksum : json.at("checksums")) box.checksums.push_back(number_of_hex(checksum.get<std::string>()));
  if (static_cast<std::int64_t>(box.checksums.size()) != (bytes + index.piece_bytes - 1) / index.piece_bytes) {
    throw InvalidArgument(fmt::format("{} checksums for {} bytes", box.checksums.size(), bytes));
  }
  return box;
}

StoredArray read_array(const std::string& path, const Json& json, const Index& index) {
  StoredArray array{.path = path,
                    .dtype = parse_dtype(json.at("dtype").get<std::string>()),
                    .shape = shape_of(json.at("shape").get<std::vector<std::int64_t>>()),
                    .weak = json.at("weak").get<bool>(),
                    .sharding = json.at("sharding").dump()};
  const std::optional<std::int64_t> elements = checked_elements(array.shape);
  if (!elements) throw InvalidArgument("shape " + to_string(array.shape));
  std::int64_t covered = 0;
  for (const Json& box : json.at("boxes")) {
    array.boxes.push_back(read_box(box, index, array));
    covered += num_elements(array.boxes.back().box.extents);
  }
  if (covered != *elements) {
    throw InvalidArgument(fmt::format("boxes of {} elements for shape {}", covered, to_string(array.shape)));
  }
  return array;
}

}  // namespace

std::uint64_t checksum_of_bytes(const void* data, std::size_t bytes) { return digest_of(data, bytes)[0]; }

std::string to_text(const Index& index) {
  std::string rest = fmt::format("\"format\":{},\n\"version\":{},\n\"step\":{},\n\"run\":{},\n", text_of(kFormat),
                                 kVersion, index.step, text_of(index.run));
  rest += fmt::format("\"metadata\":{},\n\"piece_bytes\":{},\n\"files\":[", index.metadata, index.piece_bytes);
  for (const StoredFile& file : index.files) {
    if (rest.back() != '[') rest += ',';
    rest += fmt::format(R"({}{{"name":{},"bytes":{},"header_bytes":{},"header_checksum":"{}"}})", '\n',
                        text_of(file.name), file.bytes, file.header_bytes, hex(file.header_checksum));
  }
  rest += "],\n\"arrays\":{";
  for (const StoredArray& array : index.arrays) {
    if (rest.back() != '{') rest += ',';
    rest += fmt::format("\n{}:{{\"dtype\":{},\"shape\":{},\"weak\":{},\"sharding\":{},\"boxes\":[", text_of(array.path),
                        text_of(name_of(array.dtype)), json_list(array.shape), array.weak, array.sharding);
    for (const StoredBox& box : array.boxes) {
      if (rest.back() != '[') rest += ',';
      rest += box_text(box);
    }
    rest += "]}";
  }
  rest += "}}\n";
  return fmt::format("{{\"checksum\":\"{}\",\n", hex(checksum_of_bytes(rest.data(), rest.size()))) + rest;
}

Index parse_index(const std::string& text, const Path& path) {
  const auto refuse = [&](std::string_view why) {
    return misuse<CheckpointError>("\"{}\" is no index of a checkpoint, or damaged: {}", path.string(), why);
  };
  Index index;
  std::string place;  // Of what is being read, for messages.
  try {
    const std::size_t line = text.find('\n');
    if (line == std::string::npos) throw refuse("it ends early");
    const Json json = Json::parse(text);
    if (json.value("format", "") != kFormat) throw refuse("its format is not that of Shoal");
    if (json.at("version").get<int>() != kVersion) {
      throw refuse(fmt::format("its version is {}; this Shoal reads {}", json.at("version").get<int>(), kVersion));
    }
    const std::string rest = text.substr(line + 1);
    if (number_of_hex(json.at("checksum").get<std::string>()) != checksum_of_bytes(rest.data(), rest.size())) {
      throw refuse("it does not have the checksum that it says");
    }
    index.step = json.at("step").get<std::int64_t>();
    index.run = json.at("run").get<std::string>();
    index.metadata = json.at("metadata").dump();
    index.piece_bytes = json.at("piece_bytes").get<std::int64_t>();
    // Elements are not cut: see kPieceBytes.
    if (index.piece_bytes <= 0 || index.piece_bytes % 16 != 0 || index.piece_bytes > (std::int64_t{1} << 30)) {
      throw InvalidArgument(fmt::format("pieces of {} bytes", index.piece_bytes));
    }
    for (const Json& file : json.at("files")) {
      index.files.push_back({.name = file.at("name").get<std::string>(),
                             .bytes = file.at("bytes").get<std::int64_t>(),
                             .header_bytes = file.at("header_bytes").get<std::int64_t>(),
                             .header_checksum = number_of_hex(file.at("header_checksum").get<std::string>())});
      const auto& [name, bytes, header_bytes, header_checksum] = index.files.back();
      if (header_bytes < 0 || header_bytes > std::min(bytes, kMostHeaderBytes)) {
        throw InvalidArgument(fmt::format("a header of {} bytes in a file of {}", header_bytes, bytes));
      }
      if (name.empty() || name.find('/') != std::string::npos || name.starts_with('.')) {
        throw InvalidArgument("a file with the name " + in_quotes(name));
      }
    }
    for (const auto& [name, entry] : json.at("arrays").items()) {
      place = fmt::format("array {}: ", name);
      index.arrays.push_back(read_array(name, entry, index));
    }
  } catch (const nlohmann::json::exception& error) {
    throw refuse(place + error.what());
  } catch (const InvalidArgument& error) {
    throw refuse(place + error.what());
  }
  return index;
}

std::string sharding_text(const Sharding& sharding) {
  std::ostringstream memory;
  memory << sharding.memory_kind();
  Json json;
  if (const NamedSharding* named = sharding.named()) {
    Json axes = Json::array();
    const Mesh& mesh = named->mesh();
    for (std::size_t i = 0; i < mesh.axis_names().size(); ++i) {
      std::ostringstream type;
      type << mesh.axis_types()[i];
      axes.push_back({{"name", mesh.axis_names()[i]}, {"size", mesh.axis_sizes()[i]}, {"type", type.str()}});
    }
    Json spec = Json::array();
    for (const PartitionEntry& entry : named->spec()) {
      spec.push_back(entry.axes().empty() ? Json() : Json(entry.axes()));
    }
    json = {{"mesh", std::move(axes)}, {"spec", std::move(spec)}, {"memory", memory.str()}};
  } else {
    json = {{"memory", memory.str()}};
  }
  return json.dump();
}

std::string checked_json(const std::string& text, std::string_view what) {
  try {
    return Json::parse(text).dump();
  } catch (const nlohmann::json::exception& error) {
    throw misuse<InvalidArgument>("{} is no JSON: {}", what, error.what());
  }
}

}  // namespace shoal::checkpoints
