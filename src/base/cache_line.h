#pragma once

#include <cstddef>

namespace shoal {

inline constexpr std::size_t kCacheLine = 64;  ///< Bytes that move between memory and a core together.

}  // namespace shoal
