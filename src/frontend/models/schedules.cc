#include <cmath>
#include <functional>
#include <numbers>

#include "base/caller.h"
#include "base/misuse.h"
#include "frontend/array/promotion.h"
#include "shoal/lax.h"
#include "shoal/numpy.h"
#include "shoal/optimizers.h"

namespace shoal::optimizers {

namespace {

// The number as an f32 scalar, or the array.
Array scalar(const Number& x) { return x.constant() ? full({}, x, {.dtype = float32}) : to_array(x); }

// What f makes of numbers if all are, and of arrays else.
template <class F>
Number combined(F&& f, const Number& a, const Number& b) {
  if (a.constant() && b.constant()) return f(*a.constant(), *b.constant());
  return f(to_array(a), to_array(b));
}

Number difference(const Number& a, const Number& b) { return combined(std::minus<>(), a, b); }

bool is(const Number& x, double value) { return x.constant() == value; }

}  // namespace

std::optional<double> Number::constant() const {
  const double* value = std::get_if<double>(&value_);
  return value == nullptr ? std::nullopt : std::optional<double>(*value);
}

Number::operator Operand() const {
  return std::visit([](const auto& value) { return Operand(value); }, value_);
}

Array Schedule::operator()(const Operand& count) const {
  return function_ ? function_(to_array(count)) : scalar(value_);
}

Schedule constant_schedule(const Number& value) { return Schedule(value); }

Schedule polynomial_schedule(const Number& init_value, const Number& end_value, const Number& power,
                             std::int64_t transition_steps, std::int64_t transition_begin) {
  if (transition_steps <= 0) return Schedule(init_value);
  const std::int64_t begin = std::max<std::int64_t>(transition_begin, 0);
  return Schedule([=](const Array& count) {
    const Array done = clip(count - begin, 0, transition_steps);
    const Array left = 1.0 - done / transition_steps;
    return difference(init_value, end_value) * (is(power, 1) ? left : shoal::power(left, power)) + end_value;
  });
}

Schedule linear_schedule(const Number& init_value, const Number& end_value, std::int64_t transition_steps,
                         std::int64_t transition_begin) {
  return polynomial_schedule(init_value, end_value, 1, transition_steps, transition_begin);
}

Schedule piecewise_constant_schedule(const Number& init_value, std::map<std::int64_t, Number> boundaries_and_scales,
                                     SourceLocation where) {
  const Caller caller("piecewise_constant_schedule", where);
  for (const auto& [boundary, factor] : boundaries_and_scales) {
    const double scale = factor.constant().value_or(1);
    if (!(scale >= 0)) {
      throw misuse<InvalidArgument>("the scale at {} is {}, and should not be negative", boundary, scale);
    }
  }
  return Schedule([=](const Array& count) {
    Array value = scalar(init_value);
    for (const auto& [boundary, factor] : boundaries_and_scales) {
      value = shoal::where(less(count, boundary), value, factor * value);
    }
    return value;
  });
}

Schedule exponential_decay(const Number& init_value, std::int64_t transition_steps, const Number& decay_rate,
                           const ExponentialDecayOptions& options) {
  if (transition_steps <= 0 || is(decay_rate, 0)) return Schedule(init_value);
  const std::int64_t begin = std::max<std::int64_t>(options.transition_begin, 0);
  return Schedule([=](const Array& count) {
    const Array since = count - begin;
    Array exponent = since / transition_steps;
    if (options.staircase) exponent = floor(exponent);
    const Array decayed =
        shoal::where(less_equal(since, 0), init_value, init_value * shoal::power(decay_rate, exponent));
    if (!options.end_value) return decayed;
    const Number& end = *options.end_value;
    if (const auto rate = decay_rate.constant()) return *rate < 1 ? maximum(decayed, end) : minimum(decayed, end);
    return shoal::where(less(decay_rate, 1), maximum(decayed, end), minimum(decayed, end));
  });
}

Schedule cosine_decay_schedule(const Number& init_value, std::int64_t decay_steps, const Number& alpha,
                               const Number& exponent, SourceLocation where) {
  const Caller caller("cosine_decay_schedule", where);
  if (decay_steps <= 0) throw misuse<InvalidArgument>("decay_steps is {}, and should be positive", decay_steps);
  return Schedule([=](const Array& count) {
    const auto steps = static_cast<double>(decay_steps);
    const Array done = minimum(count.astype(float32), steps);
    const Array cosine = 0.5 * (1.0 + cos(std::numbers::pi * done / steps));
    return init_value * ((1 - alpha) * (is(exponent, 1) ? cosine : shoal::power(cosine, exponent)) + alpha);
  });
}

Schedule warmup_cosine_decay_schedule(const Number& init_value, const Number& peak_value, std::int64_t warmup_steps,
                                      std::int64_t decay_steps, const Number& end_value, const Number& exponent,
                                      SourceLocation where) {
  const Caller caller("warmup_cosine_decay_schedule", where);
  if (decay_steps <= warmup_steps) {
    throw misuse<InvalidArgument>("decay_steps is {}, and should be above warmup_steps, {}: it counts these, too",
                                  decay_steps, warmup_steps);
  }
  const Number alpha = is(peak_value, 0) ? Number(0.0) : combined(std::divides<>(), end_value, peak_value);
  return join_schedules({linear_schedule(init_value, peak_value, warmup_steps),
                         cosine_decay_schedule(peak_value, decay_steps - warmup_steps, alpha, exponent)},
                        {warmup_steps});
}

Schedule warmup_exponential_decay_schedule(const Number& init_value, const Number& peak_value,
                                           std::int64_t warmup_steps, std::int64_t transition_steps,
                                           const Number& decay_rate, const ExponentialDecayOptions& options) {
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
