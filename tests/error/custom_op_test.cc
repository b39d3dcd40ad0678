// Mistakes with ops of users: rules that are none, rules that do not fit, functions that give something else.
#include <map>
#include <optional>
#include <utility>

#include "misuse.h"

namespace shoal::test {
namespace {

const auto kSame = [](Array x) { return x; };
Array rows_of(const Shape& shape) { return put(ones(shape), mesh_8(), P("i")); }

// Expects that no op is made of this rule.
#define EXPECT_NO_RULE(text, parts) \
  EXPECT_MISUSE(InvalidArgument, parts, custom_op({.name = "op", .rule = text}, kSame))

// ---- The grammar.

TEST(RuleTextError, NoArrow) { EXPECT_NO_RULE("i j", ("op: sharding rule \"i j\", column 4", "expected '->'")); }
TEST(RuleTextError, TwoArrows) { EXPECT_NO_RULE("i -> i -> i", ("column 8", "a second '->'")); }
TEST(RuleTextError, UnknownCharacter) { EXPECT_NO_RULE("i * -> i", ("column 3", "unexpected character '*'")); }
TEST(RuleTextError, NameThatBeginsWithADigit) { EXPECT_NO_RULE("2i -> i", ("column 1", "begins with a letter")); }
TEST(RuleTextError, NameThatBeginsWithAnUnderscore) { EXPECT_NO_RULE("_i -> i", ("column 1", "begins with a letter")); }
TEST(RuleTextError, DotsThatAreNoEllipsis) { EXPECT_NO_RULE(".. i -> i", ("column 1", "'.' is part of '...' only")); }
TEST(RuleTextError, EllipsisInTheMiddle) {
  EXPECT_NO_RULE("i ... -> i", ("column 6", "'...' can only begin an operand or result"));
}
TEST(RuleTextError, EllipsisTwice) { EXPECT_NO_RULE("... ...1 -> i", ("column 8", "'...' can only begin")); }
TEST(RuleTextError, EllipsisInBrackets) { EXPECT_NO_RULE("(... i) -> i", ("column 2", "cannot stand in brackets")); }
TEST(RuleTextError, NestedBrackets) { EXPECT_NO_RULE("(i (j k)) -> i", ("column 4", "brackets cannot be nested")); }
TEST(RuleTextError, BracketThatIsNotClosed) { EXPECT_NO_RULE("(i j -> i", ("column 6", "expected ')'")); }
TEST(RuleTextError, BracketThatIsNotOpened) { EXPECT_NO_RULE("i j) -> i", ("column 4", "')' closes no bracket")); }
TEST(RuleTextError, BracketsAroundOneFactor) { EXPECT_NO_RULE("(i) -> i", ("column 4", "two factors at least")); }
TEST(RuleTextError, FactorTwiceInATensor) { EXPECT_NO_RULE("i i -> i", ("column 4", "factor 'i' stands twice")); }
TEST(RuleTextError, SizeThatIsNoNumber) { EXPECT_NO_RULE("(i j) -> i j {i=x}", ("column 17", "expected a number")); }
TEST(RuleTextError, SizeWithoutEquals) { EXPECT_NO_RULE("(i j) -> i j {i 2}", ("column 17", "expected '='", "'i'")); }
TEST(RuleTextError, SizesThatAreNotClosed) { EXPECT_NO_RULE("(i j) -> (i j) {i=2, j=3", ("expected ',' or '}'")); }
TEST(RuleTextError, UnknownKind) {
  EXPECT_NO_RULE("i -> i sum={i}", ("column 8", "'sum' is no kind", "reduction, need_replication and permutation"));
}
TEST(RuleTextError, KindWithoutBraces) { EXPECT_NO_RULE("i -> reduction=i", ("expected '={' after 'reduction'")); }
TEST(RuleTextError, KindThatIsNotClosed) { EXPECT_NO_RULE("i -> reduction={i", ("expected ',' or '}'")); }
TEST(RuleTextError, NothingWhereAFactorShouldBe) {
  EXPECT_NO_RULE("i -> reduction={", ("expected the name of a factor"));
}

// ---- The meaning.

TEST(RuleTextError, SizeOfAnUnusedFactor) {
  EXPECT_NO_RULE("i -> i {k=2}", ("factor 'k' has a size, but stands in no operand or result"));
}
TEST(RuleTextError, SizeOfAWholeDimension) {
  EXPECT_NO_RULE("i -> i {i=2}", ("factor 'i' is a whole dimension, whose extent is its size"));
}
TEST(RuleTextError, CompoundFactorWithoutSize) {
  EXPECT_NO_RULE("(i j) -> (i j) {i=2}", ("factor 'j' stands in brackets only", "{j=4}"));
}
TEST(RuleTextError, SizeThatIsNotPositive) {
  EXPECT_NO_RULE("(i j) -> (i j) {i=0, j=2}", ("the size of factor 'i' must be positive"));
}
TEST(RuleTextError, SizeGivenTwice) { EXPECT_NO_RULE("(i j) -> (i j) {i=2, i=3}", ("a second size of factor 'i'")); }
TEST(RuleTextError, KindOfAnUnusedFactor) {
  EXPECT_NO_RULE("i -> i reduction={k}", ("factor 'k' of reduction stands in no operand or result"));
}
TEST(RuleTextError, FactorTwiceInAKind) { EXPECT_NO_RULE("i -> reduction={i, i}", ("reduction has factor 'i' twice")); }
TEST(RuleTextError, FactorOfTwoKinds) {
  EXPECT_NO_RULE("i -> i need_replication={i} permutation={i}",
                 ("factor 'i' is of one kind only, not of need_replication and permutation"));
}
TEST(RuleTextError, SummedFactorInAResult) {
  EXPECT_NO_RULE("i -> i reduction={i}", ("factor 'i' is summed away, so that it cannot stand in result 0"));
}
TEST(RuleTextError, FactorThatAResultLacks) {
  EXPECT_NO_RULE("i j -> i j, i", ("factor 'j' is not in result 1", "reduction={j}", "need_replication={j}"));
}
TEST(RuleTextError, FactorInResultsAlone) {
  EXPECT_NO_RULE("i -> i j", ("factor 'j' stands in results alone", "need_replication={j}"));
}

// ---- Operands and results that do not fit the rule.

TEST(CustomOpError, NumberOfOperands) {
  const auto op = custom_op({.name = "op", .rule = "i, i -> i"}, kSame);
  EXPECT_MISUSE(InvalidArgument, ("op: the sharding rule is for 2 operands, but there are 1"), op(ones({4})));
}

TEST(CustomOpError, NumberOfResults) {
  const auto op = custom_op({.name = "op", .rule = "i -> i, i"}, kSame);
  EXPECT_MISUSE(InvalidArgument, ("op: the sharding rule is for 2 results, but there are 1"), op(ones({4})));
}

TEST(CustomOpError, Rank) {
  const auto op = custom_op({.name = "op", .rule = "i j -> i j"}, kSame);
  EXPECT_MISUSE(InvalidArgument, ("op: the sharding rule has 2 dimensions for operand 0, but its shape is (4,)"),
                op(ones({4})));
  const auto leading = custom_op({.name = "op", .rule = "... i j -> ... i j"}, kSame);
  EXPECT_MISUSE(InvalidArgument, ("has at least 2 dimensions for operand 0, but its shape is (4,)"),
                leading(ones({4})));
}

TEST(CustomOpError, EllipsisOfTwoRanks) {
  const auto op = custom_op({.name = "op", .rule = "... i, ... i -> ... i"}, [](Array x, Array) { return x; });
  EXPECT_MISUSE(InvalidArgument, ("'...' for 1 dimensions of operand 1, but elsewhere for 2"),
                op(ones({2, 3, 4}), ones({3, 4})));
}

TEST(CustomOpError, EllipsisOfTwoExtents) {
  const auto op = custom_op({.name = "op", .rule = "... i, ... i -> ... i"}, [](Array x, Array) { return x; });
  EXPECT_MISUSE(InvalidArgument, ("gives dimension 0 of operand 1 extent 2, but elsewhere it has 3"),
                op(ones({3, 4}), ones({2, 4})));
}

TEST(CustomOpError, FactorOfTwoExtents) {
  const auto op = custom_op({.name = "op", .rule = "i, i -> i"}, [](Array x, Array) { return x; });
  EXPECT_MISUSE(InvalidArgument, ("gives factor 'i' in operand 1 extent 3, but elsewhere it has 4"),
                op(ones({4}), ones({3})));
}

TEST(CustomOpError, ProductOfFactors) {
  const auto op = custom_op({.name = "op", .rule = "(i j) -> (i j) {i=2, j=3}"}, kSame);
  EXPECT_MISUSE(InvalidArgument, ("gives dimension 0 of operand 0 extent 6, the product of (i j), but it has 8"),
                op(ones({8})));
}

// ---- The function.

TEST(CustomOpError, OtherResultsThanDeclared) {
  const auto same_types = [](const std::vector<ShapeDtypeStruct>& operands) { return operands; };
  const auto op =
      custom_op({.name = "op", .rule = "i -> i", .results = same_types}, [](Array x) { return x.astype(int32); });
  EXPECT_MISUSE(TypeMismatch, ("op: for f32[4] the function gives i32[4], but its results are declared as f32[4]"),
                op(ones({4})));
}

TEST(CustomOpError, OtherShardsThanTheRuleSays) {
  const auto fixed = custom_op({.name = "op", .rule = "i j -> i j"}, [](Array) { return ones({8, 2}); });
  EXPECT_MISUSE(TypeMismatch, ("op: for shards f32[1,2] the function gives f32[8,2]", "\"i j -> i j\"", "f32[1,2]"),
                fixed(rows_of({8, 2})));
}

TEST(CustomOpError, FunctionThatFailsOnShards) {
  const unsigned line = __LINE__ + 1;
  const auto op = custom_op({.name = "op", .rule = "i j -> i j"}, [](Array x) { return x + ones({16, 2}); });
  EXPECT_NO_THROW(op(ones({16, 2})));
  EXPECT_MISUSE_AT(line, InvalidArgument, ("add", "do not broadcast"), op(rows_of({16, 2})));
}

TEST(CustomOpError, FunctionThatUsesOtherArrays) {
  const Array w = ones({4});
  const auto op = custom_op({.name = "op", .rule = "i -> i"}, [w](Array x) { return x + w; });
  EXPECT_MISUSE(InvalidArgument, ("op: the function", "uses the array f32[4] from outside", "pass it as an operand"),
                op(ones({4})));
}

TEST(CustomOpError, FunctionThatPlacesValues) {
  const NamedSharding rows(mesh_8(), P("i"));
  const unsigned line = __LINE__ + 2;
  const auto op =
      custom_op({.name = "op", .rule = "i -> i"}, [&](Array x) { return with_sharding_constraint(x, rows); });
  EXPECT_MISUSE_AT(line, InvalidArgument, ("op: the function", "on one device", "sharding_constraint"), op(ones({8})));
}

TEST(CustomOpError, FunctionThatUsesAxes) {
  const unsigned line = __LINE__ + 1;
  const auto op = custom_op({.name = "op", .rule = "i -> i"}, [](Array x) { return lax::psum(x, "i"); });
  EXPECT_MISUSE_AT(line, UnboundAxisError, ("psum", "'i'"), op(ones({8})));
}

TEST(CustomOpError, PartialSumsThatWouldBeRounded) {
  const auto op = custom_op({.name = "op", .rule = "i -> reduction={i}"}, [](Array x) { return x.sum(); });
  EXPECT_MISUSE(InvalidArgument, ("op: shards give partial sums", "bf16[]", "float32"),
                op(ones({8}, {.dtype = bfloat16})));
}

TEST(CustomOpError, CalledWithAnEmptyArray) {
  const auto op = custom_op({.name = "op", .rule = "i -> i"}, kSame);
  EXPECT_MISUSE(InvalidState, ("op: argument [0]"), op(Array()));
}

TEST(CustomOpError, KernelWithoutResults) {
  EXPECT_MISUSE(InvalidArgument, ("op: a kernel needs `results`"),
                custom_kernel({.name = "op", .rule = "i -> i"}, [](const auto&, const auto&) {}));
  EXPECT_MISUSE(InvalidArgument, ("op: the kernel is an empty function"),
                custom_kernel({.name = "op", .rule = "i -> i", .results = [](const auto& types) { return types; }},
                              KernelFunction()));
}

TEST(CustomOpError, KernelThatReadsAnotherDtype) {
  const auto same_types = [](const std::vector<ShapeDtypeStruct>& operands) { return operands; };
  const auto op = custom_kernel({.name = "op", .rule = "i -> i", .results = same_types},
                                [](const std::vector<OperandView>& in, const std::vector<ResultView>&) {
                                  static_cast<void>(in[0].elements<int>());
                                });
  EXPECT_MISUSE_ANYWHERE(TypeMismatch, ("custom_kernel: a shard of float32 is read as int32"),
                         op({ones({4})})[0].block_until_ready());
}

TEST(CustomOpError, KernelWithANegativeExtent) {
  const auto op = custom_kernel({.name = "op",
                                 .rule = "i -> i need_replication={i}",
                                 .results = [](const auto&) { return std::vector<ShapeDtypeStruct>{{.shape = {-1}}}; }},
                                [](const auto&, const auto&) {});
  EXPECT_MISUSE(InvalidArgument, ("op", "-1"), op({ones({4})}));
}

// ---- shard_alike, and constraints of trees.

TEST(ShardAlikeError, OtherShapes) {
  EXPECT_MISUSE(InvalidArgument, ("shard_alike: values that lie alike must have one shape", "f32[4]", "f32[4,1]"),
                shard_alike(ones({4}), ones({4, 1})));
}

TEST(ShardAlikeError, OtherTrees) {
  EXPECT_MISUSE(TypeMismatch,
                ("shard_alike", "trees of one structure", "at the top one is a vector of 1, the other a vector of 2"),
                shard_alike(std::vector<Array>{ones({4})}, std::vector<Array>(2, ones({4}))));
  using Pair = std::pair<std::vector<Array>, std::map<std::string, Array>>;
  const Array x = ones({4});
  EXPECT_MISUSE(TypeMismatch,
                ("at [0] one is a vector of 2, the other a vector of 1; at [1] one has ['a'], the other ['b']"),
                shard_alike(Pair{{x, x}, {{"a", x}}}, Pair{{x}, {{"b", x}}}));
}

TEST(ShardAlikeError, NoValue) {
  EXPECT_MISUSE(InvalidState, ("shard_alike: argument 1"), shard_alike(ones({4}), Array()));
}

TEST(ConstraintsError, NoPrefix) {
  const std::vector<Array> tree(2, ones({8}));
  EXPECT_MISUSE(InvalidArgument, ("with_sharding_constraint: the sharding must be a prefix"),
                with_sharding_constraint(tree, {none, none, none}));
}

TEST(ConstraintsError, SingleDevice) {
  const std::vector<Array> tree(1, ones({8}));
  EXPECT_MISUSE(InvalidArgument, ("with_sharding_constraint: argument 0[0]", "use a NamedSharding"),
                with_sharding_constraint(tree, SingleDeviceSharding(devices()[0])));
}

}  // namespace
}  // namespace shoal::test
