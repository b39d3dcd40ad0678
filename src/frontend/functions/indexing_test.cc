// Basic indexing, against what JAX gave for the same indices (testdata/indexing.inc).
#include "frontend/test_support.h"

namespace shoal::test {
namespace {

struct IndexCase {
  std::string python;
  std::vector<IndexEntry> index;
  std::string result;
};

std::vector<IndexCase> recorded() {
  return {
#include "frontend/testdata/indexing.inc"
  };
}

Array counted() { return arange(24).reshape(2, 3, 4); }

TEST(Indexing, AsInNumpy) {
  const Array x = counted();
  for (const IndexCase& c : recorded()) EXPECT_EQ(repr(x.at(c.index).get()), c.result) << c.python;
}

TEST(Indexing, UnderJitAndOnSplitArrays) {
  const Array split = put(counted(), mesh_4x2(), P("y", none, "x"));
  for (const IndexCase& c : recorded()) {
    EXPECT_EQ(repr(split.at(c.index).get()), c.result) << c.python;
    EXPECT_EQ(repr(jit([&](const Array& x) { return x.at(c.index).get(); })(split)), c.result) << c.python;
  }
}

TEST(Indexing, BoolsWithoutDimensionsAddOne) {
  for (const Array& x : {counted(), put(counted(), mesh_4x2(), P("y", none, "x"))}) {
    EXPECT_EQ(repr(x[Array(true)]), repr(counted().reshape({1, 2, 3, 4})));
    EXPECT_EQ(x[Array(false)].shape(), (Shape{0, 2, 3, 4}));
    EXPECT_EQ(repr(x[{1, Array(true), range(1, 2)}]), "Array([[[16, 17, 18, 19]]], dtype=int32)");
    EXPECT_EQ(repr(x[{ellipsis, Array(true), 3}]), repr(counted()[{ellipsis, newaxis, 3}]));
    EXPECT_EQ(repr(x[{Array(true), Array(true), 0, 0, 0}]), "Array([0], dtype=int32)");
    EXPECT_EQ(repr(x.at(std::vector<IndexEntry>{0, Array(true)}).add(1)[0]), repr(counted()[0] + 1));
    EXPECT_EQ(repr(x.at(std::vector<IndexEntry>{0, Array(false)}).set(7)), repr(counted()));
    EXPECT_EQ(repr(x.at(Array(true)).set(ones({1, 2, 3, 4}, {.dtype = int32}))), repr(ones_like(counted())));
  }
  EXPECT_EQ(repr(Array(5)[Array(true)]), "Array([5], dtype=int32, weak_type=True)");
  EXPECT_EQ(repr(Array(5).at(Array(false)).set(1)), "Array(5, dtype=int32, weak_type=True)");
}

TEST(Indexing, EmptyResultsLieOnTheDevicesOfTheArray) {
  const Array x = put(iota({8, 4}), mesh_4x2(), P("x"));
  const Array none_of_it = x[range(0, 0)];
  EXPECT_EQ(none_of_it.shape(), (Shape{0, 4}));
  EXPECT_EQ(none_of_it.sharding(), x.sharding());
  const Array no_columns = x[{ellipsis, range(2, 2)}];
  EXPECT_EQ(no_columns.shape(), (Shape{8, 0}));
  EXPECT_EQ(no_columns.sharding(), x.sharding());
  EXPECT_EQ(jit([](const Array& a) { return a[{ellipsis, range(2, 2)}]; })(x).sharding(), x.sharding());
  const Array none_left = x[x > 100];
  EXPECT_EQ(none_left.shape(), (Shape{0}));
  EXPECT_EQ(none_left.devices(), x.devices());
  // What is empty already can be indexed, too.
  EXPECT_EQ(no_columns[range(0, 8, 2)].sharding(), x.sharding());
  EXPECT_EQ(no_columns[range(0, 8, 2)].shape(), (Shape{4, 0}));
}

TEST(Indexing, NegativePositionsThatDoNotCountFromTheEnd) {
  const Array x = arange(4);
  const Array positions = array({-2, 9, 1});
  const GetOptions nearest{.mode = IndexMode::kClip, .wrap_negative_indices = false};
  EXPECT_EQ(ints(x.at(positions).get(nearest)), (std::vector<int>{0, 3, 1}));
  EXPECT_EQ(ints(x.at(positions).get({.mode = IndexMode::kFill, .fill_value = 7, .wrap_negative_indices = false})),
            (std::vector<int>{7, 7, 1}));
  EXPECT_EQ(ints(x.at(-2).get(nearest)), std::vector<int>{0});
  EXPECT_EQ(ints(x.at(range(-2, none)).get(nearest)), (std::vector<int>{2, 3}));
  EXPECT_EQ(ints(x.at(positions).set(9, {.wrap_negative_indices = false})), (std::vector<int>{0, 9, 2, 3}));
  EXPECT_EQ(ints(x.at(positions).add(5, {.mode = IndexMode::kClip, .wrap_negative_indices = false})),
            (std::vector<int>{5, 6, 2, 8}));
  const auto ten_more = [](const Array& part) { return part + 10; };
  EXPECT_EQ(ints(x.at(positions).apply(ten_more, {.wrap_negative_indices = false})), (std::vector<int>{0, 11, 2, 3}));
  EXPECT_EQ(ints(take_along_axis(x, array({-1, 2}), 0, {.mode = IndexMode::kClip, .wrap_negative_indices = false})),
            (std::vector<int>{0, 2}));
}

TEST(Indexing, Brackets) {
  const Array x = counted();
  EXPECT_EQ(repr(x[{1, ellipsis, 0}]), "Array([12, 16, 20], dtype=int32)");
  EXPECT_EQ(repr(x[-1][2][{range(1, 3)}]), "Array([21, 22], dtype=int32)");
  EXPECT_EQ(x[range(0, 1)].shape(), (Shape{1, 3, 4}));
  EXPECT_EQ(x[ellipsis].shape(), x.shape());
  EXPECT_EQ(x[newaxis].shape(), (Shape{1, 2, 3, 4}));
  const std::size_t last = 1;
  EXPECT_EQ(x[last].shape(), (Shape{3, 4}));
  EXPECT_EQ(x[{0}].shape(), (Shape{3, 4}));
  EXPECT_EQ(x.at({}).get().shape(), x.shape());
}

TEST(Indexing, KeepsWeakness) { EXPECT_TRUE(broadcast_to(2, {3})[0].weak_type()); }

}  // namespace
}  // namespace shoal::test
