#include "passes/update_last.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "ops/table.h"

namespace shoal {
namespace {

std::string reordered(std::string_view text) {
  const Graph graph = parse_graph(text, find_op);
  verify(graph, "fused");
  const Graph result = update_last(graph);
  verify(result, "reordered");
  EXPECT_EQ(to_text(update_last(result)), to_text(result)) << "once is enough";
  return to_text(result);
}

// The order in which results are made, as their numbers.
std::string order_of(std::string_view text) {
  std::string order;
  const std::string made = reordered(text);
  for (std::size_t at = made.find("\n  %"); at != std::string::npos; at = made.find("\n  %", at + 1)) {
    order += made.substr(at + 3, made.find(':', at) - at - 3) + " ";
  }
  return order;
}

constexpr std::string_view kWindow = "{extents = (8, 2), sizes = (1, 2), window = (1, 2)}";
constexpr std::string_view kUpdate = "{extents = (8, 2), window = (1, 2)}";

std::string graph_of(std::string_view body) {
  std::string text = "graph \"f\"(%0: f32[8,2], %1: f32[1,2], %2: i32[], %3: i32[]) {\n" + std::string(body) + "}\n";
  for (const auto& [name, attrs] : {std::pair("WINDOW", kWindow), std::pair("UPDATE", kUpdate)}) {
    for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name)) {
      text.replace(at, std::string_view(name).size(), attrs);
    }
  }
  return text;
}

// Those that come after the update though they need the old array alone, with what they need: but not what is made of
// them.
TEST(UpdateLast, ReadersComeBefore) {
  EXPECT_EQ(order_of(graph_of(R"(  %4: f32[8,2] = dynamic_update_slice(%0, %1, %2, %3) UPDATE
  %5: i32[] = add(%2, %3)
  %6: i32[] = multiply(%2, %3)
  %7: f32[1,2] = dynamic_slice(%0, %5, %3) WINDOW
  %8: f32[1,2] = add(%7, %1)
  return %4, %8, %6
)")),
            "%5 %7 %4 %6 %8 ");
}

// Of an array that is read under another shape, too.
TEST(UpdateLast, ReadersOfTheSameBytes) {
  EXPECT_EQ(order_of(graph_of(R"(  %4: f32[4,4] = reshape(%0) {shape = (4, 4)}
  %5: f32[8,2] = dynamic_update_slice(%0, %1, %2, %3) UPDATE
  %6: f32[4] = reduce_sum(%4) {axes = (0)}
  return %5, %6
)")),
            "%4 %6 %5 ");
}

// Several updates of one array, each with readers of what it updates.
TEST(UpdateLast, OneAfterTheOther) {
  EXPECT_EQ(order_of(graph_of(R"(  %4: f32[8,2] = dynamic_update_slice(%0, %1, %2, %3) UPDATE
  %5: f32[8,2] = dynamic_update_slice(%4, %1, %3, %3) UPDATE
  %6: f32[1,2] = dynamic_slice(%4, %2, %3) WINDOW
  %7: f32[1,2] = dynamic_slice(%0, %2, %3) WINDOW
  return %5, %6, %7
)")),
            "%7 %4 %6 %5 ");
}

// Where there is nothing to win: the array leaves, or a reader needs the update, too, or is an update itself.
TEST(UpdateLast, WhatHasToBeCopiedStaysWhereItIs) {
  EXPECT_EQ(order_of(graph_of(R"(  %4: f32[8,2] = dynamic_update_slice(%0, %1, %2, %3) UPDATE
  %5: f32[1,2] = dynamic_slice(%0, %2, %3) WINDOW
  return %4, %5, %0
)")),
            "%4 %5 ");
  EXPECT_EQ(order_of(graph_of(R"(  %4: f32[8,2] = dynamic_update_slice(%0, %1, %2, %3) UPDATE
  %5: f32[8,2] = add(%0, %4)
  return %4, %5
)")),
            "%4 %5 ");
  EXPECT_EQ(order_of(graph_of(R"(  %4: f32[8,2] = dynamic_update_slice(%0, %1, %2, %3) UPDATE
  %5: f32[8,2] = dynamic_update_slice(%0, %1, %3, %3) UPDATE
  return %4, %5
)")),
            "%4 %5 ");
}

// What would make more than a copy of the array.
TEST(UpdateLast, WhatIsLargerThanACopyStays) {
  EXPECT_EQ(order_of(graph_of(R"(  %4: f32[8,2] = dynamic_update_slice(%0, %1, %2, %3) UPDATE
  %5: f32[3,8,2] = broadcast_in_dim(%0) {dims = (1, 2), shape = (3, 8, 2)}
  return %4, %5
)")),
            "%4 %5 ");
}

// The user's program is called in the order of its lines.
TEST(UpdateLast, EffectsStay) {
  EXPECT_EQ(order_of(graph_of(R"(  %4: f32[8,2] = dynamic_update_slice(%0, %1, %2, %3) UPDATE
  debug_callback(%0) {callback = callback(1)}
  %5: f32[1,2] = dynamic_slice(%0, %2, %3) WINDOW
  return %4, %5
)")),
            "%4 %5 ");
}

// A loop that updates its carry is an update of what it begins with, and its body is put in order, too.
TEST(UpdateLast, OfLoops) {
  const std::string made = reordered(graph_of(
      R"(  %4: f32[8,2], %5: f32[3,1,2] = scan(%0, %1, %2) {bodies = graphs(graph "body"(%0: f32[8,2], %1: f32[1,2], %2: i32[]) {
      %3: f32[8,2] = dynamic_update_slice(%0, %1, %2, %2) UPDATE
      %4: f32[1,2] = dynamic_slice(%0, %2, %2) WINDOW
      return %3, %4
    }), carries = 1, length = 3, reverse = false, slices = 0}
  %6: f32[1,2] = dynamic_slice(%0, %2, %3) WINDOW
  return %4, %5, %6
)"));
  EXPECT_LT(made.find("\n      %4: f32[1,2]"), made.find("\n      %3: f32[8,2]")) << made;
  EXPECT_LT(made.find("\n  %6: f32[1,2]"), made.find("\n  %4: f32[8,2]")) << made;
}

}  // namespace
}  // namespace shoal
