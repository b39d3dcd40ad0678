// Reads parts of arrays from the boxes that files have of them, and checks what is read.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "checkpoints/files.h"
#include "checkpoints/index.h"
#include "sharding/box.h"

namespace shoal::checkpoints {

/// Memory for a part of an array: its elements, dense and row-major.
struct Target {
  Box box;
  std::byte* data = nullptr;
};

/// An array, and the parts of it that are wanted.
struct Wanted {
  const StoredArray* array = nullptr;
  std::vector<Target> targets;
};

/// Files with the arrays of an index.
class Source {
 public:
  /// `what` is what messages call it. With `checks_run`, files must say that they are of the run of the index.
  Source(std::string what, Path folder, Index index, bool checks_run = true);

  const Index& index() const { return index_; }

  /// Fills all targets. Reads pieces of boxes of which something is wanted, each once, by all threads of the process,
  /// and needs no more memory than a piece for each of these. With `past_memory`
  /// the system keeps nothing of it, which is good where no other process is about to read the same. Throws
  /// CheckpointError, naming array and file.
  void read(const std::vector<Wanted>& wanted, bool past_memory) const;
  /// Reads everything, and keeps nothing.
  void verify() const;

 private:
  struct Task;
  class Scratch;

  const FileReader& file(std::size_t number) const;
  void check_file(const FileReader& file, std::size_t number) const;
  void run(const Task& task, Scratch& scratch, bool past_memory) const;
  void run_all(const std::vector<Task>& tasks, bool past_memory) const;
  std::vector<Task> tasks_of(const StoredArray& array, const std::vector<Target>* targets) const;

  const std::string what_;
  const Path folder_;
  const Index index_;
  const bool checks_run_;
  mutable std::mutex mutex_;
  mutable std::map<std::size_t, std::unique_ptr<FileReader>> files_;  // That were opened, and looked at.
};

/// The checkpoint in a folder.
std::unique_ptr<Source> open_checkpoint(const Path& folder);
/// Safetensors files of any tool: see describe_safetensors. Arrays of dtypes that Shoal has not are in `others`, by
/// name, with what they are.
std::unique_ptr<Source> open_safetensors(const Path& path, std::map<std::string, std::string>& others);

}  // namespace shoal::checkpoints
