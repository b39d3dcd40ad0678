#include "ops/split_programs.h"

#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "ops/halley.h"
#include "ops/matrices.h"
#include "ops/table.h"

namespace shoal {
namespace {

// As for ops with a solver of their own.
constexpr std::int64_t kSplitFrom = 512;
constexpr std::int64_t kMostHalleySteps = 10;

class Programs {
 public:
  explicit Programs(Builder& build) : build_(build), matrices_(build) {}

  // u, s and vh, by the polar factors of the matrix, or of its triangle if it is not square: Nakatsukasa and Higham,
  // "Stable and efficient spectral divide and conquer algorithms for the symmetric eigenvalue decomposition and the
  // SVD", 2013.
  std::vector<ValueId> svd(ValueId a) {
    const Shape shape = build_.type(a).shape;
    const bool is_tall = shape[0] >= shape[1];
    const ValueId x = is_tall ? a : matrices_.adjoint(a);
    std::vector<ValueId> outer = {x, x};
    if (shape[0] != shape[1]) outer = factors(x);
    const ValueId unitary = polar_factor(outer[1]);
    const ValueId h = matrices_.product(matrices_.adjoint(unitary), outer[1]);
    const ValueId half = scaled(0.5, build_.add(h, matrices_.adjoint(h)));
    const std::vector<ValueId> spectrum = build_.equation(op_named("eigh"), {}, {half});
    // Descending, and none is less than 0 but for rounding.
    const ValueId ascending = build_.elementwise("maximum", {spectrum[0], number(0, spectrum[0])});
    const ValueId s = build_.reverse(ascending, {0});
    const ValueId v = build_.reverse(spectrum[1], {1});
    // Where singular values are nearly 0, the unitary factor is not quite that; its product with v is made orthonormal
    // again, with columns that keep their signs.
    const std::vector<ValueId> mended = factors(matrices_.product(unitary, v));
    const ValueId diagonal = matrices_.real_diagonal(mended[1]);
    const ValueId sign = build_.select(build_.elementwise("less", {diagonal, number(0, diagonal)}),
                                       number(-1, diagonal), number(1, diagonal));
    const Type type = build_.type(mended[0]);
    const ValueId signs = matrices_.in_rows(build_.convert(sign, type.dtype), type.shape);
    ValueId u = build_.multiply(mended[0], signs);
    if (shape[0] != shape[1]) u = matrices_.product(outer[0], u);
    return {is_tall ? u : v, s, matrices_.adjoint(is_tall ? v : u)};
  }

 private:
  std::vector<ValueId> factors(ValueId x) { return build_.equation(op_named("qr"), {{"full", false}}, {x}); }
  // In the shape of another value.
  ValueId number(double value, ValueId like) {
    const Type& type = build_.type(like);
    return build_.full(Scalar::of(value).converted_to(type.dtype), type.shape);
  }
  ValueId scaled(double factor, ValueId x) { return build_.multiply(number(factor, x), x); }

  // Of a square matrix, as lax::linalg::qdwh.
  ValueId polar_factor(ValueId x) {
    const Type type = build_.type(x);
    const ValueId sizes = build_.elementwise("abs", {x});
    const auto greatest_sum = [&](std::int64_t dim) {
      return build_.reduce(ReduceKind::kMax, build_.reduce(ReduceKind::kSum, sizes, {dim}), {0});
    };
    const ValueId bound =
        build_.multiply(build_.elementwise("sqrt", {greatest_sum(0)}), build_.elementwise("sqrt", {greatest_sum(1)}));
    const ValueId positive = build_.select(build_.equal(bound, number(0, bound)), number(1, bound), bound);
    ValueId u = build_.divide(x, build_.broadcast_to(build_.convert(positive, type.dtype), type.shape));
    const ValueId one = matrices_.identity(x);
    const std::int64_t n = type.shape[0];
    const double epsilon = real_dtype(type.dtype) == Dtype::kF64 ? std::numeric_limits<double>::epsilon()
                                                                 : std::numeric_limits<float>::epsilon();
    for (const HalleyStep& step : halley_steps(epsilon, epsilon, kMostHalleySteps).steps) {
      ValueId turned = 0;
      if (step.needs_orthogonal_factor()) {
        const double scale = std::sqrt(step.c);
        const ValueId q = factors(build_.concatenate({scaled(scale, u), one}, 0))[0];
        const ValueId top = build_.slice(q, {0, 0}, {n, n}, {1, 1});
        const ValueId bottom = build_.slice(q, {n, 0}, {2 * n, n}, {1, 1});
        turned = scaled((step.a - step.kept) / scale, matrices_.product(top, matrices_.adjoint(bottom)));
      } else {
        const ValueId z = build_.add(one, scaled(step.c, matrices_.product(matrices_.adjoint(u), u)));
        const ValueId l = build_.apply("cholesky", {}, {z});
        const ValueId half = matrices_.solved(l, matrices_.adjoint(u), true);
        const ValueId whole =
            build_.apply("triangular_solve", {{"lower", true}, {"unit_diagonal", false}, {"adjoint", true}}, {l, half});
        turned = scaled(step.a - step.kept, matrices_.adjoint(whole));
      }
      u = build_.add(scaled(step.kept, u), turned);
    }
    // Once more by Newton and Schulz, which mends what has been rounded.
    const ValueId cubic = matrices_.product(u, matrices_.product(matrices_.adjoint(u), u));
    return build_.subtract(scaled(1.5, u), scaled(0.5, cubic));
  }

  Builder& build_;
  Matrices matrices_;
};

}  // namespace

bool may_be_split(const OpDef& op) { return op.name == "svd"; }

bool call_split_program(Eqn& eqn, std::span<const Type> operands) {
  if (!may_be_split(*eqn.op)) return false;
  const Type& matrix = operands[0];
  if (matrix.rank() != 2 || matrix.explicit_axes) return false;
  const std::int64_t least = std::min(matrix.shape[0], matrix.shape[1]);
  const bool is_wanted = matrix.shape[0] == matrix.shape[1] || !eqn.attrs.get<bool>("full");
  if (least < kSplitFrom || !is_wanted) return false;
  Graph graph;
  Builder build(graph, eqn.where);
  graph.outputs = Programs(build).svd(graph.add_input(matrix));
  if (eqn.attrs.contains("values_only")) graph.outputs = {graph.outputs[1]};
  eqn.attrs = {{"body", GraphAttr{std::make_shared<const Graph>(std::move(graph))}},
               {"name", std::string(eqn.op->name)}};
  eqn.op = &op_named("jit");
  return true;
}

}  // namespace shoal
