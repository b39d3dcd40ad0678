#include "frontend/random/generator.h"

#include <array>
#include <cstddef>
#include <utility>

#include "base/caller.h"
#include "base/misuse.h"
#include "frontend/array/promotion.h"
#include "frontend/array/trace.h"
#include "shoal/jit.h"
#include "shoal/lax.h"
#include "shoal/numpy.h"

namespace shoal::random {
namespace {

struct ImplementationFacts {
  const char* name;
  Dtype dtype;
};

// In the order of KeyImplementation.
constexpr std::array<ImplementationFacts, kNumKeyDtypes> kImplementations = {{
    {"threefry2x32", key_fry},
    {"rbg", key_rbg},
    {"unsafe_rbg", key_urbg},
}};

const ImplementationFacts& facts_of(KeyImplementation implementation) {
  return kImplementations.at(static_cast<std::size_t>(implementation));
}

// How many u32 a key is made of.
std::int64_t num_words(KeyImplementation implementation) {
  return static_cast<std::int64_t>(size_of(facts_of(implementation).dtype) / size_of(uint32));
}

// ---- A key of threefry2x32, a counter and what is made of both are two words of 32 bits in a u64, of which the lower
// ---- half is the first. A key of the others is two such pairs.

Array read_as(Dtype dtype, const Array& x) { return bind_one("bitcast", {{"dtype", dtype}}, {x}); }

struct Halves {
  Array first, second;
};

Array pair_of(const Array& key) { return read_as(uint64, key); }
Halves halves_of(const Array& key) {
  const Array pairs = read_as(uint64, is_key(key.dtype()) ? key : reshape(key, {2, 2}));
  return {pairs[0], pairs[1]};
}

// Keys of the kind that `like` is.
Array key_of(const Array& pair, const Array& like) { return read_as(like.dtype(), pair); }
Array key_of(const Halves& halves, const Array& like) {
  const Array made = read_as(like.dtype(), stack({halves.first, halves.second}, -1));
  if (is_key(like.dtype())) return made;
  Shape shape = halves.first.shape();
  shape.push_back(4);
  return reshape(made, shape);
}

Array with_second_word(const Array& word) { return left_shift(convert(word, uint64), 32); }
Array swapped(const Array& pair) { return left_shift(pair, 32) | shift_right_logical(pair, 32); }
Array u64(std::uint64_t value) { return full({}, value, {.dtype = uint64}); }

// What threefry2x32 makes of a key and a counter.
Array hashed(const Array& pair, const Array& counter) { return bind_one("threefry2x32", {}, {pair, counter}); }

// The i-th pair of words of the stream that the others draw from.
Array drawn(const Halves& key, const Array& i) { return bind_one("philox4x32", {}, {key.first, key.second, i}); }

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

// ---- Each implementation.

Array threefry_bits(const Array& key, std::int64_t width, const Shape& shape) {
  const Array pair = hashed(pair_of(key), counters(shape));
  if (width == 64) return swapped(pair);
  return convert(convert(pair, uint32) ^ convert(shift_right_logical(pair, 32), uint32), unsigned_of(width));
}

Array philox_bits(const Array& key, std::int64_t width, const Shape& shape) {
  const Array position = positions(shape, uint64);
  if (width == 64) return drawn(halves_of(key), position);
  const Array pair = drawn(halves_of(key), shift_right_logical(position, 1));
  const Array word = shift_right_logical(pair, left_shift(position & u64(1), 5));
  return convert(convert(word, uint32), unsigned_of(width));
}

// A key of unsafe_rbg is one block of ten, so that there are twenty pairs to each.
constexpr std::uint64_t kPairsOfKey = 20;

Halves block_at(const Halves& key, const Array& pair) { return {drawn(key, pair), drawn(key, pair + u64(1))}; }

// The last block of those that the number gives as a key, with the key.
Halves unsafe_fold(const Halves& key, const Array& number) {
  const Array seed = with_second_word(number);
  const Halves block = block_at({seed, seed}, u64(kPairsOfKey - 2));
  return {key.first ^ block.first, key.second ^ block.second};
}

Halves hashed(const Halves& key, const Array& counter) {
  return {hashed(key.first, counter), hashed(key.second, counter)};
}

}  // namespace

// ---- Keys.

KeyImplementation implementation_named(const Implementation& name) {
  if (!name) return key_mode().implementation;
  for (std::size_t i = 0; i < kImplementations.size(); ++i) {
    if (*name == kImplementations.at(i).name) return static_cast<KeyImplementation>(i);
  }
  throw misuse<InvalidArgument>("impl '{}' does not exist; there are 'threefry2x32', 'rbg' and 'unsafe_rbg'", *name);
}

KeyImplementation implementation_of(const Array& keys) {
  for (std::size_t i = 0; i < kImplementations.size(); ++i) {
    if (keys.dtype() == kImplementations.at(i).dtype) return static_cast<KeyImplementation>(i);
  }
  return key_mode().implementation;
}

std::string name_of(KeyImplementation implementation) { return facts_of(implementation).name; }
Dtype dtype_of_keys(KeyImplementation implementation) { return facts_of(implementation).dtype; }

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
  if (is_key(array.dtype())) return array;
  const KeyImplementation implementation = key_mode().implementation;
  const std::int64_t words = num_words(implementation);
  if (array.dtype() == uint32 && array.ndim() > 0 && array.shape().back() == words) return array;
  throw misuse<TypeMismatch>(
      "the key is {}; keys are made by key, split and fold_in, or raw ones of the default implementation '{}', "
      "uint32[{}], by PRNGKey, and wrap_key_data makes keys of the words of others",
      type_of(array), name_of(implementation), words);
}

Array single_key(const Operand& key) {
  const Array array = any_keys(key);
  const bool is_raw = !is_key(array.dtype());
  if (array.ndim() > (is_raw ? 1 : 0)) {
    throw misuse<InvalidArgument>("takes one key, but {} holds {}; vmap takes each", type_of(array),
                                  is_raw ? array.size() / array.shape().back() : array.size());
  }
  return array;
}

Array typed_keys(const Array& words, KeyImplementation implementation) {
  const std::int64_t wanted = num_words(implementation);
  if (words.dtype() != uint32 || words.ndim() == 0 || words.shape().back() != wanted) {
    throw misuse<TypeMismatch>("the words are {}; keys of '{}' are made of uint32[..., {}]", type_of(words),
                               name_of(implementation), wanted);
  }
  return read_as(dtype_of_keys(implementation), words);
}

Array raw_keys(const Array& keys) { return is_key(keys.dtype()) ? read_as(uint32, keys) : keys; }

Array used_key(const Array& key) {
  if (!key_mode().checks_reuse || !is_key(key.dtype())) return key;
  return bind_one("use_key", {{"function", std::string(Caller::function_or("random"))}}, {key});
}

Array cloned_keys(const Array& keys) {
  return key_mode().checks_reuse && is_key(keys.dtype()) ? bind_one("clone_key", {}, {keys}) : keys;
}

Array raw_key_of_seed(const Array& seed, KeyImplementation implementation) {
  const bool is_wide = size_of(seed.dtype()) == size_of(uint64);
  const Array pair = is_wide ? swapped(convert(seed, uint64)) : with_second_word(convert(seed, uint32));
  const Array words = read_as(uint32, pair);
  return num_words(implementation) == 2 ? words : concatenate({words, words});
}

// ---- Each is one program, also where operations run at once.

Array random_bits(const Array& key, std::int64_t bit_width, const Shape& shape) {
  static const auto& program = *new auto(jit(
      [](const Array& own, std::int64_t width, const Shape& extents) {
        const bool is_threefry = implementation_of(own) == KeyImplementation::kThreefry;
        return is_threefry ? threefry_bits(own, width, extents) : philox_bits(own, width, extents);
      },
      {.name = "random_bits"}));
  return program(used_key(key), bit_width, shape, Caller::line());
}

Array split_key(const Array& key, const Shape& shape) {
  static const auto& program = *new auto(jit(
      [](const Array& own, const Shape& extents) {
        switch (implementation_of(own)) {
          case KeyImplementation::kThreefry:
            return key_of(hashed(pair_of(own), counters(extents)), own);
          case KeyImplementation::kRbg:
            return key_of(hashed(halves_of(own), counters(extents)), own);
          case KeyImplementation::kUnsafeRbg:
            break;
        }
        return key_of(block_at(halves_of(own), positions(extents, uint64) * u64(kPairsOfKey)), own);
      },
      {.name = "split"}));
  return program(used_key(key), shape, Caller::line());
}

Array fold_in_key(const Array& key, const Array& data) {
  static const auto& program = *new auto(jit(
      [](const Array& own, const Array& number) {
        switch (implementation_of(own)) {
          case KeyImplementation::kThreefry:
            return key_of(hashed(pair_of(own), with_second_word(number)), own);
          case KeyImplementation::kRbg:
            return key_of(hashed(halves_of(own), with_second_word(number)), own);
          case KeyImplementation::kUnsafeRbg:
            break;
        }
        return key_of(unsafe_fold(halves_of(own), number), own);
      },
      {.name = "fold_in"}));
  return program(key, data, Caller::line());
}

Array subkey(const Array& key, std::uint32_t i) {
  // Of the others it is what the number folds in.
  if (implementation_of(key) != KeyImplementation::kUnsafeRbg) return fold_in_key(key, full({}, i, {.dtype = uint32}));
  return key_of(block_at(halves_of(key), u64(i * kPairsOfKey)), key);
}

Array key_at(const Array& keys, std::int64_t i) { return keys[i]; }

}  // namespace shoal::random
