// Derivatives, batches, loops and random numbers of arrays that lie on several devices, where what a function does says
// how: constraints, moves, Explicit axes, regions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <complex>
#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "frontend/test_support.h"
#include "shoal/control_flow.h"
#include "shoal/convolution.h"
#include "shoal/derivatives.h"
#include "shoal/explicit_axes.h"
#include "shoal/implicit.h"
#include "shoal/linalg.h"
#include "shoal/make_array.h"
#include "shoal/pmap.h"
#include "shoal/random.h"
#include "shoal/vmap.h"

namespace shoal::test {
namespace {

Array waves(const Shape& shape) { return sin(iota(shape) * 1.7F); }

void expect_near(const Array& got, const Array& wanted, const std::string& what, double tolerance = 2e-5) {
  ASSERT_EQ(got.shape(), wanted.shape()) << what;
  EXPECT_TRUE(allclose(got, wanted, {.rtol = tolerance, .atol = tolerance}).item<bool>()) << what << "\n"
                                                                                          << got << "\n"
                                                                                          << wanted;
}

Mesh explicit_mesh() {
  return make_mesh({4, 2}, {"x", "y"}, {.axis_types = {AxisType::kExplicit, AxisType::kExplicit}});
}

TEST(OfSplitArrays, DerivativesOfFunctionsWithConstraintsAndShardingsOfTheirOwn) {
  const Mesh mesh = mesh_4x2();
  const Array x = waves({8, 8});
  const auto plain = [](const Array& v) { return sum(sin(v) * v.sum({.axis = 0})); };
  const Array wanted = grad(plain)(x);
  const auto constrained = [&](const Array& v) {
    const Array turned = with_sharding_constraint(sin(v), NamedSharding(mesh, P("y", "x")));
    return sum(turned * v.sum({.axis = 0}));
  };
  const auto jitted = jit(plain, {.in_shardings = NamedSharding(mesh, P("x", "y"))});
  for (const PartitionSpec& spec : {P("x", "y"), P("y"), P()}) {
    const Array split = put(x, mesh, spec);
    for (const Array& got : {grad(constrained)(split), jit(grad(constrained))(split), grad(jit(constrained))(split)}) {
      expect_near(got, wanted, "constrained");
      EXPECT_EQ(got.sharding().device_set().size(), 8U) << got.sharding();
    }
    const Array many = stack({split, 2 * split});
    const Array each = vmap(constrained)(many);
    expect_near(each, stack({plain(x), plain(2 * x)}), "vmap of a constraint");
  }
  expect_near(grad([&](const Array& v) { return jitted(v); })(put(x, mesh, P("x", "y"))), wanted, "in_shardings");
}

TEST(OfSplitArrays, DerivativesOfFunctionsThatMoveTheirArguments) {
  const Mesh mesh = mesh_4x2();
  const Array x = put(waves({8, 8}), mesh, P("x"));
  const Array wanted = 2 * sin(waves({8, 8})) * cos(waves({8, 8}));
  const auto elsewhere = [&](const Sharding& target) {
    return [target](const Array& v) { return sum(square(device_put(sin(v), target))); };
  };
  for (const Sharding& target : {Sharding(NamedSharding(mesh, P(none, "y"))), Sharding(NamedSharding(mesh, P())),
                                 Sharding(NamedSharding(mesh_8(), P("i")))}) {
    const auto loss = elsewhere(target);
    for (const Array& got : {grad(loss)(x), jit(grad(loss))(x)}) {
      expect_near(got, wanted, "moved");
      EXPECT_EQ(got.sharding().device_set().size(), 8U) << got.sharding();
    }
  }
  // To another memory and back.
  const auto kept = [&](const Array& v) {
    const Array away = device_put(sin(v), NamedSharding(mesh, P("x")).with_memory_kind(kPinnedHostMemory));
    return sum(square(device_put(away, NamedSharding(mesh, P("x")))));
  };
  for (const Array& got : {grad(kept)(x), jit(grad(kept))(x)}) {
    expect_near(got, wanted, "by way of another memory");
    EXPECT_EQ(got.sharding().memory_kind(), x.sharding().memory_kind());
    EXPECT_TRUE(got.sharding().is_equivalent_to(x.sharding(), 2)) << got.sharding();
  }
}

TEST(OfSplitArrays, DerivativesAndBatchesOverExplicitAxes) {
  const Mesh mesh = explicit_mesh();
  const Array x = waves({8, 6});
  const Array split = put(x, mesh, P("x", "y"));
  const std::vector<std::function<Array(const Array&)>> losses{
      [](const Array& v) {
        return sum(square(v[{range(0, 4), range(0, 2)}]));
      },
      [](const Array& v) { return sum(v.sum({.axis = 0}) * v.sum({.axis = 0})); },
      [](const Array& v) { return sum(square(v.at(range(0, 4)).set(0.5F))); },
      [](const Array& v) { return sum(sin(v).T() * 2); }, [](const Array& v) { return nn::logsumexp(v); }};
  for (const auto& loss : losses) {
    const Array wanted = grad(loss)(x);
    for (const Array& got : {grad(loss)(split), jit(grad(loss))(split)}) {
      expect_near(got, wanted, "over Explicit axes");
      EXPECT_EQ(type_of(got), type_of(split));
    }
  }
  const auto row = [](const Array& v) { return sin(v) * v.sum(); };
  const Array each = jit(vmap(row))(split);
  expect_near(each, vmap(row)(x), "vmap");
  EXPECT_EQ(type_of(each), type_of(split));
  const Array columns = vmap(row, {.in_axes = 1, .out_axes = 1})(split);
  expect_near(columns, vmap(row, {.in_axes = 1, .out_axes = 1})(x), "vmap of columns");
  EXPECT_EQ(type_of(columns), type_of(split));
}

TEST(OfSplitArrays, ConvolutionsOverExplicitAxes) {
  const Mesh mesh = explicit_mesh();
  const Array images = waves({8, 3, 10});
  const Array kernel = waves({4, 3, 3});
  const auto f = [](const Array& lhs, const Array& rhs) { return lax::conv(lhs, rhs, {1}, "SAME"); };
  const Array got = jit(f)(put(images, mesh, P("x")), put(kernel, mesh, P("y")));
  expect_near(got, f(images, kernel), "convolution");
  EXPECT_EQ(type_of(got), "float32[8@x,4@y,10]");
}

TEST(OfSplitArrays, ComplexNumbersInReverseBatchedAndOverExplicitAxes) {
  const auto f = [](const Array& z) { return z * z * std::complex<float>(0, 1) + conj(z); };
  const Array z = lax::complex(waves({8}), cos(iota({8})));
  const Array ct = lax::complex(cos(iota({8}) * 0.3F), waves({8}));
  // Cotangents pair without conjugation: conj(z) gives conj of its own.
  const Array wanted = ct * (2 * z * std::complex<float>(0, 1)) + conj(ct);
  expect_near(vjp(f, z).second(ct), wanted, "vjp");
  const auto one = [&](const Array& v, const Array& c) { return vjp(f, v).second(c); };
  expect_near(vmap(one)(z, ct), wanted, "vmap");
  const Mesh mesh = explicit_mesh();
  const Array split = put(z, mesh, P("x"));
  const Array got = jit(one)(split, put(ct, mesh, P("x")));
  expect_near(got, wanted, "over Explicit axes");
  EXPECT_EQ(type_of(got), type_of(split));
}

TEST(OfSplitArrays, IntegersAndUnusedResultsAtBordersOfRegions) {
  const Mesh mesh = mesh_8();
  for (const bool checked : {true, false}) {
    const auto region = shard_map(
        [](const Array& x, const Array& counts) {
          const Array scaled = x * counts.astype(float32);
          return std::tuple(scaled, sin(x), counts + 1);
        },
        {.mesh = mesh, .in_specs = {P("i"), P("i")}, .out_specs = {P("i"), P("i"), P("i")}, .check_vma = checked});
    const Array x = waves({8});
    const Array counts = arange(8);
    // The second and the third result have no cotangent.
    const auto loss = [&](const Array& v) { return sum(std::get<0>(region(v, counts))); };
    expect_near(grad(loss)(x), counts.astype(float32), "unused results");
    expect_near(jit(grad(loss))(x), counts.astype(float32), "unused results in jit");
    const auto of_integers =
        grad<0, 1>([&](const Array& v, const Array& n) { return sum(std::get<1>(region(v, n))); }, {.allow_int = true});
    expect_near(std::get<0>(of_integers(x, counts)), cos(x), "beside integers");
    EXPECT_EQ(sum(abs(std::get<1>(of_integers(x, counts)))).item<int>(), 0);
  }
}

TEST(OfSplitArrays, LoopsAskWhereTheyAre) {
  const Mesh mesh = mesh_8();
  const Array scale = array(3.0F);
  const auto steps = [&](const Array& x) {
    return lax::fori_loop(
        0, 4, [&](const Array& i, const Array& v) { return v * scale + i * lax::axis_index("i"); }, x);
  };
  const auto region = shard_map(steps, {.mesh = mesh, .in_specs = P("i"), .out_specs = P("i")});
  // 81 x + the sum of the i-th steps, each times 3 as often as others follow.
  const Array wanted = 81 * iota({8}) + (0 * 27 + 1 * 9 + 2 * 3 + 3) * iota({8});
  expect_near(region(iota({8})), wanted, "region");
  expect_near(jit([&](const Array& x) { return region(x); })(iota({8})), wanted, "in jit");
  const auto mapped = pmap(steps, {.axis_name = "i"});
  expect_near(mapped(iota({8})), wanted, "pmap");
  const auto loss = [&](const Array& x) { return sum(region(x) * iota({8})); };
  expect_near(grad(loss)(iota({8})), 81 * iota({8}), "derivative");
  // Of what the loop takes from around it, too.
  const auto by_scale = [&](const Array& s) {
    const auto own = [&](const Array& x) {
      return lax::fori_loop(
          0, 2, [&](const Array&, const Array& v) { return v * s + lax::axis_index("i"); }, x);
    };
    return sum(shard_map(own, {.mesh = mesh, .in_specs = P("i"), .out_specs = P("i")})(iota({8})));
  };
  expect_near(grad(by_scale)(scale), sum(2 * 3 * iota({8}) + iota({8})), "derivative by a capture");
}

TEST(OfSplitArrays, MapTakesBlocksOfSplitArrays) {
  const Mesh mesh = mesh_8();
  const auto f = [](const Array& v) { return cumsum(sin(v)) * v.sum(); };
  for (const std::int64_t rows : {16, 24}) {
    const Array x = waves({rows, 5});
    const Array wanted = vmap(f)(x);
    for (const std::int64_t block : {1, 3, 8, 40}) {
      const auto mapped = [&](const Array& v) { return lax::map(f, v, {.batch_size = block}); };
      for (const PartitionSpec& spec : {P("i"), P()}) {
        expect_near(mapped(put(x, mesh, spec)), wanted, std::to_string(block));
        expect_near(jit(mapped)(put(x, mesh, spec)), wanted, std::to_string(block) + " in jit");
      }
    }
  }
}

TEST(OfSplitArrays, LinearSystemsAreSolvedInRegions) {
  const Mesh mesh = mesh_8();
  const Array b = waves({8, 3});
  const Array matrix = eye(3) * 4 + waves({3, 3});
  const auto solve_with = [&](const Array& a) {
    return [a](const Array& right) {
      const auto matvec = [a](const Array& v) { return matmul(v, a.T()); };
      const auto solver = [a](const auto&, const Array& c) { return linalg::solve(a, c.T()).T(); };
      const auto transposed = [a](const auto&, const Array& c) { return linalg::solve(a.T(), c.T()).T(); };
      return lax::custom_linear_solve(matvec, right, solver, transposed);
    };
  };
  const auto region = [&](const Array& a, const Array& right) {
    return shard_map([&](const Array& own) { return solve_with(a)(own); },
                     {.mesh = mesh, .in_specs = P("i"), .out_specs = P("i")})(right);
  };
  const Array wanted = linalg::solve(matrix, b.T()).T();
  expect_near(region(matrix, b), wanted, "solution");
  const auto loss = [&](const auto& f) {
    return [&f](const Array& a, const Array& right) { return sum(square(f(a, right))); };
  };
  const auto plain = [&](const Array& a, const Array& right) { return linalg::solve(a, right.T()).T(); };
  const auto [of_matrix, of_right] = grad<0, 1>(loss(region))(matrix, b);
  const auto [plain_of_matrix, plain_of_right] = grad<0, 1>(loss(plain))(matrix, b);
  expect_near(of_matrix, plain_of_matrix, "derivative by the matrix", 1e-4);
  expect_near(of_right, plain_of_right, "derivative by the right side", 1e-4);
}

// Gradients of small batches that grad makes, summed in a loop and by vmap: one exchange after it.
TEST(OfSplitArrays, GradientsOfSmallBatchesAreReducedOnce) {
  const Mesh mesh = mesh_8();
  const Array w = put(waves({6, 4}), mesh, P());
  const Array xs = put(waves({3, 16, 6}), mesh, P(none, "i"));
  const auto loss = [](const Array& weights, const Array& x) { return sum(square(tanh(matmul(x, weights)))); };
  const auto in_loop = [&](const Array& weights, const Array& batches) {
    const auto step = [&](const Array& total, const Array& x) {
      return std::pair(total + grad(loss)(weights, x), std::tuple<>());
    };
    return lax::scan(step, zeros_like(weights), batches).first;
  };
  const auto mapped = [&](const Array& weights, const Array& batches) {
    const auto one = [&](const Array& x) { return grad(loss)(weights, x); };
    return sum(vmap(one)(batches), {.axis = 0});
  };
  Array wanted = zeros({6, 4});
  for (std::int64_t i = 0; i < 3; ++i) wanted = wanted + grad(loss)(waves({6, 4}), waves({3, 16, 6})[i]);
  expect_near(jit(in_loop)(w, xs), wanted, "in a loop");
  expect_near(jit(mapped)(w, xs), wanted, "by vmap");
  const auto count = [](const std::string& text, const std::string& word) {
    std::size_t found = 0;
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
    return found;
  };
  for (const std::string& text :
       {jit(in_loop).lower(w, xs).compile().as_text(), jit(mapped).lower(w, xs).compile().as_text()}) {
    EXPECT_EQ(count(text, "all_reduce("), 1U) << text;
  }
}

// ---- Random numbers.

TEST(OfSplitArrays, ConstraintsOnKeysOfTheirOwnDtype) {
  const Mesh mesh = mesh_4x2();
  const Array keys = random::split(random::key(7), Shape{8, 4});
  const auto f = [&](const Array& k) {
    const Array turned = with_sharding_constraint(k, NamedSharding(mesh, P("y", "x")));
    return std::tuple(turned, vmap(vmap([](const Array& own) { return random::uniform(own, {3}); }))(turned));
  };
  const auto [moved, drawn] = jit(f)(put(keys, mesh, P("x")));
  EXPECT_EQ(moved.dtype(), key_fry);
  EXPECT_TRUE(moved.sharding().is_equivalent_to(NamedSharding(mesh, P("y", "x")), 2)) << moved.sharding();
  EXPECT_TRUE(same(random::key_data(moved), random::key_data(keys)));
  EXPECT_TRUE(same(drawn, vmap(vmap([](const Array& own) { return random::uniform(own, {3}); }))(keys)));
}

TEST(OfSplitArrays, KeysAreMadeByACallback) {
  const Mesh mesh = mesh_8();
  const Array keys = random::split(random::key(7), 16);
  int calls = 0;
  const Array made = make_array_from_callback({16}, NamedSharding(mesh, P("i")), [&](const ShardIndex& index) {
    ++calls;
    return keys[range(*index[0].start, *index[0].stop)];
  });
  EXPECT_EQ(calls, 8);
  EXPECT_EQ(made.dtype(), key_fry);
  EXPECT_TRUE(same(random::key_data(made), random::key_data(keys)));
}

TEST(OfSplitArrays, FoldedKeysAndTruncatedNumbersOverExplicitAxes) {
  const Mesh mesh = explicit_mesh();
  const Array key = random::key(3);
  const Array bounds = put(waves({8}) - 1.5F, mesh, P("x"));
  const auto draw = [](const Array& k, const Array& low) { return random::truncated_normal(k, low, low + 2); };
  const Array got = jit(draw)(key, bounds);
  EXPECT_EQ(type_of(got), "float32[8@x]");
  EXPECT_TRUE(same(got, jit(draw)(key, waves({8}) - 1.5F)));
  const auto folded = [](const Array& k, const Array& numbers) {
    return vmap([&](const Array& n) { return random::fold_in(k, n); })(numbers);
  };
  const Array keys = jit(folded)(key, put(arange(8), mesh, P("x")));
  EXPECT_EQ(type_of(keys), "key<fry>[8@x]");
  EXPECT_TRUE(same(random::key_data(keys), random::key_data(folded(key, arange(8)))));
}

TEST(OfSplitArrays, ChoicesAndBetasOfDevices) {
  const Mesh mesh = mesh_8();
  const Array key = random::key(11);
  const auto own_key = [&] { return random::fold_in(key, lax::axis_index("i")); };
  const auto choices = [&](const Array& x) { return random::choice(own_key(), x, {3}); };
  const auto betas = [&](const Array& x) { return random::beta(own_key(), exp(x), 2.0F); };
  const auto over = [&](const auto& f) {
    return shard_map(f, {.mesh = mesh, .in_specs = P("i"), .out_specs = P("i")});
  };
  const Array x = waves({32});
  std::vector<Array> chosen;
  std::vector<Array> drawn;
  for (int i = 0; i < 8; ++i) {
    const Array part = x[range(4 * i, 4 * i + 4)];
    chosen.push_back(random::choice(random::fold_in(key, i), part, {3}));
    drawn.push_back(random::beta(random::fold_in(key, i), exp(part), 2.0F));
  }
  EXPECT_TRUE(same(over(choices)(x), concatenate(chosen)));
  EXPECT_TRUE(same(jit([&](const Array& v) { return over(choices)(v); })(x), concatenate(chosen)));
  expect_near(over(betas)(x), concatenate(drawn), "beta");
}

// ---- Dense systems whose matrix is split over devices.

Array definite(std::int64_t n, Dtype dtype) {
  const Array a = waves({n, n}).astype(real_dtype(dtype));
  const Array square = is_complex(dtype) ? lax::complex(a, cos(a)) : a;
  return matmul(square, conj(square).T()) + (eye(n) * static_cast<double>(n)).astype(dtype);
}

TEST(SplitSystems, OfPositiveDefiniteMatricesAreSolved) {
  const Mesh mesh = mesh_8();
  for (const Dtype dtype : {float32, float64, complex64, complex128}) {
    const double tolerance = size_of(real_dtype(dtype)) == 8 ? 1e-10 : 1e-3;
    for (const std::int64_t n : {16, 24, 32, 80}) {
      SCOPED_TRACE(std::string(name_of(dtype)) + " " + std::to_string(n));
      const Array b = waves({n, 2}).astype(dtype);
      for (const Array& a : {definite(n, dtype), diag(arange(1.0, static_cast<double>(n) + 1)).astype(dtype)}) {
        const Array split = put(a, mesh, P("i"));
        const auto solve = [](const Array& matrix, const Array& right) {
          return linalg::cho_solve(linalg::cho_factor(matrix), right);
        };
        const Array x = jit(solve)(split, b);
        EXPECT_TRUE(allclose(matmul(a, x), b, {.rtol = tolerance, .atol = tolerance}).item<bool>());
        const Array inverse = jit([](const Array& matrix) { return linalg::inv(matrix); })(split);
        EXPECT_TRUE(
            allclose(matmul(a, inverse), eye(n).astype(dtype), {.rtol = tolerance, .atol = tolerance}).item<bool>());
      }
    }
  }
}

TEST(SplitSystems, ThatAreNotPositiveDefiniteGiveNaN) {
  const Mesh mesh = mesh_8();
  const Array a = definite(16, float32).at({3, 3}).set(-1.0F);
  const Array root = jit([](const Array& matrix) { return linalg::cholesky(matrix); })(put(a, mesh, P("i")));
  EXPECT_TRUE(isnan(root).any().item<bool>());
  // Of a matrix that is not symmetric, its symmetric part.
  const Array skew = definite(16, float32).at({0, 5}).add(2.0F);
  const auto f = [](const Array& matrix) { return linalg::cholesky(matrix); };
  EXPECT_TRUE(same(jit(f)(put(skew, mesh, P("i"))), f(skew)));
}

TEST(SplitSystems, HaveEigenvaluesWithVectorsAndWithout) {
  const Mesh mesh = mesh_8();
  for (const Dtype dtype : {float32, complex64}) {
    const Array a = definite(24, dtype);
    const Array split = put(a, mesh, P(none, "i"));
    const auto [values, vectors] = jit([](const Array& matrix) { return linalg::eigh(matrix); })(split);
    EXPECT_TRUE(allclose(matmul(a, vectors), vectors * values, {.rtol = 1e-3, .atol = 1e-2}).item<bool>());
    const Array alone = jit([](const Array& matrix) { return linalg::eigvalsh(matrix); })(split);
    EXPECT_TRUE(allclose(alone, values, {.rtol = 1e-4}).item<bool>());
  }
}

}  // namespace
}  // namespace shoal::test
