// Sorting by enumeration: the place of an element is the number of elements that come before it. Blocks travel round a
// ring twice: once to be counted against, and once, with their places, to be picked from.
#include <algorithm>

#include "support.h"

namespace shoal::programs {
namespace {

TEST(DistributedSort, BlocksTravelRoundARing) {
  constexpr int kDevices = 8;
  constexpr std::int64_t kBlock = 25;
  const Mesh mesh = make_mesh({kDevices}, {"i"});
  std::vector<std::pair<int, int>> to_the_left;
  for (int i = 0; i < kDevices; ++i) to_the_left.emplace_back(i, (i + kDevices - 1) % kDevices);

  const auto sorted = jit(shard_map(
                              [&](const Array& block) {
                                const Array here = lax::axis_index("i") * kBlock;
                                const Array own = expand_dims(block, 1);
                                const Array own_index =
                                    expand_dims(here + arange(kBlock), 1);  // Decides between equal elements.
                                Array place = zeros({kBlock}, {.dtype = int32});
                                Array other = block;
                                Array other_start = here;
                                for (int step = 0; step < kDevices; ++step) {
                                  const Array index = other_start + arange(kBlock);
                                  const Array before = (other < own) | ((other == own) & (index < own_index));
                                  place = place + before.astype(int32).sum(1);
                                  if (step + 1 == kDevices) break;
                                  other = lax::ppermute(other, "i", to_the_left);
                                  other_start = lax::ppermute(other_start, "i", to_the_left);
                                }
                                Array result = zeros({kBlock});
                                other = block;
                                for (int step = 0; step < kDevices; ++step) {
                                  const Array lands_here = place == expand_dims(here + arange(kBlock), 1);
                                  result = result + where(lands_here, other, 0).sum(1);
                                  if (step + 1 == kDevices) break;
                                  other = lax::ppermute(other, "i", to_the_left);
                                  place = lax::ppermute(place, "i", to_the_left);
                                }
                                return result;
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
  // Elements travel a second time as they did the first time, which is not done again.
  EXPECT_EQ(collectives_in(text), (Collectives{{"collective_permute", 3 * (kDevices - 1)}})) << text;
  EXPECT_EQ(largest_on_a_device(text), kBlock * kBlock) << text;
}

}  // namespace
}  // namespace shoal::programs
