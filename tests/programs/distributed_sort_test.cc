// Sorting by odd-even transposition of blocks (Baudet and Stevenson, 1978): each device sorts its own block; then in as
// many rounds as there are devices, neighbours exchange blocks, and the one on the left keeps the lesser half.
#include <algorithm>

#include "support.h"

namespace shoal::programs {
namespace {

TEST(DistributedSort, NeighboursExchangeBlocks) {
  constexpr int kDevices = 8;
  constexpr std::int64_t kBlock = 25;
  const Mesh mesh = make_mesh({kDevices}, {"i"});

  const auto sorted = jit(shard_map(
                              [&](Array block) {
                                const Array here = lax::axis_index("i");
                                block = sort(block);
                                for (int round = 0; round < kDevices; ++round) {
                                  std::vector<std::pair<int, int>> swaps;
                                  for (int left = round % 2; left + 1 < kDevices; left += 2) {
                                    swaps.emplace_back(left, left + 1);
                                    swaps.emplace_back(left + 1, left);
                                  }
                                  const Array theirs = lax::ppermute(block, "i", swaps);
                                  const Array both = sort(concatenate({block, theirs}));
                                  const Array on_the_left = (here + round) % 2 == 0;
                                  const Array kept = where(on_the_left, both[range(0, kBlock)], both[range(kBlock)]);
                                  // The first and the last device may have no partner in a round.
                                  const Array partner = where(on_the_left, here + 1, here - 1);
                                  block = where((partner >= 0) & (partner < kDevices), kept, block);
                                }
                                return block;
                              },
                              {.mesh = mesh, .in_specs = P("i"), .out_specs = P("i")}),
                          {.name = "sorted"});

  std::vector<double> expected = random_matrix(kDevices, kBlock, 6).elements;
  for (std::size_t i = 0; i < expected.size(); i += 7) expected[i] = 0.25;  // Equal elements too.
  const std::vector<float> elements(expected.begin(), expected.end());
  const Array x = device_put(array(elements), NamedSharding(mesh, P("i")));
  std::sort(expected.begin(), expected.end());
  expect_near(sorted(x), expected, 0);

  const std::string text = sorted.lower(x).compile().as_text();
  EXPECT_EQ(collectives_in(text), (Collectives{{"collective_permute", kDevices}})) << text;
  EXPECT_EQ(largest_on_a_device(text), 2 * kBlock) << text;
}

}  // namespace
}  // namespace shoal::programs
