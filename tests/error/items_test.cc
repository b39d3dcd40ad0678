// Mistakes with arrays as indices, with updates, and with functions of order and position.
#include <vector>

#include "misuse.h"

namespace shoal::test {
namespace {

// ---- Indices.

TEST(ArrayIndexError, Dtypes) {
  const Array x = ones({4, 3});
  EXPECT_MISUSE(TypeMismatch, ("index", "integers", "float32[2]", "astype"), x[ones({2})]);
  EXPECT_MISUSE(TypeMismatch, ("set", "integers", "complex64"), x.at(zeros({2}, {.dtype = complex64})).set(0));
}

TEST(ArrayIndexError, ShapesThatDoNotBroadcast) {
  const Array x = ones({4, 3});
  EXPECT_MISUSE(InvalidArgument, ("index", "(2,)", "(3,)"), x[{arange(2), arange(3)}]);
  EXPECT_MISUSE(OutOfRange, ("3 entries", "float32[4,3]"), x[{arange(2), 0, arange(2)}]);
}

TEST(ArrayIndexError, Masks) {
  const Array x = ones({4, 3});
  EXPECT_MISUSE(OutOfRange, ("boolean index bool[3]", "float32[4,3]", "from 0 on"), x[arange(3) > 0]);
  EXPECT_MISUSE(OutOfRange, ("boolean index bool[4]", "from 1 on"), x[{0, arange(4) > 0}]);
  EXPECT_MISUSE(OutOfRange, ("boolean index bool[3]"), x.at(arange(3) > 0).set(0));
}

TEST(ArrayIndexError, MasksThatAreTraced) {
  const Array x = ones({4});
  const auto read = jit([](const Array& a) { return a[a > 0]; });
  EXPECT_MISUSE_AT(__LINE__ - 1, InvalidState, ("boolean index bool[4]", "while tracing", "where(mask"), read(x));
  const auto write = jit([](const Array& a) { return a.at(a > 0).set(ones({4})); });
  EXPECT_MISUSE_AT(__LINE__ - 1, InvalidState, ("boolean index bool[4]", "while tracing"), write(x));
  const auto choose = jit([](const Array& a) { return a[a.sum() > 0]; });
  EXPECT_MISUSE_AT(__LINE__ - 1, InvalidState, ("boolean index bool[1]", "while tracing"), choose(x));
}

TEST(ArrayIndexError, NothingToTake) {
  const Array nothing = zeros({0, 3});
  EXPECT_MISUSE(OutOfRange, ("index", "dimension 0", "float32[0,3]", "no element"), nothing[arange(2)]);
  EXPECT_MISUSE(OutOfRange, ("take", "dimension 0", "no element"),
                take(nothing, arange(2), {.axis = 0, .mode = IndexMode::kClip}));
  EXPECT_MISUSE(OutOfRange, ("take_along_axis", "no element"),
                take_along_axis(zeros({0}), arange(2), 0, {.mode = IndexMode::kClip}));
}

TEST(ArrayIndexError, ArraysWithoutAValue) {
  EXPECT_MISUSE(InvalidState, ("index", "without a value"), ones({3})[Array()]);
  EXPECT_MISUSE(InvalidState, ("set", "without a value"), Array().at(0).set(1));
}

// ---- Updates.

TEST(UpdateError, ValuesOfAnotherShape) {
  const Array x = ones({4, 3});
  EXPECT_MISUSE(InvalidArgument, ("set", "float32[2,3]", "(3,)"), x.at(0).set(ones({2, 3})));
  EXPECT_MISUSE(InvalidArgument, ("set", "(2,)", "(3,)"), x.at(0).set(ones({2})));
  EXPECT_MISUSE(InvalidArgument, ("add", "(4,)", "(2, 3)"), x.at(array({0, 1})).add(ones({4})));
  EXPECT_MISUSE(InvalidArgument, ("apply", "float32[3]"), x.at(0, 0).apply([](const Array&) { return ones({3}); }));
}

TEST(UpdateError, ValuesThatDoNotFitTheDtype) {
  const Array counts = zeros({3}, {.dtype = int8});
  EXPECT_MISUSE(TypeMismatch, ("set", "int8", "float32", "astype"), counts.at(0).set(2.5));
  EXPECT_MISUSE(TypeMismatch, ("add", "int8", "int32"), counts.at(0).add(arange(1)));
  EXPECT_MISUSE(TypeMismatch, ("max", "float32", "complex64"), ones({3}).at(0).max(zeros({}, {.dtype = complex64})));
  EXPECT_MISUSE(OutOfRange, ("set", "300", "int8"), counts.at(0).set(300));
  EXPECT_MISUSE(TypeMismatch, ("get", "int8", "float32"),
                counts.at(array({5})).get({.mode = IndexMode::kFill, .fill_value = 0.5}));
}

TEST(UpdateError, DtypesThatAnUpdateDoesNotTake) {
  const Array flags = ones({3}, {.dtype = bool_});
  const Array z = zeros({3}, {.dtype = complex64});
  EXPECT_MISUSE(TypeMismatch, ("subtract", "bool"), flags.at(0).subtract(true));
  EXPECT_MISUSE(TypeMismatch, ("power", "bool"), flags.at(0).power(true));
  EXPECT_MISUSE(TypeMismatch, ("min", "complex64"), z.at(0).min(1));
  EXPECT_MISUSE(TypeMismatch, ("max", "complex64"), z.at(0).max(1));
}

TEST(UpdateError, PositionsOutsideTheArray) {
  const Array x = ones({4, 3});
  EXPECT_MISUSE(OutOfRange, ("index 4", "dimension 0", "extent 4"), x.at(4).set(0));
  EXPECT_MISUSE(OutOfRange, ("index -4", "dimension 1", "extent 3"), x.at(0, -4).add(1));
}

// ---- Items by position.

TEST(TakeError, Arguments) {
  const Array x = ones({4, 3});
  EXPECT_MISUSE(OutOfRange, ("take", "axis 2", "2 dimensions"), take(x, arange(2), {.axis = 2}));
  EXPECT_MISUSE(TypeMismatch, ("take", "integers", "float32[2]"), take(x, ones({2})));
  EXPECT_MISUSE(InvalidArgument, ("take_along_axis", "as many dimensions"), take_along_axis(x, arange(2), 0));
  EXPECT_MISUSE(InvalidArgument, ("take_along_axis", "broadcast"),
                take_along_axis(x, zeros({2, 2}, {.dtype = int32}), 0));
  EXPECT_MISUSE(InvalidArgument, ("put_along_axis", "(4,)", "(2, 3)"),
                put_along_axis(x, zeros({2, 3}, {.dtype = int32}), ones({4}), 0));
  EXPECT_MISUSE(TypeMismatch, ("put_along_axis", "float32", "complex64"),
                put_along_axis(x, zeros({4, 1}, {.dtype = int32}), zeros({}, {.dtype = complex64}), 1));
}

// ---- Windows.

TEST(WindowError, Gather) {
  const Array x = ones({4, 3});
  const Array at = zeros({2, 1}, {.dtype = int32});
  const lax::GatherDimensionNumbers rows{.offset_dims = {1}, .collapsed_slice_dims = {0}, .start_index_map = {0}};
  EXPECT_MISUSE(InvalidArgument, ("gather", "last dimension"), lax::gather(x, 0, rows, {1, 3}));
  EXPECT_MISUSE(InvalidArgument, ("gather", "int32[2,2]", "extent 1", "start_index_map"),
                lax::gather(x, zeros({2, 2}, {.dtype = int32}), rows, {1, 3}));
  EXPECT_MISUSE(InvalidArgument, ("gather", "window size 4", "dimension 1", "float32[4,3]"),
                lax::gather(x, at, rows, {1, 4}));
  EXPECT_MISUSE(InvalidArgument, ("gather", "window size 2", "dimension 0", "lack"), lax::gather(x, at, rows, {2, 3}));
  EXPECT_MISUSE(InvalidArgument, ("gather", "(1,)", "one entry for each dimension"), lax::gather(x, at, rows, {1}));
  EXPECT_MISUSE(TypeMismatch, ("gather", "integers", "float32[2]"), lax::gather(x, ones({2, 1}), rows, {1, 3}));
  EXPECT_MISUSE(InvalidArgument, ("gather", "offset_dims ()", "1 that windows have"),
                lax::gather(x, at, {.collapsed_slice_dims = {0}, .start_index_map = {0}}, {1, 3}));
  EXPECT_MISUSE(InvalidArgument, ("gather", "offset_dims (2,)", "below 2"),
                lax::gather(x, at, {.offset_dims = {2}, .collapsed_slice_dims = {0}, .start_index_map = {0}}, {1, 3}));
  EXPECT_MISUSE(InvalidArgument, ("gather", "start_index_map (2,)", "below 2"),
                lax::gather(x, at, {.offset_dims = {1}, .collapsed_slice_dims = {0}, .start_index_map = {2}}, {1, 3}));
  EXPECT_MISUSE(InvalidArgument, ("gather", "as many batching dimensions"),
                lax::gather(x, at, {.offset_dims = {}, .start_index_map = {0}, .operand_batching_dims = {1}}, {1, 1}));
}

TEST(WindowError, Scatter) {
  const Array x = ones({4, 3});
  const Array at = zeros({2, 1}, {.dtype = int32});
  const lax::ScatterDimensionNumbers rows{
      .update_window_dims = {1}, .inserted_window_dims = {0}, .scatter_dims_to_operand_dims = {0}};
  EXPECT_MISUSE(InvalidArgument, ("scatter", "updates float32[3,3]", "(2, 3)"),
                lax::scatter(x, at, ones({3, 3}), rows));
  EXPECT_MISUSE(Unsupported, ("scatter_add", "take 2 of dimension 1", "no starting position"),
                lax::scatter_add(x, at, ones({2, 2}), rows));
  EXPECT_MISUSE(TypeMismatch, ("scatter_max", "float32", "complex64"),
                lax::scatter_max(x, at, zeros({2, 3}, {.dtype = complex64}), rows));
}

// ---- Order.

TEST(OrderError, Axes) {
  const Array x = ones({4, 3});
  EXPECT_MISUSE(OutOfRange, ("sort", "axis 2", "2 dimensions"), sort(x, {.axis = 2}));
  EXPECT_MISUSE(OutOfRange, ("argsort", "axis -3"), argsort(x, {.axis = -3}));
  EXPECT_MISUSE(OutOfRange, ("sort", "axis -1", "0 dimensions"), sort(1.0));
  EXPECT_MISUSE(OutOfRange, ("lexsort", "axis 2"), lexsort({x}, 2));
  EXPECT_MISUSE(OutOfRange, ("argmax", "axis 2"), argmax(x, {.axis = 2}));
  EXPECT_MISUSE(OutOfRange, ("cumsum", "axis 2"), cumsum(x, {.axis = 2}));
  EXPECT_MISUSE(OutOfRange, ("cummax", "axis -3"), lax::cummax(x, -3));
  EXPECT_MISUSE(OutOfRange, ("top_k", "axis 2"), lax::top_k(x, 1, 2));
}

TEST(OrderError, Operands) {
  const Array x = ones({4, 3});
  EXPECT_MISUSE(InvalidArgument, ("lexsort", "one shape", "float32[4,3]", "float32[4]"), lexsort({x, ones({4})}));
  EXPECT_MISUSE(InvalidArgument, ("lexsort", "at least one key"), lexsort({}));
  EXPECT_MISUSE(InvalidArgument, ("sort", "one shape"), lax::sort({x, ones({4})}));
  EXPECT_MISUSE(InvalidArgument, ("sort", "num_keys is 3", "1 to 2"), lax::sort({x, x}, {.num_keys = 3}));
  EXPECT_MISUSE(InvalidArgument, ("sort", "at least one operand"), lax::sort({}));
  EXPECT_MISUSE(InvalidArgument, ("top_k", "k is 4", "0 to 3"), lax::top_k(x, 4));
  EXPECT_MISUSE(InvalidArgument, ("top_k", "k is -1"), lax::top_k(x, -1));
  EXPECT_MISUSE(InvalidArgument, ("searchsorted", "vector", "float32[4,3]"), searchsorted(x, 1));
}

TEST(OrderError, ComplexNumbersHaveNoOrder) {
  const Array z = zeros({3}, {.dtype = complex64});
  EXPECT_MISUSE(TypeMismatch, ("argmax", "complex"), argmax(z));
  EXPECT_MISUSE(TypeMismatch, ("cummin", "complex"), lax::cummin(z));
  EXPECT_MISUSE(TypeMismatch, ("top_k", "complex"), lax::top_k(z, 1));
  EXPECT_MISUSE(TypeMismatch, ("cumlogsumexp", "floats", "complex64"), lax::cumlogsumexp(z));
  EXPECT_MISUSE(TypeMismatch, ("segment_max", "complex"), ops::segment_max(z, array({0, 0, 1}), 2));
}

TEST(OrderError, NothingToChooseFrom) {
  EXPECT_MISUSE(InvalidArgument, ("argmax", "no elements"), argmax(zeros({0})));
  EXPECT_MISUSE(InvalidArgument, ("argmin", "axis 1", "float32[2,0]"), argmin(zeros({2, 0}), {.axis = 1}));
}

// ---- Counting.

TEST(CountError, ExtentsThatDependOnTracedValues) {
  const Array x = arange(4);
  const auto positions = jit([](const Array& a) { return nonzero(a)[0]; });
  EXPECT_MISUSE_AT(__LINE__ - 1, InvalidState, ("nonzero", "while tracing", "size"), positions(x));
  const auto bins = jit([](const Array& a) { return bincount(a); });
  EXPECT_MISUSE_AT(__LINE__ - 1, InvalidState, ("bincount", "while tracing", "length"), bins(x));
  const auto sums = jit([](const Array& a) { return ops::segment_sum(a, a); });
  EXPECT_MISUSE_AT(__LINE__ - 1, InvalidState, ("segment_sum", "while tracing", "num_segments"), sums(x));
}

TEST(CountError, Arguments) {
  EXPECT_MISUSE(InvalidArgument, ("nonzero", "scalar"), nonzero(1));
  EXPECT_MISUSE(InvalidArgument, ("nonzero", "size is -1"), nonzero(arange(3), {.size = -1}));
  EXPECT_MISUSE(TypeMismatch, ("bincount", "integers", "float32[3]"), bincount(ones({3})));
  EXPECT_MISUSE(InvalidArgument, ("bincount", "float32[2]", "int32[3]"), bincount(arange(3), {.weights = ones({2})}));
  EXPECT_MISUSE(InvalidArgument, ("bincount", "length is -2"), bincount(arange(3), {.length = -2}));
  EXPECT_MISUSE(InvalidArgument, ("segment_sum", "int32[2]", "float32[3]"), ops::segment_sum(ones({3}), arange(2), 2));
  EXPECT_MISUSE(TypeMismatch, ("segment_sum", "integers"), ops::segment_sum(ones({3}), ones({3}), 2));
  EXPECT_MISUSE(InvalidArgument, ("segment_min", "num_segments is -1"), ops::segment_min(ones({3}), arange(3), -1));
}

}  // namespace
}  // namespace shoal::test
