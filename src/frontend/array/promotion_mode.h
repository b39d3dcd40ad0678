// How strict promotion is, as bindings choose it for this process. In C++ it is neither.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/caller.h"
#include "shoal/dtype.h"
#include "shoal/error.h"
#include "shoal/shape.h"

namespace shoal {

/// Whether only numbers of the program are promoted, and these only to the dtype of the array they meet.
void set_strict_promotion(bool strict);

enum class RankPromotion : std::uint8_t { kAllow, kWarn, kRaise };
/// What is said of arrays of unequal rank, none of them 0, that elementwise functions combine.
void set_rank_promotion(RankPromotion mode);

/// Whether integers of 32 bits or fewer stay so together: u32 with a signed integer is i32 then, not i64.
void set_narrow_promotion(bool narrow);

/// Whether numbers of the program that meet no array are f64 and i64, as in JAX while 64-bit types are on.
void set_wide_numbers(bool wide);
bool has_wide_numbers();

/// Two dtypes that a function does not take together while promotion is strict.
class PromotionError : public TypeMismatch {
 public:
  using TypeMismatch::TypeMismatch;
};

/// The dtype of two operands together. Throws PromotionError while promotion is strict.
DtypeAndWeakness promoted_types(DtypeAndWeakness a, DtypeAndWeakness b);

/// Tells, or throws InvalidArgument, as set_rank_promotion says.
void check_ranks(const Shape& a, const Shape& b);

}  // namespace shoal
