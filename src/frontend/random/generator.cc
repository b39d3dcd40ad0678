#include "frontend/random/generator.h"

#include "base/caller.h"
#include "base/misuse.h"
#include "frontend/array/promotion.h"
#include "frontend/array/trace.h"
#include "shoal/jit.h"
#include "shoal/lax.h"
#include "shoal/numpy.h"

namespace shoal::random {
namespace {

// A key, a counter and what is made of both are two words of 32 bits in a u64, of which the lower half is the first.

Array read_as(Dtype dtype, const Array& x) { return bind_one("bitcast", {{"dtype", dtype}}, {x}); }

Array pair_of(const Array& key) { return read_as(uint64, key); }
// Keys of the kind that `like` is.
Array key_of(const Array& pair, const Array& like) { return read_as(like.dtype(), pair); }
Array with_second_word(const Array& word) { return left_shift(convert(word, uint64), 32); }
Array swapped(const Array& pair) { return left_shift(pair, 32) | shift_right_logical(pair, 32); }

Array threefry(const Array& key, const Array& counter) { return bind_one("threefry2x32", {}, {pair_of(key), counter}); }

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

Array counters(const Shape& shape) {
  if (num_elements(shape) <= std::int64_t{1} << 32) return with_second_word(positions(shape, uint32));
  return swapped(positions(shape, uint64));
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

Array any_keys(const Operand& keys) {
  const Array array = to_array(keys);
  const bool is_raw = array.dtype() == uint32 && array.ndim() > 0 && array.shape().back() == 2;
  if (is_key(array.dtype()) || is_raw) return array;
  throw misuse<TypeMismatch>("the key is {}; keys are made by key, split and fold_in, or uint32[2] by PRNGKey",
                             type_of(array));
}

Array single_key(const Operand& key) {
  const Array array = any_keys(key);
  const bool is_raw = !is_key(array.dtype());
  if (array.ndim() > (is_raw ? 1 : 0)) {
    throw misuse<InvalidArgument>("takes one key, but {} holds {}; vmap takes each", type_of(array),
                                  array.size() / (is_raw ? 2 : 1));
  }
  return array;
}

Array typed_keys(const Array& keys) { return is_key(keys.dtype()) ? keys : read_as(key_fry, keys); }
Array raw_keys(const Array& keys) { return is_key(keys.dtype()) ? read_as(uint32, keys) : keys; }

// Each is one program, also where operations run at once.

Array random_bits(const Array& key, std::int64_t bit_width, const Shape& shape) {
  static const auto& program = *new auto(jit(
      [](const Array& own, std::int64_t width, const Shape& extents) {
        const Array pair = threefry(own, counters(extents));
        if (width == 64) return swapped(pair);
        return convert(convert(pair, uint32) ^ convert(shift_right_logical(pair, 32), uint32), unsigned_of(width));
      },
      {.name = "random_bits"}));
  return program(key, bit_width, shape, Caller::line());
}

Array split_key(const Array& key, const Shape& shape) {
  static const auto& program = *new auto(
      jit([](const Array& own, const Shape& extents) { return key_of(threefry(own, counters(extents)), own); },
          {.name = "split"}));
  return program(key, shape, Caller::line());
}

Array fold_in_key(const Array& key, const Array& data) {
  static const auto& program = *new auto(
      jit([](const Array& own, const Array& number) { return key_of(threefry(own, with_second_word(number)), own); },
          {.name = "fold_in"}));
  return program(key, data, Caller::line());
}

Array subkey(const Array& key, std::uint32_t i) { return fold_in_key(key, full({}, i, {.dtype = uint32})); }

Array raw_key_of_seed(const Array& seed) {
  if (size_of(seed.dtype()) < size_of(uint64)) return read_as(uint32, with_second_word(convert(seed, uint32)));
  return read_as(uint32, swapped(convert(seed, uint64)));
}

Array key_at(const Array& keys, std::int64_t i) { return keys[i]; }

}  // namespace shoal::random
