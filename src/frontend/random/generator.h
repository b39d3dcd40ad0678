// What random numbers are made of: bits that depend on a key and a position, and keys made of keys.
//
// A key is an element of the dtype of its implementation, or a raw one of the default implementation: two or four u32
// along the last dimension. What is made of a key is of its kind. Nothing outside of generator.cc looks into one. Bits
// are those of JAX; each depends on the key and on its own position only, so that a shard makes its part by itself.
#pragma once

#include <cstdint>
#include <string>

#include "frontend/array/key_mode.h"
#include "shoal/array.h"
#include "shoal/random.h"

namespace shoal::random {

/// The implementation of a name. Throws InvalidArgument for other names.
KeyImplementation implementation_named(const Implementation& name);
/// That of keys.
KeyImplementation implementation_of(const Array& keys);
std::string name_of(KeyImplementation implementation);
Dtype dtype_of_keys(KeyImplementation implementation);

/// Keys in any shape. Throws TypeMismatch for what is none.
Array any_keys(const Operand& keys);
/// The one key that an operand is. Throws TypeMismatch for what is no key, and InvalidArgument for an array of keys.
Array single_key(const Operand& key);

/// The unsigned integers of 8, 16, 32 or 64 bits.
Dtype unsigned_of(std::int64_t bit_width);
/// Random bits in a shape, as unsigned integers of bit_width 8, 16, 32 or 64. Uses the key.
Array random_bits(const Array& key, std::int64_t bit_width, const Shape& shape);
/// Keys in a shape; the array of raw ones has a further dimension. Uses the key.
Array split_key(const Array& key, const Shape& shape);
/// A key made of a key and a u32 scalar.
Array fold_in_key(const Array& key, const Array& data);
/// The raw key of an implementation that an integer scalar stands for.
Array raw_key_of_seed(const Array& seed, KeyImplementation implementation);
/// Raw keys as keys of an implementation. Throws TypeMismatch for what has not its number of words.
Array typed_keys(const Array& words, KeyImplementation implementation);
/// The words of keys; raw ones stay.
Array raw_keys(const Array& keys);
/// A key that is used here, for a program that uses a clone of it.
Array used_key(const Array& key);
/// Keys of their own, which nobody has used, of the same words.
Array cloned_keys(const Array& keys);
/// The i-th of the keys that split_key makes, alone. Of many keys in places of vmap that is faster than an array of few
/// in each place.
Array subkey(const Array& key, std::uint32_t i);
/// The i-th key along the first dimension of an array of keys.
Array key_at(const Array& keys, std::int64_t i);

}  // namespace shoal::random
