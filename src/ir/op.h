// The record of an op: everything the system knows about it, in one place.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/buffer.h"
#include "ir/attrs.h"
#include "ir/rearrangement.h"
#include "ir/sharding_rule.h"
#include "ir/type.h"
#include "shoal/error.h"

namespace shoal {

struct OpDef;
struct ElementwiseRow;  // ops/elementwise.h

/// What an infer function sees. Errors it throws carry the user's line.
struct InferContext {
  const OpDef& op;
  std::span<const Type> inputs;
  const Attrs& attrs;
  const AxisEnv& axes;
  SourceLocation where;
};

struct RuleContext {
  const OpDef& op;
  std::span<const Type> inputs;
  std::span<const Type> outputs;
  const Attrs& attrs;
};

/// What a reference kernel sees: the operands' and results' elements. Shapes are those of the shard at hand, which may
/// be smaller than the types say when a dimension does not divide evenly.
struct KernelContext {
  const OpDef& op;
  const Attrs& attrs;
  std::span<const TensorView> inputs;
  std::span<const TensorView> outputs;
};

/// What is known when an op's attributes are rewritten for the shards of one device.
struct LocalizeContext {
  const Attrs& attrs;
  std::span<const Type> inputs;         ///< Global.
  std::span<const Type> local_inputs;   ///< Of the first device.
  std::span<const Type> local_outputs;  ///< Of the first device.
};

/// What is known of the shards of one device when an op is replaced by the graph that computes them.
struct ExpandContext {
  const Attrs& attrs;
  std::span<const Type> operands;
  std::span<const Type> results;
  SourceLocation where;
};

/// When operands are partial results over some axes, whether the result may be left partial too.
enum class PartialRule : std::uint8_t {
  kNever,      ///< Operands are completed first.
  kAnyKind,    ///< Data movement: whatever the reduction, it commutes.
  kSumLinear,  ///< Linear in its single operand.
  kSumJoint,   ///< Linear in all operands together: add, sub.
};

/// What the compiler must treat in its own way, apart from computing.
enum class OpClass : std::uint8_t {
  kCompute,     ///< The same kernel runs on every shard.
  kCollective,  ///< Moves data between the shards of a group.
  kCall,        ///< Holds a sub-graph: jit, shard_map.
  kConstraint,  ///< Says where its operand lies: sharding_constraint.
  kBoundary,    ///< Where a manual region begins or ends for one value: enter_manual, leave_manual.
  kEffect,      ///< Calls the user's program and has no result. It stays where it is, in the order of the program.
};

struct OpDef {
  std::string_view name;
  std::string_view doc;
  int arity = 1;  ///< Number of operands; -1 for any.
  OpClass op_class = OpClass::kCompute;
  /// Result types; throws for operands and attributes that do not fit.
  std::vector<Type> (*infer)(const InferContext&) = nullptr;
  /// Empty for calls and effects.
  ShardingRule (*rule)(const RuleContext&) = nullptr;
  /// For ops whose attributes speak of extents: the attributes for the shards of one device.
  Attrs (*localize)(const LocalizeContext&) = nullptr;
  /// For ops that are composed of others: the graph that computes a shard, which takes the op's place when the program
  /// is partitioned.
  GraphPtr (*expand)(const ExpandContext&) = nullptr;
  /// For ops whose rule has factors of kRearranged: what happens along the dimension `dim` of the result, which is also
  /// that of the operands that move. Without it such a dimension is whole while the op runs, and split before and
  /// after.
  Rearrangement (*rearrange)(const RuleContext&, std::size_t dim) = nullptr;
  /// Computes the results, slowly and obviously. Empty for calls and collectives.
  void (*reference)(const KernelContext&) = nullptr;
  PartialRule partial = PartialRule::kNever;
  /// Whether the kernel asks where its shards begin (TensorView::start), so that shards of equal data may give
  /// different results.
  bool sees_start = false;
  /// For elementwise ops: the scalar body and the dtypes it takes.
  const ElementwiseRow* elementwise = nullptr;
};

}  // namespace shoal
