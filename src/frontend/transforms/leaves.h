// Functions of lists of arrays that call one another.
#pragma once

#include <tuple>
#include <vector>

#include "shoal/array.h"
#include "shoal/callable.h"

namespace shoal::detail {

inline CallArguments arguments_of(const std::vector<Array>& leaves) {
  return flatten_arguments(std::tuple<std::vector<Array>>(leaves));
}

inline std::vector<Array> joined(std::vector<Array> first, const std::vector<Array>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

}  // namespace shoal::detail
