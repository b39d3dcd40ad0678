// Jobs that mpirun starts, and what MPI carries of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <shoal/distributed.h>
#include <shoal/multihost.h>
#include <shoal/shoal.h>
#include <signal.h>

#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/test_command.h"
#include "job.h"

namespace shoal {
namespace {

using multiprocess::Job;
using multiprocess::Outcome;
using multiprocess::Registered;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

void print_total() {
  const Mesh mesh = make_mesh({device_count()}, {"x"});
  const Array all = device_put(arange(32.0F), NamedSharding(mesh, P("x")));
  std::cout << "total " << jit([](Array v) { return v.sum(); })(all).item<float>() << std::endl;
}

// And whether MPI is there.
const Registered kTotal("total", [] {
  print_total();
  std::ifstream maps("/proc/self/maps");
  const std::string text{std::istreambuf_iterator<char>(maps), std::istreambuf_iterator<char>()};
  std::cout << (text.find("libmpi") == std::string::npos ? "without MPI\n" : "with MPI\n");
});
const Registered kDie("total_and_die", [] {
  print_total();
  if (process_index() == 1) raise(SIGKILL);
  multihost::sync_global_devices("nobody comes");
});
const Registered kThrow("total_and_throw", [] {
  print_total();
  if (process_index() == 1) throw std::runtime_error("this went wrong");
  multihost::sync_global_devices("nobody comes");
});

TEST(Mpi, IsNotUsedWithinAHost) {
  for (const Outcome& outcome : multiprocess::run_by_mpirun({"total", {2, 2}})) {
    EXPECT_EQ(outcome.code, 0);
    EXPECT_EQ(outcome.output, "total 496\nwithout MPI\n");
  }
}

// Hosts are told from each other by what they do not share.
TEST(Mpi, IsUsedBetweenHostsThatMpirunStarted) {
  if (run_command({"unshare", "-m", "true"}).code != 0) GTEST_SKIP() << "this user cannot make mount namespaces";
  for (const std::vector<int>& devices : {std::vector{4, 4}, std::vector{2, 2, 2, 2}}) {
    for (const Outcome& outcome : multiprocess::run_by_mpirun({"total", devices}, {"unshare", "-m"})) {
      EXPECT_EQ(outcome.code, 0);
      EXPECT_EQ(outcome.output, "total 496\nwith MPI\n");
    }
    const Job sockets{.program = "total", .devices = devices, .env = {{"SHOAL_TRANSPORT", "socket"}}};
    for (const Outcome& outcome : multiprocess::run_by_mpirun(sockets, {"unshare", "-m"})) {
      EXPECT_EQ(outcome.output, "total 496\nwithout MPI\n");
    }
  }
}

// Where one process lacks it, all use sockets.
TEST(Mpi, IsNotUsedWhereAProcessLacksIt) {
  if (run_command({"unshare", "-m", "true"}).code != 0) GTEST_SKIP() << "this user cannot make mount namespaces";
  const Job job{.program = "total", .devices = {1, 1}, .env = {{"SHOAL_PLUGIN_PATH", "/nowhere"}}};
  const std::vector<Outcome> outcomes = multiprocess::run_by_mpirun(job, {"unshare", "-m"});
  EXPECT_THAT(outcomes[0].output, AllOf(HasSubstr("hosts exchange data over sockets: process 0 on "),
                                        HasSubstr("cannot use MPI: the plugin 'mpi' cannot be loaded"),
                                        HasSubstr("total 496\nwithout MPI\n")));
  EXPECT_EQ(outcomes[1].output, "total 496\nwithout MPI\n");
}

TEST(Mpi, IsAnErrorWhereItIsAskedForAndCannotBeUsed) {
  const std::map<std::string, std::string> env{{"SHOAL_TRANSPORT", "mpi"}};
  for (const Outcome& outcome : multiprocess::run({.program = "total", .devices = {1, 1}, .env = env})) {
    EXPECT_EQ(outcome.code, 1);
    EXPECT_LT(outcome.seconds, 5);
    EXPECT_THAT(outcome.output,
                AllOf(HasSubstr("distributed::initialize: SHOAL_TRANSPORT is mpi, but process 0 on "),
                      HasSubstr("cannot use MPI: no launcher of Open MPI started this process; start the program with "
                                "mpirun"),
                      Not(HasSubstr("total"))));
  }
}

// mpirun ends the others, and keeps the code. Nobody waits for MPI_Finalize.
TEST(Mpi, EndsWithTheProcessThatFails) {
  const std::map<std::string, std::string> env{{"SHOAL_TRANSPORT", "mpi"}};
  for (const std::vector<int>& devices : {std::vector{1, 1}, std::vector{1, 1, 1, 1}}) {
    const std::vector<Outcome> died = multiprocess::run_by_mpirun({"total_and_die", devices, env});
    EXPECT_EQ(died[0].code, 128 + SIGKILL);
    EXPECT_LT(died[0].seconds, 5);
    const std::vector<Outcome> threw = multiprocess::run_by_mpirun({"total_and_throw", devices, env});
    EXPECT_EQ(threw[0].code, 1);
    EXPECT_LT(threw[0].seconds, 5);
    EXPECT_THAT(threw[1].output, HasSubstr("error: this went wrong"));
    for (const auto& outcomes : {died, threw}) {
      for (const Outcome& outcome : outcomes) EXPECT_THAT(outcome.output, HasSubstr("total 496\n"));
    }
  }
}

}  // namespace
}  // namespace shoal
