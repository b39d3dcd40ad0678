#include "base/cpu_count.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <thread>

namespace shoal {
namespace {

namespace fs = std::filesystem;

/// A folder that plays the mount of the control groups.
class CgroupQuota : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(mount_); }
  void TearDown() override { fs::remove_all(mount_); }

  void write(const fs::path& file, const std::string& text) const {
    fs::create_directories((mount_ / file).parent_path());
    std::ofstream(mount_ / file) << text;
  }

  const fs::path mount_ = fs::temp_directory_path() / ("shoal_cgroup_test_" + std::to_string(getpid()));
};

TEST_F(CgroupQuota, NoQuotaAnywhere) {
  EXPECT_EQ(cgroup_cpu_quota("", mount_), std::nullopt);
  EXPECT_EQ(cgroup_cpu_quota("0::/job\n", mount_), std::nullopt);
  write("job/cpu.max", "max 100000\n");
  EXPECT_EQ(cgroup_cpu_quota("0::/job\n", mount_), std::nullopt);
}

TEST_F(CgroupQuota, Version2RoundsUp) {
  write("job/cpu.max", "150000 100000\n");
  EXPECT_EQ(cgroup_cpu_quota("0::/job\n", mount_), 2);
  write("job/cpu.max", "10000 100000\n");
  EXPECT_EQ(cgroup_cpu_quota("0::/job\n", mount_), 1);
}

TEST_F(CgroupQuota, TightestGroupOnTheWayUpCounts) {
  write("slice/cpu.max", "300000 100000\n");
  write("slice/job/cpu.max", "800000 100000\n");
  EXPECT_EQ(cgroup_cpu_quota("0::/slice/job\n", mount_), 3);
}

TEST_F(CgroupQuota, ContainerSeesItsGroupAsTheRoot) {
  write("cpu.max", "400000 100000\n");
  EXPECT_EQ(cgroup_cpu_quota("0::/host/only/path\n", mount_), 4);
}

TEST_F(CgroupQuota, Version1) {
  const std::string membership = "5:memory:/job\n4:cpuset:/job\n3:cpu,cpuacct:/job\n0::/\n";
  write("cpu,cpuacct/job/cpu.cfs_quota_us", "500000\n");
  write("cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cgroup_cpu_quota(membership, mount_), 5);
  write("cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(cgroup_cpu_quota(membership, mount_), std::nullopt);
}

TEST(UsableCpuCount, FollowsTheAffinityMask) {
  EXPECT_GE(usable_cpu_count(), 1);
  int count = 0;
  std::thread([&count] {  // a thread of its own, whose mask nobody else uses
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(sched_getcpu()), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    count = usable_cpu_count();
  })
      .join();
  EXPECT_EQ(count, 1);
}

}  // namespace
}  // namespace shoal
