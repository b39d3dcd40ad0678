// What the algorithms on distributed matrices have in common: they are collectives of many rounds, one after the other
// for each panel of a matrix. Within a round tiles are worked on by all threads; between rounds processes give each
// other what the next one reads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "comm/collectives/collective.h"
#include "comm/collectives/exchange.h"
#include "linalg/matrix_shards.h"
#include "linalg/tiling.h"

namespace shoal::linalg {

class Solver : public collectives::Collective {
 protected:
  /// What a round does: `kind` is the algorithm's, `k` the panel it does it for.
  struct Step {
    int kind;
    std::size_t problem;
    std::int64_t k;
  };
  /// One matrix, of the devices of a group: in a manual region each of several has its own.
  struct Group {
    std::vector<std::int64_t> positions;  ///< Those among which its dimensions are split,
    std::vector<std::int64_t> devices;    ///< and those that hold the same beside them, too.
    std::vector<int> processes;           ///< Ascending.

    bool has(int process) const;
    bool has_this_process() const;
  };
  /// The memory of a run, whose elements are T.
  template <class T>
  struct MemoryOf {
    std::span<std::byte* const* const> operands;  ///< The last are the extras.
    std::byte* const* result;

    T* extra(std::int32_t number) const { return reinterpret_cast<T*>(operands.back()[number]); }
    T* shard(std::int32_t number) const { return reinterpret_cast<T*>(result[number]); }
    const T* operand(std::size_t i, std::int32_t number) const {
      return reinterpret_cast<const T*>(operands[i][number]);
    }
  };

  using Collective::Collective;

  /// Those of a collective whose operands vary over `varying`.
  static std::vector<Group> groups_of(const collectives::Context& context);

  /// The tiles of the rows, and the columns, of the square matrix that is the first operand.
  static Tiling tiling_of(const collectives::Context& context);

  /// A round with so many jobs for this process.
  void add_round(Step step, std::int64_t jobs, const Round& round);
  /// Memory that `holders` fill and others read; `bytes` of scratch memory if this process is to have it.
  std::int32_t add_extra(std::vector<int> holders, std::size_t bytes);

  const Step& step(std::size_t round) const { return steps_[round]; }
  /// The round of a tile of the run, whose jobs are its tiles; job is its place among them.
  const Step& step_of(std::int64_t tile, std::int64_t& job) const;

 private:
  std::vector<Step> steps_;  // By round.
};

}  // namespace shoal::linalg
