// Iterative solvers against elimination: all of them, real and complex, of trees, under each transformation, and what
// devices exchange.
#include "shoal/sparse_linalg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <complex>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "frontend/test_support.h"
#include "sharding/test_support.h"
#include "shoal/derivatives.h"
#include "shoal/linalg.h"
#include "shoal/vmap.h"

namespace shoal::test {
namespace {

using test_support::message_of;

using Function = std::function<Array(const Array&)>;
using Operator = linalg::LinearOperator<Array>;
using Options = linalg::IterationOptions<Array>;

struct Solver {
  std::string name;
  std::function<Array(const Operator&, const Array&, const Options&)> solve;
};
std::vector<Solver> solvers() {
  const auto gmres = [](linalg::GmresMethod method, std::int64_t restart) {
    return [=](const Operator& A, const Array& b, const Options& options) {
      return linalg::gmres(A, b,
                           {.x0 = options.x0,
                            .tol = options.tol,
                            .atol = options.atol,
                            .restart = restart,
                            .maxiter = options.maxiter,
                            .M = options.M,
                            .solve_method = method})
          .first;
    };
  };
  return {{"cg", [](const Operator& A, const Array& b, const Options& options) { return linalg::cg(A, b, options); }},
          {"bicgstab",
           [](const Operator& A, const Array& b, const Options& options) { return linalg::bicgstab(A, b, options); }},
          {"gmres, batched", gmres(linalg::GmresMethod::kBatched, 20)},
          {"gmres, incremental", gmres(linalg::GmresMethod::kIncremental, 20)},
          {"gmres, which begins anew", gmres(linalg::GmresMethod::kBatched, 3)},
          {"gmres, which begins anew, incremental", gmres(linalg::GmresMethod::kIncremental, 3)}};
}

constexpr std::int64_t kUnknowns = 12;
Array waves(const Shape& shape, double seed) {
  return sin(reshape(arange(static_cast<double>(num_elements(shape)), {.dtype = float64}), shape) * seed);
}
Array general() { return waves({kUnknowns, kUnknowns}, 1.7) + 6.0 * eye(kUnknowns, {.dtype = float64}); }
// Positive definite.
Array definite() {
  const Array a = waves({kUnknowns, kUnknowns}, 1.7);
  return matmul(a, transpose(a)) / 6.0 + 2.0 * eye(kUnknowns, {.dtype = float64});
}
Array matrix_for(const std::string& name) { return name == "cg" ? definite() : general(); }
Array right_side() { return waves({kUnknowns}, 2.3); }

void expect_solved(const Array& a, const Array& b, double tolerance, const std::string& what) {
  ASSERT_EQ(a.shape(), b.shape()) << what;
  EXPECT_LE(max(abs(a - b)).item<double>(), tolerance) << what << ": " << str(a) << " and " << str(b);
}

const Options kExact{.tol = 1e-13};

TEST(SparseLinalg, FindsTheSolution) {
  for (const auto& [name, solve] : solvers()) {
    const Array a = matrix_for(name);
    const Array b = right_side();
    const Array x = linalg::solve(a, b);
    expect_solved(solve(a, b, kExact), x, 1e-11, name);
    expect_solved(jit([&, solve = solve](const Array& m, const Array& y) { return solve(m, y, kExact); })(a, b), x,
                  1e-11, name + " in jit");
    const auto product = [&](const Array& y) { return matmul(a, y); };
    expect_solved(solve(Function(product), b, kExact), x, 1e-11, name + " of a function");
    expect_solved(solve(a, b, {.x0 = x + 0.1, .tol = 1e-13}), x, 1e-11, name + " from elsewhere");
    const Array inverse = linalg::inv(a + 0.1 * eye(kUnknowns, {.dtype = float64}));
    expect_solved(solve(a, b, {.tol = 1e-13, .M = Operator(inverse)}), x, 1e-11, name + " with a preconditioner");
  }
}

TEST(SparseLinalg, EndsAsTold) {
  for (const auto& [name, solve] : solvers()) {
    const Array a = matrix_for(name);
    const Array b = right_side();
    const auto rest = [&](const Array& x) { return (linalg::norm(matmul(a, x) - b) / linalg::norm(b)).item<double>(); };
    const double coarse = rest(solve(a, b, {.tol = 1e-2}));
    EXPECT_LE(coarse, 1e-2) << name;
    const double length = linalg::norm(b).item<double>();
    EXPECT_LE(rest(solve(a, b, {.tol = 0.0, .atol = 0.1})) * length, 0.1) << name;
    // Those that know their residual at each step end there.
    const bool ends_early = name != "gmres, batched" && name != "gmres, which begins anew";
    EXPECT_EQ(rest(solve(a, b, {.tol = 0.0, .atol = 0.1})) > 1e-9, ends_early) << name;
    EXPECT_EQ(str(solve(a, b, {.maxiter = 0})), str(zeros_like(b))) << name;
    // The right side zero has the solution zero.
    EXPECT_EQ(str(solve(a, zeros_like(b), {})), str(zeros_like(b))) << name;
  }
  const Array once = linalg::cg(definite(), right_side(), {.maxiter = 1});
  const Array b = right_side();
  expect_solved(once, b * (vdot(b, b) / vdot(b, matmul(definite(), b))), 1e-14, "a step of cg");
}

TEST(SparseLinalg, HasDerivatives) {
  for (const auto& [name, solve] : solvers()) {
    const Array a = matrix_for(name);
    const Array b = right_side();
    const Array weights = waves({kUnknowns}, 0.7);
    // Of a matrix of which the solver needs that it is symmetric, all changes have to be.
    const auto made_from = [&, is_cg = name == "cg"](const Array& m) { return is_cg ? (m + transpose(m)) / 2.0 : m; };
    const Function by_b = [&, solve = solve](const Array& y) { return sum(weights * sin(solve(a, y, kExact))); };
    const Function by_a = [&, solve = solve](const Array& m) {
      return sum(weights * sin(solve(made_from(m), b, kExact)));
    };
    const Function plain_b = [&](const Array& y) { return sum(weights * sin(linalg::solve(a, y))); };
    const Function plain_a = [&](const Array& m) { return sum(weights * sin(linalg::solve(made_from(m), b))); };
    expect_solved(grad(by_b)(b), grad(plain_b)(b), 1e-11, name + " by b");
    expect_solved(jit(grad(by_b))(b), grad(plain_b)(b), 1e-11, name + " by b, jitted");
    expect_solved(grad(by_a)(a), grad(plain_a)(a), 1e-11, name + " by a");
    expect_solved(jvp(by_a, std::tuple(a), std::tuple(cos(a))).second,
                  jvp(plain_a, std::tuple(a), std::tuple(cos(a))).second, 1e-11, name + " forward by a");
    expect_solved(jacfwd(grad(by_b))(b), hessian(plain_b)(b), 1e-10, name + " twice by b");
  }
}

TEST(SparseLinalg, IsMapped) {
  for (const auto& [name, solve] : solvers()) {
    const Array a = matrix_for(name);
    const Array all = waves({3, kUnknowns}, 2.9) * reshape(array({1.0, 100.0, 0.01}), {3, 1});
    const Array made = vmap([&, solve = solve](const Array& b) { return solve(a, b, kExact); })(all);
    for (std::int64_t i = 0; i < 3; ++i) expect_solved(made[i], linalg::solve(a, all[i]), 1e-9, name);
    const Array matrices = stack({a, a + eye(kUnknowns, {.dtype = float64})});
    const Array by_matrices = vmap([&, solve = solve](const Array& m) { return solve(m, all[0], kExact); })(matrices);
    expect_solved(by_matrices[1], linalg::solve(matrices[1], all[0]), 1e-10, name + " by matrices");
  }
}

struct TreeVector {
  Array u;
  std::vector<Array> v;
};

TEST(SparseLinalg, OfTrees) {
  const TreeVector b{waves({2, 3}, 1.1), {waves({4}, 0.6), sum(waves({2}, 0.5))}};
  const auto product = [](const TreeVector& x) {
    return TreeVector{3.0 * x.u + 0.1 * sum(x.v[0]), {2.0 * x.v[0] + 0.1 * sum(x.u), 5.0 * x.v[1]}};
  };
  const auto check = [&](const TreeVector& x, const std::string& name) {
    const TreeVector again = product(x);
    expect_solved(again.u, b.u, 1e-10, name);
    expect_solved(again.v[0], b.v[0], 1e-10, name);
    expect_solved(again.v[1], b.v[1], 1e-10, name);
  };
  check(linalg::cg(product, b, {.tol = 1e-12}), "cg");
  check(linalg::bicgstab(product, b, {.tol = 1e-12}), "bicgstab");
  linalg::GmresOptions<TreeVector> options;
  options.tol = 1e-12;
  check(linalg::gmres(product, b, options).first, "gmres");
  options.solve_method = linalg::GmresMethod::kIncremental;
  check(linalg::gmres(product, b, options).first, "gmres, incremental");
}

TEST(SparseLinalg, OfComplexNumbers) {
  const Array skew =
      lax::complex(zeros({kUnknowns, kUnknowns}, {.dtype = float64}), waves({kUnknowns, kUnknowns}, 0.9));
  const Array b = lax::complex(right_side(), waves({kUnknowns}, 0.4));
  for (const auto& [name, solve] : solvers()) {
    const Array a = name == "cg" ? definite() + (skew + conj(transpose(skew))) / 12.0 : general() + skew / 2.0;
    expect_solved(solve(a, b, kExact), linalg::solve(a, b), 1e-11, name);
    const auto loss = [&](const Array& y) { return sum(real(y) * real(y)) + sum(imag(y)); };
    expect_solved(grad([&, solve = solve](const Array& y) { return loss(solve(a, y, kExact)); })(b),
                  grad([&](const Array& y) { return loss(linalg::solve(a, y)); })(b), 1e-10, name + " by b");
  }
}

TEST(SparseLinalg, FailsWhereThereIsNoSolution) {
  const auto [x, info] = linalg::gmres(zeros({3, 3}), ones({3}), {});
  EXPECT_EQ(info.dtype(), int32);
  EXPECT_EQ(info.item<int>(), -1);
  EXPECT_EQ(linalg::gmres(eye(3), ones({3}), {}).second.item<int>(), 0);
}

// The second difference along a line that is split.
Array stretched(const Array& x) {
  const Array left = concatenate({zeros({1}), x[{range(none, -1)}]});
  const Array right = concatenate({x[{range(1)}], zeros({1})});
  return 2.5f * x - left - right;
}

TEST(SparseLinalg, ExchangesSumsAndWhatTheFunctionNeeds) {
  const Mesh mesh = mesh_8();
  const Array b = sin(iota({1024}));
  const Array split = put(b, mesh, P("i"));
  for (const auto& [name, solve] : solvers()) {
    if (name.find("anew") != std::string::npos) continue;
    const auto f = [&, solve = solve](const Array& y) { return solve(Function(stretched), y, {}); };
    const Array x = jit(f)(split);
    EXPECT_EQ(spec_of(x), P("i")) << name;
    expect_solved(x, jit(f)(b), 1e-5, name);
    // Sums, and elements of neighbours: nothing has the extent of the whole.
    const std::string text = jit(f).lower(split).compile().as_text();
    EXPECT_THAT(text, testing::HasSubstr("all_reduce")) << name;
    EXPECT_THAT(text, testing::Not(testing::HasSubstr("all_gather"))) << name << text;
    EXPECT_THAT(text, testing::Not(testing::HasSubstr("f32[1024] of"))) << name << text;
    const auto slope = grad([&](const Array& y) { return sum(f(y) * f(y)); });
    EXPECT_THAT(jit(slope).lower(split).compile().as_text(), testing::Not(testing::HasSubstr("all_gather"))) << name;
    expect_solved(jit(slope)(split), jit(slope)(b), 1e-4, name + ", derivative");
  }
}

TEST(SparseLinalg, SaysWhatIsWrong) {
  const Array b = ones({3});
  EXPECT_EQ(message_of<InvalidArgument>([&] {
              linalg::cg(ones({3, 4}), b);
            }),
            "cg: A is float32[3,4], and should be a square matrix or a function");
  EXPECT_EQ(message_of<InvalidArgument>([&] { linalg::cg(eye(3), b, {.M = linalg::LinearOperator<Array>(b)}); }),
            "cg: M is float32[3], and should be a square matrix or a function");
  EXPECT_EQ(message_of<InvalidArgument>([&] { linalg::bicgstab(eye(3), b, {.x0 = ones({4})}); }),
            "bicgstab: x0 is float32[4], and should have the shape of b, float32[3]");
  EXPECT_EQ(message_of<TypeMismatch>([&] {
              linalg::cg(eye(3), array({1, 2, 3}));
            }),
            "cg: b is int32[3], and should be of floats or complex numbers");
  EXPECT_EQ(message_of<InvalidArgument>([&] { linalg::gmres(eye(3), b, {.restart = 0}); }),
            "gmres: restart is 0, and should be at least 1");
  using List = std::vector<Array>;
  EXPECT_EQ(message_of<InvalidArgument>([&] {
              linalg::cg(eye(3), List{b, b});
            }),
            "cg: A is a matrix, and b a tree of 2 arrays; give a function of such trees");
  EXPECT_EQ(message_of<InvalidArgument>([&] {
              linalg::cg([](const List& x) { return x; }, List{b, b}, {.x0 = List{b}});
            }),
            "cg: x0 is tuple([0]: vector([0]: leaf)), and should have the structure of b, tuple([0]: vector([0]: leaf, "
            "[1]: leaf))");
}

}  // namespace
}  // namespace shoal::test
