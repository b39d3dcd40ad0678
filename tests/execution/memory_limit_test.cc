// Programs that need more memory than they may take compute values again instead of keeping them: with the same bits,
// and never beyond the limit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <shoal/shoal.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "core/host_allocator.h"
#include "room.h"

namespace shoal {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kRows = 256;
constexpr std::int64_t kWidth = 128;
constexpr std::int64_t kBytes = kRows * kWidth * 4;  // Of what a layer gives to the next.

Array wave(Shape shape) {
  std::int64_t size = 1;
  for (std::int64_t extent : shape) size *= extent;
  return sin(arange(size).astype(float32)).reshape(shape);
}

// What a layer gives, and from its gradient those of its weights and of what it was given.
struct Layer {
  std::function<Array(const Array& x, const Array& w)> forward;
  std::function<std::vector<Array>(const Array& x, const Array& y, const Array& w, const Array& g)> backward;
};

Layer dense() {
  return {[](const Array& x, const Array& w) { return tanh(matmul(x, w)); },
          [](const Array& x, const Array& y, const Array& w, const Array& g) {
            const Array inner = g * (1 - y * y);
            return std::vector{matmul(x.transpose(), inner), matmul(inner, w.transpose())};
          }};
}

Layer residual() {
  return {[](const Array& x, const Array& w) { return x + tanh(matmul(x, w)); },
          [](const Array& x, const Array& y, const Array& w, const Array& g) {
            const Array inner = y - x;
            const Array slope = g * (1 - inner * inner);
            return std::vector{matmul(x.transpose(), slope), g + matmul(slope, w.transpose())};
          }};
}

Layer normalised() {
  const auto scaled = [](const Array& x) {
    const Array centred = x - mean(x, {.axis = 1, .keepdims = true});
    return centred / sqrt(mean(centred * centred, {.axis = 1, .keepdims = true}) + 1e-5f);
  };
  return {[=](const Array& x, const Array& w) { return x + matmul(scaled(x), w); },
          [=](const Array& x, const Array&, const Array& w, const Array& g) {
            return std::vector{matmul(scaled(x).transpose(), g), g + matmul(g, w.transpose())};
          }};
}

// A step of training: all layers forwards, and then backwards, where what each gave is needed again.
auto training_step(const Layer& layer, int depth, std::string name = "step") {
  return jit(
      [=](const Array& x, const Array& w) {
        std::vector<Array> values = {x};
        for (int i = 0; i < depth; ++i) values.push_back(layer.forward(values.back(), w));
        Array gradient = values.back();
        Array weights = zeros({kWidth, kWidth});
        for (std::size_t i = static_cast<std::size_t>(depth); i-- > 0;) {
          const std::vector<Array> both = layer.backward(values[i], values[i + 1], w, gradient);
          weights = weights + both[0];
          gradient = both[1];
        }
        return weights;
      },
      {.name = std::move(name)});
}

struct NamedLayer {
  const char* name;
  Layer (*make)();
};

class MemoryLimit : public testing::TestWithParam<NamedLayer> {};

TEST_P(MemoryLimit, FitsAProgramInto) {
  constexpr int kDepth = 24;
  const Array x = wave({kRows, kWidth});
  const Array w = wave({kWidth, kWidth}) * 0.1f;
  const Layer layer = GetParam().make();
  const Array expected = training_step(layer, kDepth)(x, w);
  const std::vector<float> elements = expected.to_vector<float>();
  EXPECT_GT(training_step(layer, kDepth).lower(x, w).compile().memory_analysis().temp_size, kDepth * kBytes);
  for (const std::int64_t values : {20, 14}) {
    const Room room(values * kBytes);
    const auto f = training_step(layer, kDepth).lower(x, w).compile();
    EXPECT_LE(f.memory_analysis().temp_size, values * kBytes) << values;
    EXPECT_NE(f.as_text("rematerialized"), f.as_text("fused"));
    EXPECT_EQ(f(x, w).template to_vector<float>(), elements) << values;
    const HostAllocator& memory = HostAllocator::shared();
    EXPECT_LE(memory.bytes_in_use() + memory.bytes_cached(), memory.limit());
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, MemoryLimit,
                         testing::Values(NamedLayer{"Dense", dense}, NamedLayer{"Residual", residual},
                                         NamedLayer{"Normalised", normalised}),
                         [](const auto& layer) { return layer.param.name; });

int count_of(const std::string& text, const std::string& word) {
  int count = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

// Layers that need the mean over all devices, there and back: what is exchanged is exchanged once.
TEST(MemoryLimit, OnManyDevices) {
  const auto there_and_back = [](const Array& x, const Array& w) {
    std::vector<Array> values = {x};
    for (int i = 0; i < 16; ++i) {
      const Array& last = values.back();
      values.push_back(tanh(matmul(last, w) - mean(last, {.axis = 0, .keepdims = true})));
    }
    Array gradient = values.back();
    for (std::size_t i = values.size(); i-- > 1;) {
      const Array slope = gradient * (1 - values[i] * values[i]);
      gradient = matmul(slope, w.transpose()) - mean(slope, {.axis = 0, .keepdims = true});
    }
    return gradient;
  };
  const Mesh mesh = make_mesh({8}, {"i"});
  const Array x = device_put(wave({kRows, kWidth}), NamedSharding(mesh, P("i")));
  const Array w = device_put(wave({kWidth, kWidth}) * 0.1f, NamedSharding(mesh, P()));
  const auto full = jit(there_and_back).lower(x, w).compile();
  const std::vector<float> expected = full(x, w).to_vector<float>();
  std::optional<Room> room(10 * kBytes);
  const auto f = jit(there_and_back).lower(x, w).compile();
  EXPECT_LT(f.memory_analysis().temp_size, full.memory_analysis().temp_size * 2 / 3);
  EXPECT_EQ(f.as_text(), full.as_text());
  EXPECT_EQ(count_of(f.as_text("rematerialized"), "all_reduce"), 32);
  const Array found = f(x, w).block_until_ready();
  room.reset();  // The copy for the test is beside it.
  EXPECT_EQ(found.to_vector<float>(), expected);
}

// What is compiled when, and what that saves.
TEST(MemoryLimit, IsToldInTheLog) {
  const Array x = wave({kRows, kWidth});
  const Array w = wave({kWidth, kWidth}) * 0.1f;
  std::string text;
  const LogSink sink = set_log_sink([&](LogLevel, std::string_view line) { text += std::string(line) + "\n"; });
  const std::string topics = set_log_topics("compile");
  {
    const Room room(10 * kBytes);
    training_step(dense(), 12, "twelve").lower(x, w).compile();
  }
  set_log_topics(topics);
  set_log_sink(sink);
  EXPECT_THAT(text, testing::ContainsRegex("twelve: a launch would take [0-9]+ bytes, and [0-9]+ are left: it takes "
                                           "[0-9]+ \\([0-9]+ fewer\\).*, with [0-9]+ steps that compute something "
                                           "again"));
}

// A body holds in the memory of the host what it puts there: what is told to be taken is what is taken.
TEST(MemoryLimit, CountsWhatLoopsHoldInTheMemoryOfTheHost) {
  const Array x = wave({kRows, kWidth});
  const auto f = jit([](const Array& a) {
                   const auto body = [](const Array&, const Array& carry) {
                     const NamedSharding here(make_mesh({1}, {"i"}), P());
                     const Array away = device_put(sort(carry), here.with_memory_kind("pinned_host"));
                     return flip(sort(flip(carry, 0)), 1) + device_put(away, here);
                   };
                   return lax::fori_loop(0, 3, body, a);
                 })
                     .lower(x)
                     .compile();
  std::smatch found;
  const std::string text = f.explain_memory();
  ASSERT_TRUE(std::regex_search(text, found, std::regex("takes ([0-9]+) bytes"))) << text;
  EXPECT_THAT(text, HasSubstr("bytes that bodies of loops and branches hold in the memory of the host\n"));
  const std::int64_t taken = std::stoll(found[1]);
  {
    const Room room(taken - kBytes / 2);
    EXPECT_THROW(f(x).block_until_ready(), OutOfMemory);
  }
  const Room room(taken);
  f(x).block_until_ready();
}

TEST(MemoryLimit, SaysWhatDoesNotFit) {
  const Array x = wave({kRows, kWidth});
  const unsigned line = __LINE__ + 1;
  const auto f = jit([](const Array& a) { return flip(sort(a), 0) * sort(flip(a, 1)); }, {.name = "both"});
  const std::string value = "f32.256,128. of [a-z]+";
  const std::string made = " at memory_limit_test.cc:" + std::to_string(line) + " with 131072";
  // There is room for none of two values that are needed at a time, and then for these, but not for the result.
  for (const std::int64_t values : {1, 2}) {
    const Room room(values * kBytes);
    try {
      f(x).block_until_ready();
      FAIL() << "it needs three values";
    } catch (const OutOfMemory& error) {
      const std::string text = error.what();
      EXPECT_THAT(text, HasSubstr(values == 1 ? "what 'both' holds at a time, most of it here, needs 262144 bytes in"
                                              : "out of memory: float32(256, 128) needs 131072 bytes in"));
      const std::string limit = std::to_string(HostAllocator::shared().limit());
      EXPECT_THAT(text, HasSubstr("of the " + limit + " bytes that this process may take"));
      EXPECT_THAT(text, testing::ContainsRegex("the largest values here: " + value + made + ", " + value + made));
      ASSERT_TRUE(error.where().has_value());
      EXPECT_EQ(error.where()->line(), line);
    }
  }
}

}  // namespace
}  // namespace shoal
