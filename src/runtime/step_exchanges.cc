#include "runtime/step_exchanges.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace shoal {
namespace {

// The most that may be on its way from other processes to steps that have not come; more only for one of them.
constexpr std::size_t kMostUnderWay = std::size_t{256} << 20;

// One of what each process needs; null if that is nothing here.
template <class AddNeeds, class Holders>
std::unique_ptr<Exchange> exchange_of(const Graph& graph, const Eqn& eqn, std::span<const int> parties,
                                      AddNeeds&& add_needs, Holders&& holders) {
  auto exchange = std::make_unique<Exchange>(graph.grid->processes(), add_needs, holders, parties);
  if (!exchange->is_possible()) {
    throw Unsupported(
        fmt::format(
            "{}: it exchanges data between processes in the body of a loop or branch in which devices go "
            "different ways, and these processes have devices on different ways: some would wait for others "
            "that do not come. Give each process devices of the same ways, or make the predicate equal on all{}",
            eqn.op->name, derived_note(eqn.where)),
        eqn.where);
  }
  return exchange->empty() ? nullptr : std::move(exchange);
}

// A whole shard of an operand, or of a result, whose numbers follow.
Need need_of(std::size_t operand, const ShardShapes& shapes, std::int64_t shard) {
  const Shape& shape = shapes.shape(shard);
  return {static_cast<std::int32_t>(operand),
          static_cast<std::int32_t>(shard),
          {shape, Dims(shape.size(), 0), shape, size_of(shapes.dtype)}};
}

// What a step exchanges; null if it is of a kind that never does, or if there is one process.
template <class AnyStep>
auto* exchanges_of(AnyStep& step) {
  auto* const effect = std::get_if<EffectStep>(&step.work);
  auto* exchanges = effect == nullptr ? nullptr : &effect->exchanges;
  if (auto* const collective = std::get_if<CollectiveStep>(&step.work)) exchanges = &collective->exchanges;
  return exchanges == nullptr || exchanges->rounds.empty() ? nullptr : exchanges;
}

// Whether bodies exchange something: what is under way then has begun in them.
bool exchanges_in_bodies(const Step& step) {
  const auto* const control = std::get_if<ControlStep>(&step.work);
  return control != nullptr && control->exchanges;
}

// Whether more is sent in exchanges, or after them, than when the first begins.
bool goes_on(const StepExchanges& exchanges) {
  return exchanges.rounds.size() > 1 || (exchanges.rounds[0] != nullptr && exchanges.rounds[0]->relays());
}

// Whether it needs nothing that a trip makes, and there is nothing to do before it and nothing to send after.
bool goes_ahead(const Graph& body, const Step& step, const Control& control) {
  const auto* const work = std::get_if<CollectiveStep>(&step.work);
  if (work == nullptr || !work->collective->rounds().empty() || goes_on(work->exchanges)) return false;
  return std::ranges::all_of(step.eqn->inputs, [&](ValueId id) {
    const auto found = std::ranges::find(body.inputs, id);
    return found != body.inputs.end() && found - body.inputs.begin() >= static_cast<std::ptrdiff_t>(control.carries);
  });
}

}  // namespace

std::vector<int> parties_within(const Grid& grid, std::span<const int> parties, AtomSet apart) {
  std::map<int, std::set<std::int64_t>> ways;
  for (std::int64_t position = 0; position < grid.num_devices(); ++position) {
    ways[grid.process_of(position)].insert(grid.distinct_index(position, apart));
  }
  std::map<std::pair<int, std::set<std::int64_t>>, int> numbers;
  std::vector<int> within;
  for (const int process : grid.processes()) {
    const int outer = parties.empty() ? 0 : parties[within.size()];
    within.push_back(numbers.try_emplace({outer, ways[process]}, std::ssize(numbers)).first->second);
  }
  return within;
}

std::vector<std::unique_ptr<Exchange>> exchanges_of_collective(const Graph& graph, const Eqn& eqn,
                                                               const collectives::Collective& collective,
                                                               std::span<const ShardShapes> shapes,
                                                               std::span<const int> parties) {
  const auto holders = [&](std::int32_t operand, std::int32_t shard) {
    const auto number = static_cast<std::size_t>(operand);
    if (number == eqn.inputs.size()) return collective.extras()[static_cast<std::size_t>(shard)].holders;
    return holders_of(*graph.grid, shapes[slot(eqn.inputs[number])].varying, shard);
  };
  std::vector<std::unique_ptr<Exchange>> exchanges;
  const auto add = [&](std::size_t round) {
    const auto add_needs = [&](int process, std::vector<Need>& needs) { collective.add_needs(round, process, needs); };
    exchanges.push_back(exchange_of(graph, eqn, parties, add_needs, holders));
  };
  if (collective.rounds().empty()) add(0);
  for (std::size_t round = 0; round < collective.rounds().size(); ++round) {
    if (collective.rounds()[round].exchanges) add(round);
  }
  return exchanges;
}

std::unique_ptr<Exchange> exchange_of_operands(const Graph& graph, const Eqn& eqn, std::span<const std::int64_t> calls,
                                               std::span<const ShardShapes> shapes, std::span<const int> parties) {
  const Grid& grid = *graph.grid;
  const auto shapes_of = [&](std::size_t operand) -> const ShardShapes& { return shapes[slot(eqn.inputs[operand])]; };
  const auto holders = [&](std::int32_t operand, std::int32_t shard) {
    return holders_of(grid, shapes_of(static_cast<std::size_t>(operand)).varying, shard);
  };
  const auto add_needs = [&](int process, std::vector<Need>& needs) {
    for (const std::int64_t position : calls) {
      if (grid.process_of(position) != process) continue;
      for (std::size_t i = 0; i < eqn.inputs.size(); ++i) {
        const AtomSet split = graph.value(eqn.inputs[i]).global->placement.varying();
        for (std::int64_t part = 0; part < grid.size_of(split); ++part) {
          const std::int64_t shard = shapes_of(i).shard_at(position + grid.representative(split, part));
          needs.push_back(need_of(i, shapes_of(i), shard));
        }
      }
    }
  };
  return exchange_of(graph, eqn, parties, add_needs, holders);
}

std::unique_ptr<Exchange> exchange_of_results(const Graph& graph, const Eqn& eqn, std::span<const std::int64_t> calls,
                                              std::span<const ShardShapes> shapes, std::span<const int> parties) {
  const Grid& grid = *graph.grid;
  const auto for_each_result = [&](auto&& visit) {
    for (const std::int64_t position : calls) {
      for (std::size_t i = 0; i < eqn.outputs.size(); ++i) {
        const ShardShapes& result = shapes[slot(eqn.outputs[i])];
        visit(eqn.inputs.size() + i, result, result.shard_at(position), grid.process_of(position));
      }
    }
  };
  const auto holders = [&](std::int32_t operand, std::int32_t shard) {
    std::vector<int> giver;
    for_each_result([&](std::size_t number, const ShardShapes&, std::int64_t given, int process) {
      if (number == static_cast<std::size_t>(operand) && given == shard) giver = {process};
    });
    return giver;
  };
  const auto add_needs = [&](int process, std::vector<Need>& needs) {
    for_each_result([&](std::size_t number, const ShardShapes& result, std::int64_t shard, int giver) {
      if (giver == process || !grid.held_by(process, result.varying).has(shard)) return;
      needs.push_back(need_of(number, result, shard));
    });
  };
  return exchange_of(graph, eqn, parties, add_needs, holders);
}

std::vector<std::int32_t> find_starts(const Graph& graph, std::span<const Step> steps) {
  std::vector<std::int32_t> made(graph.values.size(), 0);  // Before which equation.
  struct UnderWay {
    std::int32_t end;  // One past the step that receives it.
    std::size_t bytes;
  };
  std::deque<UnderWay> under_way;
  std::size_t bytes = 0;
  std::int32_t earliest = 0;
  std::vector<std::int32_t> starts;
  for (const Step& step : steps) {
    std::int32_t& start = starts.emplace_back(step.number);
    const std::int32_t end = step.number + 1;
    for (ValueId id : step.eqn->outputs) made[slot(id)] = end;
    if (exchanges_in_bodies(step)) earliest = end;
    const StepExchanges* const exchanges = exchanges_of(step);
    if (exchanges == nullptr) continue;
    const std::size_t received = exchanges->rounds[0] == nullptr ? 0 : exchanges->rounds[0]->received_bytes();
    if (std::holds_alternative<CollectiveStep>(step.work)) {
      std::int32_t free = earliest;
      for (ValueId id : step.eqn->inputs) free = std::max(free, made[slot(id)]);
      const auto is_too_much = [&] { return received > kMostUnderWay - std::min(bytes, kMostUnderWay); };
      while (!under_way.empty() && (under_way.front().end <= free || is_too_much())) {
        free = std::max(free, under_way.front().end);
        bytes -= under_way.front().bytes;
        under_way.pop_front();
      }
      start = std::min(free, step.number);
    }
    under_way.push_back({end, received});
    bytes += received;
    earliest = start == step.number || goes_on(*exchanges) ? end : start;
  }
  return starts;
}

void settle_trips_ahead(Schedule& body, const Control& control) {
  if (control.asks || body.communicator == nullptr) return;
  std::vector<Step*> ahead;
  std::size_t bytes = 0;
  bool others = false;
  std::size_t after = 0;  // The last exchange.
  for (std::size_t i = 0; i < body.steps.size(); ++i) {
    Step& step = body.steps[i];
    const StepExchanges* const exchanges = exchanges_of(std::as_const(step));
    if (exchanges == nullptr && !exchanges_in_bodies(step)) continue;
    after = i + 1;
    const Exchange* const first = exchanges == nullptr ? nullptr : exchanges->rounds[0].get();
    if (first != nullptr) bytes += first->received_bytes();
    others = others || bytes > kMostUnderWay || !goes_ahead(body.graph, step, control);
    if (!others) ahead.push_back(&step);
  }
  if (ahead.empty() || after == body.steps.size()) return;
  for (Step* step : ahead) {
    std::get<CollectiveStep>(step->work).exchanges.starts_trip_ahead = true;
    body.trip_ahead.push_back(static_cast<std::int32_t>(step - body.steps.data()));
  }
  body.trip_ahead_before = static_cast<std::int32_t>(after);
}

void settle_starts(std::span<Step> steps, std::span<const std::int32_t> starts) {
  std::size_t earliest = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (exchanges_in_bodies(steps[i])) earliest = i + 1;
    StepExchanges* const exchanges = exchanges_of(steps[i]);
    if (exchanges == nullptr) continue;
    std::size_t start = earliest;
    while (start < i && steps[start].number < starts[static_cast<std::size_t>(steps[i].number)]) ++start;
    exchanges->starts_early = start < i;
    if (exchanges->starts_early) steps[start].starts.push_back(static_cast<std::int32_t>(i));
    earliest = !exchanges->starts_early || goes_on(*exchanges) ? i + 1 : start;
  }
}

}  // namespace shoal
