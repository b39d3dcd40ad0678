// Writes equations: one function for each op, by whose parameters its attributes are spelled, so that nobody else needs
// to know how. Passes, expansions and rules build graphs by it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "ir/rearrangement.h"

namespace shoal {

/// The dimensions of a product.
struct DotDims {
  Dims lhs_contract = {};
  Dims rhs_contract = {};
  Dims lhs_batch = {};
  Dims rhs_batch = {};
};

/// Appends equations to a graph. Each function returns the result; operands are values of the graph. Functions throw
/// what the op's infer throws. `axes` of collectives are mesh axes in a traced graph, and axes or sub-axes of the grid
/// from the placed stage on.
class Builder {
 public:
  using Axes = std::vector<std::string>;

  /// Equations come from the user's line `where`. `graph` must outlive the builder.
  Builder(Graph& graph, const Origin& where) : graph_(graph), where_(where) {}

  /// A builder whose equations define `result`, a value of the graph, in the place of one of the type that the op
  /// infers: for passes that know more of a result than its type. It is good for one equation.
  Builder into(ValueId result) const;

  const Type& type(ValueId id) const { return graph_.type(id); }
  const AxisEnv& axes() const { return graph_.axes; }
  const Origin& where() const { return where_; }

  /// Any op: all results, or the only one.
  std::vector<ValueId> equation(const OpDef& op, Attrs attrs, std::vector<ValueId> operands);
  ValueId apply(std::string_view op, Attrs attrs, std::vector<ValueId> operands);
  /// An elementwise op without attributes.
  ValueId elementwise(std::string_view op, std::initializer_list<ValueId> operands) { return apply(op, {}, operands); }

  // ---- Arithmetic. Operands are of one shape, or scalars.
  ValueId add(ValueId x, ValueId y) { return elementwise("add", {x, y}); }
  ValueId subtract(ValueId x, ValueId y) { return elementwise("subtract", {x, y}); }
  ValueId multiply(ValueId x, ValueId y) { return elementwise("multiply", {x, y}); }
  ValueId divide(ValueId x, ValueId y) { return elementwise("divide", {x, y}); }
  ValueId negative(ValueId x) { return elementwise("negative", {x}); }
  ValueId equal(ValueId x, ValueId y) { return elementwise("equal", {x, y}); }
  ValueId select(ValueId condition, ValueId then, ValueId otherwise) {
    return elementwise("select", {condition, then, otherwise});
  }
  ValueId convert(ValueId x, Dtype dtype);
  /// x, weakly typed or not.
  ValueId with_weakness(ValueId x, bool weak);
  /// x and y reduced element by element.
  ValueId combine(ReduceKind kind, ValueId x, ValueId y);
  ValueId reduce(ReduceKind kind, ValueId x, Dims dims);
  ValueId dot_general(ValueId x, ValueId y, DotDims dims);

  // ---- Constants.
  ValueId full(const Scalar& value, Shape shape = {});
  /// `value` converted to the dtype.
  ValueId constant(int value, Dtype dtype, Shape shape = {});
  /// Of the dtype and shape of a type, split, unreduced and reduced as it is.
  ValueId zeros(const Type& type) { return summed_as(split_as(constant(0, type.dtype, type.shape), type), type); }
  ValueId iota(Dtype dtype, Shape shape, std::size_t dim);

  // ---- Movement.
  ValueId reshape(ValueId x, Shape shape);
  /// Dimension i of x becomes dimension dims[i] of the result.
  ValueId broadcast_in_dim(ValueId x, Shape shape, Dims dims);
  /// Dimensions of extent 1 are repeated; x has the result's rank, or is a scalar.
  ValueId broadcast_to(ValueId x, Shape shape);
  ValueId transpose(ValueId x, Dims perm);
  ValueId bitcast(ValueId x, Dtype dtype);
  ValueId slice(ValueId x, Dims starts, Dims limits, Dims strides);
  ValueId concatenate(std::vector<ValueId> operands, std::size_t dim);
  ValueId pad(ValueId x, ValueId fill, Dims low, Dims high, Dims interior);
  ValueId reverse(ValueId x, Dims dims);

  // ---- Where values lie.
  ValueId to_memory(ValueId x, MemoryKind memory);
  ValueId sharding_constraint(ValueId x, const NamedSharding& sharding);
  /// x, which shall lie as y.
  ValueId shard_alike(ValueId x, ValueId y);
  /// x, whose dimensions Explicit axes split as those of a type; where that says nothing of them, the compiler chooses.
  /// A sum that is not finished is.
  ValueId split_as(ValueId x, const Type& type);
  /// x, of which the compiler chooses how Explicit axes split it, but for those of `kept`, over which it may be
  /// unreduced, and which do not split it.
  ValueId relaxed(ValueId x, const Axes& kept = {});
  /// x, taken as `to` says of these manual axes: "unreduced", where devices have different data of it, or "reduced",
  /// where they have the same.
  ValueId pcast(ValueId x, Axes axes, std::string_view to);
  /// x, unreduced and reduced over manual axes as a type says. What is the same on all devices becomes a sum of that on
  /// the first and of zeros on the others.
  ValueId summed_as(ValueId x, const Type& type);
  ValueId enter_manual(ValueId x, Axes axes, const NamedSharding& sharding);
  ValueId leave_manual(ValueId x, Axes axes, const NamedSharding& sharding);

  // ---- Collectives. `size` is the extent of the joined dimension where that is not the sum of equal parts.
  ValueId axis_index(Axes axes);
  ValueId all_reduce(ValueId x, Axes axes, ReduceKind kind);
  ValueId all_gather(ValueId x, Axes axes, std::size_t dim, std::optional<std::int64_t> size = {});
  ValueId reduce_scatter(ValueId x, Axes axes, ReduceKind kind, std::size_t dim);
  ValueId all_to_all(ValueId x, Axes axes, std::size_t split_dim, std::size_t concat_dim,
                     std::optional<std::int64_t> size = {});
  /// The shard at position sources[i] goes to targets[i].
  ValueId collective_permute(ValueId x, Axes axes, Dims sources, Dims targets);
  ValueId shard_slice(ValueId x, Axes axes, std::size_t dim);
  ValueId exclusive_scan(ValueId x, Axes axes, ReduceKind kind, bool reverse);
  /// `extents` are those of the operands along `dim`, `size` that of the result; if `fills`, the last of `operands`
  /// fills what no run covers.
  ValueId rearrange(std::vector<ValueId> operands, Axes axes, std::size_t dim, Dims extents, std::int64_t size,
                    const std::vector<Run>& runs, bool fills);
  /// What each device's share of windows meets of `x`, whose whole extent along `dim` is `extent`; `fill` is
  /// what they meet beyond it. All parts are of one extent, and `size` that of all of them together.
  ValueId with_halos(ValueId x, ValueId fill, Axes axes, std::size_t dim, std::int64_t extent, std::int64_t size,
                     const Windows& windows);
  ValueId pvary(ValueId x, Axes axes);
  /// What the devices along `axes` compute together by a solver, of a square matrix of n rows and perhaps right sides;
  /// `results` are values of the graph. `attrs` are those of the op whose place it takes, `split` the axes over which
  /// rows and columns of each operand are.
  struct SplitMatrix {
    Axes rows;
    Axes columns;
  };
  void solver(std::string_view op, Attrs attrs, std::vector<ValueId> operands, Axes axes, std::int64_t n,
              std::optional<std::int64_t> sides, std::vector<SplitMatrix> split, std::vector<ValueId> results);

  // ---- Calls.
  /// The equations of a graph, in the place of a call.
  std::vector<ValueId> inlined(const Graph& body, std::span<const ValueId> operands) {
    return inline_graph(graph_, body, operands);
  }
  std::vector<ValueId> jit(GraphPtr body, std::string name, std::vector<ValueId> operands);

 private:
  Graph& graph_;
  Origin where_;
  std::optional<ValueId> result_ = {};
};

/// The elementwise op that reduces two elements, and the op that reduces dimensions. Max and min are for what is
/// ordered, and/or for bool and integers; sums and products of bool are or and and.
const OpDef& combining_op(ReduceKind kind);
const OpDef& reducing_op(ReduceKind kind);

/// The attributes of an equation that is rewritten: over other axes, with a result of another dtype, or
/// with other operands.
Attrs over_axes(Attrs attrs, std::vector<std::string> axes);
Attrs with_dtype(Attrs attrs, Dtype dtype);
/// Of a loop that has so many carries and slices, as far as it counts them.
Attrs with_counts(Attrs attrs, std::int64_t carries, std::int64_t slices);
/// Of a loop whose trips come in the opposite order.
Attrs turned_around(Attrs attrs);
/// The graphs that an equation holds under control, and its attributes with others.
inline const std::vector<GraphAttr>& bodies_in(const Attrs& attrs) {
  return attrs.get<std::vector<GraphAttr>>("bodies");
}
Attrs with_bodies(Attrs attrs, std::vector<Graph> bodies);

}  // namespace shoal
