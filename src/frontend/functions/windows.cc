#include "frontend/functions/windows.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/misuse.h"

namespace shoal::lax {

std::int64_t dilated(std::int64_t n, std::int64_t dilation) {
  if (n == 0) return 0;
  return dilation > (kEndless - 1) / std::max<std::int64_t>(n - 1, 1) ? kEndless : (n - 1) * dilation + 1;
}

Dims one_for_each(std::string_view what, const Dims& given, std::size_t count) {
  if (given.empty()) return Dims(count, 1);
  const bool positive = std::all_of(given.begin(), given.end(), [](std::int64_t value) { return value > 0; });
  if (given.size() == count && positive) return given;
  throw misuse<InvalidArgument>("{} {} must have an entry for each of {} dimensions, at least 1", what,
                                to_string(given), count);
}

PadPairs pads_around(const WindowPadding& padding, const Dims& extents, const Dims& windows, const Dims& strides) {
  if (padding.pairs() != nullptr) {
    if (padding.pairs()->size() == extents.size()) return *padding.pairs();
    throw misuse<InvalidArgument>("padding has {} pairs, but the window moves along {} dimensions",
                                  padding.pairs()->size(), extents.size());
  }
  const std::string& name = *padding.name();
  if (name == "VALID") return PadPairs(extents.size(), {0, 0});
  if (name != "SAME" && name != "SAME_LOWER") {
    throw misuse<InvalidArgument>("padding \"{}\"; it is \"SAME\", \"SAME_LOWER\", \"VALID\", or a list of pairs",
                                  name);
  }
  PadPairs pairs;
  for (std::size_t d = 0; d < extents.size(); ++d) {
    const std::int64_t last = extents[d] == 0 ? -strides[d] : (extents[d] - 1) / strides[d] * strides[d];
    const std::int64_t total = std::max<std::int64_t>(windows[d] - (extents[d] - last), 0);
    const std::int64_t smaller = total / 2;
    pairs.push_back(name == "SAME" ? WindowPadding::Pair{smaller, total - smaller}
                                   : WindowPadding::Pair{total - smaller, smaller});
  }
  return pairs;
}

Attrs moves(const Dims& strides, const PadPairs& padding, const Dims& base_dilation, const Dims& window_dilation) {
  Dims low;
  Dims high;
  for (const auto& [before, after] : padding) {
    low.push_back(before);
    high.push_back(after);
  }
  return {{"strides", strides},
          {"low", low},
          {"high", high},
          {"base_dilation", base_dilation},
          {"window_dilation", window_dilation}};
}

}  // namespace shoal::lax
