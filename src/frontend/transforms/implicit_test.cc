// Roots, linear solves, Jacobians, transposes and functions with gradients of their own, against formulas and
// differences, under each transformation.
#include "shoal/implicit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "frontend/array/tracer_errors.h"
#include "frontend/test_support.h"
#include "sharding/test_support.h"
#include "shoal/control_flow.h"
#include "shoal/custom_derivatives.h"
#include "shoal/derivatives.h"
#include "shoal/linalg.h"
#include "shoal/vmap.h"

namespace shoal::test {
namespace {

using test_support::message_of;

using Function = std::function<Array(const Array&)>;

void expect_all_near(const Array& a, const Array& b, double tolerance, const std::string& what) {
  ASSERT_EQ(a.shape(), b.shape()) << what;
  EXPECT_LE(max(abs(a - b)).item<double>(), tolerance) << what << ": " << str(a) << " and " << str(b);
}

Array doubles(const std::vector<double>& values) { return array(values); }
Array some_matrix() { return reshape(doubles({4, 1, 0.5, 0.3, 3, 1, -0.2, 0.4, 5}), {3, 3}); }

// The same function where it is jitted, mapped and both.
std::vector<std::pair<std::string, std::function<Array(const Function&, const Array&)>>> transformations() {
  return {{"itself", [](const Function& f, const Array& x) { return f(x); }},
          {"jit", [](const Function& f, const Array& x) { return jit(f)(x); }},
          {"vmap",
           [](const Function& f, const Array& x) -> Array {
             return vmap(f)(stack({x, 2.0 * x}))[0];
           }},
          {"jit of vmap", [](const Function& f, const Array& x) -> Array {
             return jit([&](const Array& y) { return vmap(f)(stack({2.0 * y, y}))[1]; })(x);
           }}};
}

// ---- Jacobians

struct TwoArrays {
  Array u;
  Array v;
};

TEST(Jacobians, OfOneArray) {
  const auto f = [](const Array& x) -> Array { return stack({x[0] * x[1], sin(x[2])}); };
  const Array x = doubles({2, 3, 0.5});
  const Array expected = reshape(doubles({3, 2, 0, 0, 0, cos(x[2]).item<double>()}), {2, 3});
  for (const auto& [name, way] : transformations()) {
    expect_all_near(way(jacfwd(f), x), expected, 1e-15, "jacfwd: " + name);
    expect_all_near(way(jacrev(f), x), expected, 1e-15, "jacrev: " + name);
  }
}

TEST(Jacobians, HaveTheDimensionsOfBoth) {
  const auto f = [](const Array& x, const Array& y) { return outer(x, y); };
  const Array x = doubles({1, 2});
  const Array y = doubles({3, 4, 5});
  const auto [by_x, by_y] = jacrev<0, 1>(f)(x, y);
  ASSERT_EQ(by_x.shape(), (Shape{2, 3, 2}));
  ASSERT_EQ(by_y.shape(), (Shape{2, 3, 3}));
  expect_all_near(by_x, einsum("ik,j->ijk", {eye(2, {.dtype = float64}), y}), 0, "x");
  expect_all_near(by_y, einsum("i,jk->ijk", {x, eye(3, {.dtype = float64})}), 0, "y");
  const auto [x_forward, y_forward] = jacfwd<0, 1>(f)(x, y);
  expect_all_near(x_forward, by_x, 0, "x forward");
  expect_all_near(y_forward, by_y, 0, "y forward");
  expect_all_near(jacfwd<1>(f)(x, y), by_y, 0, "y alone");
}

TEST(Jacobians, AreTreesOfResultsOfTreesOfArguments) {
  const auto f = [](const TwoArrays& p) {
    return std::map<std::string, std::vector<Array>>{{"a", {p.u * 2.0, sum(p.v)}}, {"b", {p.u[0] * p.v}}};
  };
  const TwoArrays at{doubles({1, 2}), doubles({3, 4, 5})};
  const std::map<std::string, std::vector<TwoArrays>> jacobian = jacrev(f)(at);
  ASSERT_EQ(jacobian.at("a").size(), 2u);
  expect_all_near(jacobian.at("a")[0].u, 2.0 * eye(2, {.dtype = float64}), 0, "a0 u");
  expect_all_near(jacobian.at("a")[0].v, zeros({2, 3}, {.dtype = float64}), 0, "a0 v");
  expect_all_near(jacobian.at("a")[1].v, ones({3}, {.dtype = float64}), 0, "a1 v");
  expect_all_near(jacobian.at("b")[0].u, stack({at.v, zeros_like(at.v)}, 1), 0, "b0 u");
  expect_all_near(jacobian.at("b")[0].v, eye(3, {.dtype = float64}), 0, "b0 v");
  const auto forward = jacfwd(f)(at);
  expect_all_near(forward.at("b")[0].u, jacobian.at("b")[0].u, 0, "b0 u forward");
}

TEST(Jacobians, OfStructsAreTuples) {
  const auto f = [](const TwoArrays& p) { return TwoArrays{p.u * 3.0, p.v * sum(p.u)}; };
  const TwoArrays at{doubles({1, 2}), doubles({3, 4, 5})};
  const std::tuple<TwoArrays, TwoArrays> jacobian = jacfwd(f)(at);
  expect_all_near(std::get<0>(jacobian).u, 3.0 * eye(2, {.dtype = float64}), 0, "u u");
  expect_all_near(std::get<1>(jacobian).u, stack({at.v, at.v}, 1), 0, "v u");
  // By an array it is a struct.
  const TwoArrays by_scale = jacfwd([&](const Array& s) { return TwoArrays{at.u * s, at.v}; })(Array(2.0));
  expect_all_near(by_scale.u, at.u, 0, "by a scale");
  expect_all_near(by_scale.v, zeros_like(at.v), 0, "by a scale");
}

TEST(Jacobians, SecondDerivatives) {
  const auto f = [](const TwoArrays& p) { return sum(p.u * p.u) * sum(sin(p.v)); };
  const TwoArrays at{doubles({1, 2}), doubles({3, 4, 5})};
  const std::tuple<TwoArrays, TwoArrays> second = hessian(f)(at);
  const Array s = sum(sin(at.v));
  expect_all_near(std::get<0>(second).u, 2.0 * s * eye(2, {.dtype = float64}), 1e-15, "u u");
  expect_all_near(std::get<0>(second).v, outer(2.0 * at.u, cos(at.v)), 1e-15, "u v");
  expect_all_near(std::get<1>(second).u, transpose(std::get<0>(second).v), 1e-15, "v u");
  expect_all_near(std::get<1>(second).v, -5.0 * diag(sin(at.v)), 1e-15, "v v");
  const Function g = [](const Array& x) { return sum(x * x * x); };
  for (const auto& [name, way] : transformations()) {
    expect_all_near(way(hessian(g), at.v), 6.0 * diag(at.v), 1e-14, name);
  }
}

TEST(Jacobians, CallTheFunctionOnceAndWithValues) {
  int calls = 0;
  const auto f = [&](const Array& x) -> Array {
    ++calls;
    return x.item<float>() > 0 ? x * x : x;
  };
  EXPECT_EQ(jacfwd(f)(3.0f).item<float>(), 6.0f);
  EXPECT_EQ(jacrev(f)(-3.0f).item<float>(), 1.0f);
  EXPECT_EQ(calls, 2);
}

TEST(Jacobians, OfComplexNumbers) {
  using C = std::complex<double>;
  const auto square_of = [](const Array& z) { return z * z; };
  const Array z(C(1, 2));
  EXPECT_EQ(jacfwd(square_of, {.holomorphic = true})(z).item<C>(), C(2, 4));
  EXPECT_EQ(jacrev(square_of, {.holomorphic = true})(z).item<C>(), C(2, 4));
  EXPECT_EQ(jacfwd([](const Array& x) { return x * C(0, 3); })(Array(2.0)).item<C>(), C(0, 3));
}

TEST(Jacobians, OfIntegersAreZerosIfAllowed) {
  const auto f = [](const Array& n, const Array& x) { return x * n.astype(float32); };
  const auto [by_n, by_x] = jacrev<0, 1>(f, {.allow_int = true})(array({2, 3}), array({1.0f, 5.0f}));
  EXPECT_TRUE(same(by_n, zeros({2, 2}, {.dtype = int32})));
  EXPECT_TRUE(same(by_x, diag(array({2.0f, 3.0f}))));
}

TEST(Jacobians, StayWithTheirDevices) {
  const Array x = put(iota({8}), mesh_8(), P("i"));
  const Array made = jit(jacfwd([](const Array& y) { return sin(y) * sum(y); }))(x);
  const Array host = iota({8});
  expect_all_near(made, diag(cos(host) * sum(host)) + outer(sin(host), ones({8})), 1e-4, "over devices");
}

TEST(Jacobians, SayWhatIsWrong) {
  const auto twice = [](const Array& x) { return 2 * x; };
  EXPECT_EQ(message_of<TypeMismatch>([&] {
              jacfwd(twice)(array({1, 2}));
            }),
            "jacfwd: argument [0] is int32[2], and only floats and complex numbers can be differentiated by; convert "
            "it, or set allow_int, which gives zeros");
  EXPECT_EQ(message_of<TypeMismatch>([&] { jacfwd(twice)(Array(std::complex<float>(1, 2))); }),
            "jacfwd: argument [0] is complex64[], and should be real; set holomorphic if the function has a complex "
            "derivative");
  EXPECT_EQ(message_of<TypeMismatch>([&] { jacrev([](const Array& x) { return x > 0; })(array({1.0f})); }),
            "jacrev: result is bool[1], and should be real");
  EXPECT_EQ(message_of<TypeMismatch>(
                [&] { jacrev([](const Array& x) { return x * std::complex<float>(0, 1); })(array({1.0f})); }),
            "jacrev: result is complex64[1], and should be real; set holomorphic if it has a complex derivative");
}

// ---- Transposes and functions with gradients of their own

TEST(LinearTranspose, OfTreesAndTypes) {
  const Array w = some_matrix();
  const auto f = [&](const TwoArrays& p) { return std::pair(matmul(w, p.u), 2.0 * sum(p.v) + p.u[0]); };
  const auto transposed =
      linear_transpose(f, TwoArrays{Array(ShapeDtypeStruct{{3}, float64}), Array(ShapeDtypeStruct{{2}, float64})});
  const TwoArrays made = transposed(std::pair(doubles({1, 2, 3}), sum(doubles({5}))));
  expect_all_near(made.u, matmul(transpose(w), doubles({1, 2, 3})) + doubles({5, 0, 0}), 1e-15, "u");
  expect_all_near(made.v, doubles({10, 10}), 0, "v");
  const auto [a, b] = linear_transpose([](const Array& x, const Array& y) { return 2.0 * x - y; },
                                       ShapeDtypeStruct{{2}, float64}, ShapeDtypeStruct{{2}, float64})(doubles({1, 2}));
  expect_all_near(a, doubles({2, 4}), 0, "x");
  expect_all_near(b, doubles({-1, -2}), 0, "y");
}

TEST(LinearTranspose, SaysWhatIsWrong) {
  EXPECT_THAT(message_of<TypeMismatch>([] {
                linear_transpose([](const Array& x) { return x; }, array({1, 2}));
              }),
              testing::HasSubstr("linear_transpose: argument 0 is int32[2], and only functions of floats and complex "
                                 "numbers are transposed"));
}

TEST(CustomGradient, SaysSomethingElse) {
  const auto f = custom_gradient([](const Array& x, const Array& y) {
    return std::pair(x * y, [x, y](const Array& g) { return std::tuple(10.0 * g * y, 100.0 * g * x); });
  });
  EXPECT_EQ(f(Array(2.0), Array(3.0)).item<double>(), 6.0);
  const auto [by_x, by_y] = grad<0, 1>([&](const Array& x, const Array& y) { return f(x, y); })(Array(2.0), Array(3.0));
  EXPECT_EQ(by_x.item<double>(), 30.0);
  EXPECT_EQ(by_y.item<double>(), 200.0);
  const auto clipped =
      custom_gradient([](const Array& x) { return std::pair(x, [](const Array& g) { return clip(g, -1.0, 1.0); }); });
  const Function slope = grad([&](const Array& x) { return sum(clipped(x) * doubles({5, 0.5, -7})); });
  for (const auto& [name, way] : transformations())
    expect_all_near(way(slope, doubles({1, 2, 3})), doubles({1, 0.5, -1}), 0, name);
}

TEST(ClosureConvert, MakesArgumentsOfWhatIsDifferentiated) {
  const Array fixed = doubles({1, 2, 3});
  // A function of functions, with a rule that gives ten times the derivative by what its function uses.
  const auto at_two = [&](const auto& f) {
    auto [converted, consts] = closure_convert(f, Array(2.0));
    const auto run = custom_jvp(
        [converted = converted](const std::vector<Array>& others) { return converted(Array(2.0), others); },
        [converted = converted](const std::tuple<std::vector<Array>>& primals,
                                const std::tuple<std::vector<Array>>& tangents) {
          const auto [value, change] =
              jvp([&](const std::vector<Array>& others) { return converted(Array(2.0), others); }, primals, tangents);
          return std::pair(value, 10.0 * change);
        });
    return std::pair(run(consts), consts.size());
  };
  std::size_t count = 0;
  const Function f = [&](const Array& w) {
    const auto [value, num_consts] = at_two([&](const Array& x) { return w * x + sum(fixed); });
    count = num_consts;
    return value;
  };
  EXPECT_EQ(grad(f)(Array(3.0)).item<double>(), 20.0);
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(f(Array(3.0)).item<double>(), 12.0);
  EXPECT_EQ(count, 0u);
}

// ---- Roots

Array newton(const Function& f, const Array& start) {
  return lax::fori_loop(
      0, 40, [&](const Array&, const Array& x) { return x - 0.1 * f(x); }, start);
}

// The cube root, with what differentiating the loop would not give.
Array cube_root(const Array& a) {
  return lax::custom_root([&](const Array& x) { return x * x * x - a; }, ones_like(a),
                          [](const Function& f, const Array& x) { return newton(f, x); },
                          [](const Function& g, const Array& y) { return y / g(ones_like(y)); });
}

TEST(CustomRoot, HasTheDerivativeOfTheImplicitFunction) {
  const Array a(1.7);
  const double root = std::cbrt(1.7);
  EXPECT_NEAR(cube_root(a).item<double>(), root, 1e-5);
  const double slope = 1 / (3 * root * root);
  for (const auto& [name, way] : transformations()) {
    EXPECT_NEAR(way(grad(cube_root), a).item<double>(), slope, 1e-5) << name;
    EXPECT_NEAR(way(grad(grad(cube_root)), a).item<double>(), -2.0 / 9 / (root * root * root * root * root), 1e-4)
        << name;
    EXPECT_NEAR(way([](const Array& x) { return jvp(cube_root, std::tuple(x), std::tuple(ones_like(x))).second; }, a)
                    .item<double>(),
                slope, 1e-5)
        << name;
  }
}

TEST(CustomRoot, OfTreesWithMore) {
  const auto f = [](const Array& a) {
    const auto [root, count] = lax::custom_root(
        [&](const TwoArrays& p) {
          return TwoArrays{p.u - a, 2.0 * p.v - a * p.u};
        },
        TwoArrays{zeros_like(a), zeros_like(a)},
        [](const std::function<TwoArrays(const TwoArrays&)>& g, const TwoArrays& p) {
          const TwoArrays first = g(p);
          const TwoArrays at{p.u - first.u, p.v};
          return std::pair(TwoArrays{at.u, at.v - g(at).v / 2.0}, Array(7));
        },
        [](const std::function<TwoArrays(const TwoArrays&)>&, const TwoArrays& y) {
          return TwoArrays{y.u, y.v};
        });
    EXPECT_EQ(count.dtype(), int32);
    return root.u + root.v;
  };
  EXPECT_EQ(f(Array(3.0)).item<double>(), 7.5);
  // tangent_solve says that the derivative of the function is one: -(-1, -u).
  EXPECT_EQ(grad(f)(Array(3.0)).item<double>(), 4.0);
}

// ---- LinearSolver solves

struct LinearSolver {
  std::string name;
  std::function<Array(const Array& a, const Array& b)> solve;
};
std::vector<LinearSolver> linear_solves() {
  const auto solved = [](const Array& a, const Array& b) { return linalg::solve(a, b); };
  return {{"with a transpose",
           [solved](const Array& a, const Array& b) {
             return lax::custom_linear_solve([&](const Array& x) { return matmul(a, x); }, b,
                                             [&](const Function&, const Array& y) { return solved(a, y); },
                                             [&](const Function&, const Array& y) { return solved(transpose(a), y); });
           }},
          {"by their functions", [solved](const Array& a, const Array& b) {
             // The matrix is asked for column by column.
             const auto by_columns = [](const Function& f, const Array& y) {
               return linalg::solve(vmap(f, {.out_axes = 1})(eye(3, {.dtype = float64})), y);
             };
             return lax::custom_linear_solve([&](const Array& x) { return matmul(a, x); }, b, by_columns, by_columns);
           }}};
}

TEST(CustomLinearSolve, HasDerivativesByBothSides) {
  const Array a = some_matrix();
  const Array b = doubles({1, -2, 0.5});
  const Array weights = doubles({1, 2, 3});
  for (const auto& [which, solve] : linear_solves()) {
    const Function by_b = [&, solve = solve](const Array& y) { return sum(sin(solve(a, y)) * weights); };
    const Function by_a = [&, solve = solve](const Array& m) { return sum(sin(solve(m, b)) * weights); };
    const Function plain_b = [&](const Array& y) { return sum(sin(linalg::solve(a, y)) * weights); };
    const Function plain_a = [&](const Array& m) { return sum(sin(linalg::solve(m, b)) * weights); };
    for (const auto& [name, way] : transformations()) {
      expect_all_near(way(grad(by_b), b), way(grad(plain_b), b), 1e-13, which + " by b: " + name);
      expect_all_near(way(grad(by_a), a), way(grad(plain_a), a), 1e-13, which + " by a: " + name);
      expect_all_near(way(hessian(by_b), b), way(hessian(plain_b), b), 1e-13, which + " second by b: " + name);
      expect_all_near(way(hessian(by_a), a), way(hessian(plain_a), a), 1e-12, which + " second by a: " + name);
      const auto pushed = [&](const Function& f) -> Function {
        return [f](const Array& x) { return jvp(f, std::tuple(x), std::tuple(cos(x))).second; };
      };
      expect_all_near(way(pushed(by_a), a), way(pushed(plain_a), a), 1e-13, which + " forward by a: " + name);
    }
  }
}

TEST(CustomLinearSolve, SymmetricAndWithMore) {
  const Array a = some_matrix() + transpose(some_matrix());
  const Array b = doubles({1, -2, 0.5});
  const auto solve = [&](const Array& y) {
    return lax::custom_linear_solve(
        [&](const Array& x) { return matmul(a, x); }, y,
        [&](const Function&, const Array& z) { return std::pair(linalg::solve(a, z), Array(4.0f)); },
        {.symmetric = true});
  };
  EXPECT_EQ(solve(b).second.item<float>(), 4.0f);
  expect_all_near(grad([&](const Array& y) { return sum(solve(y).first); })(b), linalg::solve(a, ones_like(b)), 1e-15,
                  "b");
}

TEST(CustomLinearSolve, IsTransposedBySolversOfTheTranspose) {
  // Solvers that say something else, so that it is seen which is called.
  const auto solve = [](const Array& y) {
    return lax::custom_linear_solve([](const Array& x) { return 2.0 * x; }, y,
                                    [](const Function&, const Array& z) { return 10.0 * z; },
                                    [](const Function&, const Array& z) { return 100.0 * z; });
  };
  const Array b = doubles({1, 2, 3});
  expect_all_near(solve(b), 10.0 * b, 0, "value");
  expect_all_near(jvp(solve, std::tuple(b), std::tuple(b)).second, 10.0 * b, 0, "forward");
  expect_all_near(vjp(solve, b).second(b), 100.0 * b, 0, "in reverse");
}

TEST(CustomLinearSolve, SaysWhatIsWrong) {
  const Array b = doubles({1, 2, 3});
  const auto same_again = [](const Function&, const Array& y) { return y; };
  EXPECT_EQ(
      message_of<TypeMismatch>([&] { lax::custom_linear_solve([](const Array& x) { return sum(x); }, b, same_again); }),
      "custom_linear_solve: what matvec returns must have the types of b, got float64[] for float64[3]");
  using List = std::vector<Array>;
  const List two{b, b};
  EXPECT_EQ(message_of<TypeMismatch>([&] {
              lax::custom_linear_solve([](const List& x) { return List{x[0]}; }, two,
                                       [](const std::function<List(const List&)>&, const List& y) { return y; });
            }),
            "custom_linear_solve: what matvec returns must have the structure of its argument, got 1 arrays for 2");
}

}  // namespace
}  // namespace shoal::test
