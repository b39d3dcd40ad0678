// Files and folders of checkpoints, and what makes them last: each change is on disk only after a sync.
//
// All functions throw CheckpointError, which names the file and says what the system said.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/file_descriptor.h"

namespace shoal::checkpoints {

using Path = std::filesystem::path;

/// A file that is being written, once, from its beginning to its end.
class FileWriter {
 public:
  /// Makes the file, which must not be there. `bytes` are set aside for it where the file system can, so that a full
  /// disk is told at once.
  FileWriter(Path path, std::int64_t bytes);

  /// Appends. What is small is gathered first.
  void append(const void* data, std::size_t bytes);
  void append(std::string_view text) { append(text.data(), text.size()); }
  /// Writes what is gathered, and waits until all is on disk.
  void sync();
  std::int64_t size() const { return written_ + static_cast<std::int64_t>(gathered_.size()); }

 private:
  void write(const char* data, std::size_t bytes);
  void flush();

  Path path_;
  FileDescriptor file_;
  std::string gathered_;
  std::int64_t written_ = 0;
  std::int64_t started_ = 0;  // What the disk was told to begin with.
};

/// A file to read at any place, by any thread.
class FileReader {
 public:
  explicit FileReader(Path path);

  /// Reads these bytes. Throws if the file ends before.
  void read(std::int64_t offset, void* to, std::size_t bytes) const;
  /// The same for many bytes, of which the system keeps none: what it has in memory is copied, and what it has not
  /// comes from the disk itself, which is faster than through the system's memory. Returns where the bytes are: at
  /// `to`, or, if that is null, in `scratch`, which is aligned to kBlock and has scratch_bytes(bytes).
  const std::byte* read_past_memory(std::int64_t offset, std::byte* to, std::size_t bytes, std::byte* scratch) const;
  static constexpr std::size_t kBlock = 4096;
  static constexpr std::size_t scratch_bytes(std::size_t bytes) { return (bytes / kBlock + 3) * kBlock; }
  std::int64_t size() const { return size_; }
  const Path& path() const { return path_; }

 private:
  Path path_;
  FileDescriptor file_;
  FileDescriptor direct_;  // None where the file system cannot do that.
  std::int64_t size_ = 0;
};

/// A file with this text, synced. Its folder is not.
void write_text(const Path& path, std::string_view text);
std::string read_text(const Path& path);

/// Waits until the names in a folder are on disk.
void sync_folder(const Path& folder);
/// Makes a folder, and those it lies in; each that is new is on disk then.
void make_folders(const Path& folder);
/// Makes a folder that must not be there.
void make_folder(const Path& folder);
/// Gives a file or folder another name in the same folder, which is synced then. If `replaces`, the name may be that of
/// another folder: both change names at once, or one after the other where the file system cannot do that.
void rename_synced(const Path& from, const Path& to, bool replaces = false);
/// Removes a folder with all that is in it, if it is there.
void remove_folder(const Path& folder);

/// Whoever has it is the only one that writes checkpoints to a folder. It is given up when it goes or the process ends.
/// Where the file system has no locks there is none.
class FolderLock {
 public:
  /// Waits for so long at most while others have it.
  FolderLock(const Path& folder, std::chrono::milliseconds timeout);

 private:
  FileDescriptor file_;
};

}  // namespace shoal::checkpoints
