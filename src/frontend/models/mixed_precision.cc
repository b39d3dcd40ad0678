#include "shoal/mixed_precision.h"

#include <cmath>

#include "base/caller.h"
#include "base/misuse.h"
#include "frontend/array/promotion.h"
#include "shoal/numpy.h"

namespace shoal::mixed_precision {

LossScale loss_scale(double initial, SourceLocation where) {
  const Caller caller("loss_scale", where);
  if (!(initial > 0) || std::isinf(initial)) {
    throw misuse<InvalidArgument>("the scale is {}, and should be positive and finite", initial);
  }
  return {full({}, initial, {.dtype = float32}), zeros({}, {.dtype = int32})};
}

Array scale_loss(const Operand& loss, const LossScale& scale) {
  const Caller caller("scale_loss", loss.where());
  const Array value = to_array(loss);
  return value * scale.scale.astype(value.dtype());
}

LossScale adjust(const LossScale& scale, const Operand& is_finite, const AdjustOptions& options, SourceLocation where) {
  const Caller caller("adjust", where);
  if (options.period < 1) throw misuse<InvalidArgument>("the period is {}, and should be positive", options.period);
  if (!(options.factor > 1)) throw misuse<InvalidArgument>("the factor is {}, and should be above 1", options.factor);
  const Array steps = scale.finite_steps + 1;
  const Array grows = greater_equal(steps, options.period);
  // A scale that would overflow stays.
  const Array more = scale.scale * options.factor;
  const Array grown = shoal::where(isfinite(more), more, scale.scale);
  const Array shrunk = maximum(scale.scale / options.factor, options.least);
  const Array ok = to_array(is_finite);
  return {shoal::where(ok, shoal::where(grows, grown, scale.scale), shrunk),
          shoal::where(logical_or(logical_not(ok), grows), 0, steps)};
}

Array all_finite_leaves(const std::vector<Array>& arrays, SourceLocation where) {
  const Caller caller("all_finite", where);
  Array made = ones({}, {.dtype = bool_});
  for (const Array& array : arrays) {
    if (is_floating(array.dtype()) || is_complex(array.dtype())) made = logical_and(made, isfinite(array).all());
  }
  return made;
}

}  // namespace shoal::mixed_precision
