// Trees of arrays, alone and through jit and shard_map.
#include "shoal/tree.h"

#include <array>
#include <map>
#include <optional>
#include <tuple>

#include "frontend/test_support.h"

namespace shoal::test {

struct Layer {
  Array w;
  Array b;
};

struct Model {
  std::vector<Layer> layers;
  std::map<std::string, Array> scales;
  std::optional<Array> bias;
};

// Its fields have names, and one member is no part of the tree.
class Named {
 public:
  Named() = default;
  Named(Array first, Array second, int tag) : first_(std::move(first)), second_(std::move(second)), tag_(tag) {}
  const Array& first() const { return first_; }
  const Array& second() const { return second_; }
  int tag() const { return tag_; }
  friend auto shoal_tree(Named& n) { return fields(field("first", n.first_), field("second", n.second_)); }

 private:
  Array first_;
  Array second_;
  int tag_ = 0;
};

namespace {

Model model() {
  return {.layers = {{Array(1.0), Array(2.0)}, {Array(3.0), Array(4.0)}},
          .scales = {{"a", Array(5.0)}, {"b", Array(6.0)}},
          .bias = Array(7.0)};
}

std::vector<float> values(const std::vector<Array>& leaves) {
  std::vector<float> result;
  for (const Array& leaf : leaves) result.push_back(leaf.item<float>());
  return result;
}

TEST(Tree, FlattensInOrder) {
  TreeDef def;
  EXPECT_EQ(values(tree::flatten(model(), &def)), (std::vector<float>{1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(def.num_leaves(), 7U);
  EXPECT_EQ(def.leaf_paths(),
            (std::vector<std::string>{".0[0].0", ".0[0].1", ".0[1].0", ".0[1].1", ".1['a']", ".1['b']", ".2"}));
  EXPECT_EQ(to_string(TreeDef{.kind = "leaf", .children = {}}), "leaf");
}

TEST(Tree, TextOfTheStructure) {
  TreeDef def;
  tree::flatten(std::tuple{Array(1.0), std::vector{Array(2.0)}}, &def);
  EXPECT_EQ(to_string(def), "tuple([0]: leaf, [1]: vector([0]: leaf))");
}

TEST(Tree, Leaf) {
  TreeDef def;
  EXPECT_EQ(values(tree::flatten(Array(3.0), &def)), (std::vector<float>{3}));
  EXPECT_TRUE(def.is_leaf());
  EXPECT_EQ(def.leaf_paths(), (std::vector<std::string>{""}));
}

TEST(Tree, AssignsAndMaps) {
  Model m = model();
  const Model doubled = tree::map([](const Array& x) { return x * 2; }, m);
  EXPECT_EQ(doubled.scales.at("b").item<float>(), 12.0F);
  EXPECT_EQ(m.scales.at("b").item<float>(), 6.0F);
  tree::assign(m, tree::flatten(doubled));
  EXPECT_EQ(m.layers[1].b.item<float>(), 8.0F);
  EXPECT_THROW(tree::assign(m, {Array(1.0)}), TypeMismatch);
}

TEST(Tree, MapsSeveralTreesTogether) {
  const Model m = model();
  const Model sum = tree::map([](const Array& x, const Array& y, const Array& z) { return x + 10 * y + 100 * z; }, m, m,
                              tree::map([](const Array& x) { return x * 2; }, m));
  EXPECT_EQ(sum.scales.at("b").item<float>(), 6.0F + 60.0F + 1200.0F);
  EXPECT_EQ(sum.layers[1].b.item<float>(), 211.0F * m.layers[1].b.item<float>());
  Model shorter = m;
  shorter.layers.pop_back();
  EXPECT_THROW(tree::map([](const Array& x, const Array&, const Array&) { return x; }, m, m, shorter), TypeMismatch);
}

TEST(Tree, Structures) {
  const auto def_of = [](const auto& t) {
    TreeDef def;
    tree::flatten(t, &def);
    return def;
  };
  EXPECT_EQ(def_of(std::optional<Array>()).num_leaves(), 0U);
  EXPECT_NE(def_of(std::optional<Array>()), def_of(std::optional<Array>(Array(1.0))));
  EXPECT_EQ(def_of(std::pair{Array(1.0), Array(2.0)}), def_of(std::tuple{Array(1.0), Array(2.0)}));
  EXPECT_NE(def_of(std::vector{Array(1.0)}), def_of(std::vector{Array(1.0), Array(2.0)}));
  EXPECT_NE(def_of(std::map<std::string, Array>{{"a", Array(1.0)}}),
            def_of(std::map<std::string, Array>{{"b", Array(1.0)}}));
  EXPECT_EQ((def_of(std::map<int, Array>{{3, Array(1.0)}}).leaf_paths()), (std::vector<std::string>{"[3]"}));
  EXPECT_EQ(def_of(std::array<Array, 2>{Array(1.0), Array(2.0)}).leaf_paths(),
            (std::vector<std::string>{"[0]", "[1]"}));
  EXPECT_EQ(def_of(std::tuple<>()).num_leaves(), 0U);
}

TEST(Tree, HookNamesFields) {
  TreeDef def;
  EXPECT_EQ(values(tree::flatten(Named(Array(1.0), Array(2.0), 9), &def)), (std::vector<float>{1, 2}));
  EXPECT_EQ(def.leaf_paths(), (std::vector<std::string>{".first", ".second"}));
}

TEST(Tree, ThroughJit) {
  const auto f = jit([](Model m, const std::tuple<Array, Layer>& rest) {
    for (Layer& layer : m.layers) layer.w = layer.w + std::get<0>(rest);
    m.scales["a"] = std::get<1>(rest).b;
    m.bias.reset();
    return std::pair{m, m.layers[0].w * 10};
  });
  const auto [m, extra] = f(model(), std::tuple{Array(100.0), Layer{Array(0.0), Array(-1.0)}});
  EXPECT_EQ(values(tree::flatten(m)), (std::vector<float>{101, 2, 103, 4, -1, 6}));
  EXPECT_FALSE(m.bias.has_value());
  EXPECT_EQ(extra.item<float>(), 1010.0F);
}

TEST(Tree, HookThroughJitKeepsOtherMembersOfTheTracedResult) {
  const auto f = jit([](const Named& n) { return Named(n.second(), n.first() + 1, n.tag()); });
  const Named swapped = f(Named(Array(1.0), Array(2.0), 9));
  EXPECT_EQ(swapped.first().item<float>(), 2.0F);
  EXPECT_EQ(swapped.second().item<float>(), 2.0F);
  EXPECT_EQ(swapped.tag(), 9);
}

TEST(Tree, ThroughShardMap) {
  const Mesh mesh = mesh_8();
  const auto f = shard_map(
      [](const Layer& layer, const std::vector<Array>& rest) {
        return std::map<std::string, Array>{{"sum", lax::psum(layer.w.sum(), "i")}, {"w", layer.w * rest[0]}};
      },
      {.mesh = mesh, .in_specs = {{P("i"), P()}, P()}, .out_specs = {P(), P("i")}});
  const auto results = f(Layer{iota({8}), Array(0.0)}, std::vector{Array(2.0)});
  EXPECT_EQ(results.at("sum").item<float>(), 28.0F);
  EXPECT_EQ(floats(results.at("w")), (std::vector<float>{0, 2, 4, 6, 8, 10, 12, 14}));
}

TEST(Tree, PrefixesReachWholeSubtrees) {
  const Mesh mesh = mesh_8();
  const NamedSharding split(mesh, P("i"));
  const auto f = jit(
      [](const Layer& layer, const Array& x) {
        return std::tuple{layer, x};
      },
      {.in_shardings = {split, none}, .out_shardings = {split, NamedSharding(mesh, P())}});
  const auto [layer, x] = f(Layer{iota({8}), iota({16})}, iota({8}));
  EXPECT_EQ(layer.w.sharding(), Sharding(split));
  EXPECT_EQ(layer.b.sharding(), Sharding(split));
  EXPECT_TRUE(x.is_fully_replicated());
}

}  // namespace
}  // namespace shoal::test
