// Linear algebra, against what JAX gave for the same expressions (testdata/linalg.inc), and what is moved for it.
#include "shoal/linalg.h"

#include "frontend/recorded_numbers.h"
#include "frontend/test_support.h"
#include "spmd/test_collectives.h"

namespace shoal::test {
namespace {

using test_support::Collectives;
using test_support::collectives_in;

const RecordedNumbers kDecompositions[] = {
#include "frontend/testdata/linalg.inc"
};

TEST(Linalg, AsInJax) { expect_recorded(kDecompositions); }

// What there is of functions from a batch of square matrices to one array.
using OfMatrices = Array (*)(const Array&);
const OfMatrices kOfMatrices[] = {
    [](const Array& a) { return linalg::cholesky(a); },
    [](const Array& a) { return linalg::qr(a).R; },
    [](const Array& a) { return linalg::eigh(a).eigenvectors; },
    [](const Array& a) { return linalg::svd(a).U; },
    [](const Array& a) { return linalg::svdvals(a); },
    [](const Array& a) { return linalg::solve(a, a); },
    [](const Array& a) { return linalg::solve(a, arange(3.0)); },
    [](const Array& a) { return linalg::inv(a); },
    [](const Array& a) { return linalg::pinv(a); },
    [](const Array& a) { return linalg::cho_solve(linalg::cho_factor(a), a); },
    [](const Array& a) { return linalg::lu_solve(linalg::lu_factor(a), a, 1); },
    [](const Array& a) { return linalg::det(a); },
    [](const Array& a) { return linalg::slogdet(a).logabsdet; },
    [](const Array& a) { return linalg::matrix_rank(a); },
    [](const Array& a) { return linalg::cond(a); },
    [](const Array& a) { return linalg::cond(a, 1); },
    [](const Array& a) {
      return linalg::norm(a, {.ord = "nuc", .axis = {1, 2}});
    },
    [](const Array& a) { return linalg::matrix_power(a, -3); },
};

Array definite_matrices() {
  const Array root = M({8, 3, 3}).astype(float32);
  return matmul(root, swapaxes(root, -1, -2)) + eye(3);
}

TEST(Linalg, OfSplitBatchesMovesNothing) {
  const Array whole = definite_matrices();
  const Array split = put(whole, mesh_4x2(), P({"x", "y"}));
  for (std::size_t i = 0; i < std::size(kOfMatrices); ++i) {
    EXPECT_EQ(collectives_of(kOfMatrices[i], split), Collectives()) << i;
    const Array result = kOfMatrices[i](split);
    EXPECT_TRUE(same(result, kOfMatrices[i](whole))) << i;
    EXPECT_EQ(result.addressable_shards()[0].data.shape()[0], 1) << i;
  }
}

TEST(Linalg, SplitMatricesAreGatheredOnce) {
  const Array whole = definite_matrices()[0];
  const Array split = put(pad(whole, {{0, 1}}) + eye(4), mesh_4x2(), P("x"));
  const auto lower = [](const Array& a) { return lax::linalg::cholesky(a, false); };
  EXPECT_EQ(collectives_of(lower, split), (Collectives{{"all_gather", 1}}));
  EXPECT_EQ(collectives_of([](const Array& a) { return linalg::svdvals(a); }, split), (Collectives{{"all_gather", 1}}));
  EXPECT_EQ(collectives_of([](const Array& a) { return linalg::det(a); }, split), (Collectives{{"all_gather", 1}}));
}

TEST(Linalg, SplitRightSidesStayWhereTheyAre) {
  const Array sides = put(M({3, 16}), mesh_4x2(), P(none, {"x", "y"}));
  const auto solve = [](const Array& b) { return linalg::solve(definite_matrices()[0].astype(float64), b); };
  EXPECT_EQ(collectives_of(solve, sides), Collectives());
  EXPECT_EQ(spec_of(solve(sides)), P(none, {"x", "y"}));
  const auto substitute = [](const Array& b) { return linalg::solve_triangular(M({3, 3}), b); };
  EXPECT_EQ(collectives_of(substitute, sides), Collectives());
}

TEST(Linalg, ResultsAreTrees) {
  const Array a = definite_matrices();
  const auto [u, s, vh] = jit([](const Array& x) { return linalg::svd(x, false); })(a);
  EXPECT_TRUE(static_cast<bool>(allclose(matmul(u * expand_dims(s, 1), vh), a, {.rtol = 1e-4, .atol = 1e-4})));
}

TEST(Linalg, IntegersCountAsFloats) {
  EXPECT_EQ(repr(linalg::inv(array({{2, 0}, {0, 4}}))), "Array([[0.5 , 0.  ],\n       [0.  , 0.25]], dtype=float32)");
  EXPECT_EQ(linalg::solve(array({{2, 0}, {0, 4}}), array({1, 1})).dtype(), float32);
  EXPECT_EQ(linalg::matrix_power(array({{1, 1}, {0, 1}}), 5).dtype(), int32);
  EXPECT_EQ(linalg::eigvalsh(ones({2, 2}, {.dtype = complex64})).dtype(), float32);
}

TEST(Linalg, OfWhatIsInsideShardMap) {
  const Mesh mesh = mesh_8();
  const auto f =
      shard_map([](const Array& a) { return linalg::inv(a); }, {.mesh = mesh, .in_specs = P("i"), .out_specs = P("i")});
  EXPECT_TRUE(same(f(definite_matrices()), linalg::inv(definite_matrices())));
}

TEST(Linalg, InOtherMemories) {
  const Mesh mesh = mesh_8();
  const Array on_host =
      device_put(definite_matrices(), NamedSharding(mesh, P("i")).with_memory_kind(kPinnedHostMemory));
  EXPECT_EQ(linalg::inv(on_host).sharding().memory_kind(), kPinnedHostMemory);
}

}  // namespace
}  // namespace shoal::test
