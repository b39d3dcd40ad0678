#include "checkpoints/writing.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "base/bytes.h"
#include "base/misuse.h"
#include "checkpoints/extents.h"
#include "checkpoints/safetensors.h"
#include "shoal/checkpoints.h"

namespace shoal::checkpoints {
namespace {

// Which of these processes has least to write so far; it gets these bytes.
int next_writer(std::map<int, std::int64_t>& load, const std::vector<int>& candidates, std::int64_t bytes) {
  const int writer = *std::ranges::min_element(candidates, {}, [&](int process) { return load[process]; });
  load[writer] += bytes;
  return writer;
}

// The tensor of a portion in a process's file: the array's path, and where it lies if it is not the whole.
std::string name_of_portion(const Held& held, const Box& box) {
  const bool is_whole = box.extents == held.array.type().shape;
  return is_whole ? held.path : fmt::format("{} {}", held.path, to_text(box));
}

// A device of the process that holds the shard, of which only such have the elements.
std::int64_t own_position(const Grid& grid, AtomSet varying, std::int64_t shard, int process) {
  for (std::int64_t position = 0; position < grid.num_devices(); ++position) {
    if (grid.process_of(position) == process && grid.distinct_index(position, varying) == shard) return position;
  }
  return grid.representative(varying, shard);
}

// In the order of the file: first what is whole blocks, so that all of these begin at one, then wide elements before
// narrow ones, so that each tensor is aligned.
void sort_for_file(std::vector<std::size_t>& order, const std::vector<StoredTensor>& tensors) {
  const auto rank = [&](std::size_t i) {
    const bool is_blocks = tensors[i].bytes % static_cast<std::int64_t>(FileReader::kBlock) == 0;
    return std::pair(is_blocks, size_of(*dtype_of_stored(tensors[i].dtype)));
  };
  std::ranges::stable_sort(order, std::greater<>(), rank);
}

// Tensors in that order; `order` says which they were.
std::vector<StoredTensor> ordered(std::vector<StoredTensor> tensors, std::vector<std::size_t>& order) {
  order.resize(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  sort_for_file(order, tensors);
  std::vector<StoredTensor> sorted;
  for (const std::size_t i : order) sorted.push_back(std::move(tensors[i]));
  return sorted;
}

void put_dims(ByteWriter& writer, const Dims& dims) {
  writer.number(static_cast<std::int64_t>(dims.size()));
  for (const std::int64_t extent : dims) writer.number(extent);
}
Dims take_dims(ByteReader& reader) {
  Dims dims(reader.count(sizeof(std::int64_t)), 0);
  for (std::int64_t& extent : dims) extent = reader.number();
  return dims;
}

}  // namespace

std::vector<Portion> portions_of(const std::vector<Held>& arrays, int process, const std::vector<int>& processes) {
  std::map<int, std::int64_t> load;
  std::vector<Portion> portions;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const DeviceArray& array = arrays[i].array;
    const Grid& grid = *array.grid();
    const Shape& shape = array.type().shape;
    const auto element = static_cast<std::int64_t>(size_of(array.type().dtype));
    const AtomSet varying = array.placement().varying();
    std::optional<int> writer_of_all;
    if (grid.is_local()) writer_of_all = next_writer(load, processes, num_elements(shape) * element);
    for (std::int64_t shard = 0; shard < grid.size_of(varying); ++shard) {
      Box box = Box::of(grid, shape, array.placement(), grid.representative(varying, shard));
      const std::int64_t bytes = num_elements(box.extents) * element;
      if (bytes == 0) continue;
      int writer = 0;
      if (writer_of_all) {
        writer = *writer_of_all;
      } else {
        std::vector<int> holders;
        for (const int holder : grid.processes()) {
          if (grid.held_by(holder, varying).has(shard)) holders.push_back(holder);
        }
        writer = next_writer(load, holders, bytes);
      }
      if (writer != process) continue;
      portions.push_back({i, std::move(box), array.wait().at(own_position(grid, varying, shard, process))});
    }
  }
  return portions;
}

Written write_portions(const std::vector<Held>& arrays, const std::vector<Portion>& portions, const Path& folder,
                       int process, std::int64_t step, const std::string& run) {
  std::vector<StoredTensor> tensors;
  for (const Portion& portion : portions) {
    const Held& held = arrays[portion.array];
    tensors.push_back(stored_tensor(name_of_portion(held, portion.box), held.array.type().dtype, portion.box.extents));
  }
  std::vector<std::size_t> order;
  tensors = ordered(std::move(tensors), order);
  const std::int64_t data_bytes = place_tensors(tensors);
  const std::string header = header_of(
      tensors,
      {{"format", "shoal"}, {"run", run}, {"step", std::to_string(step)}, {"process", std::to_string(process)}});
  const auto data_begin = static_cast<std::int64_t>(header.size());
  Written written{.file = {.name = fmt::format("process_{:05}.safetensors", process),
                           .bytes = data_begin + data_bytes,
                           .header_bytes = data_begin,
                           .header_checksum = checksum_of_bytes(header.data(), header.size())},
                  .boxes = std::vector<std::vector<StoredBox>>(arrays.size())};
  FileWriter file(folder / written.file.name, written.file.bytes);
  file.append(header);
  for (std::size_t n = 0; n < order.size(); ++n) {
    const Portion& portion = portions[order[n]];
    StoredBox box{.box = portion.box, .file = 0, .offset = data_begin + tensors[n].begin};
    const auto* bytes = static_cast<const std::byte*>(portion.elements.data());
    for (std::int64_t begin = 0; begin < tensors[n].bytes; begin += kPieceBytes) {
      const auto size = static_cast<std::size_t>(std::min(kPieceBytes, tensors[n].bytes - begin));
      box.checksums.push_back(checksum_of_bytes(bytes + begin, size));
      file.append(bytes + begin, size);
    }
    written.boxes[portion.array].push_back(std::move(box));
  }
  file.sync();
  sync_folder(folder);
  return written;
}

std::string bytes_of(const Written& written) {
  ByteWriter writer;
  writer.text(written.file.name);
  writer.number(written.file.bytes);
  writer.number(written.file.header_bytes);
  writer.number(static_cast<std::int64_t>(written.file.header_checksum));
  writer.number(static_cast<std::int64_t>(written.boxes.size()));
  for (const std::vector<StoredBox>& boxes : written.boxes) {
    writer.number(static_cast<std::int64_t>(boxes.size()));
    for (const StoredBox& box : boxes) {
      put_dims(writer, box.box.start);
      put_dims(writer, box.box.extents);
      writer.number(box.offset);
      writer.number(static_cast<std::int64_t>(box.checksums.size()));
      for (const std::uint64_t checksum : box.checksums) writer.number(static_cast<std::int64_t>(checksum));
    }
  }
  return writer.bytes();
}

Written written_of(std::string_view bytes) {
  ByteReader reader(bytes);
  Written written;
  written.file.name = reader.text();
  written.file.bytes = reader.number();
  written.file.header_bytes = reader.number();
  written.file.header_checksum = static_cast<std::uint64_t>(reader.number());
  written.boxes.resize(reader.count(sizeof(std::int64_t)));
  for (std::vector<StoredBox>& boxes : written.boxes) {
    boxes.resize(reader.count(4 * sizeof(std::int64_t)));
    for (StoredBox& box : boxes) {
      box.box.start = take_dims(reader);
      box.box.extents = take_dims(reader);
      box.offset = reader.number();
      box.checksums.resize(reader.count(sizeof(std::int64_t)));
      for (std::uint64_t& checksum : box.checksums) checksum = static_cast<std::uint64_t>(reader.number());
    }
  }
  return written;
}

void write_tensors(const Path& file, std::vector<WholeTensor> tensors,
                   const std::map<std::string, std::string>& metadata) {
  std::set<std::string_view> names;
  for (const WholeTensor& tensor : tensors) {
    if (tensor.name == "__metadata__" || !names.insert(tensor.name).second) {
      throw misuse<InvalidArgument>("{} is the name of two arrays, or one that the format keeps for itself",
                                    in_quotes(tensor.name));
    }
  }
  std::vector<StoredTensor> stored;
  for (const WholeTensor& tensor : tensors) stored.push_back(stored_tensor(tensor.name, tensor.dtype, tensor.shape));
  std::vector<std::size_t> order;
  stored = ordered(std::move(stored), order);
  const std::int64_t data_bytes = place_tensors(stored);
  const std::string header = header_of(stored, metadata);
  const Path unfinished = fmt::format("{}.tmp-{}", file.string(), getpid());
  std::error_code none;
  std::filesystem::remove(unfinished, none);
  try {
    FileWriter writer(unfinished, static_cast<std::int64_t>(header.size()) + data_bytes);
    writer.append(header);
    for (const std::size_t i : order) tensors[i].fill(writer);
    writer.sync();
    rename_synced(unfinished, file);
  } catch (...) {
    std::filesystem::remove(unfinished, none);
    throw;
  }
}

}  // namespace shoal::checkpoints
