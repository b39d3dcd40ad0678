// `out_sharding`: how Explicit axes split the result of a function, where the user says it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shoal/explicit_axes.h"

namespace shoal {

/// The array with its type no longer saying how these axes split it, or any where none are given. Nothing moves.
Array relaxed(std::string_view function, const Array& array, const std::vector<std::string>& axes,
              SourceLocation where);

/// Throws InvalidArgument or IndivisibleError, naming the function, unless an array of the shape can have a type that
/// says how it is split like this.
void check_out_sharding(std::string_view function, const NamedSharding& sharding, const Shape& shape,
                        SourceLocation where);

/// f(operands), split as the operands imply; if out_sharding is given, as that says, and on the way as the compiler
/// chooses.
template <class F>
Array split_as(std::string_view function, const OutSharding& out_sharding, std::vector<Array> operands,
               SourceLocation where, F&& f) {
  if (!out_sharding) return f(operands);
  for (Array& operand : operands) operand = relaxed(function, operand, {}, where);
  const Array result = f(operands);
  check_out_sharding(function, *out_sharding, result.shape(), where);
  return reshard({result, where}, *out_sharding);
}

}  // namespace shoal
