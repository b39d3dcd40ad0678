// Optimizers of the parameters of models, by the names and the formulas of Optax, and schedules of their rates.
//
//   const auto optimizer = optimizers::chain({optimizers::clip_by_global_norm(1), optimizers::adamw(1e-3)});
//   optimizers::State state = optimizer.init(params);
//   const auto step = jit([&](const Params& params, const optimizers::State& state, const Batch& batch) {
//     const auto [loss, gradients] = value_and_grad(loss_of)(params, batch);
//     const auto [updates, next] = optimizer.update(gradients, state, params);
//     return std::tuple(optimizers::apply_updates(params, updates), next, loss);
//   });
//
// A transformation maps gradients, and its state from earlier steps, to updates that are added to the parameters. The
// state is passed in and returned. State that belongs to a parameter has its shape and sharding and, unless an option
// says otherwise, its dtype, so that the moments of a parameter that is split over devices are split likewise.
//
// A rate, or a decay of weights, is a number or a Schedule: a function of the number of updates so far. Other numbers
// may also be scalar arrays, traced or not: derivatives are taken with respect to them, and vmap maps over them.
//
// @param learning_rate The rate: a number, or a schedule of it.
// @param init_value The first value.
// @param end_value The last value.
// @param transition_steps How many updates the change takes.
// @param transition_begin How many updates come before it.
// @param decay_rate The factor of the decay over `transition_steps` updates.
// @param decay_steps How many updates the decay takes.
// @param peak_value The value after the warm-up.
// @param warmup_steps How many updates the warm-up takes.
// @param exponent The power of the cosine.
// @param inner The transformation.
// @param decay What the past counts in each step, 0 to 1.
// @param decay_rate How the decay of squares grows with the steps.
// @param initial_accumulator_value The sum of squares to begin with.
// @param eps A small number that keeps quotients finite.
// @param eps_root The same, added below the root.
// @param b1 Decay of the mean of gradients.
// @param b2 Decay of the mean of their squares.
// @param mu_dtype The dtype of the mean of gradients; default: that of the parameter.
// @param accumulator_dtype The dtype of the sum; default: that of the gradients.
// @param nesterov Whether the momentum is that of Nesterov, which looks a step ahead.
// @param momentum Decay of the sum of gradients; none: gradients are used as they are.
// @param initial_scale The mean of squares to begin with.
// @param eps_in_sqrt Whether eps is added below the root, not to it.
// @param bias_correction Whether the mean is corrected for its beginning.
// @param weight_decay The part of a parameter that is taken from it in each update, before the rate: a number or a
//   schedule.
// @param mask Selects the parameters to which it is applied.
// @param weight_decay_mask Selects the parameters whose weights decay.
// @param factored Whether squares of great matrices are kept as sums of rows and of columns.
// @param step_offset The number of updates that count as made before the first.
// @param epsilon A small number, added to squares.
// @param min_dim_size_to_factor The least extent of both great dimensions of a matrix whose squares are kept as sums.
// @param decay_offset The number of updates that count as made before the first.
// @param multiply_by_parameter_scale Whether updates are multiplied by the root mean square of the parameter.
// @param clipping_threshold The greatest root mean square of an update; none: any.
// @param dtype_momentum The dtype of the momentum.
// @param weight_decay_rate The part of a parameter that is taken from it in each update; none: nothing.
// @param adam_b1 Decay of the mean of gradients, of the parameters that Adam has.
// @param adam_b2 Decay of the mean of their squares, likewise.
// @param adam_eps_root Added below the root, likewise.
// @param adam_weight_decay The decay of weights, likewise.
// @param muon The options of scale_by_muon.
// @param value A number, or a scalar array.
// @param function The function of the number of updates so far.
// @param tree A tree of arrays.
// @param init The function that gives the first state.
// @param update The function that gives updates and the next state.
// @param params The parameters.
// @param gradients The gradients, like the parameters.
// @param state What the step before returned.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "shoal/array.h"
#include "shoal/tree.h"

namespace shoal::optimizers {

/// The state from step to step, by name: "0.mu.w" is the mean of the gradients of the parameter ".w" in the first
/// transformation of a chain. A tree, as jit, scan and checkpoints take it.
using State = std::map<std::string, Array>;

/// A number, or a scalar array. Arithmetic on numbers alone is done in f64, before an array is involved.
class Number {
 public:
  Number(double value = 0) : value_(value) {}
  Number(Array value) : value_(std::move(value)) {}

  /// The number; nullopt for an array.
  std::optional<double> constant() const;
  operator Operand() const;

  // Defined here so that overload resolution does not find them for other operands.
  friend Number operator-(double a, const Number& b) {
    const std::optional<double> value = b.constant();
    return value ? Number(a - *value) : Number(a - Operand(b));
  }
  friend Number operator*(double a, const Number& b) {
    const std::optional<double> value = b.constant();
    return value ? Number(a * *value) : Number(a * Operand(b));
  }

 private:
  std::variant<double, Array> value_;
};

// ---- Schedules.
// @return A schedule.

/// A number, or a function of the number of updates so far, an int32 scalar.
class Schedule {
 public:
  using Function = std::function<Array(const Array& count)>;
  Schedule(double value) : value_(value) {}
  Schedule(Number value) : value_(std::move(value)) {}
  Schedule(Array value) : value_(std::move(value)) {}
  template <class F>
  requires(std::is_invocable_r_v<Array, F&, const Array&> && !std::is_same_v<std::remove_cvref_t<F>, Schedule>)
      Schedule(F function)
      : function_(std::move(function)) {}

  /// The number; nullopt for a function.
  std::optional<Number> constant() const { return function_ ? std::nullopt : std::optional<Number>(value_); }
  /// The number as an f32 scalar, the array, or what the function gives.
  Array operator()(const Operand& count) const;

 private:
  Number value_ = 0.0;
  Function function_;
};

/// The same value always.
/// @param value The value.
Schedule constant_schedule(const Number& value);
/// From init_value to end_value in transition_steps updates, beginning after transition_begin ones:
/// (init_value - end_value) (1 - count / transition_steps)^power + end_value. Constantly init_value if transition_steps
/// is not positive.
/// @param power The power.
Schedule polynomial_schedule(const Number& init_value, const Number& end_value, const Number& power,
                             std::int64_t transition_steps, std::int64_t transition_begin = 0);
/// polynomial_schedule of power 1.
Schedule linear_schedule(const Number& init_value, const Number& end_value, std::int64_t transition_steps,
                         std::int64_t transition_begin = 0);
/// init_value, times each scale from its boundary on. Throws InvalidArgument for negative scales.
/// @param boundaries_and_scales For each number of updates by what the value is multiplied from there on.
Schedule piecewise_constant_schedule(const Number& init_value, std::map<std::int64_t, Number> boundaries_and_scales,
                                     SourceLocation where = SourceLocation::current());
struct ExponentialDecayOptions {
  std::int64_t transition_begin = 0;     ///< Updates before the decay begins.
  bool staircase = false;                ///< Whether the rate falls only every transition_steps updates.
  std::optional<Number> end_value = {};  ///< The value at which it stops.
};
/// init_value decay_rate^(count / transition_steps). Constantly init_value if transition_steps is not positive or
/// decay_rate is 0.
/// @param decay_rate The factor of the decay over `transition_steps` updates.
Schedule exponential_decay(const Number& init_value, std::int64_t transition_steps, const Number& decay_rate,
                           const ExponentialDecayOptions& options = {});
/// init_value (alpha + (1 - alpha) ((1 + cos(pi count / decay_steps)) / 2)^exponent), which keeps its last value after
/// decay_steps: Loshchilov and Hutter 2017, "SGDR". Throws InvalidArgument if decay_steps is not positive.
/// @param alpha The last value, as a part of the first.
Schedule cosine_decay_schedule(const Number& init_value, std::int64_t decay_steps, const Number& alpha = 0.0,
                               const Number& exponent = 1.0, SourceLocation where = SourceLocation::current());
/// linear_schedule from init_value to peak_value in warmup_steps, then a cosine down to end_value, which is reached
/// after decay_steps, the warm-up included.
Schedule warmup_cosine_decay_schedule(const Number& init_value, const Number& peak_value, std::int64_t warmup_steps,
                                      std::int64_t decay_steps, const Number& end_value = 0.0,
                                      const Number& exponent = 1.0, SourceLocation where = SourceLocation::current());
/// The same, but with exponential_decay from peak_value after the warm-up.
/// @param decay_rate The factor of the decay over `transition_steps` updates.
Schedule warmup_exponential_decay_schedule(const Number& init_value, const Number& peak_value,
                                           std::int64_t warmup_steps, std::int64_t transition_steps,
                                           const Number& decay_rate, const ExponentialDecayOptions& options = {});
/// The first schedule up to the first boundary, then the next, which counts from there, and so on. Throws
/// InvalidArgument unless there is one schedule more than there are boundaries.
/// @param schedules The schedules.
/// @param boundaries The numbers of updates at which the next one begins.
Schedule join_schedules(std::vector<Schedule> schedules, std::vector<std::int64_t> boundaries,
                        SourceLocation where = SourceLocation::current());

// ---- Transformations.

/// The arrays of a tree, and the path of each in it: ".w", "[0].b".
struct Leaves {
  std::vector<std::string> paths;
  std::vector<Array> arrays;

  template <class T>
  static Leaves of(const T& tree) {
    TreeDef def;
    std::vector<Array> arrays = tree::flatten(tree, &def);
    return {def.leaf_paths(), std::move(arrays)};
  }
};

/// A predicate that selects parameters by path and array. Default: all.
using Mask = std::function<bool(const std::string& path, const Array& parameter)>;

class GradientTransformation {
 public:
  using Init = std::function<State(const Leaves& params)>;
  /// The updates, as many as the gradients, and the next state.
  using Update = std::function<std::pair<std::vector<Array>, State>(const Leaves& gradients, const State& state,
                                                                    const Leaves& params)>;
  /// A transformation of the user's own. update is called where gradients are transformed, so that in a jitted function
  /// it is traced.
  GradientTransformation(Init init, Update update) : init_(std::move(init)), update_(std::move(update)) {}

  /// The state before the first update of parameters in a tree.
  template <class T>
  State init(const T& params, SourceLocation where = SourceLocation::current()) const {
    return init_leaves(Leaves::of(params), where);
  }
  /// The updates to be added to the parameters, a tree like that of the gradients, and the next state. The trees must
  /// have the same structure; throws TypeMismatch if not, and InvalidArgument for a state of other parameters or of
  /// another transformation.
  template <class T>
  std::pair<T, State> update(const T& gradients, const State& state, const T& params,
                             SourceLocation where = SourceLocation::current()) const {
    auto [updates, next] = update_leaves(Leaves::of(gradients), state, Leaves::of(params), where);
    T tree = gradients;
    tree::assign(tree, updates);
    return {std::move(tree), std::move(next)};
  }

  /// The same of the leaves of trees.
  State init_leaves(const Leaves& params, SourceLocation where = SourceLocation::current()) const;
  std::pair<std::vector<Array>, State> update_leaves(const Leaves& gradients, const State& state, const Leaves& params,
                                                     SourceLocation where = SourceLocation::current()) const;

 private:
  Init init_;
  Update update_;
};

/// The parameters plus the updates, in the dtypes of the parameters.
/// @param params A tree of arrays.
/// @param updates A tree like it.
/// @return A tree like the parameters.
template <class T>
T apply_updates(const T& params, const T& updates, SourceLocation where = SourceLocation::current()) {
  return tree::map([](const Array& p, const Array& u) { return (p + u).astype(p.dtype()); }, params, updates, where);
}
/// step_size times the new parameters plus 1 - step_size times the old ones: their moving average, for evaluation.
/// @param new_params A tree of arrays.
/// @param old_params A tree like it.
/// @param step_size What the new ones count, 0 to 1.
/// @return A tree like these.
template <class T>
T incremental_update(const T& new_params, const T& old_params, const Number& step_size,
                     SourceLocation where = SourceLocation::current()) {
  return tree::map([&](const Array& a, const Array& b) { return step_size * a + (1.0 - step_size) * b; }, new_params,
                   old_params, where);
}

/// The root of the sum of the squares of all elements.
/// @param arrays The arrays.
/// @return A scalar.
Array norm_of_leaves(const std::vector<Array>& arrays, SourceLocation where = SourceLocation::current());
/// The root of the sum of the squares of all elements of a tree.
/// @param tree A tree of arrays.
/// @return A scalar.
template <class T>
Array global_norm(const T& tree, SourceLocation where = SourceLocation::current()) {
  return norm_of_leaves(tree::flatten(tree), where);
}

/// Applies the transformations one after the other.
/// @param transformations The transformations, first to last.
GradientTransformation chain(std::vector<GradientTransformation> transformations);
/// Applies the transformation to the selected parameters only; the gradients of others pass through.
/// @param mask Selects the parameters.
GradientTransformation masked(const GradientTransformation& inner, Mask mask);
/// Applies to each parameter the transformation that label_of names. init and update throw InvalidArgument for an
/// unknown name.
/// @param transformations The transformations, by their names.
/// @param label_of The function from a parameter, its path and array, to the name.
GradientTransformation partition(std::map<std::string, GradientTransformation> transformations,
                                 std::function<std::string(const std::string& path, const Array& parameter)> label_of);
/// Gradients as they are.
GradientTransformation identity();
/// Zero updates, for parameters that are frozen.
GradientTransformation set_to_zero();

/// Multiplies by a number.
/// @param step_size The number.
GradientTransformation scale(const Number& step_size);
/// Multiplies by the rate, and negates unless flip_sign is false: updates go down the gradient.
/// @param flip_sign Whether the sign is changed.
GradientTransformation scale_by_learning_rate(const Schedule& learning_rate, bool flip_sign = true);
/// Multiplies by what a schedule gives for the number of updates so far.
/// @param step_size The schedule.
GradientTransformation scale_by_schedule(const Schedule& step_size);

struct TraceOptions {
  bool nesterov = false;
  std::optional<Dtype> accumulator_dtype = {};
};
/// The gradient plus decay times the sum so far: momentum (Polyak 1964; Nesterov 1983).
GradientTransformation trace(const Number& decay, const TraceOptions& options = {});
/// Beats shoal::trace, the sum of a diagonal, for a plain number.
inline GradientTransformation trace(double decay, const TraceOptions& options = {}) {
  return trace(Number(decay), options);
}
struct EmaOptions {
  bool debias = true;  ///< Whether the mean is corrected for beginning with 0.
  std::optional<Dtype> accumulator_dtype = {};
};
/// The moving average of the gradients.
GradientTransformation ema(const Number& decay, const EmaOptions& options = {});

struct AdamOptions {
  Number b1 = 0.9;                     ///< Decay of the mean of gradients.
  Number b2 = 0.999;                   ///< Decay of the mean of their squares.
  Number eps = 1e-8;                   ///< Added to the root of the mean of squares.
  Number eps_root = 0.0;               ///< Added to the mean of squares, below the root.
  std::optional<Dtype> mu_dtype = {};  ///< The dtype of the mean of gradients.
  bool nesterov = false;
};
/// Kingma and Ba 2015, "Adam: a method for stochastic optimization"; with nesterov Dozat 2016, "NAdam".
GradientTransformation scale_by_adam(const AdamOptions& options = {});
struct LionOptions {
  Number b1 = 0.9;
  Number b2 = 0.99;
  std::optional<Dtype> mu_dtype = {};
};
/// Chen et al. 2023, "Symbolic discovery of optimization algorithms".
GradientTransformation scale_by_lion(const LionOptions& options = {});
struct RmsOptions {
  Number decay = 0.9;
  Number eps = 1e-8;
  Number initial_scale = 0.0;
  bool eps_in_sqrt = true;
  bool bias_correction = false;
};
/// Divides by the root of the moving average of squares: Tieleman and Hinton 2012, "Lecture 6.5, rmsprop".
GradientTransformation scale_by_rms(const RmsOptions& options = {});
/// Divides by the root of the sum of all squares so far: Duchi, Hazan and Singer 2011, "Adaptive subgradient methods".
GradientTransformation scale_by_rss(const Number& initial_accumulator_value = 0.1, const Number& eps = 1e-7);
struct FactoredRmsOptions {
  bool factored = true;
  Number decay_rate = 0.8;
  std::int64_t step_offset = 0;
  /// If the two largest dimensions have at least this extent, sums of rows and of columns replace the squares.
  std::int64_t min_dim_size_to_factor = 128;
  Number epsilon = 1e-30;
};
/// Shazeer and Stern 2018, "Adafactor: adaptive learning rates with sublinear memory cost".
GradientTransformation scale_by_factored_rms(const FactoredRmsOptions& options = {});
/// Multiplies by the root mean square of the parameter, or by min_scale if that is greater.
/// @param min_scale The least factor.
GradientTransformation scale_by_param_block_rms(const Number& min_scale = 1e-3);
struct TrustRatioOptions {
  Number min_norm = 0.0;           ///< Norms below this count as this.
  Number trust_coefficient = 1.0;  ///< A factor of the quotient.
  Number eps = 0.0;
};
/// Multiplies by the norm of the parameter divided by that of the update: You et al. 2020, "Large batch optimization
/// for deep learning".
GradientTransformation scale_by_trust_ratio(const TrustRatioOptions& options = {});
/// Adds the decay times the parameter to the gradient: Loshchilov and Hutter 2019, "Decoupled weight decay
/// regularization".
GradientTransformation add_decayed_weights(const Schedule& weight_decay, const Mask& mask = {});
struct MuonScaleOptions {
  std::vector<double> ns_coeffs = {3.4445, -4.7750, 2.0315};  ///< Of the step a x + b x x* x + c (x x*)^2 x.
  std::int64_t ns_steps = 5;                                  ///< The number of these steps.
  Number beta = 0.95;                                         ///< Decay of the mean of gradients.
  Number eps = 1e-8;
  std::optional<Dtype> mu_dtype = {};
  bool nesterov = true;
  bool adaptive = false;  ///< Multiply by the inner product of the mean and the result.
};
/// Replaces the mean of gradients by the nearest matrix with orthonormal rows or columns, by the iteration of Newton
/// and Schulz: Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks". For matrices; update
/// throws InvalidArgument for other parameters. Throws InvalidArgument unless there are 3 coefficients, or 3 for each
/// step.
GradientTransformation scale_by_muon(const MuonScaleOptions& options = {},
                                     SourceLocation where = SourceLocation::current());

/// Limits each element to the range from -max_delta to max_delta.
/// @param max_delta The greatest magnitude.
GradientTransformation clip(const Number& max_delta);
/// Scales all gradients down if their global_norm is above max_norm: Pascanu, Mikolov and Bengio 2013, "On the
/// difficulty of training recurrent neural networks".
/// @param max_norm The greatest norm.
GradientTransformation clip_by_global_norm(const Number& max_norm);
/// Scales each array down if its root mean square is above the threshold.
/// @param threshold The greatest root mean square.
GradientTransformation clip_by_block_rms(const Number& threshold);
/// Scales each unit's gradient (a column of a matrix, an output of a convolution, a whole vector) down if its norm is
/// above `clipping` times that of its weights, which counts as at least eps: Brock et al. 2021, "High-performance
/// large-scale image recognition without normalization".
/// @param clipping The greatest quotient of both norms.
/// @param eps The least norm of weights.
GradientTransformation adaptive_grad_clip(const Number& clipping, const Number& eps = 1e-3);
/// Replaces NaN by 0. The state says which parameters had NaN: "found_nan" and the path.
GradientTransformation zero_nans();
/// Skips updates in which an element is infinite or NaN, unless more than max_consecutive_errors come in a row. The
/// state counts them: "notfinite_count" in a row, "total_notfinite" in all.
/// @param max_consecutive_errors How many updates in a row are skipped at most.
GradientTransformation apply_if_finite(const GradientTransformation& inner, std::int64_t max_consecutive_errors);

struct MultiStepsOptions {
  bool use_grad_mean = true;  ///< Use the mean of the gradients, not their sum.
  Dtype accumulator_dtype = float32;
};
/// Applies the transformation to the gradients of every k steps together; the other steps give zeros. The state counts
/// "mini_step"s and "gradient_step"s.
/// @param every_k_schedule How many steps.
GradientTransformation multi_steps(const GradientTransformation& inner, std::int64_t every_k_schedule,
                                   const MultiStepsOptions& options = {},
                                   SourceLocation where = SourceLocation::current());

// ---- Optimizers: what the papers above call by their names.

struct SgdOptions {
  std::optional<Number> momentum = {};
  bool nesterov = false;
  std::optional<Dtype> accumulator_dtype = {};
};
/// Stochastic gradient descent, with momentum if it is given: trace, then scale_by_learning_rate.
GradientTransformation sgd(const Schedule& learning_rate, const SgdOptions& options = {});
/// scale_by_adam, then scale_by_learning_rate.
GradientTransformation adam(const Schedule& learning_rate, const AdamOptions& options = {});
struct AdamWOptions {
  Number b1 = 0.9;
  Number b2 = 0.999;
  Number eps = 1e-8;
  Number eps_root = 0.0;
  std::optional<Dtype> mu_dtype = {};
  Schedule weight_decay = 1e-4;
  Mask mask = {};  ///< Selects the parameters whose weights decay.
  bool nesterov = false;
};
/// scale_by_adam, add_decayed_weights, then scale_by_learning_rate.
GradientTransformation adamw(const Schedule& learning_rate, const AdamWOptions& options = {});
struct LionWOptions {
  Number b1 = 0.9;
  Number b2 = 0.99;
  std::optional<Dtype> mu_dtype = {};
  Schedule weight_decay = 1e-3;
  Mask mask = {};
};
/// scale_by_lion, add_decayed_weights, then scale_by_learning_rate.
GradientTransformation lion(const Schedule& learning_rate, const LionWOptions& options = {});
struct LambOptions {
  Number b1 = 0.9;
  Number b2 = 0.999;
  Number eps = 1e-6;
  Number eps_root = 0.0;
  Schedule weight_decay = 0.0;
  Mask mask = {};
};
/// Adam with scale_by_trust_ratio.
/// scale_by_adam, add_decayed_weights, scale_by_trust_ratio, then scale_by_learning_rate.
GradientTransformation lamb(const Schedule& learning_rate, const LambOptions& options = {});
/// scale_by_rss, then scale_by_learning_rate.
GradientTransformation adagrad(const Schedule& learning_rate, const Number& initial_accumulator_value = 0.1,
                               const Number& eps = 1e-7);
struct RmspropOptions {
  Number decay = 0.9;
  Number eps = 1e-8;
  Number initial_scale = 0.0;
  bool eps_in_sqrt = true;
  std::optional<Number> momentum = {};
  bool nesterov = false;
  bool bias_correction = false;
};
/// scale_by_rms, then scale_by_learning_rate, then trace if there is a momentum.
GradientTransformation rmsprop(const Schedule& learning_rate, const RmspropOptions& options = {});
struct AdafactorOptions {
  std::int64_t min_dim_size_to_factor = 128;
  Number decay_rate = 0.8;
  std::int64_t decay_offset = 0;
  bool multiply_by_parameter_scale = true;
  std::optional<Number> clipping_threshold = 1.0;
  std::optional<Number> momentum = {};
  Dtype dtype_momentum = float32;
  std::optional<Schedule> weight_decay_rate = {};
  Number eps = 1e-30;
  bool factored = true;
  Mask weight_decay_mask = {};
};
/// Without a rate the paper's own relative steps are left to a schedule in the chain.
GradientTransformation adafactor(const std::optional<Schedule>& learning_rate = {},
                                 const AdafactorOptions& options = {});
struct MuonOptions {
  MuonScaleOptions muon = {};
  Schedule weight_decay = 0.0;
  Mask weight_decay_mask = {};
  Number adam_b1 = 0.9;
  Number adam_b2 = 0.999;
  Number adam_eps_root = 0.0;
  Schedule adam_weight_decay = 0.0;
  std::optional<Schedule> adam_learning_rate = {};  ///< Default: that of the matrices.
  /// Scales an update to this root mean square, times the root of the larger extent. By default the update is
  /// multiplied by the root of the ratio of outputs to inputs, if that is above 1.
  std::optional<Number> consistent_rms = {};
};
/// scale_by_muon for the matrices, adamw for the other parameters.
GradientTransformation muon(const Schedule& learning_rate, const MuonOptions& options = {},
                            SourceLocation where = SourceLocation::current());

}  // namespace shoal::optimizers
