// What derivatives keep by every policy, in graphs and in the list of residuals; that gradients are the same bits.
#include "shoal/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "frontend/test_support.h"
#include "sharding/test_support.h"
#include "shoal/control_flow.h"
#include "shoal/derivatives.h"
#include "shoal/lax.h"
#include "shoal/vmap.h"

namespace shoal::test {
namespace {

namespace policies = checkpoint_policies;
using test_support::message_of;
using Names = std::vector<std::string>;
using LayerFunction = std::function<Array(const Array& w, const Array& x)>;

Array layer(const Array& w, const Array& x) {
  const Array h = checkpoint_name(tanh(matmul(x, w)), "h");
  return checkpoint_name(sin(matmul(h, w)), "g");
}

CheckpointPolicy offloaded(const Names& saved, const Names& elsewhere) {
  return policies::save_and_offload_only_these_names(
      {.names_which_can_be_saved = saved, .names_which_can_be_offloaded = elsewhere});
}

std::vector<std::pair<std::string, CheckpointPolicy>> all_policies() {
  return {
      {"nothing", {}},
      {"everything", policies::everything_saveable()},
      {"dots", policies::dots_saveable()},
      {"unbatched dots", policies::dots_with_no_batch_dims_saveable()},
      {"only h", policies::save_only_these_names({"h"})},
      {"any but h", policies::save_any_names_but_these({"h"})},
      {"except h", policies::save_anything_except_these_names({"h"})},
      {"both", policies::save_from_both_policies(policies::dots_saveable(), policies::save_only_these_names({"h"}))},
      {"budget", policies::budget(200)},
      {"budget and h", policies::save_from_both_policies(policies::budget(64), policies::save_only_these_names({"h"}))},
      {"offloaded", offloaded({"h"}, {"g"})},
      {"offloaded h", offloaded({}, {"h"})},
      {"offloaded dots", policies::offload_dot_with_no_batch_dims()},
      {"function", CheckpointPolicy([](const CheckpointedOp& op) { return op.op == "tanh"; })},
      {"function of names", CheckpointPolicy([](const CheckpointedOp& op) -> SaveDecision {
         if (op.name == "h") return kPinnedHostMemory;
         return policies::dots_saveable().decide(op);
       })},
  };
}

std::vector<std::pair<std::string, LayerFunction>> all_functions() {
  return {
      {"layer", layer},
      {"jitted", [](const Array& w, const Array& x) { return jit(layer)(w, jit(layer)(w, x)); }},
      {"loop",
       [](const Array& w, const Array& x) {
         return lax::scan([&](const Array& c, const Array& s) { return std::pair(layer(w, c) * s, sum(c)); }, x,
                          array({0.5, 2.0, 1.0}))
             .first;
       }},
      {"loop in reverse",
       [](const Array& w, const Array& x) {
         const auto [c, ys] = lax::scan(
             [&](const Array& carry, const Array& s) {
               const Array next = layer(w, carry);
               return std::pair(next, checkpoint_name(cos(next * s), "h"));
             },
             x, array({0.5, 2.0}), {.reverse = true});
         return c + sum(ys);
       }},
      {"branch",
       [](const Array& w, const Array& x) {
         return lax::cond(
             sum(x) > 0, [&](const Array& v) { return layer(w, v) * v; },
             [](const Array& v) { return exp(checkpoint_name(cos(v), "h")); }, x);
       }},
      {"nested",
       [](const Array& w, const Array& x) {
         return checkpoint(layer, {.policy = policies::save_only_these_names({"h"})})(w, layer(w, x));
       }},
      {"mapped",
       [](const Array& w, const Array& x) { return vmap([&](const Array& row) { return layer(w, row); })(x); }},
      {"on shards",
       [](const Array& w, const Array& x) {
         return shard_map([](const Array& whole, const Array& part) { return layer(whole, part); },
                          {.mesh = mesh_8(), .in_specs = {P(), P("i")}, .out_specs = P("i")})(w, x);
       }},
  };
}

TEST(Checkpoint, GradientsAreTheSameBitsByEveryPolicy) {
  const Array w = sin(iota({4, 4}));
  const Array x = put(cos(iota({8, 4})), mesh_8(), P("i"));
  for (const auto& [function_name, f] : all_functions()) {
    const auto gradient = [](const LayerFunction& of) {
      return [of](const Array& a, const Array& b) {
        return grad<0, 1>([of](const Array& c, const Array& d) { return sum(square(of(c, d))); })(a, b);
      };
    };
    const auto [expected_w, expected_x] = jit(gradient(f))(w, x);
    for (const auto& [policy_name, policy] : all_policies()) {
      SCOPED_TRACE(function_name + ", " + policy_name);
      const LayerFunction with = [f = f, policy = policy](const Array& a, const Array& b) {
        return checkpoint(f, {.policy = policy})(a, b);
      };
      EXPECT_TRUE(same(with(w, x), f(w, x)));
      const auto [compiled_w, compiled_x] = jit(gradient(with))(w, x);
      EXPECT_EQ(floats(compiled_w), floats(expected_w));
      EXPECT_EQ(floats(compiled_x), floats(expected_x));
      const auto [eager_w, eager_x] = gradient(with)(w, x);
      EXPECT_EQ(floats(eager_w), floats(expected_w));
      EXPECT_EQ(floats(eager_x), floats(expected_x));
    }
  }
}

// The residuals of f by a policy, without the lines that made them.
Names kept(const LayerFunction& f, const CheckpointPolicy& policy) {
  Names lines;
  for (SavedResidual one :
       saved_residuals([&](const Array&w, const Array&x) { return checkpoint(f, {.policy = policy})(w, x); },
                       ones({4, 4}), ones({8, 4}))) {
    EXPECT_NE(one.where.line() != 0, one.op.empty()) << to_string(one);
    one.where = {};
    lines.push_back(to_string(one));
  }
  return lines;
}

TEST(Checkpoint, ResidualsAreWhatThePolicySays) {
  const Names arguments = {"f32[4,4] from the argument [0]", "f32[8,4] from the argument [1]"};
  const auto expect = [&](const LayerFunction& f, const CheckpointPolicy& policy, const Names& more) {
    Names expected = arguments;
    expected.insert(expected.end(), more.begin(), more.end());
    EXPECT_EQ(kept(f, policy), expected);
  };
  const std::string product = "f32[8,4] output of dot_general";
  expect(layer, {}, {});
  expect(layer, policies::dots_saveable(), {product, product});
  expect(layer, policies::dots_with_no_batch_dims_saveable(), {product, product});
  expect(layer, policies::save_only_these_names({"h"}), {"f32[8,4] named 'h'"});
  expect(layer, policies::save_any_names_but_these({"g"}), {"f32[8,4] named 'h'"});
  // Nothing needs what is named g.
  expect(layer, policies::save_only_these_names({"g"}), {});
  expect(layer, policies::save_anything_except_these_names({"h"}), {product, product});
  expect(layer, policies::save_from_both_policies(policies::dots_saveable(), policies::save_only_these_names({"h"})),
         {"f32[8,4] named 'h'", product});
  expect(layer, offloaded({}, {"h"}), {"f32<pinned_host>[8,4] named 'h'"});
  expect(layer, policies::offload_dot_with_no_batch_dims(),
         {"f32<pinned_host>[8,4] output of dot_general", "f32<pinned_host>[8,4] output of dot_general"});
  expect(layer, CheckpointPolicy([](const CheckpointedOp& op) { return op.op == "tanh"; }), {"f32[8,4] named 'h'"});
}

// How often `word` stands in a text.
int count_of(const std::string& text, const std::string& word) {
  int count = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

// The part of the program of a gradient that computes again, with the backward pass.
std::string region_of(const LayerFunction& f, const CheckpointPolicy& policy) {
  const auto loss = [&](const Array& w, const Array& x) { return sum(checkpoint(f, {.policy = policy})(w, x)); };
  const std::string text = jit(grad(loss)).lower(ones({4, 4}), ones({8, 4})).compile().as_text("simplified");
  const std::size_t region = text.find("region(");
  EXPECT_NE(region, std::string::npos) << text;
  return text.substr(region);
}

// What a checkpoint does not keep is computed again, in one region with the backward pass; what it keeps is not.
TEST(Checkpoint, WhatIsKeptIsNotComputedAgain) {
  const LayerFunction f = [](const Array& w, const Array& x) { return sin(matmul(x, w)); };
  EXPECT_EQ(count_of(region_of(f, {}), "dot_general("), 2);
  EXPECT_EQ(count_of(region_of(f, policies::dots_saveable()), "dot_general("), 1);
  EXPECT_EQ(count_of(region_of(f, policies::dots_with_no_batch_dims_saveable()), "dot_general("), 1);
  EXPECT_EQ(count_of(region_of(layer, policies::save_only_these_names({"h"})), "tanh("), 0);
  EXPECT_EQ(count_of(region_of(layer, policies::save_only_these_names({"g"})), "tanh("), 1);
}

// A loop keeps stacks of what has a name, and goes through its trips again only if it needs more than that.
TEST(Checkpoint, LoopsKeepStacks) {
  const LayerFunction f = [](const Array& w, const Array& x) {
    return lax::scan(
               [&](const Array& c, const Array& s) {
                 const Array h = checkpoint_name(tanh(matmul(c, w)), "h");
                 return std::pair(checkpoint_name(h * s, "c"), sum(c));
               },
               x, array({0.5, 2.0, 1.0}))
        .first;
  };
  EXPECT_EQ(kept(f, policies::save_only_these_names({"h"})),
            (Names{"f32[4,4] from the argument [0]", "f32[8,4] from the argument [1]", "f32[3] from a constant",
                   "f32[3,8,4] named 'h'"}));
  EXPECT_EQ(count_of(region_of(f, {}), "tanh("), 1);
  EXPECT_EQ(count_of(region_of(f, policies::save_only_these_names({"h"})), "tanh("), 0);
}

// h takes 128 bytes, and a product of [8,4] by [4,4] is dearer than what is made of it.
TEST(Checkpoint, BudgetsAreSpentOnWhatIsDearest) {
  const Names arguments = {"f32[4,4] from the argument [0]", "f32[8,4] from the argument [1]"};
  const LayerFunction f = [](const Array& w, const Array& x) { return sin(exp(matmul(tanh(x), w))); };
  EXPECT_EQ(kept(f, policies::budget(127)), arguments);
  Names with_product = arguments;
  with_product.push_back("f32[8,4] output of exp");
  EXPECT_EQ(kept(f, policies::budget(128)), with_product);
}

TEST(Checkpoint, OffloadedValuesComeBack) {
  const std::string region = region_of(layer, offloaded({}, {"h"}));
  EXPECT_EQ(count_of(region, "tanh("), 0);
  EXPECT_EQ(count_of(region, "= to_memory("), 1);
  EXPECT_THAT(region, testing::HasSubstr("f32<pinned_host>[8,4]"));
}

TEST(Checkpoint, SecondDerivatives) {
  const Array w = sin(iota({3, 3}));
  const Array x = cos(iota({3, 3}));
  const auto second = [&](const LayerFunction& f) {
    const auto first = grad([f](const Array& a, const Array& b) { return sum(square(f(a, b))); });
    return jit(grad([first](const Array& a, const Array& b) { return sum(square(first(a, b))); }))(w, x);
  };
  const std::vector<float> expected = floats(second(layer));
  for (const auto& [name, policy] : all_policies()) {
    const LayerFunction with = [policy = policy](const Array& a, const Array& b) {
      return checkpoint(layer, {.policy = policy})(a, b);
    };
    const std::vector<float> made = floats(second(with));
    for (std::size_t i = 0; i < made.size(); ++i) EXPECT_NEAR(made[i], expected[i], 1e-4F) << name;
  }
}

TEST(Checkpoint, PoliciesAreAskedOnceForEachOperation) {
  std::vector<std::string> asked;
  const CheckpointPolicy policy([&](const CheckpointedOp& op) {
    asked.push_back(op.op + (op.name.empty() ? "" : " " + op.name));
    return policies::save_any_names_but_these({"g"}).decide(op);
  });
  EXPECT_EQ(kept(jit(layer), policy).size(), 3U);
  EXPECT_EQ(asked, (Names{"dot_general", "tanh", "checkpoint_name h", "dot_general", "sin", "checkpoint_name g"}));
}

TEST(Checkpoint, ErrorsSayWhatIsWrong) {
  EXPECT_EQ(message_of<InvalidArgument>([&] {
              offloaded({"a", "h"}, {"h"});
            }),
            "save_and_offload_only_these_names: name 'h' is in names_which_can_be_saved and in "
            "names_which_can_be_offloaded; it may be in one of them");
  EXPECT_EQ(message_of<InvalidArgument>([&] {
              policies::save_from_both_policies(policies::dots_saveable(), policies::offload_dot_with_no_batch_dims());
            }),
            "save_from_both_policies: a policy keeps values in another memory, and the other might keep the same ones "
            "where they are");
  EXPECT_EQ(message_of<InvalidArgument>([&] {
              policies::save_from_both_policies({}, CheckpointPolicy([](const CheckpointedOp&) { return true; }));
            }),
            "save_from_both_policies: a policy is a function; write one function that asks both");
  EXPECT_EQ(message_of<InvalidArgument>([&] { policies::budget(-1); }), "budget: bytes must be at least 0, got -1");
  EXPECT_THAT(message_of<InvalidArgument>([&] { policies::offload_dot_with_no_batch_dims("disk"); }),
              testing::HasSubstr("disk"));
}

TEST(Checkpoint, DerivativesOfShardMapKeepWhatIsNotLinear) {
  // Of three products with constants, a sum over devices and a sine, the derivative needs the argument of the sine
  // alone.
  const auto f = shard_map([](const Array& x, const Array& y) { return lax::psum(sin(x * 2.0) * 3.0, "i") + y * 4.0; },
                           {.mesh = mesh_8(), .in_specs = {P("i"), P()}, .out_specs = P()});
  Names lines;
  for (SavedResidual one : saved_residuals(f, ones({8}), ones({1}))) {
    one.where = {};
    lines.push_back(to_string(one));
  }
  EXPECT_EQ(lines, (Names{"f32[8,1] output of multiply"}));
}

TEST(Checkpoint, BudgetsAreNotAskedOfOneValue) {
  const CheckpointPolicy asking([](const CheckpointedOp& op) { return policies::budget(8).decide(op); });
  EXPECT_THAT(message_of<InvalidArgument>([&] {
                checkpoint(layer, {.policy = asking})(ones({4, 4}), ones({8, 4}));
              }),
              testing::HasSubstr("a policy with a budget decides of all values together"));
}

TEST(Checkpoint, ExplainsItself) {
  std::ostringstream text;
  text << saved_residuals([](const Array& x) { return sin(cos(x)) * array({1.f, 2.f}); }, ones({2}));
  EXPECT_THAT(text.str(), testing::MatchesRegex("f32\\[2\\] from the argument \\[0\\]\n"
                                                "f32\\[2\\] from a constant\n"
                                                "f32\\[2\\] output of cos from .*checkpoint_test.cc:[0-9]+\n"));
}

}  // namespace
}  // namespace shoal::test
