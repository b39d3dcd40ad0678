#include <array>
#include <cstddef>
#include <cstdint>

#include "ops/scalar/math.h"

namespace shoal::scalar {
namespace {

constexpr Dtype kWord = Dtype::kU32;

struct WordPair {
  Expr first, second;
};

WordPair words_of(Expr pair) { return {convert(pair, kWord), convert(pair >> 32, kWord)}; }

}  // namespace

Expr threefry2x32(Expr key, Expr counter) {
  constexpr std::array<std::array<int, 4>, 2> kRotations = {{{13, 15, 26, 6}, {17, 29, 16, 24}}};
  const auto [first, second] = words_of(key);
  const std::array<Expr, 3> schedule = {first, second, first ^ second ^ first.like(0x1BD11BDA)};
  auto [x, y] = words_of(counter);
  x = x + schedule[0];
  y = y + schedule[1];
  for (std::size_t group = 0; group < 5; ++group) {
    for (const int distance : kRotations[group % 2]) {
      x = x + y;
      y = rotate(y, distance) ^ x;
    }
    x = x + schedule[(group + 1) % 3];
    y = y + (schedule[(group + 2) % 3] + static_cast<double>(group + 1));
  }
  return convert(x, key.dtype()) | (convert(y, key.dtype()) << 32);
}

}  // namespace shoal::scalar
