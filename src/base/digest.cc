#include "base/digest.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace shoal {

// XXH3 of Yann Collet, https://xxhash.com: as fast as memory.
Digest digest_of(const void* data, std::size_t bytes, const Digest& seed) {
  const XXH128_hash_t hash = XXH3_128bits_withSeed(data, bytes, seed[0] ^ (seed[1] * 0x9E3779B97F4A7C15U));
  return {hash.low64, hash.high64};
}

Digest digest_of(const Digest& digest, std::uint64_t number) {
  const std::uint64_t words[] = {digest[0], digest[1], number};
  return digest_of(words, sizeof words);
}

}  // namespace shoal
