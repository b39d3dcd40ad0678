#include "base/safe_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

namespace shoal {

namespace {

[[noreturn]] void fail(int error, const std::filesystem::path& name, const std::string& why = "") {
  const std::string quoted = '"' + name.string() + '"';
  throw std::system_error(error, std::generic_category(), why.empty() ? quoted : quoted + ": " + why);
}

void check(int file, const std::filesystem::path& name) {
  struct stat status {};
  if (fstat(file, &status) != 0) fail(errno, name);
  if (S_ISCHR(status.st_mode)) return;  // Only root makes devices.
  if (!S_ISREG(status.st_mode)) fail(EPERM, name, "it is no regular file");
  if (status.st_uid != geteuid()) {
    fail(EPERM, name, "it belongs to another user, with number " + std::to_string(status.st_uid) + "; remove it first");
  }
  if (status.st_nlink != 1) fail(EPERM, name, "it has another name, under which it would change, too; remove it first");
  if (ftruncate(file, 0) != 0) fail(errno, name);
}

}  // namespace

FileDescriptor create_file(const std::filesystem::path& name, mode_t mode) {
  constexpr int kFlags = O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  constexpr int kMostTries = 100;  // Another process may make and remove it all the time.
  for (int i = 0; i < kMostTries; ++i) {
    FileDescriptor made(open(name.c_str(), kFlags | O_CREAT | O_EXCL, mode));
    if (made) return made;
    if (errno != EEXIST) fail(errno, name);
    FileDescriptor found(open(name.c_str(), kFlags));
    if (found) {
      check(found.get(), name);
      return found;
    }
    if (errno == ELOOP) fail(ELOOP, name, "it is a link, which is not followed; remove it, or name what it leads to");
    if (errno != ENOENT) fail(errno, name);
  }
  fail(EAGAIN, name);
}

FileStream create_file_stream(const std::filesystem::path& name) {
  FileDescriptor file = create_file(name);
  FileStream stream(fdopen(file.get(), "w"));
  if (stream == nullptr) fail(errno, name);
  file.release();
  return stream;
}

void write_file(const std::filesystem::path& name, std::string_view bytes, mode_t mode) {
  const FileDescriptor file = create_file(name, mode);
  while (!bytes.empty()) {
    const ssize_t written = write(file.get(), bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) fail(errno, name);
    if (written > 0) bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace shoal
