// What pmap and vmap map of their arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shoal/callable.h"
#include "shoal/pmap.h"

namespace shoal::detail {

using MaybeAxis = std::optional<std::int64_t>;

struct MappedArguments {
  std::int64_t size;            ///< The number of slices.
  std::vector<MaybeAxis> dims;  ///< Of each argument, not negative.
};

/// A dimension counted from the front. `rank` dimensions may be named. Throws OutOfRange, naming `option` and `what`.
std::int64_t mapped_dim(std::int64_t dim, std::size_t rank, std::string_view option, const std::string& what,
                        const Array& array);

/// `given` is the number of slices, and `given_by` what it is by, if it does not follow from the arguments. Throws
/// InvalidArgument if mapped dimensions disagree in size, there are none, or they
/// have less than `fewest` slices.
MappedArguments mapped_arguments(const AxisTree& in_axes, const CallArguments& arguments, MaybeAxis given,
                                 std::string_view given_by, std::int64_t fewest);

}  // namespace shoal::detail
