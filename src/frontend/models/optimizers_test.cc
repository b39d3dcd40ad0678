// Optimizers and schedules, against what Optax gave (testdata/optimizers.inc and schedules.inc), and what they do over
// devices and in jit.
#include "shoal/optimizers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <complex>
#include <functional>
#include <limits>
#include <tuple>
#include <vector>

#include "frontend/test_support.h"
#include "sharding/test_support.h"
#include "shoal/control_flow.h"
#include "shoal/derivatives.h"
#include "shoal/jit.h"
#include "shoal/numpy.h"
#include "shoal/vmap.h"
#include "spmd/test_collectives.h"

namespace shoal::test {
namespace {

using namespace optimizers;

using test_support::message_of;
using testing::HasSubstr;

bool is_matrix(const std::string&, const Array& parameter) { return parameter.ndim() == 2; }
std::string label_of(const std::string&, const Array& parameter) { return parameter.ndim() == 2 ? "m" : "v"; }

struct RecordedOptimizer {
  const char* name;
  GradientTransformation (*make)();
  std::vector<std::vector<float>> steps;
};
const RecordedOptimizer kOptimizers[] = {
#include "frontend/testdata/optimizers.inc"
};
struct RecordedSchedule {
  const char* name;
  Schedule (*make)();
  std::vector<float> values;
};
const RecordedSchedule kSchedules[] = {
#include "frontend/testdata/schedules.inc"
};

struct Params {
  Array b;
  Array w;
};
[[maybe_unused]] auto shoal_tree(Params& p) { return fields(field("b", p.b), field("w", p.w)); }

// Those that tools/record_training.py begins with, and its gradients.
Array first(const Shape& shape) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < num_elements(shape); ++i) values.push_back(static_cast<float>((i * 5 + 3) % 11 - 5) / 8);
  return array(values).reshape(shape);
}
Params first_params() { return {first({3}), first({4, 3})}; }
Params gradients_of(const Params& params, std::int64_t t) {
  return tree::map(
      [&](const Array& p) {
        std::vector<float> wave;
        for (std::int64_t i = 0; i < p.size(); ++i) wave.push_back(static_cast<float>((i * 7 + t * 5) % 13 - 6) / 8);
        return array(wave).reshape(p.shape()) + p * 0.25;
      },
      params);
}

// How far a is from b, in floats that lie between numbers as large as b, or as `scale` if that is larger: a parameter
// that passes near 0 has the roundings of what it was made of.
double distance(float a, float b, float scale = 0) {
  const float magnitude = std::max(std::abs(b), scale);
  const float next = std::nextafter(magnitude, std::numeric_limits<float>::infinity());
  return std::abs(static_cast<double>(a) - static_cast<double>(b)) / static_cast<double>(next - magnitude);
}

TEST(Optimizers, TwentyStepsAsOptax) {
  constexpr float kScale = 0.5F;  // Of the parameters at first.
  for (const RecordedOptimizer& recorded : kOptimizers) {
    const GradientTransformation optimizer = recorded.make();
    const auto step = jit([&](const Params& params, const State& state, const Params& gradients) {
      auto [updates, next] = optimizer.update(gradients, state, params);
      return std::pair(apply_updates(params, updates), next);
    });
    Params params = first_params();
    State state = optimizer.init(params);
    double worst = 0;
    std::int64_t t = 0;
    for (const std::vector<float>& expected : recorded.steps) {
      std::tie(params, state) = step(params, state, gradients_of(params, t++));
      std::vector<float> got = params.b.to_vector<float>();
      const std::vector<float> w = params.w.reshape(-1).to_vector<float>();
      got.insert(got.end(), w.begin(), w.end());
      ASSERT_EQ(got.size(), expected.size());
      for (std::size_t i = 0; i < got.size(); ++i) {
        worst = std::max(worst, distance(got[i], expected[i], kScale));
      }
    }
    // Muon multiplies matrices fifteen times over, in which no two libraries add in one order.
    EXPECT_LE(worst, std::string(recorded.name).find("muon") == std::string::npos ? 4 : 8) << recorded.name;
  }
}

TEST(Optimizers, SchedulesAsOptax) {
  const std::vector<int> counts = {0, 1, 2, 5, 9, 10, 11, 19, 20, 35, 1000};
  for (const RecordedSchedule& recorded : kSchedules) {
    const Schedule schedule = recorded.make();
    ASSERT_EQ(recorded.values.size(), counts.size());
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const Array value = schedule(Array(counts[i]));
      EXPECT_EQ(value.shape(), Shape());
      EXPECT_LE(distance(value.item<float>(), recorded.values[i]), 4)
          << recorded.name << " after " << counts[i] << ": " << value << " for " << recorded.values[i];
    }
  }
}

// Moments lie as their parameters do, and steps of parameters that are split give what whole ones give.
TEST(Optimizers, MomentsLieAsTheirParameters) {
  const Params split{put(first({8}), mesh_8(), P("i")), put(first({8, 4}), mesh_8(), P("i", none))};
  const Params whole{first({8}), first({8, 4})};
  const GradientTransformation optimizer = chain({clip_by_global_norm(1), adamw(0.1)});
  const auto step = jit([&](const Params& params, const State& state) {
    auto [updates, next] = optimizer.update(tree::map([](const Array& p) { return p * p; }, params), state, params);
    return std::pair(apply_updates(params, updates), next);
  });
  const State state = optimizer.init(split);
  EXPECT_TRUE(state.at("1.0.mu.w").sharding().is_equivalent_to(split.w.sharding(), 2));
  auto [params, next] = step(split, state);
  EXPECT_TRUE(next.at("1.0.nu.w").sharding().is_equivalent_to(split.w.sharding(), 2));
  EXPECT_TRUE(params.w.sharding().is_equivalent_to(split.w.sharding(), 2));
  auto [same_params, same_next] = step(whole, optimizer.init(whole));
  EXPECT_TRUE(same(params.w, same_params.w));
  EXPECT_TRUE(same(params.b, same_params.b));
  EXPECT_EQ(next.size(), same_next.size());
}

TEST(Optimizers, ScannedStepsAreThoseOfALoop) {
  const GradientTransformation optimizer = adam(0.1);
  const auto step = [&](const std::pair<Params, State>& carry, const Array&) {
    auto [updates, next] = optimizer.update(carry.first, carry.second, carry.first);
    return std::pair(std::pair(apply_updates(carry.first, updates), next), Array(0));
  };
  std::pair<Params, State> carry(first_params(), optimizer.init(first_params()));
  const auto scanned =
      jit([&](const std::pair<Params, State>& c) { return lax::scan(step, c, arange(7)).first; })(carry);
  for (int i = 0; i < 7; ++i) carry = jit(step)(carry, Array(0)).first;
  EXPECT_TRUE(same(scanned.first.w, carry.first.w));
  EXPECT_EQ(scanned.second.at("0.count").item<int>(), 7);
}

TEST(Optimizers, NotFiniteGradientsAreSkippedAndCounted) {
  const GradientTransformation optimizer = apply_if_finite(adam(0.1), 1);
  const Array p = array({1.0F, 2.0F});
  const Array bad = array({NAN, 1.0F});
  State state = optimizer.init(p);
  auto [none, after_one] = optimizer.update(bad, state, p);
  EXPECT_TRUE(same(none, zeros({2})));
  EXPECT_EQ(after_one.at("notfinite_count").item<int>(), 1);
  EXPECT_EQ(after_one.at("inner.0.count").item<int>(), 0);
  auto [good, reset] = optimizer.update(array({1.0F, 1.0F}), after_one, p);
  EXPECT_EQ(reset.at("notfinite_count").item<int>(), 0);
  EXPECT_EQ(reset.at("total_notfinite").item<int>(), 1);
  EXPECT_EQ(reset.at("inner.0.count").item<int>(), 1);
  // The second in a row is let through: a run that cannot go on shows it.
  auto [let_through, after_two] = optimizer.update(bad, after_one, p);
  EXPECT_TRUE(std::isnan(let_through.to_vector<float>()[0]));
  EXPECT_EQ(after_two.at("inner.0.count").item<int>(), 1);
}

TEST(Optimizers, NansBecomeZerosAndAreNamed) {
  const GradientTransformation optimizer = zero_nans();
  const Params params = first_params();
  Params gradients = params;
  gradients.b = array({1.0F, NAN, 2.0F});
  auto [updates, state] = optimizer.update(gradients, optimizer.init(params), params);
  EXPECT_TRUE(same(updates.b, array({1.0F, 0.0F, 2.0F})));
  EXPECT_TRUE(state.at("found_nan.b").item<bool>());
  EXPECT_FALSE(state.at("found_nan.w").item<bool>());
}

TEST(Optimizers, OfTheUser) {
  const GradientTransformation halved([](const Leaves&) { return State(); },
                                      [](const Leaves& gradients, const State&, const Leaves&) {
                                        std::vector<Array> updates;
                                        for (const Array& g : gradients.arrays) updates.push_back(g * -0.5);
                                        return std::pair(updates, State());
                                      });
  const Array p = array({1.0F, 2.0F});
  const auto [updates, state] = chain({halved, scale(2)}).update(p, {}, p);
  EXPECT_TRUE(same(apply_updates(p, updates), zeros({2})));
}

TEST(Optimizers, ComplexGradientsAreAccumulatedWhole) {
  const Array g = array(std::vector<std::complex<float>>{{1, 2}, {0, 3}});
  const GradientTransformation optimizer = multi_steps(sgd(1), 2);
  State state = optimizer.init(g);
  Array updates;
  for (int i = 0; i < 2; ++i) std::tie(updates, state) = optimizer.update(g, state, g);
  EXPECT_TRUE(same(updates, -g)) << updates;
}

TEST(Optimizers, HalfPrecisionStaysSo) {
  const Array p = array({1.0F, 2.0F}).astype(bfloat16);
  for (const GradientTransformation& optimizer :
       {adamw(0.1), lion(0.1), sgd(0.1, {.momentum = 0.9}), rmsprop(0.1), adafactor(0.1), lamb(0.1)}) {
    const State state = optimizer.init(p);
    const auto [updates, next] = optimizer.update(p, state, p);
    EXPECT_EQ(apply_updates(p, updates).dtype(), bfloat16);
    for (const auto& [name, array] : next) EXPECT_EQ(array.dtype(), state.at(name).dtype()) << name;
  }
  EXPECT_EQ(multi_steps(sgd(0.1), 2).init(p).at("acc_grads").dtype(), float32);
}

TEST(Optimizers, DerivativesByTheirNumbers) {
  using Make = std::function<GradientTransformation(const Number&)>;
  const std::vector<std::tuple<const char*, double, Make>> cases = {
      {"learning_rate", 0.1, [](const Number& x) { return sgd(x, {.momentum = 0.9, .nesterov = true}); }},
      {"momentum", 0.9, [](const Number& x) { return sgd(0.1, {.momentum = x}); }},
      {"b1", 0.8, [](const Number& x) { return adam(0.1, {.b1 = x, .nesterov = true}); }},
      {"b2", 0.9, [](const Number& x) { return adam(0.1, {.b2 = x, .eps_root = 0.01}); }},
      {"eps", 0.2, [](const Number& x) { return adamw(0.1, {.eps = x}); }},
      {"eps_root", 0.3, [](const Number& x) { return adam(0.1, {.eps_root = x}); }},
      {"weight_decay", 0.2, [](const Number& x) { return lion(0.1, {.weight_decay = x}); }},
      {"rms", 0.7, [](const Number& x) { return rmsprop(0.1, {.decay = x, .initial_scale = x, .momentum = x}); }},
      {"accumulator", 0.4, [](const Number& x) { return adagrad(0.1, x, x); }},
      {"lamb", 0.3, [](const Number& x) { return lamb(0.1, {.eps = x, .weight_decay = x}); }},
      {"adafactor", 0.7, [](const Number& x) { return adafactor(x, {.decay_rate = x, .clipping_threshold = x}); }},
      {"muon", 0.6, [](const Number& x) { return muon(x, {.muon = {.beta = x}, .consistent_rms = x}); }},
      {"ema", 0.6,
       [](const Number& x) {
         return chain({ema(x), trace(x), scale(x)});
       }},
      {"clip", 0.4,
       [](const Number& x) {
         return chain({clip(x), clip_by_global_norm(x), clip_by_block_rms(x)});
       }},
      {"agc", 0.2, [](const Number& x) { return adaptive_grad_clip(x, x); }},
      {"cosine", 0.3, [](const Number& x) { return sgd(warmup_cosine_decay_schedule(x, 2.0 * x, 1, 4, x, x)); }},
      {"decay", 0.3, [](const Number& x) { return sgd(exponential_decay(x, 2, x, {.end_value = x})); }},
      {"pieces", 0.3,
       [](const Number& x) {
         return sgd(piecewise_constant_schedule(x, {{1, x}}));
       }},
      {"powers", 1.5, [](const Number& x) { return sgd(polynomial_schedule(x, 2.0 * x, x, 4)); }},
  };
  const auto wide = [](const Array& x) { return x.astype(float64); };
  const Params params = tree::map(wide, first_params());
  for (const auto& [name, at, make] : cases) {
    SCOPED_TRACE(name);
    const auto steps = [&, &make = make](const Number& x) {
      const GradientTransformation optimizer = make(x);
      State state = optimizer.init(params);
      Array sum = zeros({}, {.dtype = float64});
      for (std::int64_t t = 0; t < 3; ++t) {
        auto [updates, next] = optimizer.update(tree::map(wide, gradients_of(params, t)), state, params);
        sum = sum + (updates.w * params.w).sum() + updates.b.sum();
        state = next;
      }
      return sum;
    };
    const auto of_array = [&](const Array& x) { return steps(x); };
    const Array x = full({}, at, {.dtype = float64});
    const double value = steps(at).item<double>();
    EXPECT_NEAR(of_array(x).item<double>(), value, 1e-5 * std::max(std::abs(value), 1.0));
    const double slope = grad(of_array)(x).item<double>();
    constexpr double kStep = 1e-3;
    const double difference = (of_array(x + kStep).item<double>() - of_array(x - kStep).item<double>()) / (2 * kStep);
    EXPECT_NEAR(slope, difference, 1e-3 * std::max(std::abs(difference), 1.0));
    EXPECT_NEAR(jit(grad(of_array))(x).item<double>(), slope, 1e-5 * std::max(std::abs(slope), 1.0));
    const Array both = vmap(of_array)(stack({x, x + 0.125}));
    EXPECT_NEAR(both[1].item<double>(), of_array(x + 0.125).item<double>(), 1e-5 * std::max(std::abs(value), 1.0));
  }
}

TEST(Optimizers, Misuse) {
  const Params params = first_params();
  const GradientTransformation optimizer = adam(0.1);
  const State state = optimizer.init(params);
  Params other = params;
  other.b = zeros({4});
  EXPECT_THAT(message_of<TypeMismatch>([&] { optimizer.update(other, state, params); }),
              HasSubstr("optimizers::update: the gradient.b has shape (4,), its parameter (3,)"));
  EXPECT_THAT(message_of<InvalidArgument>([&] { optimizer.update(params, State(), params); }),
              HasSubstr("the state has no \"count\""));
  EXPECT_THAT(message_of<InvalidArgument>([&] { cosine_decay_schedule(0.1, 0); }),
              HasSubstr("cosine_decay_schedule: decay_steps is 0, and should be positive"));
  EXPECT_THAT(message_of<InvalidArgument>([&] { join_schedules({0.1}, {3}); }),
              HasSubstr("there are 1 schedules and 1 boundaries"));
  EXPECT_THAT(message_of<InvalidArgument>([&] { multi_steps(optimizer, 0); }), HasSubstr("every_k_schedule is 0"));
  EXPECT_THAT(message_of<InvalidArgument>([&] {
                piecewise_constant_schedule(0.1, {{3, -1}});
              }),
              HasSubstr("the scale at 3 is -1"));
  EXPECT_THAT(message_of<InvalidArgument>([&] { warmup_cosine_decay_schedule(0, 1, 5, 5); }),
              HasSubstr("decay_steps is 5"));
  EXPECT_THAT(message_of<InvalidArgument>([&] {
                partition({{"a", optimizer}}, label_of).init(params);
              }),
              HasSubstr("the parameter.b is labelled \"v\""));
  EXPECT_THAT(message_of<InvalidArgument>([&] {
                scale_by_muon({.ns_coeffs = {1, 2}});
              }),
              HasSubstr("there are 2 coefficients"));
}

}  // namespace
}  // namespace shoal::test
