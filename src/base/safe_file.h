// Files to write whose names others may know, in folders that others may write to.
//
// There another user can put a link, or a file of his own, under the name before the file is made. Opened as usual, the
// link would be followed and what it leads to overwritten, with the rights of this user.
#pragma once

#include <sys/types.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string_view>

#include "base/file_descriptor.h"

namespace shoal {

/// Opens a file for reading and writing, and empties it; makes it, with this mode less the umask, if there is none.
/// A file that is there must be a regular one of this user, with no other name, and no link. A device such as
/// /dev/null will do. Throws std::system_error, which says what is wrong.
FileDescriptor create_file(const std::filesystem::path& name, mode_t mode = 0666);

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using FileStream = std::unique_ptr<std::FILE, CloseFile>;

/// The same for many small pieces, by the C library.
FileStream create_file_stream(const std::filesystem::path& name);

/// Makes a file that has these bytes. Throws std::system_error as create_file(), and if they cannot be written.
void write_file(const std::filesystem::path& name, std::string_view bytes, mode_t mode = 0666);

}  // namespace shoal
