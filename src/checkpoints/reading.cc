#include "checkpoints/reading.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/misuse.h"
#include "base/thread_pool.h"
#include "checkpoints/extents.h"
#include "checkpoints/safetensors.h"
#include "shoal/checkpoints.h"

namespace shoal::checkpoints {
namespace {

// What a box of a file and a target have in common, as runs of bytes that lie next to each other in both. Runs are in
// the order of the file.
class Runs {
 public:
  Runs(const Box& stored, const Target& target, const Box& part, std::int64_t element)
      : data_(target.data), run_bytes_(element) {
    const Dims from = start_in(stored, part);
    const Dims to = start_in(target.box, part);
    const Dims from_strides = row_major_strides(stored.extents);
    const Dims to_strides = row_major_strides(target.box.extents);
    for (std::size_t d = 0; d < part.extents.size(); ++d) {
      from_begin_ += from[d] * from_strides[d] * element;
      to_begin_ += to[d] * to_strides[d] * element;
    }
    std::size_t d = part.extents.size();
    while (d > 0) {
      --d;
      run_bytes_ *= part.extents[d];
      if (part.extents[d] != stored.extents[d] || part.extents[d] != target.box.extents[d]) break;
    }
    for (std::size_t outer = 0; outer < d; ++outer) {
      levels_.push_back({part.extents[outer], from_strides[outer] * element, to_strides[outer] * element});
      count_ *= part.extents[outer];
    }
  }

  // The first run that ends after this byte of the box.
  std::int64_t first_after(std::int64_t byte) const {
    std::int64_t low = 0;
    std::int64_t high = count_;
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      if (place_of(middle).first + run_bytes_ > byte) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }

  bool any_in(std::int64_t begin, std::int64_t end) const {
    const std::int64_t first = first_after(begin);
    return first < count_ && place_of(first).first < end;
  }

  // Where the bytes [begin, end) of the box are to be, if they are part of one run.
  std::byte* whole_place_of(std::int64_t begin, std::int64_t end) const {
    const std::int64_t first = first_after(begin);
    if (first == count_) return nullptr;
    const auto [from, to] = place_of(first);
    if (from > begin || from + run_bytes_ < end) return nullptr;
    return data_ + to + (begin - from);
  }

  // Copies what is wanted of the bytes [begin, end) of the box.
  void copy(const std::byte* bytes, std::int64_t begin, std::int64_t end) const {
    std::int64_t run = first_after(begin);
    if (run == count_) return;
    auto [from, to] = place_of(run);
    Dims position = position_of(run);
    while (run < count_ && from < end) {
      const std::int64_t first = std::max(from, begin);
      const std::int64_t last = std::min(from + run_bytes_, end);
      std::memcpy(data_ + to + (first - from), bytes + (first - begin), static_cast<std::size_t>(last - first));
      ++run;
      for (std::size_t d = levels_.size(); d-- > 0;) {
        from += levels_[d].from;
        to += levels_[d].to;
        if (++position[d] < levels_[d].count) break;
        from -= levels_[d].from * levels_[d].count;
        to -= levels_[d].to * levels_[d].count;
        position[d] = 0;
      }
    }
  }

 private:
  struct Level {
    std::int64_t count;
    std::int64_t from;  // Strides, in bytes.
    std::int64_t to;
  };

  Dims position_of(std::int64_t run) const {
    Dims position(levels_.size(), 0);
    for (std::size_t d = levels_.size(); d-- > 0; run /= levels_[d].count) position[d] = run % levels_[d].count;
    return position;
  }
  std::pair<std::int64_t, std::int64_t> place_of(std::int64_t run) const {
    std::int64_t from = from_begin_;
    std::int64_t to = to_begin_;
    for (std::size_t d = levels_.size(); d-- > 0; run /= levels_[d].count) {
      from += run % levels_[d].count * levels_[d].from;
      to += run % levels_[d].count * levels_[d].to;
    }
    return {from, to};
  }

  std::byte* data_;
  std::int64_t from_begin_ = 0;
  std::int64_t to_begin_ = 0;
  std::int64_t run_bytes_;
  std::int64_t count_ = 1;
  std::vector<Level> levels_;  // Outermost first.
};

}  // namespace

// A piece of a box.
struct Source::Task {
  const StoredArray* array;
  const StoredBox* box;
  std::int64_t begin;  // In the box, in bytes.
  std::int64_t end;
  std::size_t piece;
  std::vector<std::shared_ptr<const Runs>> runs;  // Of targets that want some of it.
};

// Memory for pieces that tasks take in turn.
class Source::Scratch {
 public:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  using Piece = std::unique_ptr<std::byte[], Free>;

  explicit Scratch(std::int64_t bytes) : bytes_(FileReader::scratch_bytes(static_cast<std::size_t>(bytes))) {}

  Piece take() {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        Piece piece = std::move(free_.back());
        free_.pop_back();
        return piece;
      }
    }
    Piece piece(static_cast<std::byte*>(std::aligned_alloc(FileReader::kBlock, bytes_)));
    if (piece == nullptr) throw std::bad_alloc();
    return piece;
  }
  void give_back(Piece piece) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(piece));
  }

 private:
  const std::size_t bytes_;
  std::mutex mutex_;
  std::vector<Piece> free_;
};

Source::Source(std::string what, Path folder, Index index, bool checks_run)
    : what_(std::move(what)), folder_(std::move(folder)), index_(std::move(index)), checks_run_(checks_run) {}

const FileReader& Source::file(std::size_t number) const {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<FileReader>& entry = files_[number];
  if (entry == nullptr) {
    auto opened = std::make_unique<FileReader>(folder_ / index_.files[number].name);
    check_file(*opened, number);
    entry = std::move(opened);
  }
  return *entry;
}

void Source::check_file(const FileReader& file, std::size_t number) const {
  const StoredFile& stored = index_.files[number];
  if (checks_run_) {
    std::string header(static_cast<std::size_t>(std::min(stored.header_bytes, file.size())), '\0');
    file.read(0, header.data(), header.size());
    if (checksum_of_bytes(header.data(), header.size()) != stored.header_checksum) {
      const auto metadata = read_header(file).metadata;
      const auto run = metadata.find("run");
      if (run != metadata.end() && run->second == index_.run) {
        throw misuse<CheckpointError>("the header of \"{}\" is damaged", file.path().string());
      }
      throw misuse<CheckpointError>("\"{}\" is of another run ({}) than {} beside it ({})", file.path().string(),
                                    run == metadata.end() ? "unknown" : run->second, kIndexName, index_.run);
    }
  }
  if (file.size() != stored.bytes) {
    throw misuse<CheckpointError>("\"{}\" has {} bytes, but {} were written; it was {}", file.path().string(),
                                  file.size(), stored.bytes, file.size() < stored.bytes ? "cut short" : "changed");
  }
}

std::vector<Source::Task> Source::tasks_of(const StoredArray& array, const std::vector<Target>* targets) const {
  std::vector<Task> tasks;
  const auto element = static_cast<std::int64_t>(size_of(array.dtype));
  for (const StoredBox& box : array.boxes) {
    std::vector<std::shared_ptr<const Runs>> runs;
    if (targets != nullptr) {
      for (const Target& target : *targets) {
        const std::optional<Box> part = overlap(box.box, target.box);
        if (part) runs.push_back(std::make_shared<const Runs>(box.box, target, *part, element));
      }
      if (runs.empty()) continue;
    }
    const std::int64_t bytes = num_elements(box.box.extents) * element;
    std::size_t piece = 0;
    for (std::int64_t begin = 0; begin < bytes; begin += index_.piece_bytes, ++piece) {
      Task task{&array, &box, begin, std::min(bytes, begin + index_.piece_bytes), piece, {}};
      for (const auto& of_target : runs) {
        if (of_target->any_in(task.begin, task.end)) task.runs.push_back(of_target);
      }
      if (targets == nullptr || !task.runs.empty()) tasks.push_back(std::move(task));
    }
  }
  return tasks;
}

void Source::run(const Task& task, Scratch& scratch, bool past_memory) const {
  const auto size = static_cast<std::size_t>(task.end - task.begin);
  const std::string& name = index_.files[task.box->file].name;
  // Bytes that one target wants whole go straight there.
  std::byte* place = task.runs.size() == 1 ? task.runs[0]->whole_place_of(task.begin, task.end) : nullptr;
  Scratch::Piece piece = scratch.take();
  const std::byte* bytes = place != nullptr ? place : piece.get();
  const std::int64_t offset = task.box->offset + task.begin;
  try {
    const FileReader& from = file(task.box->file);
    if (past_memory) {
      bytes = from.read_past_memory(offset, place, size, piece.get());
    } else {
      from.read(offset, place != nullptr ? place : piece.get(), size);
    }
  } catch (const CheckpointError& error) {
    throw CheckpointError(fmt::format("{}: {}: {}", what_, in_quotes(task.array->path), error.what()));
  }
  if (!task.box->checksums.empty() && checksum_of_bytes(bytes, size) != task.box->checksums[task.piece]) {
    throw CheckpointError(
        fmt::format("{}: {} is damaged: bytes {} to {} of \"{}\", part of its elements {}, do not have the checksum "
                    "that they were written with",
                    what_, in_quotes(task.array->path), offset, offset + static_cast<std::int64_t>(size),
                    (folder_ / name).string(), to_text(task.box->box)));
  }
  if (place == nullptr) {
    for (const auto& runs : task.runs) runs->copy(bytes, task.begin, task.end);
  }
  scratch.give_back(std::move(piece));
}

void Source::run_all(const std::vector<Task>& tasks, bool past_memory) const {
  Scratch scratch(index_.piece_bytes);
  try {
    ThreadPool::shared().parallel_for(static_cast<std::int64_t>(tasks.size()), [&](std::int64_t i) {
      const Caller::Pause pause;  // Of the threads, one has the caller.
      run(tasks[static_cast<std::size_t>(i)], scratch, past_memory);
    });
  } catch (const CheckpointError& error) {
    throw misuse<CheckpointError>("{}", error.what());
  }
}

void Source::read(const std::vector<Wanted>& wanted, bool past_memory) const {
  std::vector<Task> tasks;
  for (const Wanted& one : wanted) {
    std::ranges::move(tasks_of(*one.array, &one.targets), std::back_inserter(tasks));
  }
  run_all(tasks, past_memory);
}

void Source::verify() const {
  std::vector<Task> tasks;
  for (const StoredArray& array : index_.arrays) std::ranges::move(tasks_of(array, nullptr), std::back_inserter(tasks));
  run_all(tasks, true);
  for (std::size_t number = 0; number < index_.files.size(); ++number) {
    // What other tools find in the files must be what the index says.
    const FileReader& opened = file(number);
    const TensorFile header = read_header(opened);
    std::map<std::int64_t, const StoredTensor*> at;
    for (const StoredTensor& tensor : header.tensors) at[header.data_begin + tensor.begin] = &tensor;
    std::size_t boxes = 0;
    for (const StoredArray& array : index_.arrays) {
      for (const StoredBox& box : array.boxes) {
        if (box.file != number) continue;
        ++boxes;
        const StoredTensor expected = stored_tensor("", array.dtype, box.box.extents);
        const auto found = at.find(box.offset);
        if (found != at.end() && found->second->dtype == expected.dtype && found->second->shape == expected.shape) {
          continue;
        }
        throw misuse<CheckpointError>("the header of \"{}\" does not have {} of {} where {} says",
                                      opened.path().string(), to_text(box.box), in_quotes(array.path), kIndexName);
      }
    }
    if (boxes != header.tensors.size()) {
      throw misuse<CheckpointError>("the header of \"{}\" has {} tensors, and {} {}", opened.path().string(),
                                    header.tensors.size(), kIndexName, boxes);
    }
  }
}

std::unique_ptr<Source> open_checkpoint(const Path& folder) {
  const Path index = folder / kIndexName;
  return std::make_unique<Source>(folder.string(), folder, parse_index(read_text(index), index));
}

namespace {

// The files of "….safetensors.index.json".
std::vector<std::string> files_of_weight_map(const Path& path) {
  std::vector<std::string> names;
  try {
    const nlohmann::json json = nlohmann::json::parse(read_text(path));
    for (const auto& [name, file] : json.at("weight_map").items()) names.push_back(file.get<std::string>());
  } catch (const nlohmann::json::exception& error) {
    throw misuse<CheckpointError>("\"{}\" is no index of safetensors files: {}", path.string(), error.what());
  }
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

// The one name in a folder that ends so; empty if there is none.
Path only_file(const Path& folder, std::string_view end) {
  Path found;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (!entry.path().filename().string().ends_with(end)) continue;
    if (!found.empty()) {
      throw misuse<CheckpointError>("\"{}\" has both \"{}\" and \"{}\"; name one of them", folder.string(),
                                    found.filename().string(), entry.path().filename().string());
    }
    found = entry.path();
  }
  return found;
}

}  // namespace

std::unique_ptr<Source> open_safetensors(const Path& path, std::map<std::string, std::string>& others) {
  Path file = path;
  if (std::error_code none; std::filesystem::is_directory(path, none)) {
    file = only_file(path, ".safetensors.index.json");
    if (file.empty()) file = only_file(path, ".safetensors");
    if (file.empty()) throw misuse<CheckpointError>("there is no safetensors file in \"{}\"", path.string());
  }
  const Path folder = file.parent_path();
  const std::vector<std::string> names = file.filename().string().ends_with(".json")
                                             ? files_of_weight_map(file)
                                             : std::vector<std::string>{file.filename().string()};
  Index index;
  for (const std::string& name : names) {
    const FileReader opened(folder / name);
    const TensorFile header = read_header(opened);
    for (const StoredTensor& tensor : header.tensors) {
      const std::optional<Dtype> dtype = dtype_of_stored(tensor.dtype);
      if (!dtype) {
        others[tensor.name] = fmt::format("{}{}", tensor.dtype, to_string(tensor.shape));
        continue;
      }
      StoredArray array{.path = tensor.name, .dtype = *dtype, .shape = tensor.shape};
      if (num_elements(tensor.shape) > 0) {
        array.boxes.push_back({.box = {Dims(tensor.shape.size(), 0), tensor.shape},
                               .file = index.files.size(),
                               .offset = header.data_begin + tensor.begin});
      }
      index.arrays.push_back(std::move(array));
    }
    index.files.push_back({name, opened.size()});
  }
  return std::make_unique<Source>(file.string(), folder, std::move(index), false);
}

}  // namespace shoal::checkpoints
