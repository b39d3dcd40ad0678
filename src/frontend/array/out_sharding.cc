#include "frontend/array/out_sharding.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/misuse.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/trace.h"
#include "ir/explicit_axes.h"

namespace shoal {
namespace {

AxisNames sorted_names(const Mesh& mesh) {
  AxisNames names = mesh.axis_names();
  std::ranges::sort(names);
  return names;
}

}  // namespace

Array relaxed(const Array& array, const std::vector<std::string>& axes) {
  const auto& given = detail::impl_of(array).type.explicit_axes;
  if (!given) return array;
  if (const bool named = std::ranges::any_of(
          given->unreduced,
          [&](const std::string& axis) { return axes.empty() || std::ranges::find(axes, axis) != axes.end(); });
      named) {
    throw misuse<ShardingTypeError>(
        "takes {}, of which devices hold summands, to where the compiler chooses; finish the sum with reshard first",
        type_of(array));
  }
  const std::vector<std::string>& names = axes.empty() ? given->mesh.axis_names() : axes;
  return bind_one("relax_axes", {{"axes", names}}, {array});
}

Array relaxed_but_unreduced(const Array& array) {
  const auto& given = detail::impl_of(array).type.explicit_axes;
  if (!given) return array;
  const std::vector<std::string> axes = difference_of(sorted_names(given->mesh), given->unreduced);
  return axes.empty() ? array : bind_one("relax_axes", {{"axes", axes}}, {array});
}

void check_summed_alike(const Array& array, const NamedSharding& sharding) {
  const auto& given = detail::impl_of(array).type.explicit_axes;
  const bool alike =
      is_unreduced_alike(array, sharding) && (given ? given->reduced : AxisNames()) == sharding.spec().reduced();
  if (alike) return;
  throw misuse<InvalidArgument>(
      "out_sharding {} must be unreduced and reduced over the same axes as {}; finish the summands, or make some, with "
      "reshard",
      to_string(sharding.spec()), type_of(array));
}

bool is_unreduced_alike(const Array& array, const NamedSharding& sharding) {
  const auto& given = detail::impl_of(array).type.explicit_axes;
  return (given ? given->unreduced : AxisNames()) == sharding.spec().unreduced();
}

Array relaxed_at_once(const Array& array, const std::vector<std::string>& axes) {
  if (!detail::impl_of(array).type.explicit_axes) return array;
  // The type of an array is what its mesh says of the axes.
  DeviceArray same = detail::concrete(array);
  const NamedSharding& sharding = *same.sharding().named();
  const NamedSharding relaxed(with_auto_axes(sharding.mesh(), axes), sharding.spec(),
                              {.memory_kind = sharding.memory_kind()}, Caller::line());
  same.kind = kind_of(same.type(), relaxed, same.committed());
  return detail::Access::make(std::move(same));
}

void check_out_sharding(const NamedSharding& sharding, const Shape& shape) {
  const Mesh& mesh = sharding.mesh();
  const Trace* trace = Trace::current();
  const auto refuse = [&](const std::string& why) {
    throw misuse<InvalidArgument>("out_sharding {} {}", to_string(sharding.spec()), why);
  };
  const auto check_not_manual = [&](const std::string& axis) {
    if (trace == nullptr || !trace->graph().axes.size_of(axis)) return;
    refuse(fmt::format("names axis '{}', which is manual here: each device computes on its own shard along it", axis));
  };
  for (const std::string& axis : sharding.spec().unreduced()) check_not_manual(axis);
  for (const PartitionEntry& entry : sharding.spec()) {
    if (entry.is_unconstrained()) refuse("leaves a dimension unconstrained; name its axes, or none");
    for (const std::string& axis : entry.axes()) {
      check_not_manual(axis);
      if (mesh.axis_types()[*mesh.find_axis(axis)] == AxisType::kExplicit) continue;
      refuse(
          fmt::format("names axis '{}', which is not Explicit in {}; with_sharding_constraint says how other axes "
                      "split a value",
                      axis, to_string(mesh)));
    }
  }
  Sharding(sharding).check_compatible(shape, fmt::format("{}: out_sharding", Caller::function_or("out_sharding")),
                                      Caller::line());
}

}  // namespace shoal
