#include "backend/cpu/sorts/sort_kernels.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "backend/reference/reference.h"
#include "base/thread_pool.h"
#include "core/dispatch.h"
#include "ops/table.h"

namespace shoal::cpu {
namespace {

constexpr Dtype kAll[] = {Dtype::kBool, Dtype::kI8,  Dtype::kI16, Dtype::kI32, Dtype::kI64,
                          Dtype::kU8,   Dtype::kU16, Dtype::kU32, Dtype::kU64, Dtype::kF16,
                          Dtype::kBF16, Dtype::kF32, Dtype::kF64, Dtype::kC64, Dtype::kC128};

// What the elements of an operand are drawn from.
enum class Draw { kAnyBits, kFew };

// Any bits are NaNs of many payloads now and then. The few are what order is about: infinities, zeros of both signs,
// NaNs, the extremes of integers, and many equal ones.
template <class T>
T drawn(Draw draw, std::mt19937_64& random) {
  if constexpr (kIsComplexElement<T>) {
    using Real = typename T::value_type;
    return {drawn<Real>(draw, random), drawn<Real>(draw, random)};
  } else if constexpr (std::is_same_v<T, bool>) {
    return (random() & 1U) != 0;
  } else if (draw == Draw::kAnyBits) {
    const std::uint64_t bits = random();
    T value;
    std::memcpy(static_cast<void*>(&value), &bits, sizeof(T));
    return value;
  } else if constexpr (std::is_integral_v<T>) {
    const T few[] = {0, 1, 2, 3, 100, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
    return few[random() % std::size(few)];
  } else {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const float few[] = {0, -0.0F, 1, -1, 2.5F, -2.5F, kInfinity, -kInfinity, std::nanf("1"), -std::nanf("2")};
    return T(few[random() % std::size(few)]);
  }
}

Buffer drawn_buffer(Dtype dtype, const Shape& shape, Draw draw, std::mt19937_64& random) {
  Buffer buffer(host_space({}), dtype, shape);
  with_element_type(dtype, [&](auto tag) {
    using T = decltype(tag);
    for (std::int64_t i = 0; i < num_elements(shape); ++i) {
      static_cast<T*>(buffer.mutable_data())[i] = drawn<T>(draw, random);
    }
  });
  return buffer;
}

std::vector<Buffer> run(const Kernel& kernel, const std::vector<Buffer>& inputs, const Graph& graph) {
  const auto view_of = [](const Buffer& buffer) {
    return TensorView{.dtype = buffer.dtype(), .shape = buffer.shape(), .data = const_cast<void*>(buffer.data())};
  };
  std::vector<TensorView> in, out;
  std::vector<Buffer> results;
  for (const Buffer& input : inputs) in.push_back(view_of(input));
  for (ValueId id : graph.outputs) {
    results.emplace_back(host_space({}), graph.type(id).dtype, graph.type(id).shape);
    if (results.back().size_bytes() != 0) std::memset(results.back().mutable_data(), 0xA5, results.back().size_bytes());
    out.push_back(view_of(results.back()));
  }
  run_kernel(kernel, in, out);
  return results;
}

// Compares the kernel's bits with those of the reference.
void check(std::string_view op, const Attrs& attrs, const std::vector<Buffer>& inputs) {
  Graph graph;
  std::vector<ValueId> ids;
  for (const Buffer& input : inputs) {
    ids.push_back(
        graph.add_input({.dtype = input.dtype(), .shape = input.shape(), .weak = false, .memory = {}, .varying = {}}));
  }
  graph.outputs = graph.add_eqn(op_named(op), attrs, ids, SourceLocation::current());
  const std::unique_ptr<Kernel> kernel =
      op == "sort" ? sort_kernel(graph, graph.eqns[0]) : top_k_kernel(graph, graph.eqns[0]);
  ASSERT_NE(kernel, nullptr);
  const std::vector<Buffer> got = run(*kernel, inputs, graph);
  const std::vector<Buffer> want = run(*reference_kernel(graph.eqns[0], "reference"), inputs, graph);
  for (std::size_t k = 0; k < want.size(); ++k) {
    const std::size_t size = size_of(want[k].dtype());
    for (std::size_t i = 0; i < want[k].size_bytes(); i += size) {
      const auto* a = static_cast<const std::byte*>(got[k].data()) + i;
      const auto* b = static_cast<const std::byte*>(want[k].data()) + i;
      ASSERT_EQ(std::memcmp(a, b, size), 0)
          << to_text(graph) << "element " << i / size << " of result " << k << " differs";
    }
  }
}

Attrs sort_attrs(std::int64_t dim, std::int64_t keys, bool descending) {
  return {{"dim", dim}, {"num_keys", keys}, {"descending", descending}};
}

struct Case {
  Shape shape;
  std::int64_t dim;
};

// Lines of one element, shorter than vectors and longer, dense and apart, and none.
const Case kCases[] = {{{1}, 0},      {{7}, 0},      {{1000}, 0},     {{30, 5}, 1},    {{3, 300, 1}, 1},
                       {{300, 3}, 0}, {{70, 50}, 0}, {{2, 60, 9}, 1}, {{2, 9, 60}, 1}, {{0}, 0},
                       {{3, 0}, 1},   {{0, 3}, 1},   {{3, 0}, 0}};

TEST(SortKernel, ValuesOfEveryDtype) {
  std::mt19937_64 random(1);
  for (const Dtype dtype : kAll) {
    for (const Case& c : kCases) {
      for (const Draw draw : {Draw::kAnyBits, Draw::kFew}) {
        for (const bool descending : {false, true}) {
          check("sort", sort_attrs(c.dim, 1, descending), {drawn_buffer(dtype, c.shape, draw, random)});
        }
      }
    }
  }
}

TEST(SortKernel, OperandsFollowAKeyOfEveryDtype) {
  std::mt19937_64 random(2);
  for (const Dtype dtype : kAll) {
    for (const Case& c : kCases) {
      for (const Draw draw : {Draw::kAnyBits, Draw::kFew}) {
        std::vector<Buffer> operands{drawn_buffer(dtype, c.shape, draw, random)};
        for (const Dtype other : {Dtype::kI32, Dtype::kU8, Dtype::kC128, Dtype::kF16, Dtype::kF64}) {
          operands.push_back(drawn_buffer(other, c.shape, Draw::kAnyBits, random));
        }
        for (const bool descending : {false, true}) check("sort", sort_attrs(c.dim, 1, descending), operands);
      }
    }
  }
}

// From keys that fit a short word to such as need several turns.
TEST(SortKernel, SeveralKeys) {
  std::mt19937_64 random(3);
  const std::vector<std::vector<Dtype>> keys = {
      {Dtype::kBool, Dtype::kI8, Dtype::kU8},
      {Dtype::kF32, Dtype::kI16, Dtype::kU8},
      {Dtype::kI32, Dtype::kF32, Dtype::kF32},
      {Dtype::kI64, Dtype::kF64, Dtype::kI64},
      {Dtype::kC128, Dtype::kU8, Dtype::kC64, Dtype::kF64, Dtype::kBF16},
  };
  for (const std::vector<Dtype>& dtypes : keys) {
    for (const Case& c : kCases) {
      std::vector<Buffer> operands;
      for (const Dtype dtype : dtypes) operands.push_back(drawn_buffer(dtype, c.shape, Draw::kFew, random));
      operands.push_back(drawn_buffer(Dtype::kI64, c.shape, Draw::kAnyBits, random));
      for (std::size_t count = 1; count <= dtypes.size() + 1; ++count) {
        for (const bool descending : {false, true}) {
          check("sort", sort_attrs(c.dim, static_cast<std::int64_t>(count), descending), operands);
        }
      }
    }
  }
}

TEST(SortKernel, Greatest) {
  std::mt19937_64 random(4);
  for (const Dtype dtype : kAll) {
    if (is_complex(dtype)) continue;
    for (const Case& c : kCases) {
      const std::int64_t n = c.shape[static_cast<std::size_t>(c.dim)];
      for (const Draw draw : {Draw::kAnyBits, Draw::kFew}) {
        const Buffer operand = drawn_buffer(dtype, c.shape, draw, random);
        for (const std::int64_t k : {std::int64_t{0}, std::min<std::int64_t>(n, 1), n / 20, n / 2, n}) {
          check("top_k", {{"dim", c.dim}, {"k", k}}, {operand});
        }
      }
    }
  }
}

// So long that several threads sort one line, also where they do not come out even.
TEST(SortKernel, LongLines) {
  std::mt19937_64 random(5);
  for (const std::int64_t n : {(1 << 17) + 1, 300'001}) {
    for (const Dtype dtype : {Dtype::kU8, Dtype::kF32, Dtype::kI64, Dtype::kC64}) {
      for (const Draw draw : {Draw::kAnyBits, Draw::kFew}) {
        const Buffer key = drawn_buffer(dtype, {n}, draw, random);
        const Buffer other = drawn_buffer(Dtype::kI32, {n}, Draw::kAnyBits, random);
        check("sort", sort_attrs(0, 1, false), {key});
        check("sort", sort_attrs(0, 1, true), {key, other});
        if (!is_complex(dtype)) check("top_k", {{"dim", std::int64_t{0}}, {"k", n / 3}}, {key});
      }
    }
  }
}

// Inside a loop each thread sorts alone; the bits are the same.
TEST(SortKernel, LongLinesInsideOfALoop) {
  ThreadPool::shared().parallel_for(4, [](std::int64_t i) {
    std::mt19937_64 random(static_cast<std::uint64_t>(i));
    check("sort", sort_attrs(0, 1, false), {drawn_buffer(Dtype::kF32, {100'000}, Draw::kAnyBits, random)});
  });
}

}  // namespace
}  // namespace shoal::cpu
