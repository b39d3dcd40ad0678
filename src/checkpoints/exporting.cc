#include <fmt/format.h>

#include <memory>
#include <utility>

#include "base/misuse.h"
#include "checkpoints/extents.h"
#include "checkpoints/folder.h"
#include "checkpoints/reading.h"
#include "checkpoints/writing.h"
#include "frontend/array/array_impl.h"
#include "shoal/checkpoints.h"

namespace shoal::checkpoints {
namespace {

// Of an array that is exported, so much is in memory at once.
constexpr std::int64_t kChunkBytes = std::int64_t{64} << 20;

// Other tools ask for this entry; it says that elements are those of PyTorch, as all that the format has are.
const std::map<std::string, std::string> kMetadata = {{"format", "pt"}};

void copy_array(const Source& source, const StoredArray& array, FileWriter& sink) {
  const auto element = static_cast<std::int64_t>(size_of(array.dtype));
  std::vector<std::byte> bytes;
  for (Box& chunk : chunks_of(array.shape, kChunkBytes / element)) {
    bytes.resize(static_cast<std::size_t>(num_elements(chunk.extents) * element));
    source.read({{&array, {{std::move(chunk), bytes.data()}}}}, true);
    sink.append(bytes.data(), bytes.size());
  }
}

}  // namespace

void export_safetensors(const std::filesystem::path& directory, const std::filesystem::path& file,
                        const ExportOptions& options, SourceLocation where) {
  const Caller caller("checkpoints::export_safetensors", where);
  const Path folder = folder_of(directory, step_or_latest(directory, options.step));
  const std::unique_ptr<Source> source = open_checkpoint(folder);
  std::vector<WholeTensor> tensors;
  for (const StoredArray& array : source->index().arrays) {
    std::string name;
    if (options.name) {
      const Caller::Pause pause;
      name = options.name(array.path);
    } else {
      name = dotted_name(array.path);
    }
    tensors.push_back({.name = std::move(name),
                       .dtype = array.dtype,
                       .shape = array.shape,
                       .fill = [&source, &array](FileWriter& sink) { copy_array(*source, array, sink); }});
  }
  write_tensors(file, std::move(tensors), kMetadata);
}

void save_safetensors(const std::filesystem::path& file, const std::map<std::string, Array>& arrays,
                      const std::map<std::string, std::string>& metadata, SourceLocation where) {
  const Caller caller("checkpoints::save_safetensors", where);
  std::vector<WholeTensor> tensors;
  for (const auto& [name, array] : arrays) {
    DeviceArray held = shoal::detail::concrete(array, in_quotes(name));
    tensors.push_back(
        {.name = name, .dtype = held.type().dtype, .shape = held.type().shape, .fill = [held](FileWriter& sink) {
           const Buffer whole = to_host(held, Caller::function_or("save_safetensors"), Caller::line());
           sink.append(whole.data(), whole.size_bytes());
         }});
  }
  write_tensors(file, std::move(tensors), metadata.empty() ? kMetadata : metadata);
}

}  // namespace shoal::checkpoints
