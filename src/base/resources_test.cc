#include "base/resources.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <string>
#include <thread>

namespace shoal {
namespace {

/// A process that may use these cores.
Resources on(std::vector<std::size_t> cpus, const std::string& machine = "a") {
  Resources process{.machine = machine, .cpus = {}, .cpu_limits = {}, .memory_limits = {{"machine", 1000}}};
  for (const std::size_t cpu : cpus) {
    process.cpus.resize(std::max(process.cpus.size(), cpu / 8 + 1), '\0');
    process.cpus[cpu / 8] = static_cast<char>(process.cpus[cpu / 8] | 1 << cpu % 8);
  }
  return process;
}

std::vector<int> cpus_of(const std::vector<Resources>& all) {
  std::vector<int> counts;
  for (std::size_t i = 0; i < all.size(); ++i) counts.push_back(share_of(all, i).cpus);
  return counts;
}

std::vector<std::size_t> memory_of(const std::vector<Resources>& all) {
  std::vector<std::size_t> bytes;
  for (std::size_t i = 0; i < all.size(); ++i) bytes.push_back(share_of(all, i).memory);
  return bytes;
}

using Counts = std::vector<int>;
using Bytes = std::vector<std::size_t>;

TEST(ShareOf, OneProcessHasAll) {
  EXPECT_EQ(share_of({on({0, 1, 2, 9, 700})}, 0), (Share{5, 1000}));
  EXPECT_EQ(share_of({on({})}, 0).cpus, 1);
}

TEST(ShareOf, CommonCoresAreDivided) {
  EXPECT_EQ(cpus_of({on({0, 1, 2, 3}), on({0, 1, 2, 3})}), (Counts{2, 2}));
  EXPECT_EQ(cpus_of({on({0, 1, 2, 3, 4}), on({0, 1, 2, 3, 4}), on({0, 1, 2, 3, 4})}), (Counts{2, 2, 1}));
  EXPECT_EQ(cpus_of({on({0, 1}), on({0, 1}), on({0, 1}), on({0, 1})}), (Counts{1, 1, 1, 1}));
}

// As srun and mpirun bind them.
TEST(ShareOf, CoresOfOneProcessAloneAreNot) {
  EXPECT_EQ(cpus_of({on({0, 1}), on({2, 3, 4}), on({8})}), (Counts{2, 3, 1}));
  EXPECT_EQ(cpus_of({on({0, 1, 2, 3}), on({0, 1})}), (Counts{2, 2}));
  EXPECT_EQ(cpus_of({on({0, 1}), on({0, 1, 2, 3})}), (Counts{2, 2}));
  EXPECT_EQ(cpus_of({on({0, 1, 2, 3}), on({0, 1, 2, 3}), on({4, 5}), on({4, 5})}), (Counts{2, 2, 1, 1}));
}

TEST(ShareOf, MachinesHaveCoresAndMemoryOfTheirOwn) {
  const std::vector<Resources> all = {on({0, 1}, "a"), on({0, 1}, "b"), on({0, 1}, "a")};
  EXPECT_EQ(cpus_of(all), (Counts{1, 2, 1}));
  EXPECT_EQ(memory_of(all), (Bytes{500, 1000, 500}));
}

TEST(ShareOf, AQuotaIsDividedAmongThoseItHoldsFor) {
  std::vector<Resources> all(3, on({0, 1, 2, 3, 4, 5, 6, 7, 8}));
  all[0].cpu_limits = {{"x", 1.5}};
  EXPECT_EQ(cpus_of(all), (Counts{2, 3, 3}));
  all[1].cpu_limits = {{"x", 1.5}};
  EXPECT_EQ(cpus_of(all), (Counts{1, 1, 3}));
  // The tightest of nested ones counts.
  all[0].cpu_limits = {{"x", 1.5}, {"outer", 5}};
  all[1].cpu_limits = {{"y", 8}, {"outer", 5}};
  all[2].cpu_limits = {{"outer", 5}};
  EXPECT_EQ(cpus_of(all), (Counts{2, 2, 1}));
}

TEST(ShareOf, AMemoryLimitIsDividedAmongThoseItHoldsFor) {
  std::vector<Resources> all(2, on({0}));
  EXPECT_EQ(memory_of(all), (Bytes{500, 500}));
  all[0].memory_limits.push_back({"x", 300});
  EXPECT_EQ(memory_of(all), (Bytes{300, 500}));
  all[1].memory_limits.push_back({"y", 800});
  EXPECT_EQ(memory_of(all), (Bytes{300, 500}));
  all[0].memory_limits.push_back({"outer", 500});
  all[1].memory_limits.push_back({"outer", 500});
  EXPECT_EQ(memory_of(all), (Bytes{250, 250}));
}

TEST(OwnResources, AreThoseOfTheSystem) {
  const Resources own = own_resources();
  EXPECT_FALSE(own.machine.empty());
  EXPECT_EQ(own.memory_limits.back().amount,
            static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE)));
  EXPECT_GT(usable_memory(), 0U);
  EXPECT_LE(static_cast<double>(usable_memory()), own.memory_limits.back().amount);
}

TEST(OwnResources, FollowTheAffinityMask) {
  EXPECT_GE(usable_cpu_count(), 1);
  int count = 0;
  std::string cpus;
  const auto core = static_cast<std::size_t>(sched_getcpu());
  std::thread([&] {  // a thread of its own, whose mask nobody else uses
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    count = usable_cpu_count();
    cpus = own_resources().cpus;
  })
      .join();
  EXPECT_EQ(count, 1);
  EXPECT_EQ(cpus, on({core}).cpus);
}

TEST(KeepToShare, BoundsWhatIsUsable) {
  // In a process of its own: the share of this one stays as it is.
  EXPECT_EXIT(
      {
        const std::size_t memory = usable_memory();
        keep_to_share({1, memory / 3});
        const bool is_bound = usable_cpu_count() == 1 && usable_memory() == memory / 3;
        keep_to_share({1 << 20, 2 * memory});
        const bool stays = usable_cpu_count() == share_of({own_resources()}, 0).cpus && usable_memory() == memory;
        _exit(is_bound && stays ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace shoal
