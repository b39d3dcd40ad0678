// Three hosts: launchers that start programs on them, and networks that fail.
#include "hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>
#include <tuple>

#include "program.h"
#include "slurm.h"
#include "support.h"

namespace shoal::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

#define SHOAL_NEEDS_HOSTS() SHOAL_NEEDS(Hosts::are_possible(), "namespaces cannot be made here, or ip is missing")

/// `shoal run` on host 1, over the stand-in for ssh. `slots` has a number for each host.
class ByShoalRun {
 public:
  ByShoalRun(const Hosts& hosts, const std::vector<int>& slots) : hosts_(hosts) {
    std::ofstream file(list_.folder() / "list");
    for (std::size_t i = 0; i < slots.size(); ++i) file << "h" << i + 1 << " slots=" << slots[i] << "\n";
  }
  std::string command(const std::string& name) const {
    return "exec " + hosts_.on(1, "env SHOAL_SSH=" + hosts_.ssh() + " " SHOAL_TOOL " run --no-prefix --hosts " +
                                      (list_.folder() / "list").string() + " -- " + program(name));
  }

 private:
  const Hosts& hosts_;
  ScratchFile list_{""};
};

// ---- Launchers.

TEST(ThreeHosts, ShoalRun) {
  SHOAL_NEEDS_HOSTS();
  const Hosts hosts(3);
  for (const std::vector<int>& slots : {std::vector{1, 1}, {2, 2}, {2, 1, 1}}) {
    const int processes = std::accumulate(slots.begin(), slots.end(), 0);
    expect_sums(run(ByShoalRun(hosts, slots).command("sum")), processes, "shoal");
  }
}

TEST(ThreeHosts, AddUpToTheBitsOfOneProcess) {
  SHOAL_NEEDS_HOSTS();
  const Ended alone = run("SHOAL_NUM_CPU_DEVICES=8 " + program("show"));
  ASSERT_EQ(alone.exit_code, 0) << alone.err;
  const Hosts hosts(3);
  for (const std::vector<int>& slots : {std::vector{4, 4}, {3, 3, 2}}) {
    const Ended ended = run(ByShoalRun(hosts, slots).command("show"));
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    EXPECT_TRUE(ended.out == alone.out) << ended.out.substr(0, 200) << "\n" << alone.out.substr(0, 200);
  }
}

// What each host lacks comes to it once, though three processes need it.
TEST(ThreeHosts, GatherWhatCrossesOnceForEachHost) {
  SHOAL_NEEDS_HOSTS();
  Hosts hosts(2, {.network = Hosts::Network::kSwitch});
  const Ended ended = run(ByShoalRun(hosts, {3, 3}).command("gather"));
  EXPECT_EQ(ended.exit_code, 0) << ended.out << ended.err;
  for (int process = 0; process < 6; ++process) {
    EXPECT_THAT(ended.out, HasSubstr("process " + std::to_string(process) + ": gathered"));
  }
  const long bytes = hosts.network_switch().num_bytes();
  EXPECT_GE(bytes, 2L * 3 << 20);
  EXPECT_LT(bytes, 2L * 5 << 20);  // 2 x 9 MiB if each process got it from the other host.
}

TEST(ThreeHosts, WhoseOwnNamesAreLoopback) {
  SHOAL_NEEDS_HOSTS();
  const Hosts hosts(2, {.own_name_is_loopback = true});
  expect_sums(run(ByShoalRun(hosts, {2, 2}).command("sum")), 4, "shoal");
}

TEST(ThreeHosts, WithIpv6Only) {
  SHOAL_NEEDS_HOSTS();
  const Hosts hosts(2, {.only_ipv6 = true});
  expect_sums(run(ByShoalRun(hosts, {2, 2}).command("sum")), 4, "shoal");
}

TEST(ThreeHosts, OpenMpi4) {
  SHOAL_NEEDS_HOSTS();
  SHOAL_NEEDS(is_installed("mpirun.openmpi"), "Open MPI is not installed");
  const Hosts hosts(3);
  expect_sums(run(hosts.on(1, "mpirun.openmpi --allow-run-as-root --mca plm rsh --mca plm_rsh_agent " + hosts.ssh() +
                                  " --mca oob_tcp_if_include eth0 --host h1:2,h2:1,h3:1 -n 4 " + program("sum"))),
              4, "ompi");
}

TEST(ThreeHosts, OpenMpi5) {
  SHOAL_NEEDS_HOSTS();
  SHOAL_NEEDS(is_installed(open_mpi_5()), open_mpi_5() + " is not there");
  const Hosts hosts(3);
  expect_sums(run(hosts.on(1, open_mpi_5() + " --allow-run-as-root --prtemca plm ssh --prtemca plm_ssh_agent " +
                                  hosts.ssh() + " --host h1:2,h2:1,h3:1 -n 4 " + program("sum"))),
              4, "ompi");
}

TEST(ThreeHosts, Hydra) {
  SHOAL_NEEDS_HOSTS();
  SHOAL_NEEDS(is_installed("mpiexec.hydra"), "MPICH is not installed");
  const Hosts hosts(3);
  expect_sums(run(hosts.on(1, "mpiexec.hydra -launcher ssh -launcher-exec " + hosts.ssh() +
                                  " -hosts h1:2,h2:1,h3:1 -n 4 " + program("sum"))),
              4, "pmi");
}

std::vector<SlurmNode> nodes_on(const Hosts& hosts, int count) {
  std::vector<SlurmNode> nodes;
  for (int host = 1; host <= count; ++host) {
    const std::string name = "h" + std::to_string(host);
    nodes.push_back({name, name, hosts.address(host),
                     [&hosts, host](const std::string& command) { return hosts.on(host, command); }});
  }
  return nodes;
}

// By munge, and by PMIx. Which of them it is shows where munge cannot be asked.
TEST(ThreeHosts, Srun) {
  SHOAL_NEEDS_HOSTS();
  SHOAL_NEEDS(Slurm::is_installed(), "Slurm or munge is not installed");
  const Hosts hosts(3);
  Slurm slurm(nodes_on(hosts, 3));
  SHOAL_NEEDS(slurm.is_ready(), "Slurm does not start: " + slurm.logs());
  const auto step = [&](const std::string& options, const std::string& before = "") {
    return run(hosts.on(1, before + "timeout 60 srun -N 3 -n 4 " + options + " " + program("sum")),
               slurm.environment());
  };
  expect_sums(step(""), 4, "slurm");
  expect_sums(step("--mpi=pmix"), 4, "slurm");
  const std::string without_munge = "env SHOAL_MUNGE_SOCKET=/no/such/socket ";
  expect_sums(step("--mpi=pmix", without_munge), 4, "slurm");
  const Ended ended = step("", without_munge);
  EXPECT_NE(ended.exit_code, 0);
  EXPECT_THAT(ended.out, HasSubstr("so the job needs a secret, and there is none; make one by: mkdir -p ~/.shoal"));
}

// ---- Networks that fail. The command runs on host 2.

struct Failure {
  std::string name;
  std::string command;
};

class BrokenNetwork : public ::testing::TestWithParam<std::tuple<Failure, int>> {};

TEST_P(BrokenNetwork, IsToldOnBothSidesInTime) {
  SHOAL_NEEDS_HOSTS();
  const auto& [failure, per_host] = GetParam();
  SHOAL_NEEDS(is_installed("nft"), "nftables is not installed");
  const Hosts hosts(2);
  const ByShoalRun launcher(hosts, {per_host, per_host});
  Command job(launcher.command("loop"), {"SHOAL_HEARTBEAT_TIMEOUT=3"});
  job.read_until("ready", 2 * per_host);
  EXPECT_EQ(run(hosts.on(2, failure.command)).exit_code, 0);
  const auto begin = Clock::now();
  job.read_until("caught: ", 2 * per_host);
  EXPECT_LT(Clock::now() - begin, seconds(6));
  const Ended ended = job.wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.out << ended.err;
  // Each names one of the other side: those on h1 have the lower numbers.
  for (int process = 0; process < 2 * per_host; ++process) {
    const int other = process < per_host ? per_host : 0;
    const std::string names =
        per_host == 1 ? std::to_string(other) : "(" + std::to_string(other) + "|" + std::to_string(other + 1) + ")";
    EXPECT_THAT(ended.out, ContainsRegex("process " + std::to_string(process) + " caught: .*process " + names));
  }
  EXPECT_TRUE(job.descendants_end_within(milliseconds(500)));
}

INSTANTIATE_TEST_SUITE_P(
    Failures, BrokenNetwork,
    ::testing::Combine(::testing::Values(Failure{"LinkDown", "ip link set eth0 down"},
                                         Failure{"Drop",
                                                 "nft 'add table ip t; add chain ip t c { type filter hook input "
                                                 "priority 0; }; add rule ip t c iif eth0 drop'"}),
                       ::testing::Values(1, 2)),
    [](const auto& test) {
      return std::get<0>(test.param).name + std::to_string(2 * std::get<1>(test.param)) + "Processes";
    });

TEST(SlowNetwork, LossAndDelayAreOvercome) {
  SHOAL_NEEDS_HOSTS();
  Hosts hosts(3, {.network = Hosts::Network::kSwitch});
  hosts.network_switch().set_delay(milliseconds(20));
  hosts.network_switch().set_loss(0.01);
  for (const std::vector<int>& slots : {std::vector{1, 1}, {2, 1, 1}}) {
    const int processes = std::accumulate(slots.begin(), slots.end(), 0);
    const Ended ended = run(ByShoalRun(hosts, slots).command("sums"));
    EXPECT_EQ(ended.exit_code, 0) << ended.out << ended.err;
    EXPECT_EQ(count_of(ended.out, ": all right\n"), processes) << ended.out << ended.err;
  }
  EXPECT_GT(hosts.network_switch().num_lost(), 5);
}

// The connection to the coordinator is reset; the process comes back, and is the same.
TEST(ResetConnection, OfControlBetweenHostsIsMadeAnew) {
  SHOAL_NEEDS_HOSTS();
  SHOAL_NEEDS(is_installed("nft"), "nftables is not installed");
  const Hosts hosts(2);
  const ByShoalRun launcher(hosts, {1, 1});
  Command job(launcher.command("reset"), {"SHOAL_HEARTBEAT_TIMEOUT=2"});
  const std::string text = job.read_until("coordinator ", 1);
  const std::string port = text.substr(text.rfind(':') + 1, text.find('\n', text.rfind(':')) - text.rfind(':') - 1);
  const auto connection = [&] {  // As the process on host 2 sees it.
    return run(hosts.on(2, "ss -Htn state established dport = :" + port)).out;
  };
  const std::string before = connection();
  const std::string reset =
      "nft 'add table ip t; add chain ip t c { type filter hook output priority 0; }; add rule ip t c tcp dport " +
      port + " reject with tcp reset'; sleep 0.4; nft delete table ip t";
  EXPECT_EQ(run(hosts.on(2, "sh -c \"" + reset + "\"")).exit_code, 0);
  std::this_thread::sleep_for(milliseconds(600));
  const std::string after = connection();
  EXPECT_EQ(count_of(before, "10.77.0.2:"), 1) << before;
  EXPECT_EQ(count_of(after, "10.77.0.2:"), 1) << after;
  EXPECT_NE(before, after);
  const Ended ended = job.wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.out << ended.err;
  EXPECT_EQ(count_of(ended.out, ": counted\n"), 2) << ended.out << ended.err;
}

}  // namespace
}  // namespace shoal::cluster
