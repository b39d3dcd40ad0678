// Products that a library computes: oneDNN those of small dtypes, where the machine has instructions for them, and
// OpenBLAS those of a matrix and a vector.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "backend/cpu/products/blocked_product.h"
#include "backend/cpu/products/libraries.h"
#include "backend/cpu/products/product.h"
#include "backend/cpu/products/sums.h"

namespace shoal::cpu {

/// A matrix as a library takes it: the elements of its rows are adjacent, or those of its columns.
struct LibraryMatrix {
  std::int64_t stride;  ///< Elements from a row to the next, or from a column.
  bool transposed;      ///< Whether it is the columns.
};

class LibraryProduct {
 public:
  /// Nothing if no library takes the product: its operands are no matrices, it is too small to load a library for, or
  /// the library is not there. Else some of its dimensions may have become batches: `product` is what a library takes.
  static std::optional<LibraryProduct> of(Product& product, const ProductTypes& types);

  /// Writes a part of the product to `out`: sums, `out_stride` of them from a row to the next. `lhs` and `rhs` are the
  /// first elements of the matrices that are multiplied. False, with nothing done, if the library has no code for it.
  bool multiply(const std::byte* lhs, const std::byte* rhs, const ProductPart& part, std::byte* out,
                std::int64_t out_stride) const;

 private:
  // One of them computes it.
  struct Library {
    const BlasApi* blas = nullptr;
    const OnednnApi* onednn = nullptr;
  };

  LibraryProduct(Library library, const ProductTypes& types) : library_(library), types_(types) {}
  static Library library_for(const ProductTypes& types, bool has_vector);
  bool multiply_by_onednn(const std::byte* lhs, const std::byte* rhs, const ProductPart& part, std::byte* out,
                          std::int64_t out_stride) const;
  void multiply_by_gemv(const std::byte* lhs, const std::byte* rhs, const ProductPart& part, std::byte* out,
                        std::int64_t out_stride) const;

  Library library_;
  ProductTypes types_;
  LibraryMatrix lhs_{};
  LibraryMatrix rhs_{};          // Its rows are what is summed over.
  bool has_one_column_ = false;  // The whole product, not a part of it.
};

}  // namespace shoal::cpu
