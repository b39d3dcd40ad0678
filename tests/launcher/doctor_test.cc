// `shoal doctor`.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "launcher/tool.h"

namespace shoal {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

nlohmann::json report(const Tool::Options& options) {
  return nlohmann::json::parse(run_tool({"doctor", "--json"}, options).out);
}

TEST(Doctor, TellsDevicesAndThreads) {
  const auto found = report({.environment = {"SHOAL_NUM_CPU_DEVICES=8", "SHOAL_NUM_THREADS=1"}});
  EXPECT_EQ(found["devices"]["cpu"], 8);
  EXPECT_EQ(found["threads"]["computing"], 1);
  EXPECT_EQ(found["version"]["state"], "ok");
  EXPECT_THAT(run_tool({"doctor"}, {.environment = {"SHOAL_NUM_CPU_DEVICES=8"}}).out,
              HasSubstr("8 virtual CPU devices"));
}

TEST(Doctor, WhatIsMalformedIsAFailureOfItsCheckAlone) {
  Tool tool({"doctor", "--json"}, {.environment = {"SHOAL_NUM_THREADS=many"}});
  const Ended ended = tool.wait();
  EXPECT_EQ(ended.exit_code, 1);
  const auto found = nlohmann::json::parse(ended.out);
  EXPECT_EQ(found["threads"]["state"], "failure");
  EXPECT_THAT(found["threads"]["error"].get<std::string>(), HasSubstr("SHOAL_NUM_THREADS"));
  EXPECT_EQ(found["devices"]["state"], "ok");
}

TEST(Doctor, WarnsOfProcessesBoundToOneCore) {
  if (sysconf(_SC_NPROCESSORS_ONLN) < 2) GTEST_SKIP() << "the machine has one core";
  const auto bind_to_one = [] {
    cpu_set_t all;
    sched_getaffinity(0, sizeof all, &all);
    int kept = 0;
    for (std::size_t core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &all) && kept++ > 0) CPU_CLR(core, &all);
    }
    sched_setaffinity(0, sizeof all, &all);
  };
  const auto found = report({.in_child = bind_to_one});
  EXPECT_EQ(found["cores"]["state"], "warning");
  EXPECT_EQ(found["cores"]["affinity"], 1);
}

TEST(Doctor, TellsTheClusterAndWhatIsMissing) {
  const auto alone = report({.environment = {"RANK=1", "WORLD_SIZE=2"}});
  EXPECT_TRUE(alone["cluster"]["method"].is_null());
  EXPECT_EQ(alone["cluster"]["state"], "warning");
  EXPECT_THAT(alone["cluster"]["notes"], ElementsAre(HasSubstr("LOCAL_RANK is not set")));

  const Ended inside = run_tool({"run", "-n", "1", "--no-prefix", "--", SHOAL_TOOL, "doctor", "--json"});
  const auto found = nlohmann::json::parse(inside.out)["cluster"];
  EXPECT_EQ(found["method"], "shoal");
  EXPECT_EQ(found["num_processes"], 1);
  EXPECT_THAT(found["coordinator_address"].get<std::string>(), HasSubstr("127.0.0.1:"));
}

// Of all cores that the tool may use, each process of its job has a part.
TEST(Doctor, CoresAreDivided) {
  const int all = report({.environment = {"SHOAL_NUM_THREADS="}})["cores"]["usable"];
  for (const int processes : {1, 2, 3}) {
    const Ended ended = run_tool({"run", "-n", std::to_string(processes), "--no-prefix", "--", "sh", "-c",
                                  SHOAL_TOOL " doctor --json | tr -d '\\n'; echo"},
                                 {.environment = {"SHOAL_NUM_THREADS="}});
    int sum = 0;
    for (const std::string& line : ended.sorted_lines()) {
      const auto found = nlohmann::json::parse(line);
      EXPECT_EQ(found["threads"]["computing"], found["cores"]["usable"]);
      sum += found["cores"]["usable"].get<int>();
    }
    EXPECT_EQ(sum, std::max(all, processes)) << ended.out << ended.err;
  }
}

TEST(Doctor, MeasuresAllPairsOfProcesses) {
  for (const std::string transport : {"shm", "socket"}) {
    const Ended ended = run_tool({"run", "-n", "3", "--json", "--", SHOAL_TOOL, "doctor", "--json"},
                                 {.environment = {"SHOAL_TRANSPORT=" + transport}});
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    std::map<int, std::string> reports;
    std::istringstream lines(ended.out);
    for (std::string line; std::getline(lines, line);) {
      const auto event = nlohmann::json::parse(line);
      if (event["event"] == "output") reports[event["process"]] += event["text"].get<std::string>();
    }
    const auto pairs = nlohmann::json::parse(reports.at(0))["processes"]["pairs"];
    std::vector<std::vector<int>> processes;
    for (const auto& pair : pairs) {
      processes.push_back(pair["processes"]);
      EXPECT_EQ(pair["transport"], transport == "shm" ? "shared memory" : "sockets");
      EXPECT_GT(pair["latency_us"], 0.05);
      EXPECT_LT(pair["latency_us"], 1e5);
      EXPECT_GT(pair["bandwidth_gb_per_s"], 0.001);
      EXPECT_LT(pair["bandwidth_gb_per_s"], 1e3);
    }
    EXPECT_THAT(processes, ElementsAre(ElementsAre(0, 1), ElementsAre(0, 2), ElementsAre(1, 2)));
    EXPECT_THAT(nlohmann::json::parse(reports.at(1))["processes"]["pairs"], IsEmpty());
  }
}

TEST(Doctor, TellsWhoDoesNotCome) {
  Tool tool({"doctor", "--json"}, {.environment = {"SHOAL_COORDINATOR_ADDRESS=127.0.0.1:1", "SHOAL_NUM_PROCESSES=2",
                                                   "SHOAL_PROCESS_ID=1", "SHOAL_INITIALIZATION_TIMEOUT=0.3"}});
  const Ended ended = tool.wait();
  EXPECT_EQ(ended.exit_code, 1);
  const auto found = nlohmann::json::parse(ended.out)["processes"];
  EXPECT_EQ(found["state"], "failure");
  EXPECT_THAT(found["error"].get<std::string>(), HasSubstr("process 1 found no coordinator at 127.0.0.1:1"));
}

TEST(Doctor, TellsTheWaysToOthers) {
  const auto found = report({.environment = {"SHOAL_PORT_RANGE=4000-4010", "SHOAL_SOCKET_INTERFACE=lo"}})["transports"];
  EXPECT_THAT(found["addresses"], Contains("127.0.0.1"));
  EXPECT_THAT(found["ports"], ElementsAre(4000, 4010));
}

TEST(Doctor, FindsTheMpirunThatStartedIt) {
  if (std::system("command -v mpirun.openmpi > /dev/null") != 0) GTEST_SKIP() << "Open MPI is not installed";
  const ScratchFile scratch("");
  const std::string reports = scratch.folder();
  // Slurm's variables are those of a batch shell, which mpirun must not take for its own here.
  // PMIx keeps memory until the process ends, which the address sanitizer would call a leak.
  const std::string command =
      "LSAN_OPTIONS=detect_leaks=0 SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_NTASKS=4 timeout 60 mpirun.openmpi "
      "--allow-run-as-root "
      "--oversubscribe --mca plm ^slurm --mca ras ^slurm -n 3 sh -c '" SHOAL_TOOL " doctor --json > " +
      reports + "/$OMPI_COMM_WORLD_RANK'";
  ASSERT_EQ(std::system(command.c_str()), 0);
  std::set<std::string> jobs;
  for (int process = 0; process < 3; ++process) {
    std::ifstream file(reports + "/" + std::to_string(process));
    const auto found = nlohmann::json::parse(file)["cluster"];
    EXPECT_EQ(found["method"], "ompi");
    EXPECT_EQ(found["process_id"], process);
    EXPECT_EQ(found["num_processes"], 3);
    EXPECT_EQ(found["local_process_index"], process);
    EXPECT_EQ(found["local_process_count"], 3);
    EXPECT_THAT(found["notes"], IsEmpty());
    jobs.insert(found["coordinator_address"].get<std::string>() + " " + found["job"].get<std::string>());
  }
  EXPECT_EQ(jobs.size(), 1u);
}

}  // namespace
}  // namespace shoal
