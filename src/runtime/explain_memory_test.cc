// What is told of a program's memory adds up to what the plan takes.
#include "runtime/explain_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/test_support.h"

namespace shoal {
namespace {

using test_support::GraphOfShards;
using test_support::grid_of;
using test_support::RandomProgram;

// What the lines say: a number that belongs to those that are indented below it.
struct Told {
  std::size_t total = 0;
  std::size_t arena = 0;
  std::vector<std::size_t> in_arena = {};
  std::size_t outputs = 0;
  std::vector<std::size_t> in_outputs = {};
  std::size_t rest = 0;
};

Told told(const std::string& text) {
  Told made;
  std::istringstream lines(text);
  std::string line;
  bool of_outputs = false;
  while (std::getline(lines, line)) {
    std::smatch found;
    if (std::regex_match(line, found, std::regex("'main' takes ([0-9]+) bytes, and [0-9]+ for its arguments"))) {
      made.total = std::stoul(found[1]);
    } else if (std::regex_match(line, found, std::regex("([0-9]+) bytes in one piece; .*"))) {
      made.arena = std::stoul(found[1]);
    } else if (std::regex_match(line, found, std::regex("([0-9]+) bytes of outputs"))) {
      made.outputs = std::stoul(found[1]);
      of_outputs = true;
    } else if (std::regex_match(line, found, std::regex("  ([0-9]+) .*"))) {
      (of_outputs ? made.in_outputs : made.in_arena).push_back(std::stoul(found[1]));
    } else if (std::regex_match(line, found, std::regex("([0-9]+) bytes at the end of .*"))) {
      made.rest = std::stoul(found[1]);
    } else {
      ADD_FAILURE() << line;
    }
  }
  return made;
}

std::size_t sum(const std::vector<std::size_t>& numbers) {
  std::size_t total = 0;
  for (const std::size_t one : numbers) total += one;
  return total;
}

TEST(ExplainMemory, AddsUpToWhatALaunchTakes) {
  for (std::uint32_t seed = 1; seed <= 40; ++seed) {
    RandomProgram program(seed, grid_of(seed % 2 == 0 ? Shape{2, 3} : Shape{4}));
    Graph graph = program.graph();
    const Executable executable(graph, cpu_backend());
    const std::string text = explain_memory(executable);
    const Told made = told(text);
    EXPECT_EQ(made.total, executable.launch_bytes()) << text;
    EXPECT_EQ(made.total, made.arena + made.outputs + made.rest) << text;
    EXPECT_EQ(made.arena, sum(made.in_arena)) << text;
    EXPECT_EQ(made.outputs, sum(made.in_outputs)) << text;
  }
}

// Each sum is needed again, last first.
TEST(ExplainMemory, SaysWhoNeedsAValueAndWhatItCosts) {
  constexpr std::int64_t kExtent = 1 << 12;
  GraphOfShards g(grid_of({1}));
  // Not where its operand lies.
  const auto reversed = [&](ValueId x) { return g.add("reverse", {{"dims", Dims{0}}}, {x}, {kExtent}, {}); };
  const ValueId first = reversed(g.input({kExtent}, {}));
  const ValueId second = reversed(first);
  const ValueId third = reversed(second);
  g.graph().outputs = {reversed(g.add("multiply", g.add("multiply", third, second), first))};
  const std::string text = explain_memory(Executable(g.graph(), cpu_backend()));
  EXPECT_THAT(text, testing::ContainsRegex("\n  16384 i32\\[4096\\] of reverse at [^\n]*, next needed by multiply at "
                                           "[^\n]*; 1 step computes it again, in the time of moving [0-9]+ bytes\n"));
}

// What exchanges something runs once, and a value that is read where most is held is priced, too.
TEST(ExplainMemory, SaysWhatCannotBeComputedAgain) {
  constexpr std::int64_t kExtent = 1 << 12;
  GraphOfShards g(grid_of({2}));
  const AtomSet all = test_support::all_atoms(*g.graph().grid);
  const ValueId x = g.input({kExtent}, all);
  Attrs sum = g.along({0});
  sum.set("kind", std::string("sum"));
  const ValueId total = g.add("all_reduce", std::move(sum), {x}, {kExtent}, {});
  const auto sums = [&](ValueId id) {
    return g.add("cumsum", {{"dim", std::int64_t{0}}, {"reverse", false}}, {id}, {kExtent}, {});
  };
  const ValueId first = sums(total);
  const ValueId second = sums(first);
  g.graph().outputs = {sums(g.add("multiply", g.add("multiply", sums(second), first), total))};
  const std::string text = explain_memory(Executable(g.graph(), cpu_backend()));
  EXPECT_THAT(text, testing::HasSubstr("; it cannot be computed again: all_reduce at "));
  EXPECT_THAT(text, testing::ContainsRegex("of cumsum at [^\n]*, next needed by [^\n]*; [0-9]+ step"));
}

}  // namespace
}  // namespace shoal
