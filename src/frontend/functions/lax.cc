#include "shoal/lax.h"

#include <fmt/format.h>

#include <algorithm>

#include "frontend/array/promotion.h"
#include "frontend/array/trace.h"
#include "ops/collective.h"
#include "shoal/numpy.h"

namespace shoal::lax {
namespace {

// The number of devices along the axes. Throws UnboundAxisError unless an enclosing shard_map or pmap binds them all.
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
                      names.empty() ? "call it inside shard_map over a mesh with that axis, or inside pmap"
                                    : fmt::format("the axes bound here are ({})", fmt::join(names, ", "))),
          where);
    }
    if (std::count(axis.names().begin(), axis.names().end(), name) > 1) {
      throw InvalidArgument(fmt::format("{}: axis '{}' is named twice", function, name), where);
    }
    size *= *axis_size;
  }
  return size;
}

// Who communicates with whom.
class Team {
 public:
  Team(std::string_view function, const AxisName& axis, const AxisIndexGroups& groups, SourceLocation where,
       bool even = true)
      : function_(function), axes_(axis.names()), size_(group_size(function, axis, where)), where_(where) {
    for (const std::vector<int>& group : groups) groups_.emplace_back(group.begin(), group.end());
    if (!groups.empty()) check_groups(even);
  }

  // The number of devices in a group.
  std::int64_t size() const { return groups_.empty() ? size_ : static_cast<std::int64_t>(groups_[0].size()); }
  bool is_even() const {
    return std::all_of(groups_.begin(), groups_.end(), [&](const Dims& g) { return g.size() == groups_[0].size(); });
  }
  const std::vector<Dims>& groups() const { return groups_; }

  Array run(const char* op, Attrs attrs, std::initializer_list<Array> operands) const {
    attrs.set("axes", axes_);
    set_index_groups(attrs, groups_);
    return bind_one(op, std::move(attrs), operands, where_);
  }

  // Throws unless a dimension of x divides among the devices or, stacked, has as many elements as there are devices.
  void check_divides(std::string_view option, std::int64_t dim, const Array& x, bool tiled) const {
    const std::int64_t extent = x.shape()[static_cast<std::size_t>(dim)];
    if (tiled ? extent % size() == 0 : extent == size()) return;
    throw InvalidArgument(
        fmt::format("{}: {} {} of {} has extent {}, which must {} the {} devices along ({})", function_, option, dim,
                    type_of(x), extent, tiled ? "be a multiple of" : "equal", size(), fmt::join(axes_, ", ")),
        where_);
  }

 private:
  void check_groups(bool even) const {
    Dims all;
    for (const Dims& group : groups_) all.insert(all.end(), group.begin(), group.end());
    std::sort(all.begin(), all.end());
    bool covers = static_cast<std::int64_t>(all.size()) == size_;
    for (std::size_t i = 0; covers && i < all.size(); ++i) covers = all[i] == static_cast<std::int64_t>(i);
    if (!covers) fail(fmt::format("must have each of the positions 0..{} exactly once", size_ - 1));
    if (even && !is_even()) fail("must all be of one size");
  }

  [[noreturn]] void fail(const std::string& what) const {
    std::vector<std::string> lists;
    for (const Dims& group : groups_) lists.push_back(fmt::format("[{}]", fmt::join(group, ", ")));
    throw InvalidArgument(fmt::format("{}: axis_index_groups [{}] along ({}) {}", function_, fmt::join(lists, ", "),
                                      fmt::join(axes_, ", "), what),
                          where_);
  }

  std::string_view function_;
  const std::vector<std::string>& axes_;
  std::int64_t size_;
  SourceLocation where_;
  std::vector<Dims> groups_;
};

Array reduce(const char* function, const Operand& x, const AxisName& axis, const GroupOptions& options,
             const char* kind) {
  const Team team(function, axis, options.axis_index_groups, x.where(), false);
  Array array = to_array(x);
  const bool sums = kind == std::string_view("sum");
  if (array.dtype() == bool_ && sums) array = convert(array, int32, false, x.where());
  if (is_complex(array.dtype()) && !sums) {
    throw TypeMismatch(fmt::format("{}: complex numbers have no order; got {}", function, type_of(array)), x.where());
  }
  return team.run("all_reduce", {{"kind", std::string(kind)}}, {array});
}

Array gather(const char* function, const Operand& x, const AxisName& axis_name, const AllGatherOptions& options,
             Attrs attrs) {
  const Team team(function, axis_name, options.axis_index_groups, x.where());
  Array array = to_array(x);
  const std::int64_t axis = canonical_axis(function, options.axis, array.ndim() + (options.tiled ? 0 : 1), x.where());
  if (!options.tiled) array = expand_dims({array, x.where()}, axis);
  attrs.set("dim", axis);
  return team.run("all_gather", std::move(attrs), {array});
}

Array all_to_all(const char* function, const Operand& x, const AxisName& axis_name, const AllToAllOptions& options) {
  const Team team(function, axis_name, options.axis_index_groups, x.where());
  Array array = to_array(x);
  const std::int64_t split = canonical_axis(function, options.split_axis, array.ndim(), x.where());
  const std::int64_t concat = canonical_axis(function, options.concat_axis, array.ndim(), x.where());
  team.check_divides("split_axis", split, array, options.tiled);
  const auto exchange = [&](const Array& operand, std::int64_t from, std::int64_t to) {
    return team.run("all_to_all", {{"split_dim", from}, {"concat_dim", to}}, {operand});
  };
  if (options.tiled) return exchange(array, split, concat);
  // The pieces are stacked in a new dimension; the split one, then of extent 1, goes.
  const std::int64_t stack = concat <= split ? concat : concat + 1;
  const std::int64_t rest = concat <= split ? split + 1 : split;
  array = exchange(expand_dims({array, x.where()}, stack), rest, stack);
  return squeeze({array, x.where()}, Axes({rest}));
}

// A vector of offsets or sizes, as the collective takes it.
Array slice_vector(const char* what, const Operand& x) {
  const Array array = to_array(x);
  if (!is_integer(array.dtype())) {
    throw TypeMismatch(fmt::format("ragged_all_to_all: {} must be integers; got {}", what, type_of(array)), x.where());
  }
  if (array.ndim() != 1 || array.size() == 0) {
    throw InvalidArgument(
        fmt::format("ragged_all_to_all: {} must be a vector of one element or more; got {}", what, type_of(array)),
        x.where());
  }
  return convert(array, int32, false, x.where());
}

}  // namespace

Array psum(const Operand& x, const AxisName& axis, const GroupOptions& options) {
  return reduce("psum", x, axis, options, "sum");
}
Array pmax(const Operand& x, const AxisName& axis, const GroupOptions& options) {
  return reduce("pmax", x, axis, options, "max");
}
Array pmin(const Operand& x, const AxisName& axis, const GroupOptions& options) {
  return reduce("pmin", x, axis, options, "min");
}

Array pmean(const Operand& x, const AxisName& axis, const GroupOptions& options) {
  const Team team("pmean", axis, options.axis_index_groups, x.where(), false);
  const Array total = psum(x, axis, options);
  // In groups of different sizes each device counts its own.
  const Operand count = team.is_even() ? Operand(team.size(), x.where()) : Operand(psum(1, axis, options), x.where());
  return divide(Operand(total, x.where()), count);
}

Array all_gather(const Operand& x, const AxisName& axis_name, const AllGatherOptions& options) {
  return gather("all_gather", x, axis_name, options, {});
}

Array all_gather_invariant(const Operand& x, const AxisName& axis_name, const AllGatherOptions& options) {
  if (!options.axis_index_groups.empty()) {
    throw InvalidArgument(
        "all_gather_invariant: what groups gather differs between them, so axis_index_groups must be empty; use "
        "all_gather",
        x.where());
  }
  return gather("all_gather_invariant", x, axis_name, options, {{"invariant", true}});
}

Array psum_scatter(const Operand& x, const AxisName& axis_name, const PsumScatterOptions& options) {
  const Team team("psum_scatter", axis_name, options.axis_index_groups, x.where());
  const Array array = to_array(x);
  const std::int64_t dim = canonical_axis("psum_scatter", options.scatter_dimension, array.ndim(), x.where());
  team.check_divides("scatter_dimension", dim, array, options.tiled);
  const Array piece = team.run("reduce_scatter", {{"dim", dim}, {"kind", std::string("sum")}}, {array});
  return options.tiled ? piece : squeeze({piece, x.where()}, Axes({dim}));
}

Array all_to_all(const Operand& x, const AxisName& axis_name, const AllToAllOptions& options) {
  return all_to_all("all_to_all", x, axis_name, options);
}

Array pswapaxes(const Operand& x, const AxisName& axis_name, std::int64_t axis, const GroupOptions& options) {
  return all_to_all(
      "pswapaxes", x, axis_name,
      {.split_axis = axis, .concat_axis = axis, .tiled = false, .axis_index_groups = options.axis_index_groups});
}

Array ppermute(const Operand& x, const AxisName& axis_name, const Permutation& perm) {
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

Array pshuffle(const Operand& x, const AxisName& axis_name, const std::vector<int>& perm) {
  const std::int64_t size = group_size("pshuffle", axis_name, x.where());
  std::vector<int> sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  bool all = static_cast<std::int64_t>(perm.size()) == size;
  for (std::size_t i = 0; all && i < sorted.size(); ++i) all = sorted[i] == static_cast<int>(i);
  if (!all) {
    throw InvalidArgument(fmt::format("pshuffle: perm [{}] is no permutation of the positions 0..{} along ({})",
                                      fmt::join(perm, ", "), size - 1, fmt::join(axis_name.names(), ", ")),
                          x.where());
  }
  Permutation pairs;
  for (std::size_t i = 0; i < perm.size(); ++i) pairs.emplace_back(perm[i], static_cast<int>(i));
  return ppermute(x, axis_name, pairs);
}

Array pbroadcast(const Operand& x, const AxisName& axis_name, std::int64_t source) {
  const std::int64_t size = group_size("pbroadcast", axis_name, x.where());
  if (source < 0 || source >= size) {
    throw OutOfRange(fmt::format("pbroadcast: source is {}, but the positions along ({}) are 0..{}", source,
                                 fmt::join(axis_name.names(), ", "), size - 1),
                     x.where());
  }
  return bind_one("pbroadcast", {{"axes", axis_name.names()}, {"source", source}}, {to_array(x)}, x.where());
}

Array ragged_all_to_all(const Operand& operand, const Operand& output, const RaggedSlices& slices,
                        const AxisName& axis_name, const GroupOptions& options) {
  const SourceLocation where = operand.where();
  const Team team("ragged_all_to_all", axis_name, options.axis_index_groups, where);
  const Array from = to_array(operand);
  const Array to = to_array(output);
  if (from.dtype() != to.dtype()) {
    throw TypeMismatch(fmt::format("ragged_all_to_all: operand and output must have one dtype; got {} and {}",
                                   type_of(from), type_of(to)),
                       where);
  }
  const bool fit = from.ndim() > 0 && from.ndim() == to.ndim() &&
                   std::equal(from.shape().begin() + 1, from.shape().end(), to.shape().begin() + 1);
  if (!fit) {
    throw InvalidArgument(fmt::format("ragged_all_to_all: operand and output must have a first dimension, and equal "
                                      "dimensions after it; got {} and {}",
                                      type_of(from), type_of(to)),
                          where);
  }
  const Array input_offsets = slice_vector("input_offsets", slices.input_offsets);
  const Array send_sizes = slice_vector("send_sizes", slices.send_sizes);
  const Array output_offsets = slice_vector("output_offsets", slices.output_offsets);
  const Array recv_sizes = slice_vector("recv_sizes", slices.recv_sizes);
  const std::int64_t count = input_offsets.size();
  for (const Array* vector : {&send_sizes, &output_offsets, &recv_sizes}) {
    if (vector->size() == count) continue;
    throw InvalidArgument(
        fmt::format("ragged_all_to_all: input_offsets, send_sizes, output_offsets and recv_sizes must have one length; "
                    "got {}, {}, {} and {}",
                    count, send_sizes.size(), output_offsets.size(), recv_sizes.size()),
        where);
  }
  if (count % team.size() != 0) {
    throw InvalidArgument(
        fmt::format("ragged_all_to_all: input_offsets has {} slices, which must be a multiple of the {} devices "
                    "along ({})",
                    count, team.size(), fmt::join(axis_name.names(), ", ")),
        where);
  }
  return team.run("ragged_all_to_all", {}, {from, to, input_offsets, send_sizes, output_offsets, recv_sizes});
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

Array pcast(const Operand& x, const AxisName& axis_name, std::string_view to) {
  group_size("pcast", axis_name, x.where());
  const bool is_summand = to == "unreduced";
  if (to == "reduced") {
    throw Unsupported("pcast: to is 'reduced', which matters to gradients only; these are not there yet", x.where());
  }
  if (to != "varying" && !is_summand) {
    throw InvalidArgument(
        fmt::format(
            "pcast: to is '{}', but must be 'varying' or 'unreduced'. A value becomes the same on all devices by "
            "psum, pbroadcast or all_gather_invariant",
            to),
        x.where());
  }
  const Array array = to_array(x);
  const AxisNames& varying = detail::impl_of(array).type.varying;
  for (const std::string& axis : axis_name.names()) {
    const bool varies = std::binary_search(varying.begin(), varying.end(), axis);
    if (is_summand && !varies) {
      throw InvalidArgument(
          fmt::format("pcast: {} does not vary over '{}', so it would be added to itself; make it vary "
                      "with pvary if you want that",
                      type_of(array), axis),
          x.where());
    }
    if (is_summand || !varies) continue;
    throw InvalidArgument(fmt::format("pcast: {} varies over '{}' already", type_of(array), axis), x.where());
  }
  // Summands vary; out_specs say that they are still to be summed.
  return is_summand ? array : pvary({array, x.where()}, axis_name);
}

}  // namespace shoal::lax
