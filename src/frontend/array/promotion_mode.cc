#include "frontend/array/promotion_mode.h"

#include <fmt/format.h>

#include <atomic>

#include "base/log.h"
#include "base/misuse.h"

namespace shoal {
namespace {

std::atomic<bool> is_strict = false;
std::atomic<bool> is_narrow = false;
std::atomic<bool> is_wide = false;
std::atomic<RankPromotion> ranks = RankPromotion::kAllow;

// Whether `number` becomes of the dtype that both together have without changing that of the other.
bool gives_way(DtypeAndWeakness number, DtypeAndWeakness other, DtypeAndWeakness both) {
  return number.weak && both.dtype == other.dtype;
}

}  // namespace

void set_strict_promotion(bool strict) { is_strict = strict; }
void set_rank_promotion(RankPromotion mode) { ranks = mode; }
void set_narrow_promotion(bool narrow) { is_narrow = narrow; }
void set_wide_numbers(bool wide) { is_wide = wide; }
bool has_wide_numbers() { return is_wide.load(std::memory_order_relaxed); }

DtypeAndWeakness promoted_types(DtypeAndWeakness a, DtypeAndWeakness b) {
  DtypeAndWeakness both = promote_types(a, b);
  const bool widens = both.dtype == int64 && a.dtype != int64 && b.dtype != int64;
  if (widens && is_narrow.load(std::memory_order_relaxed)) both.dtype = int32;
  if (!is_strict.load(std::memory_order_relaxed) || a.dtype == b.dtype || Caller::is_nested()) return both;
  if (gives_way(a, b, both) || gives_way(b, a, both)) return both;
  throw misuse<PromotionError>(
      "operands of {} and {} are not promoted while jax_numpy_dtype_promotion is 'strict'; convert one with astype",
      name_of(a.dtype), name_of(b.dtype));
}

void check_ranks(const Shape& a, const Shape& b) {
  const RankPromotion mode = ranks.load(std::memory_order_relaxed);
  if (mode == RankPromotion::kAllow || a.size() == b.size() || a.empty() || b.empty() || Caller::is_nested()) return;
  const std::string text = fmt::format("shapes {} and {} have unequal ranks, and jax_numpy_rank_promotion is '{}'",
                                       to_string(a), to_string(b), mode == RankPromotion::kWarn ? "warn" : "raise");
  if (mode == RankPromotion::kRaise) throw misuse<InvalidArgument>("{}; make them equal with reshape", text);
  log_warning(fmt::format("{}: {}", Caller::function_or("promotion"), text));
}

}  // namespace shoal
