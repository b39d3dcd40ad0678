// Real launchers on one machine: each starts a program that finds its job by what the launcher tells alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <regex>

#include "base/resources.h"
#include "program.h"
#include "slurm.h"
#include "support.h"

namespace shoal::cluster {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

struct Launcher {
  std::string name;
  std::string method;   ///< As detect_cluster() calls it.
  std::string program;  ///< Without it the test is skipped.
  std::string start;    ///< What comes before the number of processes and the program.
  std::string unbound;  ///< The option that binds processes to no cores; empty: it does not bind any.
};

/// Expects that processes which may use all cores have together as many threads as there are cores, and a part of the
/// memory each.
void expect_shares(const Ended& ended, int processes) {
  EXPECT_EQ(ended.exit_code, 0) << ended.out << ended.err;
  const std::regex line(R"(threads (\d+) memory (\d+)\.)");
  int count = 0;
  int threads = 0;
  for (std::sregex_iterator at(ended.out.begin(), ended.out.end(), line), end; at != end; ++at) {
    ++count;
    threads += std::stoi((*at)[1]);
    EXPECT_EQ(std::stoull((*at)[2]), usable_memory() / static_cast<std::size_t>(processes));
  }
  EXPECT_EQ(count, processes) << ended.out << ended.err;
  EXPECT_EQ(threads, std::max(usable_cpu_count(), processes));
}

std::vector<Launcher> launchers() {
  const std::string five = open_mpi_5();
  return {
      {"OpenMpi4", "ompi", "mpirun.openmpi", "mpirun.openmpi --allow-run-as-root --oversubscribe", "--bind-to none"},
      {"OpenMpi5", "ompi", five, five + " --allow-run-as-root --map-by :oversubscribe", "--bind-to none"},
      {"Hydra", "pmi", "mpiexec.hydra", "mpiexec.hydra", ""},
  };
}

class OneMachine : public ::testing::TestWithParam<Launcher> {
 protected:
  static std::string command(int processes, const std::string& name, const std::string& options = "") {
    return GetParam().start + " " + options + " -n " + std::to_string(processes) + " " + program(name);
  }
};

TEST_P(OneMachine, FindsItsJob) {
  SHOAL_NEEDS(is_installed(GetParam().program), GetParam().program + " is not installed");
  for (const int processes : {1, 2, 4}) {
    // Slurm's variables are those of a batch shell, and mislead.
    expect_sums(run(command(processes, "sum"), {"SLURM_PROCID=0", "SLURM_NTASKS=8"}), processes, GetParam().method);
  }
}

TEST_P(OneMachine, CoresAndMemoryAreDivided) {
  SHOAL_NEEDS(is_installed(GetParam().program), GetParam().program + " is not installed");
  for (const int processes : {1, 2, 3}) {
    expect_shares(run(command(processes, "share", GetParam().unbound), {"SHOAL_NUM_THREADS="}), processes);
  }
}

// What the program does: the launcher kills the others, and its exit code is the program's.
TEST_P(OneMachine, EndsWithTheExitCodeOfTheProcessThatFails) {
  SHOAL_NEEDS(is_installed(GetParam().program), GetParam().program + " is not installed");
  for (const int processes : {2, 4}) {
    Command job(command(processes, "fail"));
    job.read_until("ready", processes);
    const auto begin = std::chrono::steady_clock::now();
    const Ended ended = job.wait();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
    EXPECT_EQ(ended.exit_code, 7) << ended.out << ended.err;
    EXPECT_TRUE(job.descendants_end_within(milliseconds(500)));
  }
}

// A process that is killed.
TEST_P(OneMachine, EndsWhenAProcessDies) {
  SHOAL_NEEDS(is_installed(GetParam().program), GetParam().program + " is not installed");
  for (const int processes : {2, 4}) {
    Command job("exec " + command(processes, "loop"));
    job.read_until("ready", processes);
    kill_one_program(job);
    const auto begin = std::chrono::steady_clock::now();
    const Ended ended = job.wait();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
    EXPECT_NE(ended.exit_code, 0) << ended.out << ended.err;
    EXPECT_TRUE(job.descendants_end_within(milliseconds(500)));
  }
}

INSTANTIATE_TEST_SUITE_P(Launchers, OneMachine, ::testing::ValuesIn(launchers()),
                         [](const auto& launcher) { return launcher.param.name; });

// Open MPI 5 leaves survivors alone where it is told so.
TEST(OpenMpi5, SurvivorsAreToldOfTheDeath) {
  const std::string mpirun = open_mpi_5();
  SHOAL_NEEDS(is_installed(mpirun), mpirun + " is not there");
  Command job("exec " + mpirun + " --allow-run-as-root --map-by :oversubscribe --with-ft ulfm -n 4 " + program("loop"));
  job.read_until("ready", 4);
  kill_one_program(job);
  const Ended ended = job.wait();
  EXPECT_EQ(count_of(ended.out, "caught: "), 3) << ended.out << ended.err;
  EXPECT_EQ(count_of(ended.out, "died") + count_of(ended.out, "has ended"), 3) << ended.out << ended.err;
}

// ---- Slurm.

class SlurmTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!Slurm::is_installed()) return;
    slurm_ = Slurm::on_this_machine().release();
    is_ready_ = slurm_->is_ready();
  }
  static void TearDownTestSuite() {
    delete slurm_;
    slurm_ = nullptr;
  }
  void SetUp() override {
    SHOAL_NEEDS(Slurm::is_installed(), "Slurm or munge is not installed");
    SHOAL_NEEDS(is_ready_, "Slurm does not start: " + slurm_->logs());
  }
  static std::vector<std::string> environment() { return slurm_->environment(); }

 private:
  static Slurm* slurm_;
  static bool is_ready_;
};

Slurm* SlurmTest::slurm_ = nullptr;
bool SlurmTest::is_ready_ = false;

// munge gives the secret. Nodes of one machine do not resolve each other's names, so process 0 tells its address.
TEST_F(SlurmTest, AStepFindsItself) {
  for (const int processes : {1, 2}) {
    expect_sums(run("timeout 60 srun -N 1 -n " + std::to_string(processes) + " " + program("sum"), environment()),
                processes, "slurm");
  }
}

TEST_F(SlurmTest, CoresAndMemoryOfAStepAreDivided) {
  std::vector<std::string> variables = environment();
  variables.emplace_back("SHOAL_NUM_THREADS=");
  expect_shares(run("timeout 60 srun -N 1 -n 2 " + program("share"), variables), 2);
}

TEST_F(SlurmTest, PmixTellsAddressAndSecret) {
  expect_sums(run("timeout 60 srun --mpi=pmix -n 4 " + program("sum"), environment()), 4, "slurm");
}

TEST_F(SlurmTest, MpirunInAnAllocationIsNotMisledByIt) {
  SHOAL_NEEDS(is_installed("mpirun.openmpi"), "Open MPI is not installed");
  const std::string mpirun = "mpirun.openmpi --allow-run-as-root --oversubscribe --mca plm isolated --mca ras ^slurm ";
  expect_sums(run("timeout 60 salloc -Q -n 4 " + mpirun + "-n 3 " + program("sum"), environment()), 3, "ompi");
}

TEST_F(SlurmTest, SurvivorsAreToldOfTheDeath) {
  Command job("exec timeout 60 srun --mpi=pmix -n 4 " + program("loop"), environment());
  job.read_until("ready", 4);
  kill_one_program(job);
  const Ended ended = job.wait();
  EXPECT_EQ(count_of(ended.out, "caught: "), 3) << ended.out << ended.err;
  EXPECT_EQ(count_of(ended.out, "died") + count_of(ended.out, "has ended"), 3) << ended.out << ended.err;
}

}  // namespace
}  // namespace shoal::cluster
