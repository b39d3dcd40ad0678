#include "backend/cpu/products/sums.h"

#include <type_traits>

#include "core/dispatch.h"
#include "ops/reduction.h"

namespace shoal::cpu {
namespace {

Arithmetic arithmetic_of(Dtype operands, Dtype out) {
  const auto of_integers = [](Dtype dtype) {
    if (dtype == Dtype::kBool) return Arithmetic::kBool;
    return size_of(dtype) == 8 ? Arithmetic::kI64 : Arithmetic::kI32;
  };
  const bool integers = is_integer(operands) || operands == Dtype::kBool;
  const bool to_integers = is_integer(out) || out == Dtype::kBool;
  if (integers) return of_integers(to_integers ? out : operands);
  if (is_complex(operands)) {
    return operands == Dtype::kC128 || out == Dtype::kC128 ? Arithmetic::kC128 : Arithmetic::kC64;
  }
  const bool small = operands != Dtype::kF64 && out != Dtype::kF64 && out != Dtype::kC128 && !to_integers;
  return small ? Arithmetic::kF32 : Arithmetic::kF64;
}

}  // namespace

ProductTypes::ProductTypes(Dtype operands_dtype, Dtype out_dtype)
    : operands(operands_dtype), out(out_dtype), arithmetic(arithmetic_of(operands, out)) {}

std::int64_t ProductTypes::sum_size() const {
  return with_arithmetic_type(arithmetic, [](auto sum) { return static_cast<std::int64_t>(sizeof(sum)); });
}

bool ProductTypes::sums_are_results() const {
  switch (arithmetic) {
    case Arithmetic::kF32:
      return out == Dtype::kF32;
    case Arithmetic::kF64:
      return out == Dtype::kF64;
    case Arithmetic::kI32:
      return out == Dtype::kI32 || out == Dtype::kU32;
    case Arithmetic::kI64:
      return out == Dtype::kI64 || out == Dtype::kU64;
    case Arithmetic::kC64:
      return out == Dtype::kC64;
    case Arithmetic::kC128:
      return out == Dtype::kC128;
    case Arithmetic::kBool:
      break;
  }
  return false;
}

void store_sums(const ProductTypes& types, const std::byte* sums, std::int64_t sums_stride, std::int64_t rows,
                std::int64_t columns, std::byte* to, std::int64_t to_stride) {
  const auto each = [&](auto sum_tag, auto out_tag, auto&& store_row) {
    for (std::int64_t i = 0; i < rows; ++i) {
      store_row(reinterpret_cast<const decltype(sum_tag)*>(sums) + i * sums_stride,
                reinterpret_cast<decltype(out_tag)*>(to) + i * to_stride);
    }
  };
  with_arithmetic_type(types.arithmetic, [&](auto sum_tag) {
    using Sum = decltype(sum_tag);
    with_element_type(types.out, [&](auto out_tag) {
      using Out = decltype(out_tag);
      if constexpr (std::is_same_v<Sum, float> && kIsSmallFloat<Out>) {
        each(sum_tag, out_tag, [&](const Sum* from, Out* row) { convert(from, columns, row); });
      } else if constexpr (std::is_integral_v<Sum> && !std::is_integral_v<Out>) {
        // Wrapped in the operands' dtype first.
        with_element_type(types.operands, [&](auto tag) {
          using T = decltype(tag);
          if constexpr (std::is_integral_v<T>) {
            each(sum_tag, out_tag, [&](const Sum* from, Out* row) {
              for (std::int64_t j = 0; j < columns; ++j) row[j] = from_accumulator<Out>(static_cast<T>(from[j]));
            });
          }
        });
      } else {
        each(sum_tag, out_tag, [&](const Sum* from, Out* row) {
          for (std::int64_t j = 0; j < columns; ++j) row[j] = from_accumulator<Out>(from[j]);
        });
      }
    });
  });
}

void add_sums(Arithmetic arithmetic, const std::byte* from, std::int64_t n, std::byte* to) {
  with_arithmetic_type(arithmetic, [&](auto tag) {
    using Sum = decltype(tag);
    const Sum* x = reinterpret_cast<const Sum*>(from);
    Sum* y = reinterpret_cast<Sum*>(to);
    if constexpr (std::is_same_v<Sum, std::uint32_t>) {
      if (arithmetic == Arithmetic::kBool) {
        for (std::int64_t i = 0; i < n; ++i) y[i] |= x[i];
        return;
      }
    }
    for (std::int64_t i = 0; i < n; ++i) y[i] += x[i];
  });
}

}  // namespace shoal::cpu
