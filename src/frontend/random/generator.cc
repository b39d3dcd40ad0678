#include "frontend/random/generator.h"

#include <array>
#include <utility>

#include "base/caller.h"
#include "base/misuse.h"
#include "frontend/array/promotion.h"
#include "shoal/jit.h"
#include "shoal/lax.h"
#include "shoal/numpy.h"

namespace shoal::random {
namespace {

using Words = std::pair<Array, Array>;

Array word(std::uint32_t value) { return full({}, value, {.dtype = uint32}); }
Words words_of(const Array& key) { return {key[{ellipsis, 0}], key[{ellipsis, 1}]}; }
Array key_of(const Words& words) { return stack({words.first, words.second}, -1); }

Array rotated(const Array& x, int distance) { return left_shift(x, distance) | shift_right_logical(x, 32 - distance); }

// Threefry with 20 rounds on two words of 32 bits: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as
// 1, 2, 3", 2011. The words of the counter broadcast with those of the key.
Words threefry(const Words& key, const Words& counter) {
  constexpr std::array<std::array<int, 4>, 2> kRotations = {{{13, 15, 26, 6}, {17, 29, 16, 24}}};
  const std::array<Array, 3> schedule = {key.first, key.second, key.first ^ key.second ^ word(0x1BD11BDA)};
  Array x = counter.first + schedule[0];
  Array y = counter.second + schedule[1];
  for (std::size_t group = 0; group < 5; ++group) {
    for (const int distance : kRotations[group % 2]) {
      x = x + y;
      y = rotated(y, distance) ^ x;
    }
    x = x + schedule[(group + 1) % 3];
    y = y + (schedule[(group + 2) % 3] + word(static_cast<std::uint32_t>(group + 1)));
  }
  return {x, y};
}

// The positions in row-major order, in one word or two: each shard counts its own.
Array positions(const Shape& shape, Dtype dtype) {
  Array result = full({}, 0, {.dtype = dtype});
  const Dims strides = row_major_strides(shape);
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const Array along = lax::broadcasted_iota(dtype, shape, static_cast<std::int64_t>(d));
    result = result + along * full({}, strides[d], {.dtype = dtype});
  }
  return result;
}

Words counters(const Shape& shape) {
  if (num_elements(shape) <= std::int64_t{1} << 32) return {word(0), positions(shape, uint32)};
  const Array wide = positions(shape, uint64);
  return {convert(shift_right_logical(wide, 32), uint32), convert(wide, uint32)};
}

}  // namespace

Dtype unsigned_of(std::int64_t bit_width) {
  switch (bit_width) {
    case 8:
      return uint8;
    case 16:
      return uint16;
    case 32:
      return uint32;
    default:
      return uint64;
  }
}

Array single_key(const Operand& key) {
  const Array array = to_array(key);
  if (array.dtype() != uint32 || array.ndim() == 0 || array.shape().back() != 2) {
    throw misuse<TypeMismatch>("the key is {}; a key is uint32[2], as PRNGKey, split and fold_in make them",
                               type_of(array));
  }
  if (array.ndim() > 1) {
    throw misuse<InvalidArgument>("takes one key, but {} holds {}; vmap takes each", type_of(array), array.size() / 2);
  }
  return array;
}

// Each is one program, also where operations run at once.

Array random_bits(const Array& key, std::int64_t bit_width, const Shape& shape) {
  static const auto& program = *new auto(jit(
      [](const Array& own, std::int64_t width, const Shape& extents) {
        const auto [high, low] = threefry(words_of(own), counters(extents));
        if (width == 64) return left_shift(convert(high, uint64), 32) | convert(low, uint64);
        return convert(high ^ low, unsigned_of(width));
      },
      {.name = "random_bits"}));
  return program(key, bit_width, shape, Caller::line());
}

Array split_key(const Array& key, const Shape& shape) {
  static const auto& program = *new auto(
      jit([](const Array& own, const Shape& extents) { return key_of(threefry(words_of(own), counters(extents))); },
          {.name = "split"}));
  return program(key, shape, Caller::line());
}

Array fold_in_key(const Array& key, const Array& data) {
  static const auto& program = *new auto(jit(
      [](const Array& own, const Array& number) {
        return key_of(threefry(words_of(own), {word(0), number}));
      },
      {.name = "fold_in"}));
  return program(key, data, Caller::line());
}

Array subkey(const Array& key, std::uint32_t i) { return fold_in_key(key, word(i)); }

Array key_of_seed(const Array& seed) {
  const bool is_wide = size_of(seed.dtype()) == size_of(uint64);
  const Array high = is_wide ? convert(shift_right_logical(seed, 32), uint32) : word(0);
  return key_of({high, convert(seed, uint32)});
}

Array key_at(const Array& keys, std::int64_t i) { return keys[i]; }

}  // namespace shoal::random
