#include <fmt/format.h>

#include <algorithm>

#include "base/caller.h"
#include "base/misuse.h"
#include "frontend/array/layer.h"
#include "frontend/array/promotion.h"
#include "frontend/array/trace.h"
#include "ops/collective.h"
#include "ops/index_groups.h"
#include "shoal/lax.h"
#include "shoal/numpy.h"

namespace shoal::lax {
namespace {

// The number of devices along the axes. Throws UnboundAxisError unless an enclosing shard_map or pmap binds them all.
std::int64_t group_size(const AxisName& axis) { return devices_along(Layer::bound_axes(), axis.names()); }

// Who communicates with whom.
class Team {
 public:
  Team(const AxisName& axis, const AxisIndexGroups& groups, bool even = true)
      : axes_(axis.names()), size_(group_size(axis)) {
    for (const std::vector<int>& group : groups) groups_.emplace_back(group.begin(), group.end());
    if (!groups.empty()) check_index_groups(groups_, axes_, size_, even);
  }

  // The number of devices in a group.
  std::int64_t size() const { return groups_.empty() ? size_ : static_cast<std::int64_t>(groups_[0].size()); }
  bool is_even() const {
    return std::all_of(groups_.begin(), groups_.end(), [&](const Dims& g) { return g.size() == groups_[0].size(); });
  }
  const std::vector<Dims>& groups() const { return groups_; }

  Array run(std::string_view op, Attrs attrs, std::initializer_list<Array> operands) const {
    attrs.set("axes", axes_);
    set_index_groups(attrs, groups_);
    return bind_one(op, std::move(attrs), operands);
  }

  // Throws unless a dimension of x divides among the devices or, stacked, has as many elements as there are devices.
  void check_divides(std::string_view option, std::int64_t dim, const Array& x, bool tiled) const {
    const std::int64_t extent = x.shape()[static_cast<std::size_t>(dim)];
    if (tiled ? extent % size() == 0 : extent == size()) return;
    throw misuse<InvalidArgument>("{} {} of {} has extent {}, which must {} the {} devices along ({})", option, dim,
                                  type_of(x), extent, tiled ? "be a multiple of" : "equal", size(),
                                  fmt::join(axes_, ", "));
  }

 private:
  const std::vector<std::string>& axes_;
  std::int64_t size_;
  std::vector<Dims> groups_;
};

Array reduce(const Operand& x, const AxisName& axis, const GroupOptions& options, const char* kind) {
  const Team team(axis, options.axis_index_groups, false);
  Array array = to_array(x);
  const bool sums = kind == std::string_view("sum");
  if (array.dtype() == bool_ && sums) array = convert(array, int32);
  return team.run("all_reduce", {{"kind", std::string(kind)}}, {array});
}

Array gather(const Operand& x, const AxisName& axis_name, const AllGatherOptions& options, Attrs attrs) {
  const Team team(axis_name, options.axis_index_groups);
  Array array = to_array(x);
  const std::int64_t axis = canonical_axis(options.axis, array.ndim() + (options.tiled ? 0 : 1));
  if (!options.tiled) array = expand_dims(array, axis);
  attrs.set("dim", axis);
  return team.run("all_gather", std::move(attrs), {array});
}

void check_no_groups(const AllGatherOptions& options) {
  if (options.axis_index_groups.empty()) return;
  throw misuse<InvalidArgument>(
      "what groups gather differs between them, so axis_index_groups must be empty; use all_gather");
}

// What a type says of a value along an axis.
enum class Along : std::uint8_t { kSame, kVarying, kUnreduced, kReduced };

std::string_view text_of(Along along) {
  constexpr std::string_view kTexts[] = {"invarying", "varying", "unreduced", "reduced"};
  return kTexts[static_cast<std::size_t>(along)];
}

Along along_axis(const Type& type, const std::string& axis) {
  const auto has = [&](const AxisNames& names) { return std::ranges::binary_search(names, axis); };
  return has(type.summands)  ? Along::kUnreduced
         : has(type.varying) ? Along::kVarying
         : has(type.reduced) ? Along::kReduced
                             : Along::kSame;
}

// What the type says of x along all of the axes alike.
Along along_axes(const Array& x, const AxisName& axis_name) {
  const Type& type = detail::impl_of(x).type;
  const Along along = along_axis(type, axis_name.names().front());
  for (const std::string& axis : axis_name.names()) {
    if (along_axis(type, axis) == along) continue;
    throw misuse<InvalidArgument>("{} is {} over '{}', but {} over '{}'; the axes must be alike in that", type_of(x),
                                  text_of(along), axis_name.names().front(), text_of(along_axis(type, axis)), axis);
  }
  return along;
}

Array exchanged(const Operand& x, const AxisName& axis_name, const AllToAllOptions& options) {
  const Team team(axis_name, options.axis_index_groups);
  Array array = to_array(x);
  const std::int64_t split = canonical_axis(options.split_axis, array.ndim());
  const std::int64_t concat = canonical_axis(options.concat_axis, array.ndim());
  team.check_divides("split_axis", split, array, options.tiled);
  const auto exchange = [&](const Array& operand, std::int64_t from, std::int64_t to) {
    return team.run("all_to_all", {{"split_dim", from}, {"concat_dim", to}}, {operand});
  };
  if (options.tiled) return exchange(array, split, concat);
  // The pieces are stacked in a new dimension; the split one, then of extent 1, goes.
  const std::int64_t stack = concat <= split ? concat : concat + 1;
  const std::int64_t rest = concat <= split ? split + 1 : split;
  array = exchange(expand_dims(array, stack), rest, stack);
  return squeeze(array, Axes({rest}));
}

// A vector of offsets or sizes, as the collective takes it.
Array slice_vector(const char* what, const Operand& x) {
  const Array array = to_array(x);
  if (!is_integer(array.dtype())) {
    throw misuse<TypeMismatch>("{} must be integers; got {}", what, type_of(array));
  }
  if (array.ndim() != 1 || array.size() == 0) {
    throw misuse<InvalidArgument>("{} must be a vector of one element or more; got {}", what, type_of(array));
  }
  return convert(array, int32);
}

}  // namespace

Array psum(const Operand& x, const AxisName& axis, const GroupOptions& options) {
  const Caller caller("psum", x.where());
  return reduce(x, axis, options, "sum");
}
Array pmax(const Operand& x, const AxisName& axis, const GroupOptions& options) {
  const Caller caller("pmax", x.where());
  return reduce(x, axis, options, "max");
}
Array pmin(const Operand& x, const AxisName& axis, const GroupOptions& options) {
  const Caller caller("pmin", x.where());
  return reduce(x, axis, options, "min");
}

Array pmean(const Operand& x, const AxisName& axis, const GroupOptions& options) {
  const Caller caller("pmean", x.where());
  const Team team(axis, options.axis_index_groups, false);
  const Array total = psum(x, axis, options);
  // In groups of different sizes each device counts its own.
  const Operand count = team.is_even() ? team.size() : psum(1, axis, options);
  return divide(total, count);
}

Array all_gather(const Operand& x, const AxisName& axis_name, const AllGatherOptions& options) {
  const Caller caller("all_gather", x.where());
  return gather(x, axis_name, options, {});
}

Array all_gather_invariant(const Operand& x, const AxisName& axis_name, const AllGatherOptions& options) {
  const Caller caller("all_gather_invariant", x.where());
  check_no_groups(options);
  return gather(x, axis_name, options, {{"invariant", true}});
}

Array all_gather_reduced(const Operand& x, const AxisName& axis_name, const AllGatherOptions& options) {
  const Caller caller("all_gather_reduced", x.where());
  check_no_groups(options);
  Attrs attrs{{"invariant", true}};
  // Along axes of vmap, and where nothing is checked, types say nothing of it.
  if (along_axes(to_array(x), axis_name) == Along::kVarying) attrs.set("reduced", true);
  return gather(x, axis_name, options, std::move(attrs));
}

Array psum_scatter(const Operand& x, const AxisName& axis_name, const PsumScatterOptions& options) {
  const Caller caller("psum_scatter", x.where());
  const Team team(axis_name, options.axis_index_groups);
  const Array array = to_array(x);
  const std::int64_t dim = canonical_axis(options.scatter_dimension, array.ndim());
  team.check_divides("scatter_dimension", dim, array, options.tiled);
  const Array piece = team.run("reduce_scatter", {{"dim", dim}, {"kind", std::string("sum")}}, {array});
  return options.tiled ? piece : squeeze(piece, Axes({dim}));
}

Array all_to_all(const Operand& x, const AxisName& axis_name, const AllToAllOptions& options) {
  const Caller caller("all_to_all", x.where());
  return exchanged(x, axis_name, options);
}

Array pswapaxes(const Operand& x, const AxisName& axis_name, std::int64_t axis, const GroupOptions& options) {
  const Caller caller("pswapaxes", x.where());
  return exchanged(
      x, axis_name,
      {.split_axis = axis, .concat_axis = axis, .tiled = false, .axis_index_groups = options.axis_index_groups});
}

Array ppermute(const Operand& x, const AxisName& axis_name, const Permutation& perm) {
  const Caller caller("ppermute", x.where());
  const std::int64_t size = group_size(axis_name);
  Dims sources;
  Dims targets;
  for (const auto& [from, to] : perm) {
    if (from < 0 || from >= size || to < 0 || to >= size) {
      throw misuse<OutOfRange>("the pair ({}, {}) names a position outside 0..{} along ({})", from, to, size - 1,
                               fmt::join(axis_name.names(), ", "));
    }
    const bool again = std::find(sources.begin(), sources.end(), from) != sources.end() ||
                       std::find(targets.begin(), targets.end(), to) != targets.end();
    if (again) {
      throw misuse<InvalidArgument>("sources and destinations must each be distinct, but ({}, {}) repeats one", from,
                                    to);
    }
    sources.push_back(from);
    targets.push_back(to);
  }
  return bind_one("collective_permute", {{"axes", axis_name.names()}, {"sources", sources}, {"targets", targets}},
                  {to_array(x)});
}

Array pshuffle(const Operand& x, const AxisName& axis_name, const std::vector<int>& perm) {
  const Caller caller("pshuffle", x.where());
  const std::int64_t size = group_size(axis_name);
  std::vector<int> sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  bool all = static_cast<std::int64_t>(perm.size()) == size;
  for (std::size_t i = 0; all && i < sorted.size(); ++i) all = sorted[i] == static_cast<int>(i);
  if (!all) {
    throw misuse<InvalidArgument>("perm [{}] is no permutation of the positions 0..{} along ({})",
                                  fmt::join(perm, ", "), size - 1, fmt::join(axis_name.names(), ", "));
  }
  Permutation pairs;
  for (std::size_t i = 0; i < perm.size(); ++i) pairs.emplace_back(perm[i], static_cast<int>(i));
  return ppermute(x, axis_name, pairs);
}

Array pbroadcast(const Operand& x, const AxisName& axis_name, std::int64_t source) {
  const Caller caller("pbroadcast", x.where());
  const std::int64_t size = group_size(axis_name);
  if (source < 0 || source >= size) {
    throw misuse<OutOfRange>("source is {}, but the positions along ({}) are 0..{}", source,
                             fmt::join(axis_name.names(), ", "), size - 1);
  }
  return bind_one("pbroadcast", {{"axes", axis_name.names()}, {"source", source}}, {to_array(x)});
}

Array ragged_all_to_all(const Operand& operand, const Operand& output, const RaggedSlices& slices,
                        const AxisName& axis_name, const GroupOptions& options) {
  const Caller caller("ragged_all_to_all", operand.where());
  const Team team(axis_name, options.axis_index_groups);
  const Array from = to_array(operand);
  const Array to = to_array(output);
  if (from.dtype() != to.dtype()) {
    throw misuse<TypeMismatch>("operand and output must have one dtype; got {} and {}", type_of(from), type_of(to));
  }
  const bool fit = from.ndim() > 0 && from.ndim() == to.ndim() &&
                   std::equal(from.shape().begin() + 1, from.shape().end(), to.shape().begin() + 1);
  if (!fit) {
    throw misuse<InvalidArgument>(
        "operand and output must have a first dimension, and equal dimensions after it; got {} and {}", type_of(from),
        type_of(to));
  }
  const Array input_offsets = slice_vector("input_offsets", slices.input_offsets);
  const Array send_sizes = slice_vector("send_sizes", slices.send_sizes);
  const Array output_offsets = slice_vector("output_offsets", slices.output_offsets);
  const Array recv_sizes = slice_vector("recv_sizes", slices.recv_sizes);
  const std::int64_t count = input_offsets.size();
  for (const Array* vector : {&send_sizes, &output_offsets, &recv_sizes}) {
    if (vector->size() == count) continue;
    throw misuse<InvalidArgument>(
        "input_offsets, send_sizes, output_offsets and recv_sizes must have one length; got {}, {}, {} and {}", count,
        send_sizes.size(), output_offsets.size(), recv_sizes.size());
  }
  if (count % team.size() != 0) {
    throw misuse<InvalidArgument>("input_offsets has {} slices, which must be a multiple of the {} devices along ({})",
                                  count, team.size(), fmt::join(axis_name.names(), ", "));
  }
  return team.run("ragged_all_to_all", {}, {from, to, input_offsets, send_sizes, output_offsets, recv_sizes});
}

Array axis_index(const AxisName& axis_name, SourceLocation where) {
  const Caller caller("axis_index", where);
  group_size(axis_name);
  return bind_one("axis_index", {{"axes", axis_name.names()}}, {});
}

std::int64_t axis_size(const AxisName& axis_name, SourceLocation where) {
  const Caller caller("axis_size", where);
  return group_size(axis_name);
}

Array pvary(const Operand& x, const AxisName& axis_name) {
  const Caller caller("pvary", x.where());
  group_size(axis_name);
  return bind_one("pvary", {{"axes", axis_name.names()}}, {to_array(x)});
}

Array pcast(const Operand& x, const AxisName& axis_name, std::string_view to) {
  const Caller caller("pcast", x.where());
  group_size(axis_name);
  if (to != "varying" && to != "unreduced" && to != "reduced") {
    throw misuse<InvalidArgument>(
        "to is '{}', but must be 'varying', 'unreduced' or 'reduced'. A value becomes the same on all devices by psum, "
        "pbroadcast or all_gather_invariant",
        to);
  }
  const Array array = to_array(x);
  // Where shard_map checks nothing, types say nothing.
  const Trace* trace = Trace::current();
  const AxisNames unchecked = trace == nullptr ? AxisNames() : trace->unchecked();
  const auto is_unchecked = [&](const std::string& axis) { return std::ranges::binary_search(unchecked, axis); };
  if (std::ranges::all_of(axis_name.names(), is_unchecked)) return array;
  const Along along = along_axes(array, axis_name);
  if (to == "varying" && (along == Along::kSame || along == Along::kReduced)) return pvary(array, axis_name);
  const bool fits = to == "unreduced" ? along == Along::kVarying : to == "reduced" && along == Along::kSame;
  if (fits) return bind_one("pcast", {{"axes", axis_name.names()}, {"to", std::string(to)}}, {array});
  const std::string axes = fmt::format("{}", fmt::join(axis_name.names(), ", "));
  if (to == "unreduced" && along == Along::kSame) {
    throw misuse<InvalidArgument>(
        "{} does not vary over '{}', so it would be added to itself; make it vary with pvary if you want that",
        type_of(array), axes);
  }
  if (to == "varying" && along == Along::kVarying) {
    throw misuse<InvalidArgument>("{} varies over '{}' already", type_of(array), axes);
  }
  throw misuse<InvalidArgument>("{} is {} over '{}', and cannot be taken as {}{}", type_of(array), text_of(along), axes,
                                to, along == Along::kUnreduced ? "; finish the sum with psum or psum_scatter" : "");
}

}  // namespace shoal::lax
