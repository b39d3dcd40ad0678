#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "core/dispatch.h"
#include "ir/graph.h"
#include "ir/sharding_rule.h"
#include "ir/test_support.h"
#include "sharding/test_support.h"
#include "shoal/error.h"

namespace shoal {
namespace {

using test_support::find_op;
using test_support::op_named;
using test_support::type_of;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

Graph parsed(std::string_view text) { return parse_graph(text, find_op); }

void expect_round_trip(const Graph& graph) {
  const std::string text = to_text(graph);
  const Graph again = parsed(text);
  EXPECT_EQ(to_text(again), text);
  EXPECT_TRUE(graphs_equal(again, graph)) << text;
}

TEST(Text, OfTracedGraphs) {
  Graph graph;
  graph.name = "f";
  const ValueId x = graph.add_input(type_of(float32, {4, 8}));
  const ValueId y =
      graph.add_input({.dtype = int32, .shape = {}, .weak = true, .memory = kPinnedHostMemory, .varying = {}});
  const auto both =
      graph.add_eqn(op_named("swap"), {{"tag", std::int64_t{-3}}, {"name", std::string("a \"b\"")}}, {x, y}, {});
  graph.add_eqn(op_named("sink"), {}, {both[0]}, {});
  graph.outputs = {both[1], x};
  EXPECT_EQ(to_text(graph), R"(graph "f"(%0: f32[4,8], %1: ~i32<pinned_host>[]) {
  %2: ~i32<pinned_host>[], %3: f32[4,8] = swap(%0, %1) {name = "a \"b\"", tag = -3}
  sink(%2)
  return %3, %0
})");
  expect_round_trip(graph);
}

TEST(Text, OfGraphsWithoutAnything) {
  EXPECT_EQ(to_text(Graph{}), "graph \"main\"() {\n  return \n}");
  expect_round_trip(Graph{});
}

TEST(Text, OfManualGraphs) {
  Graph graph;
  graph.axes.bind("x", 2);
  graph.axes.bind("y", 3);
  graph.outputs = {graph.add_input({.dtype = bool_, .shape = {0}, .weak = false, .memory = {}, .varying = {"x", "y"}})};
  EXPECT_EQ(to_text(graph), R"(graph "main" over("x"=2, "y"=3)(%0: bool[0]{V:x,y}) {
  return %0
})");
  expect_round_trip(graph);
}

// Axes that are bound are manual; what is unreduced or reduced over others is so over Explicit axes.
TEST(Text, OfWhatIsToBeSummed) {
  const Mesh mesh = make_mesh({1, 1}, {"u", "v"}, {.axis_types = {AxisType::kExplicit, AxisType::kExplicit}});
  Graph graph;
  graph.axes.bind("x", 2);
  graph.axes.bind("y", 2);
  graph.axes.bind("z", 2);
  Type type = type_of(float32, {4});
  type.varying = {"x", "y"};
  type.summands = {"y"};
  type.reduced = {"z"};
  const ValueId manual = graph.add_input(type);
  type.explicit_axes = ExplicitAxes{.mesh = mesh, .dims = {{}}, .unreduced = {"u"}, .reduced = {"v"}};
  const ValueId both = graph.add_input(type);
  type.summands = type.reduced = type.varying = {};
  graph.outputs = {manual, both, graph.add_input(type)};
  const std::string text = to_text(graph);
  EXPECT_THAT(text, HasSubstr("(%0: f32[4]{V:x}{U:y}{R:z}, %1: f32[4]{V:x}{U:(u,y)}{R:(v,z)}, %2: f32[4]{U:u}{R:v})"));
  expect_round_trip(graph);
}

TEST(Text, OfPropagatedGraphs) {
  Graph graph;
  graph.grid = std::make_shared<const Grid>(test_support::grid({2, 4}));  // atoms 0 | 1 2
  const ValueId x = graph.add_input(type_of(float32, {4, 8, 1}));
  graph.outputs = graph.add_eqn(op_named("copy"), {}, {x}, {});
  graph.value(0).placement = Placement{.dims = {{1}, {2, 0}, {}}, .partial = {}};
  graph.value(1).placement = Placement{.dims = {{}, {0}, {}}, .partial = {1, 2}, .kind = ReduceKind::kMax};
  EXPECT_EQ(to_text(graph), R"(on mesh("x"=2, "y"=4; devices 0..7)
graph "main"(%0: f32[4,8,1] @[y:(1)2, (y:(2)2, x), _]) {
  %1: f32[4,8,1] @[_, x, _] partial(max: y) = copy(%0)
  return %1
})");
  expect_round_trip(graph);
}

TEST(Text, OfPartitionedGraphs) {
  Graph graph;
  graph.grid = std::make_shared<const Grid>(test_support::grid({2, 3}));
  graph.outputs = {graph.add_input(type_of(float32, {2, 5}))};
  graph.value(0).varying = AtomSet(Atoms{0, 1});
  graph.value(0).global = GlobalShape{{4, 5}, {.dims = {{0}, {}}, .partial = {1}}};
  EXPECT_EQ(to_text(graph), R"(on mesh("x"=2, "y"=3; devices 0..5)
graph "main"(%0: f32[2,5] varying(x, y) of [4,5] @[x, _] partial(sum: y)) {
  return %0
})");
  expect_round_trip(graph);
}

TEST(Text, OfGrids) {
  Graph graph;
  graph.grid = std::make_shared<const Grid>(Device{.id = 7});
  EXPECT_THAT(to_text(graph), StartsWith("on device 7\n"));
  expect_round_trip(graph);
  const std::vector<AxisType> types = {AxisType::kAuto, AxisType::kExplicit, AxisType::kManual};
  for (const Mesh& mesh :
       {Mesh(test_support::devices_of({3}), {}, {}), Mesh(test_support::devices_of({4}), {1}, {"only"}),
        Mesh(test_support::devices_of({5, 6}), {2}, {"x"}),
        Mesh(test_support::devices_of({3, 1, 2, 0}), {4, 1}, {"x", "y"}),
        Mesh(test_support::cpus(12), {2, 3, 2}, {"a b", "c\"d", "e\\"}, types),
        Mesh(test_support::cpus(12), {2, 3, 2}, {"a", "b", "c"}, types).with_speeds({{1.5e9, 4e9, 1}, 1e12})}) {
    graph.grid = std::make_shared<const Grid>(mesh);
    expect_round_trip(graph);
  }
}

TEST(Text, QuotesNamesOfAxesThatAreNoWords) {
  const std::vector<std::string> names = {"data axis", "x:y", "_", "a\"b\\", "ok", "s:(1)2"};
  Graph graph;
  graph.grid = std::make_shared<const Grid>(Mesh(test_support::cpus(128), {4, 2, 2, 2, 2, 2}, names));
  graph.outputs = {graph.add_input(type_of(float32, {4, 8, 1}))};  // atoms 0 1 | 2 | 3 | 4 | 5 | 6
  graph.value(0).placement = Placement{.dims = {{2, 3}, {5}, {6}}, .partial = {0, 4}};
  graph.value(0).manual = AtomSet(Atoms{1, 2});
  graph.value(0).varying = AtomSet(Atoms{0, 1, 3, 5});
  EXPECT_THAT(to_text(graph),
              HasSubstr(R"(%0: f32[4,8,1] @[("x:y", "_"), ok, "s:(1)2"] partial(sum: "data axis":(1)2, )"
                        R"("a\"b\\") manual("data axis":(2)2, "x:y") varying("data axis", "_", ok))"));
  expect_round_trip(graph);
  Graph manual;
  for (const std::string& name : names) manual.axes.bind(name, 2);
  manual.outputs = {manual.add_input({.dtype = int32, .shape = {}, .weak = false, .memory = {}, .varying = names})};
  EXPECT_THAT(to_text(manual), HasSubstr(R"(%0: i32[]{V:"data axis","x:y","_","a\"b\\",ok,"s:(1)2"})"));
  expect_round_trip(manual);
}

// The numbers of values need not follow the order of their definitions.
TEST(Text, KeepsTheNumbersOfValues) {
  const std::string text = R"(graph "main"(%5: f32[2]) {
  %3: f32[2] = copy(%5)
  %4: f32[2] = copy(%3)
  return %4
})";
  EXPECT_EQ(to_text(parsed(text)), text);
}

TEST(Text, ScopesDoNotMix) {
  const std::string text = R"(graph "main"(%0: f32[2]) {
  %1: f32[2] = copy(%0) {body = graph "inner"(%7: i32[3]) {
      %0: i32[3] = copy(%7)
      return %0
    }}
  return %1
})";
  EXPECT_EQ(to_text(parsed(text)), text);
}

// ---- Attributes

void expect_attr_round_trip(const Attr& attr) {
  Graph graph;
  graph.outputs =
      graph.add_eqn(op_named("join"), {{"a", attr}, {"shape", Dims{2}}}, {graph.add_input(type_of(float32, {2}))}, {});
  const Graph again = parsed(to_text(graph));
  EXPECT_TRUE(again.eqns[0].attrs == graph.eqns[0].attrs)
      << to_text(attr) << " became " << to_text(*again.eqns[0].attrs.find("a"));
}

TEST(Text, OfEveryAttr) {
  const Mesh mesh(test_support::devices_of({3, 1, 2, 0}), {2, 2}, {"x", "y"}, {AxisType::kAuto, AxisType::kManual});
  Graph body;
  body.name = "line 1\nline 2";
  body.outputs = body.add_eqn(op_named("copy"), {{"note", std::string("two\nlines")}},
                              {body.add_input(type_of(float32, {2}))}, {});
  const std::vector<std::pair<Attr, std::string>> cases = {
      {true, "true"},
      {false, "false"},
      {std::int64_t{-7}, "-7"},
      {std::numeric_limits<std::int64_t>::min(), "-9223372036854775808"},
      {std::numeric_limits<std::int64_t>::max(), "9223372036854775807"},
      {std::string(), "\"\""},
      {std::string("a \"quoted\" \\ (text) {with} %marks\n"), R"("a \"quoted\" \\ (text) {with} %marks\n")"},
      {bfloat16, "bf16"},
      {bool_, "bool"},
      {kUnpinnedHostMemory, "memory(unpinned_host)"},
      {Dims{}, "()"},
      {Dims{4}, "(4)"},
      {Dims{4, -1, 0}, "(4, -1, 0)"},
      {std::vector<std::string>{}, "[]"},
      {std::vector<std::string>{"x", "y:(1)2"}, R"(["x", "y:(1)2"])"},
      {Scalar::of(1.5F), "f32(1.5)"},
      {mesh, R"(mesh("x"=2, "y"=2 manual; devices 3, 1, 2, 0))"},
      {mesh.with_speeds({.axes = {4e9, 2.5e8}}), R"(mesh("x"=2, "y"=2 manual at 250000000; devices 3, 1, 2, 0))"},
      {mesh.with_speeds({.device = 1e12}), R"(mesh("x"=2, "y"=2 manual; devices 3, 1, 2, 0 at 1000000000000))"},
      {Mesh(mesh.with_speeds({{1, 2}}).abstract_mesh()), R"(mesh("x"=2 at 1, "y"=2 manual at 2))"},
      {Mesh(mesh.with_speeds({{1, 4e9}, 3}).abstract_mesh()), R"(mesh("x"=2 at 1, "y"=2 manual; devices at 3))"},
      {NamedSharding(mesh, P(none, {"y", "x"}, unconstrained), {.memory_kind = kPinnedHostMemory}),
       R"(sharding(P(_, ("y", "x"), ?), memory(pinned_host), mesh("x"=2, "y"=2 manual; devices 3, 1, 2, 0)))"},
      {CallbackAttr{.number = 7, .callback = nullptr}, "callback(7)"},
      {std::vector<PartitionSpec>{P("x", unreduced("y", "z")), P(unreduced("y"))},
       R"(specs(P("x", unreduced={"y", "z"}), P(unreduced={"y"})))"},
      {std::vector<PartitionSpec>{P("x", reduced("y")), P(unreduced("y") + reduced("z"))},
       R"(specs(P("x", reduced={"y"}), P(unreduced={"y"}, reduced={"z"})))"},
      {std::vector<PartitionSpec>{}, "specs()"},
      {std::vector<PartitionSpec>{P(), P("x", none), P({"x"})}, R"(specs(P(), P("x", _), P("x")))"},
  };
  for (const auto& [attr, text] : cases) {
    EXPECT_EQ(to_text(attr), text);
    expect_attr_round_trip(attr);
  }
  expect_attr_round_trip(GraphAttr{std::make_shared<const Graph>(body)});
  Graph on_grid = body;
  on_grid.grid = std::make_shared<const Grid>(mesh);
  expect_attr_round_trip(GraphAttr{std::make_shared<const Graph>(on_grid)});
}

TEST(Text, OfUnreducedTypes) {
  const Mesh mesh = make_mesh({1, 1}, {"x", "y"}, {.axis_types = {AxisType::kExplicit, AxisType::kExplicit}});
  const auto type = [&](std::vector<std::vector<std::string>> dims, std::vector<std::string> axes) {
    Type result = type_of(float32, {4, 8});
    result.explicit_axes = ExplicitAxes{mesh, std::move(dims), std::move(axes)};
    return result;
  };
  Graph graph;
  graph.outputs = {graph.add_input(type({{"x"}, {}}, {"y"})), graph.add_input(type({{}, {}}, {"x", "y"}))};
  const std::string text = to_text(graph);
  EXPECT_THAT(text, HasSubstr("%0: f32[4@x,8]{U:y}, %1: f32[4,8]{U:(x,y)}"));
  expect_round_trip(graph);
}

TEST(Text, OfScalarsOfEveryDtype) {
  std::mt19937_64 random(1);
  for (int number = 0; number < kNumDtypes; ++number) {
    with_element_type(static_cast<Dtype>(number), [&](auto tag) {
      using T = decltype(tag);
      for (const double value : {0.0, 1.0, 2.0, 100.0})
        expect_attr_round_trip(Scalar::of(T(static_cast<float>(value))));
      if constexpr (std::is_integral_v<T>) {
        expect_attr_round_trip(Scalar::of(std::numeric_limits<T>::min()));
        expect_attr_round_trip(Scalar::of(std::numeric_limits<T>::max()));
      } else if constexpr (std::is_floating_point_v<T>) {
        for (const T value :
             {std::numeric_limits<T>::infinity(), -std::numeric_limits<T>::infinity(), T(-0.0), T(0.1),
              std::numeric_limits<T>::quiet_NaN(), -std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::max(),
              std::numeric_limits<T>::lowest(), std::numeric_limits<T>::min(), std::numeric_limits<T>::denorm_min(),
              std::numeric_limits<T>::epsilon()}) {
          expect_attr_round_trip(Scalar::of(value));
        }
        for (int i = 0; i < 1000; ++i) {
          const T value =
              std::bit_cast<T>(static_cast<std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>(random()));
          if (!std::isnan(value)) expect_attr_round_trip(Scalar::of(value));
        }
      } else if constexpr (kIsSmallFloat<T>) {
        for (std::uint32_t bits = 0; bits < 0x10000; bits += 7) {
          T value;
          value.bits = static_cast<std::uint16_t>(bits);
          if (!std::isnan(static_cast<float>(value))) expect_attr_round_trip(Scalar::of(value));
        }
      } else if constexpr (kIsComplexElement<T>) {
        using R = typename T::value_type;
        expect_attr_round_trip(Scalar::of(T(R(0.1), R(-2.5))));
        expect_attr_round_trip(Scalar::of(T(std::numeric_limits<R>::infinity(), std::numeric_limits<R>::quiet_NaN())));
      }
    });
  }
  EXPECT_EQ(to_text(Attr(Scalar::of(std::complex<float>(0.1F, -2)))), "c64(0.1, -2)");
  EXPECT_EQ(to_text(Attr(Scalar::of(std::uint64_t{1} << 63U))), "u64(9223372036854775808)");
  EXPECT_EQ(to_text(Attr(Scalar::of(true))), "bool(true)");
}

// ---- Random graphs

class RandomGraph {
 public:
  explicit RandomGraph(std::uint32_t seed) : random_(seed) {}

  Graph make(int depth) {
    Graph graph;
    graph.name = random_text();
    if (below(2) == 0) graph.grid = std::make_shared<const Grid>(test_support::grid({2, 4, 3}));
    if (below(3) == 0) graph.axes.bind("x", 2);
    for (std::size_t i = below(3); i > 0; --i) graph.add_input(random_type(graph));
    graph.add_input(random_type(graph));
    for (std::size_t i = below(8); i > 0; --i) add_eqn(graph, depth);
    for (std::size_t i = below(3); i > 0; --i) graph.outputs.push_back(pick(graph));
    if (graph.grid != nullptr) {
      for (Value& value : graph.values) decorate(*graph.grid, value);
    }
    return graph;
  }

 private:
  std::size_t below(std::size_t n) { return random_() % n; }

  std::string random_text() {
    constexpr std::string_view kChars = "ab_0 \"\\()[]{}%,:;=\n";
    std::string text;
    for (std::size_t i = below(6); i > 0; --i) text += kChars[below(kChars.size())];
    return text;
  }

  Shape random_shape() {
    Shape shape(below(4));
    for (std::int64_t& extent : shape) extent = static_cast<std::int64_t>(below(20));
    return shape;
  }

  Type random_type(const Graph& graph) {
    Type type = type_of(static_cast<Dtype>(below(kNumDtypes)), random_shape());
    type.weak = below(3) == 0;
    if (below(3) == 0) type.memory = kPinnedHostMemory;
    if (!graph.axes.empty() && below(2) == 0) type.varying = {"x"};
    return type;
  }

  ValueId pick(const Graph& graph) { return static_cast<ValueId>(below(graph.values.size())); }

  Attr random_attr(int depth) {
    const Mesh mesh = test_support::grid({2, 4});
    switch (below(13)) {
      case 0:
        return below(2) == 0;
      case 1:
        return static_cast<std::int64_t>(random_()) * (below(2) == 0 ? 1 : -1);
      case 2:
        return random_text();
      case 3:
        return static_cast<Dtype>(below(kNumDtypes));
      case 4:
        return MemoryKind(static_cast<MemoryKind::Kind>(below(3)));
      case 5:
        return random_shape();
      case 6:
        return std::vector<std::string>{random_text(), random_text()};
      case 7:
        return Scalar::of(std::ldexp(static_cast<double>(random_()), static_cast<int>(below(80)) - 40));
      case 8:
        return mesh;
      case 9:
        return NamedSharding(mesh, below(2) == 0 ? P("x", unconstrained) : P(none, {"y", "x"}));
      case 10:
        return std::vector<PartitionSpec>{P("y"), P()};
      case 11:
        return Scalar::of(below(2) == 0);
      default:
        break;
    }
    if (depth == 0) return Scalar::of(static_cast<std::int16_t>(random_()));
    return GraphAttr{std::make_shared<const Graph>(make(depth - 1))};
  }

  void add_eqn(Graph& graph, int depth) {
    Attrs attrs{{"shape", random_shape()}};
    for (std::size_t i = below(3); i > 0; --i) attrs.set("a" + std::to_string(i), random_attr(depth));
    constexpr std::string_view kOps[] = {"source", "copy", "join", "swap", "sink"};
    const OpDef& op = op_named(kOps[below(5)]);
    std::vector<ValueId> inputs(op.arity < 0 ? 1 + below(3) : static_cast<std::size_t>(op.arity));
    for (ValueId& id : inputs) id = pick(graph);
    graph.add_eqn(op, std::move(attrs), std::move(inputs), {});
  }

  Placement random_placement(const Grid& grid, std::size_t rank) {
    Placement placement = Placement::replicated(rank);
    placement.kind = static_cast<ReduceKind>(below(6));
    std::vector<Atom> atoms(static_cast<std::size_t>(grid.num_atoms()));
    for (std::size_t i = 0; i < atoms.size(); ++i) atoms[i] = static_cast<Atom>(i);
    std::shuffle(atoms.begin(), atoms.end(), random_);
    for (Atom atom : atoms) {
      const std::size_t d = below(rank + 2);
      if (d < rank) placement.dims[d].push_back(atom);
      if (d == rank) placement.partial.push_back(atom);
    }
    placement.partial = AtomSet(placement.partial).sorted();
    if (placement.partial.empty()) placement.kind = ReduceKind::kSum;
    return placement;
  }

  void decorate(const Grid& grid, Value& value) {
    if (below(2) == 0) value.placement = random_placement(grid, value.type.rank());
    if (below(2) == 0) value.manual = random_placement(grid, 1).varying();
    if (below(2) == 0) value.varying = random_placement(grid, 1).varying();
    if (below(2) == 0) value.global = GlobalShape{value.type.shape, random_placement(grid, value.type.rank())};
  }

  std::mt19937 random_;
};

TEST(Text, OfRandomGraphsParsesBack) {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    expect_round_trip(RandomGraph(seed).make(2));
  }
}

// ---- Mistakes

void expect_error(std::string_view text, const std::string& message) {
  EXPECT_THAT([&] { parsed(text); }, ThrowsMessage<InvalidArgument>(StartsWith("parse_graph: " + message))) << text;
}

TEST(ParseErrors, NameLineAndColumn) {
  expect_error("", "line 1, column 1: expected 'graph', got ''");
  expect_error("graf", "line 1, column 1: expected 'graph', got 'graf'");
  expect_error("graph f", "line 1, column 7: expected '\"', got 'f'");
  expect_error("graph \"f", "line 1, column 9: expected a closing quote, got ''");
  expect_error("graph \"f\\", "line 1, column 10: expected a closing quote, got ''");
  expect_error("graph \"f\"(x)", "line 1, column 11: expected '%'");
  expect_error("graph \"f\"() {\n  return\n}\n more", "line 4, column 2: expected the end of the text, got 'more'");
  expect_error("graph \"f\"() {\n  return", "line 2, column 9: expected '}'");
  expect_error("graph \"f\"() {\n", "line 2, column 1: expected a word, got ''");
}

// Mistakes in the second line of a graph.
void expect_error_in_eqn(const std::string& line, const std::string& message) {
  expect_error("graph \"f\"(%0: f32[2]) {\n" + line + "\n  return %0\n}", "line 2, column " + message);
}

TEST(ParseErrors, OfEquations) {
  expect_error_in_eqn("%1: f32[2] = copy(%7)", "21: expected a value defined before, which %7 is not");
  expect_error_in_eqn("%1: f32[2] = copy(%1)", "21: expected a value defined before, which %1 is not");
  expect_error_in_eqn("%0: f32[2] = copy(%0)", "3: expected a value that is not defined yet, which %0 is");
  expect_error_in_eqn("%1: f32[2], %1: f32[2] = swap(%0, %0)", "15: expected a value that is not defined yet");
  expect_error_in_eqn("%-1: f32[2] = copy(%0)", "4: expected a number of a value");
  expect_error_in_eqn("%999999999: f32[2] = copy(%0)", "11: expected a number of a value");
  expect_error_in_eqn("%99999999999999999999: f32[2] = copy(%0)", "2: expected a number");
  expect_error_in_eqn("%1: f32[2] = copied(%0)", "20: expected the name of an op, which 'copied' is not");
  expect_error_in_eqn("%1: f32[2] copy(%0)", "12: expected '='");
  expect_error_in_eqn("%1: f32[2] = copy(%0 %0)", "22: expected ')'");
  expect_error_in_eqn("%1: f32[2] = copy(%0) {a 1}", "26: expected '='");
}

TEST(ParseErrors, OfTypes) {
  expect_error_in_eqn("%1: g32[2] = copy(%0)", "8: ");
  expect_error_in_eqn("%1: f32<disk>[2] = copy(%0)", "13: ");
  expect_error_in_eqn("%1: f32[two] = copy(%0)", "9: expected a number, got 'two]");
  expect_error_in_eqn("%1: f32 = copy(%0)", "9: expected '['");
  expect_error_in_eqn("%1: f32[2]{W:x} = copy(%0)", "12: expected 'V'");
}

TEST(ParseErrors, OfPlacements) {
  expect_error_in_eqn("%1: f32[2] @[x] = copy(%0)", "13: expected a graph with a grid");
  expect_error_in_eqn("%1: f32[2] of [2] @[_] = copy(%0)", "20: expected a graph with a grid");
  const auto expect_placement_error = [](const std::string& placement, const std::string& message) {
    expect_error("on mesh(\"x\"=4; devices 0..3)\ngraph \"f\"(%0: f32[2] " + placement + ") {\n  return\n}",
                 "line 2, column " + message);
  };
  expect_placement_error("@[y]", "25: axis 'y' is not an axis of the mesh; its axes are (x)");
  expect_placement_error("@[x:(1)3]", "30: sub-axis 'x:(1)3' does not divide axis 'x'");
  expect_placement_error("@[_] partial(mean: x)", "39: reduction kind 'mean' is unknown");
  expect_placement_error("@[_] partial(sum)", "38: expected ':'");
  expect_placement_error("varying(y)", "31: axis 'y' is not an axis of the mesh");
  expect_placement_error("of [4]", "28: expected '@'");
}

TEST(ParseErrors, OfAttributes) {
  const auto expect_attr_error = [](const std::string& attr, const std::string& message) {
    expect_error_in_eqn("%1: f32[2] = copy(%0) {a = " + attr + "}", message);
  };
  expect_attr_error("f33", "31: ");
  expect_attr_error("(1, 2", "33: expected ')'");
  expect_attr_error("[x]", "29: expected '\"'");
  expect_attr_error("memory(disk)", "39: ");
  expect_attr_error("bool(maybe)", "33: expected 'false', got 'maybe)");
  expect_attr_error("f32(one)", "32: expected a number");
  expect_attr_error("i8(-129)", "35: expected a number that i8 holds before this, which -129 is not");
  expect_attr_error("u16(65536)", "37: expected a number that u16 holds before this, which 65536 is not");
  expect_attr_error("c64(1)", "33: expected ','");
  expect_attr_error("mesh(\"x\"=2; devices 0)", "50: Mesh: the product of axis sizes (2,) is not 1");
  expect_attr_error("sharding(P(\"y\"), memory(device), mesh(\"x\"=1; devices 0))", "84: NamedSharding: axis 'y'");
  expect_attr_error("specs(Q())", "34: expected 'P'");
}

// Short texts of much: what they take stays within bounds.
TEST(ParseErrors, OfMoreThanATextCanHold) {
  const auto on = [](const std::string& grid) { return "on " + grid + "\ngraph \"f\"() {\n  return\n}"; };
  const auto mesh = [](const std::string& devices) { return "mesh(\"x\"=1; devices " + devices + ")"; };
  expect_error(on(mesh("0..9000000000000000000")), "line 1, column 46: expected the id of a device");
  expect_error(on(mesh("0..2097152")), "line 1, column 34: expected at most 2097152 devices");
  expect_error(on(mesh("3..1")), "line 1, column 28: expected the last of these devices");
  expect_error(on(mesh("0..1, -1")), "line 1, column 32: expected the id of a device before this, which -1 is not");
  expect_error(on("device 9223372036854775807"), "line 1, column 30: expected the id of a device");
  expect_error(on("mesh(\"x\"=9223372036854775783)"), "line 1, column 33: expected a mesh with devices");
  // All meshes of a text together.
  const std::string half = "mesh(\"x\"=1048576; devices 0..1048575)";
  const std::string other = "mesh(\"y\"=1048576; devices 0..1048575)";
  const auto in = [](const std::string& meshes) { return "graph \"f\" in " + meshes + "() {\n  return\n}"; };
  EXPECT_NO_THROW(parsed(in(half + ", " + other + ", " + half + ", " + other)));
  expect_error(in(half + ", " + other + ", mesh(\"z\"=1; devices 0)"), "line 1, column 113: expected at most 2097152");
  // Graphs within a graph have no values that their texts do not pay for.
  const auto body = [](std::size_t number) { return "graph \"b\"(%" + std::to_string(number) + ": f32[]) { return }"; };
  const auto with_bodies = [&](std::size_t number) {
    return "graph \"f\"(%0: f32[]) { %1: f32[] = copy(%0) {a = graphs(" + body(number) + ", " + body(number) +
           ")} return }";
  };
  EXPECT_NO_THROW(parsed(with_bodies(50)));
  EXPECT_NO_THROW(parsed(body(30)));
  expect_error(with_bodies(80), "line 1, column 104: expected a number of a value before this");
}

TEST(ParseErrors, AreShortAboutTheRest) {
  const std::string text = "graph \"f\"() {\n  oops " + std::string(1000, 'x') + "\n}";
  try {
    parsed(text);
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_LT(std::string_view(error.what()).size(), 200U);
  }
}

TEST(ShardingRule, PrintsFactors) {
  ShardingRule rule;
  for (const std::int64_t size : {2, 3, 4}) rule.add_factor(size);
  rule.factors[1].kind = FactorKind::kReduction;
  rule.factors[2].kind = FactorKind::kNeedReplication;
  rule.operands = {{{0, 1}, {2}}, {}};
  rule.results = {{{0}, {}}};
  EXPECT_EQ(to_string(rule), "(ij, k), () -> (i, 1) reduction={j} need_replication={k}");
}

}  // namespace
}  // namespace shoal
