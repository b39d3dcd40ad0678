// Copies elements that lie at strides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace shoal {

/// Copies `count` elements of kSize bytes that lie at strides, in bytes, of any sign. The two do not overlap.
template <std::size_t kSize>
void copy_elements(const std::byte* from, std::int64_t from_stride, std::byte* to, std::int64_t to_stride,
                   std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) std::memcpy(to + i * to_stride, from + i * from_stride, kSize);
}

/// Calls f(std::integral_constant<std::size_t, size>()) for a size of 1, 2, 4, 8, 16, 32 or 64 bytes, so that no
/// function is called to copy so few. False for others.
template <class F>
bool with_element_size(std::size_t size, F&& f) {
  const auto run = [&]<std::size_t kSize>() {
    f(std::integral_constant<std::size_t, kSize>());
    return true;
  };
  switch (size) {
    case 1:
      return run.template operator()<1>();
    case 2:
      return run.template operator()<2>();
    case 4:
      return run.template operator()<4>();
    case 8:
      return run.template operator()<8>();
    case 16:
      return run.template operator()<16>();
    case 32:
      return run.template operator()<32>();
    case 64:
      return run.template operator()<64>();
    default:
      return false;
  }
}

}  // namespace shoal
