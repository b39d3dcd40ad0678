// Elements of operands as the numbers in which products of them are summed.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "backend/cpu/products/product_kernels.h"
#include "core/dispatch.h"

namespace shoal::cpu {

/// Whether products of elements of T may be summed in C.
template <class C, class T>
constexpr bool kIsSummedIn = kIsComplexElement<T>          ? kIsComplexElement<C> && sizeof(T) <= sizeof(C)
                             : std::is_integral_v<T>       ? std::is_integral_v<C>
                             : std::is_floating_point_v<C> ? sizeof(T) <= sizeof(C)
                                                           : false;

/// An element as a number of C. kTruth: as 0 or 1.
template <class C, bool kTruth, class T>
C as_summed(T from) {
  if constexpr (kTruth) {
    return from != T{} ? C{1} : C{0};
  } else if constexpr (kIsSmallFloat<T>) {
    return static_cast<C>(static_cast<float>(from));
  } else {
    return static_cast<C>(from);
  }
}

/// Calls f(element of the operands, sum, whether sums count what is true). Throws InternalError for operands that are
/// not summed in this arithmetic.
template <class F>
void with_summed_types(Arithmetic arithmetic, Dtype operands, F&& f) {
  with_arithmetic_type(arithmetic, [&]<class C>(C) {
    with_element_type(operands, [&]<class T>(T) {
      if constexpr (kIsSummedIn<C, T>) {
        if constexpr (std::same_as<C, std::uint32_t>) {
          if (arithmetic == Arithmetic::kBool) return f(T{}, C{}, std::true_type{});
        }
        f(T{}, C{}, std::false_type{});
      } else {
        throw InternalError("a product of this dtype is not computed in this arithmetic");
      }
    });
  });
}

}  // namespace shoal::cpu
