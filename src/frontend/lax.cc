#include "shoal/lax.h"

#include <fmt/format.h>

#include <algorithm>

#include "frontend/promote.h"
#include "frontend/trace.h"
#include "shoal/numpy.h"

namespace shoal::lax {
namespace {

// The number of devices along the axes. Throws UnboundAxisError unless an enclosing shard_map binds them all.
std::int64_t group_size(std::string_view function, const AxisName& axis, SourceLocation where) {
  static const AxisEnv nothing;
  const AxisEnv& bound = Trace::current() == nullptr ? nothing : Trace::current()->graph().axes;
  std::int64_t size = 1;
  for (const std::string& name : axis.names()) {
    const auto axis_size = bound.size_of(name);
    if (!axis_size) {
      std::vector<std::string> names;
      for (const auto& [bound_name, bound_size] : bound.axes()) names.push_back(bound_name);
      throw UnboundAxisError(
          fmt::format("{}: axis '{}' is not bound here: {}", function, name,
                      names.empty() ? "call it inside shard_map, over a mesh with that axis"
                                    : fmt::format("the enclosing shard_map has axes ({})", fmt::join(names, ", "))),
          where);
    }
    if (std::count(axis.names().begin(), axis.names().end(), name) > 1) {
      throw InvalidArgument(fmt::format("{}: axis '{}' is named twice", function, name), where);
    }
    size *= *axis_size;
  }
  return size;
}

Array reduce(const char* function, const Operand& x, const AxisName& axis, std::string kind) {
  group_size(function, axis, x.where());
  Array array = to_array(x);
  if (array.dtype() == bool_ && kind == "sum") array = convert(array, int32, false, x.where());
  if (is_complex(array.dtype()) && kind != "sum") {
    throw TypeMismatch(fmt::format("{}: complex numbers have no order; got {}", function, type_of(array)), x.where());
  }
  return bind_one("all_reduce", {{"axes", axis.names()}, {"kind", std::move(kind)}}, {array}, x.where());
}

}  // namespace

Array psum(const Operand& x, const AxisName& axis) { return reduce("psum", x, axis, "sum"); }
Array pmax(const Operand& x, const AxisName& axis) { return reduce("pmax", x, axis, "max"); }
Array pmin(const Operand& x, const AxisName& axis) { return reduce("pmin", x, axis, "min"); }

Array pmean(const Operand& x, const AxisName& axis) {
  const std::int64_t size = group_size("pmean", axis, x.where());
  return divide(Operand(psum(x, axis), x.where()), Operand(size, x.where()));
}

Array all_gather(const Operand& x, const AxisName& axis_name, const AllGatherOptions& options) {
  group_size("all_gather", axis_name, x.where());
  Array array = to_array(x);
  const std::int64_t axis =
      canonical_axis("all_gather", options.axis, array.ndim() + (options.tiled ? 0 : 1), x.where());
  if (!options.tiled) array = expand_dims({array, x.where()}, axis);
  return bind_one("all_gather", {{"axes", axis_name.names()}, {"dim", axis}}, {array}, x.where());
}

Array psum_scatter(const Operand& x, const AxisName& axis_name, const PsumScatterOptions& options) {
  const std::int64_t size = group_size("psum_scatter", axis_name, x.where());
  const Array array = to_array(x);
  const std::int64_t dim = canonical_axis("psum_scatter", options.scatter_dimension, array.ndim(), x.where());
  const std::int64_t extent = array.shape()[static_cast<std::size_t>(dim)];
  if (options.tiled ? extent % size != 0 : extent != size) {
    throw InvalidArgument(
        fmt::format("psum_scatter: scatter_dimension {} of {} has extent {}, which must {} the {} devices "
                    "along ({})",
                    dim, type_of(array), extent, options.tiled ? "be a multiple of" : "equal", size,
                    fmt::join(axis_name.names(), ", ")),
        x.where());
  }
  const Array piece = bind_one(
      "reduce_scatter", {{"axes", axis_name.names()}, {"dim", dim}, {"kind", std::string("sum")}}, {array}, x.where());
  return options.tiled ? piece : squeeze({piece, x.where()}, Axes({dim}));
}

Array all_to_all(const Operand& x, const AxisName& axis_name, const AllToAllOptions& options) {
  const std::int64_t size = group_size("all_to_all", axis_name, x.where());
  Array array = to_array(x);
  const std::int64_t split = canonical_axis("all_to_all", options.split_axis, array.ndim(), x.where());
  const std::int64_t concat = canonical_axis("all_to_all", options.concat_axis, array.ndim(), x.where());
  const std::int64_t extent = array.shape()[static_cast<std::size_t>(split)];
  if (options.tiled ? extent % size != 0 : extent != size) {
    throw InvalidArgument(
        fmt::format("all_to_all: split_axis {} of {} has extent {}, which must {} the {} devices along ({})", split,
                    type_of(array), extent, options.tiled ? "be a multiple of" : "equal", size,
                    fmt::join(axis_name.names(), ", ")),
        x.where());
  }
  const auto exchange = [&](const Array& operand, std::int64_t from, std::int64_t to) {
    return bind_one("all_to_all", {{"axes", axis_name.names()}, {"split_dim", from}, {"concat_dim", to}}, {operand},
                    x.where());
  };
  if (options.tiled) return exchange(array, split, concat);
  // The pieces are stacked in a new dimension; the split one, then of extent 1, goes.
  const std::int64_t stack = concat <= split ? concat : concat + 1;
  const std::int64_t rest = concat <= split ? split + 1 : split;
  array = exchange(expand_dims({array, x.where()}, stack), rest, stack);
  return squeeze({array, x.where()}, Axes({rest}));
}

Array ppermute(const Operand& x, const AxisName& axis_name, const std::vector<std::pair<int, int>>& perm) {
  const std::int64_t size = group_size("ppermute", axis_name, x.where());
  Dims sources;
  Dims targets;
  for (const auto& [from, to] : perm) {
    if (from < 0 || from >= size || to < 0 || to >= size) {
      throw OutOfRange(fmt::format("ppermute: the pair ({}, {}) names a position outside 0..{} along ({})", from, to,
                                   size - 1, fmt::join(axis_name.names(), ", ")),
                       x.where());
    }
    const bool again = std::find(sources.begin(), sources.end(), from) != sources.end() ||
                       std::find(targets.begin(), targets.end(), to) != targets.end();
    if (again) {
      throw InvalidArgument(
          fmt::format("ppermute: sources and destinations must each be distinct, but ({}, {}) repeats one", from, to),
          x.where());
    }
    sources.push_back(from);
    targets.push_back(to);
  }
  return bind_one("collective_permute", {{"axes", axis_name.names()}, {"sources", sources}, {"targets", targets}},
                  {to_array(x)}, x.where());
}

Array axis_index(const AxisName& axis_name, SourceLocation where) {
  group_size("axis_index", axis_name, where);
  return bind_one("axis_index", {{"axes", axis_name.names()}}, {}, where);
}

std::int64_t axis_size(const AxisName& axis_name, SourceLocation where) {
  return group_size("axis_size", axis_name, where);
}

Array pvary(const Operand& x, const AxisName& axis_name) {
  group_size("pvary", axis_name, x.where());
  return bind_one("pvary", {{"axes", axis_name.names()}}, {to_array(x)}, x.where());
}

}  // namespace shoal::lax
