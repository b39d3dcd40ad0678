// What a program is told to take is what it takes of the allocator, and a step that is repeated takes nothing new.
#include <gtest/gtest.h>
#include <shoal/shoal.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <limits>
#include <random>
#include <regex>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "../benchmarks/gpt.h"
#include "base/thread_pool.h"
#include "core/host_allocator.h"
#include "runtime/lane.h"

namespace shoal {
namespace {

// launch_bytes() of a compiled function, as its explanation tells them.
template <class Compiled>
std::int64_t planned_bytes(const Compiled& compiled) {
  std::smatch found;
  const std::string text = compiled.explain_memory();
  if (!std::regex_search(text, found, std::regex("takes ([0-9]+) bytes"))) throw std::runtime_error(text);
  return std::stoll(found[1]);
}

template <class Tree>
void wait_for(const Tree& tree) {
  for (const Array& leaf : tree::flatten(tree)) leaf.block_until_ready();
}

void settle() { Lane::shared().drain(); }  // Programs let their memory go a moment after their results are there.

// The most bytes of the allocator that are taken while `call` runs, beside those before it.
std::int64_t taken_by(const std::function<void()>& call) {
  HostAllocator& memory = HostAllocator::shared();
  settle();
  memory.trim();
  memory.forget_peak();
  const std::size_t before = memory.peak_bytes();
  call();
  settle();
  return static_cast<std::int64_t>(memory.peak_bytes() - before);
}

template <class Compiled, class... Args>
void expect_to_take_what_is_planned(const Compiled& compiled, const Args&... args) {
  const std::int64_t planned = planned_bytes(compiled);
  (wait_for(args), ...);
  const std::int64_t taken = taken_by([&] { wait_for(compiled(args...)); });
  // What a kernel works in while it runs is no part of the plan: each thread may have some of it.
  constexpr double kOfThread = 256 << 10;
  const double room = 0.01 * static_cast<double>(planned) + kOfThread * ThreadPool::shared().thread_count();
  EXPECT_LE(static_cast<double>(taken - planned), room) << "planned " << planned << ", taken " << taken;
  EXPECT_LE(static_cast<double>(planned - taken), 0.01 * static_cast<double>(planned))
      << "planned " << planned << ", taken " << taken;
}

Array random_array(const Dims& shape, std::uint64_t seed) { return 0.1F * random::normal(random::key(seed), shape); }

// ---- A perceptron of three layers.

struct Mlp {
  Array w1, b1, w2, b2, w3;
};

Mlp make_mlp(std::int64_t width) {
  return {random_array({width, 2 * width}, 1), random_array({2 * width}, 2), random_array({2 * width, width}, 3),
          random_array({width}, 4), random_array({width, 8}, 5)};
}

Array mlp_loss(const Mlp& mlp, const Array& x, const Array& y) {
  const Array h = tanh(matmul(x, mlp.w1) + mlp.b1);
  const Array error = matmul(tanh(matmul(h, mlp.w2) + mlp.b2), mlp.w3) - y;
  return mean(error * error);
}

Mlp descend(const Mlp& mlp, const Array& x, const Array& y) {
  return tree::map([](const Array& w, const Array& g) { return w - 0.01F * g; }, mlp, grad(mlp_loss)(mlp, x, y));
}

TEST(PlannedMemory, GradientOfAPerceptron) {
  const Mlp mlp = make_mlp(128);
  const Array x = random_array({256, 128}, 6);
  const Array y = random_array({256, 8}, 7);
  expect_to_take_what_is_planned(jit(grad(mlp_loss)).lower(mlp, x, y).compile(), mlp, x, y);
  // Within a budget, too.
  const auto all = jit(grad(mlp_loss)).lower(mlp, x, y).compile();
  const auto lean = jit(grad(mlp_loss), {.memory_budget = planned_bytes(all) * 9 / 10}).lower(mlp, x, y).compile();
  EXPECT_LE(planned_bytes(lean), planned_bytes(all) * 9 / 10);
  expect_to_take_what_is_planned(lean, mlp, x, y);
}

// The least that a message tells is enough, and is what is taken.
TEST(PlannedMemory, TheLeastThatIsToldWorks) {
  const Mlp mlp = make_mlp(128);
  const Array x = random_array({256, 128}, 6);
  const Array y = random_array({256, 8}, 7);
  std::int64_t least = 0;
  try {
    jit(grad(mlp_loss), {.memory_budget = 1000}).lower(mlp, x, y).compile();
    FAIL() << "it needs more";
  } catch (const OutOfMemory& error) {
    std::smatch found;
    const std::string text = error.what();
    ASSERT_TRUE(std::regex_search(text, found, std::regex("beside its arguments is ([0-9]+) bytes"))) << text;
    least = std::stoll(found[1]);
  }
  const auto lean = jit(grad(mlp_loss), {.memory_budget = least}).lower(mlp, x, y).compile();
  EXPECT_EQ(planned_bytes(lean), least);
  expect_to_take_what_is_planned(lean, mlp, x, y);
  EXPECT_THROW(jit(grad(mlp_loss), {.memory_budget = least - 1}).lower(mlp, x, y).compile(), OutOfMemory);
}

// What is donated holds results: nothing is taken for these. A matrix that its own result is computed from may hold
// another that is as large.
TEST(PlannedMemory, DonatedArguments) {
  const Array x = random_array({256, 128}, 6);
  const Array y = random_array({256, 8}, 7);
  const auto kept = jit(descend).lower(make_mlp(128), x, y).compile();
  const auto step = jit(descend, {.donate_argnums = {0}}).lower(make_mlp(128), x, y).compile();
  // Of both large matrices one is new.
  constexpr std::int64_t kLarge = 128 * 256 * 4;
  EXPECT_LT(planned_bytes(step), planned_bytes(kept) - kLarge);
  expect_to_take_what_is_planned(step, make_mlp(128), x, y);
}

TEST(PlannedMemory, OverEightDevices) {
  const Mesh mesh = make_mesh({4, 2}, {"data", "model"});
  const auto put = [&](const Array& a, const PartitionSpec& spec) { return device_put(a, NamedSharding(mesh, spec)); };
  const Mlp whole = make_mlp(256);
  const Mlp mlp = {put(whole.w1, P(none, "model")), put(whole.b1, P("model")), put(whole.w2, P("model", none)),
                   put(whole.b2, P()), put(whole.w3, P())};
  const Array x = put(random_array({512, 256}, 6), P("data"));
  const Array y = put(random_array({512, 8}, 7), P("data"));
  expect_to_take_what_is_planned(jit(grad(mlp_loss)).lower(mlp, x, y).compile(), mlp, x, y);
  expect_to_take_what_is_planned(jit(descend, {.donate_argnums = {0}}).lower(mlp, x, y).compile(), mlp, x, y);
}

// ---- A loop.

TEST(PlannedMemory, GradientOfAScan) {
  const Array w = random_array({64, 64}, 1);
  const Array x = random_array({256, 64}, 2);
  const auto cell = [](const Array& weights, const Array& h) { return tanh(matmul(h, weights)) * sin(h) + h; };
  const auto loss = [&](const auto& body) {
    return [body](const Array& weights, const Array& start) {
      const auto trip = [&](const Array& h, std::int64_t) { return body(weights, h); };
      return sum(lax::fori_loop(
          0, 24, [&](const Array&, const Array& h) { return trip(h, 0); }, start));
    };
  };
  const auto plain = jit(grad(loss(cell))).lower(w, x).compile();
  const auto remade = jit(grad(loss(checkpoint(cell)))).lower(w, x).compile();
  EXPECT_LT(planned_bytes(remade), planned_bytes(plain));
  expect_to_take_what_is_planned(plain, w, x);
  expect_to_take_what_is_planned(remade, w, x);
}

// ---- The language model of the benchmark with two layers.

bench::Gpt small_gpt() {
  std::uint64_t seed = 0;
  bench::Gpt gpt = bench::make_gpt([&](bench::GptKind kind, const Dims& shape, const PartitionSpec&) {
    return kind == bench::GptKind::kOnes    ? ones(shape)
           : kind == bench::GptKind::kZeros ? zeros(shape)
                                            : 0.2F * random_array(shape, ++seed);
  });
  gpt.layers.resize(2);
  return gpt;
}

Array gpt_loss(const bench::Gpt& gpt, const Array& tokens) {
  const Array logits = nn::log_softmax(bench::gpt_forward(gpt, tokens), -1);
  return -mean(take_along_axis(logits, expand_dims(roll(tokens, -1, 1), 2), 2));
}

bench::Gpt gpt_step(const bench::Gpt& gpt, const Array& tokens) {
  return tree::map([](const Array& w, const Array& g) { return w - 0.1F * g; }, gpt, grad(gpt_loss)(gpt, tokens));
}

Array some_tokens(std::int64_t batch) {
  return random::randint(random::key(9), {batch, bench::kSequence}, 0, static_cast<std::int32_t>(bench::kVocabulary));
}

TEST(PlannedMemory, StepOfALanguageModel) {
  const bench::Gpt gpt = small_gpt();
  const Array tokens = some_tokens(2);
  expect_to_take_what_is_planned(jit(gpt_step).lower(gpt, tokens).compile(), gpt, tokens);
}

// ---- Steps that follow each other.

// The fewest blocks that the system gives for eight steps in a row of a training whose results are the next arguments.
// The first steps take blocks, and so does a thread that has not had a part of such a kernel before, for what it works
// in: when that is, is a matter of time, and it happens a few times at most.
template <class Step, class State, class... Data>
std::uint64_t blocks_of_steady_steps(const Step& step, State state, const Data&... data) {
  const HostAllocator& memory = HostAllocator::shared();
  std::uint64_t fewest = std::numeric_limits<std::uint64_t>::max();
  for (int attempt = 0; attempt < 12 && fewest > 0; ++attempt) {
    const std::uint64_t before = memory.blocks_from_system();
    for (int i = 0; i < 8; ++i) {
      // The old state lives until the step has run: were it given up beside it, the step would use the blocks of those
      // that are given up before their last use, and how many these are would be a matter of time.
      State next = step(state, data...);
      wait_for(next);
      settle();
      state = std::move(next);
    }
    fewest = std::min(fewest, memory.blocks_from_system() - before);
  }
  return fewest;
}

TEST(PlannedMemory, SteadyStepsTakeNoNewBlock) {
  if (!HostAllocator::kCaches) return;  // Each block is a new one.
  const Array x = random_array({256, 128}, 6);
  const Array y = random_array({256, 8}, 7);
  EXPECT_EQ(blocks_of_steady_steps(jit(descend), make_mlp(128), x, y), 0U);
  EXPECT_EQ(blocks_of_steady_steps(jit(descend, {.donate_argnums = {0}}), make_mlp(128), x, y), 0U);
  EXPECT_EQ(blocks_of_steady_steps(jit(gpt_step, {.donate_argnums = {0}}), small_gpt(), some_tokens(2)), 0U);
}

TEST(PlannedMemory, SteadyStepsOverDevicesTakeNoNewBlock) {
  if (!HostAllocator::kCaches) return;
  const Mesh mesh = make_mesh({8}, {"data"});
  const Mlp mlp = tree::map([&](const Array& w) { return device_put(w, NamedSharding(mesh, P())); }, make_mlp(128));
  const Array x = device_put(random_array({256, 128}, 6), NamedSharding(mesh, P("data")));
  const Array y = device_put(random_array({256, 8}, 7), NamedSharding(mesh, P("data")));
  EXPECT_EQ(blocks_of_steady_steps(jit(descend), mlp, x, y), 0U);
}

}  // namespace
}  // namespace shoal
