// Programs that are made to fit into less memory: they compute the same, and take what they say.
#include "runtime/rematerialize.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "core/host_allocator.h"
#include "ops/eqn_cost.h"
#include "passes/dce.h"
#include "runtime/test_support.h"

namespace shoal {
namespace {

using test_support::GraphOfShards;
using test_support::grid_of;
using test_support::random_inputs;
using test_support::run_one_by_one;
using test_support::same_elements;

std::unique_ptr<Executable> make(Graph graph) { return std::make_unique<Executable>(std::move(graph), cpu_backend()); }

std::size_t arena_bytes(const Executable& executable) { return executable.memory_plan().arena_bytes[0]; }

std::vector<std::string_view> op_names(const Graph& graph) {
  std::vector<std::string_view> names;
  for (const Eqn& eqn : graph.eqns) names.push_back(eqn.op->name);
  return names;
}

// The collectives that exchange something, in order.
std::vector<std::string_view> exchanges(const Graph& graph) {
  std::vector<std::string_view> names = op_names(graph);
  std::erase_if(names, [](std::string_view name) {
    return find_op(name)->op_class != OpClass::kCollective || name == "pvary" || name == "shard_slice";
  });
  return names;
}

constexpr std::int64_t kExtent = 1 << 12;
constexpr std::size_t kValue = std::size_t{4} << 12;

ValueId sums(GraphOfShards& g, ValueId x, bool reverse) {
  return g.add("cumsum", {{"dim", std::int64_t{0}}, {"reverse", reverse}}, {x}, g.shape(x), g.varying(x));
}

// A program that uses values of any age: some are computed by loops, some not, some only renamed, some exchanged.
Graph program_of_old_values(std::mt19937& random, GridPtr grid) {
  GraphOfShards g(std::move(grid));
  const AtomSet all = test_support::all_atoms(*g.graph().grid);
  std::vector<ValueId> values = {g.input({kExtent / 4, 4}, all), g.input({kExtent / 4, 4}, all)};
  std::vector<ValueId> unused;
  const auto below = [&](std::size_t n) { return random() % n; };
  const auto pick = [&] {
    const ValueId id = values[below(values.size())];
    std::erase(unused, id);
    return id;
  };
  for (int i = 0; i < 40; ++i) {
    const ValueId x = pick();
    ValueId made = x;
    switch (below(8)) {
      case 0:
      case 1:
        made = sums(g, x, below(2) == 0);
        break;
      case 2:
        made = g.add("negative", x);
        break;
      case 3: {
        const Shape turned = {4, kExtent / 4};
        const ValueId same = g.add("reshape", {{"shape", turned}}, {x}, turned, all);
        made = g.add("reshape", {{"shape", g.shape(x)}}, {sums(g, same, false)}, g.shape(x), all);
        break;
      }
      case 4: {
        Attrs attrs = g.along({0});
        attrs.set("kind", std::string("sum"));
        const ValueId sum = g.add("all_reduce", std::move(attrs), {x}, g.shape(x), all - AtomSet(Atoms{0}));
        made = g.add("pvary", g.along({0}), {sum}, g.shape(x), all);
        break;
      }
      case 5:
        made = g.add("reverse", {{"dims", Dims{0, 1}}}, {x}, g.shape(x), all);
        break;
      default:
        made = g.add(below(2) == 0 ? "add" : "multiply", x, pick());
    }
    values.push_back(made);
    unused.push_back(made);
  }
  std::shuffle(unused.begin(), unused.end(), random);
  ValueId result = pick();
  for (ValueId id : std::vector<ValueId>(unused)) result = sums(g, g.add("add", result, id), false);
  g.graph().outputs = {result, values.back()};
  return g.graph();
}

// Whole and fused, with a part of the memory that they would take.
TEST(Rematerialize, RandomProgramsKeepTheirBits) {
  std::mt19937 random(1);
  std::size_t recomputed = 0;
  std::size_t fitted = 0;
  std::size_t reordered = 0;
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    const Graph plain = dce(program_of_old_values(random, grid_of(seed % 3 == 0 ? Shape{2, 3} : Shape{2})));
    const Graph graph = seed % 2 == 0 ? cpu_backend().fuse(plain) : plain;
    const std::vector<Reuse> reuses = {{.input = 0, .output = random() % 2}};
    const auto make = [&](Graph one) {
      verify(one, "made");
      return std::make_unique<Executable>(std::move(one), cpu_backend(), reuses);
    };
    std::unique_ptr<Executable> full = make(graph);
    const std::size_t before = full->launch_bytes();
    const std::size_t arena = arena_bytes(*full);
    const std::size_t room = full->output_bytes() + arena * (random() % 100) / 100;
    const LeanExecutable lean = rematerialize(std::move(full), room, make);
    const bool fits = lean.executable->launch_bytes() <= room;
    EXPECT_TRUE(fits || arena_bytes(*lean.executable) <= arena) << seed;
    recomputed += lean.recomputed;
    if (lean.is_reordered) ++reordered;
    if (fits && before > room) ++fitted;
    EXPECT_EQ(exchanges(lean.executable->graph()), exchanges(graph)) << seed;
    const std::vector<ShardSet> expected = run_one_by_one(plain, random_inputs(plain, seed));
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(same_elements(lean.executable->run(random_inputs(graph, seed)), expected)) << seed;
    }
  }
  EXPECT_GT(recomputed, 200U);
  EXPECT_GT(fitted, 15U);
  EXPECT_GT(reordered, 20U);
}

// Values that are made one after the other and used again in the opposite order.
Graph there_and_back(std::size_t count) {
  GraphOfShards g(grid_of({1}));
  std::vector<ValueId> values = {g.input({kExtent}, {})};
  for (std::size_t i = 0; i < count; ++i) values.push_back(sums(g, values.back(), false));
  ValueId result = values.back();
  for (std::size_t i = values.size() - 1; i-- > 0;) {
    result = sums(g, g.add("multiply", result, values[i]), true);
  }
  g.graph().outputs = {result};
  return g.graph();
}

TEST(Rematerialize, TakesNoMoreStepsThanItMust) {
  constexpr std::size_t kCount = 30;
  const Graph graph = there_and_back(kCount);
  const std::size_t before = arena_bytes(*make(graph));
  EXPECT_GE(before, (kCount - 2) * kValue);
  const std::vector<ShardSet> expected = run_one_by_one(graph, random_inputs(graph, 1));
  std::size_t fewest = 0;
  for (const std::size_t values : {std::size_t{28}, std::size_t{20}, std::size_t{14}, std::size_t{8}}) {
    const std::size_t room = values * kValue + HostAllocator::block_size(kValue);
    const LeanExecutable lean = rematerialize(make(graph), room, make);
    EXPECT_LE(lean.executable->launch_bytes(), room) << values;
    EXPECT_GE(lean.recomputed, fewest) << "with " << values << " values";
    fewest = lean.recomputed;
    // With about twice the root of so many values, each is computed at most twice.
    EXPECT_LE(lean.recomputed, values >= 14 ? kCount : 3 * kCount) << values;
    EXPECT_TRUE(same_elements(lean.executable->run(random_inputs(graph, 1)), expected)) << values;
  }
}

// Sums of large values that are all made before any of them is used.
TEST(Rematerialize, FindsABetterOrder) {
  constexpr std::size_t kCount = 12;
  GraphOfShards g(grid_of({1}));
  const ValueId x = g.input({kExtent}, {});
  std::vector<ValueId> large;
  for (std::int64_t i = 0; i < 12; ++i) {
    large.push_back(g.add("roll", {{"shifts", Dims{i + 1}}}, {x}, {kExtent}, {}));
  }
  for (ValueId id : large) g.graph().outputs.push_back(g.add("reduce_sum", {{"axes", Dims{0}}}, {id}, {}, {}));
  const std::vector<ShardSet> expected = run_one_by_one(g.graph(), random_inputs(g.graph(), 1));
  ASSERT_GE(arena_bytes(*make(g.graph())), kCount * kValue);
  const LeanExecutable lean = rematerialize(make(g.graph()), 2 * kValue, make);
  EXPECT_TRUE(lean.is_reordered);
  EXPECT_EQ(lean.recomputed, 0U);
  EXPECT_LE(arena_bytes(*lean.executable), 2 * kValue);
  EXPECT_TRUE(same_elements(lean.executable->run(random_inputs(g.graph(), 1)), expected));
}

// ---- Against all choices that there are

// At most sixteen equations on values of three sizes, of which some are used long after they are made.
Graph small_program(std::mt19937& random) {
  GraphOfShards g(grid_of({1}));
  const auto below = [&](std::size_t n) { return random() % n; };
  std::vector<ValueId> values = {g.input({8, 512}, {})};
  std::vector<ValueId> unused;
  const auto use = [&](ValueId id) {
    std::erase(unused, id);
    return id;
  };
  const auto pick = [&] { return use(below(3) == 0 ? values[below(values.size())] : values.back()); };
  const auto wide = [&](ValueId id) {
    if (g.shape(id).size() == 2) return id;
    return g.add("broadcast_in_dim", {{"shape", Dims{8, 512}}, {"dims", Dims{1}}}, {id}, {8, 512}, {});
  };
  const std::size_t forward = 5 + below(3);
  for (std::size_t i = 0; i < forward; ++i) {
    const ValueId x = pick();
    ValueId made = x;
    switch (below(5)) {
      case 0:
        made = g.shape(x).size() == 2 ? g.add("reduce_sum", {{"axes", Dims{0}}}, {x}, {512}, {}) : g.add("negative", x);
        break;
      case 1:
        made = g.add("reverse", {{"dims", Dims{0}}}, {x}, g.shape(x), {});
        break;
      case 2:
        made = g.add("multiply", x, x);
        break;
      default:
        made = sums(g, x, below(2) == 0);
    }
    values.push_back(made);
    unused.push_back(made);
  }
  ValueId result = wide(use(values.back()));
  while (!unused.empty()) {
    const ValueId old = below(3) == 0 ? unused[below(unused.size())] : unused.back();
    result = g.add("multiply", result, wide(use(old)));
    if (g.graph().eqns.size() < 15) result = sums(g, result, true);
  }
  g.graph().outputs = {result};
  return g.graph();
}

// The time between two uses of a value in which it is not needed, which a program may spend without it.
struct Gap {
  ValueId value;
  std::size_t end;  // The equation that uses it next.
};

std::vector<Gap> gaps_of(const Graph& graph) {
  std::vector<Gap> gaps;
  for (std::size_t maker = 0; maker < graph.eqns.size(); ++maker) {
    const ValueId id = graph.eqns[maker].outputs[0];
    std::size_t last = maker;
    for (std::size_t i = maker + 1; i < graph.eqns.size(); ++i) {
      if (std::ranges::count(graph.eqns[i].inputs, id) == 0) continue;
      if (i > last + 1) gaps.push_back({.value = id, .end = i});
      last = i;
    }
  }
  return gaps;
}

// The program in which values are missing in these gaps, and made again after each, of others that may be missing, too.
class WithGaps {
 public:
  WithGaps(const Graph& graph, const std::vector<Gap>& gaps) : from_(graph), to_(graph), now_(graph.values.size()) {
    to_.eqns.clear();
    std::iota(now_.begin(), now_.end(), 0);
    for (std::size_t i = 0; i < graph.eqns.size(); ++i) {
      std::vector<ValueId> missing;
      for (const Gap& gap : gaps) {
        if (has_begun(gap, i)) missing.push_back(gap.value);
      }
      std::map<ValueId, ValueId> again;
      Eqn eqn = graph.eqns[i];
      for (ValueId& id : eqn.inputs) {
        const ValueId old = id;
        id = available(old, missing, again);
        const auto ends = [&](const Gap& gap) { return gap.value == old && gap.end == i; };
        if (std::ranges::any_of(gaps, ends)) now_[slot(old)] = id;
      }
      to_.eqns.push_back(std::move(eqn));
    }
  }

  const Graph& graph() const { return to_; }

 private:
  // Whether a gap includes the moment before an equation.
  bool has_begun(const Gap& gap, std::size_t at) const {
    if (at > gap.end) return false;
    std::size_t last = 0;
    for (std::size_t i = 0; i < gap.end; ++i) {
      const Eqn& eqn = from_.eqns[i];
      if (eqn.outputs[0] == gap.value || std::ranges::count(eqn.inputs, gap.value) != 0) last = i;
    }
    return at > last;
  }

  ValueId available(ValueId id, const std::vector<ValueId>& missing, std::map<ValueId, ValueId>& again) {
    const auto maker = std::ranges::find_if(from_.eqns, [&](const Eqn& eqn) { return eqn.outputs[0] == id; });
    if (maker == from_.eqns.end()) return id;
    // What is used no more later is gone as well.
    if (!is_gone(id, missing)) return now_[slot(id)];
    if (const auto found = again.find(id); found != again.end()) return found->second;
    Eqn copy = *maker;
    for (ValueId& input : copy.inputs) input = available(input, missing, again);
    to_.values.push_back(from_.value(id));
    copy.outputs = {static_cast<ValueId>(to_.values.size() - 1)};
    to_.eqns.push_back(copy);
    return again[id] = copy.outputs[0];
  }

  bool is_gone(ValueId id, const std::vector<ValueId>& missing) const {
    if (std::ranges::count(missing, id) != 0) return true;
    std::size_t last = 0;
    for (std::size_t i = 0; i < from_.eqns.size(); ++i) {
      if (std::ranges::count(from_.eqns[i].inputs, id) != 0) last = i;
    }
    std::size_t done = 0;  // Of the original equations.
    for (const Eqn& eqn : to_.eqns) done += slot(eqn.outputs[0]) < from_.values.size() ? std::size_t{1} : 0;
    return done > last;
  }

  const Graph& from_;
  Graph to_;
  std::vector<ValueId> now_;  // What stands for a value.
};

TEST(Rematerialize, NoChoiceIsBetterForSmallPrograms) {
  constexpr double kMostWorse = 1.05;
  std::mt19937 random(7);
  std::size_t programs = 0;
  std::size_t recomputing = 0;
  while (programs < 60) {
    const Graph graph = dce(small_program(random));
    const std::vector<Gap> gaps = gaps_of(graph);
    if (graph.eqns.size() > 16 || gaps.size() < 3 || gaps.size() > 9) continue;
    ++programs;
    SCOPED_TRACE(to_text(graph));
    struct Choice {
      std::size_t bytes;
      double work;
    };
    const auto work_in = [](const Graph& one) {
      double work = 0;
      for (const Eqn& eqn : one.eqns) work += work_of(one, eqn);
      return work;
    };
    std::vector<Choice> choices;
    std::set<std::size_t> rooms;
    for (std::size_t set = 0; set < std::size_t{1} << gaps.size(); ++set) {
      std::vector<Gap> chosen;
      for (std::size_t i = 0; i < gaps.size(); ++i) {
        if ((set >> i & 1) != 0) chosen.push_back(gaps[i]);
      }
      const WithGaps made(graph, chosen);
      choices.push_back({.bytes = make(made.graph())->launch_bytes(), .work = work_in(made.graph())});
      rooms.insert(choices.back().bytes);
    }
    const std::vector<ShardSet> expected = run_one_by_one(graph, random_inputs(graph, 1));
    for (const std::size_t room : rooms) {
      double best = std::numeric_limits<double>::infinity();
      for (const Choice& choice : choices) {
        if (choice.bytes <= room) best = std::min(best, choice.work);
      }
      const LeanExecutable lean = rematerialize(make(graph), room, make);
      EXPECT_LE(lean.executable->launch_bytes(), room);
      EXPECT_LE(work_in(lean.executable->graph()), best * kMostWorse) << room;
      EXPECT_TRUE(same_elements(lean.executable->run(random_inputs(graph, 1)), expected)) << room;
      if (lean.recomputed != 0) ++recomputing;
    }
    // With no room at all it is the least.
    const LeanExecutable least = rematerialize(make(graph), 1, make);
    EXPECT_LE(static_cast<double>(least.executable->launch_bytes()), static_cast<double>(*rooms.begin()) * kMostWorse);
  }
  EXPECT_GT(recomputing, 20U);
}

TEST(Rematerialize, LeavesAloneWhatExchanges) {
  GraphOfShards g(grid_of({4}));
  const ValueId x = g.input({kExtent}, test_support::all_atoms(*g.graph().grid));
  Attrs attrs = g.along({0});
  attrs.set("kind", std::string("sum"));
  const ValueId sum = g.add("all_reduce", attrs, {x}, {kExtent}, {});
  ValueId y = sums(g, sum, false);
  for (int i = 0; i < 3; ++i) y = sums(g, y, false);
  g.graph().outputs = {g.add("multiply", y, sum)};
  const LeanExecutable lean = rematerialize(make(g.graph()), 1, make);
  EXPECT_EQ(op_names(lean.executable->graph()), op_names(g.graph()));
}

}  // namespace
}  // namespace shoal
