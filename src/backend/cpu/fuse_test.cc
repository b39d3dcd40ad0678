#include "backend/cpu/fuse.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>

#include "backend/backend.h"
#include "backend/cpu/loops/lower.h"
#include "backend/cpu/loops/unrolled_rows.h"
#include "core/dispatch.h"
#include "ops/table.h"

namespace shoal::cpu {
namespace {

std::string fused(std::string_view text) {
  const Graph graph = parse_graph(text, find_op);
  verify(graph, "given");
  const Graph result = fuse_loops(graph);
  verify(result, "fused");
  return to_text(result);
}

std::vector<std::string> op_names(std::string_view text) {
  const Graph graph = fuse_loops(parse_graph(text, find_op));
  std::vector<std::string> names;
  for (const Eqn& eqn : graph.eqns) names.emplace_back(eqn.op->name);
  return names;
}

using Names = std::vector<std::string>;

// The values of a graph, equation by equation, on one back end.
std::vector<Buffer> evaluate(const Backend& backend, const Graph& graph, const std::vector<Buffer>& inputs) {
  std::vector<Buffer> values(graph.values.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) values[static_cast<std::size_t>(graph.inputs[i])] = inputs[i];
  for (const Eqn& eqn : graph.eqns) {
    std::vector<TensorView> operands;
    std::vector<TensorView> results;
    for (ValueId id : eqn.inputs) operands.push_back(values[static_cast<std::size_t>(id)].view());
    for (ValueId id : eqn.outputs) {
      Buffer& buffer = values[static_cast<std::size_t>(id)];
      buffer = Buffer(host_space({}), graph.type(id).dtype, graph.type(id).shape);
      results.push_back(buffer.view());
    }
    run_kernel(*backend.compile(graph, eqn), operands, results);
  }
  std::vector<Buffer> outputs;
  for (ValueId id : graph.outputs) outputs.push_back(values[static_cast<std::size_t>(id)]);
  return outputs;
}

Buffer random_buffer(const Type& type, std::mt19937& random) {
  Buffer buffer(host_space({}), type.dtype, type.shape);
  with_element_type(type.dtype, [&](auto tag) {
    using T = decltype(tag);
    auto* data = static_cast<T*>(buffer.mutable_data());
    for (std::int64_t i = 0; i < num_elements(type.shape); ++i) {
      const double value = std::uniform_real_distribution<>(-2, 2)(random);
      if constexpr (kIsSmallFloat<T>) {
        data[i] = T(static_cast<float>(value));
      } else if constexpr (std::is_same_v<T, bool>) {
        data[i] = value > 0;
      } else if constexpr (!kIsComplexElement<T>) {
        data[i] = static_cast<T>(value);
      }
    }
  });
  return buffer;
}

// Runs a graph fused on `cpu` and as it is on `reference`. Sums are taken in another order, and those of products in
// f32: results may differ in the last bits.
void expect_same_values(std::string_view text, double tolerance = 1e-6) {
  const Graph graph = parse_graph(text, find_op);
  std::mt19937 random(1);
  std::vector<Buffer> inputs;
  for (ValueId id : graph.inputs) inputs.push_back(random_buffer(graph.type(id), random));
  const std::vector<Buffer> expected = evaluate(reference_backend(), graph, inputs);
  const std::vector<Buffer> got = evaluate(cpu_backend(), fuse_loops(graph), inputs);
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i].dtype() != float32) {
      EXPECT_EQ(std::memcmp(got[i].data(), expected[i].data(), got[i].size_bytes()), 0) << "output " << i;
      continue;
    }
    const auto* a = static_cast<const float*>(got[i].data());
    const auto* b = static_cast<const float*>(expected[i].data());
    for (std::int64_t k = 0; k < num_elements(got[i].shape()); ++k) {
      ASSERT_NEAR(a[k], b[k], tolerance * std::max(1.0, std::abs(static_cast<double>(b[k]))))
          << "output " << i << " element " << k;
    }
  }
}

constexpr std::string_view kSoftmax = R"(graph "main"(%0: f32[5,7]) {
  %1: f32[5] = reduce_max(%0) {axes = (1)}
  %2: f32[5,1] = reshape(%1) {shape = (5, 1)}
  %3: f32[5,7] = broadcast_in_dim(%2) {dims = (0, 1), shape = (5, 7)}
  %4: f32[5,7] = subtract(%0, %3)
  %5: f32[5,7] = exp(%4)
  %6: f32[5] = reduce_sum(%5) {axes = (1)}
  %7: f32[5,7] = broadcast_in_dim(%6) {dims = (0), shape = (5, 7)}
  %8: f32[5,7] = divide(%5, %7)
  return %8
})";

TEST(Fuse, ChainsAreOneLoop) {
  EXPECT_EQ(fused(R"(graph "main"(%0: f32[4,8], %1: f32[8]) {
  %2: f32[4,8] = sin(%0)
  %3: f32[4,8] = broadcast_in_dim(%1) {dims = (1), shape = (4, 8)}
  %4: f32[4,8] = add(%2, %3)
  return %4
})"),
            R"(graph "main"(%0: f32[4,8], %1: f32[8]) {
  %4: f32[4,8] = fusion(%0, %1) {body = graph "fusion"(%0: f32[4,8], %1: f32[8]) {
      %2: f32[4,8] = sin(%0)
      %3: f32[4,8] = broadcast_in_dim(%1) {dims = (1), shape = (4, 8)}
      %4: f32[4,8] = add(%2, %3)
      return %4
    }}
  return %4
})");
}

TEST(Fuse, SoftmaxIsOneLoop) {
  EXPECT_EQ(op_names(kSoftmax), Names{"fusion"});
  expect_same_values(kSoftmax);
}

TEST(Fuse, LayerNormWithScaleIsOneLoop) {
  constexpr std::string_view kNorm = R"(graph "main"(%0: f32[2,3,40], %1: f32[40], %2: f32[40]) {
  %3: f32[2,3] = reduce_sum(%0) {axes = (2)}
  %4: f32[] = full() {shape = (), value = f32(40)}
  %5: f32[2,3] = divide(%3, %4)
  %6: f32[2,3,40] = broadcast_in_dim(%5) {dims = (0, 1), shape = (2, 3, 40)}
  %7: f32[2,3,40] = subtract(%0, %6)
  %8: f32[2,3,40] = square(%7)
  %9: f32[2,3] = reduce_sum(%8) {axes = (2)}
  %10: f32[2,3] = divide(%9, %4)
  %11: f32[2,3] = rsqrt(%10)
  %12: f32[2,3,1] = reshape(%11) {shape = (2, 3, 1)}
  %13: f32[2,3,40] = broadcast_in_dim(%12) {dims = (0, 1, 2), shape = (2, 3, 40)}
  %14: f32[2,3,40] = multiply(%7, %13)
  %15: f32[2,3,40] = broadcast_in_dim(%1) {dims = (2), shape = (2, 3, 40)}
  %16: f32[2,3,40] = multiply(%14, %15)
  %17: f32[2,3,40] = broadcast_in_dim(%2) {dims = (2), shape = (2, 3, 40)}
  %18: f32[2,3,40] = add(%16, %17)
  return %18
})";
  EXPECT_EQ(op_names(kNorm), Names{"fusion"});
  expect_same_values(kNorm);
}

TEST(Fuse, WhatIsUsedOutsideIsAResult) {
  const auto names = op_names(R"(graph "main"(%0: f32[4,4]) {
  %1: f32[4,4] = sin(%0)
  %2: f32[4,4] = cos(%1)
  %3: f32[4,4] = dot_general(%1, %0) {lhs_batch = (), lhs_contract = (1), rhs_batch = (), rhs_contract = (0)}
  %4: f32[4,4] = add(%2, %3)
  return %4
})");
  // The sum needs the product, which needs the sine: they cannot all be one loop. It follows the product.
  EXPECT_EQ(names, (Names{"fusion", "fusion"}));
}

// A sum of three products that are made one after the other: for memory's sake it takes in each when it is there, and a
// product gives its operands back before a loop that has two results.
TEST(Fuse, ForMemoryNothingWaits) {
  const Graph graph = parse_graph(R"(graph "main"(%0: f32[4,4], %1: f32[4,4]) {
  %2: f32[4,4] = dot_general(%0, %1) {lhs_batch = (), lhs_contract = (1), rhs_batch = (), rhs_contract = (0)}
  %3: f32[4,4] = dot_general(%2, %1) {lhs_batch = (), lhs_contract = (1), rhs_batch = (), rhs_contract = (0)}
  %4: f32[4,4] = sort(%2) {dim = 0, num_keys = 1, descending = false}
  %5: f32[4,4] = add(%4, %2)
  %6: f32[4,4] = sort(%3) {dim = 0, num_keys = 1, descending = false}
  %7: f32[4,4] = add(%5, %6)
  %8: f32[4,4] = sort(%3) {dim = 1, num_keys = 1, descending = false}
  %9: f32[4,4] = add(%7, %8)
  return %9
})",
                                  find_op);
  const auto names = [&](Backend::FusionGoal goal) {
    const Graph result = fuse_loops(graph, goal);
    verify(result, "fused");
    Names made;
    for (const Eqn& eqn : result.eqns) made.emplace_back(eqn.op->name);
    return made;
  };
  EXPECT_EQ(names(Backend::FusionGoal::kTime), (Names{"dot_general", "dot_general", "sort", "sort", "sort", "fusion"}));
  EXPECT_EQ(names(Backend::FusionGoal::kMemory),
            (Names{"dot_general", "dot_general", "sort", "add", "sort", "add", "sort", "add"}));
  const Graph two = parse_graph(R"(graph "main"(%0: f32[4,4], %1: f32[4,4], %2: f32[4,4]) {
  %3: f32[4,4] = dot_general(%0, %1) {lhs_batch = (), lhs_contract = (1), rhs_batch = (), rhs_contract = (0)}
  %4: f32[4,4] = add(%3, %2)
  %5: f32[4,4] = multiply(%4, %2)
  return %4, %5
})",
                                find_op);
  EXPECT_EQ(fuse_loops(two).eqns.size(), 1U);
  const Graph apart = fuse_loops(two, Backend::FusionGoal::kMemory);
  ASSERT_EQ(apart.eqns.size(), 2U);
  EXPECT_EQ(apart.eqns[0].op->name, "dot_general");
  EXPECT_EQ(apart.eqns[1].op->name, "fusion");
}

// A chain of so many sums with constants and products, whose last value masks another array, and again.
std::string chain(int length) {
  std::string text =
      "graph \"main\"(%0: f32[64,64], %1: f32[64,64]) {\n  %2: f32[] = full() {shape = (), value = f32(0.5)}\n";
  int last = 0;
  int next = 3;
  for (int i = 0; i < length; ++i) {
    text += fmt::format("  %{}: f32[64,64] = {}(%{}, %2)\n", next, i % 2 == 0 ? "add" : "multiply", last);
    last = next++;
  }
  const int mask = next++;
  text += fmt::format("  %{}: bool[64,64] = less(%{}, %2)\n", mask, last);
  text += fmt::format("  %{}: f32[64,64] = select(%{}, %1, %2)\n", next, mask);
  text += fmt::format("  %{}: f32[64,64] = select(%{}, %{}, %2)\n", next + 1, mask, next);
  return text + fmt::format("  return %{}\n}}", next + 1);
}

// What one loop makes and reads itself takes no memory, as the bits of a dropout do.
TEST(Fuse, WhatALoopMakesForItselfCountsAsNoArray) {
  EXPECT_EQ(op_names(chain(20)), (Names{"fusion"}));
  EXPECT_EQ(op_names(chain(40)), (Names{"fusion"}));
  const Names long_ones = op_names(chain(200));
  EXPECT_GE(long_ones.size(), 4U) << "larger groups take long to compile";
  EXPECT_LE(long_ones.size(), 6U);
  EXPECT_TRUE(std::ranges::all_of(long_ones, [](const std::string& name) { return name == "fusion"; }));
}

TEST(Fuse, TotalsOverOtherDimensionsEndALoop) {
  for (const char* axes : {"0", "0, 2", "1", "0, 1, 2", "1, 2"}) {
    const std::string_view result = std::string_view(axes) == "0"         ? "[5,6]"
                                    : std::string_view(axes) == "1"       ? "[4,6]"
                                    : std::string_view(axes) == "0, 2"    ? "[5]"
                                    : std::string_view(axes) == "0, 1, 2" ? "[]"
                                                                          : "[4]";
    const std::string text = "graph \"main\"(%0: f32[4,5,6]) {\n  %1: f32[4,5,6] = sin(%0)\n  %2: f32" +
                             std::string(result) + " = reduce_sum(%1) {axes = (" + axes + ")}\n  return %2\n}";
    EXPECT_EQ(op_names(text), Names{"fusion"}) << text;
    expect_same_values(text);
  }
}

TEST(Fuse, LargeTotalsAreReducedInParts) {
  expect_same_values(R"(graph "main"(%0: f32[3,40000]) {
  %1: f32[3,40000] = square(%0)
  %2: f32[3] = reduce_sum(%1) {axes = (1)}
  %3: f32[] = reduce_max(%1) {axes = (0, 1)}
  %4: f32[40000] = reduce_sum(%1) {axes = (0)}
  return %2, %3, %4
})");
  expect_same_values(R"(graph "main"(%0: i32[3000,5]) {
  %1: i32[5] = reduce_sum(%0) {axes = (0)}
  %2: i32[3000] = reduce_max(%0) {axes = (1)}
  %3: i32[] = reduce_min(%0) {axes = (0, 1)}
  return %1, %2, %3
})");
}

TEST(Fuse, ReadsThroughSlicesAndTransposes) {
  constexpr std::string_view kText = R"(graph "main"(%0: f32[6,4,10], %1: f32[4,2,5]) {
  %2: f32[2,4,5] = slice(%0) {limits = (6, 4, 10), starts = (1, 0, 0), strides = (3, 1, 2)}
  %3: f32[2,4,5] = transpose(%1) {perm = (1, 0, 2)}
  %4: f32[2,4,5] = add(%2, %3)
  return %4
})";
  EXPECT_EQ(op_names(kText), Names{"fusion"});
  expect_same_values(kText);
}

TEST(Fuse, PositionsAreKnown) {
  // Row-major ones, of small and large rows, also where the loop is compiled before it runs.
  for (const char* shape : {"5,7", "40,1", "1,40", "3,3000", "2000,3", "1030,1030"}) {
    const std::string extents = shape;
    const std::string columns = extents.substr(extents.find(',') + 1);
    const std::string text = fmt::format(R"(graph "main"(%0: i32[{0}]) {{
  %1: i32[{0}] = iota() {{dim = 0, dtype = i32, shape = ({0})}}
  %2: i32[{0}] = full() {{shape = ({0}), value = i32({1})}}
  %3: i32[{0}] = multiply(%1, %2)
  %4: i32[{0}] = iota() {{dim = 1, dtype = i32, shape = ({0})}}
  %5: i32[{0}] = add(%3, %4)
  %6: i32[{0}] = add(%0, %5)
  return %6
}})",
                                         shape, columns);
    SCOPED_TRACE(text);
    EXPECT_EQ(op_names(text), Names{"fusion"});
    expect_same_values(text);
  }
}

TEST(Fuse, PositionsAreReadThroughViewsAndReduced) {
  constexpr std::string_view kText = R"(graph "main"(%0: f32[6,9]) {
  %1: i32[20] = iota() {dim = 0, dtype = i32, shape = (20)}
  %2: i32[6] = slice(%1) {limits = (18), starts = (2), strides = (3)}
  %3: i32[6,9] = broadcast_in_dim(%2) {dims = (0), shape = (6, 9)}
  %4: f32[6,9] = convert(%3) {dtype = f32}
  %5: f32[6,9] = iota() {dim = 1, dtype = f32, shape = (6, 9)}
  %6: f32[6,9] = multiply(%5, %4)
  %7: f32[6,9] = add(%0, %6)
  %8: f32[6] = reduce_sum(%7) {axes = (1)}
  %9: f32[6] = iota() {dim = 0, dtype = f32, shape = (6)}
  %10: f32[6] = add(%8, %9)
  return %10
})";
  EXPECT_EQ(op_names(kText), Names{"fusion"});
  expect_same_values(kText);
  for (const char* dtype : {"i8", "u8", "u16", "i64", "u64", "f16", "bf16", "f64"}) {
    SCOPED_TRACE(dtype);
    expect_same_values(fmt::format(R"(graph "main"(%0: {0}[700]) {{
  %1: {0}[700] = iota() {{dim = 0, dtype = {0}, shape = (700)}}
  %2: {0}[700] = negative(%1)
  %3: {0}[] = reduce_max(%1) {{axes = (0)}}
  return %1, %2, %3
}})",
                                   dtype));
  }
}

TEST(Fuse, FewColumnsAreWalkedAlongTheLongestDimension) {
  const auto text = [](const char* shape, int first, int last) {
    return fmt::format(R"(graph "main"(%0: f32[{1}], %1: f32[{2}], %2: f32[{0}]) {{
  %3: f32[{0}] = broadcast_in_dim(%0) {{dims = (0), shape = ({0})}}
  %4: f32[{0}] = broadcast_in_dim(%1) {{dims = (2), shape = ({0})}}
  %5: f32[{0}] = multiply(%3, %4)
  %6: f32[{0}] = add(%5, %2)
  %7: i32[{0}] = iota() {{dim = 0, dtype = i32, shape = ({0})}}
  %8: f32[{0}] = convert(%7) {{dtype = f32}}
  %9: f32[{0}] = subtract(%6, %8)
  return %9, %6
}})",
                       shape, first, last);
  };
  expect_same_values(text("1024,1,3", 1024, 3));
  expect_same_values(text("100,2,5", 100, 5));
  expect_same_values(text("2,77,3", 2, 3));
  expect_same_values(text("40000,11,3", 40000, 3));
  const Graph graph = parse_graph(text("64,1,2", 64, 2), find_op);
  const std::optional<LoopPlan> plan = lower(fuse_loops(graph).eqns[0].attrs.graph());
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->dims, (std::vector<std::vector<int>>{{2}, {0}}));
}

TEST(Fuse, ShortRowsThatLieSideBySideAreWalkedAsOne) {
  for (const char* dtype : {"f32", "f64", "i32", "u8", "bf16"}) {
    for (const int columns : {2, 3, 5, 8, 10, 17, 32}) {
      expect_same_values(fmt::format(R"(graph "main"(%0: {0}[700], %1: {0}[{1}], %2: {0}[700,{1}], %3: {0}[{1},700]) {{
  %4: {0}[700,{1}] = broadcast_in_dim(%0) {{dims = (0), shape = (700, {1})}}
  %5: {0}[700,{1}] = broadcast_in_dim(%1) {{dims = (1), shape = (700, {1})}}
  %6: {0}[700,{1}] = subtract(%4, %5)
  %7: {0}[700,{1}] = transpose(%3) {{perm = (1, 0)}}
  %8: {0}[700,{1}] = maximum(%6, %7)
  %9: i32[700,{1}] = iota() {{dim = 1, dtype = i32, shape = (700, {1})}}
  %10: i32[700,{1}] = iota() {{dim = 0, dtype = i32, shape = (700, {1})}}
  %11: bool[700,{1}] = less(%9, %10)
  %12: {0}[700,{1}] = select(%11, %8, %2)
  return %12, %6
}})",
                                     dtype, columns));
    }
  }
}

// The graph of a softmax, of its sums, and of how many elements of a row are greatest.
std::string softmax_of(std::int64_t rows, std::int64_t columns, std::string_view dtype) {
  return fmt::format(R"(graph "main"(%0: {2}[{0},{1}]) {{
  %1: {2}[{0}] = reduce_max(%0) {{axes = (1)}}
  %2: {2}[{0},{1}] = broadcast_in_dim(%1) {{dims = (0), shape = ({0}, {1})}}
  %3: {2}[{0},{1}] = subtract(%0, %2)
  %4: {2}[{0},{1}] = exp(%3)
  %5: {2}[{0}] = reduce_sum(%4) {{axes = (1)}}
  %6: {2}[{0},{1}] = broadcast_in_dim(%5) {{dims = (0), shape = ({0}, {1})}}
  %7: {2}[{0},{1}] = divide(%4, %6)
  %8: bool[{0},{1}] = equal(%0, %2)
  %9: i32[{0},{1}] = convert(%8) {{dtype = i32}}
  %10: i32[{0}] = reduce_sum(%9) {{axes = (1)}}
  return %7, %5, %10
}})",
                     rows, columns, dtype);
}

TEST(Fuse, ShortRowsAreReducedSideBySide) {
  for (const int columns : {2, 3, 7, 10, 16}) {
    const std::string text = softmax_of(600, columns, "f32");
    EXPECT_EQ(op_names(text), Names{"fusion"});
    expect_same_values(text);
    const Graph loops = fuse_loops(parse_graph(text, find_op));
    const Graph& body = loops.eqns[0].attrs.graph();
    EXPECT_EQ(unroll_rows(*lower(body), body).has_value(), columns <= 10) << columns;
    // As rows by themselves are, to the bit.
    for (const char* dtype : {"f32", "f64", "bf16"}) {
      const Graph many = parse_graph(softmax_of(600, columns, dtype), find_op);
      const Graph few = parse_graph(softmax_of(60, columns, dtype), find_op);
      std::mt19937 random(3);
      const std::vector<Buffer> input = {random_buffer(many.type(0), random)};
      const std::vector<Buffer> all = evaluate(cpu_backend(), fuse_loops(many), input);
      for (std::int64_t first = 0; first < 600; first += 60) {
        Buffer part(host_space({}), few.type(0).dtype, few.type(0).shape);
        const auto bytes_before = [&](const Buffer& of_part) {
          return static_cast<std::size_t>(first / 60) * of_part.size_bytes();
        };
        std::memcpy(part.mutable_data(), static_cast<const std::byte*>(input[0].data()) + bytes_before(part),
                    part.size_bytes());
        const std::vector<Buffer> own = evaluate(cpu_backend(), fuse_loops(few), {part});
        for (std::size_t i = 0; i < own.size(); ++i) {
          ASSERT_EQ(std::memcmp(own[i].data(), static_cast<const std::byte*>(all[i].data()) + bytes_before(own[i]),
                                own[i].size_bytes()),
                    0)
              << dtype << " output " << i << " of " << columns << " columns";
        }
      }
    }
  }
}

TEST(Fuse, RowsThatAreShortAreAddedUpColumnByColumn) {
  for (const char* dtype : {"f32", "i32"}) {
    for (const int columns : {2, 3, 9, 16}) {
      expect_same_values(fmt::format(R"(graph "main"(%0: {0}[5,40000,{1}], %1: {0}[5]) {{
  %2: {0}[5,40000,{1}] = broadcast_in_dim(%1) {{dims = (0), shape = (5, 40000, {1})}}
  %3: {0}[5,40000,{1}] = multiply(%0, %2)
  %4: {0}[5,{1}] = reduce_sum(%3) {{axes = (1)}}
  %5: {0}[5,{1}] = reduce_max(%0) {{axes = (1)}}
  %6: {0}[{1}] = reduce_min(%3) {{axes = (0, 1)}}
  return %4, %5, %6, %3
}})",
                                     dtype, columns),
                         1e-5);
    }
  }
}

TEST(Fuse, BitsAreReadAsOtherDtypes) {
  // Of operands, also as two dtypes, of what is computed, constants and positions, and behind views; large loops are
  // compiled before they run.
  for (const int extent : {5, 700, 1 << 20}) {
    const std::string text = fmt::format(R"(graph "main"(%0: f32[{0}], %1: u32[1]) {{
  %2: u32[{0}] = bitcast(%0) {{dtype = u32}}
  %3: u32[] = full() {{shape = (), value = u32(9)}}
  %4: u32[{0}] = shift_right_logical(%2, %3)
  %5: f32[] = full() {{shape = (), value = f32(1)}}
  %6: u32[] = bitcast(%5) {{dtype = u32}}
  %7: u32[{0}] = bitwise_or(%4, %6)
  %8: f32[{0}] = bitcast(%7) {{dtype = f32}}
  %9: f32[{0}] = add(%8, %0)
  %10: f32[{0}] = iota() {{dim = 0, dtype = f32, shape = ({0})}}
  %11: u32[{0}] = bitcast(%10) {{dtype = u32}}
  %12: u32[{0}] = broadcast_in_dim(%1) {{dims = (0), shape = ({0})}}
  %13: i32[{0}] = bitcast(%12) {{dtype = i32}}
  %14: i32[{0}] = iota() {{dim = 0, dtype = i32, shape = ({0})}}
  %15: i32[{0}] = add(%13, %14)
  %16: u32[{0}] = bitcast(%15) {{dtype = u32}}
  %17: u32[{0}] = add(%11, %16)
  %18: u32[{0}] = bitcast(%14) {{dtype = u32}}
  %19: u32[{0}] = add(%18, %18)
  return %9, %17, %19, %8
}})",
                                         extent);
    SCOPED_TRACE(extent);
    EXPECT_EQ(std::ranges::count(op_names(text), "bitcast"), 1);  // That of the result.
    expect_same_values(text);
  }
  // Signalling NaNs of f16 stay what they are: nothing is converted on the way.
  const Graph graph = parse_graph(R"(graph "main"(%0: f16[3]) {
  %1: u16[3] = bitcast(%0) {dtype = u16}
  %2: u16[3] = bitwise_not(%1)
  return %2
})",
                                  find_op);
  Buffer bits(host_space({}), float16, {3});
  const std::array<std::uint16_t, 3> written = {0x7C01, 0xFC01, 0x3C00};
  std::memcpy(bits.mutable_data(), written.data(), sizeof written);
  const Buffer got = evaluate(cpu_backend(), fuse_loops(graph), {bits})[0];
  const auto* const inverted = static_cast<const std::uint16_t*>(got.data());
  for (std::size_t i = 0; i < written.size(); ++i) EXPECT_EQ(inverted[i], static_cast<std::uint16_t>(~written[i]));
}

TEST(Fuse, LoopsFollowProducts) {
  constexpr std::string_view kText = R"(graph "main"(%0: f32[2,30,40], %1: f32[40,50], %2: f32[50], %3: f32[2,30,50]) {
  %4: f32[2,30,50] = dot_general(%0, %1) {lhs_batch = (), lhs_contract = (2), rhs_batch = (), rhs_contract = (0)}
  %5: f32[2,30,50] = broadcast_in_dim(%2) {dims = (2), shape = (2, 30, 50)}
  %6: f32[2,30,50] = add(%4, %5)
  %7: f32[2,30,50] = maximum(%6, %3)
  return %7
})";
  EXPECT_EQ(op_names(kText), Names{"fusion"});
  expect_same_values(kText, 1e-5);
  // One that others need is computed by itself.
  EXPECT_EQ(op_names(R"(graph "main"(%0: f32[4,4], %1: f32[4,4]) {
  %2: f32[4,4] = dot_general(%0, %1) {lhs_batch = (), lhs_contract = (1), rhs_batch = (), rhs_contract = (0)}
  %3: f32[4,4] = sin(%2)
  return %2, %3
})"),
            (Names{"dot_general", "sin"}));
}

TEST(Fuse, OnlyWhatIsInATileFollowsAProduct) {
  // Another row of the product, and the product turned round.
  for (const char* text : {R"(graph "main"(%0: f32[8,8], %1: f32[8,8]) {
  %2: f32[8,8] = dot_general(%0, %1) {lhs_batch = (), lhs_contract = (1), rhs_batch = (), rhs_contract = (0)}
  %3: f32[1,8] = slice(%2) {limits = (8, 8), starts = (7, 0), strides = (1, 1)}
  %4: f32[8,8] = broadcast_in_dim(%3) {dims = (0, 1), shape = (8, 8)}
  %5: f32[8,8] = subtract(%2, %4)
  return %5
})",
                           R"(graph "main"(%0: f32[2,2,8], %1: f32[8,3]) {
  %2: f32[2,2,3] = dot_general(%0, %1) {lhs_batch = (), lhs_contract = (2), rhs_batch = (), rhs_contract = (0)}
  %3: f32[2,2,3] = transpose(%2) {perm = (1, 0, 2)}
  %4: f32[2,2,3] = add(%2, %3)
  return %4
})",
                           // The operand is a view that the loop reads, too.
                           R"(graph "main"(%0: f32[9,8], %1: f32[8,8]) {
  %2: f32[8,8] = slice(%0) {limits = (9, 8), starts = (1, 0), strides = (1, 1)}
  %3: f32[8,8] = dot_general(%2, %1) {lhs_batch = (), lhs_contract = (1), rhs_batch = (), rhs_contract = (0)}
  %4: f32[8,8] = add(%3, %2)
  return %4
})"}) {
    expect_same_values(text, 1e-5);
  }
}

TEST(Fuse, EqualOperandsAreKeptApart) {
  expect_same_values(R"(graph "main"(%0: bool[4], %1: bool[4], %2: f32[4]) {
  %3: bool[4] = select(%0, %0, %1)
  %4: f32[4] = multiply(%2, %2)
  return %3, %4
})");
}

TEST(Fuse, ColumnsAreWalkedAsOneWithResultsToo) {
  expect_same_values(R"(graph "main"(%0: f32[2,3,4], %1: f32[2,3,1]) {
  %2: f32[2] = reduce_sum(%0) {axes = (1, 2)}
  %3: f32[2,3,4] = broadcast_in_dim(%2) {dims = (0), shape = (2, 3, 4)}
  %4: f32[2,3,4] = subtract(%0, %3)
  %5: f32[2,3,4] = broadcast_in_dim(%1) {dims = (0, 1, 2), shape = (2, 3, 4)}
  %6: f32[2,3,4] = multiply(%4, %5)
  return %6
})");
}

// The last of six shards has one row where the type says two, and nothing that is read tells of it.
TEST(Fuse, TotalsOfUnevenShardsOfBroadcastsStayWithinThem) {
  const Graph graph = fuse_loops(parse_graph(R"(on mesh("x"=6; devices 0..5)
graph "main"(%0: f32[3,700] of [3,700] @[_, _]) {
  %1: f32[2,3,700] varying(x) of [11,3,700] @[x, _, _] = broadcast_in_dim(%0) {dims = (1, 2), shape = (2, 3, 700)}
  %2: f32[2,700] varying(x) of [11,700] @[x, _] = reduce_max(%1) {axes = (1)}
  return %2
})",
                                             find_op));
  constexpr unsigned char kUntouched = 0xA5;
  std::vector<Buffer> buffers;
  std::vector<TensorView> views;
  for (const Value& value : graph.values) {
    Buffer& buffer = buffers.emplace_back(host_space({}), value.type.dtype, value.type.shape);
    std::memset(buffer.mutable_data(), kUntouched, buffer.size_bytes());
    views.push_back(buffer.view());
    if (value.global && value.global->shape[0] == 11) views.back().shape[0] = 1;
  }
  const auto view_of = [&](ValueId id) -> TensorView& { return views[static_cast<std::size_t>(id)]; };
  std::memset(view_of(graph.inputs[0]).data, 0, 3 * 700 * 4);
  for (const Eqn& eqn : graph.eqns) {
    std::vector<TensorView> inputs;
    for (ValueId id : eqn.inputs) inputs.push_back(view_of(id));
    run_kernel(*cpu_backend().compile(graph, eqn), inputs, {&view_of(eqn.outputs[0]), 1});
  }
  const auto* bytes = view_of(graph.outputs[0]).as<unsigned char>();
  EXPECT_EQ(std::count(bytes + 700 * 4, bytes + 2 * 700 * 4, kUntouched), 700 * 4);
}

// Runs a graph that is compiled with 1 for N on shards with 0 for N. What is empty lies where nothing can be read.
void expect_empty_shards_untouched(const std::string& text) {
  const auto graph_with = [&](const std::string& extent) {
    std::string with = text;
    for (std::size_t at; (at = with.find('N')) != std::string::npos;) with.replace(at, 1, extent);
    return parse_graph(with, find_op);
  };
  const Graph shard = graph_with("0");
  std::mt19937 random(1);
  std::vector<Buffer> inputs;
  for (ValueId id : shard.inputs) inputs.push_back(random_buffer(shard.type(id), random));
  const std::vector<Buffer> expected = evaluate(reference_backend(), shard, inputs);
  const Graph graph = fuse_loops(graph_with("1"));
  std::vector<Buffer> buffers;
  std::vector<TensorView> views;
  for (const Value& value : shard.values) {
    views.push_back(buffers.emplace_back(host_space({}), value.type.dtype, value.type.shape).view());
    if (num_elements(value.type.shape) == 0) views.back().data = nullptr;
  }
  const auto view_of = [&](ValueId id) -> TensorView& { return views[static_cast<std::size_t>(id)]; };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].size_bytes() == 0) continue;
    std::memcpy(view_of(shard.inputs[i]).data, inputs[i].data(), inputs[i].size_bytes());
  }
  for (const Eqn& eqn : graph.eqns) {
    std::vector<TensorView> operands;
    std::vector<TensorView> results;
    for (ValueId id : eqn.inputs) operands.push_back(view_of(id));
    for (ValueId id : eqn.outputs) results.push_back(view_of(id));
    run_kernel(*cpu_backend().compile(graph, eqn), operands, results);
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (expected[i].size_bytes() == 0) continue;
    EXPECT_EQ(std::memcmp(view_of(shard.outputs[i]).data, expected[i].data(), expected[i].size_bytes()), 0)
        << "output " << i << " of\n"
        << text;
  }
}

TEST(Fuse, EmptyShardsOfExtentsOfOneAreNotTouched) {
  for (const char* text : {
           // Elements.
           R"(graph "main"(%0: f32[N], %1: f32[]) {
  %2: f32[N] = sin(%0)
  %3: f32[N] = broadcast_in_dim(%1) {dims = (), shape = (N)}
  %4: f32[N] = add(%2, %3)
  return %2, %4
})",
           R"(graph "main"(%0: f32[N,1,5], %1: f32[5]) {
  %2: f32[N,1,5] = broadcast_in_dim(%1) {dims = (2), shape = (N, 1, 5)}
  %3: f32[N,1,5] = maximum(%0, %2)
  %4: f32[N,1,5] = exp(%2)
  return %3, %4
})",
           // Rows, of nothing, and of none.
           R"(graph "main"(%0: f32[3,N]) {
  %1: f32[3,N] = exp(%0)
  %2: f32[3] = reduce_sum(%1) {axes = (1)}
  %3: f32[3,N] = broadcast_in_dim(%2) {dims = (0), shape = (3, N)}
  %4: f32[3,N] = divide(%1, %3)
  %5: f32[3] = reduce_max(%1) {axes = (1)}
  return %2, %4, %5
})",
           R"(graph "main"(%0: f32[N,3]) {
  %1: f32[N,3] = exp(%0)
  %2: f32[N] = reduce_sum(%1) {axes = (1)}
  %3: f32[N] = negative(%2)
  return %1, %2, %3
})",
           R"(graph "main"(%0: f32[4,N,3]) {
  %1: f32[4,N,3] = exp(%0)
  %2: f32[4] = reduce_sum(%1) {axes = (1, 2)}
  return %1, %2
})",
           // Totals.
           R"(graph "main"(%0: f32[N,3]) {
  %1: f32[N,3] = negative(%0)
  %2: f32[3] = reduce_max(%1) {axes = (0)}
  return %1, %2
})",
           R"(graph "main"(%0: f32[N,1,3], %1: f32[3]) {
  %2: f32[N,1,3] = broadcast_in_dim(%1) {dims = (2), shape = (N, 1, 3)}
  %3: f32[N,1,3] = add(%0, %2)
  %4: f32[1] = reduce_sum(%3) {axes = (0, 2)}
  %5: f32[1] = reduce_prod(%0) {axes = (0, 2)}
  return %3, %4, %5
})",
           R"(graph "main"(%0: f32[N,4,1]) {
  %1: f32[N,4,1] = exp(%0)
  %2: f32[4] = reduce_sum(%1) {axes = (0, 2)}
  return %1, %2
})",
           R"(graph "main"(%0: i32[4,N,3]) {
  %1: i32[4,N,3] = negative(%0)
  %2: i32[N,3] = reduce_min(%1) {axes = (0)}
  return %1, %2
})",
           R"(graph "main"(%0: i32[4,N,3]) {
  %1: i32[4,N,3] = negative(%0)
  %2: i32[3] = reduce_min(%1) {axes = (0, 1)}
  %3: i32[3] = reduce_sum(%1) {axes = (0, 1)}
  return %1, %2, %3
})",
           // What follows a product.
           R"(graph "main"(%0: f32[N,3], %1: f32[3,5], %2: f32[5]) {
  %3: f32[N,5] = dot_general(%0, %1) {lhs_batch = (), lhs_contract = (1), rhs_batch = (), rhs_contract = (0)}
  %4: f32[N,5] = broadcast_in_dim(%2) {dims = (1), shape = (N, 5)}
  %5: f32[N,5] = add(%3, %4)
  return %5
})",
           R"(graph "main"(%0: f32[4,N], %1: f32[N,5], %2: f32[5]) {
  %3: f32[4,5] = dot_general(%0, %1) {lhs_batch = (), lhs_contract = (1), rhs_batch = (), rhs_contract = (0)}
  %4: f32[4,5] = broadcast_in_dim(%2) {dims = (1), shape = (4, 5)}
  %5: f32[4,5] = add(%3, %4)
  return %5
})",
       }) {
    expect_empty_shards_untouched(text);
  }
}

TEST(Fuse, ReductionsThatNobodyUses) {
  for (const char* unused : {"reduce_sum(%1) {axes = (0)}", "reduce_sum(%1) {axes = (1)}"}) {
    for (const char* rest : {"%3: f32[4,4] = multiply(%1, %1)\n  return %3", "return %0"}) {
      expect_same_values(std::string(R"(graph "main"(%0: f32[4,4]) {
  %1: f32[4,4] = sin(%0)
  %2: f32[4] = )") + unused +
                         "\n  " + rest + "\n}");
    }
  }
}

// Items are written where the transposition puts them: indices last, first among others, of several dimensions, for two
// dimensions of the array. What loops read through, and other orders, stay two equations.
TEST(Fuse, GathersAreWrittenTransposed) {
  const auto text = [](const char* array, const char* indices, const char* items, const char* dims, const char* perm,
                       const char* result) {
    return fmt::format(R"(graph "main"(%0: f32[{0}], %1: i32[{1}]) {{
  %2: f32[{2}] = gather(%0, %1) {{array_batch = (), dims = ({3}), index_batch = ()}}
  %3: f32[{5}] = transpose(%2) {{perm = ({4})}}
  return %3
}})",
                       array, indices, items, dims, perm, result);
  };
  for (const std::string& placed :
       {text("300,3", "700", "700,300", "1", "1, 0", "300,700"),
        text("30,3,5", "9", "9,30,5", "1", "1, 0, 2", "30,9,5"),
        text("30,3,50", "9,4", "9,4,30,50", "1", "2, 0, 1, 3", "30,9,4,50"),
        text("4,50,3", "90", "90,4,50", "2", "1, 2, 0", "4,50,90"), text("0,3", "7", "7,0", "1", "1, 0", "0,7")}) {
    EXPECT_EQ(op_names(placed), Names{"fusion"}) << placed;
    expect_same_values(placed, 0);
  }
  for (const std::string& other : {text("30,3,5", "9", "9,30,5", "1", "2, 1, 0", "5,30,9"),
                                   text("30,3", "4,7", "4,7,30", "1", "2, 1, 0", "30,7,4")}) {
    EXPECT_EQ(op_names(other), (Names{"gather", "transpose"})) << other;
    expect_same_values(other, 0);
  }
  const std::string_view both = R"(graph "main"(%0: f32[4,50,3], %1: i32[90], %2: i32[90]) {
  %3: f32[90,50] = gather(%0, %1, %2) {array_batch = (), dims = (0, 2), index_batch = ()}
  %4: f32[50,90] = transpose(%3) {perm = (1, 0)}
  return %4
})";
  EXPECT_EQ(op_names(both), Names{"fusion"});
  expect_same_values(both, 0);
}

TEST(Fuse, EmptyAndSingleElements) {
  expect_same_values(R"(graph "main"(%0: f32[0,3], %1: f32[3]) {
  %2: f32[0,3] = broadcast_in_dim(%1) {dims = (1), shape = (0, 3)}
  %3: f32[0,3] = add(%0, %2)
  %4: f32[3] = reduce_sum(%3) {axes = (0)}
  %5: f32[0] = reduce_sum(%3) {axes = (1)}
  return %3, %4, %5
})");
  expect_same_values(R"(graph "main"(%0: f32[1,1,1], %1: f32[]) {
  %2: f32[1,1,1] = multiply(%0, %1)
  %3: f32[1] = reduce_sum(%2) {axes = (0, 2)}
  %4: f32[] = reduce_sum(%2) {axes = (0, 1, 2)}
  %5: f32[1,1,1] = divide(%2, %4)
  return %3, %5
})");
}

}  // namespace
}  // namespace shoal::cpu
