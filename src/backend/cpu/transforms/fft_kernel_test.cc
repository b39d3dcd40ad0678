// The kernel of fft beside the reference of the op, which sums by the definition.
#include "backend/cpu/transforms/fft_kernel.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/kernel_test_support.h"
#include "backend/cpu/machine/simd_dispatch.h"
#include "backend/cpu/transforms/fft_plan.h"
#include "base/thread_pool.h"

namespace shoal::cpu {
namespace {

using Complex = std::complex<double>;

const char* const kKinds[] = {"fft", "ifft", "rfft", "irfft"};
constexpr Dtype kReals[] = {Dtype::kF32, Dtype::kF64};

struct Case {
  std::string kind;
  Shape shape;  // Of the numbers that are transformed: of the operand, or of the result of irfft.
  Dims dims;

  bool is_real() const { return kind == "rfft" || kind == "irfft"; }
  Shape operand() const {
    Shape result = shape;
    if (kind == "irfft") {
      auto& last = result[static_cast<std::size_t>(dims.back())];
      last = last / 2 + 1;
    }
    return result;
  }
  Attrs attrs() const {
    Shape lengths;
    for (std::int64_t d : dims) lengths.push_back(shape[static_cast<std::size_t>(d)]);
    return {{"transform", kind}, {"dims", dims}, {"lengths", lengths}};
  }
  std::string name() const {
    return fmt::format("{} of ({}) over {}", kind, fmt::join(shape, ", "), fmt::join(dims, ", "));
  }
};

Buffer normal_numbers(const Case& test, Dtype real, unsigned seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  const Dtype dtype = test.kind == "rfft" ? real : real == Dtype::kF32 ? Dtype::kC64 : Dtype::kC128;
  Buffer buffer(host_space({}), dtype, test.operand());
  with_element_type(dtype, [&](auto tag) {
    using T = decltype(tag);
    auto* const data = static_cast<T*>(buffer.mutable_data());
    for (std::int64_t i = 0; i < num_elements(buffer.shape()); ++i) {
      if constexpr (kIsComplexElement<T>) {
        using Part = typename T::value_type;
        data[i] = T(static_cast<Part>(normal(random)), static_cast<Part>(normal(random)));
      } else if constexpr (std::is_floating_point_v<T>) {
        data[i] = static_cast<T>(normal(random));
      }
    }
  });
  return buffer;
}

Graph graph_of(const Case& test, const Buffer& operand) {
  Graph graph;
  const ValueId input =
      graph.add_input({.dtype = operand.dtype(), .shape = operand.shape(), .weak = false, .memory = {}, .varying = {}});
  graph.outputs = graph.add_eqn(op_named("fft"), test.attrs(), {input}, SourceLocation::current());
  return graph;
}

Buffer by_kernel(const Case& test, const Buffer& operand) {
  const Graph graph = graph_of(test, operand);
  return results_of(*fft_kernel(graph, graph.eqns[0]), {operand}, graph)[0];
}

Buffer by_reference(const Case& test, const Buffer& operand) {
  const Graph graph = graph_of(test, operand);
  return results_of(*reference_kernel(graph.eqns[0], "reference"), {operand}, graph)[0];
}

std::vector<Complex> numbers_of(const Buffer& buffer) {
  std::vector<Complex> numbers;
  with_element_type(buffer.dtype(), [&](auto tag) {
    using T = decltype(tag);
    if constexpr (kIsComplexElement<T> || std::is_floating_point_v<T>) {
      const auto* const data = static_cast<const T*>(buffer.data());
      for (std::int64_t i = 0; i < num_elements(buffer.shape()); ++i) numbers.emplace_back(data[i]);
    }
  });
  return numbers;
}

// The root of the sum of squares of the difference, relative to that of what is wanted, in units of rounding.
double error_of(const Buffer& got, const Buffer& want) {
  const std::vector<Complex> a = numbers_of(got);
  const std::vector<Complex> b = numbers_of(want);
  EXPECT_EQ(got.shape(), want.shape());
  double difference = 0;
  double size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::norm(a[i] - b[i]);
    size += std::norm(b[i]);
  }
  const double unit = real_dtype(got.dtype()) == Dtype::kF32 ? std::numeric_limits<float>::epsilon()
                                                             : std::numeric_limits<double>::epsilon();
  return size == 0 ? difference : std::sqrt(difference / size) / unit;
}

// Errors of transforms grow with the logarithm of the length; a convolution has three of them. The reference of f64 is
// not more exact than what it judges, and its errors grow with the root.
double most_units(const Case& test) {
  double n = 1;
  for (std::int64_t d : test.dims) n *= static_cast<double>(test.shape[static_cast<std::size_t>(d)]);
  return 4 + std::log2(n) + std::sqrt(n) / 4;
}

void check(const Case& test) {
  for (const Dtype real : kReals) {
    const Buffer operand = normal_numbers(test, real, 7);
    EXPECT_LT(error_of(by_kernel(test, operand), by_reference(test, operand)), most_units(test)) << test.name();
  }
}

std::vector<std::int64_t> lengths() {
  std::vector<std::int64_t> result;
  for (std::int64_t n = 1; n <= 40; ++n) result.push_back(n);
  for (std::int64_t n : {60, 64, 97, 99, 100, 101, 121, 127, 128, 129, 169, 194, 202, 210, 256, 303, 512, 1000, 1009}) {
    result.push_back(n);
  }
  return result;
}

TEST(FftKernel, LinesOfEveryKindOfLength) {
  for (const char* kind : kKinds) {
    for (const std::int64_t n : lengths()) check({kind, {n > 300 ? 2 : 19, n}, {1}});
  }
}

TEST(FftKernel, LinesThatLieBesideEachOther) {
  for (const char* kind : kKinds) {
    for (const std::int64_t n : {1, 2, 5, 16, 30, 97, 101, 128, 243}) {
      check({kind, {2, n, 3}, {1}});
      check({kind, {n, 21}, {0}});
    }
  }
}

TEST(FftKernel, SeveralDimensions) {
  for (const char* kind : kKinds) {
    for (const Shape& shape : {Shape{3, 8, 5}, Shape{2, 1, 12}, Shape{4, 17, 101}}) {
      check({kind, shape, {1, 2}});
      check({kind, shape, {0, 2}});
      check({kind, shape, {2, 0}});
      check({kind, shape, {2, 1, 0}});
    }
    check({kind, {2, 3, 4, 5}, {0, 1, 2, 3}});
  }
}

TEST(FftKernel, OfEveryInstructionSet) {
  for (const SimdLevel level : {SimdLevel::kBaseline, SimdLevel::kAvx2}) {
    limit_simd_level(level);
    for (const char* kind : kKinds) {
      for (const std::int64_t n : {1, 2, 7, 12, 37, 96, 101, 128, 260}) {
        check({kind, {9, n}, {1}});
        check({kind, {n, 9}, {0}});
      }
    }
  }
  limit_simd_level(SimdLevel::kAvx512);
}

// Long lines are beyond the reference: an impulse becomes a wave, and the inverse gives the numbers again.
TEST(FftKernel, LongLines) {
  for (const std::int64_t n :
       {std::int64_t{1} << 16, std::int64_t{1} << 18, std::int64_t{100'000}, std::int64_t{65'537}}) {
    for (const Dtype real : kReals) {
      const double unit = real == Dtype::kF32 ? 0x1p-23 : 0x1p-52;
      const Case forward{"fft", {n}, {0}};
      Buffer impulse(host_space({}), real == Dtype::kF32 ? Dtype::kC64 : Dtype::kC128, {n});
      std::memset(impulse.mutable_data(), 0, impulse.size_bytes());
      const std::int64_t place = n / 3;
      if (real == Dtype::kF32) {
        static_cast<std::complex<float>*>(impulse.mutable_data())[place] = 1;
      } else {
        static_cast<std::complex<double>*>(impulse.mutable_data())[place] = 1;
      }
      const std::vector<Complex> wave = numbers_of(by_kernel(forward, impulse));
      for (std::int64_t k = 0; k < n; k += 97) {
        const double angle = -2 * M_PI * static_cast<double>(place * k % n) / static_cast<double>(n);
        ASSERT_LT(std::abs(wave[static_cast<std::size_t>(k)] - std::polar(1.0, angle)), 20 * unit) << n << " " << k;
      }
      const Buffer numbers = normal_numbers(forward, real, 3);
      EXPECT_LT(error_of(by_kernel({"ifft", {n}, {0}}, by_kernel(forward, numbers)), numbers), 20) << n;
      const Case half{"rfft", {n}, {0}};
      const Buffer reals = normal_numbers(half, real, 4);
      EXPECT_LT(error_of(by_kernel({"irfft", {n}, {0}}, by_kernel(half, reals)), reals), 20) << n;
    }
  }
}

std::vector<std::byte> bytes_of(const Buffer& buffer) {
  const auto* const data = static_cast<const std::byte*>(buffer.data());
  return {data, data + buffer.size_bytes()};
}

// What becomes of a line does not depend on those beside it.
TEST(FftKernel, ALineIsTheSameInEveryBatch) {
  for (const char* kind : kKinds) {
    for (const std::int64_t n : {5, 8, 100, 101, 128, 1000, 1 << 17}) {
      const Case many{kind, {n > 1000 ? 3 : 21, n}, {1}};
      const Buffer operand = normal_numbers(many, Dtype::kF32, 5);
      const std::vector<std::byte> together = bytes_of(by_kernel(many, operand));
      const Case one{kind, {1, n}, {1}};
      const std::size_t size = operand.size_bytes() / static_cast<std::size_t>(many.shape[0]);
      for (std::int64_t i = 0; i < many.shape[0]; ++i) {
        Buffer line(host_space({}), operand.dtype(), one.operand());
        std::memcpy(line.mutable_data(),
                    static_cast<const std::byte*>(operand.data()) + static_cast<std::size_t>(i) * size, size);
        const std::vector<std::byte> alone = bytes_of(by_kernel(one, line));
        EXPECT_TRUE(
            std::equal(alone.begin(), alone.end(),
                       together.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(i) * alone.size())))
            << one.name();
      }
    }
  }
}

TEST(FftKernel, SameBitsWithAnyNumberOfThreads) {
  for (const Case& test : {Case{"fft", {1 << 17}, {0}}, Case{"rfft", {1 << 18}, {0}}, Case{"irfft", {1 << 18}, {0}},
                           Case{"fft", {300, 260}, {0, 1}}, Case{"irfft", {300, 260}, {0, 1}}}) {
    const Buffer operand = normal_numbers(test, Dtype::kF32, 6);
    const std::vector<std::byte> outside = bytes_of(by_kernel(test, operand));
    // Within an iteration of a pool all loops run inline.
    std::vector<std::byte> inside;
    ThreadPool alone(2);
    alone.parallel_for(2, [&](std::int64_t i) {
      if (i == 0) inside = bytes_of(by_kernel(test, operand));
    });
    EXPECT_EQ(outside, inside) << test.name();
  }
}

TEST(FftKernel, OfNothing) {
  for (const Case& test : {Case{"fft", {0, 8}, {1}}, Case{"fft", {3, 0}, {1}}, Case{"rfft", {0, 8}, {1}},
                           Case{"irfft", {0, 7}, {1}}, Case{"fft", {0, 4}, {0, 1}}}) {
    EXPECT_EQ(num_elements(by_kernel(test, normal_numbers(test, Dtype::kF32, 1)).shape()), 0) << test.name();
  }
}

TEST(FftKernel, NotANumberStaysInItsLine) {
  const Case test{"fft", {40, 12}, {1}};
  Buffer operand = normal_numbers(test, Dtype::kF32, 1);
  static_cast<std::complex<float>*>(operand.mutable_data())[12 * 17 + 3] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<Complex> result = numbers_of(by_kernel(test, operand));
  for (std::size_t i = 0; i < result.size(); ++i) {
    EXPECT_EQ(std::isnan(std::norm(result[i])), i / 12 == 17) << i;
  }
}

TEST(FftPlan, CachesKeepWhatWasUsedLast) {
  const auto first = shared_plan<LanesPlan<float>>(30);
  EXPECT_EQ(shared_plan<LanesPlan<float>>(30), first);
  // Only plans of lines without great prime factors are made.
  for (std::int64_t n = 100; n < 400; ++n) {
    if (fits_lanes(n)) shared_plan<LanesPlan<float>>(n);
    shared_plan<LanesPlan<float>>(30);
  }
  EXPECT_EQ(shared_plan<LanesPlan<float>>(30), first);
}

}  // namespace
}  // namespace shoal::cpu
