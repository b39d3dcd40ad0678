// Arrays from numbers, lists and host memory, and how they print.
#include <complex>
#include <span>

#include "frontend/test_support.h"

namespace shoal::test {
namespace {

TEST(Creation, Scalars) {
  EXPECT_EQ(repr(Array(1)), "Array(1, dtype=int32, weak_type=True)");
  EXPECT_EQ(repr(Array(1.5)), "Array(1.5, dtype=float32, weak_type=True)");
  EXPECT_EQ(repr(Array(1.5F)), "Array(1.5, dtype=float32, weak_type=True)");
  EXPECT_EQ(repr(Array(true)), "Array(True, dtype=bool)");
  EXPECT_EQ(repr(Array(std::complex<double>(1, -2))), "Array(1.-2.j, dtype=complex64, weak_type=True)");
  EXPECT_EQ(repr(Array('a')), "Array(97, dtype=int32, weak_type=True)");
}

TEST(Creation, Lists) {
  EXPECT_EQ(repr(array({1, 2})), "Array([1, 2], dtype=int32)");
  EXPECT_EQ(repr(array({1.0, 2.5})), "Array([1. , 2.5], dtype=float32)");
  EXPECT_EQ(repr(array({true, false})), "Array([ True, False], dtype=bool)");
  EXPECT_EQ(repr(array({{1, 2}, {3, 4}})), "Array([[1, 2],\n       [3, 4]], dtype=int32)");
  EXPECT_EQ(repr(array({{1.0, 2.0}})), "Array([[1., 2.]], dtype=float32)");
  EXPECT_EQ(repr(array({1, 2}, {.dtype = float16})), "Array([1., 2.], dtype=float16)");
  EXPECT_EQ(repr(array({{1.0}, {2.0}})), "Array([[1.],\n       [2.]], dtype=float32)");
  EXPECT_EQ(repr(array({1.5F})), "Array([1.5], dtype=float32)");
  EXPECT_EQ(array({{{1, 2}, {3, 4}}}).shape(), (Shape{1, 2, 2}));
  EXPECT_EQ(ints(array({{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}})), (std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(repr(array({{true}, {false}})), "Array([[ True],\n       [False]], dtype=bool)");
  EXPECT_EQ(repr(array({std::complex<double>(1, 2)})), "Array([1.+2.j], dtype=complex64)");
  EXPECT_EQ(repr(array(3)), "Array(3, dtype=int32)");
  EXPECT_EQ(repr(array({})), "Array([], shape=(0,), dtype=float32)");
  EXPECT_EQ(array({{}, {}}).shape(), (Shape{2, 0}));
  const float x = 2;
  EXPECT_EQ(repr(array({x, x + 1})), "Array([2., 3.], dtype=float32)");
}

TEST(Creation, MixedListsTakeTheWidestKind) {
  EXPECT_EQ(repr(array({true, 2})), "Array([1, 2], dtype=int32)");
  EXPECT_EQ(repr(array({1, 2.5})), "Array([1. , 2.5], dtype=float32)");
  EXPECT_EQ(repr(array({{1, 2}, {std::complex<double>(0, 1), 0.5}})).substr(0, 18), "Array([[1. +0.j, 2");
}

TEST(Creation, LiteralsKeepTheirPrecision) {
  EXPECT_EQ(array({0.1}, {.dtype = float64}).item<double>(), 0.1);
  const Array rows = array({{0.1, 0.2}}, {.dtype = float64});
  EXPECT_EQ((rows[{0, 1}].item<double>()), 0.2);
  EXPECT_EQ(full({1}, 0.1, {.dtype = float64}).item<double>(), 0.1);
  EXPECT_EQ((zeros({1}, {.dtype = float64}) + 0.1).item<double>(), 0.1);
  const std::int64_t large = (std::int64_t{1} << 53) + 1;
  EXPECT_EQ((zeros({1}, {.dtype = int64}) + large).to_vector<std::int64_t>()[0], large);
  EXPECT_EQ(array({large}, {.dtype = int64}).item<std::int64_t>(), large);
  EXPECT_EQ(arange(large, large + 3, {.dtype = int64}).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{large, large + 1, large + 2}));
}

TEST(Creation, HostMemoryKeepsItsDtype) {
  EXPECT_EQ(array(std::vector<double>{1}).dtype(), float64);
  EXPECT_EQ(array(std::vector<std::int64_t>{1}).dtype(), int64);
  EXPECT_EQ(array(std::vector<std::uint8_t>{1}).dtype(), uint8);
  EXPECT_EQ(array(std::vector<bool>{true, false}).to_vector<bool>(), (std::vector<bool>{true, false}));
  EXPECT_EQ(array(std::vector<float16_t>{1.5F}).item<float>(), 1.5F);
  EXPECT_EQ(array(std::vector<std::complex<float>>{{1, 2}}).dtype(), complex64);
  const std::vector<float> six{1, 2, 3, 4, 5, 6};
  EXPECT_EQ(floats(array(std::span<const float>(six), {2, 3})[1]), (std::vector<float>{4, 5, 6}));
  EXPECT_FALSE(array(std::vector<float>{1}).weak_type());
}

TEST(Creation, HostMemoryIsCopied) {
  std::vector<float> host{1, 2};
  const Array x = array(host);
  host[0] = 7;
  EXPECT_EQ(floats(x), (std::vector<float>{1, 2}));
}

TEST(Creation, Filled) {
  EXPECT_EQ(repr(zeros({2})), "Array([0., 0.], dtype=float32)");
  EXPECT_EQ(repr(ones({2}, {.dtype = int8})), "Array([1, 1], dtype=int8)");
  EXPECT_EQ(repr(ones({2}, {.dtype = bool_})), "Array([ True,  True], dtype=bool)");
  EXPECT_EQ(repr(full({2}, 3)), "Array([3, 3], dtype=int32)");
  EXPECT_EQ(repr(full({2}, 3.5)), "Array([3.5, 3.5], dtype=float32)");
  EXPECT_EQ(repr(full({2}, array({1, 2}))), "Array([1, 2], dtype=int32)");
  EXPECT_EQ(repr(full({}, 2, {.dtype = float32})), "Array(2., dtype=float32)");
  EXPECT_EQ(zeros({}).shape(), Shape{});
  EXPECT_EQ(zeros({0, 3}).size(), 0);
}

TEST(Creation, Ranges) {
  EXPECT_EQ(repr(arange(4)), "Array([0, 1, 2, 3], dtype=int32)");
  EXPECT_EQ(repr(arange(3.0)), "Array([0., 1., 2.], dtype=float32)");
  EXPECT_EQ(repr(arange(1, 7, 2)), "Array([1, 3, 5], dtype=int32)");
  EXPECT_EQ(repr(arange(3, 0, -1)), "Array([3, 2, 1], dtype=int32)");
  EXPECT_EQ(repr(arange(0, 1, 0.25)), "Array([0.  , 0.25, 0.5 , 0.75], dtype=float32)");
  EXPECT_EQ(repr(arange(2, 0)), "Array([], shape=(0,), dtype=int32)");
  EXPECT_EQ(repr(arange(2, {.dtype = complex64})), "Array([0.+0.j, 1.+0.j], dtype=complex64)");
  EXPECT_EQ(repr(arange(array({1, 4}).max())), "Array([0, 1, 2, 3], dtype=int32)");
  EXPECT_EQ(arange(-128, 128, 255, {.dtype = int8}).to_vector<std::int8_t>(), (std::vector<std::int8_t>{-128, 127}));
}

TEST(Creation, IntegersInsideJitAreCountedByTheProgram) {
  const auto check = [](const Operand& start, const Operand& stop, const Operand& step, Dtype dtype) {
    const auto counted = jit([&](const Array&) { return arange(start, stop, step, {.dtype = dtype}); });
    EXPECT_EQ(repr(counted(Array(0))), repr(arange(start, stop, step, {.dtype = dtype})));
    EXPECT_THAT(counted.lower(Array(0)).as_text(), testing::HasSubstr("iota"));
  };
  check(0, 5, 1, int32);
  check(7, -8, -3, int32);
  check(5, 5, 1, int32);
  check(-128, 128, 255, int8);
  check(1, 10, 4, float16);
  check(3, 9, 2, complex64);
  check(std::int64_t{1} << 40, (std::int64_t{1} << 40) + 5, 2, int64);
}

TEST(Creation, WithASharding) {
  const NamedSharding rows(mesh_4x2(), P("x"));
  for (const Array& x : {zeros({8}, {.sharding = rows}), arange(8, {.sharding = rows}),
                         full({8}, 2, {.sharding = rows}), array({1, 2, 3, 4}, {.sharding = rows})}) {
    EXPECT_EQ(x.sharding(), Sharding(rows));
    EXPECT_TRUE(x.committed());
  }
  EXPECT_FALSE(zeros({8}).committed());
}

TEST(Printing, Arrays) {
  std::ostringstream out;
  out << array({1.5, 2.0}) << ' ' << Array(3) << ' ' << array({{1, 2}, {3, 4}});
  EXPECT_EQ(out.str(), "[1.5 2. ] 3 [[1 2]\n [3 4]]");
}

TEST(Printing, SplitArraysPrintAsWhole) {
  const Array x = iota({8, 2});
  EXPECT_EQ(str(put(x, mesh_4x2(), P("x", "y"))), str(x));
  EXPECT_EQ(repr(put(x, mesh_8(), P("i"))), repr(x));
}

TEST(Printing, Types) {
  EXPECT_EQ(type_of(zeros({4, 8})), "float32[4,8]");
  EXPECT_EQ(type_of(Array(1)), "int32[]");
  std::ostringstream out;
  out << put(arange(8), mesh_8(), P("i")).addressable_shards()[3];
  EXPECT_EQ(out.str(), "Shard(device=CpuDevice(id=3), index=(slice(3, 4, None),), replica_id=0, data=[3])");
}

TEST(Reading, Item) {
  EXPECT_EQ(Array(2.75).item<float>(), 2.75F);
  EXPECT_EQ(Array(2.75).item<int>(), 2);
  EXPECT_EQ(array({7}).item<std::int64_t>(), 7);
  EXPECT_TRUE(Array(2).item<bool>());
  EXPECT_TRUE(static_cast<bool>(Array(2)));
  EXPECT_FALSE(static_cast<bool>(array({0.0})));
}

}  // namespace
}  // namespace shoal::test
