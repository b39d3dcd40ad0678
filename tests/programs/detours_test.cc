// Axes that come to a dimension which a loop or a reshape takes whole: what they split is moved once, so that another
// dimension is split by them and devices share the work.
#include "support.h"

namespace shoal::programs {
namespace {

Mesh mesh() { return make_mesh({8}, {"d"}); }

Matrix transposed(const Matrix& a) {
  Matrix b(a.cols, a.rows);
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t j = 0; j < a.cols; ++j) b.at(j, i) = a.at(i, j);
  }
  return b;
}

template <class F, class... Args>
std::string text_of(const F& f, const Args&... args) {
  return f.lower(args...).compile().as_text("partitioned");
}

// Eight devices do not divide six microbatches, but the sixteen rows in each.
TEST(Detours, RowsStaySplitInMicrobatches) {
  const Matrix rows = random_matrix(96, 64, 1);
  const Matrix weights = random_matrix(64, 64, 2);
  const auto gradient = jit([](Array w, Array x) {  // Of the half of the sum of squares of x w.
    return std::get<0>(
        lax::scan([w](Array sum, Array m) { return std::tuple(sum + matmul(m.T(), matmul(m, w)), Array(zeros({}))); },
                  zeros_like(w), x.reshape({6, 16, 64})));
  });
  const Array w = to_device(weights, mesh(), P());
  const Array x = to_device(rows, mesh(), P("d"));
  expect_near(gradient(w, x), product(transposed(rows), product(rows, weights)), 1e-3);
  const std::string text = text_of(gradient, w, x);
  EXPECT_EQ(collectives_in(text), (Collectives{{"all_reduce", 1}, {"rearrange", 1}})) << text;
  EXPECT_THAT(text, testing::HasSubstr("f32[2,64] varying(d) of [16,64] @[d, _]")) << "a device's rows of a microbatch";
}

TEST(Detours, AndLieAsTheyDidWhenTheyAreJoined) {
  const Matrix rows = random_matrix(96, 64, 3);
  const Matrix weights = random_matrix(64, 64, 4);
  const auto apply = jit([](Array w, Array x) {
    return lax::map([w](Array m) { return matmul(m, w); }, x.reshape({6, 16, 64})).reshape({96, 64});
  });
  const Array w = to_device(weights, mesh(), P());
  const Array x = to_device(rows, mesh(), P("d"));
  const Array y = apply(w, x);
  expect_near(y, product(rows, weights));
  EXPECT_EQ(y.sharding().named()->spec(), P("d"));
  EXPECT_EQ(collectives_in(text_of(apply, w, x)), (Collectives{{"rearrange", 2}})) << text_of(apply, w, x);
}

// What is split along the dimension of the slices.
TEST(Detours, SlicesAreMovedOnceBeforeTheLoop) {
  const Matrix rows = random_matrix(std::int64_t{16} * 32, 64, 5);
  const Matrix weights = random_matrix(64, 64, 6);
  const auto sums = jit([](Array w, Array xs) {
    return std::get<0>(
        lax::scan([w](Array sum, Array m) { return std::tuple(sum + matmul(m, w).sum(0), Array(zeros({}))); },
                  Array(zeros({64})), xs));
  });
  const Array w = to_device(weights, mesh(), P());
  const Array xs = device_put(to_device(rows).reshape({16, 32, 64}), NamedSharding(mesh(), P("d")));
  Matrix ones(1, rows.rows);
  ones.elements.assign(ones.elements.size(), 1);
  expect_near(sums(w, xs), product(product(ones, rows), weights).elements, 1e-3);
  EXPECT_EQ(collectives_in(text_of(sums, w, xs)), (Collectives{{"all_reduce", 1}, {"all_to_all", 1}}))
      << text_of(sums, w, xs);
}

TEST(Detours, SoIsWhatTripsTakeSlicesOfByANumber) {
  const Matrix rows = random_matrix(std::int64_t{16} * 32, 64, 7);
  const Matrix weights = random_matrix(64, 64, 8);
  const auto sums = jit([](Array w, Array xs) {
    return lax::fori_loop(
        0, 16, [&](Array i, Array sum) { return sum + matmul(xs[i], w).sum(0); }, Array(zeros({64})));
  });
  const Array w = to_device(weights, mesh(), P());
  const Array xs = device_put(to_device(rows).reshape({16, 32, 64}), NamedSharding(mesh(), P("d")));
  Matrix ones(1, rows.rows);
  ones.elements.assign(ones.elements.size(), 1);
  expect_near(sums(w, xs), product(product(ones, rows), weights).elements, 1e-3);
  const std::string text = text_of(sums, w, xs);
  EXPECT_EQ(collectives_in(text), (Collectives{{"all_reduce", 1}, {"all_to_all", 1}})) << text;
  const std::string explained = sums.lower(w, xs).compile().explain();
  EXPECT_THAT(explained, testing::Not(testing::HasSubstr("control_flow.cc"))) << "counting is on the user's line";
}

// The product of matrices whose contracted dimension is split, and what devices exchange for it.
void expect_product_of_split(const Matrix& left, const Matrix& right, const Collectives& expected) {
  const auto multiply = jit([](Array x, Array y) { return matmul(x, y); });
  const Array x = to_device(left, mesh(), P(none, "d"));
  const Array y = to_device(right, mesh(), P("d"));
  expect_near(multiply(x, y), product(left, right), 1e-3);
  const std::string text = text_of(multiply, x, y);
  EXPECT_EQ(collectives_in(text), expected) << text;
}

// Bytes alone would gather both operands, and have each device compute the whole product.
TEST(Detours, SplitContractionsStaySplit) {
  expect_product_of_split(random_matrix(256, 256, 9), random_matrix(256, 256, 10), {{"all_reduce", 1}});
}

// Adding up a result that is larger than its operands costs more than exchanging these.
TEST(Detours, LargeResultsAreSplitAndNotAddedUp) {
  expect_product_of_split(random_matrix(512, 64, 11), random_matrix(64, 512, 12),
                          {{"all_gather", 2}, {"all_to_all", 1}});
}

}  // namespace
}  // namespace shoal::programs
