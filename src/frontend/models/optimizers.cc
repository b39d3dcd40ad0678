#include "shoal/optimizers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <tuple>
#include <utility>

#include "base/caller.h"
#include "base/misuse.h"
#include "shoal/control_flow.h"
#include "shoal/lax.h"
#include "shoal/linalg.h"
#include "shoal/numpy.h"

namespace shoal::optimizers {
namespace {

using Arrays = std::vector<Array>;

// What a state has under a name.
const Array& entry(const State& state, const std::string& name) {
  const auto found = state.find(name);
  if (found == state.end()) {
    throw misuse<InvalidArgument>(
        "the state has no \"{}\": it is of other parameters, or of another transformation; init makes one", name);
  }
  return found->second;
}

// The entries of a state whose names begin with a prefix, without it.
State part(const State& state, const std::string& prefix) {
  State made;
  for (auto it = state.lower_bound(prefix); it != state.end() && it->first.starts_with(prefix); ++it) {
    made.emplace(it->first.substr(prefix.size()), it->second);
  }
  return made;
}

void add_part(State& state, const std::string& prefix, const State& inner) {
  for (const auto& [name, array] : inner) state.emplace(prefix + name, array);
}

constexpr const char* kCount = "count";

Array first_count() { return zeros({}, {.dtype = int32}); }

// One more, but for the greatest: counts do not begin anew.
Array incremented(const Array& count) {
  constexpr std::int32_t kLast = std::numeric_limits<std::int32_t>::max();
  return where(less(count, kLast), count + 1, count);
}

Array zeros_of(const Array& parameter, const std::optional<Dtype>& dtype) {
  return zeros_like(parameter, {.dtype = dtype});
}

// Something for each parameter.
template <class F>
void remember(State& state, const std::string& name, const Leaves& params, F&& make) {
  for (std::size_t i = 0; i < params.arrays.size(); ++i) state.emplace(name + params.paths[i], make(params.arrays[i]));
}

Array converted(const Array& x, const std::optional<Dtype>& dtype) { return dtype ? x.astype(*dtype) : x; }

Array squared(const Array& x) { return is_complex(x.dtype()) ? real(conj(x) * x) : x * x; }

Array mean_square(const Array& x) { return squared(x).mean(); }

// The mean of `next` and of what was so far, which weighs `decay`.
Array moving(const Array& next, const Array& so_far, const Number& decay) {
  return (1 - decay) * next + decay * so_far;
}

// A moving average that began with 0, as if it had not. The divisor is made before it is rounded to the dtype of the
// mean: in bf16 a power of 0.999 is 1.
Array corrected(const Array& mean, const Number& decay, const Array& count) {
  return mean / (1.0 - power(decay, count)).astype(mean.dtype());
}

// The elements of all arrays, by a function of each.
template <class F>
Arrays each(const Leaves& gradients, F&& f) {
  Arrays made;
  for (std::size_t i = 0; i < gradients.arrays.size(); ++i) made.push_back(f(gradients.arrays[i], i));
  return made;
}

State no_state(const Leaves&) { return {}; }

// A transformation of gradients, and of parameters, without a state.
template <class F>
GradientTransformation stateless(F f) {
  return {no_state, [f](const Leaves& gradients, const State&, const Leaves& params) {
            return std::pair(each(gradients, [&](const Array& g, std::size_t i) { return f(g, params.arrays[i]); }),
                             State());
          }};
}

// One that only counts its updates.
template <class F>
GradientTransformation counted(F f) {
  return {[](const Leaves&) {
            return State{{kCount, first_count()}};
          },
          [f](const Leaves& gradients, const State& state, const Leaves& params) {
            const Array& count = entry(state, kCount);
            return std::pair(f(gradients, count, params), State{{kCount, incremented(count)}});
          }};
}

Leaves chosen(const Leaves& leaves, const std::vector<std::size_t>& which) {
  Leaves made;
  for (const std::size_t i : which) {
    made.paths.push_back(leaves.paths[i]);
    made.arrays.push_back(leaves.arrays[i]);
  }
  return made;
}

std::vector<std::size_t> chosen_by(const Mask& mask, const Leaves& params) {
  std::vector<std::size_t> which;
  for (std::size_t i = 0; i < params.arrays.size(); ++i) {
    if (!mask || mask(params.paths[i], params.arrays[i])) which.push_back(i);
  }
  return which;
}

}  // namespace

State GradientTransformation::init_leaves(const Leaves& params, SourceLocation where) const {
  const Caller caller("optimizers::init", where);
  return init_(params);
}

std::pair<Arrays, State> GradientTransformation::update_leaves(const Leaves& gradients, const State& state,
                                                               const Leaves& params, SourceLocation where) const {
  const Caller caller("optimizers::update", where);
  if (gradients.paths != params.paths) {
    throw misuse<TypeMismatch>("there are {} gradients and {} parameters, and should be one of each under each path",
                               gradients.paths.size(), params.paths.size());
  }
  for (std::size_t i = 0; i < gradients.arrays.size(); ++i) {
    if (gradients.arrays[i].shape() != params.arrays[i].shape()) {
      throw misuse<TypeMismatch>("the gradient{} has shape {}, its parameter {}", gradients.paths[i],
                                 to_string(gradients.arrays[i].shape()), to_string(params.arrays[i].shape()));
    }
  }
  auto made = update_(gradients, state, params);
  if (made.first.size() != gradients.arrays.size()) {
    throw misuse<TypeMismatch>("a transformation gave {} updates for {} gradients", made.first.size(),
                               gradients.arrays.size());
  }
  return made;
}

Array norm_of_leaves(const Arrays& arrays, SourceLocation where) {
  const Caller caller("global_norm", where);
  Array total = zeros({});
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const Array sum = squared(arrays[i]).sum();
    total = i == 0 ? sum : total + sum;
  }
  return sqrt(total);
}

// ---- Of transformations.

GradientTransformation chain(std::vector<GradientTransformation> transformations) {
  const auto links = std::make_shared<const std::vector<GradientTransformation>>(std::move(transformations));
  const auto prefix = [](std::size_t i) { return std::to_string(i) + "."; };
  return {[links, prefix](const Leaves& params) {
            State state;
            for (std::size_t i = 0; i < links->size(); ++i) add_part(state, prefix(i), (*links)[i].init_leaves(params));
            return state;
          },
          [links, prefix](const Leaves& gradients, const State& state, const Leaves& params) {
            Leaves updates = gradients;
            State next;
            for (std::size_t i = 0; i < links->size(); ++i) {
              auto made = (*links)[i].update_leaves(updates, part(state, prefix(i)), params);
              updates.arrays = std::move(made.first);
              add_part(next, prefix(i), made.second);
            }
            return std::pair(std::move(updates.arrays), std::move(next));
          }};
}

GradientTransformation masked(const GradientTransformation& inner, Mask mask) {
  return {[=](const Leaves& params) { return inner.init_leaves(chosen(params, chosen_by(mask, params))); },
          [=](const Leaves& gradients, const State& state, const Leaves& params) {
            const std::vector<std::size_t> which = chosen_by(mask, params);
            auto made = inner.update_leaves(chosen(gradients, which), state, chosen(params, which));
            Arrays updates = gradients.arrays;
            for (std::size_t i = 0; i < which.size(); ++i) updates[which[i]] = made.first[i];
            return std::pair(std::move(updates), std::move(made.second));
          }};
}

GradientTransformation partition(std::map<std::string, GradientTransformation> transformations,
                                 std::function<std::string(const std::string&, const Array&)> label_of) {
  const auto labelled =
      std::make_shared<const std::map<std::string, GradientTransformation>>(std::move(transformations));
  // The places of the parameters of each label.
  const auto places = [labelled, label_of](const Leaves& params) {
    std::map<std::string, std::vector<std::size_t>> made;
    for (const auto& [label, transformation] : *labelled) made[label];
    for (std::size_t i = 0; i < params.arrays.size(); ++i) {
      const std::string label = label_of(params.paths[i], params.arrays[i]);
      const auto found = made.find(label);
      if (found == made.end()) {
        throw misuse<InvalidArgument>("the parameter{} is labelled \"{}\", and there is no transformation of that name",
                                      params.paths[i], label);
      }
      found->second.push_back(i);
    }
    return made;
  };
  return {[labelled, places](const Leaves& params) {
            State state;
            for (const auto& [label, which] : places(params)) {
              add_part(state, label + ".", labelled->at(label).init_leaves(chosen(params, which)));
            }
            return state;
          },
          [labelled, places](const Leaves& gradients, const State& state, const Leaves& params) {
            Arrays updates = gradients.arrays;
            State next;
            for (const auto& [label, which] : places(params)) {
              auto made = labelled->at(label).update_leaves(chosen(gradients, which), part(state, label + "."),
                                                            chosen(params, which));
              for (std::size_t i = 0; i < which.size(); ++i) updates[which[i]] = made.first[i];
              add_part(next, label + ".", made.second);
            }
            return std::pair(std::move(updates), std::move(next));
          }};
}

GradientTransformation identity() {
  return stateless([](const Array& g, const Array&) { return g; });
}

GradientTransformation set_to_zero() {
  return stateless([](const Array& g, const Array&) { return zeros_like(g); });
}

// ---- Scales.

GradientTransformation scale(const Number& step_size) {
  return stateless([=](const Array& g, const Array&) { return step_size * g; });
}

GradientTransformation scale_by_schedule(const Schedule& step_size) {
  return counted([=](const Leaves& gradients, const Array& count, const Leaves&) {
    const Array step = step_size(count);
    return each(gradients, [&](const Array& g, std::size_t) { return step.astype(g.dtype()) * g; });
  });
}

GradientTransformation scale_by_learning_rate(const Schedule& learning_rate, bool flip_sign) {
  const double sign = flip_sign ? -1 : 1;
  if (const auto rate = learning_rate.constant()) return scale(sign * *rate);
  return scale_by_schedule(Schedule([=](const Array& count) { return sign * learning_rate(count); }));
}

GradientTransformation trace(const Number& decay, const TraceOptions& options) {
  const std::string name = "trace";
  return {[=](const Leaves& params) {
            State state;
            remember(state, name, params, [&](const Array& p) { return zeros_of(p, options.accumulator_dtype); });
            return state;
          },
          [=](const Leaves& gradients, const State& state, const Leaves&) {
            State next;
            Arrays updates = each(gradients, [&](const Array& g, std::size_t i) {
              const std::string slot = name + gradients.paths[i];
              const Array sum = g + decay * entry(state, slot);
              next.emplace(slot, converted(sum, options.accumulator_dtype));
              return options.nesterov ? g + decay * sum : sum;
            });
            return std::pair(std::move(updates), std::move(next));
          }};
}

GradientTransformation ema(const Number& decay, const EmaOptions& options) {
  const std::string name = "ema";
  return {[=](const Leaves& params) {
            State state{{kCount, first_count()}};
            remember(state, name, params, [&](const Array& p) { return zeros_of(p, options.accumulator_dtype); });
            return state;
          },
          [=](const Leaves& gradients, const State& state, const Leaves&) {
            const Array count = incremented(entry(state, kCount));
            State next{{kCount, count}};
            Arrays updates = each(gradients, [&](const Array& g, std::size_t i) {
              const std::string slot = name + gradients.paths[i];
              const Array mean = moving(g, entry(state, slot), decay);
              next.emplace(slot, converted(mean, options.accumulator_dtype));
              return options.debias ? corrected(mean, decay, count) : mean;
            });
            return std::pair(std::move(updates), std::move(next));
          }};
}

GradientTransformation scale_by_adam(const AdamOptions& options) {
  return {[=](const Leaves& params) {
            State state{{kCount, first_count()}};
            remember(state, "mu", params, [&](const Array& p) { return zeros_of(p, options.mu_dtype); });
            remember(state, "nu", params, [](const Array& p) { return zeros_of(p, {}); });
            return state;
          },
          [=](const Leaves& gradients, const State& state, const Leaves&) {
            const Array count = incremented(entry(state, kCount));
            State next{{kCount, count}};
            Arrays updates = each(gradients, [&](const Array& g, std::size_t i) {
              const Array& so_far = entry(state, "nu" + gradients.paths[i]);
              const Array mu = moving(g, entry(state, "mu" + gradients.paths[i]), options.b1);
              const Array nu = moving(squared(g), so_far, options.b2);
              next.emplace("mu" + gradients.paths[i], converted(mu, options.mu_dtype));
              next.emplace("nu" + gradients.paths[i], nu.astype(so_far.dtype()));
              const Array mean = options.nesterov ? options.b1 * corrected(mu, options.b1, incremented(count)) +
                                                        (1 - options.b1) * corrected(g, options.b1, count)
                                                  : corrected(mu, options.b1, count);
              const Array square = corrected(nu, options.b2, count);
              const Array root = sqrt(options.eps_root.constant() == 0 ? square : square + options.eps_root);
              return mean / (root + options.eps);
            });
            return std::pair(std::move(updates), std::move(next));
          }};
}

GradientTransformation scale_by_lion(const LionOptions& options) {
  return {[=](const Leaves& params) {
            State state{{kCount, first_count()}};
            remember(state, "mu", params, [&](const Array& p) { return zeros_of(p, options.mu_dtype); });
            return state;
          },
          [=](const Leaves& gradients, const State& state, const Leaves&) {
            State next{{kCount, incremented(entry(state, kCount))}};
            Arrays updates = each(gradients, [&](const Array& g, std::size_t i) {
              const std::string slot = "mu" + gradients.paths[i];
              const Array& mu = entry(state, slot);
              next.emplace(slot, converted(moving(g, mu, options.b2), options.mu_dtype));
              return sign(moving(g, mu, options.b1));
            });
            return std::pair(std::move(updates), std::move(next));
          }};
}

GradientTransformation scale_by_rms(const RmsOptions& options) {
  return {[=](const Leaves& params) {
            State state;
            if (options.bias_correction) state.emplace(kCount, first_count());
            remember(state, "nu", params, [&](const Array& p) { return full_like(p, options.initial_scale); });
            return state;
          },
          [=](const Leaves& gradients, const State& state, const Leaves&) {
            State next;
            Array count;
            if (options.bias_correction) {
              count = incremented(entry(state, kCount));
              next.emplace(kCount, count);
            }
            Arrays updates = each(gradients, [&](const Array& g, std::size_t i) {
              const std::string slot = "nu" + gradients.paths[i];
              const Array nu = moving(squared(g), entry(state, slot), options.decay);
              next.emplace(slot, nu);
              const Array square = options.bias_correction ? corrected(nu, options.decay, count) : nu;
              return (options.eps_in_sqrt ? rsqrt(square + options.eps) : 1.0 / (sqrt(square) + options.eps)) * g;
            });
            return std::pair(std::move(updates), std::move(next));
          }};
}

GradientTransformation scale_by_rss(const Number& initial_accumulator_value, const Number& eps) {
  const std::string name = "sum_of_squares";
  return {[=](const Leaves& params) {
            State state;
            remember(state, name, params, [&](const Array& p) { return full_like(p, initial_accumulator_value); });
            return state;
          },
          [=](const Leaves& gradients, const State& state, const Leaves&) {
            State next;
            Arrays updates = each(gradients, [&](const Array& g, std::size_t i) {
              const std::string slot = name + gradients.paths[i];
              const Array sum = squared(g) + entry(state, slot);
              next.emplace(slot, sum);
              return where(greater(sum, 0), rsqrt(sum + eps), 0) * g;
            });
            return std::pair(std::move(updates), std::move(next));
          }};
}

namespace {

// The two largest dimensions, the larger one last, if sums along them are to stand for all squares. Of equal extents
// the later one counts as larger, as in a stable sort.
std::optional<std::pair<std::int64_t, std::int64_t>> factored_dims(const Shape& shape,
                                                                   const FactoredRmsOptions& options) {
  if (!options.factored || shape.size() < 2) return std::nullopt;
  Dims order(shape.size());
  for (std::size_t d = 0; d < order.size(); ++d) order[d] = static_cast<std::int64_t>(d);
  const auto extent = [&](std::int64_t d) { return shape[static_cast<std::size_t>(d)]; };
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) { return extent(a) < extent(b); });
  const std::int64_t second = order[order.size() - 2];
  if (extent(second) < options.min_dim_size_to_factor) return std::nullopt;
  return std::pair(second, order.back());
}

}  // namespace

GradientTransformation scale_by_factored_rms(const FactoredRmsOptions& options) {
  return {[=](const Leaves& params) {
            State state{{kCount, first_count()}};
            for (std::size_t i = 0; i < params.arrays.size(); ++i) {
              const Array& p = params.arrays[i];
              if (const auto dims = factored_dims(p.shape(), options)) {
                // Sums of zeros lie as sums of squares will.
                state.emplace("v_row" + params.paths[i], zeros_like(p).sum(static_cast<int>(dims->second)));
                state.emplace("v_col" + params.paths[i], zeros_like(p).sum(static_cast<int>(dims->first)));
              } else {
                state.emplace("v" + params.paths[i], zeros_like(p));
              }
            }
            return state;
          },
          [=](const Leaves& gradients, const State& state, const Leaves& params) {
            const Array& count = entry(state, kCount);
            const Array t = (count - options.step_offset + 1).astype(float32);
            const Array decay = 1.0 - power(t, -1.0 * options.decay_rate);
            State next{{kCount, incremented(count)}};
            Arrays updates = each(gradients, [&](const Array& g, std::size_t i) {
              const Array square = squared(g) + options.epsilon;
              const auto mean_of = [&](const std::string& name, const Array& value) {
                const std::string slot = name + gradients.paths[i];
                const Array& so_far = entry(state, slot);
                const Array mean = (decay * so_far + (1.0 - decay) * value).astype(params.arrays[i].dtype());
                next.emplace(slot, mean);
                return mean;
              };
              const auto dims = factored_dims(params.arrays[i].shape(), options);
              if (!dims) return g * power(mean_of("v", square), -0.5);
              const auto [d1, d0] = *dims;
              const Array rows = mean_of("v_row", square.mean(static_cast<int>(d0)));
              const Array columns = mean_of("v_col", square.mean(static_cast<int>(d1)));
              const std::int64_t left = d1 > d0 ? d1 - 1 : d1;  // Where d1 is in what lacks d0.
              const Array whole = rows.mean({.axis = static_cast<int>(left), .keepdims = true});
              return g * expand_dims(power(rows / whole, -0.5), d0) * expand_dims(power(columns, -0.5), d1);
            });
            return std::pair(std::move(updates), std::move(next));
          }};
}

GradientTransformation scale_by_param_block_rms(const Number& min_scale) {
  return stateless([=](const Array& g, const Array& p) {
    const Array rms = sqrt(mean_square(p));
    return g * where(less_equal(rms, min_scale), min_scale, rms);
  });
}

GradientTransformation scale_by_trust_ratio(const TrustRatioOptions& options) {
  const auto norm = [=](const Array& x) { return maximum(norm_of_leaves({x}), options.min_norm); };
  return stateless([=](const Array& g, const Array& p) {
    const Array of_parameter = norm(p);
    const Array of_update = norm(g);
    const Array ratio = options.trust_coefficient * of_parameter / (of_update + options.eps);
    return g * where(logical_or(equal(of_parameter, 0), equal(of_update, 0)), 1, ratio);
  });
}

GradientTransformation add_decayed_weights(const Schedule& weight_decay, const Mask& mask) {
  const auto decayed = [&]() -> GradientTransformation {
    if (const auto rate = weight_decay.constant()) {
      if (rate->constant() == 0) return identity();
      return stateless([rate = *rate](const Array& g, const Array& p) { return g + rate * p; });
    }
    return counted([=](const Leaves& gradients, const Array& count, const Leaves& params) {
      const Array rate = weight_decay(count);
      return each(gradients, [&](const Array& g, std::size_t i) { return g + rate * params.arrays[i]; });
    });
  }();
  return mask ? masked(decayed, mask) : decayed;
}

namespace {

Array orthogonalized(const Array& matrix, const MuonScaleOptions& options) {
  if (matrix.ndim() != 2) {
    throw misuse<InvalidArgument>("muon takes matrices, and one parameter has shape {}", to_string(matrix.shape()));
  }
  // The step of x.T is that of x, transposed: products are smaller where there are fewer rows than columns.
  const bool is_tall = matrix.shape()[0] > matrix.shape()[1];
  Array x = is_tall ? matrix.T() : matrix;
  x = x / (norm_of_leaves({x}) + options.eps);
  for (std::int64_t step = 0; step < options.ns_steps; ++step) {
    const std::size_t set = options.ns_coeffs.size() == 3 ? 0 : static_cast<std::size_t>(step) * 3;
    const Array a = matmul(x, conj(x.T()));
    const Array b = options.ns_coeffs[set + 1] * a + options.ns_coeffs[set + 2] * matmul(a, a);
    x = options.ns_coeffs[set] * x + matmul(b, x);
  }
  return is_tall ? x.T() : x;
}

}  // namespace

GradientTransformation scale_by_muon(const MuonScaleOptions& options, SourceLocation where) {
  const Caller caller("scale_by_muon", where);
  const auto steps = static_cast<std::size_t>(std::max<std::int64_t>(options.ns_steps, 0));
  if (options.ns_coeffs.size() != 3 && options.ns_coeffs.size() != 3 * steps) {
    throw misuse<InvalidArgument>("there are {} coefficients, and should be 3, or 3 for each of the {} steps",
                                  options.ns_coeffs.size(), steps);
  }
  return {[=](const Leaves& params) {
            State state{{kCount, first_count()}};
            remember(state, "mu", params, [&](const Array& p) { return zeros_of(p, options.mu_dtype); });
            return state;
          },
          [=](const Leaves& gradients, const State& state, const Leaves&) {
            const Array count = incremented(entry(state, kCount));
            State next{{kCount, count}};
            Arrays updates = each(gradients, [&](const Array& g, std::size_t i) {
              const std::string slot = "mu" + gradients.paths[i];
              const Array mu = moving(g, entry(state, slot), options.beta);
              next.emplace(slot, converted(mu, options.mu_dtype));
              const Array mean = options.nesterov ? options.beta * corrected(mu, options.beta, incremented(count)) +
                                                        (1 - options.beta) * corrected(g, options.beta, count)
                                                  : corrected(mu, options.beta, count);
              const Array update = orthogonalized(mean, options);
              return options.adaptive ? (conj(mean) * update).sum() * update : update;
            });
            return std::pair(std::move(updates), std::move(next));
          }};
}

// ---- Clipping.

GradientTransformation clip(const Number& max_delta) {
  return stateless([=](const Array& g, const Array&) { return shoal::clip(g, -1.0 * max_delta, max_delta); });
}

GradientTransformation clip_by_global_norm(const Number& max_norm) {
  return {no_state, [=](const Leaves& gradients, const State&, const Leaves&) {
            const Array norm = norm_of_leaves(gradients.arrays);
            const Array is_small = less(norm, max_norm);
            return std::pair(
                each(gradients, [&](const Array& g,
                                    std::size_t) { return where(is_small, g, g / norm.astype(g.dtype()) * max_norm); }),
                State());
          }};
}

GradientTransformation clip_by_block_rms(const Number& threshold) {
  return stateless([=](const Array& g, const Array&) { return g / maximum(sqrt(mean_square(g)) / threshold, 1); });
}

namespace {

// The norms of the units of a parameter, which broadcast to it: the last dimension is theirs, but in vectors.
Array unitwise_norm(const Array& x) {
  ReduceOptions options{.keepdims = true};
  std::size_t extents = 0;
  for (const std::int64_t n : x.shape()) extents += n != 1 ? 1 : 0;
  if (extents > 1) {
    Dims axes;
    // Three dimensions are heads of a linear layer: their inputs come first.
    const std::size_t reduced = x.ndim() <= 3 ? 1 : x.ndim() - 1;
    for (std::size_t d = 0; d < reduced; ++d) axes.push_back(static_cast<std::int64_t>(d));
    options.axis = axes;
  }
  return sqrt(squared(x).sum(options));
}

}  // namespace

GradientTransformation adaptive_grad_clip(const Number& clipping, const Number& eps) {
  constexpr double kLeast = 1e-6;  // Of a norm that something is divided by.
  return stateless([=](const Array& g, const Array& p) {
    const Array norm = unitwise_norm(g);
    const Array greatest = clipping * maximum(unitwise_norm(p), eps);
    return where(less(norm, greatest), g, g * (greatest / maximum(norm, kLeast)));
  });
}

GradientTransformation zero_nans() {
  const std::string name = "found_nan";
  return {[=](const Leaves& params) {
            State state;
            for (const std::string& path : params.paths) state.emplace(name + path, zeros({}, {.dtype = bool_}));
            return state;
          },
          [=](const Leaves& gradients, const State&, const Leaves&) {
            State next;
            Arrays updates = each(gradients, [&](const Array& g, std::size_t i) {
              const Array nan = isnan(g);
              next.emplace(name + gradients.paths[i], nan.any());
              return where(nan, 0, g);
            });
            return std::pair(std::move(updates), std::move(next));
          }};
}

GradientTransformation apply_if_finite(const GradientTransformation& inner, std::int64_t max_consecutive_errors) {
  const std::string prefix = "inner.";
  return {[=](const Leaves& params) {
            State state{{"notfinite_count", first_count()},
                        {"last_finite", ones({}, {.dtype = bool_})},
                        {"total_notfinite", first_count()}};
            add_part(state, prefix, inner.init_leaves(params));
            return state;
          },
          [=](const Leaves& gradients, const State& state, const Leaves& params) {
            Array is_finite = ones({}, {.dtype = bool_});
            for (const Array& g : gradients.arrays) is_finite = logical_and(is_finite, isfinite(g).all());
            const Array in_row = where(is_finite, 0, incremented(entry(state, "notfinite_count")));
            const Array total = entry(state, "total_notfinite");
            using Made = std::pair<Arrays, State>;
            auto [updates, next_inner] = lax::cond(
                logical_or(is_finite, greater(in_row, max_consecutive_errors)),
                [&](const Arrays& arrays, const State& before) -> Made {
                  return inner.update_leaves({gradients.paths, arrays}, before, params);
                },
                [&](const Arrays& arrays, const State& before) -> Made {
                  Arrays none;
                  for (const Array& g : arrays) none.push_back(zeros_like(g));
                  return {none, before};
                },
                gradients.arrays, part(state, prefix));
            State next{{"notfinite_count", in_row},
                       {"last_finite", is_finite},
                       {"total_notfinite", where(is_finite, total, incremented(total))}};
            add_part(next, prefix, next_inner);
            return std::pair(std::move(updates), std::move(next));
          }};
}

GradientTransformation multi_steps(const GradientTransformation& inner, std::int64_t every_k_schedule,
                                   const MultiStepsOptions& options, SourceLocation where) {
  const Caller caller("multi_steps", where);
  if (every_k_schedule < 1) {
    throw misuse<InvalidArgument>("every_k_schedule is {}, and should be positive", every_k_schedule);
  }
  const std::string prefix = "inner.";
  const std::string name = "acc_grads";
  // Of complex gradients the accumulator is complex.
  const auto accumulator = [=](const Array& x) {
    return is_complex(x.dtype()) ? x.dtype() : options.accumulator_dtype;
  };
  return {
      [=](const Leaves& params) {
        State state{{"mini_step", first_count()}, {"gradient_step", first_count()}};
        remember(state, name, params, [&](const Array& p) { return zeros_of(p, accumulator(p)); });
        add_part(state, prefix, inner.init_leaves(params));
        return state;
      },
      [=](const Leaves& gradients, const State& state, const Leaves& params) {
        const Array mini_step = entry(state, "mini_step");
        const Array gradient_step = entry(state, "gradient_step");
        // The mean by Welford's recurrence.
        const Arrays sums = each(gradients, [&](const Array& g, std::size_t i) {
          const Array& so_far = entry(state, name + gradients.paths[i]);
          return (options.use_grad_mean ? so_far + (g - so_far) / (mini_step + 1).astype(so_far.dtype()) : g + so_far)
              .astype(so_far.dtype());
        });
        const Array is_last = equal(mini_step, every_k_schedule - 1);
        // What the last step of a round gives, and what the others do, which run nothing of the inner one.
        using Made = std::tuple<Arrays, Arrays, State>;
        auto [updates, left, next_inner] = lax::cond(
            is_last,
            [&](const Arrays& total, const State& before) -> Made {
              Arrays rounded;
              Arrays none;
              for (std::size_t i = 0; i < total.size(); ++i) {
                rounded.push_back(total[i].astype(gradients.arrays[i].dtype()));
                none.push_back(zeros_like(total[i]));
              }
              auto made = inner.update_leaves({gradients.paths, rounded}, before, params);
              for (std::size_t i = 0; i < total.size(); ++i) {
                made.first[i] = made.first[i].astype(gradients.arrays[i].dtype());
              }
              return {std::move(made.first), std::move(none), std::move(made.second)};
            },
            [&](const Arrays& total, const State& before) -> Made {
              Arrays none;
              for (const Array& g : gradients.arrays) none.push_back(zeros_like(g));
              return {std::move(none), total, before};
            },
            sums, part(state, prefix));
        State next{{"mini_step", shoal::where(is_last, 0, mini_step + 1)},
                   {"gradient_step", shoal::where(is_last, incremented(gradient_step), gradient_step)}};
        for (std::size_t i = 0; i < left.size(); ++i) next.emplace(name + gradients.paths[i], left[i]);
        add_part(next, prefix, next_inner);
        return std::pair(std::move(updates), std::move(next));
      }};
}

// ---- Optimizers.

GradientTransformation sgd(const Schedule& learning_rate, const SgdOptions& options) {
  if (!options.momentum) return chain({identity(), scale_by_learning_rate(learning_rate)});
  return chain(
      {trace(*options.momentum, {.nesterov = options.nesterov, .accumulator_dtype = options.accumulator_dtype}),
       scale_by_learning_rate(learning_rate)});
}

GradientTransformation adam(const Schedule& learning_rate, const AdamOptions& options) {
  return chain({scale_by_adam(options), scale_by_learning_rate(learning_rate)});
}

GradientTransformation adamw(const Schedule& learning_rate, const AdamWOptions& options) {
  return chain({scale_by_adam({.b1 = options.b1,
                               .b2 = options.b2,
                               .eps = options.eps,
                               .eps_root = options.eps_root,
                               .mu_dtype = options.mu_dtype,
                               .nesterov = options.nesterov}),
                add_decayed_weights(options.weight_decay, options.mask), scale_by_learning_rate(learning_rate)});
}

GradientTransformation lion(const Schedule& learning_rate, const LionWOptions& options) {
  return chain({scale_by_lion({.b1 = options.b1, .b2 = options.b2, .mu_dtype = options.mu_dtype}),
                add_decayed_weights(options.weight_decay, options.mask), scale_by_learning_rate(learning_rate)});
}

GradientTransformation lamb(const Schedule& learning_rate, const LambOptions& options) {
  return chain({scale_by_adam({.b1 = options.b1, .b2 = options.b2, .eps = options.eps, .eps_root = options.eps_root}),
                add_decayed_weights(options.weight_decay, options.mask), scale_by_trust_ratio(),
                scale_by_learning_rate(learning_rate)});
}

GradientTransformation adagrad(const Schedule& learning_rate, const Number& initial_accumulator_value,
                               const Number& eps) {
  return chain({scale_by_rss(initial_accumulator_value, eps), scale_by_learning_rate(learning_rate)});
}

GradientTransformation rmsprop(const Schedule& learning_rate, const RmspropOptions& options) {
  std::vector<GradientTransformation> links = {scale_by_rms({.decay = options.decay,
                                                             .eps = options.eps,
                                                             .initial_scale = options.initial_scale,
                                                             .eps_in_sqrt = options.eps_in_sqrt,
                                                             .bias_correction = options.bias_correction}),
                                               scale_by_learning_rate(learning_rate)};
  if (options.momentum) links.push_back(trace(*options.momentum, {.nesterov = options.nesterov}));
  return chain(std::move(links));
}

GradientTransformation adafactor(const std::optional<Schedule>& learning_rate, const AdafactorOptions& options) {
  std::vector<GradientTransformation> links = {
      scale_by_factored_rms({.factored = options.factored,
                             .decay_rate = options.decay_rate,
                             .step_offset = options.decay_offset,
                             .min_dim_size_to_factor = options.min_dim_size_to_factor,
                             .epsilon = options.eps})};
  if (options.clipping_threshold) links.push_back(clip_by_block_rms(*options.clipping_threshold));
  if (learning_rate) links.push_back(scale_by_learning_rate(*learning_rate, false));
  if (options.multiply_by_parameter_scale) links.push_back(scale_by_param_block_rms());
  if (options.momentum) {
    links.push_back(ema(*options.momentum, {.debias = false, .accumulator_dtype = options.dtype_momentum}));
  }
  if (options.weight_decay_rate) {
    links.push_back(add_decayed_weights(*options.weight_decay_rate, options.weight_decay_mask));
  }
  links.push_back(scale(-1));
  return chain(std::move(links));
}

GradientTransformation muon(const Schedule& learning_rate, const MuonOptions& options, SourceLocation where) {
  const Caller caller("muon", where);
  const auto by_shape = stateless([rms = options.consistent_rms](const Array& g, const Array&) {
    const auto inputs = static_cast<double>(g.shape()[0]);
    const auto outputs = static_cast<double>(g.shape()[1]);
    return (rms ? std::sqrt(std::max(inputs, outputs)) * *rms : Number(std::sqrt(std::max(1.0, outputs / inputs)))) * g;
  });
  const GradientTransformation of_matrices = chain(
      {scale_by_muon(options.muon), by_shape, add_decayed_weights(options.weight_decay, options.weight_decay_mask),
       scale_by_learning_rate(learning_rate)});
  const GradientTransformation of_others =
      adamw(options.adam_learning_rate.value_or(learning_rate), {.b1 = options.adam_b1,
                                                                 .b2 = options.adam_b2,
                                                                 .eps = options.muon.eps,
                                                                 .eps_root = options.adam_eps_root,
                                                                 .mu_dtype = options.muon.mu_dtype,
                                                                 .weight_decay = options.adam_weight_decay,
                                                                 .nesterov = options.muon.nesterov});
  return partition({{"adam", of_others}, {"muon", of_matrices}}, [](const std::string&, const Array& parameter) {
    return std::string(parameter.ndim() == 2 ? "muon" : "adam");
  });
}

}  // namespace shoal::optimizers
