// Collectives: data movement between the shards of a value.
//
// Nothing waits: all shards of the operand that are needed are there when a collective runs, those of other processes
// included (comm/collectives/exchange.h), and each distinct shard of the result is made once in each process that holds
// it, whatever the number of devices that share it. Which shard goes where is worked out once, from the mesh and the
// shapes; a run only moves bytes, in tiles that any threads may take. Where no byte changes, nothing runs at all: the
// result is a view of the operand, or the operand is made where the result will be.
//
// Each collective has a file of its name, which defines its row of comm/collectives/table.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/collectives/groups.h"
#include "comm/collectives/shard_set.h"
#include "ir/attrs.h"
#include "sharding/placement.h"
#include "shoal/error.h"

namespace shoal {
struct Need;
}

namespace shoal::collectives {

/// What a collective is worked out from: an equation of a partitioned graph, and what is known of its operands' shards.
struct Context {
  const Attrs& attrs;
  SourceLocation where;
  Groups groups;                      ///< Of the devices along the attribute `axes`.
  std::vector<ShardShapes> operands;  ///< Of each operand.
  AtomSet wanted;  ///< All that the result may vary over: along other atoms its shards are known to be equal.
  std::vector<AtomSet> more_wanted;  ///< The same of further results.

  const GridPtr& grid() const { return groups.grid(); }
  const Atoms& atoms() const { return groups.atoms(); }
  /// The first operand.
  const ShardShapes& in() const { return operands[0]; }
  /// The attribute that names a dimension.
  std::size_t dim(std::string_view name) const { return static_cast<std::size_t>(attrs.get<std::int64_t>(name)); }
  /// The attribute `kind`.
  ReduceKind kind() const { return parse_reduce_kind(attrs.get<std::string>("kind")); }
};

/// A place in the shards of another value.
struct View {
  std::int64_t shard;      ///< kZeros for as many zeros, kMade for what has no place yet.
  std::size_t offset = 0;  ///< Bytes.
  static constexpr std::int64_t kZeros = -1;
  static constexpr std::int64_t kMade = -2;
};

/// A collective worked out for operands of known shapes. Immutable: any number of threads may run it at once.
class Collective {
 public:
  /// A part of a run. It begins where all tiles of the one before have run.
  struct Round {
    bool exchanges = true;  ///< Whether processes first give each other what its tiles need.
    std::int64_t end = 0;   ///< One past its last tile.
    /// Whether that is sent before the round before it runs, which exchanges nothing.
    bool ahead = false;
    /// Whether it writes over extras that were sent before: others have to have read them first.
    bool rewrites = false;
  };
  /// What processes give each other that is no shard of an operand.
  struct Extra {
    std::vector<int> holders;                 ///< Those that can make it, ascending.
    std::optional<std::size_t> scratch = {};  ///< Where this process makes it, in bytes of scratch memory;
    std::int64_t result = -1;                 ///< or the shard of the result that has it in its place.
  };

  virtual ~Collective() = default;

  const ShardShapes& result() const { return result_; }
  /// Those after it, of collectives in rounds.
  const std::vector<ShardShapes>& more_results() const { return more_results_; }
  /// For each shard of the result, the place in the operand where its bytes lie already, or kMade if its tiles are to
  /// be run; nothing if all are. Shards of other processes count as those of this one, though nothing is known of them.
  const std::vector<View>& views() const { return views_; }
  /// For each shard of the operand, the place in the result where it lies as it is. If the operand is made there, the
  /// collective need not be run. Nothing if it must.
  const std::vector<View>& operand_in_result() const { return operand_in_result_; }
  /// Pieces of the work, which may run at the same time in any order.
  std::int64_t tiles() const { return tiles_; }
  /// The rounds of a run, as many in all processes. If there are none, it is one that exchanges; over several processes
  /// the tiles of each shard of the result follow those of the one before, as many for each, and those of shards that
  /// are not held are not run.
  const std::vector<Round>& rounds() const { return rounds_; }
  /// They are numbered as the shards of one more operand, which runs get after all others.
  const std::vector<Extra>& extras() const { return extras_; }
  std::size_t scratch_bytes() const { return scratch_bytes_; }
  /// Adds what a process has to be given for a round, where it does not hold it.
  virtual void add_needs(std::size_t round, int process, std::vector<Need>& needs) const;
  /// The bytes that a run reads and writes.
  std::size_t bytes() const { return bytes_; }

  /// The operand in whose memory a result may lie that is of its shapes; if there is one.
  virtual std::optional<std::size_t> overwritten() const { return std::nullopt; }

  /// Runs one tile on the shards of each operand, and those of the result, which overlap none of them but for that. The
  /// shards of further results, which are written too, and the extras come after those of operands.
  virtual void run(std::span<std::byte* const* const> operands, std::byte* const* result, std::int64_t tile) const = 0;

 protected:
  explicit Collective(ShardShapes result) : result_(std::move(result)) {}

  /// `source`, unless that is a shard that comes from another process: it has no place here yet.
  View place_of(std::int64_t shard, const View& source, const ShardShapes& in) const;
  /// Sets the views, unless this process makes all that it holds of the result.
  void set_views(std::vector<View> views);
  /// Adds what a shard of the result is made from. For those that say it by shard; others override add_needs.
  virtual void add_needs_of(std::int64_t /*shard*/, std::vector<Need>& /*needs*/) const {}

  ShardShapes result_;
  std::vector<ShardShapes> more_results_;
  std::vector<Round> rounds_;
  std::vector<Extra> extras_;
  std::size_t scratch_bytes_ = 0;
  std::vector<View> views_;
  std::vector<View> operand_in_result_;
  std::int64_t tiles_ = 1;
  std::size_t bytes_ = 0;
};

using CollectivePtr = std::unique_ptr<const Collective>;

}  // namespace shoal::collectives
