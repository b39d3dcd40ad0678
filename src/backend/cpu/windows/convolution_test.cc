// The kernel of convolutions is compared with the reference of the op, and with itself where work is divided otherwise.
#include "backend/cpu/windows/convolution.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/kernel_test_support.h"
#include "backend/cpu/machine/simd_dispatch.h"
#include "backend/cpu/windows/convolution_plan.h"

namespace shoal::cpu {
namespace {

struct Convolution {
  Shape lhs;
  Shape rhs;
  Dims strides = {};
  Dims low = {};
  Dims high = {};
  Dims base = {};
  Dims dilation = {};

  Attrs attrs() const {
    const std::size_t count = lhs.size() - 2;
    const auto all = [count](const Dims& given, std::int64_t otherwise) {
      return given.empty() ? Dims(count, otherwise) : given;
    };
    return {{"strides", all(strides, 1)},
            {"low", all(low, 0)},
            {"high", all(high, 0)},
            {"base_dilation", all(base, 1)},
            {"window_dilation", all(dilation, 1)}};
  }
  std::string text() const {
    return fmt::format("{} by {}, strides {}, low {}, high {}, gaps {}, {}", to_string(lhs), to_string(rhs),
                       to_string(strides), to_string(low), to_string(high), to_string(base), to_string(dilation));
  }
};

// Numbers whose sums are not exact in the dtype; whole ones of any size for integers.
Buffer numbers_of(Dtype dtype, const Shape& shape, std::mt19937_64& random) {
  if (is_integer(dtype) || dtype == Dtype::kBool) return drawn_buffer(dtype, shape, Draw::kAnyBits, random);
  Buffer buffer(host_space({}), dtype, shape);
  std::uniform_real_distribution<float> number(-1, 1);
  with_element_type(dtype, [&](auto tag) {
    using T = decltype(tag);
    for (std::int64_t i = 0; i < num_elements(shape); ++i) {
      if constexpr (kIsComplexElement<T>) {
        const float real = number(random);
        static_cast<T*>(buffer.mutable_data())[i] = T(real, number(random));
      } else {
        static_cast<T*>(buffer.mutable_data())[i] = T(number(random));
      }
    }
  });
  return buffer;
}

struct Equation {
  Graph graph;

  Equation(const Convolution& c, Dtype dtype, std::optional<Dtype> out = {}) {
    const auto type = [&](const Shape& shape) {
      return Type{.dtype = dtype, .shape = shape, .weak = false, .memory = {}, .varying = {}};
    };
    const std::vector<ValueId> ids = {graph.add_input(type(c.lhs)), graph.add_input(type(c.rhs))};
    Attrs attrs = c.attrs();
    if (out) attrs.set("dtype", *out);
    graph.outputs = graph.add_eqn(op_named("convolution"), attrs, ids, SourceLocation::current());
  }
  std::unique_ptr<Kernel> kernel() const { return convolution_kernel(graph, graph.eqns[0]); }
  std::unique_ptr<Kernel> reference() const { return reference_kernel(graph.eqns[0], "reference"); }
  Dtype out() const { return graph.type(graph.outputs[0]).dtype; }
};

double epsilon(Dtype dtype) {
  switch (real_dtype(dtype)) {
    case Dtype::kF16:
      return 0x1p-10;
    case Dtype::kBF16:
      return 0x1p-7;
    case Dtype::kF32:
      return 0x1p-23;
    default:
      return 0x1p-52;
  }
}

void check_convolution(const Convolution& c, Dtype dtype, std::optional<Dtype> out_dtype = {}) {
  SCOPED_TRACE(fmt::format("{}: {}", name_of(dtype), c.text()));
  std::mt19937_64 random(7);
  const Equation equation(c, dtype, out_dtype);
  const std::vector<Buffer> inputs = {numbers_of(dtype, c.lhs, random), numbers_of(dtype, c.rhs, random)};
  const Buffer got = results_of(*equation.kernel(), inputs, equation.graph)[0];
  const Buffer want = results_of(*equation.reference(), inputs, equation.graph)[0];
  const std::int64_t products = num_elements(c.rhs) / std::max<std::int64_t>(1, c.rhs[0]);
  with_element_type(equation.out(), [&](auto tag) {
    using T = decltype(tag);
    const auto* x = static_cast<const T*>(got.data());
    const auto* y = static_cast<const T*>(want.data());
    for (std::int64_t i = 0; i < num_elements(got.shape()); ++i) {
      if constexpr (std::is_integral_v<T>) {
        ASSERT_EQ(x[i], y[i]) << "element " << i;
      } else {
        using Wide = std::conditional_t<kIsComplexElement<T>, std::complex<double>, double>;
        const auto wide = [](T value) {
          if constexpr (kIsSmallFloat<T>) {
            return static_cast<double>(static_cast<float>(value));
          } else {
            return Wide(value);
          }
        };
        // Rounding of the sum, and of what is added, in f32 for smaller floats.
        const double sums = std::min(epsilon(equation.out()), epsilon(Dtype::kF32));
        const double bound = 8 * (sums * std::sqrt(static_cast<double>(products + 1)) * 2 +
                                  epsilon(equation.out()) * std::abs(wide(y[i])));
        ASSERT_LE(std::abs(wide(x[i]) - wide(y[i])), bound) << "element " << i;
      }
    }
  });
}

const Convolution kConvolutions[] = {
    {{2, 3, 9, 8}, {4, 3, 3, 3}, {}, {1, 1}, {1, 1}},
    {{2, 3, 17, 40}, {7, 3, 3, 2}, {2, 3}, {1, 0}, {2, -1}},
    {{1, 4, 12, 13}, {10, 2, 3, 3}, {1, 1}, {-1, 2}, {0, 1}, {2, 1}, {1, 2}},
    {{2, 2, 7, 5}, {3, 2, 3, 4}, {2, 3}, {3, 4}, {4, 2}, {3, 2}, {2, 3}},
    {{3, 6, 10, 11}, {6, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {{1, 8, 20, 21}, {24, 1, 5, 5}, {2, 2}, {2, 2}, {2, 2}},
    {{5, 3, 33}, {8, 3, 5}, {1}, {2}, {2}},
    {{1, 1, 400}, {1, 1, 64}, {1}, {63}, {63}},
    {{4, 40, 3}, {50, 40, 1}},
    {{2, 2, 5, 6, 7}, {5, 2, 3, 2, 3}, {1, 2, 1}, {1, 0, 1}, {1, 1, 1}, {1, 1, 2}, {1, 2, 1}},
    {{13, 5}, {9, 5}},
    {{16, 4, 30, 30}, {40, 4, 28, 28}, {}, {1, 1}, {1, 1}},
    {{3, 2, 5}, {4, 2, 3}, {7}, {2}, {30}, {5}, {3}},
    {{2, 70, 7, 7}, {100, 70, 3, 3}, {}, {1, 1}, {1, 1}},
};

TEST(Convolution, IsTheReference) {
  for (const SimdLevel level : {SimdLevel::kBaseline, SimdLevel::kAvx2, SimdLevel::kAvx512}) {
    limit_simd_level(level);
    for (const Dtype dtype : {Dtype::kF32, Dtype::kC64, Dtype::kI32, Dtype::kU64}) {
      for (const Convolution& c : kConvolutions) check_convolution(c, dtype);
    }
  }
}

TEST(Convolution, OfEveryDtype) {
  for (const Dtype dtype : kEveryDtype) {
    for (const Convolution& c : kConvolutions) check_convolution(c, dtype);
  }
  for (const auto& [dtype, out] : {std::pair{Dtype::kI8, Dtype::kI32},
                                   {Dtype::kBF16, Dtype::kF64},
                                   {Dtype::kF16, Dtype::kF32},
                                   {Dtype::kC64, Dtype::kC128},
                                   {Dtype::kU16, Dtype::kU64},
                                   {Dtype::kF32, Dtype::kF64}}) {
    for (const Convolution& c : kConvolutions) check_convolution(c, dtype, out);
  }
}

// Windows that are wider than the array, meet nothing, or are spread far apart; arrays of no elements.
TEST(Convolution, AtTheEdges) {
  const Convolution edges[] = {
      {{2, 3, 4}, {5, 3, 9}},
      {{2, 3, 4}, {5, 3, 9}, {}, {5}, {5}},
      {{2, 3, 4}, {5, 3, 2}, {}, {1000000}, {-999000}, {}, {1000}},
      {{2, 3, 4}, {5, 3, 3}, {}, {-3}, {5}},
      {{2, 3, 4}, {5, 3, 3}, {}, {-50}, {60}},
      {{1, 2, 3}, {2, 2, 2}, {1}, {0}, {0}, {1000}, {1}},
      {{1, 2, 3}, {2, 2, 2}, {999}, {3}, {5000}, {1000}, {7}},
      {{1, 2, 3, 3}, {2, 2, 2, 2}, {}, {100000, 0}, {-99999, 0}, {}, {100001, 1}},
      {{0, 2, 3}, {2, 2, 2}},
      {{2, 0, 3}, {2, 0, 2}},
      {{2, 2, 3}, {0, 2, 2}},
      {{2, 2, 0}, {3, 2, 2}, {}, {2}, {3}},
      {{2, 2, 3}, {3, 2, 0}},
      {{0, 0}, {0, 0}},
  };
  for (const Convolution& c : edges) {
    for (const Dtype dtype : {Dtype::kF32, Dtype::kI32, Dtype::kC64, Dtype::kBF16}) check_convolution(c, dtype);
  }
}

TEST(Convolution, OfRandomShapes) {
  std::mt19937_64 random(11);
  const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
  for (int i = 0; i < 400; ++i) {
    const std::int64_t groups = below(3) == 0 ? 1 + below(5) : 1;
    const std::int64_t features = 1 + below(5);
    Convolution c{.lhs = {1 + below(4), groups * features}, .rhs = {groups * (1 + below(20)), features}};
    const std::int64_t rank = 1 + below(3);
    for (std::int64_t d = 0; d < rank; ++d) {
      c.lhs.push_back(1 + below(rank == 1 ? 150 : 14));
      c.rhs.push_back(1 + below(5));
      c.strides.push_back(1 + below(3));
      c.low.push_back(below(5) - 1);
      c.high.push_back(below(5) - 1);
      c.base.push_back(below(3) == 0 ? 1 + below(4) : 1);
      c.dilation.push_back(below(3) == 0 ? 1 + below(3) : 1);
    }
    const Equation equation(c, Dtype::kF32);
    if (num_elements(equation.graph.type(equation.graph.outputs[0]).shape) < 0) continue;
    check_convolution(c, Dtype::kF32);
  }
}

// What is cut in bands of places, in results, in groups and in parts of long sums.
TEST(Convolution, OfManyTiles) {
  const Convolution large[] = {{{1, 8, 64, 65}, {17, 8, 3, 3}, {}, {1, 1}, {1, 1}},
                               {{1, 8, 40, 41}, {9, 8, 4, 3}, {1, 1}, {2, 1}, {2, 1}, {3, 2}, {1, 1}},
                               {{2, 3, 90, 91}, {64, 3, 7, 7}, {2, 2}, {3, 3}, {3, 3}},
                               {{1, 1, 40000}, {1, 1, 100}, {1}, {99}, {99}},
                               {{2, 90, 5, 5}, {200, 90, 3, 3}, {}, {1, 1}, {1, 1}},
                               {{4, 40, 30, 30}, {40, 1, 3, 3}, {}, {1, 1}, {1, 1}},
                               {{24, 8, 40, 41}, {33, 8, 38, 39}},
                               {{3, 4, 101, 103}, {32, 4, 50, 51}, {1, 1}, {3, 3}, {3, 3}, {1, 1}, {2, 2}},
                               {{2, 3, 10000}, {5, 3, 9990}, {1}, {0}, {0}}};
  for (const Convolution& c : large) {
    check_convolution(c, Dtype::kF32);
    check_convolution(c, Dtype::kI32);
  }
}

// An image of a batch has the bits it has alone, whatever vectors are made of and however work is cut.
TEST(Convolution, ImagesDoNotDependOnTheBatch) {
  const Convolution all[] = {{{8, 16, 20, 21}, {24, 16, 3, 3}, {}, {1, 1}, {1, 1}},
                             {{8, 300, 3, 3}, {70, 300, 3, 3}, {}, {1, 1}, {1, 1}},
                             {{8, 1200, 2, 2}, {70, 1200, 2, 2}, {}, {1, 1}, {1, 1}},
                             {{8, 4, 300}, {33, 4, 7}, {2}, {3}, {3}},
                             {{8, 2, 100}, {9, 2, 90}}};
  for (const Convolution& c : all) {
    SCOPED_TRACE(c.text());
    std::mt19937_64 random(3);
    const Equation whole(c, Dtype::kF32);
    const std::vector<Buffer> inputs = {numbers_of(Dtype::kF32, c.lhs, random), numbers_of(Dtype::kF32, c.rhs, random)};
    const Buffer results = results_of(*whole.kernel(), inputs, whole.graph)[0];
    for (const std::int64_t images : {1, 2, 3}) {
      Convolution some = c;
      some.lhs[0] = images;
      const Equation part(some, Dtype::kF32);
      const Buffer got = results_of(
          *part.kernel(), {Buffer::borrowed(inputs[0].data(), Dtype::kF32, some.lhs), inputs[1]}, part.graph)[0];
      EXPECT_EQ(std::memcmp(got.data(), results.data(), got.size_bytes()), 0) << images << " images";
    }
  }
}

// A kernel takes shards of other shapes than it was made for.
TEST(Convolution, OfShards) {
  const Convolution c{{4, 6, 9}, {8, 3, 3}, {}, {1}, {1}};
  const Convolution shard{{2, 3, 9}, {4, 3, 3}, {}, {1}, {1}};
  const Equation made(c, Dtype::kF32);
  const Equation run(shard, Dtype::kF32);
  std::mt19937_64 random(5);
  const std::vector<Buffer> inputs = {numbers_of(Dtype::kF32, shard.lhs, random),
                                      numbers_of(Dtype::kF32, shard.rhs, random)};
  const Buffer got = results_of(*made.kernel(), inputs, run.graph)[0];
  const Buffer want = results_of(*run.kernel(), inputs, run.graph)[0];
  EXPECT_EQ(std::memcmp(got.data(), want.data(), got.size_bytes()), 0);
}

}  // namespace
}  // namespace shoal::cpu
