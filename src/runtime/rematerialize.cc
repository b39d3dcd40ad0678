#include "runtime/rematerialize.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/host_allocator.h"
#include "ir/bodies.h"
#include "ops/collective.h"
#include "ops/eqn_cost.h"
#include "passes/dce.h"
#include "runtime/memory_report.h"

namespace shoal {
namespace {

// The equations that one value may take to compute again.
constexpr std::size_t kMostEqns = 32;
// Attempts in a row that need no less memory than the best one so far.
constexpr int kMostFailures = 8;
// Equations of all graphs that are planned. Planning one takes some microseconds.
constexpr std::size_t kMostPlanned = 200'000;
// Of programs of so few equations all ways are tried, and so many programs are made for that.
constexpr std::size_t kFewEqns = 20;
constexpr std::size_t kMostVersions = 600;
// Values that are so much worse to free than the best are left for when those are gone: others may be cheaper then.
constexpr double kMostWorse = 1.5;
// What would have to be kept for a repetition is kept if it is so much smaller than what that saves.
constexpr std::size_t kMuchSmaller = 8;

// Whether an equation may run twice, or not where it stands. Of the collectives, those that exchange nothing may, and
// loops and branches all of whose equations may, unless processes compare how often each runs.
bool is_repeatable(const Graph& graph, const Eqn& eqn) {
  if (eqn.op->op_class == OpClass::kCollective && exchanges_nothing(graph, eqn)) return true;
  if (eqn.op->op_class == OpClass::kControl) {
    return !Communicator::is_strict() && std::ranges::all_of(bodies_of(eqn), [](const Graph* body) {
      return std::ranges::all_of(body->eqns, [&](const Eqn& one) { return is_repeatable(*body, one); });
    });
  }
  if (eqn.op->op_class != OpClass::kCompute || has_effect(eqn)) return false;
  return std::ranges::none_of(eqn.attrs.entries(),
                              [](const auto& entry) { return std::holds_alternative<CallbackAttr>(entry.second); });
}

// An equation with those of its results that are wanted. Of one that computes a graph, or runs some, only what these
// need is left.
Eqn reduced(const Eqn& eqn, FunctionRef<bool(ValueId)> is_wanted) {
  if (eqn.op->op_class == OpClass::kControl) {
    std::vector<bool> wanted;
    for (ValueId id : eqn.outputs) wanted.push_back(is_wanted(id));
    return narrowed(eqn, std::move(wanted));
  }
  if (!eqn.attrs.contains("body") || std::ranges::all_of(eqn.outputs, is_wanted)) return eqn;
  Graph body = eqn.attrs.graph();
  Eqn result = eqn;
  result.inputs.clear();
  result.outputs.clear();
  std::vector<ValueId> outputs;
  for (std::size_t i = 0; i < eqn.outputs.size(); ++i) {
    if (!is_wanted(eqn.outputs[i])) continue;
    result.outputs.push_back(eqn.outputs[i]);
    outputs.push_back(body.outputs[i]);
  }
  body.outputs = std::move(outputs);
  body = dce(body);
  const std::vector<int> uses = count_uses(body);
  std::vector<ValueId> inputs;
  for (std::size_t i = 0; i < eqn.inputs.size(); ++i) {
    if (uses[slot(body.inputs[i])] == 0) continue;
    result.inputs.push_back(eqn.inputs[i]);
    inputs.push_back(body.inputs[i]);
  }
  body.inputs = std::move(inputs);
  map_bodies(result, [&](const Graph&) { return dce(body); });
  return result;
}

// The graph without what nobody uses any more.
void drop_unused(Graph& graph) {
  std::vector<bool> used(graph.values.size(), false);
  const auto is_used = [&](ValueId id) { return static_cast<bool>(used[slot(id)]); };
  for (ValueId id : graph.outputs) used[slot(id)] = true;
  std::vector<Eqn> kept;
  for (auto eqn = graph.eqns.rbegin(); eqn != graph.eqns.rend(); ++eqn) {
    if (is_repeatable(graph, *eqn)) {
      if (std::ranges::none_of(eqn->outputs, is_used)) continue;
      *eqn = reduced(*eqn, is_used);
    }
    for (ValueId id : eqn->inputs) used[slot(id)] = true;
    kept.push_back(std::move(*eqn));
  }
  std::ranges::reverse(kept);
  graph.eqns = std::move(kept);
}

// The equations of a graph and of those that it runs.
std::size_t num_eqns(const Graph& graph) {
  std::size_t count = graph.eqns.size();
  for (const Eqn& eqn : graph.eqns) {
    if (eqn.op->op_class != OpClass::kControl) continue;
    for (const Graph* body : bodies_of(eqn)) count += num_eqns(*body);
  }
  return count;
}

// Of each equation, what schedules of the graphs that it runs say; nothing of one that runs none, or as a kernel.
std::vector<const ControlStep*> control_steps(const Schedule& schedule) {
  std::vector<const ControlStep*> steps(schedule.graph.eqns.size());
  for (const Step& step : schedule.steps) {
    const auto* control = std::get_if<ControlStep>(&step.work);
    if (control != nullptr && !control->whole) steps[static_cast<std::size_t>(step.number)] = control;
  }
  return steps;
}

// A program on the way to one that fits.
struct Version {
  std::unique_ptr<Executable> executable;
  std::vector<ValueId> origins;  // Of each value, that of the first version which it equals to the bit.
  bool is_reordered = false;

  const Graph& graph() const { return executable->graph(); }
  std::size_t num_eqns() const { return shoal::num_eqns(graph()); }
  std::size_t bytes() const { return arena_bytes() + executable->output_bytes(); }
  std::size_t arena_bytes() const {
    const auto& bytes = executable->memory_plan().arena_bytes;
    return std::accumulate(bytes.begin(), bytes.end(), std::size_t{0});
  }
  // The most bytes of arenas that fit into `room`, as blocks and beside the outputs; perhaps a few fewer.
  std::size_t arena_room(std::size_t room) const {
    const std::size_t left = room - std::min(room, executable->output_bytes());
    std::size_t bytes = left;
    while (bytes != 0 && HostAllocator::block_size(bytes) > left) bytes -= (bytes + 255) / 256;
    return bytes;
  }
};

// A graph, and the origins of its values.
struct Draft {
  Graph graph;
  std::vector<ValueId> origins;
};

// When the memory of each value is needed, by the plan.
class Lifetimes {
 public:
  // Values that are names of the same bytes.
  struct Content {
    std::size_t bytes = 0;            // In the arena. 0 for what lies elsewhere: it takes its memory anyway.
    std::int32_t last = -1;           // The step up to which it is there without further costs.
    std::vector<std::int32_t> steps;  // That make or use it, in order.
    std::vector<ValueId> values;
  };

  explicit Lifetimes(const Schedule& schedule)
      : graph_(schedule.graph),
        content_of_(graph_.values.size()),
        maker_(graph_.values.size(), -1),
        uses_(graph_.values.size()),
        contents_(graph_.values.size()) {
    const MemoryPlan& plan = schedule.plan;
    std::iota(content_of_.begin(), content_of_.end(), 0);
    const auto end = static_cast<std::int32_t>(graph_.eqns.size());
    for (std::int32_t step = 0; step < end; ++step) {
      const Eqn& eqn = eqn_at(step);
      const auto at = static_cast<std::size_t>(step);
      const bool is_renaming = !plan.runs[at] || plan.renames[at];
      // Values are made before they are used, so that those before this one have found their contents.
      if (is_renaming && !eqn.inputs.empty() && !eqn.outputs.empty()) {
        content_of_[slot(eqn.outputs[0])] = content_of_[slot(eqn.inputs[0])];
      }
      for (ValueId id : eqn.outputs) maker_[slot(id)] = step;
      for (ValueId id : eqn.inputs) uses_[slot(id)].push_back(step);
    }
    for (ValueId id : graph_.inputs) take(id, -1);
    for (std::int32_t step = 0; step < end; ++step) {
      for (ValueId id : eqn_at(step).inputs) take(id, step);
      for (ValueId id : eqn_at(step).outputs) take(id, step);
    }
    for (std::size_t id = 0; id < graph_.values.size(); ++id) {
      if (!plan.places[id].empty()) contents_[content_of_[id]].values.push_back(static_cast<ValueId>(id));
    }
    std::vector<bool> gives(graph_.inputs.size(), false);
    held_.resize(graph_.eqns.size());
    for (const MemoryPlan::Storage& storage : plan.storages) {
      if (storage.donor >= 0) gives[static_cast<std::size_t>(storage.donor)] = true;
      if (storage.kind != MemoryPlan::Kind::kArena) continue;
      for (std::int32_t step = storage.birth; step <= storage.death; ++step) {
        held_[static_cast<std::size_t>(step)] += storage.stride * static_cast<std::size_t>(storage.pieces);
      }
    }
    for (Content& content : contents_) measure(content, plan);
    for (std::size_t i = 0; i < graph_.inputs.size(); ++i) {
      if (!gives[i]) content(graph_.inputs[i]).last = end;
    }
    for (ValueId id : graph_.outputs) content(id).last = end;
  }

  const Graph& graph() const { return graph_; }
  const Eqn& eqn_at(std::int32_t step) const { return graph_.eqns[static_cast<std::size_t>(step)]; }
  std::int32_t maker(ValueId id) const { return maker_[slot(id)]; }
  const std::vector<std::int32_t>& uses(ValueId id) const { return uses_[slot(id)]; }
  std::size_t content_of(ValueId id) const { return content_of_[slot(id)]; }
  const std::vector<Content>& contents() const { return contents_; }
  const Content& content(ValueId id) const { return contents_[content_of_[slot(id)]]; }

  // The bytes of arenas that values take at each step.
  const std::vector<std::size_t>& held() const { return held_; }

 private:
  Content& content(ValueId id) { return contents_[content_of_[slot(id)]]; }

  void take(ValueId id, std::int32_t step) {
    Content& one = content(id);
    if (one.steps.empty() || one.steps.back() != step) one.steps.push_back(step);
    one.last = step;
  }

  static void measure(Content& content, const MemoryPlan& plan) {
    if (content.values.empty()) return;
    const std::int32_t number = plan.places[slot(content.values[0])][0].storage;
    const MemoryPlan::Storage& storage = plan.storages[static_cast<std::size_t>(number)];
    const auto is_there = [&](ValueId id) {
      return std::ranges::all_of(plan.places[slot(id)],
                                 [&](const MemoryPlan::Place& place) { return place.storage == number; });
    };
    if (storage.kind != MemoryPlan::Kind::kArena || !std::ranges::all_of(content.values, is_there)) return;
    content.bytes = storage.stride * static_cast<std::size_t>(storage.pieces);
  }

  const Graph& graph_;
  std::vector<std::size_t> content_of_;  // Of each value, by its first one.
  std::vector<std::int32_t> maker_;      // The step that makes it, or -1.
  std::vector<std::vector<std::int32_t>> uses_;
  std::vector<Content> contents_;
  std::vector<std::size_t> held_;
};

// The same on all devices.
double cost_of(const Graph& graph, const Eqn& eqn) {
  return work_with_bodies(graph, eqn) * static_cast<double>(graph.grid->size_of(graph.value(eqn.outputs[0]).varying));
}

// How one content is computed again.
struct Recipe {
  static constexpr std::int32_t kNoStep = -1;

  std::size_t content = 0;
  std::int32_t at = 0;                                   // Before this step.
  std::map<std::int32_t, std::set<ValueId>> steps = {};  // What is run again, and for which results.
  std::size_t gain = 0;                                  // Bytes that are not held any more,
  double cost = 0;                                       // and bytes that could be moved in the time it takes.
  std::size_t kept_bytes = 0;                            // Of contents that have to live longer for it.
  std::int32_t obstacle = kNoStep;                       // The step that may not run again.

  double value() const { return static_cast<double>(gain) / cost; }
};

// Frees memory at the step where most is held: of what is kept there only for later, the values that save most bytes
// for their costs are computed again where they are next used.
class Recomputation {
 public:
  explicit Recomputation(const Schedule& schedule) : Recomputation(schedule, schedule.plan.peak) {}
  // As if most were held at this step.
  Recomputation(const Schedule& schedule, std::int32_t peak)
      : schedule_(schedule),
        lives_(schedule),
        graph_(schedule.graph),
        peak_(peak),
        freed_at_(graph_.values.size(), -1),
        pinned_(graph_.values.size(), false) {}

  // For each content that could be computed again.
  std::vector<Recipe> all() const {
    std::vector<Recipe> recipes;
    for (std::size_t i = 0; i < lives_.contents().size(); ++i) {
      if (std::optional<Recipe> recipe = recipe_for(i)) recipes.push_back(std::move(*recipe));
    }
    return recipes;
  }

  // What it takes to compute each content again that is held now for later, or why that cannot be.
  std::vector<Repetition> prices() const {
    std::vector<Repetition> prices;
    for (std::size_t i = 0; i < lives_.contents().size(); ++i) {
      const Content& content = lives_.contents()[i];
      if (content.bytes == 0 || content.steps.front() > peak_ || content.steps.back() <= peak_) continue;
      Repetition& price = prices.emplace_back(Repetition{.value = static_cast<ValueId>(i)});
      Recipe recipe{.content = i, .at = *std::ranges::upper_bound(content.steps, peak_)};
      if (complete(recipe)) {
        price.eqns = recipe.steps.size();
        price.cost = recipe.cost;
        price.kept_bytes = recipe.kept_bytes;
      } else if (recipe.obstacle != Recipe::kNoStep) {
        price.obstacle = described(lives_.eqn_at(recipe.obstacle)) + " runs once";
      } else if (recipe.steps.size() > kMostEqns) {
        price.obstacle = fmt::format("it takes more than {} steps", kMostEqns);
      } else {
        price.obstacle = "an argument that is donated is gone then";
      }
    }
    return prices;
  }

  // The graphs in which one content is computed again before one use, of all there are: here, and in the body that
  // holds most at the peak. Operands of a step that are needed later count, too: where they are not kept, its results
  // may be written over them. So does what is not there at the peak, as the arena has gaps.
  static std::vector<Draft> all_of(const Schedule& schedule, const std::vector<ValueId>& origins) {
    std::vector<Draft> drafts;
    std::set<std::pair<std::size_t, std::int32_t>> known;  // Contents, and the steps before which they are made again.
    for (std::int32_t step = 0; step < static_cast<std::int32_t>(schedule.graph.eqns.size()); ++step) {
      const Recomputation at(schedule, step);
      for (std::size_t i = 0; i < at.lives_.contents().size(); ++i) {
        const std::optional<Recipe> recipe = at.recipe_for(i, true);
        if (!recipe || !known.emplace(i, recipe->at).second) continue;
        Recomputation alone(schedule, step);
        Draft& draft = drafts.emplace_back(Draft{.graph = schedule.graph, .origins = origins});
        alone.apply(*recipe, draft);
        alone.write(draft.graph);
      }
    }
    const Recomputation here(schedule);
    if (const std::optional<Inside> one = here.inside()) {
      for (Draft& body : all_of(*one->schedule, std::vector<ValueId>(one->schedule->graph.values.size()))) {
        drafts.push_back(here.with_body(one->body, std::move(body.graph), origins));
      }
    }
    return drafts;
  }

  // The graph with at least `excess` bytes less held at the peak, if there is so much; nothing if none can be freed.
  // If that is in a loop or branch, it is freed in its body or around it, where it costs less.
  std::optional<Draft> free(std::size_t excess, std::vector<ValueId> origins) {
    if (value_inside() > value_here()) return free_inside(excess, std::move(origins));
    return free_here(excess, std::move(origins));
  }

 private:
  using Content = Lifetimes::Content;

  double value_here() const {
    double most = 0;
    for (const Recipe& recipe : all()) most = std::max(most, recipe.value());
    return most;
  }

  // The body that holds most at the peak, if one runs then.
  struct Inside {
    std::size_t body;
    const Schedule* schedule;
    double trips;
  };
  std::optional<Inside> inside() const {
    const auto at = static_cast<std::size_t>(peak_);
    const ControlStep* const step = at < graph_.eqns.size() ? control_steps(schedule_)[at] : nullptr;
    if (step == nullptr) return std::nullopt;
    const auto largest = std::ranges::max_element(
        step->bodies, {}, [](const ControlStep::Body& body) { return body.schedule->plan.peak_bytes; });
    if (largest->schedule->graph.eqns.empty()) return std::nullopt;
    return Inside{.body = static_cast<std::size_t>(largest - step->bodies.begin()),
                  .schedule = largest->schedule.get(),
                  .trips = step->control.weight()};
  }

  double value_inside() const {
    const std::optional<Inside> one = inside();
    if (!one) return 0;
    const Recomputation body(*one->schedule);
    return std::max(body.value_here(), body.value_inside()) / one->trips;
  }

  std::optional<Draft> free_inside(std::size_t excess, std::vector<ValueId> origins) const {
    const Inside one = *inside();
    std::vector<ValueId> own(one.schedule->graph.values.size());
    std::optional<Draft> body = Recomputation(*one.schedule).free(excess, std::move(own));
    if (!body) return std::nullopt;
    return with_body(one.body, std::move(body->graph), std::move(origins));
  }

  // The graph with another body of so much a number at the peak.
  Draft with_body(std::size_t place, Graph body, std::vector<ValueId> origins) const {
    Draft result{.graph = graph_, .origins = std::move(origins)};
    std::size_t number = 0;
    map_bodies(result.graph.eqns[static_cast<std::size_t>(peak_)],
               [&](const Graph& old) { return number++ == place ? std::move(body) : old; });
    return result;
  }

  std::optional<Draft> free_here(std::size_t excess, std::vector<ValueId> origins) {
    std::vector<Recipe> recipes = all();
    // Of equals, that which is not needed for longest.
    std::ranges::stable_sort(recipes, [](const Recipe& a, const Recipe& b) {
      return a.value() != b.value() ? a.value() > b.value() : a.at > b.at;
    });
    Draft result{.graph = graph_, .origins = std::move(origins)};
    std::size_t freed = 0;
    for (const Recipe& candidate : recipes) {
      const double enough = recipes[0].value() / kMostWorse;
      if (freed >= excess || candidate.value() < enough) break;
      if (pinned_[candidate.content]) continue;
      // What was freed before may have to be computed again for this one, too.
      const std::optional<Recipe> recipe = recipe_for(candidate.content);
      if (!recipe || recipe->value() < enough) continue;
      apply(*recipe, result);
      freed += recipe->gain;
    }
    if (freed == 0) return std::nullopt;
    write(result.graph);
    return result;
  }

  // Puts what is computed again where it is needed.
  void write(Graph& graph) const {
    std::vector<Eqn> eqns;
    for (std::int32_t step = 0; step < static_cast<std::int32_t>(graph_.eqns.size()); ++step) {
      if (const auto again = again_.find(step); again != again_.end()) {
        std::ranges::copy(again->second, std::back_inserter(eqns));
      }
      eqns.push_back(lives_.eqn_at(step));
      if (step <= peak_) continue;
      for (ValueId& id : eqns.back().inputs) id = now(id);
    }
    graph.eqns = std::move(eqns);
    drop_unused(graph);
  }

  // What stands for a value after the peak.
  ValueId now(ValueId id) const {
    const auto found = replaced_.find(id);
    return found == replaced_.end() ? id : found->second;
  }

  bool is_used_later(ValueId id) const { return !lives_.uses(id).empty() && lives_.uses(id).back() > peak_; }

  // How a content that is held at the peak is computed again, if it can be; `if_used`: also if it is read there.
  std::optional<Recipe> recipe_for(std::size_t number, bool if_used = false) const {
    const Content& content = lives_.contents()[number];
    if (content.bytes == 0 || content.steps.front() >= peak_ || content.last <= peak_) return std::nullopt;
    if (freed_at_[number] >= 0) return std::nullopt;
    const auto next = std::ranges::upper_bound(content.steps, peak_);
    if (!if_used && *(next - 1) == peak_) return std::nullopt;
    Recipe recipe{.content = number, .at = *next};
    if (!complete(recipe) || recipe.kept_bytes >= content.bytes) return std::nullopt;
    recipe.gain = content.bytes - recipe.kept_bytes;
    return recipe;
  }

  // Adds the steps that make the content of a recipe, and what they cost; false if some of them cannot run again.
  bool complete(Recipe& recipe) const {
    std::set<std::size_t> kept;
    for (ValueId id : lives_.contents()[recipe.content].values) {
      if (is_used_later(id) && !add(recipe, id, kept)) return false;
    }
    for (std::size_t other : kept) recipe.kept_bytes += lives_.contents()[other].bytes;
    for (const auto& [step, results] : recipe.steps) recipe.cost += cost_of(graph_, wanted(step, results));
    return true;
  }

  Eqn wanted(std::int32_t step, const std::set<ValueId>& results) const {
    return reduced(lives_.eqn_at(step), [&](ValueId id) { return results.contains(id); });
  }

  // Adds what computes a value again; false if nothing can. `kept` are contents that have to live longer.
  bool add(Recipe& recipe, ValueId id, std::set<std::size_t>& kept) const {
    const std::int32_t step = lives_.maker(id);
    if (step < 0) return false;
    if (!is_repeatable(graph_, lives_.eqn_at(step))) {
      recipe.obstacle = step;
      return false;
    }
    std::set<ValueId>& results = recipe.steps[step];
    if (!results.insert(id).second) return true;
    if (recipe.steps.size() > kMostEqns) return false;
    for (ValueId input : wanted(step, results).inputs) {
      const std::size_t number = lives_.content_of(input);
      if (number != recipe.content && is_there(input, recipe.at)) continue;
      const Content& content = lives_.contents()[number];
      const bool is_small =
          content.bytes != 0 && content.bytes * kMuchSmaller <= lives_.contents()[recipe.content].bytes;
      if (number != recipe.content && is_small && freed_at_[number] < 0) {
        kept.insert(number);
      } else if (!add(recipe, input, kept)) {
        return false;
      }
    }
    return true;
  }

  // Whether a value can be read before a later step without being kept for that.
  bool is_there(ValueId id, std::int32_t at) const {
    const std::size_t number = lives_.content_of(id);
    if (lives_.contents()[number].last < at) return false;
    return freed_at_[number] < 0 || (freed_at_[number] <= at && replaced_.contains(id));
  }

  void apply(const Recipe& recipe, Draft& result) {
    std::map<ValueId, ValueId> made;
    for (const auto& [step, results] : recipe.steps) {
      Eqn eqn = wanted(step, results);
      for (ValueId& id : eqn.inputs) {
        if (const auto found = made.find(id); found != made.end()) {
          id = found->second;
        } else {
          pinned_[lives_.content_of(id)] = true;
          id = now(id);
        }
      }
      for (ValueId& id : eqn.outputs) {
        result.graph.values.push_back(graph_.value(id));
        result.origins.push_back(result.origins[slot(id)]);
        const auto copy = static_cast<ValueId>(result.graph.values.size() - 1);
        made[id] = copy;
        id = copy;
      }
      again_[recipe.at].push_back(std::move(eqn));
    }
    freed_at_[recipe.content] = recipe.at;
    for (ValueId id : lives_.contents()[recipe.content].values) {
      if (is_used_later(id)) replaced_[id] = made.at(id);
    }
  }

  const Schedule& schedule_;
  Lifetimes lives_;
  const Graph& graph_;
  std::int32_t peak_;
  std::vector<std::int32_t> freed_at_;  // Of contents: the step before which it is computed again, or -1.
  std::vector<bool> pinned_;            // Of contents: something that is computed again needs it.
  std::map<ValueId, ValueId> replaced_;
  std::map<std::int32_t, std::vector<Eqn>> again_;  // By the step that they come before.
};

// Uses room that is left over: what is there twice is kept from the first to the second, where nothing else needs that
// memory. Those whose computation costs most are the first, and at most `most` are kept. Nothing if there are none.
std::optional<Draft> kept_again(const Version& version, std::size_t room, std::size_t& most) {
  const Lifetimes lives(version.executable->schedule());
  const Graph& graph = lives.graph();
  struct Pair {
    ValueId first, second;
    double cost;
  };
  std::vector<Pair> pairs;
  std::map<ValueId, ValueId> latest;  // By origin.
  for (const Eqn& eqn : graph.eqns) {
    if (!is_repeatable(graph, eqn)) continue;
    for (ValueId id : eqn.outputs) {
      const auto [found, is_new] = latest.try_emplace(version.origins[slot(id)], id);
      if (is_new) continue;
      const double cost = cost_of(graph, eqn) / static_cast<double>(eqn.outputs.size());
      pairs.push_back({.first = std::exchange(found->second, id), .second = id, .cost = cost});
    }
  }
  // Bytes at a time, and steps: what keeping takes.
  const auto distance = [&](const Pair& pair) {
    const std::int32_t last = lives.content(pair.first).steps.back();
    return static_cast<double>(std::max(lives.maker(pair.second) - last, 1)) *
           static_cast<double>(std::max<std::size_t>(lives.content(pair.first).bytes, 1));
  };
  std::ranges::stable_sort(pairs,
                           [&](const Pair& a, const Pair& b) { return a.cost * distance(b) > b.cost * distance(a); });
  std::vector<std::size_t> held = lives.held();
  // What the arena has beside that: gaps, and scratch memory.
  const std::size_t most_held = *std::ranges::max_element(held);
  const std::size_t fixed = version.arena_bytes() - std::min(version.arena_bytes(), most_held);
  const std::size_t arena_room = version.arena_room(room);
  std::map<ValueId, ValueId> replaced;
  for (const Pair& pair : pairs) {
    if (replaced.size() == most) break;
    const Lifetimes::Content& content = lives.content(pair.first);
    // What lies elsewhere might have to be in the arena then.
    if (content.bytes == 0 && content.last < lives.maker(pair.second)) continue;
    const auto first = static_cast<std::size_t>(content.steps.back());
    const auto last = static_cast<std::size_t>(lives.maker(pair.second));
    bool fits = true;
    for (std::size_t step = first; step < last; ++step) fits = fits && held[step] + content.bytes + fixed <= arena_room;
    if (!fits) continue;
    for (std::size_t step = first; step < last; ++step) held[step] += content.bytes;
    replaced[pair.second] = pair.first;
  }
  most = replaced.size();
  if (replaced.empty()) return std::nullopt;
  Draft result{.graph = graph, .origins = version.origins};
  for (Eqn& eqn : result.graph.eqns) {
    for (ValueId& id : eqn.inputs) {
      for (auto found = replaced.find(id); found != replaced.end(); found = replaced.find(id)) id = found->second;
    }
  }
  drop_unused(result.graph);
  return result;
}

// The equations in an order that holds little at a time: of those that could be next, always the one that frees most.
// Collectives that exchange something, and effects, keep their order. That is list scheduling. Bodies alike.
Graph reordered(const Schedule& schedule) {
  const Lifetimes lives(schedule);
  const Graph& graph = schedule.graph;
  const std::size_t count = graph.eqns.size();
  std::vector<std::vector<std::size_t>> after(count);
  std::vector<std::size_t> missing(count, 0);
  std::vector<std::size_t> left(graph.values.size(), 0);  // Of contents: the steps that are still to use it.
  for (std::size_t content = 0; content < left.size(); ++content)
    left[content] = lives.contents()[content].steps.size();
  std::size_t last_ordered = count;
  for (std::size_t i = 0; i < count; ++i) {
    const auto needs = [&](std::size_t source) {
      after[source].push_back(i);
      ++missing[i];
    };
    for (ValueId id : graph.eqns[i].inputs) {
      if (lives.maker(id) >= 0) needs(static_cast<std::size_t>(lives.maker(id)));
    }
    if (is_repeatable(graph, graph.eqns[i])) continue;
    if (last_ordered != count) needs(last_ordered);
    last_ordered = i;
  }
  // The contents that an equation makes or uses, and how many more bytes are held after it.
  std::vector<std::set<std::size_t>> touched(count);
  std::vector<bool> is_made(graph.values.size(), false);
  for (std::size_t i = 0; i < count; ++i) {
    for (const auto* ids : {&graph.eqns[i].inputs, &graph.eqns[i].outputs}) {
      for (ValueId id : *ids) touched[i].insert(lives.content_of(id));
    }
  }
  const auto growth = [&](std::size_t i) {
    std::int64_t bytes = 0;
    for (std::size_t content : touched[i]) {
      const auto size = static_cast<std::int64_t>(lives.contents()[content].bytes);
      if (!is_made[content]) bytes += size;
      if (left[content] == 1) bytes -= size;
    }
    return bytes;
  };
  std::set<std::size_t> ready;
  for (std::size_t i = 0; i < count; ++i) {
    if (missing[i] == 0) ready.insert(i);
  }
  const std::vector<const ControlStep*> control = control_steps(schedule);
  Graph result = graph;
  result.eqns.clear();
  while (!ready.empty()) {
    const auto next = std::ranges::min_element(ready, {}, growth);
    const std::size_t i = *next;
    ready.erase(next);
    for (std::size_t content : touched[i]) {
      is_made[content] = true;
      --left[content];
    }
    for (std::size_t follower : after[i]) {
      if (--missing[follower] == 0) ready.insert(follower);
    }
    result.eqns.push_back(graph.eqns[i]);
    if (control[i] == nullptr) continue;
    std::size_t body = 0;
    map_bodies(result.eqns.back(), [&](const Graph&) { return reordered(*control[i]->bodies[body++].schedule); });
  }
  return result;
}

// What a program computes, with what it computes again.
double cost_of(const Graph& graph) {
  double cost = 0;
  for (const Eqn& eqn : graph.eqns) {
    if (!eqn.outputs.empty()) cost += cost_of(graph, eqn);
  }
  return cost;
}

// Which values a program makes, in order: programs for which it is the same are alike.
std::string signature(const Version& version) {
  std::string text;
  for (const Eqn& eqn : version.graph().eqns) {
    for (ValueId id : eqn.outputs) text += std::to_string(version.origins[slot(id)]) + ' ';
    if (eqn.op->op_class != OpClass::kControl) continue;
    for (const Graph* body : bodies_of(eqn)) text += to_text(*body);
  }
  return text;
}

// Of programs that are made of `starts` by computing one value again after the other, that which fits and costs
// least, if it costs less than `most`; if none fits, that which takes least. The search goes on from the cheapest one
// that it knows, as Dijkstra's does, and ends when it has made kMostVersions.
std::optional<Version> cheapest(std::vector<Version> starts, double most, FunctionRef<bool(const Version&)> fits,
                                FunctionRef<Version(Draft)> plan) {
  struct Known {
    double cost;
    std::size_t number;
  };
  const auto is_dearer = [](const Known& a, const Known& b) {
    return a.cost != b.cost ? a.cost > b.cost : a.number > b.number;
  };
  std::priority_queue<Known, std::vector<Known>, decltype(is_dearer)> open(is_dearer);
  std::vector<std::optional<Version>> versions;
  std::set<std::string> signatures;
  const auto know = [&](Version version) {
    if (!signatures.insert(signature(version)).second) return;
    open.push({.cost = cost_of(version.graph()), .number = versions.size()});
    versions.emplace_back(std::move(version));
  };
  for (Version& version : starts) know(std::move(version));
  std::optional<Version> least;
  while (!open.empty() && open.top().cost < most && versions.size() < kMostVersions) {
    const std::size_t number = open.top().number;
    open.pop();
    Version version = *std::exchange(versions[number], std::nullopt);
    if (fits(version)) return version;
    for (Draft& draft : Recomputation::all_of(version.executable->schedule(), version.origins)) {
      Version next = plan(std::move(draft));
      next.is_reordered = version.is_reordered;
      know(std::move(next));
    }
    if (!least || version.bytes() < least->bytes()) least = std::move(version);
  }
  return least;
}

}  // namespace

std::vector<Repetition> repetitions(const Schedule& schedule) { return Recomputation(schedule).prices(); }

LeanExecutable rematerialize(std::unique_ptr<Executable> executable, std::size_t room,
                             FunctionRef<std::unique_ptr<Executable>(Graph)> make) {
  Version best{.executable = std::move(executable), .origins = {}};
  best.origins.resize(best.graph().values.size());
  std::iota(best.origins.begin(), best.origins.end(), 0);
  const std::size_t eqns = best.num_eqns();
  std::size_t planned = 0;
  const auto plan = [&](Draft draft) {
    planned += num_eqns(draft.graph);
    return Version{.executable = make(std::move(draft.graph)), .origins = std::move(draft.origins)};
  };
  const auto fits = [&](const Version& version) { return version.executable->launch_bytes() <= room; };
  const auto takes_less = [](const Version& a, const Version& b) { return a.bytes() < b.bytes(); };
  std::vector<Draft> starts = {{.graph = best.graph(), .origins = best.origins},
                               {.graph = reordered(best.executable->schedule()), .origins = best.origins}};
  Version other = plan(starts[1]);
  other.is_reordered = true;
  if (takes_less(other, best)) std::swap(best, other);
  bool is_best = true;  // The last one.
  for (int failures = 0; !fits(best) && failures < kMostFailures && planned < kMostPlanned;) {
    const Version& last = is_best ? best : other;
    const std::size_t arena_room = last.arena_room(room);
    std::optional<Draft> draft = Recomputation(last.executable->schedule())
                                     .free(last.arena_bytes() - std::min(last.arena_bytes(), arena_room), last.origins);
    if (!draft) break;
    Version next = plan(std::move(*draft));
    next.is_reordered = last.is_reordered;
    other = std::move(next);
    is_best = takes_less(other, best);
    failures = is_best ? 0 : failures + 1;
    if (is_best) std::swap(best, other);
  }
  for (std::size_t most = best.num_eqns(); fits(best) && most != 0 && planned < kMostPlanned;) {
    std::optional<Draft> draft = kept_again(best, room, most);
    if (!draft) break;
    other = plan(std::move(*draft));
    other.is_reordered = best.is_reordered;
    if (fits(other)) {
      best = std::move(other);
    } else {
      most /= 2;
    }
  }
  if (eqns <= kFewEqns && (!fits(best) || best.num_eqns() != eqns)) {
    const double most = fits(best) ? cost_of(best.graph()) : std::numeric_limits<double>::infinity();
    std::vector<Version> made;
    for (Draft& start : starts) made.push_back(plan(std::move(start)));
    made[1].is_reordered = true;
    std::optional<Version> found = cheapest(std::move(made), most, fits, plan);
    if (found && (fits(best) ? fits(*found) : takes_less(*found, best))) best = std::move(*found);
  }
  const std::size_t recomputed = best.num_eqns() - std::min(eqns, best.num_eqns());
  return {.executable = std::move(best.executable), .is_reordered = best.is_reordered, .recomputed = recomputed};
}

}  // namespace shoal
