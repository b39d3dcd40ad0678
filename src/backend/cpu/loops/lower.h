// From the graph of a fused equation to a loop, and from the shapes of a shard to what the loop is run on.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "backend/cpu/loops/loop.h"
#include "backend/cpu/loops/loop_shape.h"
#include "base/function_ref.h"
#include "ir/graph.h"

namespace shoal::cpu {

/// What an array of the loop is.
struct LoopOperand {
  enum class Kind : std::uint8_t {
    kInput,    ///< Input `number` of the graph.
    kOutput,   ///< Output `number` of the graph.
    kPartial,  ///< What total `number` has come to so far: in scratch memory.
    kCount,    ///< A number that each dimension of the domain adds a multiple of its index to.
  };
  Kind kind = Kind::kInput;
  std::size_t number = 0;
  std::vector<int> dims;  ///< For each dimension of the domain, that of the operand, or -1.
  Dims starts;            ///< As in View. Of a count, one number,
  Dims steps;             ///< and for each dimension of the domain what a step along it adds.
  friend bool operator==(const LoopOperand&, const LoopOperand&) = default;
};

/// A reduction whose result is put together from parts.
struct LoopTotal {
  std::size_t output = 0;
  ReduceKind kind = ReduceKind::kSum;
  Dtype dtype = Dtype::kF32;  ///< In which it is reduced.
  std::int64_t first = 0;     ///< Its first element in the output.
  std::int64_t step = 1;      ///< From there to the next: more than one where each column is a total by itself.
};

struct LoopPlan {
  Loop loop;
  std::vector<LoopOperand> operands;   ///< One for each array of the loop.
  std::vector<std::vector<int>> dims;  ///< Dimensions of the domain that are walked as one, outermost first. The last
                                       ///< are the columns, and may be none.
  Shape domain;                        ///< Extents for dimensions that no operand tells.
  std::vector<std::pair<std::size_t, std::size_t>> extents;  ///< For each dimension of the domain, an operand and the
                                                             ///< dimension of it with its extent; or no operand.
  std::size_t first_column = 0;  ///< The dimensions of the domain from here on are reduced within a row, which then
                                 ///< must not be cut; the rank if none is.
  std::vector<bool> is_total;    ///< For each dimension of the domain: whether totals are over it.
  std::vector<bool> is_reduced;  ///< The same for each of `dims`.

  std::vector<LoopTotal> totals;
  std::int64_t width = 1;  ///< Elements of the domain that a column has: several where rows were unrolled.

  bool has_rows() const { return first_column != domain.size(); }
};

/// The most arrays of a loop that a kernel runs.
inline constexpr std::size_t kMostArrays = 64;
/// How an input, output or count steps along a dimension of the domain.
Access access_along(const LoopOperand& operand, const Graph& body, std::size_t along);

/// The core operation by which a reduction combines two elements.
scalar::Core combining_core(ReduceKind kind);

/// Elements of the domain from which on a loop is compiled before it first runs.
inline constexpr std::int64_t kLargeElements = 1 << 20;

/// Where the arrays of a loop lie for the shapes of a shard.
struct LoopStrides {
  Dims extents;                       ///< Of the plan's dims.
  std::vector<Dims> strides;          ///< Of each array, in bytes along the plan's dims.
  std::vector<std::int64_t> offsets;  ///< Of each array's first element, in bytes.
};

/// `shape_of` tells the shape of an input or output. Partial totals have no place in it.
LoopStrides strides_of(const LoopPlan& plan, FunctionRef<const Shape&(const LoopOperand&)> shape_of);

/// Moves the address of each array from the first row to another, counted over all dims but the columns.
void move_to_row(const LoopStrides& strides, std::int64_t row, std::span<std::byte*> bases);

/// The loop of a graph that fuse_loops has made, or that holds one loop op; nothing if the columns of a reduction
/// cannot be walked as one.
/// If `columns` is given, a loop without reductions walks as many last dimensions as its columns, and nothing but them;
/// nothing if its operands cannot walk them as one.
std::optional<LoopPlan> lower(const Graph& body, std::optional<int> columns = {});

}  // namespace shoal::cpu
