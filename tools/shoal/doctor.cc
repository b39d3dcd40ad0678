#include "doctor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "base/resources.h"
#include "comm/transport/tcp.h"
#include "distributed/detect.h"
#include "output.h"
#include "pairs.h"
#include "shoal/device.h"
#include "shoal/distributed.h"

namespace shoal::tool {

namespace {

using Json = nlohmann::ordered_json;

// Who is not there by then does not run `shoal doctor`.
constexpr std::chrono::seconds kPatienceWithOthers{30};

enum class State { kOk, kWarning, kFailure };

struct Finding {
  State state = State::kOk;
  std::vector<std::string> lines;  ///< For people.
  Json values = Json::object();    ///< For programs.
};

struct Check {
  std::string_view name;
  Finding (*look)();
};

Finding look_at_version() { return {State::kOk, {fmt::format("Shoal {}", SHOAL_VERSION)}, {{"shoal", SHOAL_VERSION}}}; }

Finding look_at_devices() {
  const auto devices = local_devices();
  return {State::kOk,
          {fmt::format("{} virtual CPU device{} in each process (SHOAL_NUM_CPU_DEVICES)", devices.size(),
                       devices.size() == 1 ? "" : "s")},
          {{"cpu", devices.size()}}};
}

Finding look_at_cores() {
  const auto online = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  cpu_set_t mask;
  CPU_ZERO(&mask);
  const int bound = sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : online;
  const int usable = usable_cpu_count();
  Finding finding;
  finding.lines.push_back(
      fmt::format("{} cores in the machine, {} in the affinity mask, {} to use", online, bound, usable));
  finding.values = {{"online", online}, {"affinity", bound}, {"usable", usable}};
  if (bound == 1 && online > 1) {
    finding.state = State::kWarning;
    finding.lines.emplace_back(
        "This process is bound to one core. mpirun binds so unless told --bind-to none, srun with --cpu-bind=none or "
        "--cpus-per-task=K.");
  }
  return finding;
}

Finding look_at_threads() {
  const auto wanted = env_int("SHOAL_NUM_THREADS", 1, 1 << 16);
  const auto threads = wanted.value_or(usable_cpu_count());
  const bool is_too_many = threads > usable_cpu_count();
  Finding finding = {is_too_many ? State::kWarning : State::kOk,
                     {fmt::format("{} threads compute ({})", threads, wanted ? "SHOAL_NUM_THREADS" : "one per core")},
                     {{"computing", threads}}};
  if (is_too_many) finding.lines.emplace_back("There are fewer cores to use, so they take turns.");
  return finding;
}

Finding look_at_cluster() {
  const auto method = env_text("SHOAL_CLUSTER_DETECTION_METHOD");
  const distributed::Detection detection = distributed::detect_cluster(distributed::own_environment, method);
  Finding finding;
  if (const auto& cluster = detection.cluster) {
    const auto count = [](std::optional<int> n) { return n ? std::to_string(*n) : "an unknown number"; };
    const std::string coordinator = cluster->coordinator_address.empty() ? "not told" : cluster->coordinator_address;
    finding.lines = {fmt::format("{}: {}", cluster->method, cluster->why),
                     fmt::format("process {} of {}, {} of {} on this host; coordinator {}", cluster->process_id,
                                 count(cluster->num_processes), cluster->local_process_index,
                                 count(cluster->local_process_count), coordinator)};
    const auto or_null = [](std::optional<int> n) { return n ? Json(*n) : Json(); };
    finding.values = {{"method", cluster->method},
                      {"why", cluster->why},
                      {"coordinator_address", cluster->coordinator_address},
                      {"num_processes", or_null(cluster->num_processes)},
                      {"process_id", cluster->process_id},
                      {"local_process_index", cluster->local_process_index},
                      {"local_process_count", or_null(cluster->local_process_count)},
                      {"job", cluster->job}};
  } else {
    finding.lines.emplace_back("no launcher started this process, so it works alone");
    finding.values = {{"method", nullptr}};
  }
  if (!detection.notes.empty()) finding.state = State::kWarning;
  finding.lines.insert(finding.lines.end(), detection.notes.begin(), detection.notes.end());
  finding.values["notes"] = detection.notes;
  return finding;
}

/// Which ways there are to other processes.
Finding look_at_transports() {
  const auto only = env_choice("SHOAL_TRANSPORT", {"shm", "socket", "mpi"});
  const auto interface = env_text("SHOAL_SOCKET_INTERFACE");
  const auto addresses = host_addresses(interface.value_or(""));
  const PortRange ports = port_range_from_env();
  Finding finding;
  finding.lines = {
      only ? fmt::format("only {} (SHOAL_TRANSPORT)", *only) : "shared memory within a host, and between hosts sockets",
      fmt::format("sockets of a job of several hosts listen at {}, {}", fmt::join(addresses, ", "),
                  ports.first == 0 ? "any port" : fmt::format("ports {}-{}", ports.first, ports.last))};
  finding.values = {{"only", only ? Json(*only) : Json()}, {"addresses", addresses}, {"ports", Json()}};
  if (ports.first != 0) finding.values["ports"] = {ports.first, ports.last};
  return finding;
}

/// Joins the job, if there is one of several processes, and measures how they reach each other.
Finding look_at_processes() {
  const auto cluster =
      distributed::detect_cluster(distributed::own_environment, env_text("SHOAL_CLUSTER_DETECTION_METHOD")).cluster;
  const bool is_alone = cluster ? cluster->num_processes == 1 : !env_text("SHOAL_COORDINATOR_ADDRESS");
  if (is_alone) return {State::kOk, {"none but this one"}, {{"pairs", Json::array()}}};
  distributed::InitializeOptions options;
  if (!env_text("SHOAL_INITIALIZATION_TIMEOUT")) options.initialization_timeout = kPatienceWithOthers;
  distributed::initialize(options);
  const std::vector<Pair> pairs = measure_pairs();
  Finding finding = {State::kOk, {fmt::format("{} have joined", process_count())}, {{"pairs", Json::array()}}};
  for (const Pair& pair : pairs) {
    finding.lines.push_back(fmt::format("{} - {}: {}, {:.1f} us, {:.2f} GB/s", pair.first, pair.second, pair.transport,
                                        pair.latency * 1e6, pair.bandwidth * 1e-9));
    finding.values["pairs"].push_back({{"processes", {pair.first, pair.second}},
                                       {"transport", pair.transport},
                                       {"latency_us", pair.latency * 1e6},
                                       {"bandwidth_gb_per_s", pair.bandwidth * 1e-9}});
  }
  if (process_index() != 0) finding.lines.emplace_back("process 0 tells how fast they reach each other");
  distributed::shutdown();
  return finding;
}

/// What `shoal doctor` looks at, in this order: the job is joined before devices are asked for.
constexpr Check kChecks[] = {
    {"version", look_at_version},     {"cluster", look_at_cluster}, {"transports", look_at_transports},
    {"processes", look_at_processes}, {"devices", look_at_devices}, {"cores", look_at_cores},
    {"threads", look_at_threads},
};

Finding look(const Check& check) {
  try {
    return check.look();
  } catch (const std::exception& error) {
    return {State::kFailure, {error.what()}, {{"error", error.what()}}};
  }
}

}  // namespace

int run_doctor(bool as_json) {
  constexpr std::string_view kNames[] = {"ok", "warning", "failure"};
  constexpr std::string_view kMarks[] = {" ", "!", "x"};
  State worst = State::kOk;
  Json report = Json::object();
  std::string text;
  for (const Check& check : kChecks) {
    const Finding finding = look(check);
    const auto state = static_cast<std::size_t>(finding.state);
    worst = std::max(worst, finding.state);
    Json entry = {{"state", kNames[state]}};
    entry.update(finding.values);
    report[std::string(check.name)] = entry;
    std::string_view name = check.name;
    std::string_view mark = kMarks[state];
    for (const std::string& line : finding.lines) {
      text += fmt::format("{} {:<10} {}\n", mark, name, line);
      name = "";
      mark = " ";
    }
  }
  if (as_json) text = report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  write_all(STDOUT_FILENO, text);
  return worst == State::kFailure ? 1 : 0;
}

}  // namespace shoal::tool
