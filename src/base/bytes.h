// Values as a sequence of bytes, to be stored and read back in the same order.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "shoal/error.h"

namespace shoal {

class ByteWriter {
 public:
  void number(std::int64_t value) { bytes_.append(reinterpret_cast<const char*>(&value), sizeof value); }
  void flag(bool value) { bytes_.push_back(value ? '\1' : '\0'); }
  /// Its length first.
  void text(std::string_view value) {
    number(static_cast<std::int64_t>(value.size()));
    bytes_.append(value);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

/// Reads what a ByteWriter wrote. Throws InvalidArgument where the bytes end too early, or are none that it writes.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : bytes_(bytes) {}

  std::int64_t number() {
    std::int64_t value = 0;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  bool flag() {
    const char value = take(1)[0];
    if (value != '\0' && value != '\1') throw InvalidArgument("a byte that is neither 0 nor 1 where one must be");
    return value != '\0';
  }
  /// A number of things that follow, each of `least` bytes or more.
  std::size_t count(std::size_t least) {
    const std::int64_t value = number();
    if (value < 0 || static_cast<std::size_t>(value) > bytes_.size() / least) fail();
    return static_cast<std::size_t>(value);
  }
  std::string_view text() {
    const std::int64_t size = number();
    if (size < 0) fail();
    return take(static_cast<std::size_t>(size));
  }
  bool at_end() const { return bytes_.empty(); }

 private:
  std::string_view take(std::size_t size) {
    if (size > bytes_.size()) fail();
    const std::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return taken;
  }
  [[noreturn]] static void fail() { throw InvalidArgument("the bytes end where more should follow"); }

  std::string_view bytes_;
};

/// The FNV-1a hash of some bytes: tells accidents, not attacks.
inline std::int64_t checksum_of(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return static_cast<std::int64_t>(hash);
}

}  // namespace shoal
