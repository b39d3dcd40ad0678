#include "checkpoints/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

#include "base/misuse.h"
#include "shoal/checkpoints.h"

namespace shoal::checkpoints {
namespace {

// Small pieces are gathered up to this many bytes.
constexpr std::size_t kGathered = std::size_t{1} << 20;
// The disk is told to begin with what has been written whenever it is this much, so that it is not idle until the end.
constexpr std::int64_t kStarted = std::int64_t{8} << 20;
// At most so much goes to the system in one call, so that the disk begins meanwhile.
constexpr std::size_t kMostAtOnce = std::size_t{4} << 20;
constexpr std::chrono::milliseconds kLockInterval{5};

[[noreturn]] void fail(std::string_view what, const Path& path, int error) {
  throw misuse<CheckpointError>("{} \"{}\": {}", what, path.string(), std::generic_category().message(error));
}

FileDescriptor opened(const Path& path, int flags, std::string_view what) {
  while (true) {
    FileDescriptor file(::open(path.c_str(), flags | O_CLOEXEC | O_NOCTTY, 0666));
    if (file) return file;
    if (errno != EINTR) fail(what, path, errno);
  }
}

void sync(int file, const Path& path) {
  while (::fsync(file) != 0) {
    if (errno != EINTR) fail("cannot write to disk", path, errno);
  }
}

}  // namespace

FileWriter::FileWriter(Path path, std::int64_t bytes)
    : path_(std::move(path)), file_(opened(path_, O_WRONLY | O_CREAT | O_EXCL, "cannot make")) {
  // Not posix_fallocate, which writes zeros where the file system cannot set space aside.
  if (bytes > 0 && ::fallocate(file_.get(), 0, 0, bytes) != 0 && (errno == ENOSPC || errno == EDQUOT)) {
    fail(fmt::format("no room for {} bytes in", bytes), path_, errno);
  }
}

void FileWriter::append(const void* data, std::size_t bytes) {
  if (bytes < kGathered) {
    gathered_.append(static_cast<const char*>(data), bytes);
    if (gathered_.size() >= kGathered) flush();
    return;
  }
  flush();
  write(static_cast<const char*>(data), bytes);
}

void FileWriter::write(const char* data, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t written = ::pwrite(file_.get(), data, std::min(bytes, kMostAtOnce), written_);
    if (written < 0) {
      if (errno == EINTR) continue;
      fail("cannot write", path_, errno);
    }
    data += written;
    bytes -= static_cast<std::size_t>(written);
    written_ += written;
    if (written_ - started_ >= kStarted) {
      // A hint: where it fails, fsync does all of it.
      static_cast<void>(::sync_file_range(file_.get(), started_, written_ - started_, SYNC_FILE_RANGE_WRITE));
      started_ = written_;
    }
  }
}

void FileWriter::flush() {
  write(gathered_.data(), gathered_.size());
  gathered_.clear();
}

void FileWriter::sync() {
  flush();
  checkpoints::sync(file_.get(), path_);
}

FileReader::FileReader(Path path) : path_(std::move(path)), file_(opened(path_, O_RDONLY, "cannot open")) {
  struct stat status {};
  if (::fstat(file_.get(), &status) != 0) fail("cannot look at", path_, errno);
  if (!S_ISREG(status.st_mode)) throw misuse<CheckpointError>("\"{}\" is no file", path_.string());
  size_ = status.st_size;
  direct_ = FileDescriptor(::open(path_.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC | O_NOCTTY));
}

void FileReader::read(std::int64_t offset, void* to, std::size_t bytes) const {
  auto* data = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = ::pread(file_.get(), data, bytes, offset);
    if (got < 0) {
      if (errno == EINTR) continue;
      fail("cannot read", path_, errno);
    }
    if (got == 0) {
      throw misuse<CheckpointError>("\"{}\" ends at byte {}, where {} more should follow", path_.string(), offset,
                                    bytes);
    }
    data += got;
    bytes -= static_cast<std::size_t>(got);
    offset += got;
  }
}

const std::byte* FileReader::read_past_memory(std::int64_t offset, std::byte* to, std::size_t bytes,
                                              std::byte* scratch) const {
  iovec part{to != nullptr ? to : scratch, bytes};
  if (::preadv2(file_.get(), &part, 1, offset, RWF_NOWAIT) == static_cast<ssize_t>(bytes)) {
    return static_cast<const std::byte*>(part.iov_base);
  }
  if (direct_) {
    constexpr auto kStep = static_cast<std::int64_t>(kBlock);
    const std::int64_t begin = offset / kStep * kStep;
    const auto skipped = static_cast<std::size_t>(offset - begin);
    const std::size_t whole = (skipped + bytes + kBlock - 1) / kBlock * kBlock;
    const bool is_straight =
        to != nullptr && reinterpret_cast<std::uintptr_t>(to) % kBlock == 0 && skipped == 0 && whole == bytes;
    std::byte* const place = is_straight ? to : scratch;
    std::size_t done = 0;
    while (done < skipped + bytes) {
      const ssize_t got = ::pread(direct_.get(), place + done, whole - done, begin + static_cast<std::int64_t>(done));
      if (got <= 0) break;  // It is read as usual then, which says what is wrong.
      done += static_cast<std::size_t>(got);
      if (done % kBlock != 0) break;  // The file ends here.
    }
    if (done >= skipped + bytes) {
      if (to == nullptr || is_straight) return place + skipped;
      std::memcpy(to, scratch + skipped, bytes);
      return to;
    }
  }
  read(offset, part.iov_base, bytes);
  return static_cast<const std::byte*>(part.iov_base);
}

void write_text(const Path& path, std::string_view text) {
  FileWriter file(path, static_cast<std::int64_t>(text.size()));
  file.append(text);
  file.sync();
}

std::string read_text(const Path& path) {
  const FileReader file(path);
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read(0, text.data(), text.size());
  return text;
}

void sync_folder(const Path& folder) {
  const FileDescriptor file = opened(folder, O_RDONLY | O_DIRECTORY, "cannot open the folder");
  sync(file.get(), folder);
}

void make_folders(const Path& folder) {
  const Path whole = std::filesystem::absolute(folder).lexically_normal();
  Path sofar;
  for (const Path& part : whole) {
    const Path parent = sofar;
    sofar /= part;
    struct stat status {};
    if (part.empty() || ::stat(sofar.c_str(), &status) == 0) continue;
    if (::mkdir(sofar.c_str(), 0777) != 0) {
      if (errno == EEXIST) continue;  // Another process was faster.
      fail("cannot make the folder", sofar, errno);
    }
    sync_folder(parent);
  }
}

void make_folder(const Path& folder) {
  if (::mkdir(folder.c_str(), 0777) != 0) fail("cannot make the folder", folder, errno);
}

void rename_synced(const Path& from, const Path& to, bool replaces) {
  bool done = false;
  if (replaces) {
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) {
      done = true;
    } else if (errno != ENOENT && errno != EINVAL && errno != ENOSYS && errno != ENOTSUP) {
      fail(fmt::format("cannot change the name of \"{}\" with", from.string()), to, errno);
    } else if (errno != ENOENT) {
      const Path aside = from.string() + ".old";
      if (::rename(to.c_str(), aside.c_str()) != 0) fail("cannot move away", to, errno);
    }
  }
  if (!done && ::rename(from.c_str(), to.c_str()) != 0) {
    fail(fmt::format("cannot rename \"{}\" to", from.string()), to, errno);
  }
  sync_folder(to.parent_path().empty() ? Path(".") : to.parent_path());
}

void remove_folder(const Path& folder) {
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  if (error && error != std::errc::no_such_file_or_directory) fail("cannot remove", folder, error.value());
}

FolderLock::FolderLock(const Path& folder, std::chrono::milliseconds timeout)
    : file_(opened(folder / ".lock", O_RDWR | O_CREAT, "cannot open")) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return;  // The file system has none.
    if (std::chrono::steady_clock::now() > end) {
      throw misuse<CheckpointError>(
          "another job has been writing checkpoints to \"{}\" for {} s; a folder is for one job at a time",
          folder.string(), std::chrono::duration_cast<std::chrono::seconds>(timeout).count());
    }
    std::this_thread::sleep_for(kLockInterval);
  }
}

}  // namespace shoal::checkpoints
