// The primitives of the interpreter of fused loops: one core operation on a block of elements of one dtype.
//
// Each is compiled for several instruction sets; find_primitive gives that for the machine at hand. All give the same
// bits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "backend/cpu/loops/loop.h"
#include "ops/scalar/expr.h"
#include "shoal/dtype.h"

namespace shoal::cpu {

/// Primitives work on whole chunks of this many elements: the number of lanes of a reduction.
inline constexpr std::int64_t kChunk = kLanes;

/// Where the elements of an operand or a result lie.
struct Place {
  std::uint16_t base = 0;  ///< Of which memory, by its number in the table of bases.
  std::uint16_t step = 0;  ///< 1: an element for each of the block. 0: one chunk, the same for each chunk of the block.
  std::uint32_t offset = 0;  ///< In that memory, in bytes.
  friend bool operator==(const Place&, const Place&) = default;
};

struct Instruction;

/// Runs an instruction on `count` elements. The memory of the operands and of the result reaches to the end of the last
/// chunk; what is written beyond `count` is arbitrary. An operand may lie where the result does if its elements have
/// the same size.
using Primitive = void (*)(const Instruction& instruction, std::byte* const* bases, std::int64_t count);

struct Instruction {
  Primitive primitive = nullptr;
  Place result;
  std::array<Place, 3> operands = {};
  std::size_t length = 1;  // How many instructions, from this one on, the primitive does at once.
  std::size_t back = 0;    // If not 0: no primitive, but going back by so many where some element of the operand holds.
};

/// The operation on operands of dtype `from` (the second one, of kSelect; kBitcast: a copy). Not for arithmetic on f16
/// and bf16, which happens in f32: only copies, select, negation, absolute values and conversions to them and from
/// them to f32. nullptr if there is none.
Primitive find_primitive(scalar::Core core, Dtype result, Dtype from);

/// Does instructions of kFma that follow each other and make a polynomial: each takes the result of the one before it
/// as the first operand, all have the second one in common, and the third ones are uniform. Only the last result is
/// written. nullptr if there is none.
Primitive find_polynomial(Dtype dtype);

/// Two of kAdd, kSub and kMul at once: `second` takes the result of `first` as its first operand or, if `is_reversed`,
/// as its second one. The operands are those of `first`, and the other one of `second`. nullptr if there is none.
Primitive find_pair(scalar::Core first, scalar::Core second, bool is_reversed, Dtype dtype);

/// The first element of the operand, of `size` bytes, for all elements of a chunk.
Primitive find_spread(std::size_t size);

/// Copies `bytes` bytes, and writes zeros after them up to `all_bytes`, a multiple of 32.
using PartialCopy = void (*)(const std::byte* from, std::size_t bytes, std::byte* to, std::size_t all_bytes);
PartialCopy find_partial_copy();

/// Reduces the elements of the operand into the kLanes accumulators that are the result.
Primitive find_reduction(ReduceKind kind, Dtype dtype);

/// Reduces the kLanes accumulators that are the operand to one value, the result: a chunk of it.
Primitive find_last_reduction(ReduceKind kind, Dtype dtype);

}  // namespace shoal::cpu
