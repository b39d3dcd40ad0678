// The kernel of reductions over windows is compared with the reference of the op: bit for bit where nothing is rounded,
// and NaN is NaN.
#include "backend/cpu/windows/reduce_window.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/kernel_test_support.h"
#include "backend/cpu/machine/simd_dispatch.h"

namespace shoal::cpu {
namespace {

struct Windows {
  Shape shape;
  Dims window;
  Dims strides = {};
  Dims low = {};
  Dims high = {};
  Dims base = {};
  Dims dilation = {};

  Attrs attrs(const std::string& kind) const {
    const auto all = [this](const Dims& given, std::int64_t otherwise) {
      return given.empty() ? Dims(shape.size(), otherwise) : given;
    };
    return {{"kind", kind},
            {"window", window},
            {"strides", all(strides, 1)},
            {"low", all(low, 0)},
            {"high", all(high, 0)},
            {"base_dilation", all(base, 1)},
            {"window_dilation", all(dilation, 1)}};
  }
  std::string text() const {
    return fmt::format("{} of {}, strides {}, low {}, high {}, gaps {}, {}", to_string(window), to_string(shape),
                       to_string(strides), to_string(low), to_string(high), to_string(base), to_string(dilation));
  }
};

Buffer reduced_by(const Kernel& kernel, const Buffer& in, const Graph& graph) {
  return results_of(kernel, {in}, graph)[0];
}

Graph equation_of(const Windows& w, Dtype dtype, const std::string& kind) {
  Graph graph;
  const ValueId in = graph.add_input({.dtype = dtype, .shape = w.shape, .weak = false, .memory = {}, .varying = {}});
  graph.outputs = graph.add_eqn(op_named("reduce_window"), w.attrs(kind), {in}, SourceLocation::current());
  return graph;
}

// Numbers near 1, so that products of many stay finite, or what order is about.
Buffer elements_of(Dtype dtype, const Shape& shape, bool special, std::mt19937_64& random) {
  if (special || is_integer(dtype) || dtype == Dtype::kBool) {
    return drawn_buffer(dtype, shape, special ? Draw::kFew : Draw::kAnyBits, random);
  }
  Buffer buffer(host_space({}), dtype, shape);
  std::uniform_real_distribution<float> number(0.75F, 1.25F);
  with_element_type(dtype, [&](auto tag) {
    using T = decltype(tag);
    for (std::int64_t i = 0; i < num_elements(shape); ++i) {
      if constexpr (kIsComplexElement<T>) {
        const float angle = 3 * number(random);
        static_cast<T*>(buffer.mutable_data())[i] = T(std::cos(angle), std::sin(angle));
      } else {
        static_cast<T*>(buffer.mutable_data())[i] = T(number(random));
      }
    }
  });
  return buffer;
}

template <class T>
auto widened_number(T value) {
  if constexpr (kIsSmallFloat<T>) {
    return static_cast<double>(static_cast<float>(value));
  } else if constexpr (kIsComplexElement<T>) {
    return std::complex<double>(value);
  } else {
    return static_cast<double>(value);
  }
}

template <class T>
bool same_bits(T x, T y) {
  if constexpr (!std::is_integral_v<T> && !kIsComplexElement<T>) {
    if (std::isnan(widened_number(x)) && std::isnan(widened_number(y))) return true;
  }
  return std::memcmp(&x, &y, sizeof(T)) == 0;
}

void check_windows(const Windows& w, Dtype dtype, const std::string& kind, bool special = false) {
  SCOPED_TRACE(fmt::format("{} of {}: {}", kind, name_of(dtype), w.text()));
  const bool orders = kind == "max" || kind == "min";
  if ((orders && is_complex(dtype)) || (!orders && dtype == Dtype::kBool)) return;
  std::mt19937_64 random(17);
  const Graph graph = equation_of(w, dtype, kind);
  const Buffer in = elements_of(dtype, w.shape, special, random);
  const Buffer got = reduced_by(*reduce_window_kernel(graph, graph.eqns[0]), in, graph);
  const Buffer want = reduced_by(*reference_kernel(graph.eqns[0], "reference"), in, graph);
  double taps = 1;
  for (const std::int64_t n : w.window) taps *= static_cast<double>(n);
  with_element_type(dtype, [&](auto tag) {
    using T = decltype(tag);
    const auto* x = static_cast<const T*>(got.data());
    const auto* y = static_cast<const T*>(want.data());
    const double unit = std::is_same_v<T, float16_t>      ? 0x1p-10
                        : std::is_same_v<T, bfloat16_t>   ? 0x1p-7
                        : size_of(real_dtype(dtype)) == 4 ? 0x1p-23
                                                          : 0x1p-52;
    const double sums = std::min(unit, 0x1p-23);
    for (std::int64_t i = 0; i < num_elements(got.shape()); ++i) {
      if (orders || std::is_integral_v<T>) {
        ASSERT_TRUE(same_bits(x[i], y[i]))
            << "element " << i << ": " << std::abs(widened_number(x[i])) << ", not " << std::abs(widened_number(y[i]));
      } else if (!std::isfinite(std::abs(widened_number(y[i])))) {
        if constexpr (!kIsComplexElement<T>) {
          ASSERT_EQ(std::isnan(widened_number(x[i])), std::isnan(widened_number(y[i]))) << "element " << i;
        }
      } else {
        const double bound =
            (2 * unit + sums * taps) * std::max(std::abs(widened_number(y[i])), kind == "sum" ? taps : 0.0);
        ASSERT_LE(std::abs(widened_number(x[i]) - widened_number(y[i])), bound) << "element " << i;
      }
    }
  });
}

const std::string kReductions[] = {"sum", "prod", "max", "min"};

const Windows kWindows[] = {
    {{2, 3, 13, 14}, {1, 1, 3, 3}, {1, 1, 2, 2}, {0, 0, 1, 1}, {0, 0, 1, 1}},
    {{2, 3, 13, 14}, {1, 1, 2, 2}},
    {{2, 13, 14, 5}, {1, 3, 3, 1}, {1, 2, 2, 1}, {0, 1, 0, 0}, {0, 0, 1, 0}},
    {{200}, {31}, {1}, {15}, {15}},
    {{3000}, {1000}, {1}, {700}, {100}},
    {{400}, {40}, {3}, {-5}, {7}, {2}, {3}},
    {{300, 3}, {17, 1}, {1, 1}, {16, 0}, {0, 0}},
    {{60, 70}, {13, 1}, {1, 1}, {3, 0}, {20, 0}},
    {{60, 40}, {20, 15}, {2, 1}, {3, 9}, {20, 30}, {1, 1}, {2, 1}},
    {{30, 20, 18}, {12, 1, 11}, {1, 1, 2}, {0, 0, 5}, {11, 0, 5}, {1, 1, 3}, {2, 1, 2}},
    {{5, 4, 6}, {2, 3, 2}, {2, 1, 1}, {1, 0, 2}, {-1, 2, 0}, {3, 1, 2}, {1, 2, 3}},
    {{7, 5}, {1, 1}},
    {{}, {}},
    {{9}, {1}, {2}, {1}, {-1}},
};

TEST(ReduceWindow, IsTheReference) {
  for (const SimdLevel level : {SimdLevel::kBaseline, SimdLevel::kAvx2, SimdLevel::kAvx512}) {
    limit_simd_level(level);
    for (const Windows& w : kWindows) {
      for (const std::string& kind : kReductions) check_windows(w, Dtype::kF32, kind);
    }
  }
}

TEST(ReduceWindow, OfEveryDtype) {
  for (const Dtype dtype : kEveryDtype) {
    for (const Windows& w : kWindows) {
      for (const std::string& kind : kReductions) check_windows(w, dtype, kind);
    }
  }
}

// NaN, infinities, zeros of both signs, and the extremes of integers.
TEST(ReduceWindow, OfSpecialNumbers) {
  for (const Dtype dtype : kEveryDtype) {
    for (const Windows& w : kWindows) {
      for (const std::string& kind : kReductions) check_windows(w, dtype, kind, true);
    }
  }
}

// Windows that are wider than the array, meet nothing, or are spread far apart; arrays of no elements.
TEST(ReduceWindow, AtTheEdges) {
  const Windows edges[] = {
      {{4}, {9}},
      {{4}, {9}, {}, {8}, {8}},
      {{4}, {1000000}, {}, {999999}, {3}},
      {{4, 40}, {50, 1}, {}, {49, 0}, {49, 0}},
      {{4}, {2}, {}, {1000000}, {-999000}, {}, {1000}},
      {{4}, {3}, {}, {-3}, {5}},
      {{4}, {3}, {}, {-50}, {60}},
      {{4}, {3}, {1}, {0}, {0}, {1000}, {1}},
      {{3}, {2}, {999}, {3}, {5000}, {1000}, {7}},
      {{0, 3}, {1, 2}},
      {{0}, {2}, {}, {2}, {3}},
      {{0, 30}, {9, 1}, {}, {20, 0}, {3, 0}},
  };
  for (const Windows& w : edges) {
    for (const Dtype dtype : {Dtype::kF32, Dtype::kI8, Dtype::kBF16}) {
      for (const std::string& kind : kReductions) check_windows(w, dtype, kind);
    }
  }
}

TEST(ReduceWindow, OfRandomShapes) {
  std::mt19937_64 random(23);
  const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
  for (int i = 0; i < 600; ++i) {
    Windows w;
    const std::int64_t rank = 1 + below(4);
    for (std::int64_t d = 0; d < rank; ++d) {
      const bool moves = below(2) == 0;
      w.shape.push_back(1 + below(rank == 1 ? 300 : rank == 2 ? 40 : 12));
      w.window.push_back(moves ? 1 + below(rank == 1 ? 60 : rank == 2 ? 20 : 5) : 1);
      w.strides.push_back(moves ? 1 + below(3) : 1);
      w.low.push_back(moves ? below(12) - 3 : 0);
      w.high.push_back(moves ? below(12) - 3 : 0);
      w.base.push_back(moves && below(3) == 0 ? 1 + below(4) : 1);
      w.dilation.push_back(moves && below(3) == 0 ? 1 + below(3) : 1);
    }
    for (const std::string& kind : kReductions) check_windows(w, below(3) == 0 ? Dtype::kI32 : Dtype::kF32, kind);
  }
}

// Arrays that are cut in many tiles.
TEST(ReduceWindow, OfManyTiles) {
  const Windows large[] = {{{1 << 17}, {31}, {1}, {15}, {15}},
                           {{300, 300}, {21, 1}, {1, 1}, {10, 0}, {10, 0}},
                           {{300, 300}, {5, 7}, {2, 1}, {2, 3}, {2, 3}},
                           {{64, 3, 40, 40}, {1, 1, 3, 3}, {1, 1, 2, 2}, {0, 0, 1, 1}, {0, 0, 1, 1}},
                           {{2, 700, 90}, {1, 12, 1}}};
  for (const Windows& w : large) {
    for (const std::string& kind : kReductions) check_windows(w, Dtype::kF32, kind);
    check_windows(w, Dtype::kI64, "sum");
    check_windows(w, Dtype::kF16, "max");
  }
}

}  // namespace
}  // namespace shoal::cpu
