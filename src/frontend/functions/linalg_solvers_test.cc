// Solvers of matrices that devices share: against products, the same on one device, and what they move.
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "frontend/test_matrices.h"
#include "shoal/control_flow.h"
#include "shoal/derivatives.h"
#include "shoal/linalg.h"
#include "shoal/random.h"
#include "spmd/test_collectives.h"

namespace shoal::test {
namespace {

enum class Kind { kRandom, kGraded, kDiagonal, kNearlySingular };

Array definite(std::int64_t n, Dtype dtype, Kind kind = Kind::kRandom) {
  const Array root = random::normal(random::key(5), {n, n}, dtype);
  const Array unit = eye(n, {.dtype = dtype});
  const Array places = arange(static_cast<int>(n)).astype(dtype) / static_cast<double>(std::max<std::int64_t>(1, n));
  switch (kind) {
    case Kind::kGraded: {
      const Array scale = expand_dims(exp(-8 * places), 1);
      return scale * (matmul(root, adjoint_of(root)) / static_cast<double>(n) + unit) * adjoint_of(scale);
    }
    case Kind::kDiagonal:
      return (1 + places) * unit;
    case Kind::kNearlySingular:
      return matmul(root, adjoint_of(root)) / static_cast<double>(n) + 1e-3 * unit;
    default:
      return matmul(root, adjoint_of(root)) / static_cast<double>(n) + unit;
  }
}

// l l^H is the matrix, however it is split, and splitting does not change a bit.
TEST(Potrf, OfSplitMatrices) {
  for (const Dtype dtype : kMatrixDtypes) {
    for (const auto& [n, tile] : {std::pair{8, 3}, {40, 16}, {64, 64}, {96, 8}, {640, 0}}) {
      for (const Kind kind : {Kind::kRandom, Kind::kGraded, Kind::kDiagonal, Kind::kNearlySingular}) {
        const Array a = definite(n, dtype, kind);
        std::optional<Array> first;
        for (const PartitionSpec& spec : kMatrixSpecs) {
          const Array l = linalg::potrf(put(a, mesh_4x2(), spec), {.T_A = tile});
          EXPECT_EQ(l.sharding(), Sharding(NamedSharding(mesh_4x2(), spec)));
          const Array whole = on_one_device(l);
          EXPECT_LE(greatest_of(matmul(whole, adjoint_of(whole)) - a), allowed_rounding(dtype, n) * greatest_of(a))
              << n << ' ' << tile;
          EXPECT_EQ(greatest_of(triu(whole, 1)), 0);
          if (!first) first = whole;
          if (tile != 0) {
            EXPECT_TRUE(all(whole == *first).item<bool>()) << n << ' ' << tile;
          }
        }
        if (n == 640) break;
      }
    }
  }
}

// Whatever stands in the triangles that do not count, and however right sides are split.
TEST(Trsm, SolvesAllKindsOfTriangles) {
  for (const Dtype dtype : kMatrixDtypes) {
    for (const auto& [n, sides, tile] : {std::tuple{8, 8, 3}, {40, 4, 16}, {64, 1, 8}, {640, 8, 0}}) {
      const Array any = random::normal(random::key(3), {n, n}, dtype) / std::sqrt(n) + 2 * eye(n, {.dtype = dtype});
      const Array b = random::normal(random::key(4), {n, sides}, dtype);
      for (const bool lower : {true, false}) {
        for (const int trans : {0, 1, 2}) {
          for (const bool unit : {true, false}) {
            const linalg::SolveTriangularOptions options{.lower = lower, .trans = trans, .unit_diagonal = unit};
            const auto solve = [&](const Array& matrix, const Array& right) {
              return linalg::solve_triangular(matrix, right, options);
            };
            Array triangle = lower ? tril(any) : triu(any);
            if (unit) triangle = triangle - triangle * eye(n, {.dtype = dtype}) + eye(n, {.dtype = dtype});
            if (trans > 0) triangle = swapaxes(triangle, 0, 1);
            if (trans > 1) triangle = conj(triangle);
            for (const auto& [spec, side_spec] :
                 {std::pair{P("x", "y"), P("x")}, {P(none, "y"), P()}, {P("y"), P(none, "x")}}) {
              if (sides % 4 != 0 && side_spec == P(none, "x")) continue;
              const Array x = on_one_device(jit(solve)(put(any, mesh_4x2(), spec), put(b, mesh_4x2(), side_spec)));
              EXPECT_LE(greatest_of(matmul(triangle, x) - b), 30 * allowed_rounding(dtype, n) * (1 + greatest_of(x)))
                  << n << ' ' << sides << ' ' << lower << trans << unit;
            }
          }
        }
      }
      if (n != 640) continue;  // Smaller ones are gathered; tiles of them are those of potrs.
    }
  }
}

TEST(Potrs, SolvesWithoutGathering) {
  for (const Dtype dtype : kMatrixDtypes) {
    for (const auto& [n, sides, tile] : {std::tuple{8, 1, 256}, {40, 8, 16}, {64, 8, 7}, {1, 1, 1}}) {
      const Array a = definite(n, dtype);
      const Array b = random::normal(random::key(6), {n, sides}, dtype);
      for (const PartitionSpec& spec : kMatrixSpecs) {
        if (n == 1 && !(spec == kMatrixSpecs[0])) continue;
        const Array split = n == 1 ? a : put(a, mesh_4x2(), spec);
        const auto [x, status, logdet] =
            linalg::potrs(split, b, {.T_A = tile, .return_status = true, .return_logdet = true});
        EXPECT_LE(greatest_of(matmul(a, on_one_device(x)) - b), 30 * allowed_rounding(dtype, n) * (1 + greatest_of(x)));
        EXPECT_EQ(status.item<std::int32_t>(), 0);
        const double expected = linalg::slogdet(a).logabsdet.astype(float64).item<double>();
        EXPECT_NEAR(logdet.astype(float64).item<double>(), expected, 1e-4 * (1 + std::abs(expected)));
        const Array inverse = on_one_device(linalg::potri(split, {.T_A = tile}));
        EXPECT_LE(greatest_of(matmul(a, inverse) - eye(n)), 100 * allowed_rounding(dtype, n));
      }
    }
  }
  const auto solve = [](const Array& a, const Array& b) -> Array {
    return linalg::potrs(a, b, {.T_A = 16, .return_status = true});
  };
  const Array a = put(definite(64, float32), mesh_4x2(), P("x", "y"));
  const std::string text = jit(solve).lower(a, put(ones({64, 4}), mesh_4x2(), P("x"))).compile().as_text();
  EXPECT_NE(text.find("potrf("), std::string::npos) << text;
  EXPECT_NE(text.find("trsm("), std::string::npos) << text;
  EXPECT_EQ(text.find("f32[64,64]"), std::string::npos) << "somebody gets the whole matrix: " << text;
}

// However the factor is split, with equal bits, and both triangles alike.
TEST(Potri, OfSplitMatrices) {
  for (const Dtype dtype : kMatrixDtypes) {
    for (const auto& [n, tile] : {std::pair{8, 3}, {40, 16}, {64, 64}, {96, 8}, {640, 0}}) {
      const Array a = definite(n, dtype, Kind::kNearlySingular);
      std::optional<Array> first;
      for (const PartitionSpec& spec : kMatrixSpecs) {
        const Array inverse = linalg::potri(put(a, mesh_4x2(), spec), {.T_A = tile});
        EXPECT_EQ(inverse.sharding(), Sharding(NamedSharding(mesh_4x2(), spec)));
        const Array whole = on_one_device(inverse);
        EXPECT_LE(greatest_of(matmul(a, whole) - eye(n)), 10 * allowed_rounding(dtype, n) * greatest_of(whole))
            << n << ' ' << tile;
        EXPECT_TRUE(all(whole == adjoint_of(whole)).item<bool>());
        if (!first) first = whole;
        if (tile != 0) {
          EXPECT_TRUE(all(whole == *first).item<bool>()) << n << ' ' << tile;
        }
      }
    }
  }
  const Array bad = put(definite(64, float32).at({40, 40}).set(-1.0), mesh_4x2(), P("x", "y"));
  const auto [x, status, logdet] = linalg::potri(bad, {.T_A = 16, .return_status = true});
  EXPECT_EQ(status.item<std::int32_t>(), 41);
  EXPECT_TRUE(all(isnan(on_one_device(x))).item<bool>());
  const auto uneven = jit([](const Array& m) -> Array {
    return linalg::potri(lax::with_sharding_constraint(m, NamedSharding(mesh_4x2(), P("x", "y"))), {.T_A = 4});
  });
  const Array odd = definite(13, complex128);
  EXPECT_LE(greatest_of(matmul(odd, uneven(odd)) - eye(13)), 1e-13);
}

TEST(Potri, InDerivatives) {
  const Array a = definite(40, float64);
  const auto loss = [](const Array& m) {
    const Array inverse = linalg::potri(m, {.T_A = 16});
    return sum(inverse * inverse * expand_dims(arange(40.0), 0));
  };
  const auto by_inverse = [](const Array& m) {
    const Array inverse = linalg::inv(tril(m) + swapaxes(tril(m, -1), 0, 1));
    return sum(inverse * inverse * expand_dims(arange(40.0), 0));
  };
  const Array expected = jit(grad(by_inverse))(a);
  EXPECT_LE(greatest_of(jit(grad(loss))(a) - expected), 1e-10 * greatest_of(expected));
  EXPECT_LE(greatest_of(on_one_device(jit(grad(loss))(put(a, mesh_4x2(), P("x", "y")))) - expected),
            1e-10 * greatest_of(expected));
}

// The operands go where the specs say, as in the program of the solver package.
TEST(Potrs, BringsOperandsToTheirSpecs) {
  const Mesh mesh = make_mesh({2, 4}, {"x", "y"});
  const Array a = diag(arange(1.0, 9.0).astype(float32));
  const Array x = linalg::potrs(put(a, mesh, P(none, {"x", "y"})), ones({8, 1}),
                                {.T_A = 256, .mesh = mesh, .in_specs = {P(none, "y"), P()}});
  EXPECT_EQ(x.sharding(), Sharding(NamedSharding(mesh, P())));
  EXPECT_LE(greatest_of(on_one_device(x)[{range(0, 8), 0}] - 1 / arange(1.0, 9.0).astype(float32)), 1e-6);
}

TEST(Potrf, TellsWhichLeadingBlockIsNotPositiveDefinite) {
  for (const std::int64_t n : {5, 24, 640}) {
    for (const std::int64_t bad : {std::int64_t{0}, n / 2, n - 1}) {
      Array a = definite(n, float64);
      a = a.at({bad, bad}).set(-1.0);
      const bool divides = n % 8 == 0;
      for (const PartitionSpec& spec : kMatrixSpecs) {
        const Array split = divides ? put(a, mesh_4x2(), spec) : a;
        const linalg::SolverOptions options{.T_A = n == 640 ? 0 : 7, .return_status = true};
        EXPECT_EQ(linalg::potrs(split, ones({n, 2}, {.dtype = float64}), options).status.item<std::int32_t>(), bad + 1);
        if (!divides) break;
        if (n == 640) {  // And all of the factor is as on one device.
          const Array l = on_one_device(jit([](const Array& x) { return lax::linalg::cholesky(x, false); })(split));
          EXPECT_TRUE(all(isnan(l) == (tril(ones({n, n})) > 0)).item<bool>());
          EXPECT_EQ(greatest_of(where(isnan(l), 0, l)), 0);
        }
      }
    }
  }
  expect_refused([] { linalg::potrf(-eye(4)); },
                 "potrf: the matrix float32[4,4] is not positive definite, or not finite: its leading block "
                 "of 1 rows has no Cholesky factor. With return_status it is not an error");
  const Array none_at_all = jit([](const Array& x) { return linalg::potrf(x); })(-eye(4));
  EXPECT_TRUE(isnan(none_at_all[{3, 3}]).item<bool>());
}

TEST(Potrf, OfNumbersThatAreNotFinite) {
  for (const double number : {std::nan(""), HUGE_VAL}) {
    const Array a = definite(640, float32).at({300, 200}).set(number);
    const Array l =
        on_one_device(jit([](const Array& x) { return lax::linalg::cholesky(x, false); })(put(a, mesh_4x2(), P("x"))));
    EXPECT_TRUE(all(isnan(l) == (tril(ones({640, 640})) > 0)).item<bool>()) << number;
  }
}

// In regions where some axes are manual, each of their devices has a matrix of its own.
TEST(Potrf, OfSeveralMatricesAtOnce) {
  const Mesh mesh = make_mesh({2, 4}, {"x", "y"});
  const Array a = definite(64, float32);
  const Array both = stack({a, 2 * a});
  const auto factors = shard_map(
      [](const Array& mine) {
        const Array l = linalg::potrf(reshape(mine, {64, 64}), {.T_A = 16});
        return expand_dims(l, 0);
      },
      {.mesh = mesh, .in_specs = P("x"), .out_specs = P("x"), .axis_names = {{"x"}}});
  const Array l = on_one_device(jit(factors)(put(both, mesh, P("x", "y"))));
  EXPECT_LE(greatest_of(matmul(l, adjoint_of(l)) - both), 1e-4);
}

// Derivatives, loops and the ordinary functions use them where matrices are split.
TEST(Potrf, InDerivativesAndLoops) {
  const Array a = definite(512, float64);
  const Array b = random::normal(random::key(9), {512, 4}, float64);
  const auto loss = [](const Array& matrix, const Array& right) {
    const Array x = linalg::cho_solve(linalg::cho_factor(matrix, true), right);
    return sum(x * x);
  };
  const auto slope = [&](const Array& matrix, const Array& right) { return grad(loss)(matrix, right); };
  const Array alone = jit(slope)(a, b);
  const Array split = put(a, mesh_4x2(), P("x", "y"));
  const Array together = on_one_device(jit(slope)(split, put(b, mesh_4x2(), P("x"))));
  EXPECT_LE(greatest_of(alone - together), 1e-12 * greatest_of(alone));
  const auto repeated = [](const Array& matrix) {
    return lax::fori_loop(
        0, 3, [&](const Array&, const Array& l) { return linalg::potrf(matrix + matmul(l, swapaxes(l, 0, 1))); },
        zeros_like(matrix));
  };
  const Array l = on_one_device(jit(repeated)(split));
  EXPECT_LE(greatest_of(matmul(l, swapaxes(l, 0, 1)) - 3 * a), 1e-12 * greatest_of(a));
}

// One share of a matrix that is given away, and two of one that is kept.
TEST(Potrf, TakesNoMemoryButThatOfItsResult) {
  const Array a = put(definite(64, float32), mesh_4x2(), P("x", "y"));
  const auto factor = [](const Array& x) { return linalg::potrf(x, {.T_A = 8}); };
  const MemoryAnalysis kept = jit(factor).lower(a).compile().memory_analysis();
  EXPECT_EQ(kept.temp_size, 0);
  EXPECT_EQ(kept.alias_size, 0);
  const auto given = jit(factor, {.donate_argnums = {0}});
  const MemoryAnalysis donated = given.lower(a).compile().memory_analysis();
  EXPECT_EQ(donated.temp_size, 0);
  EXPECT_EQ(donated.alias_size, donated.output_size);
  const Array l = on_one_device(given(put(definite(64, float32), mesh_4x2(), P("x", "y"))));
  EXPECT_TRUE(all(l == on_one_device(jit(factor)(a))).item<bool>());
}

// ---- Triangular factors of any matrix.

// The rows in their order are the product of the factors, which do not depend on how the matrix is split.
TEST(Getrf, OfSplitMatrices) {
  for (const Dtype dtype : kMatrixDtypes) {
    for (const std::int64_t n : {512, 600}) {
      const Array a = random::normal(random::key(8), {n, n}, dtype);
      std::optional<Array> first;
      for (const PartitionSpec& spec : kMatrixSpecs) {
        const Array split = put(a, mesh_4x2(), spec);
        const lax::linalg::LuResult found = lax::linalg::lu(split);
        EXPECT_EQ(found.lu.sharding(), Sharding(NamedSharding(mesh_4x2(), spec)));
        const Array lu = on_one_device(found.lu);
        const Array product = matmul(tril(lu, -1) + eye(n, {.dtype = dtype}), triu(lu));
        EXPECT_LE(greatest_of(product - a[on_one_device(found.permutation)]),
                  allowed_rounding(dtype, n) * greatest_of(a));
        EXPECT_LE(greatest_of(tril(lu, -1)), is_complex(dtype) ? 1.5 : 1);
        if (!first) first = lu;
        EXPECT_LE(greatest_of(lu - *first), 100 * allowed_rounding(dtype, n) * greatest_of(lu));
        if (spec == kMatrixSpecs[1]) break;
      }
      const Array split = put(a, mesh_4x2(), P("x", "y"));
      const Array b = random::normal(random::key(9), {n, 4}, dtype);
      const Array x =
          on_one_device(jit([](const Array& m, const Array& right) { return linalg::solve(m, right); })(split, b));
      EXPECT_LE(greatest_of(matmul(a, x) - b), 1e3 * allowed_rounding(dtype, n) * greatest_of(x));
      const Array inverse = on_one_device(jit([](const Array& m) { return linalg::inv(m); })(split));
      EXPECT_LE(greatest_of(matmul(a, inverse) - eye(n)), 1e3 * allowed_rounding(dtype, n) * greatest_of(inverse));
      const std::vector<Array> found = jit([](const Array& m) {
        const auto [sign, logdet] = linalg::slogdet(m);
        return std::vector<Array>{sign, logdet};
      })(split);
      const auto expected = linalg::slogdet(a);
      EXPECT_LE(greatest_of(on_one_device(found[0]) - expected.sign), 1e-3);
      EXPECT_LE(greatest_of(on_one_device(found[1]) - expected.logabsdet), 1e-6 * greatest_of(expected.logabsdet));
    }
  }
}

TEST(Getrf, GathersNothing) {
  const Array split = put(random::normal(random::key(8), {512, 512}), mesh_4x2(), P("x", "y"));
  const auto inverse = [](const Array& m) { return linalg::inv(m) + linalg::slogdet(m).logabsdet; };
  const std::string text = jit(inverse).lower(split).compile().as_text();
  EXPECT_NE(text.find("getrf("), std::string::npos) << text;
  EXPECT_EQ(text.find("f32[512,512]"), std::string::npos) << "somebody gets the whole matrix: " << text;
}

// The same elements are exchanged as on one device, singular matrices have factors, and what is not finite has none.
TEST(Getrf, IsAsOnOneDevice) {
  const Array a = astype(random::randint(random::key(2), {520, 520}, -9, 9), float64);
  const Array singular = a.at({range(), 300}).set(0.0);
  for (const Array& given : {a, singular}) {
    const auto alone = lax::linalg::lu(given);
    const auto together = lax::linalg::lu(put(given, mesh_4x2(), P("y", "x")));
    EXPECT_TRUE(all(on_one_device(together.pivots) == alone.pivots).item<bool>());
    EXPECT_TRUE(all(on_one_device(together.permutation) == alone.permutation).item<bool>());
    EXPECT_LE(greatest_of(on_one_device(together.lu) - alone.lu), 1e-9 * greatest_of(alone.lu));
  }
  const auto bad = lax::linalg::lu(put(a.at({17, 400}).set(std::nan("")), mesh_4x2(), P("x")));
  EXPECT_TRUE(all(isnan(on_one_device(bad.lu))).item<bool>());
  EXPECT_TRUE(all(on_one_device(bad.permutation) == arange(520)).item<bool>());
}

TEST(Getrf, InDerivatives) {
  const Array a = random::normal(random::key(8), {512, 512}, float64) / 16 + eye(512, {.dtype = float64});
  const Array b = random::normal(random::key(9), {512, 2}, float64);
  const auto loss = [](const Array& m, const Array& right) {
    const Array x = linalg::solve(m, right);
    return sum(x * x) + linalg::slogdet(m).logabsdet;
  };
  const Array alone = jit(grad(loss))(a, b);
  const Array together = on_one_device(jit(grad(loss))(put(a, mesh_4x2(), P("x", "y")), b));
  EXPECT_LE(greatest_of(alone - together), 1e-9 * greatest_of(alone));
}

// ---- Eigenvalues and vectors.

enum class Spectrum { kRandom, kClustered, kDiagonal, kRepeated, kTridiagonal, kSmall };

Array hermitian(std::int64_t n, Dtype dtype, Spectrum kind) {
  const Array any = random::normal(random::key(7), {n, n}, dtype);
  const Array random = (any + adjoint_of(any)) / 2;
  const Array places = arange(static_cast<int>(n)).astype(dtype);
  switch (kind) {
    case Spectrum::kClustered:
      return matmul(expand_dims(any[{range(0, n), 0}], 1), adjoint_of(expand_dims(any[{range(0, n), 0}], 1))) +
             1e-6 * random;
    case Spectrum::kDiagonal:
      return (places - 3) * eye(n, {.dtype = dtype});
    case Spectrum::kRepeated:
      return ones({n, n}, {.dtype = dtype}) + 2 * eye(n, {.dtype = dtype});
    case Spectrum::kTridiagonal:
      return tril(triu(ones({n, n}, {.dtype = dtype}), -1), 1) + eye(n, {.dtype = dtype});
    case Spectrum::kSmall:
      return 1e-30 * random;
    default:
      return random;
  }
}

void expect_spectrum(const Array& a, const Array& w, const Array& v, const std::string& text) {
  const std::int64_t n = a.shape()[0];
  const double most = allowed_rounding(a.dtype(), n);
  const Array vectors = on_one_device(v);
  const Array values = on_one_device(w);
  EXPECT_LE(greatest_of(matmul(a, vectors) - vectors * values.astype(a.dtype())), 4 * most * greatest_of(values))
      << text;
  EXPECT_LE(greatest_of(matmul(adjoint_of(vectors), vectors) - eye(n, {.dtype = a.dtype()})), most) << text;
  const Array expected = linalg::eigh(a).eigenvalues;
  EXPECT_LE(greatest_of(values - expected), 4 * most * greatest_of(values)) << text;
}

// a v = v w with orthonormal v, however it is split; and splitting changes no bit.
TEST(Syevd, OfSplitMatrices) {
  for (const Dtype dtype : kMatrixDtypes) {
    for (const auto& [n, tile] : {std::pair{8, 3}, {40, 16}, {64, 64}, {96, 8}, {200, 70}}) {
      for (const Spectrum kind : {Spectrum::kRandom, Spectrum::kClustered, Spectrum::kDiagonal, Spectrum::kRepeated,
                                  Spectrum::kTridiagonal, Spectrum::kSmall}) {
        const Array a = hermitian(n, dtype, kind);
        std::optional<linalg::SyevdResult> first;
        for (const PartitionSpec& spec : kMatrixSpecs) {
          const auto [w, v, status] = linalg::syevd(put(a, mesh_4x2(), spec), {.T_A = tile, .return_status = true});
          EXPECT_EQ(v.sharding(), Sharding(NamedSharding(mesh_4x2(), spec)));
          EXPECT_EQ(status.item<std::int32_t>(), 0);
          if (!first) {
            const std::string text =
                std::to_string(n) + ' ' + std::to_string(static_cast<int>(kind)) + ' ' + std::string(name_of(dtype));
            expect_spectrum(a, w, v, text);
            first = linalg::SyevdResult{.w = on_one_device(w), .v = on_one_device(v), .status = {}};
          }
          EXPECT_TRUE(all(on_one_device(v) == first->v).item<bool>() && all(on_one_device(w) == first->w).item<bool>())
              << n << ' ' << tile;
        }
        const Array alone = linalg::syevd(put(a, mesh_4x2(), P("x")), {.T_A = tile, .return_eigenvectors = false}).w;
        EXPECT_LE(greatest_of(on_one_device(alone) - first->w), 4 * allowed_rounding(dtype, n) * greatest_of(alone));
      }
    }
  }
}

TEST(Syevd, OfMatricesThatDoNotDivide) {
  for (const std::int64_t n : {1, 2, 3, 5, 13, 33}) {
    const Array a = hermitian(n, complex128, Spectrum::kRandom);
    const auto uneven = jit([](const Array& x) {
      const Array split = lax::with_sharding_constraint(x, NamedSharding(mesh_4x2(), P("x", "y")));
      const auto [w, v, status] = linalg::syevd(split, {.T_A = 4, .return_status = true});
      return std::vector<Array>{w, v, status};
    });
    const std::vector<Array> found = uneven(a);
    expect_spectrum(a, found[0], found[1], std::to_string(n));
  }
  const auto [w, v, status] = linalg::syevd(zeros({0, 0}), {.return_status = true});
  EXPECT_EQ(w.shape(), Shape({0}));
  EXPECT_EQ(v.shape(), Shape({0, 0}));
  EXPECT_EQ(status.item<std::int32_t>(), 0);
}

TEST(Syevd, OfNumbersThatAreNotFinite) {
  for (const double number : {std::nan(""), HUGE_VAL}) {
    const Array a = put(hermitian(64, float32, Spectrum::kRandom).at({30, 20}).set(number), mesh_4x2(), P("x", "y"));
    const auto [w, v, status] = linalg::syevd(a, {.T_A = 16, .return_status = true});
    EXPECT_EQ(status.item<std::int32_t>(), 1);
    EXPECT_TRUE(all(isnan(on_one_device(w))).item<bool>() && all(isnan(on_one_device(v))).item<bool>());
    expect_refused([&] { linalg::syevd(a, {.T_A = 16}); },
                   "syevd: the matrix float32[64,64] has no eigenvalues: it is not finite, or they were not found. "
                   "With return_status it is not an error");
  }
}

// The ordinary functions, derivatives and loops use it where matrices are large.
TEST(Syevd, InDerivativesAndLoops) {
  const Array a = hermitian(512, float64, Spectrum::kRandom);
  const Array split = put(a, mesh_4x2(), P("x", "y"));
  const auto both = jit([](const Array& x) {
    const auto [w, v] = linalg::eigh(x);
    return std::vector<Array>{w, v, linalg::eigvalsh(x)};
  });
  const std::string text = both.lower(split).compile().as_text();
  EXPECT_NE(text.find("syevd("), std::string::npos) << text;
  const std::vector<Array> found = both(split);
  expect_spectrum(a, found[0], found[1], "eigh");
  EXPECT_LE(greatest_of(on_one_device(found[2]) - on_one_device(found[0])), 1e-12 * greatest_of(a));
  const auto loss = [](const Array& x) {
    const auto [w, v] = linalg::eigh(x);
    return sum(w * w * w) + sum(v * v * expand_dims(arange(512.0), 1));
  };
  const Array alone = jit(grad(loss))(a);
  EXPECT_LE(greatest_of(on_one_device(jit(grad(loss))(split)) - alone), 1e-8 * greatest_of(alone));
  const auto of_values = [](const Array& x) { return sum(exp(linalg::eigvalsh(x) / 32)); };
  const Array slope = jit(grad(of_values))(a);
  EXPECT_LE(greatest_of(on_one_device(jit(grad(of_values))(split)) - slope), 1e-10 * greatest_of(slope));
  const auto repeated = [](const Array& x) {
    return lax::fori_loop(
        0, 2, [&](const Array&, const Array& y) { return y / (1 + max(abs(linalg::syevd(y).w))); }, x);
  };
  EXPECT_LE(greatest_of(on_one_device(jit(repeated)(split)) - jit(repeated)(a)), 1e-12);
}

TEST(Syevd, OfSeveralMatricesAtOnce) {
  const Mesh mesh = make_mesh({2, 4}, {"x", "y"});
  const Array a = hermitian(64, float32, Spectrum::kRandom);
  const auto vectors = shard_map(
      [](const Array& mine) {
        return expand_dims(linalg::syevd(reshape(mine, {64, 64}), {.T_A = 16, .return_status = true}).v, 0);
      },
      {.mesh = mesh, .in_specs = P("x"), .out_specs = P("x"), .axis_names = {{"x"}}});
  const Array v = on_one_device(jit(vectors)(put(stack({a, 2 * a}), mesh, P("x", "y"))));
  EXPECT_LE(greatest_of(matmul(adjoint_of(v), v) - eye(64)), 1e-4);
}

// The tiles of a triangle, the vectors of both halves, and those of the matrix; and no more than that of what is given
// away.
TEST(Syevd, TakesNoMoreMemoryThanItNeeds) {
  const std::int64_t n = 1024;
  const Array a = put(hermitian(n, float64, Spectrum::kRandom), mesh_4x2(), P("x", "y"));
  const auto spectrum = [](const Array& x) {
    const auto [w, v, status] = linalg::syevd(x, {.return_status = true});
    return std::vector<Array>{w, v};
  };
  const double matrix = 8.0 * static_cast<double>(n * n);
  const MemoryAnalysis kept = jit(spectrum).lower(a).compile().memory_analysis();
  EXPECT_LE(static_cast<double>(kept.temp_size) * 8, 2.9 * matrix);
  const MemoryAnalysis donated = jit(spectrum, {.donate_argnums = {0}}).lower(a).compile().memory_analysis();
  EXPECT_GE(static_cast<double>(donated.alias_size) * 8, matrix);
}

TEST(Potrs, SaysWhatDoesNotFit) {
  const Array a = eye(4);
  expect_refused(
      [&] {
        linalg::potrs(a, ones({3, 1}));
      },
      "potrs: the right sides float32[3,1] must have the dtype of the matrix float32[4,4], and as many "
      "rows");
  expect_refused([&] { linalg::potrf(ones({2, 4, 4})); }, "potrf: the matrix float32[2,4,4] must have two dimensions");
  expect_refused([&] { linalg::potrf(a, {.T_A = -1}); }, "potrf: T_A is -1; it must be a number of rows, or 0");
  expect_refused([&] { linalg::potrf(a, {.in_specs = {P()}}); }, "potrf: in_specs are given without a mesh");
  expect_refused(
      [&] {
        linalg::potrf(a, {.mesh = mesh_4x2(), .in_specs = {P(), P()}});
      },
      "potrf: in_specs has 2 entries for 1 operands");
}

}  // namespace
}  // namespace shoal::test
