// What this program does to files, as the kernel is told it, and what a disk would hold if the machine stopped.
//
// This test program has its own open, write, fsync, rename and their like (recorded_files.cc), which the library and
// the C++ runtime call in place of the system's. They record, and call those.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace shoal::crashes {

struct FileEvent {
  enum class Kind : std::uint8_t {
    kMakeFolder,
    kMakeFile,
    kWrite,
    kSync,  ///< Of a file or a folder.
    kRename,
    kExchange,
    kRemove,
    kMark,  ///< Of the test.
  };
  Kind kind = Kind::kMark;
  std::string path = {};
  std::string other = {};  ///< The new name; the name of a mark.
  std::int64_t offset = 0;
  std::string data = {};
};

/// Begins to record what happens below a folder.
void record_below(const std::filesystem::path& folder);
/// Ends it, and gives what was recorded.
std::vector<FileEvent> recorded();
/// A point in the record.
void mark(const std::string& name);

/// While it is set, each of these calls is asked about first: a number other than 0 is the error that it fails with.
void fail_calls(std::function<int(const FileEvent&)> error_of);

/// What becomes of names (made, renamed, removed) whose folder was not synced since.
enum class Unsynced : std::uint8_t {
  kLost,      ///< All are as they were.
  kKept,      ///< All are on disk, though data that was not synced is not.
  kSomeKept,  ///< The first half of them is.
};

/// Makes `folder` as a disk would have it after a stop behind the first `count` events: data that was not synced is
/// gone. `root` is the folder that was recorded.
void replay(const std::vector<FileEvent>& events, std::size_t count, Unsynced unsynced,
            const std::filesystem::path& root, const std::filesystem::path& folder);

}  // namespace shoal::crashes
