// Digests of 128 bits: equal for equal bytes in all processes, different for different ones but by a chance of 2^-64 or
// so. Not a secret.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shoal {

/// 128 bits that tell programs, or data, apart.
using Digest = std::array<std::uint64_t, 2>;

/// Of bytes. Chain digests by `seed`.
Digest digest_of(const void* data, std::size_t bytes, const Digest& seed = {});
inline Digest digest_of(std::string_view text, const Digest& seed = {}) {
  return digest_of(text.data(), text.size(), seed);
}
/// Of another digest and a number.
Digest digest_of(const Digest& digest, std::uint64_t number);

}  // namespace shoal
