#include "ops/builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "base/check.h"
#include "ir/explicit_axes.h"
#include "ops/table.h"

namespace shoal {
namespace {

std::int64_t as_attr(std::size_t dim) { return static_cast<std::int64_t>(dim); }

Attrs with_size(Attrs attrs, std::optional<std::int64_t> size) {
  if (size) attrs.set("size", *size);
  return attrs;
}

std::string text_of(ReduceKind kind) { return std::string(name_of(kind)); }

}  // namespace

Builder Builder::into(ValueId result) const {
  Builder one = *this;
  one.result_ = result;
  return one;
}

std::vector<ValueId> Builder::equation(const OpDef& op, Attrs attrs, std::vector<ValueId> operands) {
  if (!result_) return graph_.add_eqn(op, std::move(attrs), std::move(operands), where_);
  graph_.eqns.push_back(
      {.op = &op, .attrs = std::move(attrs), .inputs = std::move(operands), .outputs = {*result_}, .where = where_});
  return {*result_};
}

ValueId Builder::apply(std::string_view op, Attrs attrs, std::vector<ValueId> operands) {
  const std::vector<ValueId> results = equation(op_named(op), std::move(attrs), std::move(operands));
  SHOAL_CHECK(results.size() == 1, fmt::format("{} has {} results, not one", op, results.size()));
  return results[0];
}

// ---- Arithmetic.

ValueId Builder::convert(ValueId x, Dtype dtype) { return apply("convert", {{"dtype", dtype}}, {x}); }

ValueId Builder::with_weakness(ValueId x, bool weak) {
  const Type& is = type(x);
  return is.weak == weak ? x : apply("convert", {{"dtype", is.dtype}, {"weak", weak}}, {x});
}

ValueId Builder::combine(ReduceKind kind, ValueId x, ValueId y) { return equation(combining_op(kind), {}, {x, y})[0]; }

ValueId Builder::reduce(ReduceKind kind, ValueId x, Dims dims) {
  return equation(reducing_op(kind), {{"axes", std::move(dims)}}, {x})[0];
}

ValueId Builder::dot_general(ValueId x, ValueId y, DotDims dims) {
  return apply("dot_general",
               {{"lhs_contract", std::move(dims.lhs_contract)},
                {"rhs_contract", std::move(dims.rhs_contract)},
                {"lhs_batch", std::move(dims.lhs_batch)},
                {"rhs_batch", std::move(dims.rhs_batch)}},
               {x, y});
}

// ---- Constants.

ValueId Builder::full(const Scalar& value, Shape shape) {
  return apply("full", {{"shape", std::move(shape)}, {"value", value}}, {});
}

ValueId Builder::constant(int value, Dtype dtype, Shape shape) {
  return full(Scalar::of(value).converted_to(dtype), std::move(shape));
}

ValueId Builder::iota(Dtype dtype, Shape shape, std::size_t dim) {
  return apply("iota", {{"dim", as_attr(dim)}, {"dtype", dtype}, {"shape", std::move(shape)}}, {});
}

// ---- Movement.

ValueId Builder::reshape(ValueId x, Shape shape) { return apply("reshape", {{"shape", std::move(shape)}}, {x}); }

ValueId Builder::broadcast_in_dim(ValueId x, Shape shape, Dims dims) {
  return apply("broadcast_in_dim", {{"shape", std::move(shape)}, {"dims", std::move(dims)}}, {x});
}

ValueId Builder::broadcast_to(ValueId x, Shape shape) {
  Dims dims(type(x).rank());
  std::iota(dims.begin(), dims.end(), 0);
  return broadcast_in_dim(x, std::move(shape), std::move(dims));
}

ValueId Builder::transpose(ValueId x, Dims perm) { return apply("transpose", {{"perm", std::move(perm)}}, {x}); }

ValueId Builder::bitcast(ValueId x, Dtype dtype) { return apply("bitcast", {{"dtype", dtype}}, {x}); }

ValueId Builder::slice(ValueId x, Dims starts, Dims limits, Dims strides) {
  return apply("slice", {{"starts", std::move(starts)}, {"limits", std::move(limits)}, {"strides", std::move(strides)}},
               {x});
}

ValueId Builder::concatenate(std::vector<ValueId> operands, std::size_t dim) {
  return apply("concatenate", {{"dim", as_attr(dim)}}, std::move(operands));
}

ValueId Builder::pad(ValueId x, ValueId fill, Dims low, Dims high, Dims interior) {
  return apply("pad", {{"low", std::move(low)}, {"high", std::move(high)}, {"interior", std::move(interior)}},
               {x, fill});
}

ValueId Builder::reverse(ValueId x, Dims dims) { return apply("reverse", {{"dims", std::move(dims)}}, {x}); }

// ---- Where values lie.

ValueId Builder::to_memory(ValueId x, MemoryKind memory) { return apply("to_memory", {{"memory", memory}}, {x}); }

ValueId Builder::sharding_constraint(ValueId x, const NamedSharding& sharding) {
  return apply("sharding_constraint", {{"sharding", sharding}}, {x});
}

ValueId Builder::split_as(ValueId x, const Type& type) {
  const Shared<ExplicitAxes>& given = graph_.type(x).explicit_axes;
  const Shared<ExplicitAxes>& wanted = type.explicit_axes;
  if (given == wanted) return x;
  if (!wanted) return relaxed(x);
  return sharding_constraint(x, NamedSharding(wanted->mesh, spec_of(*wanted), {}, where_));
}

ValueId Builder::relaxed(ValueId x, const Axes& kept) {
  const Shared<ExplicitAxes>& given = graph_.type(x).explicit_axes;
  if (!given) return x;
  Axes axes = given->mesh.axis_names();
  const auto splits_it = [&](const std::string& axis) {
    return std::ranges::any_of(given->dims, [&](const Axes& dim) { return std::ranges::find(dim, axis) != dim.end(); });
  };
  if (std::ranges::none_of(kept, splits_it)) {
    std::erase_if(axes, [&](const std::string& axis) { return std::ranges::find(kept, axis) != kept.end(); });
  }
  return axes.empty() ? x : apply("relax_axes", {{"axes", std::move(axes)}}, {x});
}

ValueId Builder::pcast(ValueId x, Axes axes, std::string_view to) {
  return apply("pcast", {{"axes", std::move(axes)}, {"to", std::string(to)}}, {x});
}

ValueId Builder::summed_as(ValueId x, const Type& type) {
  const auto is = [&]() -> const Type& { return graph_.type(x); };
  AxisNames whole = difference_of(type.summands, is().varying);
  if (!whole.empty()) {
    const ValueId is_first = broadcast_in_dim(equal(axis_index(whole), constant(0, int32)), is().shape, {});
    const ValueId zeros = with_weakness(constant(0, is().dtype, is().shape), is().weak);
    const ValueId others = is().summands.empty() ? zeros : summed_as(zeros, is());
    x = select(is_first, pvary(x, whole), others);
  }
  AxisNames summands = difference_of(type.summands, is().summands);
  if (!summands.empty()) x = pcast(x, std::move(summands), "unreduced");
  const AxisNames varying = difference_of(is().reduced, type.reduced);
  if (const AxisNames differ = difference_of(varying, difference_of(varying, type.varying)); !differ.empty()) {
    x = pvary(x, differ);
  }
  AxisNames reduced = difference_of(difference_of(type.reduced, is().reduced), is().varying);
  return reduced.empty() ? x : pcast(x, std::move(reduced), "reduced");
}

ValueId Builder::shard_alike(ValueId x, ValueId y) { return equation(op_named("shard_alike"), {}, {x, y})[0]; }

ValueId Builder::enter_manual(ValueId x, Axes axes, const NamedSharding& sharding) {
  return apply("enter_manual", {{"axes", std::move(axes)}, {"sharding", sharding}}, {x});
}

ValueId Builder::leave_manual(ValueId x, Axes axes, const NamedSharding& sharding) {
  return apply("leave_manual", {{"axes", std::move(axes)}, {"sharding", sharding}}, {x});
}

// ---- Collectives.

ValueId Builder::axis_index(Axes axes) { return apply("axis_index", {{"axes", std::move(axes)}}, {}); }

ValueId Builder::all_reduce(ValueId x, Axes axes, ReduceKind kind) {
  return apply("all_reduce", {{"axes", std::move(axes)}, {"kind", text_of(kind)}}, {x});
}

ValueId Builder::all_gather(ValueId x, Axes axes, std::size_t dim, std::optional<std::int64_t> size) {
  return apply("all_gather", with_size({{"axes", std::move(axes)}, {"dim", as_attr(dim)}}, size), {x});
}

ValueId Builder::reduce_scatter(ValueId x, Axes axes, ReduceKind kind, std::size_t dim) {
  return apply("reduce_scatter", {{"axes", std::move(axes)}, {"dim", as_attr(dim)}, {"kind", text_of(kind)}}, {x});
}

ValueId Builder::all_to_all(ValueId x, Axes axes, std::size_t split_dim, std::size_t concat_dim,
                            std::optional<std::int64_t> size) {
  return apply(
      "all_to_all",
      with_size({{"axes", std::move(axes)}, {"split_dim", as_attr(split_dim)}, {"concat_dim", as_attr(concat_dim)}},
                size),
      {x});
}

ValueId Builder::collective_permute(ValueId x, Axes axes, Dims sources, Dims targets) {
  return apply("collective_permute",
               {{"axes", std::move(axes)}, {"sources", std::move(sources)}, {"targets", std::move(targets)}}, {x});
}

ValueId Builder::shard_slice(ValueId x, Axes axes, std::size_t dim) {
  return apply("shard_slice", {{"axes", std::move(axes)}, {"dim", as_attr(dim)}}, {x});
}

ValueId Builder::exclusive_scan(ValueId x, Axes axes, ReduceKind kind, bool reverse) {
  return apply("exclusive_scan", {{"axes", std::move(axes)}, {"kind", text_of(kind)}, {"reverse", reverse}}, {x});
}

ValueId Builder::rearrange(std::vector<ValueId> operands, Axes axes, std::size_t dim, Dims extents, std::int64_t size,
                           const std::vector<Run>& runs, bool fills) {
  return apply("rearrange",
               {{"axes", std::move(axes)},
                {"dim", as_attr(dim)},
                {"extents", std::move(extents)},
                {"size", size},
                {"runs", to_dims(runs)},
                {"fills", fills}},
               std::move(operands));
}

void Builder::solver(std::string_view op, Attrs attrs, std::vector<ValueId> operands, Axes axes, std::int64_t n,
                     std::optional<std::int64_t> sides, std::vector<SplitMatrix> split, std::vector<ValueId> results) {
  attrs.set("axes", std::move(axes));
  attrs.set("n", n);
  attrs.set("rows", std::move(split[0].rows));
  attrs.set("columns", std::move(split[0].columns));
  if (sides) {
    attrs.set("sides", *sides);
    attrs.set("side_rows", std::move(split[1].rows));
    attrs.set("side_columns", std::move(split[1].columns));
  }
  if (!attrs.contains("tile")) attrs.set("tile", std::int64_t{0});
  graph_.eqns.push_back({.op = &op_named(op),
                         .attrs = std::move(attrs),
                         .inputs = std::move(operands),
                         .outputs = std::move(results),
                         .where = where_});
}

ValueId Builder::with_halos(ValueId x, ValueId fill, Axes axes, std::size_t dim, std::int64_t extent, std::int64_t size,
                            const Windows& windows) {
  return apply("rearrange",
               {{"axes", std::move(axes)},
                {"dim", as_attr(dim)},
                {"extents", Dims{extent}},
                {"size", size},
                {"windows", to_dims(windows)},
                {"fills", true}},
               {x, fill});
}

ValueId Builder::pvary(ValueId x, Axes axes) { return apply("pvary", {{"axes", std::move(axes)}}, {x}); }

// ---- Calls.

std::vector<ValueId> Builder::jit(GraphPtr body, std::string name, std::vector<ValueId> operands) {
  return equation(op_named("jit"), {{"body", GraphAttr{std::move(body)}}, {"name", std::move(name)}},
                  std::move(operands));
}

const OpDef& combining_op(ReduceKind kind) {
  constexpr std::string_view kOps[] = {"add", "multiply", "maximum", "minimum", "bitwise_and", "bitwise_or"};
  return op_named(kOps[static_cast<std::size_t>(kind)]);
}

const OpDef& reducing_op(ReduceKind kind) { return op_named("reduce_" + text_of(kind)); }

Attrs over_axes(Attrs attrs, std::vector<std::string> axes) {
  attrs.set("axes", std::move(axes));
  return attrs;
}

Attrs with_counts(Attrs attrs, std::int64_t carries, std::int64_t slices) {
  if (attrs.contains("carries")) attrs.set("carries", carries);
  if (attrs.contains("slices")) attrs.set("slices", slices);
  return attrs;
}

Attrs turned_around(Attrs attrs) {
  attrs.set("reverse", !attrs.get<bool>("reverse"));
  return attrs;
}

Attrs with_bodies(Attrs attrs, std::vector<Graph> bodies) {
  std::vector<GraphAttr> graphs;
  for (Graph& body : bodies) graphs.push_back({std::make_shared<const Graph>(std::move(body))});
  attrs.set("bodies", std::move(graphs));
  return attrs;
}

Attrs with_dtype(Attrs attrs, Dtype dtype) {
  attrs.set("dtype", dtype);
  return attrs;
}

}  // namespace shoal
