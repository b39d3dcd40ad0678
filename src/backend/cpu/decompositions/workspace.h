// How matrices lie in the memory in which they are decomposed.
#pragma once

#include <cstdint>

#include "backend/cpu/machine/workspace.h"

namespace shoal::cpu {

/// Whether an address is that of a workspace could be: what libraries compute may depend on it.
inline bool is_aligned(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 64 == 0; }

/// Elements from a line of a workspace to the next: whole cache lines, and an odd number of them, so that elements
/// below each other do not fall into the same places of the caches.
template <class T>
std::int64_t padded_stride(std::int64_t n) {
  constexpr auto kPerLine = static_cast<std::int64_t>(64 / sizeof(T));
  return (((n + kPerLine - 1) / kPerLine) | 1) * kPerLine;
}

/// Elements behind a matrix of so many rows. OpenBLAS (0.3.21) reads an element more of the vectors that it multiplies
/// complex matrices by, which is in the column behind the last one if the vector is a row.
template <class T>
std::int64_t room_to_read(std::int64_t rows) {
  return padded_stride<T>(rows);
}

}  // namespace shoal::cpu
