// The communication that well-known programs must come down to: the collectives of their partitioned graphs, and no
// gather of a whole operand where none is needed.
#include "support/collectives.h"

#include <gtest/gtest.h>

#include "shoal/jit.h"
#include "shoal/lax.h"
#include "shoal/numpy.h"

namespace shoal {
namespace {

using test_support::Collectives;
using test_support::collectives_in;

class Partitioned : public testing::Test {
 protected:
  Partitioned() {
    set_num_cpu_devices(8);
    mesh_ = make_mesh({2, 4}, {"x", "y"});
  }

  Array put(const Shape& shape, const PartitionSpec& spec) const {
    return device_put(ones(shape), NamedSharding(mesh_, spec));
  }
  NamedSharding over(const PartitionSpec& spec) const { return NamedSharding(mesh_, spec); }

  template <class F, class... Args>
  static Collectives of(F f, const JitOptions& options, const Args&... args) {
    return collectives_in(jit(f, options).lower(args...).compile().as_text());
  }

  Mesh mesh_;
};

const auto kProduct = [](const Array& a, const Array& b) { return matmul(a, b); };

TEST_F(Partitioned, ElementwiseMovesNothing) {
  EXPECT_EQ(of([](const Array& a) { return 2 * sin(a) + 1; }, {}, put({8, 8}, P("x", "y"))), Collectives());
}

TEST_F(Partitioned, BatchSplitProductMovesNothing) {
  EXPECT_EQ(of(kProduct, {}, put({8, 16}, P("x")), put({16, 8}, P())), Collectives());
  EXPECT_EQ(of(kProduct, {}, put({8, 16}, P("x")), put({16, 8}, P(none, "y"))), Collectives());
}

TEST_F(Partitioned, SplitContractionIsOneReduction) {
  EXPECT_EQ(of(kProduct, {}, put({8, 16}, P(none, "y")), put({16, 8}, P("y"))), (Collectives{{"all_reduce", 1}}));
}

TEST_F(Partitioned, SplitContractionWantedSplitIsOneReduceScatter) {
  EXPECT_EQ(of(kProduct, {.out_shardings = over(P("y"))}, put({8, 16}, P(none, "y")), put({16, 8}, P("y"))),
            (Collectives{{"reduce_scatter", 1}}));
}

TEST_F(Partitioned, SumWantedSplitIsOneReduceScatter) {
  EXPECT_EQ(of([](const Array& a) { return a.sum(0); }, {.out_shardings = over(P("x"))}, put({4, 8}, P("x"))),
            (Collectives{{"reduce_scatter", 1}}));
}

TEST_F(Partitioned, TensorParallelLayersReduceOnce) {
  const auto mlp = [](const Array& x, const Array& w1, const Array& w2) { return matmul(tanh(matmul(x, w1)), w2); };
  EXPECT_EQ(of(mlp, {}, put({8, 16}, P("x")), put({16, 32}, P(none, "y")), put({32, 16}, P("y"))),
            (Collectives{{"all_reduce", 1}}));
}

TEST_F(Partitioned, AddedPartialSumsAreReducedOnce) {
  const auto f = [](const Array& a, const Array& b, const Array& c, const Array& d) {
    return matmul(a, b) + matmul(c, d);
  };
  const Array left = put({8, 16}, P(none, "y"));
  const Array right = put({16, 8}, P("y"));
  EXPECT_EQ(of(f, {}, left, right, left, right), (Collectives{{"all_reduce", 1}}));
}

TEST_F(Partitioned, MovingASplitIsOneAllToAll) {
  EXPECT_EQ(of([](const Array& a) { return a; }, {.out_shardings = over(P(none, "y"))}, put({8, 8}, P("y"))),
            (Collectives{{"all_to_all", 1}}));
}

TEST_F(Partitioned, ExchangedAxesArePermutedNotGathered) {
  EXPECT_EQ(of([](const Array& a) { return a; }, {.out_shardings = over(P({"y", "x"}))}, put({8}, P({"x", "y"}))),
            (Collectives{{"collective_permute", 1}}));
}

TEST_F(Partitioned, SplittingAReplicatedArrayMovesNothing) {
  EXPECT_EQ(of([](const Array& a) { return a + 1; }, {.out_shardings = over(P("x", "y"))}, put({8, 8}, P())),
            Collectives());
}

}  // namespace
}  // namespace shoal
