// Windows that move along split dimensions: shards take in halos, and give the bits of the whole array.
#include <gtest/gtest.h>
#include <shoal/shoal.h>

#include <limits>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ops/table.h"
#include "rng.h"

namespace shoal::parity {
namespace {

Array numbers(Rng& rng, const Shape& shape) {
  std::vector<float> elements(static_cast<std::size_t>(num_elements(shape)));
  for (float& element : elements) element = static_cast<float>(rng.below(2001)) / 1000 - 1;
  return array(std::span<const float>(elements), shape);
}

struct Seen {
  std::vector<float> elements;
  bool takes_halos = false;
  bool sums = false;  // Devices add up what each of them has.
};

template <class F>
Seen seen(F&& f, const Array& x) {
  auto program = jit(f);
  const Graph graph = parse_graph(program.lower(x).compile().as_text(), find_op);
  Seen result{.elements = program(x).template to_vector<float>()};
  for (const Eqn& eqn : graph.eqns) {
    result.takes_halos = result.takes_halos || eqn.attrs.contains("windows");
    result.sums = result.sums || eqn.op->name == "all_reduce" || eqn.op->name == "reduce_scatter";
  }
  return result;
}

// How a window moves along one dimension.
struct Move {
  std::int64_t window, stride, base, dilation;
  lax::WindowPadding::Pair padding;

  static Move random(Rng& rng, std::int64_t extent) {
    const auto up_to = [&](std::int64_t n) {
      return 1 + static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(n)));
    };
    Move move{.window = up_to(rng.chance(30) ? extent / 2 : 5),
              .stride = rng.chance(60) ? 1 : up_to(3),
              .base = rng.chance(70) ? 1 : up_to(3),
              .dilation = rng.chance(70) ? 1 : up_to(3),
              .padding = {}};
    const auto padding = [&] { return static_cast<std::int64_t>(rng.below(9)) - 2; };
    move.padding = {padding(), padding()};
    return move;
  }
};

// Both agree bit by bit, but where devices have parts of sums.
void expect_same(const Seen& whole, const Seen& split, const std::string& what) {
  ASSERT_EQ(whole.elements.size(), split.elements.size()) << what;
  for (std::size_t i = 0; i < whole.elements.size(); ++i) {
    if (split.sums) {
      ASSERT_NEAR(whole.elements[i], split.elements[i], 1e-3) << what << ", element " << i;
    } else {
      ASSERT_EQ(whole.elements[i], split.elements[i]) << what << ", element " << i;
    }
  }
}

std::string text_of(const Move& m) {
  return "window " + std::to_string(m.window) + " stride " + std::to_string(m.stride) + " base " +
         std::to_string(m.base) + " dilation " + std::to_string(m.dilation) + " padding " +
         std::to_string(m.padding.first) + " " + std::to_string(m.padding.second);
}

class Halos : public testing::Test {
 protected:
  const Mesh line_ = make_mesh({8}, {"x"});
  const Mesh grid_ = make_mesh({2, 4}, {"x", "y"});
  int exchanged_ = 0;

  // Of an array that is `cut` shorter than what was put, so that shards are uneven.
  template <class F>
  void compare(F&& f, const Array& x, std::int64_t cut, std::size_t dim, const PartitionSpec& spec, const Mesh& mesh,
               const std::string& what) {
    const auto shortened = [&](Array v) {
      return f(lax::slice_in_dim(v, 0, v.shape()[dim] - cut, 1, static_cast<std::int64_t>(dim)));
    };
    const Seen whole = seen(shortened, x);
    const Seen split = seen(shortened, device_put(x, NamedSharding(mesh, spec)));
    exchanged_ += split.takes_halos ? 1 : 0;
    expect_same(whole, split, what + " cut " + std::to_string(cut));
  }
};

TEST_F(Halos, OfConvolutions) {
  Rng rng(7);
  for (int i = 0; i < 150; ++i) {
    const Move rows = Move::random(rng, 24);
    const Move columns = Move::random(rng, 8);
    const std::int64_t groups = rng.chance(30) ? 2 : 1;
    const Array w = numbers(rng, {4, 4 / groups, rows.window, columns.window});
    const Array x = numbers(rng, {2, 4, 24, 8});
    const auto f = [&](const Array& v) {
      return lax::conv_general_dilated(v, w, {rows.stride, columns.stride}, {rows.padding, columns.padding},
                                       {.lhs_dilation = {rows.base, columns.base},
                                        .rhs_dilation = {rows.dilation, columns.dilation},
                                        .feature_group_count = groups});
    };
    const std::string what = std::to_string(i) + ": rows " + text_of(rows) + ", columns " + text_of(columns);
    const auto cut = static_cast<std::int64_t>(rng.below(4));
    compare(f, x, cut, 2, P(none, none, "x"), line_, what);
    compare(f, x, cut, 2, P(none, none, "y", "x"), grid_, what + " both");
    compare(f, x, 0, 2, P(none, none, {"x", "y"}), grid_, what + " one axis");
  }
  EXPECT_GT(exchanged_, 200);
}

TEST_F(Halos, OfReductions) {
  Rng rng(11);
  for (int i = 0; i < 150; ++i) {
    const Move rows = Move::random(rng, 40);
    const std::int64_t inner = rng.chance(50) ? 1 : 128;
    const Array x = numbers(rng, {2, 40, inner});
    const bool sums = rng.chance(60);
    const auto f = [&](const Array& v) {
      const lax::ReduceWindowOptions options{.window_strides = {1, rows.stride, 1},
                                             .padding = {{0, 0}, rows.padding, {0, 0}},
                                             .base_dilation = {1, rows.base, 1},
                                             .window_dilation = {1, rows.dilation, 1}};
      if (sums) {
        return lax::reduce_window(
            v, 0.0F, [](const Array& a, const Array& b) { return a + b; }, {1, rows.window, 1}, options);
      }
      return lax::reduce_window(
          v, -std::numeric_limits<float>::infinity(), [](const Array& a, const Array& b) { return maximum(a, b); },
          {1, rows.window, 1}, options);
    };
    const std::string what =
        std::to_string(i) + ": " + text_of(rows) + (sums ? " sum " : " max ") + std::to_string(inner);
    const auto cut = static_cast<std::int64_t>(rng.below(4));
    compare(f, x, cut, 1, P(none, "x"), line_, what);
    compare(f, x, cut, 1, P("x", "y"), grid_, what + " grid");
  }
  EXPECT_GT(exchanged_, 200);
}

TEST_F(Halos, OfWideSums) {
  // More elements than are added one by one: shards have the blocks of the whole array.
  Rng rng(13);
  for (const std::int64_t window : {9, 31, 40}) {
    const Array x = numbers(rng, {256, 128});
    const auto f = [&](const Array& v) {
      return lax::reduce_window(v, 0.0F, [](const Array& a, const Array& b) { return a + b; }, {window, 1},
                                {.padding = "SAME"});
    };
    compare(f, x, 0, 0, P("x"), line_, "window " + std::to_string(window));
    compare(f, x, 5, 0, P("x"), line_, "window " + std::to_string(window));
  }
  EXPECT_GE(exchanged_, 4);
}

TEST_F(Halos, OfDerivatives) {
  Rng rng(17);
  for (const std::int64_t stride : {1, 2, 3}) {
    const Array w = numbers(rng, {4, 3, 3, 3});
    const Array x = numbers(rng, {2, 3, 24, 8});
    const auto convolved = [&](const Array& v, const Array& kernel) {
      return square(lax::conv_general_dilated(v, kernel, {stride, stride}, "SAME")).sum();
    };
    compare([&](const Array& v) { return grad([&](const Array& one) { return convolved(one, w); })(v); }, x, 0, 2,
            P(none, none, "x"), line_, "by the array, stride " + std::to_string(stride));
    compare([&](const Array& v) { return grad([&](const Array& one) { return convolved(v, one); })(w); }, x, 0, 2,
            P(none, none, "x"), line_, "by the window, stride " + std::to_string(stride));
  }
  EXPECT_EQ(exchanged_, 6);
}

}  // namespace
}  // namespace shoal::parity
