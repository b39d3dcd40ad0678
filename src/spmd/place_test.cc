// Placing, on graphs written as text: devices, grids, what is wanted of outputs, and what shardings say in the end.
#include "spmd/place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/table.h"
#include "sharding/default_place.h"
#include "shoal/error.h"
#include "spmd/propagate.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class Place : public ::testing::Test {
 protected:
  Place() { set_num_cpu_devices(8); }

  static Graph graph(std::string_view text) { return parse_graph(text, find_op); }
  static Mesh mesh(std::string_view text) { return std::get<Mesh>(parse_attr(text, find_op)); }

  // What is known of a graph with one input and one output.
  static Placing given(std::optional<Sharding> input, std::optional<Sharding> output = {}) {
    return {.inputs = {{.sharding = std::move(input), .label = "argument x"}},
            .outputs = {{.sharding = std::move(output), .label = "the result"}}};
  }

  static constexpr std::string_view kSine = R"(graph "f"(%0: f32[8,4]) {
  %1: f32[8,4] = sin(%0)
  return %1
})";

  // All that placing does before propagation.
  static std::string placed(std::string_view text, Placing& placing) {
    Graph traced = give_devices(graph(text), placing);
    choose_grid(traced, placing);
    Graph result = place(std::move(traced), placing);
    verify(result, "placed");
    return to_text(result);
  }

  const Mesh x2_ = mesh(R"(mesh("x"=2; devices 0, 1))");
  const Mesh x2y2_ = mesh(R"(mesh("x"=2, "y"=2; devices 0..3))");
};

TEST_F(Place, NothingNamesDevices) {
  Placing placing = given({});
  EXPECT_EQ(placed(kSine, placing), "on device 0\n" + std::string(kSine));
  EXPECT_FALSE(placing.committed);
  EXPECT_TRUE(placing.meshes.empty());
}

TEST_F(Place, AnInputOnOneDeviceNamesIt) {
  Placing placing = given(SingleDeviceSharding(devices()[3]));
  EXPECT_EQ(placed(kSine, placing), "on device 3\n" + std::string(kSine));
  EXPECT_TRUE(placing.committed);
}

TEST_F(Place, TheMeshOfTheProcessComesLast) {
  default_place().mesh = x2_;
  Placing nothing = given({});
  EXPECT_THAT(placed(kSine, nothing), HasSubstr(R"(on mesh("x"=2; devices 0, 1))"));
  Placing named = given(NamedSharding(x2y2_, P("y")));
  EXPECT_THAT(placed(kSine, named), HasSubstr(R"(on mesh("x"=2, "y"=2; devices 0..3))"));
  default_place() = {};
}

TEST_F(Place, WhatIsWantedOfOutputsBecomesEquations) {
  Placing placing = given({}, NamedSharding(x2_, P(none, "x"), {.memory_kind = kPinnedHostMemory}));
  EXPECT_EQ(placed(kSine, placing), R"(on mesh("x"=2; devices 0, 1)
graph "f"(%0: f32[8,4]) {
  %1: f32[8,4] = sin(%0)
  %2: f32<pinned_host>[8,4] = to_memory(%1) {memory = memory(pinned_host)}
  %3: f32<pinned_host>[8,4] = sharding_constraint(%2) {sharding = sharding(P(_, "x"), memory(pinned_host), mesh("x"=2; devices 0, 1))}
  return %3
})");
  Placing uneven = given({}, NamedSharding(x2_, P("x")));
  EXPECT_THROW(placed(R"(graph "f"(%0: f32[3]) {
  return %0
})",
                      uneven),
               IndivisibleError);
}

TEST_F(Place, RegionsAreOpened) {
  Placing placing = given({});
  EXPECT_EQ(placed(R"(graph "f"(%0: f32[8]) {
  %1: f32[8] = shard_map(%0) {axes = ["x"], body = graph "body" over("x"=2)(%0: f32[4]{V:x}) {
      %1: f32[4]{V:x} = sin(%0)
      return %1
    }, in_specs = specs(P("x")), mesh = mesh("x"=2; devices 0, 1), out_specs = specs(P("x"))}
  return %1
})",
                   placing),
            R"(on mesh("x"=2; devices 0, 1)
graph "f"(%0: f32[8]) {
  %1: f32[8] = sharding_constraint(%0) {sharding = sharding(P("x"), memory(device), mesh("x"=2; devices 0, 1))}
  %2: f32[4] manual(x) = enter_manual(%1) {axes = ["x"], sharding = sharding(P("x"), memory(device), mesh("x"=2; devices 0, 1))}
  %3: f32[4] manual(x) = sin(%2)
  %4: f32[8] = leave_manual(%3) {axes = ["x"], sharding = sharding(P("x"), memory(device), mesh("x"=2; devices 0, 1))}
  return %4
})");
}

TEST_F(Place, AbstractMeshesGetDevices) {
  constexpr std::string_view kConstrained = R"(graph "f"(%0: f32[8]) {
  %1: f32[8] = sharding_constraint(%0) {sharding = sharding(P("x"), memory(device), mesh("x"=2))}
  return %1
})";
  Placing from_input = given(NamedSharding(mesh(R"(mesh("i"=2; devices 4, 5))"), P("i")));
  EXPECT_THAT(placed(kConstrained, from_input), HasSubstr(R"(mesh("x"=2; devices 4, 5))"));
  Placing from_caller = given({});
  from_caller.devices = {devices()[6], devices()[7]};
  EXPECT_THAT(placed(kConstrained, from_caller), HasSubstr(R"(mesh("x"=2; devices 6, 7))"));
  EXPECT_THAT(
      [&] {
        Placing nowhere = given({});
        placed(kConstrained, nowhere);
      },
      ThrowsMessage<InvalidArgument>(HasSubstr("has no devices, and no array or mesh names any")));
  EXPECT_THAT(
      [&] {
        Placing others = given(NamedSharding(x2y2_, P("x")));
        placed(kConstrained, others);
      },
      ThrowsMessage<InvalidArgument>(HasSubstr("stands for 2 devices, but this is to run on devices 0..3")));
}

TEST_F(Place, AllMustNameTheSameDevices) {
  EXPECT_THAT(
      [&] {
        Placing placing = given(SingleDeviceSharding(devices()[3]), NamedSharding(x2_, P("x")));
        placed(kSine, placing);
      },
      ThrowsMessage<InvalidArgument>(HasSubstr("argument x lies on device 3, but the result lies on devices 0..1")));
  EXPECT_THAT(
      [&] {
        Placing placing = given(NamedSharding(mesh(R"(mesh("a"=2, "b"=3; devices 0..5))"), P("a")),
                                NamedSharding(mesh(R"(mesh("a"=3, "b"=2; devices 0..5))"), P(none, "b")));
        placed(kSine, placing);
      },
      ThrowsMessage<Unsupported>(HasSubstr("cannot be divided into the same parts")));
}

TEST_F(Place, InputsOnTheGridAreFixed) {
  Placing placing = given(NamedSharding(x2y2_, P("y", "x")));
  const Graph traced = graph(kSine);
  choose_grid(traced, placing);
  const Graph result = place(traced, placing);
  const auto fixed = fixed_inputs(result, placing);
  ASSERT_TRUE(fixed[0].has_value());
  EXPECT_EQ(to_string(*placing.grid, *fixed[0]), "[y, x]");
  placing.inputs[0].sharding = std::nullopt;
  EXPECT_FALSE(fixed_inputs(result, placing)[0].has_value());
}

TEST_F(Place, OutputsGetShardings) {
  Placing placing = given(NamedSharding(x2y2_, P("y", "x")));
  const Graph traced = graph(kSine);
  choose_grid(traced, placing);
  Graph result = propagate(place(traced, placing), fixed_inputs(traced, placing));
  settle_outputs(result, placing);
  settle_inputs(result, placing);
  EXPECT_EQ(placing.output_shardings[0], Sharding(NamedSharding(x2y2_, P("y", "x"))));
  EXPECT_EQ(placing.input_shardings[0], placing.output_shardings[0]);
  EXPECT_EQ(to_string(*placing.grid, placing.input_placements[0]), "[y, x]");
}

TEST_F(Place, WhatNoSpecExpressesIsDropped) {
  Placing placing = given(NamedSharding(x2y2_, P("x")));
  choose_grid(graph(kSine), placing);
  const Grid& grid = *placing.grid;
  const Type type{.dtype = float32, .shape = {2, 4}};
  std::vector<Atoms> fits = {grid.atoms_of("x"), grid.atoms_of("y")};
  EXPECT_EQ(express(type, placing, fits), Sharding(NamedSharding(x2y2_, P("x", "y"))));
  // Two elements cannot be divided by four.
  std::vector<Atoms> too_many = {grid.atoms_of(std::vector<std::string>{"x", "y"}), {}};
  EXPECT_EQ(express(type, placing, too_many), Sharding(NamedSharding(x2y2_, P("x"))));
  EXPECT_EQ(too_many[0], grid.atoms_of("x"));
}

TEST_F(Place, ABodyInARegionSeesShards) {
  Placing placing = given(NamedSharding(x2y2_, P("x")));
  choose_grid(graph(kSine), placing);
  const AtomSet x(placing.grid->atoms_of("x"));
  const AtomSet all(placing.grid->atoms_of(std::vector<std::string>{"x", "y"}));
  const Graph body = graph(R"(graph "body" over("x"=2, "y"=2)(%0: f32[4]{V:x}) {
  %1: f32[4] = all_reduce(%0) {axes = ["x"], kind = "sum"}
  return %1
})");
  const Graph result = place_in_region(body, placing.grid, {.mesh = x2y2_, .manual = all, .varying = {x}});
  verify(result, "placed");
  EXPECT_EQ(to_text(result), R"(on mesh("x"=2, "y"=2; devices 0..3)
graph "body"(%0: f32[4] manual(x, y) varying(x)) {
  %1: f32[4] manual(x, y) = all_reduce(%0) {axes = ["x"], kind = "sum"}
  return %1
})");
}

}  // namespace
}  // namespace shoal
