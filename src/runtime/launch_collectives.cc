// What a launch does with other devices: collectives, calls of the user's program, and exchanges with other processes.
#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/profiler.h"
#include "base/progress.h"
#include "comm/transport/box_copy.h"
#include "core/this_process.h"
#include "runtime/lane.h"
#include "runtime/launch.h"

namespace shoal {
namespace {

// Steps that touch no more bytes are done before another thread has woken up.
constexpr std::size_t kInlineCollectiveBytes = std::size_t{128} << 10;

// What is told of a solver whose last rounds have no work here.
constexpr double kNearlyDone = 0.99;

using Rounds = std::vector<collectives::Collective::Round>;

// The rounds that are over before the first exchange.
std::size_t rounds_before_exchange(const Rounds& rounds) {
  return static_cast<std::size_t>(std::ranges::find(rounds, true, &collectives::Collective::Round::exchanges) -
                                  rounds.begin());
}

}  // namespace

// ---- Exchanges with other processes

// The number of the pointer to a shard of an operand, or to an extra of a collective.
std::size_t Launch::pointer_to(const Step& step, std::int32_t operand, std::int32_t shard) {
  const auto place = static_cast<std::size_t>(operand);
  const bool is_effect = std::holds_alternative<EffectStep>(step.work);
  if (is_effect || place < step.eqn->inputs.size()) return step.operands[place].at(shard);
  return std::get<CollectiveStep>(step.work).extras + static_cast<std::size_t>(shard);
}

// The buffer in which a shard of an operand, or an extra, lies that no later step of the launch writes; null if it lies
// elsewhere.
const Buffer* Launch::buffer_of(const Step& step, std::int32_t operand, std::int32_t shard) {
  if (schedule_.is_body) return nullptr;
  ValueId id = 0;
  std::int64_t number = shard;
  if (static_cast<std::size_t>(operand) < step.eqn->inputs.size()) {
    id = step.eqn->inputs[static_cast<std::size_t>(operand)];
  } else if (std::holds_alternative<EffectStep>(step.work)) {
    return nullptr;
  } else {
    const collectives::Collective& collective = *std::get<CollectiveStep>(step.work).collective;
    number = collective.extras()[static_cast<std::size_t>(shard)].result;
    if (number < 0) return nullptr;
    id = step.eqn->outputs[0];
  }
  const MemoryPlan& plan = schedule_.plan;
  const MemoryPlan::Place& place = plan.places[slot(id)][static_cast<std::size_t>(number)];
  switch (plan.storage(place).kind) {
    case MemoryPlan::Kind::kInput:
      // Who is given it to write an output there finds that it is not the only one that holds it.
      return &input_piece(plan.storage(place).input, place.piece);
    case MemoryPlan::Kind::kOutput:
      if (schedule_.last_writes[static_cast<std::size_t>(place.storage)] > step.number) return nullptr;
      return &output_piece(place.storage, place.piece);
    default:
      return nullptr;
  }
}

// Begins an exchange of a step: sends what other processes need.
Exchange::Run Launch::begin_exchange(const Step& step, const StepExchanges& exchanges, std::size_t round) {
  MessageTag tag = tag_;
  tag.step = exchanges.number + static_cast<std::uint32_t>(round);
  return {*exchanges.rounds[round],
          {*schedule_.communicator, tag, step.eqn->op->name, step.eqn->where, trip_},
          [&](std::int32_t operand, std::int32_t shard) {
            return Exchange::Held{pointers_[pointer_to(step, operand, shard)], buffer_of(step, operand, shard)};
          }};
}

// Begins what a step that has not come exchanges first. It is a collective, as effects never start early.
void Launch::start(const Step& step) {
  const profiler::ExchangeScope timed;
  const auto& work = std::get<CollectiveStep>(step.work);
  const profiler::ProfileScope event(
      profiler::Category::kCollective, "start",
      {.program = schedule_.graph.name, .where = step.eqn->where, .trip = static_cast<std::int64_t>(trip_)});
  run_rounds(step, work, 0, rounds_before_exchange(work.collective->rounds()));
  if (work.exchanges.rounds[0] == nullptr) return;
  under_way_.push_back(begin_exchange(step, work.exchanges, 0));
  under_way_.back().expect();
}

// Gets what other processes hold, and gives them what they need, in an exchange of a step; use() works on it.
template <class F>
void Launch::exchange(const Step& step, const StepExchanges& exchanges, std::size_t round, F&& use, bool is_ahead) {
  if (round >= exchanges.rounds.size() || exchanges.rounds[round] == nullptr) return use();
  // To the end of the work on what arrives, so that its bytes give a bandwidth.
  const std::int64_t bytes =
      profiler::is_recording() ? static_cast<std::int64_t>(exchanges.rounds[round]->received_bytes()) : -1;
  const profiler::ProfileScope event(profiler::Category::kCollective, "exchange",
                                     {.program = schedule_.graph.name,
                                      .where = step.eqn->where,
                                      .bytes = bytes,
                                      .trip = static_cast<std::int64_t>(trip_)});
  const auto begin = [&] {
    const bool has_begun =
        is_ahead || (round == 0 && (exchanges.starts_early || (exchanges.starts_trip_ahead && is_ahead_)));
    if (!has_begun) return begin_exchange(step, exchanges, round);
    Exchange::Run begun = std::move(under_way_.front());
    under_way_.pop_front();
    return begun;
  };
  std::optional<profiler::ExchangeScope> timed(std::in_place);
  Exchange::Run run = begin();
  run.receive([&](std::int32_t operand, std::int32_t shard, const std::byte* data) {
    pointers_[pointer_to(step, operand, shard)] = const_cast<std::byte*>(data);  // It is only read.
  });
  timed.reset();  // An effect uses it by what the user wrote.
  use();
  run.release();
  if (!run.is_read()) unread_.push_back(std::move(run));
}

void Launch::wait_until_read() {
  const profiler::ExchangeScope timed;
  for (Exchange::Run& run : unread_) run.wait_until_read();
  unread_.clear();
}

// ---- Collectives

void Launch::run_collective(const Step& step, const CollectiveStep& work) {
  const profiler::ExchangeScope timed;
  if (work.zeros >= 0) fill_with_zeros(work.zeros);
  const collectives::Collective& collective = *work.collective;
  const Rounds& rounds = collective.rounds();
  if (schedule_.communicator == nullptr && rounds.empty()) {
    return run_tiles(step, work, collective.tiles(), [](std::int64_t i) { return i; });
  }
  if (!rounds.empty()) {
    return run_rounds(step, work, work.exchanges.starts_early ? rounds_before_exchange(rounds) : 0, rounds.size());
  }
  const std::int64_t tiles_of_shard = collective.tiles() / collective.result().count();
  exchange(step, work.exchanges, 0, [&] {
    run_tiles(step, work, tiles_of_shard * static_cast<std::int64_t>(work.made.size()), [&](std::int64_t i) {
      return work.made[static_cast<std::size_t>(i / tiles_of_shard)] * tiles_of_shard + i % tiles_of_shard;
    });
  });
}

void Launch::fill_with_zeros(std::int32_t number) {
  const MemoryPlan::Storage& storage = schedule_.plan.storages[static_cast<std::size_t>(number)];
  if (storage.kind == MemoryPlan::Kind::kArena) {
    const auto kind = static_cast<std::size_t>(schedule_.graph.type(storage.owner).memory.kind());
    std::memset(arena(kind) + storage.offset, 0, static_cast<std::size_t>(storage.held) * storage.stride);
    return;
  }
  if (schedule_.is_body) {
    const ShardShapes& shapes = schedule_.shapes_of(storage.owner);
    for (const Schedule::Binding& binding : schedule_.bindings[static_cast<std::size_t>(number)]) {
      const std::size_t bytes = shapes.bytes(binding.piece);
      if (bytes != 0) std::memset(pointers_[binding.pointer] - binding.offset, 0, bytes);
    }
    return;
  }
  for (std::int64_t piece = 0; piece < storage.pieces; ++piece) {
    Buffer& buffer = output_piece(number, piece);
    if (buffer && buffer.size_bytes() != 0) std::memset(buffer.mutable_data(), 0, buffer.size_bytes());
  }
}

// Runs the rounds first … last - 1 of a collective.
void Launch::run_rounds(const Step& step, const CollectiveStep& work, std::size_t first, std::size_t last) {
  const Rounds& rounds = work.collective->rounds();
  std::size_t exchanges = 0;
  const bool solves = step.eqn->op->collective->solves;
  std::optional<linalg::ProgressReport> progress;
  if (solves && last == rounds.size()) progress.emplace(step.eqn->op->name);
  const auto all = static_cast<double>(std::max<std::int64_t>(work.collective->tiles(), 1));
  for (std::size_t round = first; round < last; ++round) {
    // A solver may take long; other collectives end, as what others wait for does not depend on a user here.
    if (round > first && solves) Lane::check_loop();
    if (rounds[round].rewrites) wait_until_read();
    if (round + 1 < last && rounds[round + 1].ahead && exchanges < work.exchanges.rounds.size() &&
        work.exchanges.rounds[exchanges] != nullptr) {
      SHOAL_CHECK(!rounds[round].exchanges, "what is sent ahead is sent before a round without an exchange");
      under_way_.push_front(begin_exchange(step, work.exchanges, exchanges));
    }
    const std::int64_t begin = round == 0 ? 0 : rounds[round - 1].end;
    const auto run = [&] {
      run_tiles(step, work, rounds[round].end - begin, [&](std::int64_t i) { return begin + i; });
    };
    if (rounds[round].exchanges) {
      exchange(step, work.exchanges, exchanges++, run, rounds[round].ahead);
    } else {
      run();
    }
    if (progress)
      progress->tell(round + 1 == last ? 1 : std::min(static_cast<double>(rounds[round].end) / all, kNearlyDone));
  }
}

// Runs so many tiles of a collective; tile_at(i) gives the i-th of them.
template <class TileAt>
void Launch::run_tiles(const Step& step, const CollectiveStep& work, std::int64_t tiles, TileAt&& tile_at) const {
  if (!work.runs) return;
  const std::size_t inputs = step.eqn->inputs.size();
  boost::container::small_vector<std::byte* const*, 6> operands;
  for (std::size_t i = 0; i < step.operands.size(); ++i) {
    if (i != inputs) operands.push_back(pointers_.data() + step.operands[i].first);
  }
  std::byte* const* result = pointers_.data() + step.operands[inputs].first;
  const collectives::Collective& collective = *work.collective;
  if (!collective.extras().empty()) operands.push_back(pointers_.data() + work.extras);
  const auto run_range = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      collective.run({operands.data(), operands.size()}, result, tile_at(i));
    }
  };
  if (step.bytes <= kInlineCollectiveBytes) return run_range(0, tiles);
  for_each_range(tiles, kRangesPerThread, [&](std::int64_t begin, std::int64_t end) {
    const profiler::ProfileScope event(profiler::Category::kKernel, step.eqn->op->name, {.tile = begin});
    run_range(begin, end);
  });
}

// ---- Effects

// Calls the user's program once for each device along the manual axes that has come here, in the order of the devices,
// with what is whole there, and takes what it gives. The results of other devices are zeros, which nobody sees.
void Launch::run_effect(const Step& step, const EffectStep& work) {
  const Eqn& eqn = *step.eqn;
  const auto& callback = eqn.attrs.get<CallbackAttr>("callback").callback;
  SHOAL_CHECK(callback != nullptr || eqn.outputs.empty(), "a graph that was read from text calls nobody");
  if (callback == nullptr) return;
  const Grid& grid = *schedule_.graph.grid;
  exchange(step, work.exchanges, 0, [&] {
    for (const std::int64_t position : work.calls) {
      if (schedule_.communicator != nullptr && grid.process_of(position) != this_process()) continue;
      if (!is_on_way(position)) {
        leave_results(step, position);
        continue;
      }
      std::vector<Buffer> operands;
      for (std::size_t i = 0; i < eqn.inputs.size(); ++i) operands.push_back(whole_operand(step, i, position));
      take_results(step, position, callback->on_values(operands));
    }
  });
  std::vector<std::byte*> own;
  for (const EffectStep::Given& given : work.given) own.push_back(pointers_[given.pointer]);
  exchange(step, work.exchanges, 1, [&] {
    for (std::size_t i = 0; i < own.size(); ++i) {
      std::byte*& arrived = pointers_[work.given[i].pointer];
      if (work.given[i].bytes != 0) std::memcpy(own[i], arrived, work.given[i].bytes);
      arrived = own[i];
    }
  });
}

void Launch::take_results(const Step& step, std::int64_t position, const std::vector<Buffer>& results) const {
  const Eqn& eqn = *step.eqn;
  SHOAL_CHECK(results.size() == eqn.outputs.size(), "the user's program gives what was promised");
  for (std::size_t i = 0; i < results.size(); ++i) {
    const ShardShapes& shapes = schedule_.shapes_of(eqn.outputs[i]);
    const std::int64_t shard = shapes.shard_at(position);
    SHOAL_CHECK(results[i].size_bytes() == shapes.bytes(shard), "the user's program gives what was promised");
    if (results[i].size_bytes() == 0) continue;
    std::memcpy(pointers_[step.operands[eqn.inputs.size() + i].at(shard)], results[i].data(), results[i].size_bytes());
  }
}

void Launch::leave_results(const Step& step, std::int64_t position) const {
  const Eqn& eqn = *step.eqn;
  for (std::size_t i = 0; i < eqn.outputs.size(); ++i) {
    const ShardShapes& shapes = schedule_.shapes_of(eqn.outputs[i]);
    const std::int64_t shard = shapes.shard_at(position);
    const std::size_t bytes = shapes.bytes(shard);
    if (bytes != 0) std::memset(pointers_[step.operands[eqn.inputs.size() + i].at(shard)], 0, bytes);
  }
}

// An operand of an effect, put together of the shards of the devices that differ from the one at `position` only along
// axes that are not manual.
Buffer Launch::whole_operand(const Step& step, std::size_t operand, std::int64_t position) {
  const Grid& grid = *schedule_.graph.grid;
  const ValueId id = step.eqn->inputs[operand];
  const GlobalShape& global = *schedule_.graph.value(id).global;
  const ShardShapes& shapes = schedule_.shapes_of(id);
  const AtomSet split = global.placement.varying();
  const std::int64_t own = shapes.shard_at(position);
  if (split.empty() && shapes.is_held(own)) {
    const Buffer* const held = buffer_of(step, static_cast<std::int32_t>(operand), static_cast<std::int32_t>(own));
    if (held != nullptr && held->dtype() == shapes.dtype) return held->reshaped(global.shape);  // Nobody writes it now.
  }
  Buffer whole(schedule_.space_of(schedule_.graph.type(id).memory), shapes.dtype, global.shape);
  std::vector<PlacedCopy> copies;
  for (std::int64_t part = 0; part < grid.size_of(split); ++part) {
    const std::int64_t device = position + grid.representative(split, part);
    const std::int64_t shard = shapes.shard_at(device);
    const Shape& extents = shapes.shape(shard);
    copies.push_back(place_copy({shapes.dtype, extents, pointers_[step.operands[operand].at(shard)]},
                                Dims(extents.size(), 0), whole.view(),
                                shard_start(grid, global.shape, global.placement, device), extents));
  }
  copy_boxes(copies);
  return whole;
}

}  // namespace shoal
