#include "distributed/detect.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "shoal/error.h"

namespace shoal::distributed {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Table = std::map<std::string, std::string>;

/// The variables of testdata/env_<name>.txt.
Table recorded(const std::string& name) {
  std::ifstream file("src/distributed/testdata/env_" + name + ".txt");
  Table table;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    const std::size_t equals = line.find('=');
    table[line.substr(0, equals)] = line.substr(equals + 1);
  }
  EXPECT_FALSE(table.empty()) << name;
  return table;
}

/// `table` with some variables changed; those that become empty are taken out.
Table with(Table table, const Table& changes) {
  for (const auto& [name, value] : changes) {
    if (value.empty()) {
      table.erase(name);
    } else {
      table[name] = value;
    }
  }
  return table;
}

Detection detect(const Table& table, const std::optional<std::string>& method = std::nullopt,
                 const std::string& host_name = "some-host") {
  const auto environment = [&](const char* variable) -> std::optional<std::string> {
    const auto found = table.find(variable);
    return found == table.end() ? std::nullopt : std::optional(found->second);
  };
  return detect_cluster(environment, method, [&] { return host_name; });
}

/// "method address process/processes local/local_count", as far as they are told.
std::string summary(const Detection& detection) {
  if (!detection.cluster) return "none";
  const auto or_unknown = [](std::optional<int> count) { return count ? std::to_string(*count) : "?"; };
  const Cluster& cluster = *detection.cluster;
  return fmt::format("{} {} {}/{} {}/{}", cluster.method,
                     cluster.coordinator_address.empty() ? "?" : cluster.coordinator_address, cluster.process_id,
                     or_unknown(cluster.num_processes), cluster.local_process_index,
                     or_unknown(cluster.local_process_count));
}

const Table kShoalRun = {{"SHOAL_RUN_PROCESS_ID", "3"},
                         {"SHOAL_RUN_NUM_PROCESSES", "4"},
                         {"SHOAL_RUN_LOCAL_INDEX", "1"},
                         {"SHOAL_RUN_LOCAL_COUNT", "2"},
                         {"SHOAL_RUN_COORDINATOR_ADDRESS", "sh1:4711"},
                         {"SHOAL_RUN_JOB_ID", "5f0c"}};

const Table kTorchrun = {{"RANK", "5"},         {"WORLD_SIZE", "8"},     {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "4"},
                         {"MASTER_ADDR", "h1"}, {"MASTER_PORT", "29500"}};

struct Case {
  std::string what;
  Table table;
  std::string expected;
  std::string host_name = "some-host";
};

TEST(Detect, FindsWhatEachLauncherTells) {
  const Table slurm = recorded("slurm_step");
  const Table three_nodes = with(slurm, {{"SLURM_STEP_NODELIST", "rack[1-2]node[1-4,7],x[9]"},
                                         {"SLURM_STEP_TASKS_PER_NODE", "3,2(x10)"},
                                         {"SLURM_STEP_NUM_TASKS", "23"}});
  const Table k8s = {{"JOB_COMPLETION_INDEX", "2"}, {"KUBERNETES_SERVICE_HOST", "10.0.0.1"}};
  const Case cases[] = {
      {"alone", {{"PATH", "/bin"}}, "none"},
      {"shoal run", kShoalRun, "shoal sh1:4711 3/4 1/2"},
      {"torchrun's variables, by hand", kTorchrun, "torchrun h1:29500 5/8 1/4"},
      {"without a count for the host", with(kTorchrun, {{"LOCAL_WORLD_SIZE", ""}}), "torchrun h1:29500 5/8 1/?"},
      {"IPv6", with(kTorchrun, {{"MASTER_ADDR", "fd00::2"}}), "torchrun [fd00::2]:29500 5/8 1/4"},
      // 61440 + 29500 % 4096, as torchrun listens on 29500 itself.
      {"torchrun", with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}}), "torchrun h1:62268 5/8 1/4"},

      // 1621360640 >> 16 is 24740, and 61440 + 24740 % 4096 is 61604.
      {"Open MPI 4 on one host", recorded("ompi4"), "ompi 127.0.0.1:61604 0/2 0/2"},
      {"Open MPI 4 on two hosts", with(recorded("ompi4"), {{"OMPI_COMM_WORLD_SIZE", "4"}}),
       "ompi 192.0.2.2:61604 0/4 0/2"},
      {"addresses of several interfaces",
       with(recorded("ompi4"), {{"OMPI_COMM_WORLD_SIZE", "4"},
                                {"OMPI_COMM_WORLD_RANK", "3"},
                                {"OMPI_MCA_orte_hnp_uri", "1621360640.0;tcp://198.51.100.7,192.0.2.2:54675"}}),
       "ompi 198.51.100.7:61604 3/4 0/2"},
      {"IPv6 alone",
       with(recorded("ompi4"), {{"OMPI_COMM_WORLD_SIZE", "4"},
                                {"OMPI_COMM_WORLD_RANK", "3"},
                                {"OMPI_MCA_orte_hnp_uri", "1621360640.0;tcp6://[fd00::2,fd00::3]:49773"}}),
       "ompi [fd00::2]:61604 3/4 0/2"},
      {"mpirun on another host than process 0",
       with(recorded("ompi4"),
            {{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_MCA_orte_local_daemon_uri", "1621360640.1;tcp://192.0.2.3:41001"}}),
       "ompi ? 0/4 0/2"},
      // The ports made of names were computed by another FNV-1a.
      {"Open MPI 5 on one host", recorded("ompi5"), "ompi 127.0.0.1:65131 0/2 0/2"},
      {"Open MPI 5 on two hosts", with(recorded("ompi5"), {{"OMPI_COMM_WORLD_SIZE", "4"}}), "ompi ? 0/4 0/2"},

      {"MPICH 4", recorded("mpich4"), "pmi ? 0/2 0/2"},
      {"MPICH 5", recorded("mpich5"), "pmi ? 0/2 0/2"},
      {"Cray PALS",
       {{"PMI_RANK", "5"}, {"PMI_SIZE", "8"}, {"PMI_LOCAL_RANK", "1"}, {"PMI_LOCAL_SIZE", "4"}, {"PALS_APID", "a"}},
       "pmi ? 5/8 1/4"},

      {"Slurm", slurm, "slurm n1:61447 0/4 0/2"},
      {"the second step",
       with(slurm, {{"SLURM_STEP_ID", "1"}, {"SLURM_PROCID", "3"}, {"SLURM_NODEID", "1"}, {"SLURM_LOCALID", "1"}}),
       "slurm n1:62468 3/4 1/2"},
      {"one node of Slurm", with(slurm, {{"SLURM_STEP_NODELIST", "n[7]"}, {"SLURM_STEP_TASKS_PER_NODE", "4"}}),
       "slurm 127.0.0.1:61447 0/4 0/4"},
      {"names of Slurm in two dimensions",
       with(three_nodes, {{"SLURM_PROCID", "22"}, {"SLURM_NODEID", "10"}, {"SLURM_LOCALID", "1"}}),
       "slurm rack1node1:61447 22/23 1/2"},
      {"leading zeros", with(slurm, {{"SLURM_STEP_NODELIST", "n[001-003]"}, {"SLURM_STEP_TASKS_PER_NODE", "2,1(x2)"}}),
       "slurm n001:61447 0/4 0/2"},
      {"a batch shell",
       {{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_NODELIST", "n[1-2]"}},
       "none"},
      {"srun --mpi=pmi2", with(slurm, {{"PMI_RANK", "0"}, {"PMI_SIZE", "4"}, {"PMI_FD", "3"}, {"PMI_JOBID", "7.0"}}),
       "slurm n1:61447 0/4 0/2"},
      {"srun --mpi=pmix", with(slurm, {{"PMIX_RANK", "0"}, {"PMIX_NAMESPACE", "slurm.pmix.7.0"}}),
       "slurm n1:61447 0/4 0/2"},

      {"Kubernetes", k8s, "k8s train-0.workers.default.svc.cluster.local:64798 2/? 0/1",
       "train-2.workers.default.svc.cluster.local"},
      {"Kubernetes without a service", k8s, "none", "train-2"},
      {"another index than the name's", k8s, "none", "train-12.workers.default.svc.cluster.local"},
      {"a pod of no indexed job", {{"KUBERNETES_SERVICE_HOST", "10.0.0.1"}}, "none", "web-2.pods"},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(summary(detect(c.table, std::nullopt, c.host_name)), c.expected) << c.what;
  }
}

Table join(Table first, const Table& second) {
  first.insert(second.begin(), second.end());
  return first;
}

TEST(Detect, TheInnermostLauncherWins) {
  // mpirun starts its daemon on each node by srun, as one task.
  const Table slurm =
      with(recorded("slurm_step"), {{"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"}});
  const std::pair<const char*, Table> inner_first[] = {{"shoal", kShoalRun},        {"torchrun", kTorchrun},
                                                       {"ompi", recorded("ompi4")}, {"ompi", recorded("ompi5")},
                                                       {"pmi", recorded("mpich4")}, {"slurm", slurm}};
  for (const auto& [method, inner] : inner_first) {
    const Detection inside_slurm = detect(join(inner, slurm));
    ASSERT_TRUE(inside_slurm.cluster);
    EXPECT_EQ(inside_slurm.cluster->method, method);
    EXPECT_THAT(inside_slurm.notes, IsEmpty()) << method;
    // Within an allocation, started from the batch shell.
    const Detection in_batch = detect(join(inner, {{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}}));
    EXPECT_EQ(in_batch.cluster->method, method);
  }
  EXPECT_EQ(detect(join(kShoalRun, recorded("ompi4"))).cluster->method, "shoal");
  EXPECT_EQ(detect(join(recorded("ompi4"), recorded("mpich4"))).cluster->method, "ompi");
}

TEST(Detect, WhatIsMissingIsNotedAndTheNextLauncherIsAsked) {
  const Table slurm = recorded("slurm_step");
  for (const auto& [name, value] : recorded("slurm_step")) {
    static const std::set<std::string> kUnused = {"SLURMD_NODENAME", "SLURM_JOB_NODELIST", "SLURM_NNODES",
                                                  "SLURM_NTASKS", "SLURM_STEP_NUM_NODES"};
    const Detection detection = detect(with(slurm, {{name, ""}}));
    if (kUnused.contains(name)) {
      EXPECT_TRUE(detection.cluster) << name;
    } else {
      EXPECT_FALSE(detection.cluster) << name;
      EXPECT_THAT(detection.notes, ElementsAre("Slurm was passed over: " + name + " is not set"));
    }
  }

  const Detection both = detect(join(with(kTorchrun, {{"LOCAL_RANK", ""}, {"MASTER_PORT", ""}}), slurm));
  EXPECT_EQ(summary(both), "slurm n1:61447 0/4 0/2");
  EXPECT_THAT(both.notes, ElementsAre("torchrun was passed over: LOCAL_RANK is not set; MASTER_PORT is not set"));

  EXPECT_THAT(detect(with(kShoalRun, {{"SHOAL_RUN_JOB_ID", ""}})).notes,
              ElementsAre("shoal run was passed over: SHOAL_RUN_JOB_ID is not set"));
  EXPECT_THAT(
      detect({{"OMPI_COMM_WORLD_RANK", "0"}}).notes,
      ElementsAre(HasSubstr("neither OMPI_MCA_orte_hnp_uri (Open MPI 4) nor PRTE_LAUNCHED (Open MPI 5) is set")));
  EXPECT_THAT(detect({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}).notes,
              ElementsAre(HasSubstr("MPI_LOCALRANKID is not set")));
  EXPECT_THAT(detect({{"JOB_COMPLETION_INDEX", "2"}}, std::nullopt, "train-2").notes,
              ElementsAre(HasSubstr("\"train-2\", not <job>-2.<service>")));
}

TEST(Detect, WhatIsWrongIsNoted) {
  const std::pair<Table, const char*> cases[] = {
      {with(kTorchrun, {{"RANK", "8"}}), "RANK: \"8\" is not an integer from 0 to 7"},
      {with(kTorchrun, {{"RANK", "-1"}}), "RANK: \"-1\" is not an integer from 0 to 7"},
      {with(kTorchrun, {{"WORLD_SIZE", "many"}}), "WORLD_SIZE: \"many\" is not an integer from 1 to 2147483647"},
      {with(kTorchrun, {{"WORLD_SIZE", "99999999999"}}), "WORLD_SIZE: \"99999999999\" is not an integer"},
      {with(kTorchrun, {{"MASTER_PORT", "65536"}}), "MASTER_PORT: \"65536\" is not an integer from 1 to 65535"},
      {with(recorded("ompi4"), {{"OMPI_MCA_orte_hnp_uri", "1.0;file:x"}}), "\"1.0;file:x\" has no address"},
      {with(recorded("slurm_step"), {{"SLURM_STEP_NODELIST", "n[1-"}}), "\"n[1-\" is not a list of hosts"},
      {with(recorded("slurm_step"), {{"SLURM_STEP_TASKS_PER_NODE", "2(x"}}), "\"2(x\" is not a list of counts"},
      {with(recorded("slurm_step"), {{"SLURM_STEP_TASKS_PER_NODE", "2,1"}}), "do not fit together"},
      {with(recorded("slurm_step"), {{"SLURM_STEP_NODELIST", "n[1-3]"}}), "do not fit together"},
      {with(recorded("slurm_step"), {{"SLURM_NODEID", "2"}}), "do not fit together"},
      {with(recorded("slurm_step"), {{"SLURM_LOCALID", "2"}}), "do not fit together"},
  };
  for (const auto& [table, expected] : cases) {
    const Detection detection = detect(table);
    EXPECT_FALSE(detection.cluster) << expected;
    EXPECT_THAT(detection.notes, ElementsAre(HasSubstr(expected)));
  }
}

TEST(Detect, JobsAreToldApart) {
  const auto job = [](const Table& table) { return detect(table).cluster.value().job; };
  const Table slurm = recorded("slurm_step");
  const Table ompi = recorded("ompi4");
  const std::set<std::string> jobs = {
      job(kShoalRun),
      job(slurm),
      job(with(slurm, {{"SLURM_JOB_ID", "8"}})),
      job(with(slurm, {{"SLURM_STEP_ID", "1"}})),
      job(with(slurm, {{"SLURM_RESTART_COUNT", "1"}})),
      job(kTorchrun),
      job(with(kTorchrun, {{"TORCHELASTIC_RESTART_COUNT", "1"}})),
      job(ompi),
      job(with(ompi, {{"OMPI_MCA_orte_precondition_transports", "1-2"}})),
      job(with(ompi, {{"PMIX_NAMESPACE", "1621360642"}})),
      job(recorded("ompi5")),
  };
  EXPECT_EQ(jobs.size(), 11u);
  EXPECT_EQ(job(slurm), job(with(slurm, {{"SLURM_PROCID", "3"}, {"SLURM_NODEID", "1"}, {"SLURM_LOCALID", "1"}})));
  EXPECT_EQ(job(ompi), job(with(ompi, {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}})));
}

TEST(Detect, AMethodCanBeAskedFor) {
  const Table both = join(kTorchrun, recorded("slurm_step"));
  EXPECT_EQ(detect(both, "slurm").cluster->method, "slurm");
  EXPECT_EQ(detect(both, "torchrun").cluster->method, "torchrun");
  EXPECT_EQ(summary(detect(both, "deactivate")), "none");
}

std::string error_of(const Table& table, const std::string& method) {
  try {
    detect(table, method);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

TEST(Detect, AMethodThatCannotServeIsAnError) {
  EXPECT_EQ(error_of(kTorchrun, "gke"),
            "cluster_detection_method: \"gke\" is unknown; there are shoal, torchrun, ompi, pmi, slurm, k8s, and "
            "deactivate, which detects nothing");
  EXPECT_THAT(
      error_of(kTorchrun, "slurm"),
      HasSubstr("\"slurm\" was asked for, but Slurm did not start this process: SLURM_STEP_NODELIST is not set"));
}

TEST(Detect, EmptyVariablesCountAsNotSet) {
  Table table = kTorchrun;
  table["MASTER_ADDR"] = "";
  EXPECT_THAT(detect(table).notes, ElementsAre("torchrun was passed over: MASTER_ADDR is not set"));
}

TEST(Detect, TheHostKnowsItsName) { EXPECT_FALSE(full_host_name().empty()); }

}  // namespace
}  // namespace shoal::distributed
