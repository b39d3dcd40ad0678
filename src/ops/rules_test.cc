#include "ops/rules.h"

#include <gtest/gtest.h>

#include "ops/test_support.h"

namespace shoal {
namespace {

using test_support::complaint;
using test_support::infer;
using test_support::rule_of;
using test_support::type_of;

TEST(CommonMemory, MustBeOne) {
  Type pinned = type_of(float32, {2});
  pinned.memory = kPinnedHostMemory;
  EXPECT_EQ(infer("add", {}, {pinned, pinned})[0].memory, kPinnedHostMemory);
  EXPECT_EQ(complaint("add", {}, {type_of(float32, {2}), pinned}),
            "add: all operands must live in one memory, but one is f32[2] in 'device' and another is "
            "f32<pinned_host>[2] in 'pinned_host'; move one with device_put");
}

TEST(JointVarying, IsTheUnion) {
  Type a = type_of(float32, {2});
  a.varying = {"x"};
  Type b = type_of(float32, {2});
  b.varying = {"w", "x"};
  EXPECT_EQ(infer("add", {}, {a, b})[0].varying, (AxisNames{"w", "x"}));
}

TEST(PointwiseRule, SharesTheResultsDimensions) {
  const Type matrix = type_of(float32, {2, 3});
  EXPECT_EQ(to_string(rule_of("add", {}, {matrix, matrix})), "(i, j), (i, j) -> (i, j)");
  EXPECT_EQ(to_string(rule_of("negative", {}, {type_of(float32, {})})), "() -> ()");
  EXPECT_EQ(to_string(rule_of("add", {}, {matrix, type_of(float32, {})})), "(i, j), () -> (i, j)");
  EXPECT_EQ(to_string(rule_of("select", {}, {type_of(bool_, {2, 3}), matrix, type_of(float32, {})})),
            "(i, j), (i, j), () -> (i, j)");
}

TEST(ForEachIndex, IsRowMajor) {
  std::vector<Dims> seen;
  for_each_index({2, 3}, [&](std::int64_t i, const Dims& at) {
    EXPECT_EQ(static_cast<std::size_t>(i), seen.size());
    seen.push_back(at);
  });
  EXPECT_EQ(seen, (std::vector<Dims>{{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}, {1, 2}}));
  int calls = 0;
  for_each_index({}, [&](std::int64_t, const Dims& at) { calls += at.empty() ? 1 : 100; });
  EXPECT_EQ(calls, 1) << "a scalar has one element";
  for_each_index({3, 0}, [&](std::int64_t, const Dims&) { ADD_FAILURE(); });
}

// ---- The table

TEST(OpTable, FindsEveryOpByItsName) {
  for (const OpDef* op : all_ops()) {
    EXPECT_EQ(find_op(op->name), op) << op->name;
    EXPECT_FALSE(op->doc.empty()) << op->name;
    EXPECT_NE(op->infer, nullptr) << op->name;
    const bool is_made_late =
        op->name == "fusion" || op->name == "summed_product";  // By back ends, of partitioned graphs.
    const bool computes = op->op_class == OpClass::kCompute && !is_made_late;
    const bool calls =
        op->op_class == OpClass::kCall || op->op_class == OpClass::kRegion || op->op_class == OpClass::kControl;
    EXPECT_EQ(op->control != nullptr, op->op_class == OpClass::kControl) << op->name;
    const bool has_rule = !calls && op->op_class != OpClass::kEffect && !is_made_late;
    EXPECT_EQ(op->rule != nullptr, has_rule) << op->name;
    if (computes) {
      EXPECT_NE(op->reference, nullptr) << op->name;
    }
  }
  EXPECT_EQ(find_op("no such op"), nullptr);
  EXPECT_THROW(op_named("no such op"), InternalError);
}

}  // namespace
}  // namespace shoal
