// Mistakes with shapes, dtypes, indices and values.
#include <complex>
#include <cstdint>
#include <limits>
#include <span>
#include <sstream>
#include <vector>

#include "misuse.h"

namespace shoal::test {
namespace {

// ---- Creation.

TEST(CreationError, ElementsThatDoNotFillTheShape) {
  const std::vector<float> five(5);
  EXPECT_MISUSE(InvalidArgument, ("array", "5 elements", "(2, 3)"), array(std::span<const float>(five), {2, 3}));
  EXPECT_MISUSE(InvalidArgument, ("array", "(-1, -5)"), array(std::span<const float>(five), {-1, -5}));
}

TEST(CreationError, RaggedRows) {
  EXPECT_MISUSE(InvalidArgument, ("array", "2 and 3", "all rows"), array({{1, 2}, {3, 4, 5}}));
  EXPECT_MISUSE(InvalidArgument, ("array", "3 and 1", "all rows"), array({{1.0, 2.0, 3.0}, {3.0}}));
}

TEST(CreationError, NegativeExtent) {
  EXPECT_MISUSE(InvalidArgument, ("zeros", "(2, -3)", "negative"), zeros({2, -3}));
  EXPECT_MISUSE(InvalidArgument, ("ones", "(-1,)", "negative"), ones({-1}));
  EXPECT_MISUSE(InvalidArgument, ("full", "(-1,)", "negative"), full({-1}, 2));
  EXPECT_MISUSE(InvalidArgument, ("full", "(-1,)"), full({-1}, Array(2)));
}

TEST(CreationError, TooManyElements) {
  const std::int64_t huge = std::int64_t{1} << 40;
  EXPECT_MISUSE_ANYWHERE(InvalidArgument, ("1099511627776", "2^63 - 1 elements"), zeros({huge, huge}));
}

TEST(CreationError, RangesWithoutAnEnd) {
  EXPECT_MISUSE(InvalidArgument, ("arange", "step is 0", "not be 0"), arange(0, 5, 0));
  EXPECT_MISUSE(InvalidArgument, ("arange", "step is nan"), arange(0, 5, std::numeric_limits<double>::quiet_NaN()));
  EXPECT_MISUSE(InvalidArgument, ("arange", "inf"), arange(std::numeric_limits<double>::infinity()));
  EXPECT_MISUSE(InvalidArgument, ("arange", "nan"), arange(std::numeric_limits<double>::quiet_NaN()));
}

TEST(CreationError, BoundsThatAreNoNumbers) {
  EXPECT_MISUSE(InvalidArgument, ("arange", "2 elements"), arange(ones({2})));
  EXPECT_MISUSE(TypeMismatch, ("arange", "complex"), arange(std::complex<double>(1, 2)));
  EXPECT_MISUSE(TypeMismatch, ("arange", "bool"), arange(0, 2, {.dtype = bool_}));
}

TEST(CreationError, IntegersThatDoNotFit) {
  EXPECT_MISUSE(OutOfRange, ("3000000000", "int32"), Array(3000000000));
  EXPECT_MISUSE(OutOfRange, ("full", "300", "uint8"), full({2}, 300, {.dtype = uint8}));
  EXPECT_MISUSE(OutOfRange, ("full", "-1", "uint16"), full({2}, -1, {.dtype = uint16}));
  EXPECT_MISUSE(OutOfRange, ("add", "300", "int8"), zeros({2}, {.dtype = int8}) + 300);
  EXPECT_MISUSE(OutOfRange, ("multiply", "-1", "uint8"), -1 * zeros({2}, {.dtype = uint8}));
  EXPECT_MISUSE(OutOfRange, ("array", "300", "uint8"), array({1, 300}, {.dtype = uint8}));
  EXPECT_MISUSE(OutOfRange, ("arange", "2999999999", "int32"), arange(3000000000));
  EXPECT_MISUSE(OutOfRange, ("arange", "299", "uint8"), arange(0, 300, {.dtype = uint8}));
  EXPECT_MISUSE(OutOfRange, ("arange", "-2", "uint8"), arange(-2, 3, {.dtype = uint8}));
  EXPECT_MISUSE(OutOfRange, ("maximum", "18446744073709551615", "int64"),
                maximum(zeros({2}, {.dtype = int64}), std::numeric_limits<std::uint64_t>::max()));
}

// ---- Shapes.

TEST(ShapeError, ShapesThatDoNotBroadcast) {
  EXPECT_MISUSE(InvalidArgument, ("add", "(2, 3)", "(2,)", "extents 3 and 2", "one of them 1"),
                ones({2, 3}) + ones({2}));
  EXPECT_MISUSE(InvalidArgument, ("maximum", "(4,)", "(5,)"), maximum(ones({4}), ones({5})));
  EXPECT_MISUSE(InvalidArgument, ("where", "(2,)", "(3,)"), where(true, ones({2}), ones({3})));
  EXPECT_MISUSE(InvalidArgument, ("where", "(2,)", "(3,)"), where(ones({2}, {.dtype = bool_}), ones({3}), 0));
  EXPECT_MISUSE(InvalidArgument, ("power", "(2,)", "(3,)"), power(ones({2}), ones({3})));
  EXPECT_MISUSE(InvalidArgument, ("less", "(2,)", "(3,)"), ones({2}) < ones({3}));
}

TEST(ShapeError, BroadcastTo) {
  EXPECT_MISUSE(InvalidArgument, ("broadcast_to", "(3,)", "(2,)"), broadcast_to(ones({3}), {2}));
  EXPECT_MISUSE(InvalidArgument, ("broadcast_to", "float32[2,3]", "(3,)"), broadcast_to(ones({2, 3}), {3}));
  EXPECT_MISUSE(InvalidArgument, ("broadcast_to", "float32[3]", "(1,)"), broadcast_to(ones({3}), {1}));
  EXPECT_MISUSE(InvalidArgument, ("broadcast_to", "(-1, 3)"), broadcast_to(ones({1, 3}), {-1, 3}));
}

TEST(ShapeError, Matmul) {
  EXPECT_MISUSE(InvalidArgument, ("matmul", "(2, 3)", "(2, 3)", "extent 3", "extent 2"),
                matmul(ones({2, 3}), ones({2, 3})));
  EXPECT_MISUSE(InvalidArgument, ("matmul", "(3,)", "(4,)"), matmul(ones({3}), ones({4})));
  EXPECT_MISUSE(InvalidArgument, ("matmul", "()", "(4,)", "scalars"), matmul(2.0, ones({4})));
  EXPECT_MISUSE(InvalidArgument, ("matmul", "(3,)", "()", "scalars"), matmul(ones({3}), 2));
  EXPECT_MISUSE(InvalidArgument, ("matmul", "(2,)", "(3,)", "broadcast"), matmul(ones({2, 4, 5}), ones({3, 5, 6})));
  EXPECT_MISUSE(InvalidArgument, ("matmul", "(5,)", "(3, 4, 6)"), matmul(ones({5}), ones({3, 4, 6})));
}

TEST(ShapeError, Dot) {
  EXPECT_MISUSE(InvalidArgument, ("dot", "(2, 3)", "(2, 3)", "3 and 2"), dot(ones({2, 3}), ones({2, 3})));
  EXPECT_MISUSE(InvalidArgument, ("dot", "(3,)", "(4,)"), dot(ones({3}), ones({4})));
}

TEST(ShapeError, DotGeneral) {
  EXPECT_MISUSE(InvalidArgument, ("dot_general", "(2, 3)", "(2, 3)"),
                lax::dot_general(ones({2, 3}), ones({2, 3}), {.lhs_contracting = {1}, .rhs_contracting = {0}}));
  EXPECT_MISUSE(OutOfRange, ("dot_general", "axis 2", "2 dimensions"),
                lax::dot_general(ones({2, 3}), ones({3, 2}), {.lhs_contracting = {2}, .rhs_contracting = {0}}));
  EXPECT_MISUSE(InvalidArgument, ("dot_general", "contract", "(0, 1)", "(0,)"),
                lax::dot_general(ones({2, 3}), ones({2, 3}), {.lhs_contracting = {0, 1}, .rhs_contracting = {0}}));
  EXPECT_MISUSE(InvalidArgument, ("dot_general", "batch", "extent 2", "extent 4"),
                lax::dot_general(ones({2, 3}), ones({4, 3}), {.lhs_batch = {0}, .rhs_batch = {0}}));
  EXPECT_MISUSE(InvalidArgument, ("dot_general", "dimension 0", "twice"),
                lax::dot_general(ones({2, 3}), ones({2, 3}),
                                 {.lhs_contracting = {0}, .rhs_contracting = {0}, .lhs_batch = {0}, .rhs_batch = {0}}));
}

TEST(ShapeError, Reshape) {
  const Array x = ones({2, 3});
  EXPECT_MISUSE(InvalidArgument, ("reshape", "(4, 2)", "6 elements", "[2,3]"), reshape(x, {4, 2}));
  EXPECT_MISUSE(InvalidArgument, ("reshape", "(-1, 4)", "6 elements"), reshape(x, {-1, 4}));
  EXPECT_MISUSE(InvalidArgument, ("reshape", "(-1, -1)", "one extent may be -1"), reshape(x, {-1, -1}));
  EXPECT_MISUSE(InvalidArgument, ("reshape", "(-2, -3)"), reshape(x, {-2, -3}));
  EXPECT_MISUSE(InvalidArgument, ("reshape", "(4, 2)"), x.reshape({4, 2}));
  EXPECT_MISUSE(InvalidArgument, ("reshape", "(4, 2)"), x.reshape(4, 2));
  EXPECT_MISUSE(InvalidArgument, ("reshape", "(-1, 0)"), reshape(zeros({0}), {-1, 0}));
}

TEST(ShapeError, Transpose) {
  const Array x = ones({2, 3});
  EXPECT_MISUSE(OutOfRange, ("transpose", "axis 2", "2 dimensions"), transpose(x, Dims{0, 2}));
  EXPECT_MISUSE(InvalidArgument, ("transpose", "(0, 0)", "dimension 0", "twice"), transpose(x, Dims{0, 0}));
  EXPECT_MISUSE(InvalidArgument, ("transpose", "(0,)", "2"), x.transpose({0}));
}

TEST(ShapeError, ExpandDimsAndSqueeze) {
  EXPECT_MISUSE(OutOfRange, ("expand_dims", "axis 3"), expand_dims(ones({2, 3}), 3));
  EXPECT_MISUSE(OutOfRange, ("expand_dims", "axis -4"), expand_dims(ones({2, 3}), -4));
  EXPECT_MISUSE(InvalidArgument, ("squeeze", "axis 0", "[2,3]", "extent 2"), squeeze(ones({2, 3}), 0));
  EXPECT_MISUSE(OutOfRange, ("squeeze", "axis 2"), squeeze(ones({2, 3}), 2));
  EXPECT_MISUSE(InvalidArgument, ("squeeze", "axis -2", "twice"), squeeze(ones({1, 3}), {0, -2}));
}

// ---- Reductions.

TEST(ReductionError, Axis) {
  const Array x = ones({2, 3});
  EXPECT_MISUSE(OutOfRange, ("sum", "axis 2", "2 dimensions"), sum(x, {.axis = 2}));
  EXPECT_MISUSE(OutOfRange, ("sum", "axis 2", "2 dimensions"), x.sum(2));
  EXPECT_MISUSE(OutOfRange, ("max", "axis -3"), x.max({.axis = -3}));
  EXPECT_MISUSE(OutOfRange, ("prod", "axis 5"), x.prod({.axis = {0, 5}}));
  EXPECT_MISUSE(OutOfRange, ("mean", "axis 2"), mean(x, {.axis = 2}));
  EXPECT_MISUSE(OutOfRange, ("any", "axis 2"), any(x, {.axis = 2}));
  EXPECT_MISUSE(OutOfRange, ("all", "axis 0", "0 dimensions"), all(Array(true), {.axis = 0}));
  EXPECT_MISUSE(InvalidArgument, ("min", "axis -2", "twice"), min(x, {.axis = {0, -2}}));
}

TEST(ReductionError, NothingToChooseFrom) {
  EXPECT_MISUSE(InvalidArgument, ("max", "axis 0", "no elements"), max(zeros({0, 2}), {.axis = 0}));
  EXPECT_MISUSE(InvalidArgument, ("min", "axis 0", "no elements"), zeros({0}).min());
}

TEST(ReductionError, ComplexNumbersHaveNoOrder) {
  const Array z = zeros({2}, {.dtype = complex64});
  EXPECT_MISUSE(TypeMismatch, ("max", "complex"), max(z));
  EXPECT_MISUSE(TypeMismatch, ("less", "complex64"), z < z);
  EXPECT_MISUSE(TypeMismatch, ("maximum", "complex64"), maximum(z, 1));
}

// ---- Dtypes.

TEST(DtypeError, OpsThatDoNotTakeADtype) {
  const Array z = zeros({2}, {.dtype = complex64});
  EXPECT_MISUSE(TypeMismatch, ("floor", "complex64"), floor(z));
  EXPECT_MISUSE(TypeMismatch, ("remainder", "complex64"), z % 2);
  EXPECT_MISUSE(TypeMismatch, ("bitwise_and", "float32"), ones({2}) & 1);
  EXPECT_MISUSE(TypeMismatch, ("bitwise_or", "float32"), ones({2}, {.dtype = int32}) | 1.0);
  EXPECT_MISUSE(TypeMismatch, ("bitwise_not", "float32"), ~ones({2}));
  EXPECT_MISUSE_ANYWHERE(InvalidArgument, ("float31", "float32"), parse_dtype("float31"));
}

// ---- Indices.

TEST(IndexError, PositionsOutsideTheArray) {
  const Array x = ones({2, 3});
  EXPECT_MISUSE(OutOfRange, ("index 2", "dimension 0", "float32[2,3]", "extent 2"), x[2]);
  EXPECT_MISUSE(OutOfRange, ("index -3", "dimension 0", "extent 2"), x[-3]);
  EXPECT_MISUSE(OutOfRange, ("index 3", "dimension 1", "extent 3"), x[{0, 3}]);
  EXPECT_MISUSE(OutOfRange, ("index 3", "dimension 1", "extent 3"), x[{ellipsis, 3}]);
  EXPECT_MISUSE(OutOfRange, ("index 2", "dimension 0"), x.at({2}));
}

TEST(IndexError, TooManyEntries) {
  const Array x = ones({2, 3});
  EXPECT_MISUSE(OutOfRange, ("3 entries", "float32[2,3]", "2 dimensions"), x[{0, 0, 0}]);
  EXPECT_MISUSE(OutOfRange, ("1 entries", "float32[]", "0 dimensions"), Array(1.0)[0]);
  EXPECT_MISUSE(OutOfRange, ("one ellipsis"), x[{ellipsis, 0, ellipsis}]);
}

TEST(IndexError, Steps) {
  const Array x = ones({4});
  EXPECT_MISUSE(InvalidArgument, ("step", "0", "at least 1"), x[{range({}, {}, 0)}]);
  EXPECT_MISUSE(InvalidArgument, ("step", "-1", "at least 1"), x[{range({}, {}, -1)}]);
}

// ---- Reading.

TEST(ReadingError, ItemOfSeveralElements) {
  EXPECT_MISUSE(InvalidArgument, ("item", "f32[2]", "2 elements"), ones({2}).item<float>());
  EXPECT_MISUSE(InvalidArgument, ("item", "0 elements"), zeros({0}).item<float>());
}

TEST(ReadingError, VectorOfAnotherDtype) {
  EXPECT_MISUSE(TypeMismatch, ("to_vector", "float32", "float64", "astype"), ones({2}).to_vector<double>());
  EXPECT_MISUSE(TypeMismatch, ("to_vector", "int32", "bool"), arange(2).to_vector<bool>());
}

TEST(ReadingError, TruthOfSeveralElements) {
  EXPECT_MISUSE_ANYWHERE(InvalidArgument, ("bool", "(2,)", "any()", "all()"),
                         static_cast<bool>(ones({2}) == ones({2})));
}

// ---- Arrays without a value.

TEST(NoValueError, EveryUse) {
  const Array nothing;
  EXPECT_MISUSE(InvalidState, ("add", "without a value"), nothing + 1);
  EXPECT_MISUSE(InvalidState, ("add", "without a value"), 1 + nothing);
  EXPECT_MISUSE(InvalidState, ("sin", "without a value"), sin(nothing));
  EXPECT_MISUSE(InvalidState, ("without a value"), nothing.sum());
  EXPECT_MISUSE(InvalidState, ("without a value"), matmul(nothing, nothing));
  EXPECT_MISUSE(InvalidState, ("without a value"), where(nothing, 1, 2));
  EXPECT_MISUSE(InvalidState, ("without a value"), reshape(nothing, {1}));
  EXPECT_MISUSE(InvalidState, ("without a value"), full({2}, nothing));
  EXPECT_MISUSE(InvalidState, ("without a value"), arange(nothing));
  EXPECT_MISUSE(InvalidState, ("without a value"), nothing.item<float>());
  EXPECT_MISUSE(InvalidState, ("without a value"), nothing.sharding());
  EXPECT_MISUSE(InvalidState, ("without a value"), nothing.addressable_shards());
  EXPECT_MISUSE(InvalidState, ("without a value"), device_put(nothing));
  EXPECT_MISUSE(InvalidState, ("without a value"), device_put(nothing, devices()[0]));
  EXPECT_MISUSE(InvalidState, ("without a value"), nothing[0]);
  EXPECT_MISUSE_ANYWHERE(InvalidState, ("without a value"), nothing.shape());
  EXPECT_MISUSE_ANYWHERE(InvalidState, ("without a value"), nothing.dtype());
  EXPECT_MISUSE_ANYWHERE(InvalidState, ("without a value"), nothing.to_vector<float>());
  EXPECT_MISUSE_ANYWHERE(InvalidState, ("without a value"), nothing.block_until_ready());
  EXPECT_MISUSE_ANYWHERE(InvalidState, ("without a value"), static_cast<bool>(nothing));
}

TEST(NoValueError, PrintsAsSuch) {
  std::ostringstream out;
  out << Array();
  EXPECT_EQ(out.str(), "<no value>");
}

// ---- Looking at values.

TEST(DebugPrintError, PlacesThatDoNotFitTheOperands) {
  const Array x = ones({2});
  EXPECT_MISUSE(InvalidArgument, ("debug::print", "'{} and {}'", "2 places for 1 values"),
                (debug::print("{} and {}", x), 0));
  EXPECT_MISUSE(InvalidArgument, ("debug::print", "0 places for 1 values"), (debug::print("x", x), 0));
  EXPECT_MISUSE(InvalidArgument, ("debug::print", "'x: {:3}'", "single '{'"), (debug::print("x: {:3}", x), 0));
  EXPECT_MISUSE(InvalidArgument, ("debug::print", "'50} {}'", "single '}'"), (debug::print("50} {}", x), 0));
}

TEST(DebugPrintError, IsThrownWhenTheFunctionIsTraced) {
  const unsigned line = __LINE__ + 2;
  const auto f = jit([](const Array& x) {
    debug::print("{}");
    return x;
  });
  EXPECT_MISUSE_AT(line, InvalidArgument, ("debug::print", "1 places for 0 values"), f(ones({2})));
}

TEST(DebugPrintError, ArrayWithoutAValue) {
  EXPECT_MISUSE(InvalidState, ("without a value"), (debug::print("{}", Array()), 0));
  EXPECT_MISUSE(InvalidState, ("without a value"), (debug::inspect_array_sharding(Array(), [](const Sharding&) {}), 0));
}

TEST(PictureError, AsSvgAndHtml) {
  EXPECT_MISUSE(InvalidArgument, ("visualize_sharding", "rank 3"), debug::sharding_svg(ones({2, 2, 2})));
  EXPECT_MISUSE(InvalidArgument, ("visualize_sharding", "rank 0"), debug::sharding_html(ones({})));
  EXPECT_MISUSE(IndivisibleError, ("dimension 0", "7"), debug::sharding_svg({7}, NamedSharding(mesh_8(), P("i"))));
  EXPECT_MISUSE(InvalidState, ("sharding_html", "being traced"), jit([](const Array& x) {
                  debug::sharding_html(x);
                  return x;
                })(ones({2})));
}

}  // namespace
}  // namespace shoal::test
