// Random graphs give the oracle's values whatever the mesh, the constraints and the shardings.
//
// SHOAL_PARITY_SEED is the first seed (default 1) and SHOAL_PARITY_ROUNDS multiplies the number of graphs, for long
// runs.
#include "random_graphs.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <iostream>

#include "base/env.h"
#include "ops/table.h"

namespace shoal::parity {
namespace {

// A failure shrinks to one of the same kind: another value, or the same sort of exception.
std::string kind_of(const std::optional<std::string>& failure) {
  constexpr std::size_t kLength = 24;
  return failure ? failure->substr(0, failure->starts_with("exception") ? kLength : 6) : "";
}

TEST(RandomGraphs, GiveTheValuesOfTheOracle) {
  const auto first = static_cast<std::uint64_t>(env_int("SHOAL_PARITY_SEED", 0, 1'000'000'000).value_or(1));
  const std::int64_t count = 2'000 * env_int("SHOAL_PARITY_ROUNDS", 1, 1'000'000).value_or(1);
  std::int64_t equations = 0;
  int failures = 0;
  for (std::int64_t i = 0; i < count && failures < 3; ++i) {
    const std::uint64_t seed = first + static_cast<std::uint64_t>(i);
    const Case test = random_case(seed);
    equations += static_cast<std::int64_t>(test.graph.eqns.size());
    EXPECT_TRUE(graphs_equal(parse_graph(to_text(test.graph), find_op), test.graph)) << "seed " << seed;
    const std::string kind = kind_of(failure_of(test));
    if (kind.empty()) continue;
    ++failures;
    const Case small = shrink(test, [&](const Case& one) { return kind_of(failure_of(one)) == kind; });
    ADD_FAILURE() << "seed " << seed << ": " << failure_of(small).value_or("") << "\n" << to_text(small);
  }
  std::cout << fmt::format("{} graphs with {} equations, seeds from {}\n", count, equations, first);
}

}  // namespace
}  // namespace shoal::parity
