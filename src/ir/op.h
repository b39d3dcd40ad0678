// The record of an op: everything the system knows about it, in one place.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
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
struct Eqn;
class Makers;             // ir/makers.h
struct JvpContext;        // ops/derivatives.h
struct TransposeContext;  // ops/derivatives.h
struct BatchContext;      // ops/batching.h
struct Batched;           // ops/batching.h
struct ElementwiseRow;    // ops/elementwise.h

using ValueId = std::int32_t;
/// A tangent or cotangent; nothing is a zero.
using MaybeValue = std::optional<ValueId>;

/// What an infer function sees. Errors it throws carry the user's line.
struct InferContext {
  const OpDef& op;
  std::span<const Type> inputs;
  const Attrs& attrs;
  const AxisEnv& axes;
  SourceLocation where;
  bool is_derived = false;  ///< Whether it is a part of the derivative of that line.
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

/// What an op along whose dimensions windows move is when shards take in halos (kWindowed, kWindowedReduction).
struct WindowedOp {
  /// How they move along the dimension `dim` of the first operand.
  Windows (*windows)(const RuleContext&, std::size_t dim);
  /// The attributes for shards that hold what their windows meet along that dimension, so many numbers at most. Where
  /// shards begin, kernels see.
  Attrs (*of_shards)(const RuleContext&, std::size_t dim, std::int64_t numbers);
  /// What windows meet beyond the array.
  Scalar (*padding)(const RuleContext&);
};

/// How the results of an op depend on one of its operands, in exact arithmetic.
enum class Linear : std::uint8_t {
  kNo,
  kAlone,     ///< Linear in it while all other operands stay as they are: a factor of a product.
  kTogether,  ///< Linear in it and in all others of this kind together: a summand.
  kMoved,     ///< kTogether, and its elements only change places, are repeated or left out: whatever two arrays are
              ///< combined by, element by element, it comes to the same before the op as after it.
};

/// The same for each operand.
class Linearity {
 public:
  constexpr Linearity(Linear all = Linear::kNo) : Linearity(all, all) {}
  constexpr Linearity(Linear first, Linear others) : Linearity(first, others, others) {}
  constexpr Linearity(Linear first, Linear second, Linear others) : operands_{first, second, others} {}

  constexpr Linear operator[](std::size_t operand) const { return operands_[operand < 2 ? operand : 2]; }
  /// Whether the op is linear in all operands together.
  constexpr bool in_all() const {
    for (const Linear one : operands_) {
      if (one != Linear::kTogether && one != Linear::kMoved) return false;
    }
    return true;
  }

 private:
  std::array<Linear, 3> operands_;  // The last one is that of all that follow.
};

/// What an attribute says of dimensions.
enum class AttrRole : std::uint8_t {
  kOther,      ///< Nothing.
  kLabel,      ///< Nothing, and nothing of what is computed: a name for messages, rules of derivatives.
  kDim,        ///< A dimension.
  kDims,       ///< A list of dimensions.
  kBatchDims,  ///< A list of dimensions that go along with those of other operands, place by place.
  kPerDim,     ///< A list of numbers, one for each dimension.
  kExtents,    ///< The same, of extents.
  kDimOfEach,  ///< For each dimension of one tensor, a dimension of another.
  kSpec,       ///< A sharding, whose spec has an entry for each dimension.
};

/// An attribute that an op takes, and the tensor whose dimensions it speaks of.
struct AttrFact {
  static constexpr int kResult = -1;

  std::string_view name;
  AttrRole role = AttrRole::kOther;
  int of = 0;                ///< An operand, or kResult.
  std::int64_t neutral = 0;  ///< kPerDim: the number of a dimension that the op leaves alone.
  int from = 0;              ///< kDimOfEach: an operand, or kResult; there is an entry for each of its dimensions.
};

/// The attributes that an op takes. In place, as records are constants.
class AttrFacts {
 public:
  constexpr AttrFacts() = default;
  constexpr AttrFacts(std::initializer_list<AttrFact> facts) {
    for (const AttrFact& fact : facts) add(fact);
  }
  constexpr void add(const AttrFact& fact) { facts_.at(count_++) = fact; }

  constexpr const AttrFact* begin() const { return facts_.data(); }
  constexpr const AttrFact* end() const { return facts_.data() + count_; }
  /// The one of that name, or nullptr.
  constexpr const AttrFact* find(std::string_view name) const {
    for (const AttrFact& fact : *this) {
      if (fact.name == name) return &fact;
    }
    return nullptr;
  }

 private:
  std::array<AttrFact, 12> facts_{};
  std::size_t count_ = 0;
};

/// What the traffic of a collective depends on.
struct TrafficContext {
  const Attrs& attrs;
  const Grid& grid;
  const Atoms& atoms;    ///< Along which the devices communicate.
  double group;          ///< The number of devices that communicate with each other, on average.
  double operand_bytes;  ///< Of the first operand's shards, and of the result's, on average over the devices.
  double result_bytes;
};

/// What the compiler must know of a collective.
struct CollectiveFacts {
  /// What the devices of a group have afterwards.
  enum class Gives : std::uint8_t {
    kOwn,       ///< Each something of its own.
    kSame,      ///< All the same, unless `groups` cut the devices along the axes.
    kAsBefore,  ///< Each what it had.
  };
  Gives gives = Gives::kOwn;
  /// Whether devices that have different shards make their results of what they have.
  bool stays = false;
  /// Whether processes give each other what they have made of what they were given.
  bool in_rounds = false;
  /// Whether it is an algorithm on a distributed matrix (src/linalg).
  bool solves = false;
  /// Whether a back end has made it of a computation and what follows that (Backend::compile_collective).
  bool computes = false;
  /// Whether it adds up what devices have along the axes, if its `kind` is "sum".
  bool finishes_sums = false;
  /// The bytes that a device receives, on average, if data takes the shortest way. Empty if that is nothing.
  double (*received_bytes)(const TrafficContext&) = nullptr;
};

/// How an equation runs the graphs that it holds, its bodies. The arguments of a body are the operands from
/// `first_argument` on; its yields are the results. In a loop the first `carries` arguments of a trip are the first
/// yields of the one before, the next `slices` are slices of their operands along the first dimension, and the yields
/// after the carries are stacked along a new first dimension.
struct Control {
  std::size_t num_bodies = 1;
  bool loops = false;
  /// Whether the first body yields nothing but whether there is another trip, and is asked before each.
  bool asks = false;
  std::size_t first_argument = 0;
  std::size_t carries = 0;
  std::size_t slices = 0;
  std::optional<std::int64_t> trips = 1;  ///< Nothing if it depends on data.
  bool reverse = false;                   ///< Whether the last slices come first, and the last results are made first.
  /// Whether a derivative computes again what it needs of the values inside, and keeps only what it is told to.
  bool recomputes = false;

  bool is_slice(std::size_t argument) const { return argument >= carries && argument < carries + slices; }
  bool is_stack(std::size_t yield) const { return loops && yield >= carries; }
  /// How often a body runs, for costs.
  double weight() const { return trips ? static_cast<double>(*trips) : kUnknownTrips; }
  static constexpr double kUnknownTrips = 16;
};

/// What the compiler must treat in its own way, apart from computing.
enum class OpClass : std::uint8_t {
  kCompute,     ///< The same kernel runs on every shard.
  kCollective,  ///< Moves data between the shards of a group.
  kCall,        ///< Calls a sub-graph: jit.
  kRegion,      ///< Holds a sub-graph that runs on shards: shard_map.
  kControl,     ///< Holds graphs that run as its record's `control` says: loops and branches.
  kConstraint,  ///< Says where its operand lies: sharding_constraint.
  kTyping,  ///< Says something of its operand to types or derivatives, and nothing when these are known: relax_axes.
  kEnter,   ///< Where a manual region begins for one value: enter_manual.
  kLeave,   ///< Where it ends: leave_manual.
  kEffect,  ///< Calls the user's program, which may give results. Unless it is pure, it stays where it is, in the
            ///< order of the program.
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
  /// For ops whose rule has factors of kJoint: the collective that takes the op's place where one of them is split.
  std::string_view joint = {};
  /// For ops whose rule has factors of kWindowed or kWindowedReduction.
  const WindowedOp* windowed = nullptr;
  /// Computes the results, slowly and obviously. Empty for calls and collectives.
  void (*reference)(const KernelContext&) = nullptr;
  /// A value that the equation's result equals, if it is seen to be there already, bit by bit; the caller sees to it
  /// that the types are equal. Else the equation may have become a simpler one.
  std::optional<ValueId> (*simplify)(Eqn& eqn, const Makers& makers) = nullptr;
  /// The operations on elements that computing it takes. Empty for ops that only move elements.
  double (*flops)(const RuleContext&) = nullptr;
  /// What it is linear in. An attribute `kind` other than "sum" makes it linear in nothing (linear_in).
  Linearity linear = {};
  /// Whether it is that for these types; empty if always.
  bool (*is_exact)(const RuleContext&) = nullptr;
  /// The tangents of the results, for those of operands that it is not linear in.
  std::vector<MaybeValue> (*jvp)(const JvpContext&) = nullptr;
  /// The cotangents of operands that it is linear in, for those of the results.
  std::vector<MaybeValue> (*transpose)(const TransposeContext&) = nullptr;
  /// The results where operands have one more dimension each. Without it that dimension has to pass through the op once
  /// all operands have it first, as its `rule` must show.
  std::vector<Batched> (*batch)(const BatchContext&) = nullptr;
  /// Whether small changes of the operands change nothing, so that all tangents are zeros: floor, stop_gradient.
  bool is_flat = false;
  /// Of an op that is linear in all operands together: whether sums over devices are finished before it all the same,
  /// as it would make more of them, or put them elsewhere.
  bool takes_whole_sums = false;
  /// Whether the results are the operands, which only lie as the rule says.
  bool gives_operands = false;
  /// Whether only the type of the result says less than the operand's, of how Explicit axes split it.
  bool relaxes_axes = false;
  /// Whether the result has the operand's elements in the same row-major order.
  bool keeps_order = false;
  /// Of an op that gives an array of a `kind` of reductions: the op that takes an array before its operands, and
  /// combines it with that.
  std::string_view combined = {};
  /// For reductions over dimensions.
  std::optional<ReduceKind> reduces = {};
  /// For collectives.
  std::optional<CollectiveFacts> collective = {};
  /// For control: how it runs its bodies, which are its attribute `bodies`.
  Control (*control)(const Attrs&) = nullptr;
  /// All that it takes, but for `out_sharding`, which any op may have.
  AttrFacts attributes = {};
  /// Of an effect: it happens when the program is compiled, and nothing of it is left.
  bool when_compiled = false;
  /// Of an effect: its results are all that there is to it.
  bool is_pure = false;
  /// Whether the kernel asks where its shards begin (TensorView::start), so that shards of equal data may give
  /// different results.
  bool sees_start = false;
  /// Whether the result is the first operand with some elements replaced, so that others need not be touched where
  /// nobody reads that later.
  bool updates = false;
  /// Whether operands may be keys, besides those that elementwise ops say, and those of ops that move elements.
  bool takes_keys = false;
  /// Whether it says that its operands are keys that are used where it stands.
  bool uses_keys = false;
  /// Whether each element is its position along the dimension of attribute "dim".
  bool counts = false;
  /// For elementwise ops: the scalar body and the dtypes it takes.
  const ElementwiseRow* elementwise = nullptr;
};

/// How an equation's results depend on operand `i`.
Linear linear_in(const RuleContext& eqn, std::size_t i);

/// Whether a manual region begins or ends for a value here.
inline bool is_boundary(const OpDef& op) { return op.op_class == OpClass::kEnter || op.op_class == OpClass::kLeave; }

/// Whether the results are elements of the operands in other places.
inline bool moves_elements(const OpDef& op) { return op.linear[0] == Linear::kMoved; }

}  // namespace shoal
