#include "runtime/bind_plan.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

namespace shoal {
namespace {

class Binder {
 public:
  explicit Binder(Schedule& schedule) : schedule_(schedule) {}

  void bind() {
    bind_pointers();
    find_outputs();
    find_last_writes();
    add_births();
    leave_those_with_work();
  }

 private:
  // Finds the pointers to be set, and the buffers to be made.
  void bind_pointers() {
    schedule_.bindings.resize(plan_.storages.size());
    schedule_.first_buffer.resize(plan_.storages.size());
    for (std::size_t i = 0; i < plan_.storages.size(); ++i) {
      if (plan_.storages[i].kind != MemoryPlan::Kind::kOutput || schedule_.is_body) continue;
      schedule_.first_buffer[i] = schedule_.num_buffers;
      schedule_.num_buffers += static_cast<std::size_t>(plan_.storages[i].pieces);
    }
    schedule_.for_each_place([&](std::size_t pointer, const MemoryPlan::Place& place) {
      if (plan_.storage(place).kind == MemoryPlan::Kind::kArena) return;
      schedule_.bindings[static_cast<std::size_t>(place.storage)].push_back(
          {.pointer = pointer, .piece = place.piece, .offset = place.offset});
    });
  }

  void find_outputs() {
    std::vector<std::vector<Schedule::Source>>& outputs = schedule_.outputs;
    std::map<std::pair<std::int32_t, std::int32_t>, std::pair<std::size_t, std::size_t>> last;
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
      std::vector<Schedule::Source>& sources = outputs.emplace_back();
      const ValueId id = graph_.outputs[i];
      for (const MemoryPlan::Place& place : places_of(id)) {
        if (!schedule_.shapes_of(id).is_held(static_cast<std::int64_t>(sources.size()))) {
          sources.push_back({.storage = -1, .piece = 0, .last = false});
          continue;
        }
        const auto [found, is_new] = last.try_emplace({place.storage, place.piece}, i, sources.size());
        if (!is_new) {
          outputs[found->second.first][found->second.second].last = false;
          found->second = {i, sources.size()};
        }
        sources.push_back({.storage = place.storage, .piece = place.piece, .last = true});
      }
    }
  }

  void find_last_writes() {
    schedule_.last_writes.assign(plan_.storages.size(), -1);
    for (std::size_t i = 0; i < graph_.eqns.size(); ++i) {
      if (!plan_.runs[i]) continue;
      for (ValueId id : graph_.eqns[i].outputs) {
        for (const MemoryPlan::Place& place : places_of(id)) {
          // What keeps its bytes there was there before.
          if (plan_.renames[i] && plan_.storage(place).birth < static_cast<std::int32_t>(i)) continue;
          schedule_.last_writes[static_cast<std::size_t>(place.storage)] = static_cast<std::int32_t>(i);
        }
      }
    }
  }

  void add_births() {
    for (std::size_t i = 0; i < plan_.storages.size(); ++i) {
      const MemoryPlan::Storage& storage = plan_.storages[i];
      if (storage.kind != MemoryPlan::Kind::kOutput || schedule_.is_body) continue;
      steps_[static_cast<std::size_t>(storage.birth)].births.push_back(static_cast<std::int32_t>(i));
    }
  }

  // For each input, the equation after which it is needed no more; -1 if it is needed to the end.
  std::vector<std::int32_t> find_releases() const {
    std::vector<std::int32_t> releases(graph_.inputs.size(), -1);
    for (const MemoryPlan::Storage& storage : plan_.storages) {
      if (storage.kind == MemoryPlan::Kind::kInput && storage.death < static_cast<std::int32_t>(graph_.eqns.size())) {
        releases[static_cast<std::size_t>(storage.input)] = storage.death;
      }
    }
    for (const MemoryPlan::Storage& storage : plan_.storages) {
      if (storage.kind != MemoryPlan::Kind::kOutput || storage.donor < 0) continue;
      std::int32_t& release = releases[static_cast<std::size_t>(storage.donor)];
      release = std::max(release, storage.birth);
    }
    return releases;
  }

  // Leaves the steps that have something to do, and tells them what.
  void leave_those_with_work() {
    const std::vector<std::int32_t> releases = find_releases();
    std::vector<std::int32_t> inputs(releases.size());  // Those that are needed no more first.
    std::iota(inputs.begin(), inputs.end(), 0);
    const auto released_after = [&](std::int32_t input) { return releases[static_cast<std::size_t>(input)]; };
    std::ranges::stable_sort(inputs, {}, released_after);
    auto next = inputs.begin();
    std::vector<Step> all = std::exchange(steps_, {});
    for (Step& step : all) {
      const std::int32_t number = step.number;
      if (settle(step)) steps_.push_back(std::move(step));
      next = std::find_if(next, inputs.end(), [&](std::int32_t input) { return released_after(input) >= number; });
      if (steps_.empty() || schedule_.is_body) continue;
      // What a step that does nothing was the last to name, was last needed before it.
      for (; next != inputs.end() && released_after(*next) == number; ++next) {
        steps_.back().releases.push_back(*next);
      }
    }
  }

  // Tells a step what the plan says of it. Returns whether there is anything to do.
  bool settle(Step& step) {
    const auto i = static_cast<std::size_t>(step.number);
    if (auto* const kernel = std::get_if<KernelStep>(&step.work)) {
      if (!plan_.runs[i]) return false;
      kernel->scratch = plan_.scratch[i];
      schedule_.kernels += kernel->shards;
      schedule_.made += kernel->shards * static_cast<std::int64_t>(step.eqn->outputs.size()) - plan_.taken[i];
    } else if (auto* const control = std::get_if<ControlStep>(&step.work)) {
      control->scratch = plan_.scratch[i];
    } else if (auto* const collective = std::get_if<CollectiveStep>(&step.work)) {
      settle_collective(step, *collective);
      const auto is_there = [](const auto& exchange) { return exchange != nullptr; };
      return plan_.runs[i] || std::ranges::any_of(collective->exchanges.rounds, is_there);
    }
    return true;
  }

  void settle_collective(Step& step, CollectiveStep& work) {
    const auto i = static_cast<std::size_t>(step.number);
    const collectives::Collective& collective = *work.collective;
    work.scratch = plan_.scratch[i];
    work.zeros = plan_.zeros[i];
    work.runs = plan_.runs[i] && plan_.zeros[i] < 0;
    if (graph_.grid->is_local() || !collective.rounds().empty()) return;
    const auto is_made = [&](std::int32_t shard) {
      return !plan_.renames[i] || collective.views()[static_cast<std::size_t>(shard)].shard == collectives::View::kMade;
    };
    std::ranges::copy_if(graph_.grid->held(collective.result().varying).shards, std::back_inserter(work.made), is_made);
    work.runs = plan_.runs[i] && !work.made.empty();
    if (!plan_.renames[i]) return;
    step.bytes = 0;
    for (std::int32_t shard : work.made) step.bytes += 2 * collective.result().bytes(shard);
  }

  const std::vector<MemoryPlan::Place>& places_of(ValueId id) const { return plan_.places[slot(id)]; }

  Schedule& schedule_;
  const Graph& graph_ = schedule_.graph;
  const MemoryPlan& plan_ = schedule_.plan;
  std::vector<Step>& steps_ = schedule_.steps;
};

}  // namespace

void bind_plan(Schedule& schedule) { Binder(schedule).bind(); }

}  // namespace shoal
