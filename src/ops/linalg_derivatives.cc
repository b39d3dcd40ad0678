// After Giles, "An extended collection of matrix derivative results for forward and reverse mode algorithmic
// differentiation", 2008; LU after Bolte et al., and Hermitian eigenvectors by first-order perturbation.
#include "ops/linalg_derivatives.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "ops/matrices.h"
#include "ops/table.h"

namespace shoal {

std::vector<MaybeValue> jvp_of_cholesky(const JvpContext& context) {
  Builder& build = context.build;
  const Matrices matrices(build);
  const ValueId l = context.primals.result(0);
  const ValueId half = matrices.solved(l, matrices.hermitian(*context.tangents[0]), true);
  const ValueId inner = matrices.adjoint(matrices.solved(l, matrices.adjoint(half), true));
  // The lower triangle, and half of the diagonal.
  const ValueId diagonal = matrices.part(inner, "equal");
  const ValueId two = build.constant(2, build.type(inner).dtype);
  const ValueId kept = build.add(matrices.strictly_lower(inner), build.divide(diagonal, two));
  return {matrices.product(l, kept)};
}

// Of r = (l l^H)^-1 that is -r (dl l^H + l dl^H) r.
std::vector<MaybeValue> jvp_of_cholesky_inverse(const JvpContext& context) {
  Builder& build = context.build;
  const Matrices matrices(build);
  const ValueId r = context.primals.result(0);
  const ValueId l = matrices.lower(context.primals.operand(0));
  const ValueId change = matrices.lower(*context.tangents[0]);
  const ValueId half = matrices.product(matrices.product(r, change), matrices.product(matrices.adjoint(l), r));
  return {build.negative(build.add(half, matrices.adjoint(half)))};
}

// Of x = l^-1 that is -x dl x.
std::vector<MaybeValue> jvp_of_triangular_inverse(const JvpContext& context) {
  Builder& build = context.build;
  const Matrices matrices(build);
  const ValueId x = context.primals.result(0);
  const ValueId change = matrices.lower(*context.tangents[0]);
  return {build.negative(matrices.product(matrices.product(x, change), x))};
}

GraphPtr expand_triangular_inverse(const ExpandContext& context) {
  Graph graph;
  Builder build(graph, context.where);
  const ValueId l = graph.add_input(context.operands[0]);
  graph.outputs = {Matrices(build).solved(l, Matrices(build).identity(l), true)};
  return std::make_shared<const Graph>(std::move(graph));
}

GraphPtr expand_cholesky_inverse(const ExpandContext& context) {
  Graph graph;
  Builder build(graph, context.where);
  const ValueId l = graph.add_input(context.operands[0]);
  const ValueId inverse = Matrices(build).solved(l, Matrices(build).identity(l), true);
  graph.outputs = {
      build.apply("triangular_solve", {{"lower", true}, {"unit_diagonal", false}, {"adjoint", true}}, {l, inverse})};
  return std::make_shared<const Graph>(std::move(graph));
}

std::vector<MaybeValue> jvp_of_triangular_solve(const JvpContext& context) {
  Builder& build = context.build;
  const Matrices matrices(build);
  const bool is_lower = context.attrs.get<bool>("lower");
  const bool has_unit_diagonal = context.attrs.get<bool>("unit_diagonal");
  ValueId change = 0;
  if (context.tangents[0]) {
    const ValueId tangent = *context.tangents[0];
    const ValueId triangle = has_unit_diagonal ? matrices.part(tangent, is_lower ? "greater" : "less")
                                               : matrices.part(tangent, is_lower ? "greater_equal" : "less_equal");
    const ValueId moved = context.attrs.contains("adjoint") ? matrices.adjoint(triangle) : triangle;
    change = build.elementwise("negative", {matrices.product(moved, context.primals.result(0))});
    if (context.tangents[1]) change = build.add(change, *context.tangents[1]);
  } else {
    change = *context.tangents[1];
  }
  return {build.apply("triangular_solve", context.attrs, {context.primals.operand(0), change})};
}

std::vector<MaybeValue> transpose_triangular_solve(const TransposeContext& context) {
  Builder& build = context.build;
  const Matrices matrices(build);
  const ValueId a = *context.values[0];
  const bool is_real = !is_complex(build.type(a).dtype);
  Attrs attrs = context.attrs;
  if (attrs.contains("adjoint")) {  // The transpose of the inverse of a^H is that of conj(a).
    attrs.erase("adjoint");
    return {std::nullopt, build.apply("triangular_solve", std::move(attrs),
                                      {is_real ? a : build.elementwise("conj", {a}), context.cotangent()})};
  }
  if (is_real && attrs.contains("tile")) {
    attrs.set("adjoint", true);
    return {std::nullopt, build.apply("triangular_solve", std::move(attrs), {a, context.cotangent()})};
  }
  attrs.set("lower", !attrs.get<bool>("lower"));
  return {std::nullopt,
          build.apply("triangular_solve", std::move(attrs), {matrices.transposed(a), context.cotangent()})};
}

std::vector<MaybeValue> jvp_of_lu(const JvpContext& context) {
  Builder& build = context.build;
  const Matrices matrices(build);
  const Shape& shape = context.operands[0].shape;
  const std::size_t rank = shape.size();
  // Factors as square matrices that have an inverse: where l has fewer columns than rows, or u fewer rows than columns,
  // those of the identity follow.
  const ValueId both = context.primals.result(0);
  const std::int64_t least = std::min(shape[rank - 2], shape[rank - 1]);
  const ValueId below = matrices.resized(matrices.strictly_lower(both), rank - 1, least, shape[rank - 2]);
  const ValueId l = build.add(below, matrices.identity(below));
  const ValueId above = matrices.resized(matrices.upper(both), rank - 2, least, shape[rank - 1]);
  const ValueId u = matrices.with_identity_from(above, least);
  const ValueId exchanged = matrices.permuted(*context.tangents[0], context.primals.result(2));
  const ValueId inner = matrices.solved_on_the_right(u, matrices.solved(l, exchanged, true, true), false);
  return {build.add(matrices.product(l, matrices.strictly_lower(inner)), matrices.product(matrices.upper(inner), u)),
          std::nullopt, std::nullopt};
}

std::vector<MaybeValue> jvp_of_qr(const JvpContext& context) {
  Builder& build = context.build;
  const Matrices matrices(build);
  const Shape& shape = context.operands[0].shape;
  const std::int64_t m = shape[shape.size() - 2];
  const std::int64_t n = shape[shape.size() - 1];
  if (m < n || (context.attrs.get<bool>("full") && m != n)) {
    throw no_derivative<Unsupported>(
        context.build,
        "{} has a derivative for matrices with at least as many rows as columns, and not for the "
        "full q of more; the operand is {}",
        context.op.name, user_string(context.operands[0]));
  }
  const ValueId q = context.primals.result(0);
  const ValueId r = context.primals.result(1);
  const ValueId by_r = matrices.solved_on_the_right(r, *context.tangents[0], false);
  const ValueId inner = matrices.product(matrices.adjoint(q), by_r);
  const ValueId below = matrices.strictly_lower(inner);
  ValueId turn = build.subtract(below, matrices.adjoint(below));
  if (is_complex(build.type(inner).dtype)) {
    // The diagonal of r stays real.
    const ValueId diagonal = matrices.part(inner, "equal");
    turn = build.add(
        turn, build.subtract(diagonal, build.convert(build.elementwise("real", {diagonal}), build.type(inner).dtype)));
  }
  return {build.add(matrices.product(q, build.subtract(turn, inner)), by_r),
          matrices.product(build.subtract(inner, turn), r)};
}

std::vector<MaybeValue> jvp_of_eigh(const JvpContext& context) {
  Builder& build = context.build;
  const Matrices matrices(build);
  const bool has_vectors = !context.attrs.contains("values_only");
  ValueId v = 0;
  if (has_vectors) {
    v = context.primals.result(1);
  } else {  // Values have no derivative without them.
    Attrs attrs = context.attrs;
    attrs.erase("values_only");
    v = build.equation(context.op, std::move(attrs), {context.primals.operand(0)})[1];
  }
  const ValueId change = matrices.hermitian(*context.tangents[0]);
  const ValueId inner = matrices.product(matrices.adjoint(v), matrices.product(change, v));
  const Dtype dtype = build.type(inner).dtype;
  const Dtype real_numbers = real_dtype(dtype);
  const Shape shape = build.type(inner).shape;
  ValueId values =
      build.reduce(ReduceKind::kSum, matrices.part(inner, "equal"), {static_cast<std::int64_t>(shape.size() - 1)});
  if (dtype != real_numbers) values = build.elementwise("real", {values});
  if (!has_vectors) return {values};
  const ValueId w = context.primals.result(0);
  // 1 / (w_j - w_i), and 0 on the diagonal.
  const ValueId difference = build.subtract(matrices.in_rows(w, shape), matrices.in_columns(w, shape));
  const ValueId one = matrices.identity(difference);
  const ValueId inverse =
      build.subtract(build.divide(build.constant(1, real_numbers), build.add(difference, one)), one);
  const ValueId factor = dtype == real_numbers ? inverse : build.convert(inverse, dtype);
  return {values, matrices.product(v, build.multiply(factor, inner))};
}

std::vector<MaybeValue> jvp_of_eig(const JvpContext& context) {
  Builder& build = context.build;
  const Matrices matrices(build);
  const bool left = context.attrs.get<bool>("left");
  const bool right = context.attrs.get<bool>("right");
  if ((left || right) && !context.attrs.get<bool>("differentiable")) {
    throw no_derivative<Unsupported>(
        context.build,
        "{} has a derivative of vectors only where eigenvalues differ, and no vector has two greatest elements, "
        "which cannot be seen before: say enable_eigvec_derivs=True, or ask for eigenvalues alone (eigvals)",
        context.op.name);
  }
  const ValueId w = context.primals.result(0);
  const Dtype dtype = build.type(w).dtype;
  const Type tangent = build.type(*context.tangents[0]);
  const ValueId change = tangent.dtype == dtype ? *context.tangents[0] : build.convert(*context.tangents[0], dtype);
  const auto last = static_cast<std::int64_t>(tangent.rank() - 1);
  const auto diagonal = [&](ValueId x) { return build.reduce(ReduceKind::kSum, matrices.part(x, "equal"), {last}); };
  // v^-1 change v
  const auto inner_of = [&](ValueId v, ValueId by) { return matrices.product(matrices.solved_by_lu(v, by), v); };
  if (!left && !right) {
    // The result does not depend on how vectors are normalized, and so has derivatives itself.
    const Attrs attrs{{"left", false}, {"right", true}, {"differentiable", true}};
    const ValueId v = build.equation(context.op, attrs, {context.primals.operand(0)})[1];
    return {diagonal(inner_of(v, change))};
  }
  // What a vector changes by, which perturbation theory says but for a multiple of the vector itself: the length stays,
  // and the greatest element real.
  const auto change_of = [&](ValueId values, ValueId v, ValueId inner) {
    const Shape shape = build.type(v).shape;
    const ValueId difference = build.subtract(matrices.in_rows(values, shape), matrices.in_columns(values, shape));
    const ValueId one = matrices.identity(difference);
    const ValueId factor = build.subtract(build.divide(build.constant(1, dtype), build.add(difference, one)), one);
    const ValueId turned = matrices.product(v, build.multiply(factor, inner));
    const auto of_columns = [&](ReduceKind kind, ValueId x) { return build.reduce(kind, x, {last - 1}); };
    const auto part_of = [&](const char* part, ValueId x) { return build.elementwise(part, {x}); };
    const ValueId sizes = part_of("abs", v);
    const ValueId greatest = matrices.in_rows(of_columns(ReduceKind::kMax, sizes), shape);
    const ValueId is_greatest = build.equal(sizes, greatest);
    const auto at_greatest = [&](const char* part, ValueId x) {
      const ValueId chosen = part_of(part, x);
      const ValueId zero = build.constant(0, build.type(chosen).dtype);
      return of_columns(ReduceKind::kSum, build.select(is_greatest, chosen, zero));
    };
    const ValueId along = of_columns(ReduceKind::kSum, build.multiply(part_of("conj", v), turned));
    const ValueId phase = build.divide(at_greatest("imag", turned), at_greatest("real", v));
    const ValueId multiple =
        build.elementwise("complex", {part_of("negative", part_of("real", along)), part_of("negative", phase)});
    return build.add(turned, build.multiply(v, matrices.in_rows(multiple, shape)));
  };
  std::vector<MaybeValue> changes(context.results.size());
  if (left) {
    const ValueId v = context.primals.result(1);
    const ValueId inner = inner_of(v, matrices.adjoint(change));
    changes[0] = build.elementwise("conj", {diagonal(inner)});
    changes[1] = change_of(build.elementwise("conj", {w}), v, inner);
  }
  if (right) {
    const ValueId v = context.primals.result(left ? 2 : 1);
    const ValueId inner = inner_of(v, change);
    changes[0] = diagonal(inner);
    changes[left ? 2 : 1] = change_of(w, v, inner);
  }
  return changes;
}

std::vector<MaybeValue> jvp_of_svd(const JvpContext& context) {
  Builder& build = context.build;
  const Matrices matrices(build);
  const Shape& shape = context.operands[0].shape;
  const std::int64_t m = shape[shape.size() - 2];
  const std::int64_t n = shape[shape.size() - 1];
  if (context.attrs.contains("values_only")) {  // They have no derivative without vectors.
    Attrs attrs = context.attrs;
    attrs.erase("values_only");
    const std::vector<ValueId> whole = build.equation(context.op, std::move(attrs), {context.primals.operand(0)});
    const ValueId right = matrices.adjoint(whole[2]);
    const ValueId inner = matrices.product(matrices.adjoint(whole[0]), matrices.product(*context.tangents[0], right));
    return {matrices.real_diagonal(inner)};
  }
  if (context.attrs.get<bool>("full") && m != n) {
    throw no_derivative<Unsupported>(
        context.build, "{} has no derivative of the full u and vh of matrices that are not square; the operand is {}",
        context.op.name, user_string(context.operands[0]));
  }
  const ValueId u = context.primals.result(0);
  const ValueId s = context.primals.result(1);
  const ValueId vh = context.primals.result(2);
  const ValueId v = matrices.adjoint(vh);
  const ValueId change = *context.tangents[0];
  const ValueId inner = matrices.product(matrices.adjoint(u), matrices.product(change, v));
  const Dtype dtype = build.type(inner).dtype;
  const Dtype real_numbers = build.type(s).dtype;
  const auto as_elements = [&](ValueId x) { return dtype == real_numbers ? x : build.convert(x, dtype); };
  const Shape square = build.type(inner).shape;
  const ValueId rows = matrices.in_rows(s, square);
  const ValueId columns = matrices.in_columns(s, square);
  // 1 / (s_j^2 - s_i^2), and 0 on the diagonal.
  const ValueId difference = build.multiply(build.add(rows, columns), build.subtract(rows, columns));
  const ValueId one = matrices.identity(difference);
  const ValueId unit = build.constant(1, real_numbers);
  const ValueId factor = as_elements(build.subtract(build.divide(unit, build.add(difference, one)), one));
  const auto both = [&](ValueId x) { return build.multiply(factor, build.add(x, matrices.adjoint(x))); };
  const ValueId by_columns = build.multiply(as_elements(rows), inner);
  const ValueId by_rows = build.multiply(as_elements(columns), inner);
  ValueId turn = both(by_columns);
  const auto nonzero = [&](ValueId x) {
    return as_elements(build.select(build.equal(x, build.constant(0, real_numbers)), unit, x));
  };
  if (is_complex(dtype)) {
    const ValueId imaginary = matrices.part(build.subtract(inner, matrices.adjoint(inner)), "equal");
    turn = build.add(turn, build.divide(imaginary, build.multiply(build.constant(2, dtype), nonzero(rows))));
  }
  ValueId change_of_u = matrices.product(u, turn);
  ValueId change_of_v = matrices.product(v, both(by_rows));
  // What lies outside of the space that the vectors span.
  const auto outside = [&](ValueId x, ValueId vectors) {
    const ValueId rest = build.subtract(x, matrices.product(vectors, matrices.product(matrices.adjoint(vectors), x)));
    return build.divide(rest, nonzero(matrices.in_rows(s, build.type(x).shape)));
  };
  if (m > n) change_of_u = build.add(change_of_u, outside(matrices.product(change, v), u));
  if (n > m) change_of_v = build.add(change_of_v, outside(matrices.product(matrices.adjoint(change), u), v));
  return {change_of_u, matrices.real_diagonal(inner), matrices.adjoint(change_of_v)};
}

}  // namespace shoal
