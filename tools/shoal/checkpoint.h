// `shoal checkpoint`: looks at checkpoints, checks them, and makes files of other tools of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace shoal::tool {

struct CheckpointOptions {
  std::string folder;                     ///< That of many checkpoints,
  std::optional<std::int64_t> step = {};  ///< and which of them; the last if it is not given.
  std::string file;                       ///< To be written.
  bool keep_paths = false;                ///< Names in the file are the paths of the tree, and not those with dots.
  bool json = false;
};

/// Prints the checkpoints of a folder, or, with a step, the arrays of one. Returns the exit code, as the others.
int list_checkpoints(const CheckpointOptions& options);
/// Reads one or, without a step, all, and compares them with their checksums.
int verify_checkpoints(const CheckpointOptions& options);
/// Writes one as a safetensors file.
int export_checkpoint(const CheckpointOptions& options);

}  // namespace shoal::tool
