#include "frontend/transforms/mapped_axes.h"

#include <fmt/format.h>

#include "base/misuse.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/tree_prefix.h"

namespace shoal::detail {

std::int64_t mapped_dim(std::int64_t dim, std::size_t rank, std::string_view option, const std::string& what,
                        const Array& array) {
  const auto count = static_cast<std::int64_t>(rank);
  if (dim >= -count && dim < count) return dim < 0 ? dim + count : dim;
  const std::string allowed = rank == 0 ? "none, as it has no dimensions" : fmt::format("{} to {}", -count, count - 1);
  throw misuse<OutOfRange>("{} is {} for {} {}; allowed is {}", option, dim, what, user_string(impl_of(array).type),
                           allowed);
}

MappedArguments mapped_arguments(const AxisTree& in_axes, const CallArguments& arguments, MaybeAxis given,
                                 std::string_view given_by, std::int64_t fewest) {
  check_values(arguments.leaves, arguments.tree, "argument ");
  const std::vector<std::string> paths = arguments.tree.leaf_paths();
  MappedArguments mapped{.size = given.value_or(0), .dims = apply_prefix(in_axes, arguments.tree, "in_axes")};
  std::string size_of = given ? fmt::format("{} {}", given_by, mapped.size) : "";
  for (std::size_t i = 0; i < mapped.dims.size(); ++i) {
    if (!mapped.dims[i]) continue;
    const Array& leaf = arguments.leaves[i];
    const Type& type = impl_of(leaf).type;
    const std::int64_t dim = mapped_dim(*mapped.dims[i], type.rank(), "in_axes", "argument " + paths[i], leaf);
    mapped.dims[i] = dim;
    const std::int64_t size = type.shape[static_cast<std::size_t>(dim)];
    const std::string text =
        fmt::format("dimension {} of argument {} {} has extent {}", dim, paths[i], user_string(type), size);
    if (size_of.empty()) {
      mapped.size = size;
      size_of = text;
    } else if (size != mapped.size) {
      throw misuse<InvalidArgument>("all mapped dimensions must be of one size, but {}, and {}", size_of, text);
    }
  }
  if (size_of.empty()) throw misuse<InvalidArgument>("no argument is mapped; map one by in_axes, or give axis_size");
  if (mapped.size < fewest) throw misuse<InvalidArgument>("there must be one slice or more, but {}", size_of);
  return mapped;
}

}  // namespace shoal::detail
