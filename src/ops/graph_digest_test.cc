#include "ir/graph_digest.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <string>
#include <vector>

#include "ops/table.h"

namespace shoal {
namespace {

Graph graph(std::string_view text) { return parse_graph(text, find_op); }

Digest digest(std::string_view text) { return make_digest(graph(text)).digest; }

const std::string kBase = R"(graph "f"(%0: f32[4]) {
  %1: f32[4] = sin(%0)
  %2: f32[4] = jit(%1) {body = graph "g"(%0: f32[4]) {
      %1: f32[] = full() {shape = (), value = f32(1)}
      %2: f32[4] = add(%0, %1)
      return %2
    }, name = "g"}
  return %2
})";

// The text with one of its parts replaced.
std::string with(std::string from, std::string to) {
  std::string text = kBase;
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(GraphDigest, NamesLabelsAndNumbersDoNotCount) {
  EXPECT_EQ(digest(kBase), digest(with("graph \"f\"", "graph \"h\"")));
  EXPECT_EQ(digest(kBase), digest(with("graph \"g\"", "graph \"h\"")));
  EXPECT_EQ(digest(kBase), digest(with("name = \"g\"", "name = \"h\"")));
  Graph renumbered = graph(kBase);
  // As a pass leaves it that removes an equation.
  renumbered.values.insert(renumbered.values.begin(), renumbered.values[0]);
  for (ValueId& id : renumbered.inputs) ++id;
  for (ValueId& id : renumbered.outputs) ++id;
  for (Eqn& eqn : renumbered.eqns) {
    for (ValueId& id : eqn.inputs) ++id;
    for (ValueId& id : eqn.outputs) ++id;
  }
  EXPECT_EQ(digest(kBase), make_digest(renumbered).digest);
}

TEST(GraphDigest, StructureCountsInSubGraphsToo) {
  const std::vector<std::string> texts = {
      kBase,
      with("sin", "cos"),
      with("value = f32(1)", "value = f32(2)"),
      with("value = f32(1)", "value = f32(-1)"),
      with("add(%0, %1)", "add(%1, %0)"),
      with("add(%0, %1)", "multiply(%0, %1)"),
      with("return %2\n    }", "return %0\n    }"),
      with("return %2\n}", "return %1\n}"),
      with("jit(%1)", "jit(%0)"),
  };
  for (std::size_t i = 0; i < texts.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(digest(texts[i]), digest(texts[j])) << texts[i] << texts[j];
  }
}

TEST(GraphDigest, PlacementsAndDevicesCount) {
  const auto text = [](std::string on, std::string value) {
    return "on " + on + "\ngraph \"f\"(%0: " + value + ") {\n  return %0\n}";
  };
  const std::vector<std::string> texts = {
      text("mesh(\"x\"=2; devices 0, 1)", "f32[4] @[x]"),
      text("mesh(\"x\"=2; devices 0, 1)", "f32[4] @[_]"),
      text("mesh(\"x\"=2; devices 0, 1)", "f32[4] @[_] partial(sum: x)"),
      text("mesh(\"x\"=2; devices 0, 1)", "f32[4] @[_] partial(max: x)"),
      text("mesh(\"x\"=2; devices 0, 1)", "f32[4] @[_] varying(x)"),
      text("mesh(\"x\"=2; devices 0, 1)", "f32[4] manual(x)"),
      text("mesh(\"x\"=2; devices 2, 3)", "f32[4] @[x]"),
      text("mesh(\"x\"=2 at 1e+09; devices 0, 1)", "f32[4] @[x]"),
      text("mesh(\"x\"=2; devices 0, 1 at 1e+12)", "f32[4] @[x]"),
      text("mesh(\"y\"=2; devices 0, 1)", "f32[4] @[y]"),
      text("device 0", "f32[4] @[_]"),
  };
  for (std::size_t i = 0; i < texts.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(digest(texts[i]), digest(texts[j])) << texts[i] << texts[j];
  }
}

TEST(GraphDigest, LiteralsCountByTheirBits) {
  const auto of = [](float value) {
    Graph made;
    made.outputs = made.add_eqn(op_named("full"), {{"shape", Shape{}}, {"value", Scalar::of(value)}}, {}, {});
    return make_digest(made).digest;
  };
  EXPECT_NE(of(0.0F), of(-0.0F));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(of(nan), of(nan));
  EXPECT_NE(of(nan), of(std::bit_cast<float>(std::bit_cast<std::uint32_t>(nan) + 1)));
}

// A graph that calls the given callbacks in this order, the second half from within a sub-graph.
Graph calling(const std::vector<CallbackAttr>& callbacks) {
  Graph made;
  const ValueId x = made.add_input({.dtype = float32, .shape = {}});
  Graph body;
  const ValueId y = body.add_input({.dtype = float32, .shape = {}});
  for (std::size_t i = 0; i < callbacks.size(); ++i) {
    const bool outside = i < callbacks.size() / 2;
    (outside ? made : body).add_eqn(op_named("debug_callback"), {{"callback", callbacks[i]}}, {outside ? x : y}, {});
  }
  made.add_eqn(op_named("jit"), {{"body", GraphAttr{std::make_shared<const Graph>(body)}}, {"name", std::string("b")}},
               {x}, {});
  return made;
}

TEST(GraphDigest, CallbacksAreNumberedByTheirFirstUse) {
  const CallbackAttr a = CallbackAttr::of({});
  const CallbackAttr b = CallbackAttr::of({});
  const CallbackAttr c = CallbackAttr::of({});
  const auto of = [](const std::vector<CallbackAttr>& callbacks) { return make_digest(calling(callbacks)).digest; };
  EXPECT_EQ(of({a, b, a, b}), of({b, c, b, c}));
  EXPECT_EQ(of({a, a, b, b}), of({c, c, a, a}));
  EXPECT_NE(of({a, b, a, b}), of({a, b, b, a}));
  EXPECT_NE(of({a, a, a, a}), of({a, a, b, b}));
  EXPECT_EQ(make_digest(calling({c, a, c, b})).callbacks, (std::vector<std::int64_t>{c.number, a.number, b.number}));
}

TEST(GraphDigest, IsKeptWithAGraphButNotWithItsCopy) {
  const Graph kept = graph(kBase);
  const auto first = kept_digest(kept);
  EXPECT_EQ(kept_digest(kept), first) << "the same object";
  Graph copy = kept;
  copy.eqns.pop_back();
  copy.outputs = copy.eqns.back().outputs;
  EXPECT_NE(kept_digest(copy)->digest, first->digest);
}

// Processes compare digests, so that they must not change from one to another: no pointer and no hash of the standard
// library is in them.
TEST(GraphDigest, IsTheSameInEveryProcess) {
  EXPECT_EQ(digest(kBase), (Digest{18065577543937741802U, 4065183680061723400U}));
}

TEST(Attrs, HashesLookIntoSubGraphs) {
  const auto hash = [](std::string_view text) { return graph(text).eqns[1].attrs.hash(); };
  EXPECT_EQ(hash(kBase), hash(kBase));
  EXPECT_NE(hash(kBase), hash(with("value = f32(1)", "value = f32(2)")));
}

}  // namespace
}  // namespace shoal
