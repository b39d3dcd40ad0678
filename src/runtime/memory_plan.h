// Where the values of an executable lie while it runs, decided when it is compiled.
//
// Each value lies in one or more storages, which have a piece of memory for each distinct shard. A value that only
// renames the bytes of another (a reshape, a permutation of shards, a piece that lies together) lies in the other's
// storage. A result takes the memory of an operand that dies there, where its kernel allows that. Storages that no
// output lies in share one block of memory, the arena: those that live at the same time do not overlap.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "comm/collectives/collective.h"
#include "comm/collectives/shard_set.h"
#include "ir/graph.h"

namespace shoal {

/// An input of a graph whose memory may hold an output, as numbers in the lists of both.
struct Reuse {
  std::size_t input;
  std::size_t output;
};

/// What the plan has to know of an equation.
struct StepFacts {
  const Kernel* kernel = nullptr;                       ///< Of what computes.
  std::vector<Reuse> overwrites = {};                   ///< Of others than kernels: what results may be written over.
  const collectives::Collective* collective = nullptr;  ///< Of collectives.
  std::vector<collectives::View> views = {};  ///< Of what only renames its first operand, and is no collective.
  std::int32_t start = 0;                     ///< The first step during which it uses scratch memory.
  std::size_t scratch_bytes = 0;              ///< For all shards that run at a time.
  std::size_t scratch_bytes_of_shard = 0;
};

/// Bytes on one device, as its user counts them.
struct MemoryUse {
  std::size_t argument = 0;
  std::size_t output = 0;
  std::size_t alias = 0;  ///< Of outputs that take the memory of donated arguments.
  std::size_t temp = 0;   ///< The most that is held at a time of what is neither.
};

struct MemoryPlan {
  /// Where one shard of a value lies.
  struct Place {
    std::int32_t storage;
    std::int32_t piece;
    std::size_t offset = 0;  ///< In the piece.
  };
  enum class Kind : std::uint8_t {
    kInput,   ///< The buffers of an input.
    kArena,   ///< A range of the arena.
    kOutput,  ///< Buffers that are made when the first value is put there, and given away at the end.
    kMerged,  ///< Part of another one: nothing lies here.
  };
  struct Storage {
    Kind kind = Kind::kArena;
    ValueId owner = -1;       ///< The value whose shards the pieces have room for.
    std::int64_t pieces = 1;  ///< Those of its first shards.
    std::int64_t held = 1;    ///< How many of them this process holds; only they have memory.
    std::int32_t birth = -1;  ///< The step that first writes there; -1 for inputs.
    std::int32_t death = -1;  ///< The last step that uses it; one past the last for outputs.
    std::int32_t input = -1;  ///< The number of the input.
    std::int32_t donor = -1;  ///< For outputs: the input whose buffers it takes, where nobody else holds them.
    std::size_t offset = 0;   ///< In the arena.
    std::size_t stride = 0;   ///< From a piece to the next there.
  };

  std::vector<Storage> storages;
  std::vector<std::vector<Place>> places;  ///< Of each value, for each distinct shard.
  std::vector<bool> runs;                  ///< Whether each step has anything to do.
  std::vector<bool> renames;               ///< Whether only those shards are made that its views call so, if any.
  std::vector<std::int32_t> zeros;         ///< For each step, the storage that it fills with zeros, or -1.
  std::vector<std::int64_t> taken;         ///< For each step, the shards of results that take operands' memory.
  std::vector<std::size_t> scratch;        ///< For each step, the offset of its scratch memory in the device arena.
  /// Bytes of the arena of each kind of memory. Those of a program that needs more than there can be are some number
  /// that no machine has.
  std::array<std::size_t, 3> arena_bytes{};
  std::int32_t peak = 0;       ///< A step at which most is held in arenas,
  std::size_t peak_bytes = 0;  ///< and how much that is: of values, and scratch memory.
  MemoryUse use;

  const Storage& storage(const Place& place) const { return storages[static_cast<std::size_t>(place.storage)]; }
};

/// The plan for a partitioned graph whose values have shards of these shapes. With `only_pairs` an input of `reuses`
/// holds its own output or none; else one that is still read when that is made may hold another, as large, made later.
MemoryPlan plan_memory(const Graph& graph, std::span<const ShardShapes> shapes, std::span<const StepFacts> steps,
                       std::span<const Reuse> reuses, bool only_pairs);

}  // namespace shoal
