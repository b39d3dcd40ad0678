#include "backend/cpu/loops/code_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <vector>

#include "base/bytes.h"

namespace shoal::cpu {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "shoal code, 1";
constexpr const char* kSuffix = ".code";
constexpr const char* kUnfinished = ".part";

class File {
 public:
  // Nobody is waited for at the other end of a pipe.
  File(const fs::path& path, int flags)
      : descriptor_(open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600)) {}
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool is_open() const { return descriptor_ >= 0; }

  // Machine code of others is not run. Neither is a file that has another name: anybody who may write to the folder can
  // link one of this user there, whatever it was made for.
  bool is_own() const {
    struct stat status {};
    return fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
           (status.st_mode & (S_IWGRP | S_IWOTH)) == 0 && status.st_nlink <= 1;
  }

  // None if there are more than so many.
  std::optional<std::string> read_all(std::uint64_t most) const {
    std::string bytes;
    char part[1 << 14];
    for (ssize_t n = 0; (n = read(descriptor_, part, sizeof part)) > 0;) {
      bytes.append(part, static_cast<std::size_t>(n));
      if (bytes.size() > most) return std::nullopt;
    }
    return bytes;
  }

  bool write_all(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t n = write(descriptor_, bytes.data(), bytes.size());
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }

  void touch() const { futimens(descriptor_, nullptr); }

 private:
  int descriptor_;
};

std::string pack(std::string_view key, std::string_view value) {
  ByteWriter content;
  content.text(key);
  content.text(value);
  ByteWriter file;
  file.text(kMagic);
  file.number(checksum_of(content.bytes()));
  return file.bytes() + content.bytes();
}

// The value of a file with this key; none if it is not exactly what pack() makes.
std::optional<std::string> unpack(std::string_view key, std::string_view file) {
  if (file.size() < 4 * sizeof(std::int64_t) + kMagic.size() + key.size()) return std::nullopt;
  std::string value(file.substr(4 * sizeof(std::int64_t) + kMagic.size() + key.size()));
  return pack(key, value) == file ? std::optional(std::move(value)) : std::nullopt;
}

}  // namespace

CodeCache::CodeCache(std::optional<fs::path> folder, std::uint64_t limit)
    : folder_(std::move(folder)), limit_(limit), written_(limit) {}

std::optional<fs::path> CodeCache::default_folder() {
  const auto variable = [](const char* name) { return std::getenv(name); };
  if (const char* folder = variable("SHOAL_CACHE_DIR")) {
    return *folder == '\0' ? std::nullopt : std::optional<fs::path>(folder);
  }
  if (const char* folder = variable("XDG_CACHE_HOME"); folder != nullptr && *folder == '/') {
    return fs::path(folder) / "shoal";
  }
  if (const char* folder = variable("HOME"); folder != nullptr && *folder == '/') {
    return fs::path(folder) / ".cache" / "shoal";
  }
  return std::nullopt;
}

fs::path CodeCache::file_of(std::string_view key) const {
  return *folder_ / fmt::format("{:016x}{}", static_cast<std::uint64_t>(checksum_of(key)), kSuffix);
}

std::optional<std::string> CodeCache::find(std::string_view key) const {
  if (!folder_) return std::nullopt;
  const fs::path path = file_of(key);
  const File file(path, O_RDONLY);
  if (!file.is_open() || !file.is_own()) return std::nullopt;
  const std::optional<std::string> content = file.read_all(limit_);
  std::optional<std::string> value = content ? unpack(key, *content) : std::nullopt;
  value ? file.touch() : static_cast<void>(unlink(path.c_str()));
  return value;
}

void CodeCache::keep(std::string_view key, std::string_view value) {
  if (!folder_) return;
  std::error_code ignored;
  fs::create_directories(folder_->parent_path(), ignored);
  mkdir(folder_->c_str(), 0700);

  static std::atomic<unsigned> number = 0;
  const fs::path path = file_of(key);
  const fs::path part = *folder_ / fmt::format("{}-{}{}", getpid(), number++, kUnfinished);
  const std::string content = pack(key, value);
  {
    const File file(part, O_WRONLY | O_CREAT | O_EXCL);
    if (!file.is_open()) return;
    if (!file.write_all(content)) {
      unlink(part.c_str());
      return;
    }
  }
  if (rename(part.c_str(), path.c_str()) != 0) unlink(part.c_str());

  const std::lock_guard lock(mutex_);
  written_ += content.size();
  if (written_ < limit_ / 8) return;
  written_ = 0;
  remove_oldest();
}

void CodeCache::remove_oldest() const {
  struct Entry {
    fs::file_time_type time;
    std::uint64_t size;
    fs::path path;
  };
  std::vector<Entry> entries;
  std::uint64_t total = 0;
  std::error_code error;
  for (fs::directory_iterator at(*folder_, error), end; !error && at != end; at.increment(error)) {
    std::error_code gone;  // By another process.
    const Entry entry{at->last_write_time(gone), gone ? 0 : at->file_size(gone), at->path()};
    if (gone) continue;
    if (entry.path.extension() == kUnfinished) {
      // Of a process that ended before it was done.
      if (fs::file_time_type::clock::now() - entry.time > std::chrono::hours(1)) fs::remove(entry.path, gone);
    } else if (entry.path.extension() == kSuffix) {
      total += entry.size;
      entries.push_back(entry);
    }
  }
  if (total <= limit_) return;
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.time < b.time; });
  for (const Entry& entry : entries) {
    if (total <= limit_ / 4 * 3) return;
    fs::remove(entry.path, error);
    total -= entry.size;
  }
}

}  // namespace shoal::cpu
