// Vectors that stand for sets.
#pragma once

#include <algorithm>

namespace shoal {

/// Sorts in place, and keeps one of each.
template <class List>
void sort_unique(List& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

}  // namespace shoal
