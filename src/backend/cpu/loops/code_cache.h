// Files of machine code, kept between runs and shared by the processes of a user.
//
// A file is written under a name of its own and then renamed, so that it is seen whole or not at all. Each holds its
// key and a checksum: one that is truncated, damaged or of another key is removed, and its code made anew. Where files
// cannot be read or written there is no cache, and no error.
//
// The checksum tells accidents. Against others there is the file itself: it must be a regular one of this user, with no
// other name, that nobody else may write to. Who can make such files is this user, and can run code of his anyway; a
// key for a keyed hash would be his, too.
#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace shoal::cpu {

class CodeCache {
 public:
  static constexpr std::uint64_t kDefaultLimit = std::uint64_t{128} << 20;

  /// Files in `folder`, which is made when first needed, of at most about `limit` bytes together; when there are more,
  /// those unused for longest are removed. Without a folder nothing is kept.
  explicit CodeCache(std::optional<std::filesystem::path> folder, std::uint64_t limit = kDefaultLimit);

  /// SHOAL_CACHE_DIR; if it is unset, XDG_CACHE_HOME/shoal or HOME/.cache/shoal. None if SHOAL_CACHE_DIR is empty.
  static std::optional<std::filesystem::path> default_folder();

  /// The value kept for the key. Thread-safe.
  std::optional<std::string> find(std::string_view key) const;

  /// Keeps a value, in the place of any other. Thread-safe.
  void keep(std::string_view key, std::string_view value);

 private:
  std::filesystem::path file_of(std::string_view key) const;
  void remove_oldest() const;

  std::optional<std::filesystem::path> folder_;
  std::uint64_t limit_;
  std::mutex mutex_;       // Guards what follows.
  std::uint64_t written_;  // Bytes since it was last seen how many there are.
};

}  // namespace shoal::cpu
