// Machine code as files keep it: where it is entered, then the code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace shoal::cpu {

struct CodeImage {
  std::string_view bytes;  ///< To be put at the start of a page.
  std::size_t entry = 0;   ///< Where in it the function begins.
};

inline std::string pack(const CodeImage& image) {
  const auto entry = static_cast<std::int64_t>(image.entry);
  std::string packed(reinterpret_cast<const char*>(&entry), sizeof entry);
  packed += image.bytes;
  return packed;
}

/// The image in these bytes, which it refers to; none unless they are what pack() makes, and the entry lies within the
/// code.
inline std::optional<CodeImage> image_in(std::string_view packed) {
  std::int64_t entry = 0;
  if (packed.size() < sizeof entry) return std::nullopt;
  std::memcpy(&entry, packed.data(), sizeof entry);
  packed.remove_prefix(sizeof entry);
  if (entry < 0 || static_cast<std::uint64_t>(entry) >= packed.size()) return std::nullopt;
  return CodeImage{packed, static_cast<std::size_t>(entry)};
}

}  // namespace shoal::cpu
