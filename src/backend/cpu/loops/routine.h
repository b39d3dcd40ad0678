// Routines: what loops do that run whole and work on scalars, branch, go round within each other, or read and write
// elements of arrays at places that they compute. As fused loops do (loop.h), they have two tiers, which compute the
// same bits.
//
// A routine is a block of steps, which hold blocks themselves. Values are numbered and assigned once; a value can be
// used in the block that makes it, after that, and in the blocks that later steps of it hold. Memory is that of arrays,
// whose elements steps read and write in their order.
//
// This header is shared with plugins: it must not need the library at link time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <variant>
#include <vector>

#include "ops/scalar/expr.h"
#include "shoal/dtype.h"

namespace shoal::cpu {

struct Routine {
  struct Array {
    Dtype dtype;
    /// Whether it moves from one trip of the outermost loop to the next, by LoopArguments::row_strides. If so, it is
    /// read and written in that loop only.
    bool moves;
  };

  struct Constant {
    int value;  ///< The number of the value that it is.
    std::uint64_t bits;
  };

  struct Block;

  /// One core operation; its operands are values.
  struct Operation {
    int value;
    scalar::Node node;
  };
  /// The element of an array at an index, which is an i64 and inside, or at its beginning if that is -1.
  struct Load {
    int value;
    int array;
    int index;
  };
  /// Writes a value to there; if there is a condition, a bool, only where that holds.
  struct Store {
    int array;
    int index;
    int stored;
    int condition;
  };
  /// Runs the block that an i32 says, or the nearest there is. What that gives are the values.
  struct Branch {
    int index;
    std::vector<int> values;
    std::vector<Block> ways;
  };
  /// Goes round: the values are the initial ones in the first trip, then what the body gave in the one before; after
  /// the last trip they are what that gave.
  struct Repeat {
    /// Of `trips`: as many as LoopArguments::rows says. This is the outermost loop, of which there is one.
    static constexpr int kRows = -2;
    /// Until the condition does not hold any more.
    static constexpr int kAnyNumber = -1;

    std::vector<int> values;
    std::vector<int> initial;
    int trip;   ///< The number of the present trip, an i64.
    int trips;  ///< How many at most: an i64, or one of the above.
    /// A condition, which gives a bool, if there is one, then the body.
    std::vector<Block> blocks;
    bool asks() const { return blocks.size() == 2; }
  };
  using Step = std::variant<Operation, Load, Store, Branch, Repeat>;

  struct Block {
    std::vector<Step> steps = {};
    std::vector<int> results = {};  ///< The values that it gives.
  };

  std::vector<Array> arrays;
  std::vector<Dtype> values;  ///< Of each its dtype.
  std::vector<Constant> constants;
  Block block;
};

/// Steps that run one after the other, at most: of branches the longest way. Loops count their own.
inline int steps_of(const Routine::Block& block) {
  int steps = static_cast<int>(block.steps.size());
  for (const Routine::Step& step : block.steps) {
    const auto* const branch = std::get_if<Routine::Branch>(&step);
    if (branch == nullptr) continue;
    int longest = 0;
    for (const Routine::Block& way : branch->ways) longest = std::max(longest, steps_of(way));
    steps += longest;
  }
  return steps;
}

/// Those of a trip.
inline int steps_of_trip(const Routine::Repeat& repeat) {
  int steps = 1;
  for (const Routine::Block& block : repeat.blocks) steps += steps_of(block);
  return steps;
}

}  // namespace shoal::cpu
