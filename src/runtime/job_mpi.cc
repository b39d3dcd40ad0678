#include "runtime/job_mpi.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/log.h"
#include "distributed/detect.h"
#include "shoal/error.h"

namespace shoal {
namespace {

using distributed::Member;
using distributed::Session;

constexpr std::chrono::seconds kStarting{60};
constexpr std::chrono::seconds kLeaving{10};

constexpr const char* kObstacles = "shoal/mpi/obstacles";
constexpr const char* kRanks = "shoal/mpi/ranks";

std::string key_of(const char* directory, int process) { return fmt::format("{}/{:08}", directory, process); }

bool is_asked_for() { return env_text("SHOAL_TRANSPORT") == "mpi"; }

// mpirun of Open MPI started this process, and no other launcher within.
bool is_started_by_mpirun() {
  const auto cluster = distributed::detect_cluster().cluster;
  return cluster && cluster->method == "ompi";
}

}  // namespace

bool JobMpi::announce(Session& session) {
  const bool may_be_used = !env_text("SHOAL_TRANSPORT") && !session.is_on_one_host() && is_started_by_mpirun();
  if (!is_asked_for() && !may_be_used) return false;
  session.client().key_value_set(key_of(kObstacles, session.process_index()), MpiWorld::obstacle());
  return true;
}

std::unique_ptr<JobMpi> JobMpi::join(Session& session) {
  const auto told = session.client().key_value_dir_get(kObstacles);
  const std::map<std::string, std::string> obstacles(told.begin(), told.end());
  for (const Member& member : session.members()) {
    const auto found = obstacles.find(key_of(kObstacles, member.process));
    if (found != obstacles.end() && found->second.empty()) continue;
    const std::string text = fmt::format(
        "{} {}", process_name(member),
        found == obstacles.end() ? "is not told to use MPI" : fmt::format("cannot use MPI: {}", found->second));
    if (is_asked_for()) throw InvalidState("distributed::initialize: SHOAL_TRANSPORT is mpi, but " + text);
    if (session.process_index() == 0) log_warning("hosts exchange data over sockets: " + text);
    return nullptr;
  }
  return std::unique_ptr<JobMpi>(new JobMpi(session));
}

JobMpi::JobMpi(Session& session) : session_(session), carries_all_(is_asked_for()), world_(Clock::now() + kStarting) {
  distributed::Client& client = session.client();
  client.key_value_set(key_of(kRanks, session.process_index()), std::to_string(world_.rank()));
  client.wait_at_barrier(kRanks, kStarting);
  std::vector<int> ranks;
  for (const Member& member : session.members()) {
    const int rank = std::stoi(client.blocking_key_value_get(key_of(kRanks, member.process), kStarting));
    const auto before = std::ranges::find(ranks, rank);
    if (before != ranks.end()) {
      const Member& other = session.members()[static_cast<std::size_t>(before - ranks.begin())];
      throw InvalidState(
          fmt::format("distributed::initialize: {} and {} both have rank {} of MPI; start all processes by one mpirun",
                      process_name(other), process_name(member), rank));
    }
    ranks.push_back(rank);
  }
  world_.connect(ranks, Clock::now() + kStarting);
}

bool JobMpi::carries(int process) const {
  const std::vector<Member>& members = session_.members();
  return carries_all_ || members[static_cast<std::size_t>(process)].host_identity !=
                             members[static_cast<std::size_t>(session_.process_index())].host_identity;
}

Channel& JobMpi::channel(int process) {
  std::unique_ptr<MpiChannel>& channel = channels_[process];
  if (channel == nullptr) channel = std::make_unique<MpiChannel>(process, world_);
  return *channel;
}

void JobMpi::leave() {
  channels_.clear();
  world_.finish(Clock::now() + kLeaving);
}

}  // namespace shoal
