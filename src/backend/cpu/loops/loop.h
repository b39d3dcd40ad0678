// Fused loops: what the fusion of the cpu back end makes, and what its two tiers run, the SIMD interpreter and the
// LLVM emitter. Both compute the same bits.
//
// A loop runs over rows, one after the other, and within a row over columns. Arrays are read and written by address:
// each has a byte stride per row, and a way to step along the columns. For each row the phases run in order. A phase
// evaluates its nodes (scalar bodies, ops/scalar/expr.h) for every column, or once; it stores results in arrays, keeps
// them for later phases of the row in temporaries (a value per column), or reduces them to one scalar per row.
//
// The softmax of rows: phase 1 reduces max of x; phase 2 stores e = exp(x - max) to a temporary, and reduces the sum
// of e; phase 3 stores e / sum. The row is read from memory once.
//
// This header is shared with plugins: it must not need the library at link time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/function_ref.h"
#include "ops/scalar/expr.h"
#include "sharding/placement.h"
#include "shoal/dtype.h"

namespace shoal::cpu {

/// How an array steps from a column to the next.
enum class Access : std::uint8_t {
  kUniform,  ///< Not at all: one element per row, which is read even if there are no columns.
  kDense,    ///< By one element.
  kStrided,  ///< By LoopArguments::column_strides, which may be negative.
};

/// The address of the number 0 in arrays that count; no pointer is null.
inline constexpr std::int64_t kFirstCount = 64;
inline std::byte* address_of_count(std::int64_t count) {
  return reinterpret_cast<std::byte*>(static_cast<std::intptr_t>(kFirstCount + count));
}
inline std::int64_t count_at(const std::byte* address) {
  return static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(address)) - kFirstCount;
}

struct LoopArray {
  Dtype dtype = Dtype::kF32;  ///< Any; elements are aligned to their size only.
  Access access = Access::kDense;
  bool written = false;  ///< Written arrays are dense or strided in phases over columns, uniform in phases run once.
  /// Of one that is uniform, read, and read in phases run once: the array that is written where this one lies, for the
  /// next row, as both do not move from row to row; -1 if there is none. It may be kept in a register.
  int carried_by = -1;
  /// Whether it is no memory: an element is a number, which its address tells (kFirstCount), modulo what the dtype
  /// wraps at. Of integers, read only, uniform or strided.
  bool counts = false;
  friend bool operator==(const LoopArray&, const LoopArray&) = default;
};

/// Where input number i of a phase's nodes comes from.
struct LoopInput {
  enum class Kind : std::uint8_t {
    kArray,
    kTemporary,  ///< Of an earlier phase over columns; only in phases over columns.
    kScalar,     ///< Of an earlier phase.
  };
  Kind kind = Kind::kArray;
  int index = 0;
  friend bool operator==(const LoopInput&, const LoopInput&) = default;
};

/// What becomes of a node's value.
struct LoopResult {
  enum class Kind : std::uint8_t {
    kArray,
    kTemporary,  ///< Phases over columns only.
    kScalar,     ///< Phases run once only.
    kReduce,     ///< Phases over columns only: reduced by `reduction` to scalar `index`.
  };
  Kind kind = Kind::kArray;
  int index = 0;
  int node = 0;
  ReduceKind reduction = ReduceKind::kSum;
  friend bool operator==(const LoopResult&, const LoopResult&) = default;
};

struct Phase {
  bool once = false;                ///< Evaluated once per row: its arrays are uniform.
  std::vector<scalar::Node> nodes;  ///< Operands come before users. `bits` of an input is its number in `inputs`.
  std::vector<LoopInput> inputs;
  std::vector<LoopResult> results;
  friend bool operator==(const Phase&, const Phase&) = default;
};

struct Loop {
  std::vector<LoopArray> arrays;
  std::vector<Dtype> temporaries;  ///< Dtype of each.
  std::vector<Dtype> scalars;      ///< Dtype of each; a reduced scalar has the dtype of the node, which is real.
  std::vector<Phase> phases;
  int goes_on = -1;  ///< A bool that the first phase sets, which is run once: where it does not hold, that row is left
                     ///< out, and all that follow. -1 if there is none.
  friend bool operator==(const Loop&, const Loop&) = default;
};

/// What a loop is run on. An array that is written may be at the address of one that is read, with equal dtype and
/// strides; else what is written does not overlap.
struct LoopArguments {
  std::byte* const* bases;             ///< Of each array, its element at row 0, column 0.
  const std::int64_t* row_strides;     ///< Of each array, in bytes.
  const std::int64_t* column_strides;  ///< Of each array, in bytes; read for kStrided only.
  std::int64_t rows;
  std::int64_t columns;  ///< At most kMostReduced if the loop reduces.
  std::byte* scratch;    ///< scratch_bytes(loop, columns) bytes, aligned to 64.

  /// Whether dense arrays are written past the caches: for results that do not fit them, and are not read soon. A hint.
  bool streaming = false;

  /// Of a loop that says whether it goes on, and of routines: gets the number of rows that it has run.
  std::int64_t* rows_done = nullptr;

  /// Of routines: asked from time to time by loops within a row; if it says so, the run ends at once. Its results are
  /// then arbitrary.
  const FunctionRef<bool()>* is_to_end = nullptr;
};

/// Reductions run over this many virtual lanes: column j goes to lane j mod kLanes, in order, each lane starting with
/// the neutral element; then lane i takes in lane i + kLanes/2, for the lower half, and so on to one. With a fixed
/// number, bits do not depend on the vectors of the machine.
inline constexpr std::int64_t kLanes = 32;

/// The most columns over which a loop reduces. Longer rows are cut into pieces of this length, and their results
/// reduced in a balanced tree.
inline constexpr std::int64_t kMostReduced = 1 << 14;

/// Bytes of `scratch`: a column of each temporary, each rounded up so that whole vectors may be written past its end.
inline std::size_t scratch_stride(std::int64_t columns) {
  return static_cast<std::size_t>((columns + 127) / 128) * 128 * 16;
}
inline std::size_t scratch_bytes(const Loop& loop, std::int64_t columns) {
  return loop.temporaries.size() * scratch_stride(columns);
}

/// A loop that can be run. Thread-safe.
class LoopRunner {
 public:
  virtual ~LoopRunner() = default;
  virtual void run(const LoopArguments& arguments) const = 0;
};

}  // namespace shoal::cpu
