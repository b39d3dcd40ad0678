#include "base/control_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace shoal {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<double> amounts(const std::vector<GroupLimit>& limits) {
  std::vector<double> all;
  for (const GroupLimit& limit : limits) all.push_back(limit.amount);
  return all;
}

/// Folders that play those in which the system shows control groups.
class ControlGroupsTest : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const fs::path& file, const std::string& text) const {
    fs::create_directories((folder_ / file).parent_path());
    std::ofstream(folder_ / file) << text;
  }

  /// A line of /proc/self/mountinfo.
  std::string mounted(const std::string& root, const std::string& at, const std::string& type,
                      const std::string& options) const {
    return "35 24 0:30 " + root + " " + (folder_ / at).string() + " rw,nosuid shared:9 - " + type + " " + type + " " +
           options + "\n";
  }
  /// Version 2 alone, as most systems have it.
  std::string v2() const { return "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n" + mounted("/", "", "cgroup2", "rw"); }
  std::string v1() const {
    return mounted("/", "cpu,cpuacct", "cgroup", "rw,cpu,cpuacct") + mounted("/", "memory", "cgroup", "rw,memory") +
           mounted("/", "systemd", "cgroup", "rw,xattr,name=systemd");
  }

  const fs::path folder_ = fs::temp_directory_path() / ("shoal_cgroup_test_" + std::to_string(getpid()));
};

TEST_F(ControlGroupsTest, NoLimitAnywhere) {
  for (const std::string membership : {"", "0::/\n", "0::/job\n", "nonsense\n", "0::\n"}) {
    for (const std::string& mounts : {std::string(), v2(), std::string("nonsense\n1 2 3 - cgroup2 x y\n")}) {
      EXPECT_THAT(ControlGroups(membership, mounts).cpu_limits(), IsEmpty());
      EXPECT_THAT(ControlGroups(membership, mounts).memory_limits(), IsEmpty());
    }
  }
  write("job/cpu.max", "max 100000\n");
  write("job/memory.max", "max\n");
  EXPECT_THAT(ControlGroups("0::/job\n", v2()).cpu_limits(), IsEmpty());
  EXPECT_THAT(ControlGroups("0::/job\n", v2()).memory_limits(), IsEmpty());
}

TEST_F(ControlGroupsTest, Version2FromTheInnermostGroupOutwards) {
  write("cpu.max", "900000 100000\n");  // The root of a container has limits.
  write("memory.max", "9000\n");
  write("slice/cpu.max", "300000 100000\n");
  write("slice/memory.max", "max\n");
  write("slice/job/cpu.max", "50000 100000\n");
  write("slice/job/memory.max", "4096\n");
  write("other/memory.max", "1\n");
  const ControlGroups groups("0::/slice/job\n", v2());
  EXPECT_THAT(amounts(groups.cpu_limits()), ElementsAre(0.5, 3, 9));
  EXPECT_THAT(amounts(groups.memory_limits()), ElementsAre(4096, 9000));
  EXPECT_THAT(amounts(ControlGroups("0::/slice\n", v2()).cpu_limits()), ElementsAre(3, 9));
}

TEST_F(ControlGroupsTest, Version1HasAFolderForEachController) {
  const std::string membership = "5:memory:/slice/job\n4:cpuset:/job\n3:cpu,cpuacct:/job\n1:name=systemd:/job\n";
  write("cpu,cpuacct/job/cpu.cfs_quota_us", "500000\n");
  write("cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  write("cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  write("cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  write("memory/slice/job/memory.limit_in_bytes", "9223372036854771712\n");  // The kernel's word for no limit.
  write("memory/slice/memory.limit_in_bytes", "1073741824\n");
  write("memory/memory.limit_in_bytes", "9223372036854771712\n");
  const ControlGroups groups(membership, v1());
  EXPECT_THAT(amounts(groups.cpu_limits()), ElementsAre(5));
  EXPECT_THAT(amounts(groups.memory_limits()), ElementsAre(1073741824));
}

TEST_F(ControlGroupsTest, BothVersionsAtOnce) {
  write("memory/job/memory.limit_in_bytes", "700\n");
  write("unified/job/cpu.max", "200000 100000\n");
  write("unified/job/memory.max", "500\n");
  const ControlGroups groups("7:memory:/job\n0::/job\n", v1() + mounted("/", "unified", "cgroup2", "rw"));
  EXPECT_THAT(amounts(groups.cpu_limits()), ElementsAre(2));
  EXPECT_THAT(amounts(groups.memory_limits()), ElementsAre(700, 500));
}

// What is mounted may begin at the group of the container, and its name inside may be that outside.
TEST_F(ControlGroupsTest, Containers) {
  write("memory.max", "4096\n");
  write("inner/memory.max", "1024\n");
  const auto limits = [&](const std::string& membership, const std::string& root) {
    return amounts(ControlGroups(membership, mounted(root, "", "cgroup2", "rw")).memory_limits());
  };
  EXPECT_THAT(limits("0::/docker/ab12\n", "/docker/ab12"), ElementsAre(4096));
  EXPECT_THAT(limits("0::/docker/ab12/inner\n", "/docker/ab12"), ElementsAre(1024, 4096));
  EXPECT_THAT(limits("0::/host/only\n", "/"), ElementsAre(4096));
  EXPECT_THAT(limits("0::/elsewhere/inner\n", "/docker/ab12"), ElementsAre(4096));
  EXPECT_THAT(limits("0::/docker/ab123/inner\n", "/docker/ab12"), ElementsAre(4096));  // Not the same name.
}

TEST_F(ControlGroupsTest, BlanksInNames) {
  write("a b/memory.max", "64\n");
  EXPECT_THAT(amounts(ControlGroups("0::/\n", mounted("/", R"(a\040b)", "cgroup2", "rw")).memory_limits()),
              ElementsAre(64));
}

// Processes that see a group under different names know that it is one.
TEST_F(ControlGroupsTest, AGroupIsTheSameHoweverItIsSeen) {
  write("docker/ab12/memory.max", "4096\n");
  write("docker/cd34/memory.max", "4096\n");
  const auto seen = [&](const std::string& group, const std::string& root, const std::string& at) {
    return ControlGroups("0::" + group, mounted(root, at, "cgroup2", "rw")).memory_limits().at(0).group;
  };
  const std::string outside = seen("/docker/ab12", "/", "");
  EXPECT_EQ(outside, seen("/docker/ab12", "/docker/ab12", "docker/ab12"));
  EXPECT_EQ(outside, seen("/", "/", "docker/ab12"));
  EXPECT_NE(outside, seen("/", "/", "docker/cd34"));
}

}  // namespace
}  // namespace shoal
