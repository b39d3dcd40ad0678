#include "backend/cpu/products/tiles_agree.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <type_traits>
#include <vector>

#include "backend/cpu/products/libraries.h"

namespace shoal::cpu {
namespace {

template <class T>
bool tiles_agree(BlasApi::Gemm<T> gemm, const BlasProductKind& kind) {
  struct Tile {
    std::size_t row, rows, column, columns;
  };
  const std::size_t odd = kind.even ? 0 : 5;
  const Tile whole{0, 256 + odd, 0, 256 + odd};
  const Tile tiles[] = {{0, 128, 0, 128}, {128, 128 + odd, 128, 128 + odd}};
  constexpr std::size_t kInner = 450;  // Tiles have just more multiplications than 7.4 million.
  const auto agree = [&] {
    // Sums of which the last bits depend on the order.
    const auto numbers = [](std::size_t n) {
      std::vector<T> all(n);
      std::uint32_t state = 1;
      const auto next = [&state] {
        state = state * 1664525 + 1013904223;
        return static_cast<float>(state >> 8U) / 16777216.0F - 0.5F;
      };
      for (T& x : all) {
        if constexpr (std::is_floating_point_v<T>) {
          x = static_cast<T>(next());
        } else {
          const float real = next();
          x = T(real, next());
        }
      }
      return all;
    };
    const std::vector<T> lhs = numbers(whole.rows * kInner);
    const std::vector<T> rhs = numbers(kInner * whole.columns);
    const auto multiply = [&](const Tile& tile) {
      std::vector<T> out(tile.rows * tile.columns);
      const auto matrix = [](const T* data, std::size_t rows, std::size_t columns, bool transposed) {
        return BlasMatrix<const T>{data, static_cast<std::int32_t>(transposed ? rows : columns), transposed};
      };
      gemm({static_cast<std::int32_t>(tile.rows), static_cast<std::int32_t>(tile.columns), std::int32_t{kInner}},
           matrix(&lhs[kind.lhs_transposed ? tile.row : tile.row * kInner], whole.rows, kInner, kind.lhs_transposed),
           matrix(&rhs[kind.rhs_transposed ? tile.column * kInner : tile.column], kInner, whole.columns,
                  kind.rhs_transposed),
           {out.data(), static_cast<std::int32_t>(tile.columns)});
      return out;
    };
    const std::vector<T> all = multiply(whole);
    return std::ranges::all_of(tiles, [&](const Tile& tile) {
      const std::vector<T> out = multiply(tile);
      for (std::size_t row = 0; row < tile.rows; ++row) {
        const T* expected = &all[(tile.row + row) * whole.columns + tile.column];
        if (std::memcmp(expected, &out[row * tile.columns], tile.columns * sizeof(T)) != 0) return false;
      }
      return true;
    });
  };
  static std::array<std::once_flag, 8> tried;
  static std::array<bool, 8> results;
  const std::size_t at = (kind.lhs_transposed ? 4U : 0U) + (kind.rhs_transposed ? 2U : 0U) + (kind.even ? 1U : 0U);
  std::call_once(tried[at], [&] { results[at] = agree(); });
  return results[at];
}

}  // namespace

bool blas_tiles_agree(const BlasApi& api, Dtype dtype, const BlasProductKind& kind) {
  return with_blas(api, dtype, [&](auto tag, auto gemm, auto) { return tiles_agree<decltype(tag)>(gemm, kind); });
}

}  // namespace shoal::cpu
