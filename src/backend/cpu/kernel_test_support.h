// What tests of kernels share: operands of any bits, and a comparison with the reference.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <memory>
#include <random>
#include <string_view>
#include <type_traits>
#include <vector>

#include "backend/cpu/kernels.h"
#include "backend/reference/reference.h"
#include "core/dispatch.h"
#include "ops/reduction.h"
#include "ops/table.h"

namespace shoal::cpu {

inline constexpr Dtype kEveryDtype[] = {Dtype::kBool, Dtype::kI8,  Dtype::kI16, Dtype::kI32, Dtype::kI64,
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

inline Buffer drawn_buffer(Dtype dtype, const Shape& shape, Draw draw, std::mt19937_64& random) {
  Buffer buffer(host_space({}), dtype, shape);
  with_element_type(dtype, [&](auto tag) {
    using T = decltype(tag);
    for (std::int64_t i = 0; i < num_elements(shape); ++i) {
      static_cast<T*>(buffer.mutable_data())[i] = drawn<T>(draw, random);
    }
  });
  return buffer;
}

inline std::vector<Buffer> results_of(const Kernel& kernel, const std::vector<Buffer>& inputs, const Graph& graph) {
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

// Whether the bits of NaNs are compared, too. Which of several NaNs a reduction gives is not said.
enum class Nans { kSameBits, kAny };

inline bool is_nan(Dtype dtype, const std::byte* element) {
  bool found = false;
  with_element_type(dtype, [&](auto tag) {
    using T = decltype(tag);
    if constexpr (std::is_floating_point_v<CombineType<T>>) {
      T value;
      std::memcpy(static_cast<void*>(&value), element, sizeof(T));
      found = value != value;
    }
  });
  return found;
}

// Compares the bits of the kernel that the back end has for an op with those of the op's reference.
inline void check_kernel(std::string_view op, const Attrs& attrs, const std::vector<Buffer>& inputs,
                         Nans nans = Nans::kSameBits) {
  Graph graph;
  std::vector<ValueId> ids;
  for (const Buffer& input : inputs) {
    ids.push_back(
        graph.add_input({.dtype = input.dtype(), .shape = input.shape(), .weak = false, .memory = {}, .varying = {}}));
  }
  graph.outputs = graph.add_eqn(op_named(op), attrs, ids, SourceLocation::current());
  const KernelRow* row = kernel_row(op_named(op));
  ASSERT_NE(row, nullptr) << op << " has no kernel";
  const std::unique_ptr<Kernel> kernel = row->make(graph, graph.eqns[0]);
  ASSERT_NE(kernel, nullptr) << "the kernel of " << op << " does not take\n" << to_text(graph);
  const std::vector<Buffer> got = results_of(*kernel, inputs, graph);
  const std::vector<Buffer> want = results_of(*reference_kernel(graph.eqns[0], "reference"), inputs, graph);
  for (std::size_t k = 0; k < want.size(); ++k) {
    const std::size_t size = size_of(want[k].dtype());
    for (std::size_t i = 0; i < want[k].size_bytes(); i += size) {
      const auto* a = static_cast<const std::byte*>(got[k].data()) + i;
      const auto* b = static_cast<const std::byte*>(want[k].data()) + i;
      if (nans == Nans::kAny && is_nan(want[k].dtype(), a) && is_nan(want[k].dtype(), b)) continue;
      ASSERT_EQ(std::memcmp(a, b, size), 0)
          << to_text(graph) << "element " << i / size << " of result " << k << " differs";
    }
  }
}

}  // namespace shoal::cpu
