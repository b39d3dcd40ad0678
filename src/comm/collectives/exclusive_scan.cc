// The reduction over the devices that come before the device in the order of the axes, or after it if `reverse`; the
// neutral element where there is none. One after the other, so that the bits depend on the mesh alone.
#include <cstddef>
#include <utility>
#include <vector>

#include "comm/collectives/collective_parts.h"
#include "comm/collectives/table.h"
#include "ops/reduction.h"

namespace shoal::collectives {
namespace {

class ExclusiveScan final : public Collective {
 public:
  ExclusiveScan(const ShardShapes& in, ShardShapes result, const Atoms& atoms, ReduceKind kind, bool reverse)
      : Collective(std::move(result)), in_(in), kind_(kind), parts_(parts_of(most_bytes(result_))) {
    const Grid& grid = *in.grid;
    const std::int64_t group = grid.size_of(atoms);
    place_of_.resize(static_cast<std::size_t>(result_.count()));
    // Those that are not in a group: the positions at its start.
    const AtomSet others = result_.varying - AtomSet(atoms);
    for (std::int64_t i = 0; i < grid.size_of(others); ++i) {
      const std::int64_t start = grid.representative(others, i);
      for (std::int64_t step = 0; step < group; ++step) {
        const std::int64_t position = grid.with_index_along(start, atoms, reverse ? group - 1 - step : step);
        place_of_[static_cast<std::size_t>(result_.shard_at(position))] = order_.size();
        order_.push_back({.operand = in.shard_at(position), .result = result_.shard_at(position)});
      }
    }
    group_ = static_cast<std::size_t>(group);
    by_shard_ = !grid.is_local();
    tiles_ = (by_shard_ ? result_.count() : grid.size_of(others)) * parts_;
    bytes_ = 2 * total_bytes(result_);
  }

  void add_needs_of(std::int64_t shard, std::vector<Need>& needs) const override {
    const std::size_t place = place_of_[static_cast<std::size_t>(shard)];
    for (std::size_t i = place / group_ * group_; i < place; ++i) needs.push_back(whole_need(in_, order_[i].operand));
  }

  void run(std::span<std::byte* const* const> operands, std::byte* const* result, std::int64_t tile) const override {
    const auto place = by_shard_ ? place_of_[static_cast<std::size_t>(tile / parts_)]
                                 : static_cast<std::size_t>(tile / parts_) * group_;
    const Step* steps = order_.data() + place / group_ * group_;
    const std::int64_t part = tile % parts_;
    const std::int64_t elements = num_elements(result_.shape(steps[0].result));
    const std::int64_t begin = elements * part / parts_;
    const std::int64_t count = elements * (part + 1) / parts_ - begin;
    const std::size_t offset = static_cast<std::size_t>(begin) * size_of(result_.dtype);
    const auto add = [&](const std::byte* sum, std::size_t step, std::byte* out) {
      combine(kind_, result_.dtype, sum + offset, operands[0][steps[step].operand] + offset, out + offset, count);
    };
    if (by_shard_) {
      // The results of others are not here to go on from.
      std::byte* const sum = result[tile / parts_];
      fill_neutral(kind_, result_.dtype, sum + offset, count);
      for (std::size_t step = 0; step < place % group_; ++step) add(sum, step, sum);
      return;
    }
    fill_neutral(kind_, result_.dtype, result[steps[0].result] + offset, count);
    for (std::size_t step = 0; step + 1 < group_; ++step) {
      add(result[steps[step].result], step, result[steps[step + 1].result]);
    }
  }

 private:
  struct Step {
    std::int64_t operand;
    std::int64_t result;
  };
  ShardShapes in_;
  ReduceKind kind_;
  std::int64_t parts_;
  std::size_t group_ = 1;
  bool by_shard_ = false;              // A tile is a part of one shard, not of a group.
  std::vector<Step> order_;            // Group after group, each in the order of the scan.
  std::vector<std::size_t> place_of_;  // Of each shard of the result, in that list.
};

}  // namespace

CollectivePtr exclusive_scan(const Context& context) {
  const ShardShapes& in = context.in();
  ShardShapes result = shapes_of(in.grid, (in.varying & context.wanted) | AtomSet(context.atoms()), in.dtype, in.even(),
                                 [&](std::int64_t position) { return in.shape_at(position); });
  return std::make_unique<ExclusiveScan>(in, std::move(result), context.atoms(), context.kind(),
                                         context.attrs.get<bool>("reverse"));
}

}  // namespace shoal::collectives
