#include <cmath>
#include <numbers>

#include "base/caller.h"
#include "base/misuse.h"
#include "frontend/array/promotion.h"
#include "shoal/lax.h"
#include "shoal/numpy.h"
#include "shoal/optimizers.h"

namespace shoal::optimizers {

Array Schedule::operator()(const Operand& count) const {
  if (function_) return function_(to_array(count));
  return full({}, value_, {.dtype = float32});
}

Schedule constant_schedule(double value) { return Schedule(value); }

Schedule polynomial_schedule(double init_value, double end_value, double power, std::int64_t transition_steps,
                             std::int64_t transition_begin) {
  if (transition_steps <= 0) return Schedule(init_value);
  const std::int64_t begin = std::max<std::int64_t>(transition_begin, 0);
  return Schedule([=](const Array& count) {
    const Array done = clip(count - begin, 0, transition_steps);
    const Array left = 1.0 - done / transition_steps;
    return (init_value - end_value) * (power == 1 ? left : shoal::power(left, power)) + end_value;
  });
}

Schedule linear_schedule(double init_value, double end_value, std::int64_t transition_steps,
                         std::int64_t transition_begin) {
  return polynomial_schedule(init_value, end_value, 1, transition_steps, transition_begin);
}

Schedule piecewise_constant_schedule(double init_value, std::map<std::int64_t, double> boundaries_and_scales,
                                     SourceLocation where) {
  const Caller caller("piecewise_constant_schedule", where);
  for (const auto& [boundary, factor] : boundaries_and_scales) {
    if (!(factor >= 0))
      throw misuse<InvalidArgument>("the scale at {} is {}, and should not be negative", boundary, factor);
  }
  return Schedule([=](const Array& count) {
    Array value = full({}, init_value, {.dtype = float32});
    for (const auto& [boundary, factor] : boundaries_and_scales) {
      value = shoal::where(less(count, boundary), value, factor * value);
    }
    return value;
  });
}

Schedule exponential_decay(double init_value, std::int64_t transition_steps, double decay_rate,
                           const ExponentialDecayOptions& options) {
  if (transition_steps <= 0 || decay_rate == 0) return Schedule(init_value);
  const std::int64_t begin = std::max<std::int64_t>(options.transition_begin, 0);
  return Schedule([=](const Array& count) {
    const Array since = count - begin;
    Array exponent = since / transition_steps;
    if (options.staircase) exponent = floor(exponent);
    const Array decayed =
        shoal::where(less_equal(since, 0), init_value, init_value * shoal::power(decay_rate, exponent));
    if (!options.end_value) return decayed;
    return decay_rate < 1 ? maximum(decayed, *options.end_value) : minimum(decayed, *options.end_value);
  });
}

Schedule cosine_decay_schedule(double init_value, std::int64_t decay_steps, double alpha, double exponent,
                               SourceLocation where) {
  const Caller caller("cosine_decay_schedule", where);
  if (decay_steps <= 0) throw misuse<InvalidArgument>("decay_steps is {}, and should be positive", decay_steps);
  return Schedule([=](const Array& count) {
    const auto steps = static_cast<double>(decay_steps);
    const Array done = minimum(count.astype(float32), steps);
    const Array cosine = 0.5 * (1.0 + cos(std::numbers::pi * done / steps));
    return init_value * ((1 - alpha) * (exponent == 1 ? cosine : shoal::power(cosine, exponent)) + alpha);
  });
}

Schedule warmup_cosine_decay_schedule(double init_value, double peak_value, std::int64_t warmup_steps,
                                      std::int64_t decay_steps, double end_value, double exponent,
                                      SourceLocation where) {
  const Caller caller("warmup_cosine_decay_schedule", where);
  if (decay_steps <= warmup_steps) {
    throw misuse<InvalidArgument>("decay_steps is {}, and should be above warmup_steps, {}: it counts these, too",
                                  decay_steps, warmup_steps);
  }
  const double alpha = peak_value == 0 ? 0 : end_value / peak_value;
  return join_schedules({linear_schedule(init_value, peak_value, warmup_steps),
                         cosine_decay_schedule(peak_value, decay_steps - warmup_steps, alpha, exponent)},
                        {warmup_steps});
}

Schedule warmup_exponential_decay_schedule(double init_value, double peak_value, std::int64_t warmup_steps,
                                           std::int64_t transition_steps, double decay_rate,
                                           const ExponentialDecayOptions& options) {
  return join_schedules({linear_schedule(init_value, peak_value, warmup_steps),
                         exponential_decay(peak_value, transition_steps, decay_rate, options)},
                        {warmup_steps});
}

Schedule join_schedules(std::vector<Schedule> schedules, std::vector<std::int64_t> boundaries, SourceLocation where) {
  const Caller caller("join_schedules", where);
  if (schedules.size() != boundaries.size() + 1) {
    throw misuse<InvalidArgument>("there are {} schedules and {} boundaries, and should be one schedule more",
                                  schedules.size(), boundaries.size());
  }
  return Schedule([schedules = std::move(schedules), boundaries = std::move(boundaries)](const Array& count) {
    Array value = schedules[0](count);
    for (std::size_t i = 0; i < boundaries.size(); ++i) {
      value = shoal::where(less(count, boundaries[i]), value, schedules[i + 1](count - boundaries[i]));
    }
    return value;
  });
}

}  // namespace shoal::optimizers
