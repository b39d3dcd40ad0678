#include "distributed/rendezvous.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/env.h"
#include "comm/transport/tcp.h"
#include "distributed/launcher_space.h"
#include "distributed/munge.h"
#include "distributed/session.h"
#include "shoal/error.h"

namespace shoal::distributed {
namespace {

constexpr const char* kLoopback = "127.0.0.1";
constexpr std::size_t kMostAddresses = 8;

bool is_on_one_host(const Cluster& cluster) { return cluster.local_process_count == cluster.num_processes; }

// The text that process 0 hands to the others: its address and the secret.
constexpr char kBetween = '/';

void meet_by_launcher(Rendezvous& found, const Cluster& cluster, const InitializeOptions& options) {
  Socket listener;
  std::string text;
  if (cluster.process_id == 0) {
    if (!found.coordinator) {
      listener = options.coordinator_bind_address
                     ? listen_at(parse_address(*options.coordinator_bind_address, "coordinator_bind_address"))
                     : listen_anywhere(is_on_one_host(cluster));
    }
    const Address address =
        listener ? Address{own_hosts(is_on_one_host(cluster)), local_address(listener.get()).port} : *found.coordinator;
    text = fmt::format("{}{}{}", to_string(address), kBetween, random_secret());
  }
  const auto told = share_by_launcher(cluster, text,
                                      options.initialization_timeout.value_or(SessionOptions().initialization_timeout));
  if (!told) return;
  const std::size_t between = std::min(told->find(kBetween), told->size());
  found.coordinator = parse_address(std::string_view(*told).substr(0, between), "the address that process 0 tells");
  if (!found.secret) {
    found.secret = make_secret(std::string_view(*told).substr(std::min(between + 1, told->size())), "the launcher");
  }
  found.listener = std::move(listener);
}

}  // namespace

Socket listen_anywhere(bool on_one_host) {
  if (on_one_host) return listen_at({kLoopback, 0});
  const PortRange ports = port_range_from_env();
  for (int port = ports.first; port < ports.last; ++port) {
    try {
      return listen_at({"", static_cast<std::uint16_t>(port)});
    } catch (const DistributedError&) {  // It is taken.
    }
  }
  return listen_at({"", ports.last});
}

std::string own_hosts(bool on_one_host) {
  if (on_one_host) return kLoopback;
  auto addresses = host_addresses(env_text("SHOAL_SOCKET_INTERFACE").value_or(""));
  addresses.resize(std::min(addresses.size(), kMostAddresses));
  return fmt::format("{}", fmt::join(addresses, ","));
}

Rendezvous find_rendezvous(const std::optional<Cluster>& cluster, const InitializeOptions& options) {
  Rendezvous found{.coordinator = {}, .secret = given_secret(), .listener = {}};
  if (options.coordinator_address) {
    found.coordinator = parse_address(*options.coordinator_address, "coordinator_address");
  }
  const bool has_address = found.coordinator || (cluster && !cluster->coordinator_address.empty());
  // Processes that are numbered in another way than by the launcher are not those that it waits for.
  const bool is_its_job =
      cluster && cluster->num_processes == options.num_processes && cluster->process_id == options.process_id;
  if (is_its_job && !(found.secret && has_address)) meet_by_launcher(found, *cluster, options);
  if (!found.coordinator && has_address) {
    found.coordinator = parse_address(cluster->coordinator_address, "the coordinator's address");
  }
  if (!found.secret && cluster && cluster->method == "slurm" && has_munge()) {
    found.secret = Secret{.key = random_nonce(), .source = "munge", .by_munge = true};
  }
  if (found.secret || options.insecure.value_or(false)) return found;
  found.secret = secret_of_user();
  if (!found.secret && found.coordinator && is_loopback(found.coordinator->host)) found.secret = local_secret();
  return found;
}

}  // namespace shoal::distributed
