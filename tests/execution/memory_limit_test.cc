// Programs that need more memory than they may take compute values again instead of keeping them: with the same bits,
// and never beyond the limit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <shoal/shoal.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "core/host_allocator.h"

namespace shoal {
namespace {

using testing::HasSubstr;

// What the process may take beside what it holds now, for as long as this lives.
class Room {
 public:
  explicit Room(std::size_t bytes) : memory_(HostAllocator::shared()), before_(memory_.limit()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    memory_.trim();
    memory_.set_limit(memory_.bytes_in_use() + bytes);
  }
  ~Room() { memory_.set_limit(before_); }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

 private:
  HostAllocator& memory_;
  std::size_t before_;
};

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
  expected.block_until_ready();
  const auto without = training_step(layer, kDepth).lower(x, w).compile();
  EXPECT_GT(without.memory_analysis().temp_size, kDepth * kBytes);
  for (const std::int64_t values : {20, 14}) {
    const Room room(static_cast<std::size_t>(values * kBytes));
    const auto f = training_step(layer, kDepth).lower(x, w).compile();
    EXPECT_LE(f.memory_analysis().temp_size, values * kBytes) << values;
    EXPECT_NE(f.as_text("rematerialized"), f.as_text("fused"));
    const Array found = f(x, w);
    EXPECT_EQ(found.to_vector<float>(), expected.to_vector<float>()) << values;
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, MemoryLimit,
                         testing::Values(NamedLayer{"Dense", dense}, NamedLayer{"Residual", residual},
                                         NamedLayer{"Normalised", normalised}),
                         [](const auto& layer) { return layer.param.name; });

}  // namespace
}  // namespace shoal
