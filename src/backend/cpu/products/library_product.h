// Products that a library computes: OpenBLAS, or oneDNN for many small products in f32 and for the small dtypes, where
// the machine has instructions for them.
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

  /// Whether tiles computed as one have the bits they have one by one, `even` ones being multiples of kTileUnit in both
  /// directions.
  bool tiles_agree(bool even) const;

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
  static Library library_for(const ProductTypes& types, std::int64_t rows, std::int64_t columns, std::int64_t inner,
                             std::int64_t work);
  bool multiply_by_onednn(const std::byte* lhs, const std::byte* rhs, const ProductPart& part, std::byte* out,
                          std::int64_t out_stride) const;
  void multiply_by_blas(const std::byte* lhs, const std::byte* rhs, const ProductPart& part, std::byte* out,
                        std::int64_t out_stride) const;

  Library library_;
  ProductTypes types_;
  LibraryMatrix lhs_{};
  LibraryMatrix rhs_{};       // Its rows are what is summed over.
  bool has_one_row_ = false;  // The whole product, not a part of it.
  bool has_one_column_ = false;
};

}  // namespace shoal::cpu
