// Writes the part of a checkpoint that is this process's: its file, and what the index has to say of it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoints/files.h"
#include "checkpoints/index.h"
#include "runtime/device_array.h"

namespace shoal::checkpoints {

/// An array to save.
struct Held {
  std::string path;
  DeviceArray array;
};

/// A part of an array that this process writes.
struct Portion {
  std::size_t array = 0;  ///< Among those that are saved.
  Box box;
  Buffer elements;
};

/// The parts of arrays that `process`, one of `processes`, writes: of each distinct shard one process that holds it, so
/// that all write about as much. What lies on devices of one process alone is in all of them, and one writes it. Waits
/// for the arrays.
std::vector<Portion> portions_of(const std::vector<Held>& arrays, int process, const std::vector<int>& processes);

/// What a process has written: the boxes of each array.
struct Written {
  StoredFile file;
  std::vector<std::vector<StoredBox>> boxes;  ///< By array.
};

/// Writes and syncs the file of a process, and syncs the folder.
Written write_portions(const std::vector<Held>& arrays, const std::vector<Portion>& portions, const Path& folder,
                       int process, std::int64_t step, const std::string& run);

/// For other processes. Reading throws InvalidArgument for other bytes.
std::string bytes_of(const Written& written);
Written written_of(std::string_view bytes);

/// One whole array as a part of a file. `fill` gives its elements to `sink`, in order.
struct WholeTensor {
  std::string name;
  Dtype dtype = Dtype::kF32;
  Shape shape;
  std::function<void(FileWriter& sink)> fill;
};
/// A safetensors file, made beside its final name, synced, and renamed.
void write_tensors(const Path& file, std::vector<WholeTensor> tensors,
                   const std::map<std::string, std::string>& metadata);

}  // namespace shoal::checkpoints
