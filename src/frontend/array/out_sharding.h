// `out_sharding`: how Explicit axes split the result of a function, where the user says it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "shoal/explicit_axes.h"

namespace shoal {

/// The array with its type no longer saying how these axes split it, or any where none are given. Nothing moves.
Array relaxed(const Array& array, const std::vector<std::string>& axes = {});

/// The same for all axes but those over which the array is unreduced, as it stays.
Array relaxed_but_unreduced(const Array& array);

/// The same for an array with elements that no transformation is at work on.
Array relaxed_at_once(const Array& array, const std::vector<std::string>& axes);

/// Throws InvalidArgument or IndivisibleError unless an array of the shape can have a type that says how it is split
/// like this.
void check_out_sharding(const NamedSharding& sharding, const Shape& shape);

/// Throws InvalidArgument unless an out_sharding is unreduced and reduced over the same axes as the array.
void check_summed_alike(const Array& array, const NamedSharding& sharding);
/// Whether the array is unreduced over the same axes as a sharding.
bool is_unreduced_alike(const Array& array, const NamedSharding& sharding);

/// f(operands), split as the operands imply; if out_sharding is given, as that says, and on the way as the compiler
/// chooses.
template <class F>
Array split_as(const OutSharding& out_sharding, std::vector<Array> operands, F&& f) {
  if (!out_sharding) return f(operands);
  for (Array& operand : operands) operand = relaxed(operand);
  const Array result = f(operands);
  check_out_sharding(*out_sharding, result.shape());
  return reshard(result, *out_sharding);
}

/// The same of f(array), which moves elements: an array that is unreduced as out_sharding says stays so on the way.
template <class F>
Array moved_as(const OutSharding& out_sharding, const Array& array, F&& f) {
  if (!out_sharding) return f(array);
  const Array result = f(is_unreduced_alike(array, *out_sharding) ? relaxed_but_unreduced(array) : relaxed(array));
  check_out_sharding(*out_sharding, result.shape());
  return reshard(result, *out_sharding);
}

}  // namespace shoal
