// Solvers that are programs over others, and ScaLAPACK's layout: against products, the same on one device, and what
// they move.
#include "shoal/solvers.h"

#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "frontend/test_matrices.h"
#include "shoal/control_flow.h"
#include "shoal/derivatives.h"
#include "shoal/matrix_functions.h"
#include "shoal/random.h"
#include "spmd/test_collectives.h"

namespace shoal::test {
namespace {

Array one_of(std::int64_t n, Dtype dtype) { return eye(n, {.dtype = dtype}); }
Array any_matrix(std::int64_t m, std::int64_t n, Dtype dtype, int seed = 5) {
  return random::normal(random::key(seed), {m, n}, dtype);
}
Array positive(std::int64_t n, Dtype dtype) {
  const Array root = any_matrix(n, n, dtype);
  return matmul(root, adjoint_of(root)) / static_cast<double>(n) + one_of(n, dtype);
}
// With singular values from 1 down to 1 / condition.
Array with_condition(std::int64_t n, Dtype dtype, double condition) {
  const Array u = linalg::qr(any_matrix(n, n, dtype, 1)).Q;
  const Array v = linalg::qr(any_matrix(n, n, dtype, 2)).Q;
  const Array places = arange(static_cast<int>(n)).astype(real_dtype(dtype)) / static_cast<double>(n - 1);
  return matmul(u * expand_dims(exp(-std::log(condition) * places).astype(dtype), 0), v);
}

void expect_factors(const Array& a, const Array& q, const Array& r, const std::string& text) {
  const double most = allowed_rounding(a.dtype(), a.shape()[0]);
  const Array whole_q = on_one_device(q);
  const Array whole_r = on_one_device(r);
  EXPECT_LE(greatest_of(matmul(whole_q, whole_r) - a), most * greatest_of(a)) << text;
  EXPECT_LE(greatest_of(matmul(adjoint_of(whole_q), whole_q) - one_of(a.shape()[1], a.dtype())), most) << text;
  EXPECT_EQ(greatest_of(tril(whole_r, -1)), 0) << text;
  EXPECT_EQ(greatest_of(imag(diag(whole_r))), 0) << text;
}

// However the matrix is split, with equal bits where tiles are, and with the signs of one device.
TEST(Geqrf, OfSplitMatrices) {
  for (const Dtype dtype : kMatrixDtypes) {
    for (const auto& [m, n, tile] : {std::tuple{8, 8, 3}, {40, 8, 5}, {64, 64, 16}, {96, 40, 100}, {8, 0, 2}}) {
      const Array a = any_matrix(m, n, dtype);
      std::optional<linalg::QRResult> first;
      for (const PartitionSpec& spec : kMatrixSpecs) {
        const auto [q, r] = linalg::geqrf(put(a, mesh_4x2(), spec), {.T_A = tile});
        EXPECT_EQ(q.shape(), a.shape());
        if (n > 0) {
          EXPECT_EQ(q.sharding(), Sharding(NamedSharding(mesh_4x2(), spec)));
        }
        if (!first) {
          expect_factors(a, q, r, std::to_string(m) + ' ' + std::to_string(n) + ' ' + std::string(name_of(dtype)));
          first = linalg::QRResult{on_one_device(q), on_one_device(r)};
          const auto alone = lax::linalg::qr(a, false);
          EXPECT_LE(greatest_of(first->R - alone.second), 100 * allowed_rounding(dtype, m) * greatest_of(a));
        }
        EXPECT_TRUE(all(on_one_device(q) == first->Q).item<bool>() && all(on_one_device(r) == first->R).item<bool>())
            << m << ' ' << n;
      }
    }
  }
}

TEST(Geqrf, OfMatricesThatDoNotDivide) {
  for (const auto& [m, n] : {std::pair{1, 1}, {3, 2}, {13, 13}, {33, 7}, {70, 65}}) {
    const auto uneven = jit([](const Array& x) {
      const auto [q, r] =
          linalg::geqrf(lax::with_sharding_constraint(x, NamedSharding(mesh_4x2(), P("x", "y"))), {.T_A = 4});
      return std::vector<Array>{q, r};
    });
    const Array a = any_matrix(m, n, complex128);
    const std::vector<Array> found = uneven(a);
    expect_factors(a, found[0], found[1], std::to_string(m) + ' ' + std::to_string(n));
  }
  // Columns that depend on others, and zeros.
  for (const Array& a : {ones({40, 24}, {.dtype = float64}), zeros({40, 24}, {.dtype = float64})}) {
    const auto [q, r] = linalg::geqrf(put(a, mesh_4x2(), P("x", "y")), {.T_A = 5});
    EXPECT_LE(greatest_of(matmul(adjoint_of(on_one_device(q)), on_one_device(q)) - one_of(24, float64)), 1e-14);
    EXPECT_LE(greatest_of(matmul(on_one_device(q), on_one_device(r)) - a), 1e-13);
  }
  const Array bad = put(any_matrix(64, 32, float32).at({3, 30}).set(HUGE_VAL), mesh_4x2(), P("x", "y"));
  const auto [q, r] = linalg::geqrf(bad, {.T_A = 8});
  EXPECT_TRUE(all(isnan(on_one_device(q))).item<bool>());
  EXPECT_TRUE(all(isnan(on_one_device(r)) == (triu(ones({32, 32})) > 0)).item<bool>());
  expect_refused(
      [] {
        linalg::geqrf(ones({3, 4}));
      },
      "geqrf: the matrix float32[3,4] has more columns than rows; give its adjoint");
}

// The ordinary functions, inside of jit, loops and derivatives, gather nothing.
TEST(Geqrf, InOrdinaryFunctions) {
  const Array a = any_matrix(640, 96, float64);
  const Array b = any_matrix(640, 2, float64, 6);
  const Array split = put(a, mesh_4x2(), P("x", "y"));
  const auto factors = jit([](const Array& x) {
    const auto [q, r] = linalg::qr(x);
    return std::vector<Array>{q, r};
  });
  const std::string text = factors.lower(split).compile().as_text();
  EXPECT_NE(text.find("geqrf("), std::string::npos) << text;
  EXPECT_EQ(text.find("f64[640,96]"), std::string::npos) << text;
  const std::vector<Array> found = factors(split);
  expect_factors(a, found[0], found[1], "jit");
  const auto solution = jit([](const Array& x, const Array& y) {
    const auto [solved, residuals, rank, s] = linalg::lstsq(x, y);
    return std::vector<Array>{solved, residuals, rank, s};
  });
  const std::vector<Array> least = solution(split, put(b, mesh_4x2(), P("x")));
  const std::vector<Array> alone = solution(a, b);
  EXPECT_LE(greatest_of(matmul(adjoint_of(a), matmul(a, on_one_device(least[0])) - b)), 1e-10);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_LE(greatest_of(on_one_device(least[i]) - alone[i]), 1e-11);
  EXPECT_EQ(alone[2].item<std::int32_t>(), 96);
  const auto loss = [](const Array& x, const Array& y) {
    const auto [q, r] = linalg::qr(x);
    const Array z = linalg::lstsq(x, y).x;
    return sum(q * expand_dims(arange(640.0), 1)) + sum(r * r * r) + sum(z * z);
  };
  const Array slope = jit(grad(loss))(a, b);
  EXPECT_LE(greatest_of(on_one_device(jit(grad(loss))(split, b)) - slope), 1e-9 * greatest_of(slope));
  // And what one device finds is right.
  const Array direction = any_matrix(640, 96, float64, 7);
  const double near = 1e-6;
  const Array difference = (loss(a + near * direction, b) - loss(a - near * direction, b)) / (2 * near);
  const double expected = sum(slope * direction).item<double>();
  EXPECT_NEAR(difference.item<double>(), expected, 1e-4 * std::abs(expected) + 1e-3);
  const auto repeated = [](const Array& x) {
    return lax::fori_loop(
        0, 2, [](const Array&, const Array& y) { return linalg::qr(y).Q; }, x);
  };
  EXPECT_LE(greatest_of(on_one_device(jit(repeated)(split)) - jit(repeated)(a)), 1e-11);
}

TEST(Gels, SolvesOrTellsTheColumn) {
  for (const Dtype dtype : kMatrixDtypes) {
    const Array a = any_matrix(64, 24, dtype);
    const Array b = any_matrix(64, 3, dtype, 6);
    const auto [x, status, logdet] =
        linalg::gels(put(a, mesh_4x2(), P("x", "y")), b, {.T_A = 5, .return_status = true});
    EXPECT_EQ(status.item<std::int32_t>(), 0);
    EXPECT_LE(greatest_of(matmul(adjoint_of(a), matmul(a, on_one_device(x)) - b)), 200 * allowed_rounding(dtype, 64));
    EXPECT_EQ(linalg::gels(a, b[{range(), 0}]).x.shape(), Shape({24}));
  }
  const Array a = any_matrix(64, 24, float64).at({range(), 9}).set(0.0);
  expect_refused(
      [&] { linalg::gels(a, ones({64}, {.dtype = float64})); },
      "gels: column 10 of the matrix float64[64,24] depends on those before it, or is not finite; lstsq takes "
      "it. With return_status it is not an error");
  const auto found = linalg::gels(a, ones({64}, {.dtype = float64}), {.return_status = true});
  EXPECT_EQ(found.status.item<std::int32_t>(), 10);
  EXPECT_TRUE(all(isnan(found.x)).item<bool>());
  expect_refused([&] { linalg::gels(a, ones({3}, {.dtype = float64})); },
                 "gels: the right sides float64[3] must have the dtype of the matrix float64[64,24], and as many rows");
}

TEST(Trtri, OfSplitMatrices) {
  for (const Dtype dtype : kMatrixDtypes) {
    for (const auto& [n, tile] : {std::pair{8, 3}, {40, 16}, {96, 8}}) {
      const Array a = any_matrix(n, n, dtype) / 8 + 2 * one_of(n, dtype);
      for (const bool lower : {true, false}) {
        const Array triangle = lower ? tril(a) : triu(a);
        std::optional<Array> first;
        for (const PartitionSpec& spec : kMatrixSpecs) {
          const Array x = on_one_device(linalg::trtri(put(a, mesh_4x2(), spec), lower, {.T_A = tile}));
          if (!first) {
            EXPECT_LE(greatest_of(matmul(triangle, x) - one_of(n, dtype)),
                      30 * allowed_rounding(dtype, n) * greatest_of(x));
            EXPECT_EQ(greatest_of(lower ? triu(x, 1) : tril(x, -1)), 0);
            first = x;
          }
          EXPECT_TRUE(all(x == *first).item<bool>()) << n << ' ' << tile << ' ' << lower;
        }
      }
    }
  }
  const Array a = put(tril(any_matrix(40, 40, float64)) / 8 + 2 * one_of(40, float64), mesh_4x2(), P("x", "y"));
  const auto by_trtri = [](const Array& x) { return sum(exp(linalg::trtri(x, true, {.T_A = 16}))); };
  const auto by_inv = [](const Array& x) { return sum(exp(linalg::inv(tril(x)))); };
  EXPECT_LE(greatest_of(on_one_device(jit(grad(by_trtri))(a)) - jit(grad(by_inv))(on_one_device(a))), 1e-11);
}

TEST(Sygvd, OfSplitMatrices) {
  for (const Dtype dtype : kMatrixDtypes) {
    for (const auto& [n, tile] : {std::pair{8, 3}, {64, 16}}) {
      const Array any = any_matrix(n, n, dtype, 8);
      const Array a = any + adjoint_of(any);
      const Array b = positive(n, dtype);
      for (const PartitionSpec& spec : {P("x", "y"), P(none, "y")}) {
        // What is above the diagonal does not count.
        const auto [w, v, status] = linalg::sygvd(put(tril(a) + triu(ones({n, n}), 1).astype(dtype), mesh_4x2(), spec),
                                                  put(tril(b), mesh_4x2(), spec), {.T_A = tile, .return_status = true});
        EXPECT_EQ(status.item<std::int32_t>(), 0);
        const Array vectors = on_one_device(v);
        const double most = 20 * allowed_rounding(dtype, n);
        EXPECT_LE(greatest_of(matmul(a, vectors) - matmul(b, vectors) * on_one_device(w).astype(dtype)),
                  most * greatest_of(a));
        EXPECT_LE(greatest_of(matmul(adjoint_of(vectors), matmul(b, vectors)) - one_of(n, dtype)), most);
        const auto values = linalg::sygvd(put(a, mesh_4x2(), spec), b, {.T_A = tile, .return_eigenvectors = false});
        EXPECT_LE(greatest_of(on_one_device(values.w) - on_one_device(w)), most * greatest_of(w));
      }
    }
  }
  const Array a = one_of(8, float32);
  expect_refused(
      [&] { linalg::sygvd(a, -a); },
      "sygvd: the matrix float32[8,8] that comes second is not positive definite, or not finite: its leading "
      "block of 1 rows has no Cholesky factor. With return_status it is not an error");
  EXPECT_EQ(linalg::sygvd(a, -a, {.return_status = true}).status.item<std::int32_t>(), 9);
  expect_refused([&] { linalg::sygvd(a, one_of(7, float32)); },
                 "sygvd: the matrices float32[8,8] and float32[7,7] must have the same extents and dtype");
}

TEST(Gesvd, OfSplitMatrices) {
  for (const Dtype dtype : kMatrixDtypes) {
    for (const auto& [m, n] : {std::pair{8, 8}, {64, 24}, {24, 64}, {1, 1}}) {
      const Array a = any_matrix(m, n, dtype);
      const Array given = m == 1 ? a : put(a, mesh_4x2(), P("x", "y"));
      const auto [s, u, vh, status] = linalg::gesvd(given, {.T_A = 7, .return_status = true});
      EXPECT_EQ(status.item<std::int32_t>(), 0);
      const double most = 20 * allowed_rounding(dtype, std::max(m, n));
      const std::int64_t k = std::min(m, n);
      EXPECT_LE(greatest_of(matmul(on_one_device(u) * on_one_device(s).astype(dtype), on_one_device(vh)) - a),
                most * greatest_of(s));
      EXPECT_LE(greatest_of(matmul(adjoint_of(on_one_device(u)), on_one_device(u)) - one_of(k, dtype)), most);
      EXPECT_LE(greatest_of(matmul(on_one_device(vh), adjoint_of(on_one_device(vh))) - one_of(k, dtype)), most);
      EXPECT_LE(greatest_of(on_one_device(s) - linalg::svdvals(a)), most * greatest_of(s));
      const Array alone = linalg::gesvd(given, {.T_A = 7, .return_eigenvectors = false}).s;
      EXPECT_LE(greatest_of(on_one_device(alone) - on_one_device(s)), most * greatest_of(s));
    }
  }
  // Singular ones, and such with values of all sizes.
  for (const Array& a :
       {with_condition(48, float64, 1e14), ones({48, 48}, {.dtype = float64}), zeros({48, 48}, {.dtype = float64})}) {
    const auto [s, u, vh, status] = linalg::gesvd(put(a, mesh_4x2(), P("x", "y")), {.T_A = 16});
    EXPECT_LE(greatest_of(matmul(on_one_device(u) * on_one_device(s), on_one_device(vh)) - a), 1e-13);
    EXPECT_LE(greatest_of(matmul(adjoint_of(on_one_device(u)), on_one_device(u)) - one_of(48, float64)), 1e-13);
  }
  expect_refused(
      [] {
        linalg::gesvd(full({4, 4}, std::nan("")));
      },
      "gesvd: the matrix float32[4,4] has no singular values: it is not finite, or they were not found.");
}

TEST(Gesvd, AndPolarGatherNothing) {
  const Array a = put(any_matrix(512, 512, float32), mesh_4x2(), P("x", "y"));
  const auto found = jit([](const Array& x) {
    const auto [u, h] = linalg::polar(x);
    return std::vector<Array>{u, h};
  });
  const std::string text = found.lower(a).compile().as_text();
  EXPECT_NE(text.find("geqrf("), std::string::npos) << text;
  EXPECT_EQ(text.find("f32[512,512]"), std::string::npos) << text;
  EXPECT_EQ(text.find("f32[1024,512]"), std::string::npos) << text;
  const std::vector<Array> parts = found(a);
  EXPECT_LE(greatest_of(matmul(on_one_device(parts[0]), on_one_device(parts[1])) - on_one_device(a)), 1e-3);
}

// Where the matrix is split, in loops and derivatives, too; and on one device it stays what it is.
TEST(Gesvd, IsWhatSvdBecomes) {
  const Array a = any_matrix(600, 512, float64);
  const Array split = put(a, mesh_4x2(), P("x", "y"));
  const auto factors = jit([](const Array& x) {
    const auto [u, s, vh] = linalg::svd(x, false);
    return std::vector<Array>{u, s, vh};
  });
  const std::string text = factors.lower(split).compile().as_text();
  EXPECT_NE(text.find("geqrf("), std::string::npos) << text;
  EXPECT_NE(text.find("syevd("), std::string::npos) << text;
  EXPECT_EQ(text.find("f64[600,512]"), std::string::npos) << text;
  EXPECT_EQ(factors.lower(a).compile().as_text().find("geqrf("), std::string::npos);
  const std::vector<Array> found = factors(split);
  EXPECT_LE(greatest_of(matmul(on_one_device(found[0]) * on_one_device(found[1]), on_one_device(found[2])) - a), 1e-11);
  EXPECT_LE(greatest_of(matmul(adjoint_of(on_one_device(found[0])), on_one_device(found[0])) - one_of(512, float64)),
            1e-12);
  const auto [u, s, vh] = linalg::svd(a, false);
  EXPECT_LE(greatest_of(on_one_device(found[1]) - s), 1e-11);
  const auto loss = [](const Array& x) { return sum(exp(linalg::svdvals(x) / 16)); };
  const Array slope = jit(grad(loss))(a);
  EXPECT_LE(greatest_of(on_one_device(jit(grad(loss))(split)) - slope), 1e-10 * greatest_of(slope));
  const auto repeated = [](const Array& x) {
    return lax::fori_loop(
        0, 2, [](const Array&, const Array& y) { return y / (1 + max(linalg::svdvals(y))); }, x);
  };
  EXPECT_LE(greatest_of(on_one_device(jit(repeated)(split)) - jit(repeated)(a)), 1e-13);
}

TEST(Gesv, SolvesAndEstimates) {
  for (const Dtype dtype : kMatrixDtypes) {
    const Array a = any_matrix(64, 64, dtype) + 4 * one_of(64, dtype);
    const Array b = any_matrix(64, 3, dtype, 6);
    const auto [x, rcond, steps, status] =
        linalg::gesv(put(a, mesh_4x2(), P("x", "y")), b, {.T_A = 16, .return_status = true});
    EXPECT_EQ(status.item<std::int32_t>(), 0);
    EXPECT_LE(greatest_of(matmul(a, on_one_device(x)) - b), 1e3 * allowed_rounding(dtype, 64));
    const double exact = linalg::cond(a, 1).astype(float64).item<double>();
    const double found = 1 / rcond.astype(float64).item<double>();
    EXPECT_LE(found, 1.01 * exact);
    EXPECT_GE(found, exact / 4);
  }
  const Array a = any_matrix(32, 32, float64);
  const Array singular = a.at({range(), 7}).set(0.0);
  const Array b = ones({32}, {.dtype = float64});
  expect_refused(
      [&] { linalg::gesv(singular, b); },
      "gesv: the matrix float64[32,32] is singular, or not finite: u(8, 8) of its factors is 0, or no number. "
      "With return_status it is not an error");
  EXPECT_EQ(linalg::gesv(singular, b, {.return_status = true}).status.item<std::int32_t>(), 8);
  const Array poor = with_condition(32, float64, 1e18);
  expect_refused([&] { linalg::gesv(poor, b); },
                 "gesv: the matrix float64[32,32] is singular as far as its numbers tell: its condition number is "
                 "estimated to be ");
  EXPECT_EQ(linalg::gesv(poor, b, {.return_status = true}).status.item<std::int32_t>(), 33);
}

TEST(Gesv, RefinesWhatHalfOfTheBitsGive) {
  for (const Dtype dtype : {float64, complex128}) {
    for (const double size : {1.0, 1e200, 1e-200}) {
      const Array a = size * with_condition(64, dtype, 1e4);
      const Array b = any_matrix(64, 3, dtype, 6);
      const auto [x, rcond, steps, status] =
          linalg::gesv(put(a, mesh_4x2(), P("x", "y")), b, {.T_A = 16, .refine = true, .return_status = true});
      EXPECT_EQ(status.item<std::int32_t>(), 0);
      EXPECT_GE(steps.item<std::int32_t>(), 1);
      EXPECT_LE(steps.item<std::int32_t>(), 6);
      EXPECT_LE(greatest_of(matmul(a, on_one_device(x)) - b),
                allowed_rounding(dtype, 64) * greatest_of(a) * greatest_of(x) * 8);
    }
    // Where they do not do, it is as if they had not been asked for.
    const Array a = with_condition(64, dtype, 1e11);
    const Array b = any_matrix(64, 3, dtype, 6);
    const auto [x, rcond, steps, status] = linalg::gesv(a, b, {.refine = true, .return_status = true});
    EXPECT_EQ(steps.item<std::int32_t>(), -1);
    EXPECT_EQ(status.item<std::int32_t>(), 0);
    EXPECT_LE(greatest_of(x - linalg::solve(a, b)), 1e-12 * greatest_of(x));
    EXPECT_NEAR(std::log10(rcond.item<double>()), -11, 1.5);
  }
  const Array a = with_condition(48, float64, 10);
  const Array b = any_matrix(48, 2, float64, 6);
  const auto loss = [](const Array& x, const Array& y) {
    const Array z = linalg::solve(x, y, {.refine = true});
    return sum(z * z * z);
  };
  const auto plain = [](const Array& x, const Array& y) {
    const Array z = linalg::solve(x, y);
    return sum(z * z * z);
  };
  const auto [by_a, by_b] = grad<0, 1>(loss)(a, b);
  const auto [expected_by_a, expected_by_b] = grad<0, 1>(plain)(a, b);
  EXPECT_LE(greatest_of(by_a - expected_by_a), 1e-9 * greatest_of(expected_by_a));
  EXPECT_LE(greatest_of(by_b - expected_by_b), 1e-9 * greatest_of(expected_by_b));
  expect_refused<TypeMismatch>(
      [] {
        linalg::gesv(ones({2, 2}), ones({2}), {.refine = true});
      },
      "gesv: refine takes matrices of float64 or complex128, not float32");
}

TEST(CondEstimate, OfMatricesAndFactors) {
  for (const Dtype dtype : kMatrixDtypes) {
    for (const std::int64_t n : {1, 2, 5, 40}) {
      const Array a = positive(n, dtype);
      const double exact = linalg::cond(a, 1).astype(float64).item<double>();
      const Array norm = max(sum(abs(a), {.axis = 0}));
      for (const Array& found : {linalg::cond_estimate(a), linalg::cond_estimate(linalg::lu_factor(a), norm),
                                 linalg::cond_estimate(linalg::cho_factor(a), norm)}) {
        const double given = found.astype(float64).item<double>();
        EXPECT_LE(given, 1.01 * exact) << n;
        EXPECT_GE(given, exact / 3) << n;
      }
    }
  }
  EXPECT_TRUE(isinf(linalg::cond_estimate(zeros({3, 3}))).item<bool>());
  expect_refused(
      [] {
        linalg::cond_estimate(zeros({0, 0}));
      },
      "cond_estimate: the matrix float32[0,0] has no elements");
}

TEST(BlockCyclic, IsDealtAsScalapackDoes) {
  for (const auto& [m, n, down, across] : {std::tuple{10, 9, 2, 3}, {16, 16, 2, 2}, {5, 3, 8, 8}, {0, 4, 1, 1}}) {
    const linalg::BlockCyclic layout(m, n, down, across, mesh_4x2(), P("x", "y"));
    const Array a = reshape(arange(m * n).astype(float32) + 1, {m, n});
    const Array x = linalg::to_block_cyclic(a, layout);
    EXPECT_EQ(x.sharding(), Sharding(layout.sharding()));
    const std::int64_t local_rows = layout.padded_rows() / 4;
    const std::int64_t local_columns = layout.padded_columns() / 2;
    const Array whole = on_one_device(x);
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        const auto [p, q] = layout.owner(i, j);
        const std::int64_t row = p * local_rows + i / (4 * down) * down + i % down;
        const std::int64_t column = q * local_columns + j / (2 * across) * across + j % across;
        ASSERT_EQ((whole[{static_cast<int>(row), static_cast<int>(column)}].item<float>()), i * n + j + 1);
      }
    }
    EXPECT_EQ(sum(whole).item<float>(), sum(a).item<float>());
    EXPECT_TRUE(all(on_one_device(linalg::from_block_cyclic(x, layout)) == a).item<bool>());
    EXPECT_TRUE(linalg::verify_cyclic(x, a, layout));
    if (m > 0) {
      EXPECT_FALSE(linalg::verify_cyclic(x, a.at({0, 0}).set(-1.0), layout));
    }
    const auto described = linalg::BlockCyclic::from_descriptor(layout.descriptor(7), mesh_4x2(), P("x", "y"));
    EXPECT_EQ(described.descriptor(7), layout.descriptor(7));
  }
  const linalg::BlockCyclic layout(6, 5, 2, 2, mesh_4x2(), P("y", "x"));
  EXPECT_EQ(layout.descriptor(3), (std::array<std::int64_t, 9>{1, 3, 6, 5, 2, 2, 0, 0, 4}));
  EXPECT_EQ(layout.picture(),
            "6 × 5 in tiles of 2 × 2 over 2 × 4 devices\n"
            "0 1 2\n"
            "4 5 6\n"
            "0 1 2\n");
  expect_refused([] { linalg::BlockCyclic(4, 4, 0, 2, mesh_4x2(), P("x")); },
                 "BlockCyclic: tiles are 0 × 2; they must have at least a row and a column");
  expect_refused(
      [] {
        linalg::BlockCyclic::from_descriptor(std::vector<std::int64_t>{1, 2}, mesh_4x2(), P("x"));
      },
      "BlockCyclic::from_descriptor: the descriptor (1, 2) must have 9 numbers");
  expect_refused(
      [&] {
        linalg::to_block_cyclic(ones({5, 5}), layout);
      },
      "to_block_cyclic: the matrix float32[5,5] must be the layout's, of 6 × 5");
  expect_refused<OutOfRange>([&] { static_cast<void>(layout.owner(6, 0)); },
                             "BlockCyclic::owner: (6, 0) is no place of a matrix of 6 × 5");
}

// Local matrices are exchanged, and nobody gets more.
TEST(BlockCyclic, GathersNothing) {
  const linalg::BlockCyclic layout(512, 512, 32, 32, mesh_4x2(), P("x", "y"));
  const Array a = put(any_matrix(512, 512, float32), mesh_4x2(), P("x", "y"));
  const auto there = [&](const Array& x) { return linalg::to_block_cyclic(x, layout); };
  const auto back = [&](const Array& x) { return linalg::from_block_cyclic(x, layout); };
  const std::string text = jit(there).lower(a).compile().as_text() + jit(back).lower(there(a)).compile().as_text();
  EXPECT_EQ(text.find("all_gather"), std::string::npos) << text;
}

}  // namespace
}  // namespace shoal::test
