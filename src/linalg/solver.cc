#include "linalg/solver.h"

#include <algorithm>
#include <utility>

#include "base/sort_unique.h"
#include "core/this_process.h"

namespace shoal::linalg {
namespace {

constexpr std::size_t kAlignment = 64;

}  // namespace

bool Solver::Group::has(int process) const { return std::ranges::binary_search(processes, process); }
bool Solver::Group::has_this_process() const { return has(this_process()); }

std::vector<Solver::Group> Solver::groups_of(const collectives::Context& context) {
  const Grid& grid = *context.grid();
  AtomSet varying;
  for (const ShardShapes& operand : context.operands) varying = varying | operand.varying;
  const AtomSet apart = varying - AtomSet(context.atoms());
  std::vector<Group> groups;
  for (std::int64_t i = 0; i < grid.size_of(apart); ++i) {
    Group group;
    // Devices that differ along other atoms hold the same, and work with these.
    group.positions = context.groups.members(grid.representative(apart, i));
    for (std::int64_t position = 0; position < grid.num_devices(); ++position) {
      if (grid.distinct_index(position, apart) != i) continue;
      group.devices.push_back(position);
      group.processes.push_back(grid.process_of(position));
    }
    sort_unique(group.processes);
    groups.push_back(std::move(group));
  }
  return groups;
}

Tiling Solver::tiling_of(const collectives::Context& context) {
  const Grid& grid = *context.grid();
  const auto n = context.attrs.get<std::int64_t>("n");
  std::vector<Extent> shards;
  for (const std::string_view dim : {"rows", "columns"}) {
    const Atoms atoms = grid.atoms_of(context.attrs.get<std::vector<std::string>>(dim));
    for (std::int64_t position = 0; position < grid.num_devices(); ++position) {
      shards.push_back(grid.extent(n, atoms, position));
    }
  }
  return {n, tile_size(n, context.attrs.get<std::int64_t>("tile"), shards)};
}

void Solver::add_round(Step step, std::int64_t jobs, const Round& round) {
  steps_.push_back(step);
  tiles_ = (rounds_.empty() ? 0 : rounds_.back().end) + jobs;
  rounds_.push_back(round);
  rounds_.back().end = tiles_;
}

std::int32_t Solver::add_extra(std::vector<int> holders, std::size_t bytes) {
  Extra extra{.holders = std::move(holders)};
  if (bytes != 0) {
    extra.scratch = scratch_bytes_;
    scratch_bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  extras_.push_back(std::move(extra));
  return static_cast<std::int32_t>(extras_.size() - 1);
}

const Solver::Step& Solver::step_of(std::int64_t tile, std::int64_t& job) const {
  const auto round = std::ranges::upper_bound(rounds_, tile, {}, &Round::end);
  job = tile - (round == rounds_.begin() ? 0 : std::prev(round)->end);
  return steps_[static_cast<std::size_t>(round - rounds_.begin())];
}

}  // namespace shoal::linalg
