#include "ir/attrs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "core/dispatch.h"
#include "ir/test_support.h"
#include "sharding/test_support.h"
#include "shoal/error.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<std::string> names(const Attrs& attrs) {
  std::vector<std::string> list;
  for (const auto& [name, value] : attrs.entries()) list.push_back(name);
  return list;
}

TEST(Attrs, AreSortedByName) {
  const Attrs attrs{{"perm", Dims{1, 0}}, {"axes", Dims{2}}, {"kind", std::string("sum")}};
  EXPECT_EQ(names(attrs), (std::vector<std::string>{"axes", "kind", "perm"}));
}

TEST(Attrs, SetAddsAndReplaces) {
  Attrs attrs{{"b", std::int64_t{1}}};
  attrs.set("a", true);
  attrs.set("b", std::int64_t{2});
  attrs.set("c", std::string("three"));
  EXPECT_EQ(names(attrs), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(attrs.get<std::int64_t>("b"), 2);
  EXPECT_TRUE(attrs.get<bool>("a"));
  EXPECT_TRUE(attrs.contains("c"));
  EXPECT_FALSE(attrs.contains("d"));
  EXPECT_EQ(attrs.find("d"), nullptr);
}

TEST(Attrs, MissingAndMistakenOnesAreDefects) {
  const Attrs attrs{{"dim", std::int64_t{1}}};
  EXPECT_THAT([&] { attrs.get<Dims>("axes"); }, ThrowsMessage<InternalError>(HasSubstr("attribute 'axes' is missing")));
  EXPECT_THAT([&] { attrs.get<Dims>("dim"); },
              ThrowsMessage<InternalError>(HasSubstr("attribute 'dim' is of another kind")));
}

GraphPtr graph_of(Shape shape) {
  Graph graph;
  graph.outputs = {graph.add_input(test_support::type_of(float32, std::move(shape)))};
  return std::make_shared<const Graph>(std::move(graph));
}

// One of each kind, no two alike.
std::vector<Attr> one_of_each() {
  const Mesh mesh = test_support::grid({2, 2});
  return {true,
          std::int64_t{1},
          std::string("x"),
          float32,
          kPinnedHostMemory,
          Dims{1},
          std::vector<std::string>{"x"},
          Scalar::of(1.0F),
          mesh,
          NamedSharding(mesh, P("x")),
          std::vector<PartitionSpec>{P("x")},
          GraphAttr{graph_of({1})},
          CallbackAttr{.number = 1, .callback = nullptr}};
}

TEST(Attrs, EqualByValue) {
  const std::vector<Attr> values = one_of_each();
  const std::vector<Attr> again = one_of_each();
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (std::size_t k = 0; k < values.size(); ++k) {
      EXPECT_EQ((Attrs{{"a", values[i]}}) == (Attrs{{"a", again[k]}}), i == k) << i << " " << k;
    }
    EXPECT_FALSE((Attrs{{"a", values[i]}}) == (Attrs{{"b", again[i]}}));
    EXPECT_EQ((Attrs{{"a", values[i]}}).hash(), (Attrs{{"a", again[i]}}).hash()) << i;
  }
}

TEST(Attrs, HashesTellThemApart) {
  std::set<std::size_t> hashes;
  const Mesh mesh = test_support::grid({2, 2});
  const std::vector<Attr> values = {std::int64_t{1},
                                    std::int64_t{2},
                                    std::string("x"),
                                    std::string("y"),
                                    Dims{1, 2},
                                    Dims{2, 1},
                                    Dims{},
                                    Scalar::of(1.0F),
                                    Scalar::of(2.0F),
                                    Scalar::of(1.0),
                                    NamedSharding(mesh, P("x")),
                                    NamedSharding(mesh, P("y"))};
  for (const Attr& value : values) hashes.insert(Attrs{{"a", value}}.hash());
  hashes.insert(Attrs{{"b", std::int64_t{1}}}.hash());
  EXPECT_EQ(hashes.size(), values.size() + 1);
}

TEST(Attrs, GraphsAreComparedByStructure) {
  EXPECT_EQ(GraphAttr{graph_of({2})}, GraphAttr{graph_of({2})});
  EXPECT_FALSE(GraphAttr{graph_of({2})} == GraphAttr{graph_of({3})});
  const Attrs attrs{{"body", GraphAttr{graph_of({2})}}};
  EXPECT_EQ(attrs.graph().inputs.size(), 1U);
}

TEST(Attrs, CallbacksAreKnownByTheirNumber) {
  int calls = 0;
  const CallbackAttr one = CallbackAttr::of({.on_values =
                                                 [&](std::span<const Buffer>) {
                                                   ++calls;
                                                   return std::vector<Buffer>();
                                                 },
                                             .on_sharding = {}});
  const CallbackAttr other = CallbackAttr::of({});
  const CallbackAttr copy = one;
  EXPECT_EQ(one, copy);
  EXPECT_FALSE(one == other);
  copy.callback->on_values({});
  EXPECT_EQ(calls, 1);
}

TEST(Graphs, EqualWhereEverythingIs) {
  using test_support::op_named;
  const auto made = [](auto&& change) {
    Graph graph;
    graph.grid = std::make_shared<const Grid>(test_support::grid({2}));
    const ValueId x = graph.add_input(test_support::type_of(float32, {2}));
    graph.outputs = graph.add_eqn(op_named("copy"), {{"tag", std::int64_t{1}}}, {x}, SourceLocation::current());
    change(graph);
    return graph;
  };
  const Graph graph = made([](Graph&) {});
  EXPECT_TRUE(graphs_equal(graph, made([](Graph&) {})));
  const auto differs = [&](auto&& change) { return !graphs_equal(graph, made(change)); };
  EXPECT_TRUE(differs([](Graph& other) { other.name = "other"; }));
  EXPECT_TRUE(differs([](Graph& other) { other.grid = nullptr; }));
  EXPECT_TRUE(differs([](Graph& other) { other.grid = std::make_shared<const Grid>(test_support::grid({1, 2})); }));
  EXPECT_TRUE(differs([](Graph& other) { other.grid = std::make_shared<const Grid>(Device{.id = 1}); }));
  EXPECT_TRUE(differs([](Graph& other) { other.axes.bind("x", 2); }));
  EXPECT_TRUE(differs([](Graph& other) { other.eqns[0].op = &op_named("join"); }));
  EXPECT_TRUE(differs([](Graph& other) { other.eqns[0].attrs.set("tag", std::int64_t{2}); }));
  EXPECT_TRUE(differs([](Graph& other) { other.eqns.clear(); }));
  EXPECT_TRUE(differs([](Graph& other) { other.outputs = other.inputs; }));
  EXPECT_TRUE(differs([](Graph& other) { other.value(1).type.weak = true; }));
  EXPECT_TRUE(differs([](Graph& other) { other.value(1).placement = Placement::replicated(1); }));
  EXPECT_FALSE(differs([](Graph& other) { other.eqns[0].where = {}; })) << "source lines are not compared";
}

TEST(Scalar, KeepsEveryDtype) {
  for (int number = 0; number < kNumDtypes; ++number) {
    with_element_type(static_cast<Dtype>(number), [&](auto tag) {
      using T = decltype(tag);
      const Scalar scalar = Scalar::of(T(1));
      EXPECT_EQ(scalar.dtype, static_cast<Dtype>(number));
      EXPECT_EQ(scalar.as<T>(), T(1));
    });
  }
}

TEST(Scalar, EqualByBits) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(Scalar::of(kNan), Scalar::of(kNan));
  EXPECT_FALSE(Scalar::of(0.0F) == Scalar::of(-0.0F));
  EXPECT_FALSE(Scalar::of(1.0F) == Scalar::of(1.0));
  EXPECT_FALSE(Scalar::of(std::int32_t{1}) == Scalar::of(std::uint32_t{1}));
}

TEST(Scalar, ConvertsAsCppDoes) {
  const auto converted = [](auto value, Dtype to) { return Scalar::of(value).converted_to(to); };
  EXPECT_EQ(converted(2.75, int32), Scalar::of(std::int32_t{2}));
  EXPECT_EQ(converted(-2.75, int8), Scalar::of(std::int8_t{-2}));
  EXPECT_EQ(converted(std::int32_t{300}, uint8), Scalar::of(std::uint8_t{44}));
  EXPECT_EQ(converted(std::int64_t{-1}, uint64), Scalar::of(std::numeric_limits<std::uint64_t>::max()));
  EXPECT_EQ(converted(0.5, bool_), Scalar::of(true));
  EXPECT_EQ(converted(0.0F, bool_), Scalar::of(false));
  EXPECT_EQ(converted(true, float64), Scalar::of(1.0));
  EXPECT_EQ(converted(0.1, float32), Scalar::of(0.1F));
  EXPECT_EQ(converted(1.00390625F + 0.001F, bfloat16), Scalar::of(bfloat16_t(1.0078125F)));
  EXPECT_EQ(converted(float16_t(1.5F), float64), Scalar::of(1.5));
  EXPECT_EQ(converted(bfloat16_t(3.0F), int16), Scalar::of(std::int16_t{3}));
  EXPECT_EQ(converted(float16_t(2.0F), complex64), Scalar::of(std::complex<float>(2.0F)));
  EXPECT_EQ(converted(std::complex<float>(2.0F, 3.0F), complex128), Scalar::of(std::complex<double>(2.0, 3.0)));
  EXPECT_EQ(converted(std::complex<double>(2.0, 3.0), float32), Scalar::of(2.0F));
  EXPECT_EQ(converted(std::complex<double>(2.0, 3.0), float16), Scalar::of(float16_t(2.0F)));
}

}  // namespace
}  // namespace shoal
