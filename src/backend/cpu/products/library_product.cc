#include "backend/cpu/products/library_product.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace shoal::cpu {
namespace {

// Fewer multiplications are done before a library is loaded.
constexpr std::int64_t kLeastForLibrary = 1 << 14;
constexpr std::int64_t kMostInt = std::numeric_limits<std::int32_t>::max();

// Of two and more dimensions all but the last become batches, if the last is long enough for a matrix of its own.
void keep_last(ProductAxes& axes, ProductAxes& batch) {
  constexpr std::int64_t kLongEnough = 16;
  if (axes.size() < 2 || axes.back().extent < kLongEnough) return;
  batch.insert(batch.end(), axes.begin(), axes.end() - 1);
  axes.erase(axes.begin(), axes.end() - 1);
}

// `outer` and `inner` are the strides along the indices that the result keeps and that are summed over.
std::optional<LibraryMatrix> matrix_of(std::int64_t outer_extent, std::int64_t outer, std::int64_t inner_extent,
                                       std::int64_t inner) {
  if (outer_extent > kMostInt || inner_extent > kMostInt || outer > kMostInt || inner > kMostInt) return std::nullopt;
  if (inner_extent == 1 || inner == 1) {
    return LibraryMatrix{std::max(outer_extent == 1 ? 1 : outer, inner_extent), false};
  }
  if (outer_extent == 1 || outer == 1) return LibraryMatrix{std::max(inner, outer_extent), true};
  return std::nullopt;
}

// The first element of a part of a matrix.
const std::byte* element(const std::byte* data, const LibraryMatrix& matrix, std::int64_t row, std::int64_t column,
                         Dtype dtype) {
  const std::int64_t at = matrix.transposed ? column * matrix.stride + row : row * matrix.stride + column;
  return data + at * static_cast<std::int64_t>(size_of(dtype));
}

std::int32_t whole(std::int64_t n) { return static_cast<std::int32_t>(n); }

template <class T>
BlasMatrix<const T> blas_matrix(const std::byte* data, const LibraryMatrix& matrix) {
  return {reinterpret_cast<const T*>(data), whole(matrix.stride), matrix.transposed};
}

}  // namespace

std::optional<LibraryProduct> LibraryProduct::of(Product& product, const ProductTypes& types) {
  const std::int64_t work =
      extent_of(product.batch) * extent_of(product.rows) * extent_of(product.columns) * extent_of(product.inner);
  if (work < kLeastForLibrary || extent_of(product.columns) > kMostInt) return std::nullopt;
  Product taken = product;
  keep_last(taken.rows, taken.batch);
  keep_last(taken.columns, taken.batch);
  if (taken.rows.size() > 1 || taken.columns.size() > 1 || taken.inner.size() > 1) return std::nullopt;
  const auto only = [](const ProductAxes& axes) { return axes.empty() ? ProductAxis{1, 1, 1, 1} : axes[0]; };
  const ProductAxis rows = only(taken.rows);
  const ProductAxis columns = only(taken.columns);
  const ProductAxis inner = only(taken.inner);
  const auto lhs = matrix_of(rows.extent, rows.lhs, inner.extent, inner.lhs);
  const auto rhs = matrix_of(columns.extent, columns.rhs, inner.extent, inner.rhs);
  if (!lhs || !rhs) return std::nullopt;
  const Library library = library_for(types, rows.extent == 1 || columns.extent == 1);
  if (library.blas == nullptr && library.onednn == nullptr) return std::nullopt;
  product = std::move(taken);
  LibraryProduct result(library, types);
  result.lhs_ = *lhs;
  result.rhs_ = {rhs->stride, !rhs->transposed};
  result.has_one_column_ = columns.extent == 1;
  return result;
}

LibraryProduct::Library LibraryProduct::library_for(const ProductTypes& types, bool has_vector) {
  if (types.operands == types.out && (types.out == Dtype::kF32 || types.out == Dtype::kF64)) {
    return {.blas = has_vector ? blas() : nullptr};
  }
  const bool may = types.operands == Dtype::kBF16 || types.operands == Dtype::kI8 || types.operands == Dtype::kU8;
  const bool in_32 = types.arithmetic == Arithmetic::kF32 || types.arithmetic == Arithmetic::kI32;
  return {.onednn = may && in_32 ? onednn_for(types.operands) : nullptr};
}

bool LibraryProduct::multiply(const std::byte* lhs, const std::byte* rhs, const ProductPart& part, std::byte* out,
                              std::int64_t out_stride) const {
  lhs = element(lhs, lhs_, part.rows.begin, part.inner.begin, types_.operands);
  rhs = element(rhs, rhs_, part.inner.begin, part.columns.begin, types_.operands);
  if (library_.onednn != nullptr) return multiply_by_onednn(lhs, rhs, part, out, out_stride);
  multiply_by_gemv(lhs, rhs, part, out, out_stride);
  return true;
}

bool LibraryProduct::multiply_by_onednn(const std::byte* lhs, const std::byte* rhs, const ProductPart& part,
                                        std::byte* out, std::int64_t out_stride) const {
  const auto along = [](const LibraryMatrix& matrix, bool row) { return row != matrix.transposed ? matrix.stride : 1; };
  const void* code = library_.onednn->prepare({.operands = types_.operands,
                                               .out = types_.arithmetic == Arithmetic::kF32 ? Dtype::kF32 : Dtype::kI32,
                                               .rows = part.rows.size(),
                                               .columns = part.columns.size(),
                                               .inner = part.inner.size(),
                                               .lhs_row_stride = along(lhs_, true),
                                               .lhs_inner_stride = along(lhs_, false),
                                               .rhs_inner_stride = along(rhs_, true),
                                               .rhs_column_stride = along(rhs_, false),
                                               .out_stride = out_stride});
  if (code != nullptr) library_.onednn->run(code, lhs, rhs, out);
  return code != nullptr;
}

void LibraryProduct::multiply_by_gemv(const std::byte* lhs, const std::byte* rhs, const ProductPart& part,
                                      std::byte* out, std::int64_t out_stride) const {
  const auto with = [&]<class T>(BlasApi::Gemv<T> gemv) {
    const BlasMatrix<const T> left = blas_matrix<T>(lhs, lhs_);
    const BlasMatrix<const T> right = blas_matrix<T>(rhs, rhs_);
    T* to = reinterpret_cast<T*>(out);
    const BlasSize size{whole(part.rows.size()), whole(part.columns.size()), whole(part.inner.size())};
    if (has_one_column_) {
      for (std::int64_t i = 0; i < part.rows.size(); ++i) to[i * out_stride] = T{};
      gemv(size, left, {right.data, right.transposed ? 1 : right.stride}, {to, whole(out_stride)});
    } else {
      // The transposed product.
      std::fill_n(to, part.columns.size(), T{});
      gemv({size.columns, 1, size.inner}, {right.data, right.stride, !right.transposed},
           {left.data, left.transposed ? left.stride : 1}, {to, 1});
    }
  };
  if (types_.out == Dtype::kF32) {
    with.template operator()<float>(library_.blas->sgemv);
  } else {
    with.template operator()<double>(library_.blas->dgemv);
  }
}

}  // namespace shoal::cpu
