// Vectors that stand for sets.
#pragma once

#include <algorithm>
#include <vector>

namespace shoal {

/// Sorts in place, and keeps one of each.
template <class T>
void sort_unique(std::vector<T>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

}  // namespace shoal
