#include "backend/cpu/fuse.h"

#include <algorithm>
#include <boost/container/flat_map.hpp>
#include <boost/container/flat_set.hpp>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <unordered_map>
#include <utility>

#include "backend/cpu/group_structure.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/loops/loop_shape.h"
#include "backend/cpu/loops/lower.h"
#include "backend/cpu/merged_nodes.h"
#include "backend/cpu/moves/item_kernels.h"
#include "backend/cpu/moves/move_kernels.h"
#include "backend/cpu/products/fused_product.h"
#include "base/check.h"
#include "base/sort_unique.h"
#include "ops/builder.h"
#include "ops/elementwise.h"
#include "ops/eqn_cost.h"
#include "ops/table.h"

namespace shoal::cpu {
namespace {

// Larger groups gain little, and take long to compile.
constexpr std::size_t kMostEqns = 64;
// What is read waits in memory for the last of it: sums of many products are made in pieces.
constexpr std::size_t kMostOperands = 12;
// A loop over more values is too long for several vectors to be computed side by side: it still takes in what is short,
// which would else be read and written, but not what is long itself, nor reductions, for which rows are walked again.
constexpr std::size_t kMostValuesOfShortLoops = 24;
constexpr std::size_t kMostNodesOfShortOnes = 16;

// The group with the views, constants and positions that it reads through, in order.
std::vector<const Eqn*> with_views(const Graph& graph, const std::vector<const Eqn*>& producers,
                                   const std::vector<std::size_t>& group) {
  boost::container::flat_set<const Eqn*> all;  // Equations lie in one array, so that their addresses are in order.
  const auto add = [&](auto&& self, ValueId id) -> void {
    const Eqn* producer = producers[slot(id)];
    if (producer == nullptr) return;
    const bool is_read_through = is_view(graph, *producer) || is_known(*producer);
    if (!is_read_through || !all.insert(producer).second) return;
    for (ValueId input : producer->inputs) self(self, input);
  };
  for (std::size_t i : group) {
    all.insert(&graph.eqns[i]);
    for (ValueId id : graph.eqns[i].inputs) add(add, id);
  }
  return {all.begin(), all.end()};
}

// What the equations need and do not make, each once, in the order of their first uses.
std::vector<ValueId> operands_of(const std::vector<const Eqn*>& eqns) {
  boost::container::flat_set<ValueId> known;
  for (const Eqn* eqn : eqns) known.insert(eqn->outputs.begin(), eqn->outputs.end());
  std::vector<ValueId> operands;
  for (const Eqn* eqn : eqns) {
    for (ValueId id : eqn->inputs) {
      if (known.insert(id).second) operands.push_back(id);
    }
  }
  return operands;
}

// A graph of the given equations, with their operands as inputs and `results` as outputs.
Graph subgraph(const Graph& graph, const std::vector<const Eqn*>& eqns, const std::vector<ValueId>& results) {
  Graph body;
  body.name = "fusion";
  std::unordered_map<ValueId, ValueId> renamed;
  const auto copy_value = [&](ValueId id) {
    Value value;
    value.type = graph.type(id);
    body.values.push_back(std::move(value));
    return renamed[id] = static_cast<ValueId>(body.values.size() - 1);
  };
  for (ValueId id : operands_of(eqns)) body.inputs.push_back(copy_value(id));
  for (const Eqn* eqn : eqns) {
    Eqn copy = *eqn;
    for (ValueId& id : copy.inputs) id = renamed.at(id);
    for (ValueId& id : copy.outputs) id = copy_value(id);
    body.eqns.push_back(std::move(copy));
  }
  for (ValueId id : results) body.outputs.push_back(renamed.at(id));
  return body;
}

// The equation that computes what those give, by a body of them, where the last one stands.
Eqn fusion_of(const std::vector<const Eqn*>& eqns, const std::vector<ValueId>& results, GraphPtr body) {
  return {.op = &op_named("fusion"),
          .attrs = {{"body", GraphAttr{std::move(body)}}},
          .inputs = operands_of(eqns),
          .outputs = results,
          .where = eqns.back()->where};
}

// The bodies of fusions: one for all that are equal.
class Bodies {
 public:
  struct Body {
    GraphPtr graph;
    std::optional<bool> follows_product = {};
  };

  // The graph must outlive this, and stay as it is.
  Bodies(const Graph& graph, GroupStructures& structures) : graph_(graph), structures_(structures) {}

  Body& of(const std::vector<const Eqn*>& eqns, const std::vector<ValueId>& results) {
    const auto [found, is_new] = bodies_.try_emplace(structures_.of(eqns, results));
    if (is_new) found->second.graph = std::make_shared<const Graph>(subgraph(graph_, eqns, results));
    return found->second;
  }

 private:
  const Graph& graph_;
  GroupStructures& structures_;
  GroupStructures::Map<Body> bodies_;
};

// What it means for memory that something is computed later than it could be.
class Waiting {
 public:
  Waiting(const Graph& graph, const std::vector<const Eqn*>& producers)
      : graph_(graph), producers_(producers), last_use_(graph.values.size(), -1), work_before_(graph.eqns.size() + 1) {
    for (std::size_t i = 0; i < graph.eqns.size(); ++i) {
      const Eqn& eqn = graph.eqns[i];
      const bool is_free = is_view(graph, eqn) || is_known(eqn);
      work_before_[i + 1] = work_before_[i] + (is_free ? 0U : 1U);
      if (is_free) continue;
      for (const ValueId id : eqn.inputs) last_use_[slot(source_of(id))] = static_cast<std::ptrdiff_t>(i);
    }
    // These are there anyway.
    const auto stays = static_cast<std::ptrdiff_t>(graph.eqns.size());
    for (const ValueId id : graph.inputs) last_use_[slot(id)] = stays;
    for (const ValueId id : graph.outputs) last_use_[slot(source_of(id))] = stays;
  }

  // Whether more is held while the members of one node, in order, wait for what stands at `end`, which is put together
  // with them: what they read, which would be gone, for what they make. `others` of the equations between are part of
  // that, too.
  bool costs_memory(const std::vector<std::size_t>& members, std::size_t end, std::size_t others) const {
    const std::size_t from = members.back();
    if (from >= end || work_before_[end] - work_before_[from + 1] <= others) return false;
    std::set<ValueId> read;
    std::set<ValueId> made;
    for (const std::size_t i : members) {
      for (const ValueId id : graph_.eqns[i].inputs) read.insert(source_of(id));
      made.insert(graph_.eqns[i].outputs.begin(), graph_.eqns[i].outputs.end());
    }
    double waiting = 0;
    double saved = 0;
    for (const ValueId id : read) {
      const Eqn* producer = producers_[slot(id)];
      const bool is_free = producer != nullptr && is_known(*producer);
      if (!is_free && !made.contains(id) && is_gone_after(id, from)) waiting += bytes_of(graph_.type(id));
    }
    for (const ValueId id : made) {
      if (!is_gone_after(id, from)) saved += bytes_of(graph_.type(id));
    }
    return waiting > saved;
  }

 private:
  ValueId source_of(ValueId id) const { return seen_through(graph_, producers_, id).source; }
  bool is_gone_after(ValueId id, std::size_t i) const { return last_use_[slot(id)] <= static_cast<std::ptrdiff_t>(i); }

  const Graph& graph_;
  const std::vector<const Eqn*>& producers_;
  std::vector<std::ptrdiff_t> last_use_;  // Of each value, views of it being seen through.
  std::vector<std::size_t> work_before_;  // How many equations before each one compute something.
};

// The graph with equations put into groups. A node is a group, or an equation by itself; nodes are numbered by an
// equation in them.
class Grouping {
 public:
  Grouping(const Graph& graph, Backend::FusionGoal goal)
      : graph_(graph),
        producers_(producers_of(graph)),
        structures_(graph, producers_),
        nodes_(needs_of(graph, producers_)) {
    if (goal == Backend::FusionGoal::kMemory) waiting_.emplace(graph, producers_);
  }

  void run() {
    for (std::size_t i = 0; i < graph_.eqns.size(); ++i) {
      if (is_loop_op(graph_, graph_.eqns[i])) join(i);
    }
  }

  // The members of each group, in order.
  std::vector<std::vector<std::size_t>> groups() {
    std::vector<std::vector<std::size_t>> found;
    for (std::size_t i = 0; i < graph_.eqns.size(); ++i) {
      if (nodes_.node_of(i) != i || !is_loop_op(graph_, graph_.eqns[i])) continue;
      const std::vector<std::size_t>& members = nodes_.members(i);
      if (can_be_stored(members)) {
        found.push_back(members);
        continue;
      }
      for (std::size_t member : members) {
        if (can_be_stored({member})) found.push_back({member});
      }
    }
    return found;
  }

  const std::vector<const Eqn*>& producers() const { return producers_; }
  // If little memory is the goal.
  const std::optional<Waiting>& waiting() const { return waiting_; }
  GroupStructures& structures() { return structures_; }

 private:
  // The equations that each one needs, views being seen through.
  static MergedNodes::Needs needs_of(const Graph& graph, const std::vector<const Eqn*>& producers) {
    MergedNodes::Needs needs(graph.eqns.size());
    std::optional<std::size_t> last_ordered;
    for (std::size_t i = 0; i < graph.eqns.size(); ++i) {
      const Eqn& eqn = graph.eqns[i];
      auto& sources = needs[i];
      const bool is_read_through = is_loop_op(graph, eqn);
      for (ValueId id : eqn.inputs) {
        const Eqn* producer = producers[slot(id)];
        if (is_read_through && producer != nullptr) {
          producer = producers[slot(seen_through(graph, producers, id).source)];
        }
        if (producer != nullptr) sources.push_back(static_cast<std::size_t>(producer - graph.eqns.data()));
      }
      // What others see happens in the order of the program.
      if (eqn.op->op_class != OpClass::kCompute) {
        if (last_ordered) sources.push_back(*last_ordered);
        last_ordered = i;
      }
      sort_unique(sources);
    }
    return needs;
  }

  // Puts equation i into the group it reads most bytes of, and those it reads fewer of into the same, as far as one
  // loop computes them all.
  void join(std::size_t i) {
    boost::container::flat_map<std::size_t, std::size_t> bytes;  // Read from each group.
    for (std::size_t source : nodes_.needs()[i]) {
      const Eqn& producer = graph_.eqns[source];
      if (!is_loop_op(graph_, producer)) continue;
      const Type& type = graph_.type(producer.outputs[0]);
      bytes[nodes_.node_of(source)] += static_cast<std::size_t>(num_elements(type.shape)) * size_of(type.dtype);
    }
    std::vector<std::pair<std::size_t, std::size_t>> order;  // Bytes and node.
    for (const auto& [node, read] : bytes) order.emplace_back(read, node);
    std::ranges::sort(order, [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first > b.first : a.second < b.second;
    });
    for (const auto& entry : order) merge(nodes_.node_of(entry.second), nodes_.node_of(i));
  }

  void merge(std::size_t a, std::size_t b) {
    if (a == b) return;
    std::vector<std::size_t> all = nodes_.members(a);
    all.insert(all.end(), nodes_.members(b).begin(), nodes_.members(b).end());
    std::ranges::sort(all);
    if (all.size() > kMostEqns || !alike(all) || !may_grow_to(all, a, b) || makes_wait(a, b)) return;
    if (is_one_loop(all)) nodes_.merge(a, b);
  }

  bool may_grow_to(const std::vector<std::size_t>& all, std::size_t a, std::size_t b) const {
    boost::container::flat_set<ValueId> values;
    for (std::size_t i : all) values.insert(graph_.eqns[i].inputs.begin(), graph_.eqns[i].inputs.end());
    if (values.size() <= kMostValuesOfShortLoops) return true;
    if (std::ranges::any_of(all, [&](std::size_t i) { return graph_.eqns[i].op->reduces.has_value(); })) return false;
    return is_short(a) || is_short(b);
  }

  bool makes_wait(std::size_t a, std::size_t b) const {
    if (!waiting_) return false;
    const auto& [first, last] =
        std::minmax(nodes_.members(a), nodes_.members(b),
                    [](const auto& one, const auto& other) { return one.back() < other.back(); });
    const auto others = std::ranges::count_if(last, [&](std::size_t i) { return i > first.back(); }) - 1;
    return waiting_->costs_memory(first, last.back(), static_cast<std::size_t>(others));
  }

  // Whether what a node computes of an element is little.
  bool is_short(std::size_t node) const {
    std::size_t count = 0;
    for (std::size_t i : nodes_.members(node)) {
      const Eqn& eqn = graph_.eqns[i];
      std::vector<Dtype> dtypes;
      for (ValueId id : eqn.inputs) dtypes.push_back(graph_.type(id).dtype);
      count += body_of(*eqn.op, dtypes, graph_.type(eqn.outputs[0]).dtype).nodes.size();
      if (count > kMostNodesOfShortOnes) return false;
    }
    return true;
  }

  // Shards are computed one by one, so all must have the same.
  bool alike(const std::vector<std::size_t>& eqns) const {
    const Value& first = graph_.value(graph_.eqns[eqns[0]].outputs[0]);
    return std::ranges::all_of(eqns, [&](std::size_t i) {
      const Value& value = graph_.value(graph_.eqns[i].outputs[0]);
      return value.varying == first.varying && value.type.memory == first.type.memory;
    });
  }

  // Whether equations are one loop, perhaps one whose results need not be stored.
  bool is_one_loop(const std::vector<std::size_t>& eqns) { return found_out(eqns).is_one_loop; }
  bool can_be_stored(const std::vector<std::size_t>& eqns) {
    LoopFacts& facts = found_out(eqns);
    if (!facts.can_be_stored) facts.can_be_stored = facts.is_one_loop && is_loop_with_results(eqns);
    return *facts.can_be_stored;
  }

  struct LoopFacts {
    bool is_one_loop = false;
    std::optional<bool> can_be_stored;
  };

  // Groups of equal structure are looked at once.
  LoopFacts& found_out(const std::vector<std::size_t>& eqns) {
    const auto [found, is_new] = facts_.try_emplace(structures_.of(eqns));
    if (is_new) found->second = look_at(eqns);
    return found->second;
  }

  LoopFacts look_at(const std::vector<std::size_t>& eqns) const {
    std::vector<const Eqn*> pointers;
    boost::container::flat_set<ValueId> operands;
    boost::container::flat_set<ValueId> made;
    for (std::size_t i : eqns) {
      pointers.push_back(&graph_.eqns[i]);
      made.insert(graph_.eqns[i].outputs[0]);
      for (ValueId id : graph_.eqns[i].inputs) {
        const Eqn* producer = producers_[slot(id)];
        if (!made.contains(id) && (producer == nullptr || !is_constant(*producer))) operands.insert(id);
      }
    }
    // Even if all that is made is stored, there are not too many arrays.
    if (operands.size() > kMostOperands || operands.size() + eqns.size() > kMostArrays) return {};
    const std::optional<LoopShape> shape = shape_of_loop(graph_, producers_, pointers);
    if (!shape) return {};
    // Columns of several dimensions must be walked as one by all operands.
    if (shape->columns < 2) return {.is_one_loop = true, .can_be_stored = {}};
    const bool is_loop = is_loop_with_results(eqns);
    return {.is_one_loop = is_loop, .can_be_stored = is_loop};
  }

  // Whether there is a loop even if all that the equations make is stored.
  bool is_loop_with_results(const std::vector<std::size_t>& eqns) const {
    std::vector<ValueId> results;
    for (std::size_t i : eqns) results.push_back(graph_.eqns[i].outputs[0]);
    const std::optional<LoopPlan> plan = lower(subgraph(graph_, with_views(graph_, producers_, eqns), results));
    return plan && plan->operands.size() <= kMostArrays;
  }

  const Graph& graph_;
  std::vector<const Eqn*> producers_;
  std::optional<Waiting> waiting_;
  GroupStructures structures_;
  GroupStructures::Map<LoopFacts> facts_;
  MergedNodes nodes_;
};

// Equations in an order in which each follows what it needs, as near to the given one as that allows; collectives and
// effects keep theirs.
std::vector<Eqn> ordered(const Graph& graph, std::vector<std::pair<std::size_t, Eqn>> eqns) {
  std::vector<std::size_t> maker(graph.values.size(), eqns.size());
  std::ranges::sort(eqns, {}, [](const auto& entry) { return entry.first; });
  for (std::size_t i = 0; i < eqns.size(); ++i) {
    for (ValueId id : eqns[i].second.outputs) maker[slot(id)] = i;
  }
  std::vector<std::vector<std::size_t>> after(eqns.size());
  std::vector<std::size_t> missing(eqns.size(), 0);
  std::size_t last_ordered = eqns.size();
  for (std::size_t i = 0; i < eqns.size(); ++i) {
    const auto needs = [&](std::size_t source) {
      after[source].push_back(i);
      ++missing[i];
    };
    for (ValueId id : eqns[i].second.inputs) {
      if (maker[slot(id)] != eqns.size()) needs(maker[slot(id)]);
    }
    if (eqns[i].second.op->op_class != OpClass::kCompute) {
      if (last_ordered != eqns.size()) needs(last_ordered);
      last_ordered = i;
    }
  }
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
  for (std::size_t i = 0; i < eqns.size(); ++i) {
    if (missing[i] == 0) ready.push(i);
  }
  std::vector<Eqn> result;
  result.reserve(eqns.size());
  while (!ready.empty()) {
    const std::size_t next = ready.top();
    ready.pop();
    for (std::size_t i : after[next]) {
      if (--missing[i] == 0) ready.push(i);
    }
    result.push_back(std::move(eqns[next].second));
  }
  SHOAL_CHECK(result.size() == eqns.size(), "groups of equations need each other in a circle: " + graph.name);
  return result;
}

// The product whose elements a group goes on with, if nobody else needs it, and the loop can follow it tile by tile.
// What it is made of is there until the loop ends: with little memory as the goal it is alone if others could be gone
// then, or if there are several results, which a loop on its own writes over what it reads.
const Eqn* product_before(const Graph& graph, const std::vector<const Eqn*>& producers, const std::vector<int>& uses,
                          const std::vector<std::size_t>& group, const std::vector<const Eqn*>& body,
                          const std::vector<ValueId>& results, const std::optional<Waiting>& waiting, Bodies& bodies) {
  if (waiting && results.size() > 1) return nullptr;
  const Value& made = graph.value(graph.eqns[group[0]].outputs[0]);
  for (std::size_t i : group) {
    for (ValueId id : graph.eqns[i].inputs) {
      const Eqn* product = producers[slot(id)];
      if (product == nullptr || !is_product(*product) || product->inputs[0] == product->inputs[1]) continue;
      const Value& value = graph.value(id);
      if (value.varying != made.varying || value.type.memory != made.type.memory) continue;
      // Views of it may be read by others, too; and it may not need what the body makes.
      std::ptrdiff_t own_uses = 0;
      bool needs_body = false;
      for (const Eqn* eqn : body) {
        if (!is_view(graph, *eqn)) own_uses += std::ranges::count(eqn->inputs, id);
        for (ValueId operand : product->inputs)
          needs_body = needs_body || std::ranges::count(eqn->outputs, operand) != 0;
      }
      if (own_uses != uses[slot(id)] || needs_body) continue;
      const auto number = static_cast<std::size_t>(product - graph.eqns.data());
      const auto others = std::ranges::count_if(group, [&](std::size_t member) { return member > number; }) - 1;
      if (waiting && waiting->costs_memory({number}, group.back(), static_cast<std::size_t>(others))) continue;
      std::vector<const Eqn*> all = {product};
      all.insert(all.end(), body.begin(), body.end());
      Bodies::Body& joint = bodies.of(all, results);
      if (!joint.follows_product) joint.follows_product = plan_after_product(*joint.graph).has_value();
      if (*joint.follows_product) return product;
    }
  }
  return nullptr;
}

// The equations, with those at some places replaced, without those that are taken.
std::vector<Eqn> with_replaced(const std::vector<Eqn>& eqns, std::vector<std::pair<std::size_t, Eqn>> made,
                               const std::set<const Eqn*>& taken) {
  std::vector<Eqn> result = eqns;
  for (auto& [place, eqn] : made) result[place] = std::move(eqn);
  std::size_t next = 0;
  std::erase_if(result, [&](const Eqn&) { return taken.contains(&eqns[next++]); });
  return result;
}

// The kind of reduction that combining two elements by this op is.
std::optional<ReduceKind> kind_of_combining(const OpDef& op) {
  for (const ReduceKind kind : {ReduceKind::kSum, ReduceKind::kProd, ReduceKind::kMax, ReduceKind::kMin}) {
    if (&op == &combining_op(kind)) return kind;
  }
  return {};
}

// The equation that combines an array with what one before it gives, as the op that does both where the array lies:
// what nothing is added to need not be read.
class Combiner {
 public:
  explicit Combiner(const Graph& graph) : graph_(graph), producers_(producers_of(graph)), uses_(count_uses(graph)) {}

  // The equations anew, if any was combined.
  std::optional<std::vector<Eqn>> run() {
    std::vector<std::pair<std::size_t, Eqn>> made;
    for (std::size_t i = 0; i < graph_.eqns.size(); ++i) {
      const Eqn& eqn = graph_.eqns[i];
      const std::optional<ReduceKind> kind = kind_of_combining(*eqn.op);
      if (!kind) continue;
      for (const std::size_t side : {1U, 0U}) {
        const Eqn* reduction = producers_[slot(eqn.inputs[side])];
        const ValueId array = eqn.inputs[1 - side];
        if (reduction == nullptr || !fits(*reduction, *kind, array, eqn.outputs[0])) continue;
        made.emplace_back(i, combined(*reduction, array, eqn));
        taken_.insert(reduction);
        break;
      }
    }
    if (made.empty()) return std::nullopt;
    return with_replaced(graph_.eqns, std::move(made), taken_);
  }

 private:
  static Eqn combined(const Eqn& reduction, ValueId array, const Eqn& combining) {
    Eqn made = combining;
    made.op = &op_named(reduction.op->combined);
    made.attrs = {};
    for (const AttrFact& fact : made.op->attributes) {
      if (const Attr* attr = reduction.attrs.find(fact.name)) made.attrs.set(std::string(fact.name), *attr);
    }
    made.inputs = {array};
    made.inputs.insert(made.inputs.end(), reduction.inputs.begin(), reduction.inputs.end());
    return made;
  }

  bool fits(const Eqn& reduction, ReduceKind kind, ValueId array, ValueId result) const {
    if (reduction.op->combined.empty() || reduction.attrs.get<std::string>("kind") != name_of(kind)) return false;
    const ValueId reduced = reduction.outputs[0];
    const Value& a = graph_.value(reduced);
    const Value& b = graph_.value(array);
    const Value& c = graph_.value(result);
    const bool together =
        a.varying == c.varying && a.global && c.global && a.global->placement.dims == c.global->placement.dims;
    // Of complex numbers one is neutral only if they are finite.
    if (kind == ReduceKind::kProd && is_complex(c.type.dtype)) return false;
    const auto alike = [&](const Type& type) {
      return type.dtype == c.type.dtype && type.shape == c.type.shape && type.memory == c.type.memory;
    };
    return uses_[slot(reduced)] == 1 && reduced != array && alike(a.type) && alike(b.type) && together &&
           graph_.type(reduction.inputs[0]).dtype == c.type.dtype && !taken_.contains(producers_[slot(array)]);
  }

  const Graph& graph_;
  std::vector<const Eqn*> producers_;
  std::vector<int> uses_;
  std::set<const Eqn*> taken_;
};

// Whether shards have all positions that a gather may name. A fusion is not told where shards begin.
bool has_all_positions(const Graph& graph, const Eqn& gather) {
  const Value& array = graph.value(gather.inputs[0]);
  if (!array.global) return true;
  return std::ranges::all_of(gather.attrs.get<Dims>("dims"), [&](std::int64_t d) {
    return array.global->placement.dims[static_cast<std::size_t>(d)].empty();
  });
}

// Items that are gathered and then transposed, as the fusion that writes them where they end. Loops that read through
// the transposition do without.
std::optional<std::vector<Eqn>> placed_gathers(const Graph& graph) {
  if (std::ranges::none_of(graph.eqns, is_gather)) return std::nullopt;
  const std::vector<const Eqn*> producers = producers_of(graph);
  const std::vector<int> uses = count_uses(graph);
  std::vector<bool> read_through(graph.values.size(), false);
  for (const Eqn& eqn : graph.eqns) {
    if (!is_loop_op(graph, eqn) && !is_view(graph, eqn)) continue;
    for (ValueId id : eqn.inputs) read_through[slot(id)] = true;
  }
  std::vector<std::pair<std::size_t, Eqn>> made_again;
  std::set<const Eqn*> taken;
  for (std::size_t i = 0; i < graph.eqns.size(); ++i) {
    const Eqn& transpose = graph.eqns[i];
    const bool transposes = only_moves(*transpose.op) && transpose.attrs.find_as<Dims>("perm") != nullptr;
    if (!transposes || (is_view(graph, transpose) && read_through[slot(transpose.outputs[0])])) continue;
    const ValueId items = transpose.inputs[0];
    const Eqn* gather = producers[slot(items)];
    if (gather == nullptr || !is_gather(*gather) || uses[slot(items)] != 1) continue;
    const Value& made = graph.value(items);
    const Value& moved = graph.value(transpose.outputs[0]);
    if (made.varying != moved.varying || made.type.memory != moved.type.memory) continue;
    if (!has_all_positions(graph, *gather) || !places_items(graph, *gather, transpose)) continue;
    const std::vector<const Eqn*> both = {gather, &transpose};
    const std::vector<ValueId> results = transpose.outputs;
    made_again.emplace_back(i, fusion_of(both, results, std::make_shared<const Graph>(subgraph(graph, both, results))));
    taken.insert(gather);
  }
  if (made_again.empty()) return std::nullopt;
  return with_replaced(graph.eqns, std::move(made_again), taken);
}

std::vector<Eqn> fused_loops(const Graph& graph, Backend::FusionGoal goal) {
  Grouping grouping(graph, goal);
  grouping.run();
  Bodies known_bodies(graph, grouping.structures());
  const std::vector<std::vector<std::size_t>> groups = grouping.groups();

  // What is used by equations outside the group of its maker, with the views that those read through; an equation on
  // its own stays as it is.
  std::vector<std::size_t> group_of(graph.eqns.size(), groups.size());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (std::size_t i : groups[g]) group_of[i] = g;
  }
  std::vector<std::vector<const Eqn*>> bodies;
  std::vector<bool> is_used(graph.values.size(), false);
  for (ValueId id : graph.outputs) is_used[slot(id)] = true;
  for (const std::vector<std::size_t>& group : groups) {
    bodies.push_back(with_views(graph, grouping.producers(), group));
    for (ValueId id : operands_of(bodies.back())) is_used[slot(id)] = true;
  }
  // Equations outside groups are kept if something uses them, last first.
  std::vector<std::pair<std::size_t, Eqn>> eqns;
  for (std::size_t i = graph.eqns.size(); i-- > 0;) {
    const Eqn& eqn = graph.eqns[i];
    if (group_of[i] != groups.size()) continue;
    const bool is_free = is_view(graph, eqn) || is_known(eqn);
    if (is_free && !is_used[slot(eqn.outputs[0])]) continue;
    for (ValueId id : eqn.inputs) is_used[slot(id)] = true;
    eqns.emplace_back(i, eqn);
  }
  const std::vector<int> uses = count_uses(graph);
  std::set<const Eqn*> absorbed;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const Eqn& last = graph.eqns[groups[g].back()];
    std::vector<ValueId> results;
    for (std::size_t i : groups[g]) {
      const ValueId id = graph.eqns[i].outputs[0];
      if (is_used[slot(id)]) results.push_back(id);
    }
    if (results.empty()) continue;
    if (const Eqn* product = product_before(graph, grouping.producers(), uses, groups[g], bodies[g], results,
                                            grouping.waiting(), known_bodies)) {
      bodies[g].insert(bodies[g].begin(), product);
      absorbed.insert(product);
    }
    if (bodies[g].size() == 1) {
      eqns.emplace_back(groups[g].back(), last);
      continue;
    }
    eqns.emplace_back(groups[g].back(), fusion_of(bodies[g], results, known_bodies.of(bodies[g], results).graph));
  }
  std::erase_if(eqns, [&](const auto& entry) { return absorbed.contains(&graph.eqns[entry.first]); });
  return ordered(graph, std::move(eqns));
}

}  // namespace

Graph fuse_loops(Graph graph, Backend::FusionGoal goal) {
  if (std::optional<std::vector<Eqn>> combined = Combiner(graph).run()) graph.eqns = *std::move(combined);
  if (std::optional<std::vector<Eqn>> placed = placed_gathers(graph)) graph.eqns = *std::move(placed);
  graph.eqns = fused_loops(graph, goal);
  return graph;
}

}  // namespace shoal::cpu
