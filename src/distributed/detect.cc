#include "distributed/detect.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netdb.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <system_error>
#include <utility>

#include "base/bytes.h"
#include "distributed/host_list.h"
#include "shoal/error.h"

namespace shoal::distributed {

namespace {

constexpr const char* kLoopback = "127.0.0.1";

/// Above the ports that Linux gives to outgoing connections (32768 to 60999).
constexpr std::uint64_t kFirstPort = 61440;
constexpr std::uint64_t kNumPorts = 4096;

std::string address_at(std::string_view host, std::uint64_t job) {
  const bool is_ipv6 = host.find(':') != std::string_view::npos;
  return fmt::format("{}{}{}:{}", is_ipv6 ? "[" : "", host, is_ipv6 ? "]" : "", kFirstPort + job % kNumPorts);
}

/// Makes a port of a job's name, so it must be the same in all processes and versions.
std::uint64_t hash_of(std::string_view text) { return static_cast<std::uint64_t>(checksum_of(text)); }

/// Reads what one launcher should have told, and keeps what is missing or wrong.
class LauncherReader {
 public:
  LauncherReader(const Environment& environment, const std::function<std::string()>& host_name)
      : environment_(environment), host_name_(host_name) {}

  /// A variable that need not be there. An empty one counts as not set.
  std::optional<std::string> find(const char* variable) const {
    auto value = environment_(variable);
    return value && !value->empty() ? value : std::nullopt;
  }
  bool has(const char* variable) const { return find(variable).has_value(); }
  std::string host_name() const { return host_name_(); }

  std::string text(const char* variable) {
    auto value = find(variable);
    if (!value) problem(fmt::format("{} is not set", variable));
    return value.value_or("");
  }

  int number(const char* variable, int lowest, int highest = INT_MAX) {
    const std::string value = text(variable);
    int number = lowest;
    const char* const end = value.data() + value.size();
    const auto [stop, error] = std::from_chars(value.data(), end, number);
    const bool is_number = error == std::errc() && stop == end;
    if (!value.empty() && (!is_number || number < lowest || number > highest)) {
      problem(fmt::format("{}: \"{}\" is not an integer from {} to {}", variable, value, lowest, highest));
    }
    return is_number ? number : lowest;
  }

  /// A rank below the number of ranks.
  int rank(const char* variable, int size) { return number(variable, 0, std::max(size - 1, 0)); }

  void problem(std::string text) { problems_.push_back(std::move(text)); }
  bool is_complete() const { return problems_.empty(); }
  std::string problems() const { return fmt::format("{}", fmt::join(problems_, "; ")); }

 private:
  const Environment& environment_;
  const std::function<std::string()>& host_name_;
  std::vector<std::string> problems_;
};

Cluster read_shoal(LauncherReader& reader) {
  Cluster cluster;
  cluster.num_processes = reader.number("SHOAL_RUN_NUM_PROCESSES", 1);
  cluster.process_id = reader.rank("SHOAL_RUN_PROCESS_ID", *cluster.num_processes);
  cluster.local_process_count = reader.number("SHOAL_RUN_LOCAL_COUNT", 1, *cluster.num_processes);
  cluster.local_process_index = reader.rank("SHOAL_RUN_LOCAL_INDEX", *cluster.local_process_count);
  cluster.coordinator_address = reader.text("SHOAL_RUN_COORDINATOR_ADDRESS");
  cluster.job = reader.text("SHOAL_RUN_JOB_ID");
  cluster.why = "started by `shoal run`, which set SHOAL_RUN_PROCESS_ID and its like";
  return cluster;
}

Cluster read_torchrun(LauncherReader& reader) {
  Cluster cluster;
  cluster.num_processes = reader.number("WORLD_SIZE", 1);
  cluster.process_id = reader.rank("RANK", *cluster.num_processes);
  cluster.local_process_index = reader.rank("LOCAL_RANK", *cluster.num_processes);
  if (reader.has("LOCAL_WORLD_SIZE")) {
    cluster.local_process_count = reader.number("LOCAL_WORLD_SIZE", 1, *cluster.num_processes);
  }
  const std::string host = reader.text("MASTER_ADDR");
  const int port = reader.number("MASTER_PORT", 1, 65535);
  // torchrun's own store listens on the port that it tells.
  const bool is_taken = reader.find("TORCHELASTIC_USE_AGENT_STORE") == "True";
  const bool is_ipv6 = host.find(':') != std::string::npos;
  cluster.coordinator_address = is_taken  ? address_at(host, static_cast<std::uint64_t>(port))
                                : is_ipv6 ? fmt::format("[{}]:{}", host, port)
                                          : fmt::format("{}:{}", host, port);
  cluster.job = fmt::format("{}:{} {} {}", host, port, reader.find("TORCHELASTIC_RUN_ID").value_or("none"),
                            reader.find("TORCHELASTIC_RESTART_COUNT").value_or("0"));
  cluster.why = "started as by torchrun, which sets RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT";
  return cluster;
}

/// The host of "1621360640.0;tcp://192.0.2.2,198.51.100.2:54675;tcp6://[fd00::2]:49773": the first address, those of
/// IPv4 before those of IPv6. Empty if there is none.
std::string host_of_uri(std::string_view uri) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kForms = {
      {{"tcp://", ",:;"}, {"tcp6://[", ",];"}}};
  for (const auto& [start, ends] : kForms) {
    if (const std::size_t found = uri.find(start); found != std::string_view::npos) {
      const std::string_view rest = uri.substr(found + start.size());
      return std::string(rest.substr(0, rest.find_first_of(ends)));
    }
  }
  return "";
}

Cluster read_ompi(LauncherReader& reader) {
  Cluster cluster;
  cluster.num_processes = reader.number("OMPI_COMM_WORLD_SIZE", 1);
  cluster.process_id = reader.rank("OMPI_COMM_WORLD_RANK", *cluster.num_processes);
  cluster.local_process_count = reader.number("OMPI_COMM_WORLD_LOCAL_SIZE", 1, *cluster.num_processes);
  cluster.local_process_index = reader.rank("OMPI_COMM_WORLD_LOCAL_RANK", *cluster.local_process_count);

  const auto mpirun = reader.find("OMPI_MCA_orte_hnp_uri");
  if (!mpirun && !reader.has("PRTE_LAUNCHED")) {
    reader.problem("neither OMPI_MCA_orte_hnp_uri (Open MPI 4) nor PRTE_LAUNCHED (Open MPI 5) is set");
    return cluster;
  }
  cluster.job = reader.text("PMIX_NAMESPACE");
  std::uint64_t port = hash_of(cluster.job);
  std::string host;
  if (mpirun) {
    // The job's number ends in 16 bits that count the programs of one mpirun. What is above them was made of the host
    // and the process of mpirun, and comes again; this key is random.
    std::uint64_t number = 0;
    std::from_chars(mpirun->data(), mpirun->data() + mpirun->size(), number);
    port = number >> 16;
    cluster.job += " " + reader.find("OMPI_MCA_orte_precondition_transports").value_or("");
    host = host_of_uri(*mpirun);
    if (host.empty()) reader.problem(fmt::format("OMPI_MCA_orte_hnp_uri: \"{}\" has no address", *mpirun));
  }
  cluster.why = mpirun ? "started by mpirun of Open MPI 4, which set OMPI_COMM_WORLD_RANK and OMPI_MCA_orte_hnp_uri"
                       : "started by mpirun of Open MPI 5, which set OMPI_COMM_WORLD_RANK and PRTE_LAUNCHED";
  const bool is_elsewhere =
      mpirun && cluster.process_id == 0 && reader.find("OMPI_MCA_orte_local_daemon_uri") != mpirun;
  if (cluster.local_process_count == cluster.num_processes) {
    cluster.coordinator_address = address_at(kLoopback, port);
  } else if (is_elsewhere) {
    cluster.why += "; the host of mpirun is not that of process 0, so it is not the coordinator's";
  } else if (!host.empty()) {
    cluster.coordinator_address = address_at(host, port);
  }
  return cluster;
}

Cluster read_pmi(LauncherReader& reader) {
  // Cray's launcher has its own names.
  const bool is_pals = reader.has("PMI_LOCAL_RANK");
  Cluster cluster;
  cluster.num_processes = reader.number("PMI_SIZE", 1);
  cluster.process_id = reader.rank("PMI_RANK", *cluster.num_processes);
  cluster.local_process_count =
      reader.number(is_pals ? "PMI_LOCAL_SIZE" : "MPI_LOCALNRANKS", 1, *cluster.num_processes);
  cluster.local_process_index =
      reader.rank(is_pals ? "PMI_LOCAL_RANK" : "MPI_LOCALRANKID", *cluster.local_process_count);
  cluster.job = reader.find(is_pals ? "PALS_APID" : "PMI_JOBID").value_or("");
  if (!cluster.job.empty() && cluster.local_process_count == cluster.num_processes) {
    cluster.coordinator_address = address_at(kLoopback, hash_of(cluster.job));
  }
  cluster.why = "started by an mpiexec that speaks PMI, as that of MPICH, which set PMI_RANK and PMI_SIZE";
  return cluster;
}

Cluster read_slurm(LauncherReader& reader) {
  Cluster cluster;
  const std::string node_list = reader.text("SLURM_STEP_NODELIST");
  const std::string task_list = reader.text("SLURM_STEP_TASKS_PER_NODE");
  const int job = reader.number("SLURM_JOB_ID", 1);
  const int step = reader.number("SLURM_STEP_ID", 0);
  cluster.num_processes = reader.number("SLURM_STEP_NUM_TASKS", 1);
  cluster.process_id = reader.rank("SLURM_PROCID", *cluster.num_processes);
  const int node = reader.number("SLURM_NODEID", 0);
  const int local_index = reader.number("SLURM_LOCALID", 0);
  if (!reader.is_complete()) return cluster;

  const auto nodes = expand_host_list(node_list);
  const auto tasks = expand_counts(task_list);
  if (!nodes) reader.problem(fmt::format("SLURM_STEP_NODELIST: \"{}\" is not a list of hosts", node_list));
  if (!tasks) reader.problem(fmt::format("SLURM_STEP_TASKS_PER_NODE: \"{}\" is not a list of counts", task_list));
  if (!reader.is_complete()) return cluster;

  // Variables of another step, as a shell that was opened on the node may have some, do not fit together.
  const auto total = std::accumulate(tasks->begin(), tasks->end(), std::int64_t{0});
  const bool fits = nodes->size() == tasks->size() && total == *cluster.num_processes &&
                    static_cast<std::size_t>(node) < tasks->size() &&
                    local_index < (*tasks)[static_cast<std::size_t>(node)];
  if (!fits) {
    reader.problem(fmt::format(
        "SLURM_STEP_NODELIST={}, SLURM_STEP_TASKS_PER_NODE={}, SLURM_STEP_NUM_TASKS={}, SLURM_NODEID={} and "
        "SLURM_LOCALID={} do not fit together",
        node_list, task_list, *cluster.num_processes, node, local_index));
    return cluster;
  }
  cluster.local_process_index = local_index;
  cluster.local_process_count = (*tasks)[static_cast<std::size_t>(node)];
  const auto port = static_cast<std::uint64_t>(job) + 1021 * static_cast<std::uint64_t>(step);
  cluster.coordinator_address = address_at(nodes->size() == 1 ? kLoopback : nodes->front(), port);
  // A job that is queued again has the same numbers.
  cluster.job = fmt::format("{}.{} {}", job, step, reader.find("SLURM_RESTART_COUNT").value_or("0"));
  cluster.why = fmt::format("started by srun as a task of step {}.{} of Slurm", job, step);
  return cluster;
}

Cluster read_k8s(LauncherReader& reader) {
  Cluster cluster;
  cluster.process_id = reader.number("JOB_COMPLETION_INDEX", 0);
  cluster.local_process_count = 1;
  // The pods of an indexed job are called <job>-<index>, and with a headless service <job>-<index>.<service>....
  const std::string name = reader.host_name();
  const std::size_t dot = std::min(name.find('.'), name.size());
  const std::string own_end = fmt::format("-{}", cluster.process_id);
  const std::string_view pod = std::string_view(name).substr(0, dot);
  if (!pod.ends_with(own_end) || dot == name.size()) {
    reader.problem(
        fmt::format("the pod's full name is \"{}\", not <job>{}.<service>...: the pod needs a subdomain, which "
                    "names a headless service",
                    name, own_end));
    return cluster;
  }
  const std::string_view job = pod.substr(0, pod.size() - own_end.size());
  cluster.job = fmt::format("{}{}", job, name.substr(dot));
  cluster.coordinator_address = address_at(fmt::format("{}-0{}", job, name.substr(dot)), hash_of(cluster.job));
  cluster.why = "a pod of an indexed job of Kubernetes, which set JOB_COMPLETION_INDEX";
  return cluster;
}

struct Method {
  std::string_view name;
  std::string_view launcher;
  std::vector<const char*> signs;  ///< One of them is set wherever this launcher had a hand in it.
  Cluster (*read)(LauncherReader&);
};

/// Innermost launcher first. mpiexec starts its own processes by srun within an allocation, so a step of Slurm comes
/// after all that runs in one. srun can speak PMI, too: it is told from an mpiexec by the missing rank on the host.
const std::vector<Method>& methods() {
  static const std::vector<Method> kMethods = {
      {"shoal", "shoal run", {"SHOAL_RUN_PROCESS_ID", "SHOAL_RUN_NUM_PROCESSES"}, read_shoal},
      {"torchrun", "torchrun", {"RANK", "WORLD_SIZE", "LOCAL_RANK"}, read_torchrun},
      {"ompi",
       "Open MPI",
       {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_MCA_orte_hnp_uri", "PRTE_LAUNCHED"},
       read_ompi},
      {"pmi", "mpiexec (PMI)", {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"}, read_pmi},
      {"slurm", "Slurm", {"SLURM_JOB_ID", "SLURM_PROCID", "SLURM_STEP_NODELIST"}, read_slurm},
      {"k8s", "Kubernetes", {"JOB_COMPLETION_INDEX"}, read_k8s},
  };
  return kMethods;
}

}  // namespace

std::optional<std::string> own_environment(const char* variable) {
  const char* const value = std::getenv(variable);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

std::string full_host_name() {
  std::array<char, HOST_NAME_MAX + 1> name = {};
  if (gethostname(name.data(), name.size() - 1) != 0) return "";
  addrinfo hints = {};
  hints.ai_flags = AI_CANONNAME;
  addrinfo* found = nullptr;
  if (getaddrinfo(name.data(), nullptr, &hints, &found) != 0) return name.data();
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  return found->ai_canonname != nullptr ? found->ai_canonname : name.data();
}

const std::vector<std::string_view>& detection_methods() {
  static const std::vector<std::string_view> kNames = [] {
    std::vector<std::string_view> names;
    for (const Method& method : methods()) names.push_back(method.name);
    return names;
  }();
  return kNames;
}

Detection detect_cluster(const Environment& environment, const std::optional<std::string>& method,
                         const std::function<std::string()>& host_name) {
  if (method == "deactivate") return {};
  const auto& names = detection_methods();
  if (method && std::find(names.begin(), names.end(), *method) == names.end()) {
    throw InvalidArgument(
        fmt::format("cluster_detection_method: \"{}\" is unknown; there are {}, and deactivate, which "
                    "detects nothing",
                    *method, fmt::join(names, ", ")));
  }
  Detection detection;
  for (const Method& known : methods()) {
    if (method && known.name != *method) continue;
    LauncherReader reader(environment, host_name);
    const bool has_sign =
        std::any_of(known.signs.begin(), known.signs.end(), [&](auto sign) { return reader.has(sign); });
    if (!has_sign && !method) continue;
    Cluster cluster = known.read(reader);
    if (reader.is_complete()) {
      cluster.method = known.name;
      detection.cluster = std::move(cluster);
      break;
    }
    if (method) {
      throw InvalidArgument(
          fmt::format("cluster_detection_method: \"{}\" was asked for, but {} did not start this "
                      "process: {}",
                      *method, known.launcher, reader.problems()));
    }
    detection.notes.push_back(fmt::format("{} was passed over: {}", known.launcher, reader.problems()));
  }
  return detection;
}

}  // namespace shoal::distributed
