#include "shoal/smap.h"

#include <fmt/format.h>

#include <vector>

#include "base/misuse.h"

namespace shoal::detail {

SpecTree specs_of_axes(const AxisTree& axes, const std::string& axis_name, std::string_view option,
                       SourceLocation where) {
  const Caller caller("smap", where);
  if (axes.children() != nullptr) {
    std::vector<SpecTree> children;
    for (const AxisTree& child : *axes.children()) {
      children.push_back(specs_of_axes(child, axis_name, option, where));
    }
    return SpecTree(std::move(children));
  }
  const std::optional<std::int64_t> axis = *axes.leaf();
  if (!axis) return SpecTree(PartitionSpec());
  if (*axis < 0) {
    throw misuse<InvalidArgument>("{} has {}; dimensions are counted from the first, which is 0", option, *axis);
  }
  constexpr std::int64_t kMostDims = 1 << 10;
  if (*axis >= kMostDims) {
    throw misuse<InvalidArgument>("{} has {}; no array has so many dimensions", option, *axis);
  }
  std::vector<PartitionEntry> entries(static_cast<std::size_t>(*axis));
  entries.emplace_back(axis_name);
  return SpecTree(PartitionSpec(std::move(entries)));
}

}  // namespace shoal::detail
