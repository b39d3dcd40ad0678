#include "backend/cpu/products/dot.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <complex>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/thread_pool.h"
#include "core/dispatch.h"
#include "ops/table.h"

namespace shoal::cpu {
namespace {

// ---- Products written as text: "bik,bkj" with an extent for each letter. b and c are batches, k and l are summed
// over.

struct Extents {
  std::int64_t b = 1, c = 1, h = 1, i = 1, j = 1, m = 1, k = 1, l = 1;

  std::int64_t of(char letter) const {
    switch (letter) {
      case 'b':
        return b;
      case 'c':
        return c;
      case 'h':
        return h;
      case 'i':
        return i;
      case 'j':
        return j;
      case 'm':
        return m;
      case 'k':
        return k;
      default:
        return l;
    }
  }
};

struct Dot {
  Graph graph;
  Shape lhs;
  Shape rhs;
  std::int64_t inner = 1;

  Dot(const std::string& lhs_letters, const std::string& rhs_letters, const Extents& extents, Dtype dtype,
      Dtype out_dtype) {
    const auto shape_of = [&](const std::string& letters) {
      Shape shape;
      for (char letter : letters) shape.push_back(extents.of(letter));
      return shape;
    };
    lhs = shape_of(lhs_letters);
    rhs = shape_of(rhs_letters);
    Dims lhs_batch, rhs_batch, lhs_contract, rhs_contract;
    for (std::size_t d = 0; d < lhs_letters.size(); ++d) {
      const std::size_t other = rhs_letters.find(lhs_letters[d]);
      if (other == std::string::npos) continue;
      const bool batch = lhs_letters[d] == 'b' || lhs_letters[d] == 'c';
      (batch ? lhs_batch : lhs_contract).push_back(static_cast<std::int64_t>(d));
      (batch ? rhs_batch : rhs_contract).push_back(static_cast<std::int64_t>(other));
      if (!batch) inner *= extents.of(lhs_letters[d]);
    }
    Attrs attrs{{"lhs_contract", lhs_contract},
                {"rhs_contract", rhs_contract},
                {"lhs_batch", lhs_batch},
                {"rhs_batch", rhs_batch}};
    if (out_dtype != dtype) attrs.set("dtype", out_dtype);
    const auto type = [&](const Shape& shape) {
      return Type{.dtype = dtype, .shape = shape, .weak = false, .memory = {}, .varying = {}};
    };
    const std::vector<ValueId> inputs{graph.add_input(type(lhs)), graph.add_input(type(rhs))};
    graph.outputs = graph.add_eqn(op_named("dot_general"), attrs, inputs, SourceLocation::current());
  }

  Dot(const std::string& lhs_letters, const std::string& rhs_letters, const Extents& extents, Dtype dtype)
      : Dot(lhs_letters, rhs_letters, extents, dtype, dtype) {}

  std::unique_ptr<Kernel> kernel(DotEpilogue epilogue = {}) const {
    return dot_kernel(graph, graph.eqns[0], std::move(epilogue));
  }

  const Type& result() const { return graph.type(graph.outputs[0]); }
};

Buffer make(Dtype dtype, Shape shape) { return Buffer(host_space({}), dtype, std::move(shape)); }

// Elements given by f(random engine).
template <class F>
Buffer filled(Dtype dtype, const Shape& shape, unsigned seed, F&& f) {
  Buffer buffer = make(dtype, shape);
  std::mt19937 random(seed);
  with_element_type(dtype, [&](auto tag) {
    using T = decltype(tag);
    T* data = static_cast<T*>(buffer.mutable_data());
    for (std::int64_t i = 0; i < num_elements(shape); ++i) data[i] = f(tag, random);
  });
  return buffer;
}

// Random bits for integers, numbers from -1 to 1 for floats.
Buffer numbers(Dtype dtype, const Shape& shape, unsigned seed) {
  return filled(dtype, shape, seed, [](auto tag, std::mt19937& random) {
    using T = decltype(tag);
    std::uniform_real_distribution<float> floats(-1, 1);
    if constexpr (kIsComplexElement<T>) {
      using R = typename T::value_type;
      const R real = static_cast<R>(floats(random));
      return T(real, static_cast<R>(floats(random)));
    } else if constexpr (std::is_same_v<T, bool>) {
      return random() % 2 == 1;
    } else if constexpr (std::is_integral_v<T>) {
      return static_cast<T>((static_cast<std::uint64_t>(random()) << 32U) | random());
    } else {
      return T(floats(random));
    }
  });
}

Buffer reference(const Dot& dot, const Buffer& a, const Buffer& b) {
  const Eqn& eqn = dot.graph.eqns[0];
  Buffer out = make(dot.result().dtype, dot.result().shape);
  const std::vector<TensorView> inputs{a.view(), b.view()};
  const std::vector<TensorView> outputs{out.view()};
  eqn.op->reference({.op = *eqn.op, .attrs = eqn.attrs, .inputs = inputs, .outputs = outputs});
  return out;
}

// The result, in memory that was full of NaNs.
Buffer run(const Dot& dot, const Buffer& a, const Buffer& b) {
  Buffer out = make(dot.result().dtype, dot.result().shape);
  std::memset(out.mutable_data(), 0xFF, out.size_bytes());
  const std::vector<TensorView> inputs{a.view(), b.view()};
  const std::vector<TensorView> outputs{out.view()};
  run_kernel(*dot.kernel(), inputs, outputs);
  return out;
}

bool same_bits(const Buffer& a, const Buffer& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         (a.size_bytes() == 0 || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

template <class T>
double magnitude(T x) {
  if constexpr (kIsComplexElement<T>) {
    return static_cast<double>(std::abs(x));
  } else {
    return std::abs(static_cast<double>(x));
  }
}

std::complex<double> value_of(const Buffer& buffer, std::int64_t i) {
  return with_element_type(buffer.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const T x = static_cast<const T*>(buffer.data())[i];
    if constexpr (kIsComplexElement<T>) {
      return std::complex<double>(x);
    } else {
      return std::complex<double>(static_cast<double>(x));
    }
  });
}

// As f64, and without signs.
Buffer magnitudes(const Buffer& buffer) {
  Buffer out = make(Dtype::kF64, buffer.shape());
  auto* data = static_cast<double*>(out.mutable_data());
  for (std::int64_t i = 0; i < num_elements(buffer.shape()); ++i) data[i] = std::abs(value_of(buffer, i));
  return out;
}

double epsilon(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF16:
      return 0x1p-11;
    case Dtype::kBF16:
      return 0x1p-8;
    case Dtype::kF32:
    case Dtype::kC64:
      return 0x1p-24;
    default:
      return 0x1p-53;
  }
}

// Fails unless the product is that of the reference: integers exactly, floats to within 2 K eps |A| |B|, eps being that
// of f32 or f64, and one rounding of the result. (Two products and sums of a complex one make the factor 2.)
void check(const std::string& lhs, const std::string& rhs, const Extents& extents, Dtype dtype, Dtype out_dtype) {
  const Dot dot(lhs, rhs, extents, dtype, out_dtype);
  SCOPED_TRACE(lhs + "," + rhs + " " + to_text(dot.graph));
  const Buffer a = numbers(dtype, dot.lhs, 1);
  const Buffer b = numbers(dtype, dot.rhs, 2);
  const Buffer want = reference(dot, a, b);
  const Buffer got = run(dot, a, b);
  if (!is_floating(dtype) && !is_complex(dtype)) {
    EXPECT_TRUE(same_bits(got, want));
    return;
  }
  const Dot plain(lhs, rhs, extents, Dtype::kF64);
  const Buffer size = reference(plain, magnitudes(a), magnitudes(b));
  const double sum_eps = epsilon(size_of(real_dtype(dtype)) < 8 ? Dtype::kF32 : Dtype::kF64);
  for (std::int64_t i = 0; i < num_elements(want.shape()); ++i) {
    const std::complex<double> x = value_of(want, i);
    const double bound =
        2 * static_cast<double>(dot.inner) * sum_eps * value_of(size, i).real() + 2 * epsilon(out_dtype) * std::abs(x);
    ASSERT_LE(std::abs(value_of(got, i) - x), bound) << "element " << i << " is " << value_of(got, i) << " not " << x;
  }
}

void check(const std::string& lhs, const std::string& rhs, const Extents& extents, Dtype dtype = Dtype::kF32) {
  check(lhs, rhs, extents, dtype, dtype);
}

// ---- Values.

TEST(Dot, EveryDtypeAndResult) {
  // Small whole numbers: every result is exact in every dtype. Integers of random bits, too.
  const Extents extents{.i = 9, .j = 35, .k = 20};
  for (int from = 0; from < kNumDtypes; ++from) {
    for (int to = 0; to < kNumDtypes; ++to) {
      const Dot dot("ik", "kj", extents, static_cast<Dtype>(from), static_cast<Dtype>(to));
      SCOPED_TRACE(to_text(dot.graph));
      const auto small = [](auto tag, std::mt19937& random) {
        return static_cast<decltype(tag)>(static_cast<float>(random() % 3));
      };
      const Buffer a = filled(static_cast<Dtype>(from), dot.lhs, 1, small);
      const Buffer b = filled(static_cast<Dtype>(from), dot.rhs, 2, small);
      EXPECT_TRUE(same_bits(run(dot, a, b), reference(dot, a, b)));
      if (is_floating(dot.graph.type(0).dtype) || is_complex(dot.graph.type(0).dtype)) continue;
      const Buffer c = numbers(static_cast<Dtype>(from), dot.lhs, 3);
      const Buffer d = numbers(static_cast<Dtype>(from), dot.rhs, 4);
      EXPECT_TRUE(same_bits(run(dot, c, d), reference(dot, c, d)));
    }
  }
}

TEST(Dot, OddSizes) {
  const std::vector<std::int64_t> sizes{0, 1, 2, 5, 7, 16, 33, 110};
  for (Dtype dtype : {Dtype::kF32, Dtype::kBF16, Dtype::kC128, Dtype::kI8}) {
    for (std::int64_t i : sizes) {
      for (std::int64_t j : sizes) {
        for (std::int64_t k : sizes) check("ik", "kj", {.i = i, .j = j, .k = k}, dtype);
      }
    }
  }
}

TEST(Dot, LargeEnoughForEveryBlock) {
  for (Dtype dtype : {Dtype::kF32, Dtype::kF64, Dtype::kBF16, Dtype::kF16, Dtype::kC64, Dtype::kC128, Dtype::kI32,
                      Dtype::kI64, Dtype::kU8}) {
    check("ik", "kj", {.i = 140, .j = 530, .k = 270}, dtype);
    check("ki", "jk", {.i = 140, .j = 530, .k = 270}, dtype);
  }
  check("ik", "kj", {.i = 67, .j = 91, .k = 515}, Dtype::kI8, Dtype::kI32);
  check("ik", "kj", {.i = 67, .j = 91, .k = 515}, Dtype::kBF16, Dtype::kF32);
  check("ik", "kj", {.i = 67, .j = 91, .k = 515}, Dtype::kF16, Dtype::kF32);
  check("ik", "kj", {.i = 67, .j = 91, .k = 515}, Dtype::kF32, Dtype::kF64);
}

// Calls f with every order of the letters.
template <class F>
void for_each_order(std::string letters, F&& f) {
  std::sort(letters.begin(), letters.end());
  do {
    f(letters);
  } while (std::next_permutation(letters.begin(), letters.end()));
}

TEST(Dot, EveryLayoutOfThreeDimensions) {
  for (Dtype dtype : {Dtype::kF32, Dtype::kF64, Dtype::kBF16, Dtype::kC64, Dtype::kI16}) {
    for_each_order("bik", [&](const std::string& lhs) {
      for_each_order("bjk",
                     [&](const std::string& rhs) { check(lhs, rhs, {.b = 2, .i = 20, .j = 21, .k = 22}, dtype); });
    });
  }
  for_each_order("hik", [&](const std::string& lhs) {
    for_each_order("mjk",
                   [&](const std::string& rhs) { check(lhs, rhs, {.h = 3, .i = 18, .j = 17, .m = 2, .k = 20}); });
  });
}

TEST(Dot, EveryLayoutOfFourDimensions) {
  for_each_order("bikl", [&](const std::string& lhs) {
    for_each_order("bjkl",
                   [&](const std::string& rhs) { check(lhs, rhs, {.b = 3, .i = 17, .j = 18, .k = 4, .l = 5}); });
  });
  for_each_order("bchk", [&](const std::string& lhs) {
    for_each_order("bcjk",
                   [&](const std::string& rhs) { check(lhs, rhs, {.b = 3, .c = 2, .h = 17, .j = 16, .k = 12}); });
  });
}

TEST(Dot, OneDimensionOrNone) {
  for (Dtype dtype : {Dtype::kF32, Dtype::kF64, Dtype::kF16, Dtype::kC64, Dtype::kI32}) {
    check("", "", {}, dtype);
    check("", "j", {.j = 5}, dtype);
    check("i", "j", {.i = 300, .j = 200}, dtype);
    check("b", "b", {.b = 300}, dtype);
    check("k", "k", {.k = 3000}, dtype);
    check("ik", "k", {.i = 130, .k = 260}, dtype);
    check("ki", "k", {.i = 130, .k = 260}, dtype);
    check("k", "kj", {.j = 130, .k = 260}, dtype);
    check("k", "jk", {.j = 130, .k = 260}, dtype);
    check("bik", "bk", {.b = 3, .i = 70, .k = 130}, dtype);
    check("kb", "jkb", {.b = 3, .j = 70, .k = 130}, dtype);
  }
}

TEST(Dot, NothingSummedIsZero) {
  for (Dtype dtype : {Dtype::kF32, Dtype::kBF16, Dtype::kC128, Dtype::kI8, Dtype::kBool}) {
    check("bik", "bkj", {.b = 3, .i = 40, .j = 50, .k = 0}, dtype);
    check("bik", "bkj", {.b = 0, .i = 40, .j = 50, .k = 60}, dtype);
  }
}

TEST(Dot, NansAndInfinitiesStayInTheirRowsAndColumns) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  for (Dtype dtype : {Dtype::kF32, Dtype::kF64, Dtype::kBF16, Dtype::kF16}) {
    for (std::int64_t n : {5, 40, 300}) {
      for (bool vector : {false, true}) {
        const Dot dot("ik", "kj", {.i = n, .j = vector ? 1 : n, .k = n}, dtype);
        SCOPED_TRACE(to_text(dot.graph));
        Buffer a = numbers(dtype, dot.lhs, 1);
        Buffer b = filled(dtype, dot.rhs, 2, [](auto tag, auto&) { return static_cast<decltype(tag)>(0.0F); });
        with_element_type(dtype, [&](auto tag) {
          using T = decltype(tag);
          if constexpr (!std::is_integral_v<T> && !kIsComplexElement<T>) {
            static_cast<T*>(a.mutable_data())[3 * n + 1] = T(nan);
            static_cast<T*>(a.mutable_data())[2 * n + 4] = T(infinity);
          }
        });
        // Zeros do not hide them.
        const Buffer zeros = run(dot, a, b);
        b = filled(dtype, dot.rhs, 2, [](auto tag, auto&) { return static_cast<decltype(tag)>(0.5F); });
        const Buffer halves = run(dot, a, b);
        const std::int64_t columns = dot.rhs[1];
        for (std::int64_t at = 0; at < n * columns; ++at) {
          const std::int64_t row = at / columns;
          const double zero = value_of(zeros, at).real();
          const double half = value_of(halves, at).real();
          if (row == 3) {
            ASSERT_TRUE(std::isnan(zero) && std::isnan(half)) << at;
          } else if (row == 2) {
            ASSERT_TRUE(std::isnan(zero) && std::isinf(half)) << at;
          } else {
            ASSERT_TRUE(zero == 0 && std::isfinite(half)) << at;
          }
        }
      }
    }
  }
}

TEST(Dot, LongContractionsAreCut) {
  const auto cut = [](const std::string& lhs, const std::string& rhs, const Extents& extents, Dtype dtype) {
    check(lhs, rhs, extents, dtype);
    const Dot dot(lhs, rhs, extents, dtype);
    const Buffer a = numbers(dtype, dot.lhs, 1);
    const Buffer b = numbers(dtype, dot.rhs, 2);
    const Buffer out = make(dot.result().dtype, dot.result().shape);
    const Work work =
        dot.kernel()->work(std::vector<TensorView>{a.view(), b.view()}, std::vector<TensorView>{out.view()});
    EXPECT_GT(work.tiles, 1) << to_text(dot.graph);
    EXPECT_GT(work.scratch_bytes, 0U) << to_text(dot.graph);
  };
  cut("k", "k", {.k = 500'003}, Dtype::kF32);
  for (Dtype dtype : {Dtype::kF32, Dtype::kF64, Dtype::kBF16, Dtype::kC64, Dtype::kI8, Dtype::kBool}) {
    cut("ki", "kj", {.i = 3, .j = 5, .k = 30'003}, dtype);
  }
  cut("bik", "bkj", {.b = 2, .i = 20, .j = 30, .k = 16'011}, Dtype::kF32);
  cut("ikbl", "lkjb", {.b = 2, .i = 7, .j = 3, .k = 400, .l = 300}, Dtype::kF32);
}

// ---- Tiles.

// Runs the tiles in an order of its own, on several threads.
Buffer run_scattered(const Dot& dot, const Kernel& kernel, const Buffer& a, const Buffer& b, ThreadPool& pool) {
  Buffer out = make(dot.result().dtype, dot.result().shape);
  const std::vector<TensorView> inputs{a.view(), b.view()};
  const std::vector<TensorView> outputs{out.view()};
  const Work work = kernel.work(inputs, outputs);
  const Buffer scratch = make(Dtype::kU8, {static_cast<std::int64_t>(work.scratch_bytes)});
  std::byte* memory = const_cast<std::byte*>(static_cast<const std::byte*>(scratch.data()));
  pool.parallel_for(work.tiles, [&](std::int64_t i) { kernel.run(inputs, outputs, memory, work.tiles - 1 - i); });
  kernel.finish(inputs, outputs, memory);
  return out;
}

TEST(Dot, BitsDoNotDependOnThreads) {
  ThreadPool pool(4);
  for (Dtype dtype : {Dtype::kF32, Dtype::kF64, Dtype::kBF16, Dtype::kC64}) {
    for (const Dot& dot :
         {Dot("ik", "kj", {.i = 300, .j = 520, .k = 310}, dtype),
          Dot("bik", "bjk", {.b = 40, .i = 33, .j = 34, .k = 35}, dtype),
          Dot("ki", "kj", {.i = 9, .j = 11, .k = 90'000}, dtype), Dot("ik", "k", {.i = 900, .k = 901}, dtype)}) {
      const Buffer a = numbers(dtype, dot.lhs, 1);
      const Buffer b = numbers(dtype, dot.rhs, 2);
      const auto kernel = dot.kernel();
      const Buffer out = make(dot.result().dtype, dot.result().shape);
      EXPECT_GT(kernel->work(std::vector<TensorView>{a.view(), b.view()}, std::vector<TensorView>{out.view()}).tiles, 1)
          << to_text(dot.graph);
      EXPECT_TRUE(same_bits(run_scattered(dot, *kernel, a, b, pool), run(dot, a, b))) << to_text(dot.graph);
    }
  }
}

// Neighbouring tiles are computed as one. Which are, must not be seen.
TEST(Dot, BitsDoNotDependOnWhichTilesAreMerged) {
  for (Dtype dtype : {Dtype::kF32, Dtype::kF64, Dtype::kC64, Dtype::kC128}) {
    for (const Dot& dot : {Dot("ik", "kj", {.i = 1024, .j = 700, .k = 500}, dtype),
                           Dot("ki", "kj", {.i = 650, .j = 1000, .k = 450}, dtype),
                           Dot("ik", "jk", {.i = 500, .j = 2001, .k = 401}, dtype),
                           Dot("ki", "jk", {.i = 900, .j = 901, .k = 999}, dtype),
                           Dot("bik", "bkj", {.b = 3, .i = 600, .j = 400, .k = 390}, dtype)}) {
      const Buffer a = numbers(dtype, dot.lhs, 1);
      const Buffer b = numbers(dtype, dot.rhs, 2);
      const auto kernel = dot.kernel();
      const std::vector<TensorView> inputs{a.view(), b.view()};
      const auto run_ranges = [&](std::int64_t longest) {
        Buffer out = make(dot.result().dtype, dot.result().shape);
        const std::vector<TensorView> outputs{out.view()};
        const Work work = kernel->work(inputs, outputs);
        EXPECT_GT(work.tiles, 1) << to_text(dot.graph);
        for (std::int64_t begin = 0; begin < work.tiles; begin += longest) {
          kernel->run_tiles(inputs, outputs, nullptr, begin, std::min(begin + longest, work.tiles));
        }
        return out;
      };
      const Buffer one_by_one = run_ranges(1);
      for (std::int64_t longest : {2, 3, 5, 64}) {
        EXPECT_TRUE(same_bits(run_ranges(longest), one_by_one)) << to_text(dot.graph) << " by " << longest;
      }
    }
  }
}

// Nor which shards are: those with one right operand are computed together, others one after the other.
TEST(Dot, BitsDoNotDependOnWhichShardsAreComputedTogether) {
  for (Dtype dtype : {Dtype::kF32, Dtype::kF64, Dtype::kC64, Dtype::kF16}) {
    for (const Dot& dot : {Dot("ik", "kj", {.i = 300, .j = 700, .k = 500}, dtype),
                           Dot("bki", "bjk", {.b = 2, .i = 250, .j = 300, .k = 450}, dtype)}) {
      const auto kernel = dot.kernel();
      const std::vector<Buffer> rhs{numbers(dtype, dot.rhs, 2), numbers(dtype, dot.rhs, 3)};
      std::vector<Buffer> lhs, out;
      std::vector<std::vector<TensorView>> inputs, outputs;
      for (std::uint32_t i = 0; i < 5; ++i) {
        lhs.push_back(numbers(dtype, dot.lhs, 10 + i));
        out.push_back(make(dot.result().dtype, dot.result().shape));
        inputs.push_back({lhs[i].view(), rhs[i / 3].view()});
        outputs.push_back({out[i].view()});
      }
      const std::int64_t tiles = kernel->work(inputs[0], outputs[0]).tiles;
      ASSERT_GT(tiles, 1) << to_text(dot.graph);
      std::vector<ShardTiles> first, second;
      for (std::size_t i = 0; i < 5; ++i) {
        const std::int64_t cut = i < 2 ? tiles : i == 2 ? 1 : 0;
        first.push_back({inputs[i], outputs[i], nullptr, 0, cut});
        second.push_back({inputs[i], outputs[i], nullptr, cut, tiles});
      }
      kernel->run_shards(first);
      kernel->run_shards(second);
      for (std::size_t i = 0; i < 5; ++i) {
        EXPECT_TRUE(same_bits(out[i], run(dot, lhs[i], rhs[i / 3]))) << to_text(dot.graph) << " " << i;
      }
    }
  }
}

TEST(Dot, LargeProductsFeedManyThreads) {
  const auto tiles = [](const std::string& lhs, const std::string& rhs, const Extents& extents) {
    const Dot dot(lhs, rhs, extents, Dtype::kF32);
    const TensorView a{Dtype::kF32, dot.lhs, nullptr};
    const TensorView b{Dtype::kF32, dot.rhs, nullptr};
    const TensorView out{Dtype::kF32, dot.result().shape, nullptr};
    return dot.kernel()->work(std::vector<TensorView>{a, b}, std::vector<TensorView>{out}).tiles;
  };
  EXPECT_EQ(tiles("ik", "kj", {.i = 8, .j = 8, .k = 8}), 1);
  EXPECT_GE(tiles("ik", "kj", {.i = 256, .j = 256, .k = 256}), 2);
  EXPECT_GE(tiles("ik", "kj", {.i = 2048, .j = 2048, .k = 2048}), 16);
  EXPECT_GE(tiles("ik", "kj", {.i = 32, .j = 20'000, .k = 2048}), 8);
  EXPECT_GE(tiles("ik", "kj", {.i = 20'000, .j = 32, .k = 2048}), 8);
  EXPECT_GE(tiles("ki", "kj", {.i = 64, .j = 64, .k = 1'000'000}), 16);
  EXPECT_GE(tiles("bik", "bkj", {.b = 96, .i = 128, .j = 128, .k = 64}), 16);
  EXPECT_GE(tiles("bik", "bkj", {.b = 4, .i = 1024, .j = 1024, .k = 1024}), 16);
}

TEST(Dot, ShardsMayBeSmallerThanTheirType) {
  const Dot whole("ik", "kj", {.i = 300, .j = 50, .k = 60}, Dtype::kF32);
  const Dot part("ik", "kj", {.i = 7, .j = 50, .k = 60}, Dtype::kF32);
  const Buffer a = numbers(Dtype::kF32, part.lhs, 1);
  const Buffer b = numbers(Dtype::kF32, part.rhs, 2);
  Buffer out = make(Dtype::kF32, {7, 50});
  run_kernel(*whole.kernel(), std::vector<TensorView>{a.view(), b.view()}, std::vector<TensorView>{out.view()});
  EXPECT_TRUE(same_bits(out, run(part, a, b)));
}

// ---- What follows a product.

TEST(Dot, EpilogueSeesEachElementOnce) {
  // out = product + bias of the column + residual, in f64 or in the product's dtype.
  for (Dtype dtype : {Dtype::kF32, Dtype::kBF16}) {
    for (Dtype out_dtype : {dtype, Dtype::kF64}) {
      for (const Dot& dot : {Dot("ik", "kj", {.i = 300, .j = 520, .k = 310}, dtype),
                             Dot("bik", "bkj", {.b = 40, .i = 33, .j = 34, .k = 35}, dtype),
                             Dot("bik", "kjm", {.b = 3, .i = 40, .j = 16, .m = 17, .k = 35}, dtype),
                             Dot("ibk", "jkm", {.b = 2, .i = 20, .j = 3, .m = 18, .k = 40}, dtype),
                             Dot("ki", "kj", {.i = 9, .j = 11, .k = 90'000}, dtype),
                             Dot("ik", "kj", {.i = 40, .j = 50, .k = 0}, dtype)}) {
        SCOPED_TRACE(to_text(dot.graph));
        const Shape& shape = dot.result().shape;
        std::int64_t columns = 1;
        for (std::size_t d = 0; d < dot.rhs.size(); ++d) {
          const auto& attrs = dot.graph.eqns[0].attrs;
          const auto has = [d](const Dims& dims) {
            return std::find(dims.begin(), dims.end(), static_cast<std::int64_t>(d)) != dims.end();
          };
          if (!has(attrs.get<Dims>("rhs_contract")) && !has(attrs.get<Dims>("rhs_batch"))) columns *= dot.rhs[d];
        }
        const Buffer a = numbers(dtype, dot.lhs, 1);
        const Buffer b = numbers(dtype, dot.rhs, 2);
        const Buffer residual = numbers(Dtype::kF64, shape, 3);
        const auto follow = [&](const DotTile& tile, std::span<const TensorView> inputs,
                                std::span<const TensorView> outputs) {
          with_element_type(dtype, [&](auto tag) {
            using T = decltype(tag);
            with_element_type(outputs[0].dtype, [&](auto out_tag) {
              using Out = decltype(out_tag);
              if constexpr (std::is_same_v<Out, double> || std::is_same_v<Out, float> ||
                            std::is_same_v<Out, bfloat16_t>) {
                if constexpr (std::is_same_v<T, float> || std::is_same_v<T, bfloat16_t>) {
                  for (std::int64_t i = 0; i < tile.rows; ++i) {
                    for (std::int64_t j = 0; j < tile.columns; ++j) {
                      const std::int64_t at = (tile.row + i) * columns + tile.column + j;
                      const double x = reinterpret_cast<const T*>(tile.data + i * tile.row_stride)[j];
                      const double y = x + inputs[2].as<double>()[at] + static_cast<double>(tile.column + j);
                      outputs[0].as<Out>()[at] = static_cast<Out>(static_cast<float>(y));
                    }
                  }
                }
              }
            });
          });
        };
        Buffer got = make(out_dtype, shape);
        std::memset(got.mutable_data(), 0xFF, got.size_bytes());
        run_kernel(*dot.kernel(follow), std::vector<TensorView>{a.view(), b.view(), residual.view()},
                   std::vector<TensorView>{got.view()});
        // The same in two steps.
        Buffer product = run(dot, a, b);
        Buffer want = make(out_dtype, shape);
        const DotTile all{.row = 0,
                          .rows = num_elements(shape) / columns,
                          .column = 0,
                          .columns = columns,
                          .data = static_cast<std::byte*>(product.mutable_data()),
                          .row_stride = columns * static_cast<std::int64_t>(size_of(dtype))};
        follow(all, std::vector<TensorView>{a.view(), b.view(), residual.view()}, std::vector<TensorView>{want.view()});
        EXPECT_TRUE(same_bits(got, want));
      }
    }
  }
}

// ---- The libraries.

std::ptrdiff_t threads_of_this_process() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

// Products that go to each library and to none.
std::vector<Dot> mixed_products() {
  std::vector<Dot> dots;
  for (Dtype dtype : {Dtype::kF32, Dtype::kF64, Dtype::kC64, Dtype::kC128, Dtype::kBF16, Dtype::kI8}) {
    for (std::int64_t n : {40, 129, 300}) dots.emplace_back("ik", "kj", Extents{.i = n, .j = n + 1, .k = n - 3}, dtype);
    dots.emplace_back("bik", "bkj", Extents{.b = 20, .i = 100, .j = 100, .k = 90}, dtype);
    dots.emplace_back("ki", "jk", Extents{.i = 100, .j = 70, .k = 90}, dtype);
    dots.emplace_back("ik", "k", Extents{.i = 300, .k = 200}, dtype);
    dots.emplace_back("k", "kj", Extents{.j = 300, .k = 200}, dtype);
  }
  return dots;
}

TEST(DotLibraries, ConcurrentCallsGiveTheSameBits) {
  const std::vector<Dot> dots = mixed_products();
  std::vector<Buffer> lhs, rhs, want;
  for (const Dot& dot : dots) {
    lhs.push_back(numbers(dot.graph.type(0).dtype, dot.lhs, 1));
    rhs.push_back(numbers(dot.graph.type(0).dtype, dot.rhs, 2));
    want.push_back(run(dot, lhs.back(), rhs.back()));
  }
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < 8 * dots.size(); ++i) {
        const std::size_t at = (i * (2 * t + 1) + t) % dots.size();
        if (!same_bits(run(dots[at], lhs[at], rhs[at]), want[at])) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(DotLibraries, StartNoThreads) {
  const std::ptrdiff_t before = threads_of_this_process();
  for (const Dot& dot : mixed_products()) {
    const Dtype dtype = dot.graph.type(0).dtype;
    run(dot, numbers(dtype, dot.lhs, 1), numbers(dtype, dot.rhs, 2));
    ASSERT_EQ(threads_of_this_process(), before) << to_text(dot.graph);
  }
}

TEST(DotLibraries, ProductsWorkWithoutThem) {
  // In a process of its own, which has not loaded them.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto without = [] {
    setenv("SHOAL_PLUGIN_PATH", "/nowhere", 1);
    for (Dtype dtype : {Dtype::kF32, Dtype::kF64, Dtype::kC64, Dtype::kC128, Dtype::kBF16}) {
      check("ik", "kj", {.i = 61, .j = 62, .k = 63}, dtype);
      check("bki", "bjk", {.b = 2, .i = 150, .j = 151, .k = 260}, dtype);
      check("ik", "k", {.i = 300, .k = 200}, dtype);
    }
    std::_Exit(testing::Test::HasFailure() ? 1 : 0);
  };
  EXPECT_EXIT(without(), testing::ExitedWithCode(0), "the plugin 'blas' cannot be loaded");
}

}  // namespace
}  // namespace shoal::cpu
