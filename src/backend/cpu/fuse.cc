#include "backend/cpu/fuse.h"

#include <algorithm>
#include <array>
#include <boost/container/flat_map.hpp>
#include <boost/container/flat_set.hpp>
#include <iterator>
#include <memory>
#include <numeric>
#include <optional>
#include <queue>
#include <set>
#include <span>
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
#include "backend/cpu/products/summed_product.h"
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
std::vector<const Eqn*> with_views(const EqnTable& table, std::span<const std::size_t> group) {
  std::vector<const Eqn*> all;
  const auto add = [&](auto&& self, ValueId id) -> void {
    const Eqn* producer = table.producer(id);
    if (producer == nullptr || !table.row(*producer).is_read_through()) return;
    if (std::ranges::find(all, producer) != all.end()) return;
    all.push_back(producer);
    for (ValueId input : producer->inputs) self(self, input);
  };
  for (std::size_t i : group) all.push_back(&table.graph().eqns[i]);
  for (std::size_t i : group) {
    for (ValueId id : table.graph().eqns[i].inputs) add(add, id);
  }
  std::ranges::sort(all);  // Equations lie in one array, so that their addresses are in order.
  return all;
}

// What the equations need and do not make, each once, in the order of their first uses.
std::vector<ValueId> operands_of(std::span<const Eqn* const> eqns, ValueMarks& marks) {
  marks.clear();
  for (const Eqn* eqn : eqns) std::ranges::for_each(eqn->outputs, [&](ValueId id) { marks.add(id); });
  std::vector<ValueId> operands;
  for (const Eqn* eqn : eqns) {
    for (ValueId id : eqn->inputs) {
      if (marks.add(id)) operands.push_back(id);
    }
  }
  return operands;
}

// A graph of the given equations, with their `operands` as inputs and `results` as outputs.
Graph subgraph(const Graph& graph, std::span<const Eqn* const> eqns, std::span<const ValueId> operands,
               std::span<const ValueId> results) {
  Graph body;
  body.name = "fusion";
  std::unordered_map<ValueId, ValueId> renamed;
  const auto copy_value = [&](ValueId id) {
    Value value;
    value.type = graph.type(id);
    body.values.push_back(std::move(value));
    return renamed[id] = static_cast<ValueId>(body.values.size() - 1);
  };
  for (ValueId id : operands) body.inputs.push_back(copy_value(id));
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
Eqn fusion_of(const Eqn& last, const std::vector<ValueId>& operands, const std::vector<ValueId>& results, Attrs body) {
  static const OpDef& fusion = op_named("fusion");
  return {.op = &fusion, .attrs = std::move(body), .inputs = operands, .outputs = results, .where = last.where};
}

Attrs as_attrs(GraphPtr body) { return {{"body", GraphAttr{std::move(body)}}}; }

// The bodies of fusions: one for all that are equal.
class Bodies {
 public:
  struct Body {
    GraphPtr graph;
    Attrs attrs;  // Of a fusion that has it.
    std::optional<bool> follows_product = {};
  };

  // The table must outlive this.
  Bodies(const EqnTable& table, GroupStructures& structures)
      : table_(table), structures_(structures), marks_(table.graph().values.size()) {}

  Body& of(std::span<const Eqn* const> eqns, std::span<const ValueId> results) {
    const GroupStructures::Structure& structure = structures_.of(eqns, results);
    const auto found = bodies_.find(structure);
    if (found != bodies_.end()) return found->second;
    const GraphPtr graph = std::make_shared<const Graph>(subgraph(table_.graph(), eqns, operands_of(eqns), results));
    return bodies_.emplace(structure, Body{.graph = graph, .attrs = as_attrs(graph)}).first->second;
  }

  std::vector<ValueId> operands_of(std::span<const Eqn* const> eqns) { return cpu::operands_of(eqns, marks_); }

 private:
  const EqnTable& table_;
  GroupStructures& structures_;
  ValueMarks marks_;
  GroupStructures::Map<Body> bodies_;
};

// What it means for memory that something is computed later than it could be.
class Waiting {
 public:
  explicit Waiting(const EqnTable& table)
      : table_(table),
        graph_(table.graph()),
        last_use_(graph_.values.size(), -1),
        work_before_(graph_.eqns.size() + 1) {
    const Graph& graph = graph_;
    for (std::size_t i = 0; i < graph.eqns.size(); ++i) {
      const Eqn& eqn = graph.eqns[i];
      const bool is_free = table.row(i).is_read_through();
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
  bool costs_memory(std::span<const std::size_t> members, std::size_t end, std::size_t others) const {
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
      const Eqn* producer = table_.producer(id);
      const bool is_free = producer != nullptr && table_.row(*producer).is_known;
      if (!is_free && !made.contains(id) && is_gone_after(id, from)) waiting += bytes_of(graph_.type(id));
    }
    for (const ValueId id : made) {
      if (!is_gone_after(id, from)) saved += bytes_of(graph_.type(id));
    }
    return waiting > saved;
  }

 private:
  ValueId source_of(ValueId id) const { return table_.source(id); }
  bool is_gone_after(ValueId id, std::size_t i) const { return last_use_[slot(id)] <= static_cast<std::ptrdiff_t>(i); }

  const EqnTable& table_;
  const Graph& graph_;
  std::vector<std::ptrdiff_t> last_use_;  // Of each value, views of it being seen through.
  std::vector<std::size_t> work_before_;  // How many equations before each one compute something.
};

// The graph with equations put into groups. A node is a group, or an equation by itself; nodes are numbered by an
// equation in them.
class Grouping {
 public:
  using Members = std::span<const std::size_t>;

  Grouping(const EqnTable& table, GroupStructures& structures, Backend::FusionGoal goal)
      : table_(table),
        graph_(table.graph()),
        structures_(structures),
        lengths_(graph_.eqns.size(), 0),
        facts_of_(graph_.eqns.size(), nullptr),
        marks_(graph_.values.size()),
        nodes_(needs_of(table)) {
    if (goal == Backend::FusionGoal::kMemory) waiting_.emplace(table);
  }

  void run() {
    for (std::size_t i = 0; i < graph_.eqns.size(); ++i) {
      if (table_.row(i).is_loop_op) join(i);
    }
  }

  // The members of each group, in order.
  std::vector<std::vector<std::size_t>> groups() {
    std::vector<std::vector<std::size_t>> found;
    for (std::size_t i = 0; i < graph_.eqns.size(); ++i) {
      if (nodes_.node_of(i) != i || !table_.row(i).is_loop_op) continue;
      const Members members = nodes_.members(i);
      if (can_be_stored(members, facts_of_[i] != nullptr ? *facts_of_[i] : found_out(members))) {
        found.emplace_back(members.begin(), members.end());
        continue;
      }
      for (const std::size_t& member : members) {
        const Members alone(&member, 1);
        if (can_be_stored(alone, found_out(alone))) found.push_back({member});
      }
    }
    return found;
  }

  // If little memory is the goal.
  const std::optional<Waiting>& waiting() const { return waiting_; }

 private:
  // What was found out about equations as one loop.
  struct LoopFacts {
    bool is_one_loop = false;  // Perhaps one whose results need not be stored.
    std::optional<bool> can_be_stored = {};
  };
  // The bytes that an equation reads from a node.
  struct Read {
    std::size_t bytes;
    std::size_t node;
  };

  // The equations that each one needs, views being seen through.
  static MergedNodes::Needs needs_of(const EqnTable& table) {
    const Graph& graph = table.graph();
    MergedNodes::Needs needs(graph.eqns.size());
    std::optional<std::size_t> last_ordered;
    for (std::size_t i = 0; i < graph.eqns.size(); ++i) {
      const Eqn& eqn = graph.eqns[i];
      auto& sources = needs[i];
      const bool is_read_through = table.row(i).is_loop_op;
      for (ValueId id : eqn.inputs) {
        const Eqn* producer = table.producer(is_read_through ? table.source(id) : id);
        if (producer != nullptr) sources.push_back(table.number_of(*producer));
      }
      // What others see happens in the order of the program.
      if (eqn.op->op_class != OpClass::kCompute) {
        if (last_ordered) sources.push_back(*last_ordered);
        last_ordered = i;
      }
      if (sources.size() > 1) sort_unique(sources);
    }
    return needs;
  }

  // Puts equation i into the group it reads most bytes of, and those it reads fewer of into the same, as far as one
  // loop computes them all.
  void join(std::size_t i) {
    read_.clear();
    for (std::size_t source : nodes_.needs()[i]) {
      if (!table_.row(source).is_loop_op) continue;
      const std::size_t node = nodes_.node_of(source);
      const auto known = std::ranges::find(read_, node, &Read::node);
      Read& read = known != read_.end() ? *known : read_.emplace_back(Read{.bytes = 0, .node = node});
      read.bytes += table_.row(source).bytes;
    }
    std::ranges::sort(
        read_, [](const Read& a, const Read& b) { return a.bytes != b.bytes ? a.bytes > b.bytes : a.node < b.node; });
    for (const Read& read : read_) merge(nodes_.node_of(read.node), nodes_.node_of(i));
  }

  void merge(std::size_t a, std::size_t b) {
    if (a == b) return;
    const Members first = nodes_.members(a);
    const Members second = nodes_.members(b);
    if (first.size() + second.size() > kMostEqns || !alike(first[0], second[0])) return;
    if (nodes_.has_landmark_between(a, b)) return;
    all_.clear();
    std::ranges::merge(first, second, std::back_inserter(all_));
    if (!may_grow_to(all_, a, b) || makes_wait(first, second)) return;
    LoopFacts& facts = found_out(all_);
    if (facts.is_one_loop && nodes_.merge(a, b)) facts_of_[nodes_.node_of(b)] = &facts;
  }

  bool may_grow_to(Members all, std::size_t a, std::size_t b) {
    std::size_t most = 0;
    for (std::size_t i : all) most += graph_.eqns[i].inputs.size();
    if (most <= kMostValuesOfShortLoops) return true;
    marks_.clear();
    std::size_t values = 0;
    for (std::size_t i : all)
      values += static_cast<std::size_t>(
          std::ranges::count_if(graph_.eqns[i].inputs, [&](ValueId id) { return marks_.add(id); }));
    if (values <= kMostValuesOfShortLoops) return true;
    if (std::ranges::any_of(all, [&](std::size_t i) { return graph_.eqns[i].op->reduces.has_value(); })) return false;
    return is_short(a) || is_short(b);
  }

  bool makes_wait(Members one, Members other) const {
    if (!waiting_) return false;
    const auto& [first, last] =
        std::minmax(one, other, [](const Members& a, const Members& b) { return a.back() < b.back(); });
    const auto others = std::ranges::count_if(last, [&](std::size_t i) { return i > first.back(); }) - 1;
    return waiting_->costs_memory(first, last.back(), static_cast<std::size_t>(others));
  }

  // Whether what a node computes of an element is little.
  bool is_short(std::size_t node) {
    std::size_t count = 0;
    for (std::size_t i : nodes_.members(node)) {
      count += length_of(i);
      if (count > kMostNodesOfShortOnes) return false;
    }
    return true;
  }

  // The nodes of the scalar body of an equation.
  std::size_t length_of(std::size_t i) {
    std::size_t& length = lengths_[table_.row(i).number - 1];
    if (length != 0) return length;
    const Eqn& eqn = graph_.eqns[i];
    std::vector<Dtype> dtypes;
    for (ValueId id : eqn.inputs) dtypes.push_back(graph_.type(id).dtype);
    return length = body_of(*eqn.op, dtypes, graph_.type(eqn.outputs[0]).dtype).nodes.size();
  }

  // Shards are computed one by one, so all must have the same. Those of one node do.
  bool alike(std::size_t a, std::size_t b) const {
    const Value& first = graph_.value(graph_.eqns[a].outputs[0]);
    const Value& second = graph_.value(graph_.eqns[b].outputs[0]);
    return first.varying == second.varying && first.type.memory == second.type.memory;
  }

  bool can_be_stored(Members eqns, LoopFacts& facts) {
    if (!facts.can_be_stored) facts.can_be_stored = facts.is_one_loop && is_loop_with_results(eqns);
    return *facts.can_be_stored;
  }

  // Groups of equal structure are looked at once.
  LoopFacts& found_out(Members eqns) {
    const GroupStructures::Structure& structure = structures_.of(eqns);
    const auto found = facts_.find(structure);
    if (found != facts_.end()) return found->second;
    return facts_.emplace(structure, look_at(eqns)).first->second;
  }

  LoopFacts look_at(Members eqns) {
    std::vector<const Eqn*> pointers;
    boost::container::flat_set<ValueId> operands;
    boost::container::flat_set<ValueId> made;
    for (std::size_t i : eqns) {
      pointers.push_back(&graph_.eqns[i]);
      made.insert(graph_.eqns[i].outputs[0]);
      for (ValueId id : graph_.eqns[i].inputs) {
        const Eqn* producer = table_.producer(id);
        if (!made.contains(id) && (producer == nullptr || !table_.row(*producer).is_constant)) operands.insert(id);
      }
    }
    // Even if all that is made is stored, there are not too many arrays.
    if (operands.size() > kMostOperands || operands.size() + eqns.size() > kMostArrays) return {};
    const std::optional<LoopShape> shape = shape_of_loop(graph_, table_.producers(), pointers);
    if (!shape) return {};
    // Columns of several dimensions must be walked as one by all operands.
    if (shape->columns < 2) return {.is_one_loop = true, .can_be_stored = {}};
    const bool is_loop = is_loop_with_results(eqns);
    return {.is_one_loop = is_loop, .can_be_stored = is_loop};
  }

  // Whether there is a loop even if all that the equations make is stored.
  bool is_loop_with_results(Members eqns) {
    std::vector<ValueId> results;
    for (std::size_t i : eqns) results.push_back(graph_.eqns[i].outputs[0]);
    const std::vector<const Eqn*> all = with_views(table_, eqns);
    const std::optional<LoopPlan> plan = lower(subgraph(graph_, all, operands_of(all, marks_), results));
    return plan && plan->operands.size() <= kMostArrays;
  }

  const EqnTable& table_;
  const Graph& graph_;
  GroupStructures& structures_;
  std::optional<Waiting> waiting_;
  GroupStructures::Map<LoopFacts> facts_;
  std::vector<std::size_t> lengths_;  // By the numbers of rows; 0 where it was not asked for.
  std::vector<LoopFacts*> facts_of_;  // Of each node of several equations.
  ValueMarks marks_;
  std::vector<Read> read_;
  std::vector<std::size_t> all_;
  MergedNodes nodes_;
};

// An equation, and where it would stand if all that it needs were before.
struct Standing {
  std::size_t place;
  Eqn* eqn;
};

// Equations, which are moved, in an order in which each follows what it needs, as near to the given one as that allows;
// collectives and effects keep theirs.
std::vector<Eqn> ordered(const Graph& graph, std::vector<Standing> eqns) {
  const std::size_t count = eqns.size();
  std::vector<std::size_t> maker(graph.values.size(), count);
  std::ranges::sort(eqns, {}, &Standing::place);
  const auto eqn = [&](std::size_t i) -> Eqn& { return *eqns[i].eqn; };
  for (std::size_t i = 0; i < count; ++i) {
    for (ValueId id : eqn(i).outputs) maker[slot(id)] = i;
  }
  // Those that need each one, one after the other; the last entry of `first` is their number.
  std::vector<std::pair<std::size_t, std::size_t>> needs;  // A source, and what needs it.
  std::vector<std::size_t> missing(count, 0);
  std::size_t last_ordered = count;
  for (std::size_t i = 0; i < count; ++i) {
    for (ValueId id : eqn(i).inputs) {
      if (maker[slot(id)] != count) needs.emplace_back(maker[slot(id)], i);
    }
    if (eqn(i).op->op_class != OpClass::kCompute) {
      if (last_ordered != count) needs.emplace_back(last_ordered, i);
      last_ordered = i;
    }
  }
  std::vector<std::size_t> first(count + 1, 0);
  for (const auto& [source, user] : needs) {
    ++first[source + 1];
    ++missing[user];
  }
  std::partial_sum(first.begin(), first.end(), first.begin());
  std::vector<std::size_t> users(needs.size());
  std::vector<std::size_t> next_user(first.begin(), first.end() - 1);
  for (const auto& [source, user] : needs) users[next_user[source]++] = user;

  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
  for (std::size_t i = 0; i < count; ++i) {
    if (missing[i] == 0) ready.push(i);
  }
  std::vector<Eqn> result;
  result.reserve(count);
  while (!ready.empty()) {
    const std::size_t next = ready.top();
    ready.pop();
    for (std::size_t u = first[next]; u < first[next + 1]; ++u) {
      if (--missing[users[u]] == 0) ready.push(users[u]);
    }
    result.push_back(std::move(eqn(next)));
  }
  SHOAL_CHECK(result.size() == count, "groups of equations need each other in a circle: " + graph.name);
  return result;
}

// The product whose elements a group goes on with, if nobody else needs it, and the loop can follow it tile by tile.
// What it is made of is there until the loop ends: with little memory as the goal it is alone if others could be gone
// then, or if there are several results, which a loop on its own writes over what it reads.
const Eqn* product_before(const EqnTable& table, const std::vector<int>& uses, const std::vector<std::size_t>& group,
                          const std::vector<const Eqn*>& body, const std::vector<ValueId>& results,
                          const std::optional<Waiting>& waiting, Bodies& bodies) {
  const Graph& graph = table.graph();
  if (waiting && results.size() > 1) return nullptr;
  const Value& made = graph.value(graph.eqns[group[0]].outputs[0]);
  for (std::size_t i : group) {
    for (ValueId id : graph.eqns[i].inputs) {
      const Eqn* product = table.producer(id);
      if (product == nullptr || !is_product(*product) || product->inputs[0] == product->inputs[1]) continue;
      const Value& value = graph.value(id);
      if (value.varying != made.varying || value.type.memory != made.type.memory) continue;
      // Views of it may be read by others, too; and it may not need what the body makes.
      std::ptrdiff_t own_uses = 0;
      bool needs_body = false;
      for (const Eqn* eqn : body) {
        if (!table.row(*eqn).is_view) own_uses += std::ranges::count(eqn->inputs, id);
        for (ValueId operand : product->inputs)
          needs_body = needs_body || std::ranges::count(eqn->outputs, operand) != 0;
      }
      if (own_uses != uses[slot(id)] || needs_body) continue;
      const std::size_t number = table.number_of(*product);
      const auto others = std::ranges::count_if(group, [&](std::size_t member) { return member > number; }) - 1;
      if (waiting && waiting->costs_memory(std::span(&number, 1), group.back(), static_cast<std::size_t>(others)))
        continue;
      std::vector<const Eqn*> all = {product};
      all.insert(all.end(), body.begin(), body.end());
      Bodies::Body& joint = bodies.of(all, results);
      if (!joint.follows_product) joint.follows_product = plan_after_product(*joint.graph).has_value();
      if (*joint.follows_product) return product;
    }
  }
  return nullptr;
}

// What takes the place of equations of a graph, and which go, by their numbers.
struct Replacement {
  std::vector<std::pair<std::size_t, Eqn>> made = {};
  std::set<std::size_t> taken = {};

  void apply_to(std::vector<Eqn>& eqns) && {
    if (made.empty()) return;
    for (auto& [place, eqn] : made) eqns[place] = std::move(eqn);
    std::size_t next = 0;
    std::erase_if(eqns, [&](const Eqn&) { return taken.contains(next++); });
  }
};

// The kind of reduction that combining two elements by this op is.
std::optional<ReduceKind> kind_of_combining(const OpDef& op) {
  constexpr std::array kKinds = {ReduceKind::kSum, ReduceKind::kProd, ReduceKind::kMax, ReduceKind::kMin};
  static const std::array<const OpDef*, kKinds.size()> ops = [&] {
    std::array<const OpDef*, kKinds.size()> found{};
    std::ranges::transform(kKinds, found.begin(), [](ReduceKind kind) { return &combining_op(kind); });
    return found;
  }();
  const auto* const found = std::ranges::find(ops, &op);
  if (found == ops.end()) return {};
  return kKinds[static_cast<std::size_t>(found - ops.begin())];
}

// The equation that combines an array with what one before it gives, as the op that does both where the array lies:
// what nothing is added to need not be read.
class Combiner {
 public:
  explicit Combiner(const Graph& graph) : graph_(graph), producers_(producers_of(graph)), uses_(count_uses(graph)) {}

  Replacement run() {
    for (std::size_t i = 0; i < graph_.eqns.size(); ++i) {
      const Eqn& eqn = graph_.eqns[i];
      const std::optional<ReduceKind> kind = kind_of_combining(*eqn.op);
      if (!kind) continue;
      for (const std::size_t side : {1U, 0U}) {
        const Eqn* reduction = producers_[slot(eqn.inputs[side])];
        const ValueId array = eqn.inputs[1 - side];
        if (reduction == nullptr || !fits(*reduction, *kind, array, eqn.outputs[0])) continue;
        replacement_.made.emplace_back(i, combined(*reduction, array, eqn));
        replacement_.taken.insert(number_of(*reduction));
        break;
      }
    }
    return std::move(replacement_);
  }

 private:
  std::size_t number_of(const Eqn& eqn) const { return static_cast<std::size_t>(&eqn - graph_.eqns.data()); }

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
    const Eqn* producer = producers_[slot(array)];
    const bool is_taken = producer != nullptr && replacement_.taken.contains(number_of(*producer));
    return uses_[slot(reduced)] == 1 && reduced != array && alike(a.type) && alike(b.type) && together &&
           graph_.type(reduction.inputs[0]).dtype == c.type.dtype && !is_taken;
  }

  const Graph& graph_;
  std::vector<const Eqn*> producers_;
  std::vector<int> uses_;
  Replacement replacement_;
};

Replacement combined(const Graph& graph) {
  const auto may_be_combined = [](const Eqn& eqn) { return !eqn.op->combined.empty(); };
  if (std::ranges::none_of(graph.eqns, may_be_combined)) return {};
  return Combiner(graph).run();
}

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
Replacement placed_gathers(const Graph& graph) {
  if (std::ranges::none_of(graph.eqns, is_gather)) return {};
  const std::vector<const Eqn*> producers = producers_of(graph);
  const std::vector<int> uses = count_uses(graph);
  std::vector<bool> read_through(graph.values.size(), false);
  for (const Eqn& eqn : graph.eqns) {
    if (!is_loop_op(graph, eqn) && !is_view(graph, eqn)) continue;
    for (ValueId id : eqn.inputs) read_through[slot(id)] = true;
  }
  ValueMarks marks(graph.values.size());
  Replacement replacement;
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
    const std::vector<ValueId> operands = operands_of(both, marks);
    Attrs body = as_attrs(std::make_shared<const Graph>(subgraph(graph, both, operands, results)));
    replacement.made.emplace_back(i, fusion_of(transpose, operands, results, std::move(body)));
    replacement.taken.insert(static_cast<std::size_t>(gather - graph.eqns.data()));
  }
  return replacement;
}

// Products that are summed over devices, as the op that does both where the product stands: what it reads need not live
// until the sum is wanted. As nothing is exchanged between processes, the order of collectives does not matter.
Replacement summed_products(const Graph& graph) {
  if (graph.grid == nullptr || !graph.grid->is_local() || graph.grid->num_devices() == 1) return {};
  const std::vector<const Eqn*> producers = producers_of(graph);
  const std::vector<int> uses = count_uses(graph);
  ValueMarks marks(graph.values.size());
  Replacement replacement;
  for (std::size_t i = 0; i < graph.eqns.size(); ++i) {
    const Eqn& sum = graph.eqns[i];
    if (sum.op->op_class != OpClass::kCollective || !sum.op->collective->finishes_sums) continue;
    const ValueId summed = sum.inputs[0];
    const Eqn* product = producers[slot(summed)];
    if (product == nullptr || uses[slot(summed)] != 1 || !sums_as_computed(graph, *product, sum)) continue;
    const std::array equations = {product};
    const std::vector<ValueId> operands = operands_of(equations, marks);
    Attrs attrs = as_attrs(std::make_shared<const Graph>(subgraph(graph, equations, operands, product->outputs)));
    attrs.set("axes", sum.attrs.get<std::vector<std::string>>("axes"));
    static const OpDef& both = op_named("summed_product");
    replacement.made.emplace_back(
        i, Eqn{.op = &both, .attrs = std::move(attrs), .inputs = operands, .outputs = sum.outputs, .where = sum.where});
    replacement.taken.insert(static_cast<std::size_t>(product - graph.eqns.data()));
  }
  return replacement;
}

std::vector<Eqn> fused_loops(Graph& graph, Backend::FusionGoal goal) {
  const EqnTable table(graph);
  GroupStructures structures(table);
  Grouping grouping(table, structures, goal);
  grouping.run();
  Bodies known_bodies(table, structures);
  const std::vector<std::vector<std::size_t>> groups = grouping.groups();

  // What is used by equations outside the group of its maker, with the views that those read through; an equation on
  // its own stays as it is.
  std::vector<bool> is_grouped(graph.eqns.size(), false);
  std::vector<std::vector<const Eqn*>> bodies;
  bodies.reserve(groups.size());
  std::vector<bool> is_used(graph.values.size(), false);
  for (ValueId id : graph.outputs) is_used[slot(id)] = true;
  for (const std::vector<std::size_t>& group : groups) {
    for (std::size_t i : group) is_grouped[i] = true;
    bodies.push_back(with_views(table, group));
    for (ValueId id : known_bodies.operands_of(bodies.back())) is_used[slot(id)] = true;
  }
  // Equations outside groups are kept if something uses them, last first.
  std::vector<Standing> eqns;
  eqns.reserve(graph.eqns.size());
  for (std::size_t i = graph.eqns.size(); i-- > 0;) {
    Eqn& eqn = graph.eqns[i];
    if (is_grouped[i]) continue;
    if (table.row(i).is_read_through() && !is_used[slot(eqn.outputs[0])]) continue;
    for (ValueId id : eqn.inputs) is_used[slot(id)] = true;
    eqns.push_back({.place = i, .eqn = &eqn});
  }
  const std::vector<int> uses = count_uses(graph);
  std::set<std::size_t> absorbed;
  std::vector<Eqn> fusions;
  fusions.reserve(groups.size());
  std::vector<ValueId> results;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    Eqn& last = graph.eqns[groups[g].back()];
    results.clear();
    for (std::size_t i : groups[g]) {
      const ValueId id = graph.eqns[i].outputs[0];
      if (is_used[slot(id)]) results.push_back(id);
    }
    if (results.empty()) continue;
    if (const Eqn* product =
            product_before(table, uses, groups[g], bodies[g], results, grouping.waiting(), known_bodies)) {
      bodies[g].insert(bodies[g].begin(), product);
      absorbed.insert(table.number_of(*product));
    }
    if (bodies[g].size() == 1) {
      eqns.push_back({.place = groups[g].back(), .eqn = &last});
      continue;
    }
    fusions.push_back(
        fusion_of(last, known_bodies.operands_of(bodies[g]), results, known_bodies.of(bodies[g], results).attrs));
    eqns.push_back({.place = groups[g].back(), .eqn = &fusions.back()});
  }
  std::erase_if(eqns, [&](const Standing& one) { return absorbed.contains(one.place); });
  return ordered(graph, std::move(eqns));
}

}  // namespace

Graph fuse_loops(Graph graph, Backend::FusionGoal goal) {
  combined(graph).apply_to(graph.eqns);
  placed_gathers(graph).apply_to(graph.eqns);
  summed_products(graph).apply_to(graph.eqns);
  graph.eqns = fused_loops(graph, goal);
  return graph;
}

}  // namespace shoal::cpu
