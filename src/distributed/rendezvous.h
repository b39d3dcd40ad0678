// Where the processes of a job meet, and which secret they share.
#pragma once

#include <optional>
#include <string>

#include "distributed/detect.h"
#include "distributed/net.h"
#include "distributed/secret.h"
#include "shoal/distributed.h"

namespace shoal::distributed {

struct Rendezvous {
  std::optional<Address> coordinator;  ///< nullopt: nobody tells.
  std::optional<Secret> secret;
  Socket listener;  ///< In process 0, if it has chosen the port.
};

/// A socket that listens on a port that is free, of those that SHOAL_PORT_RANGE allows: for this host alone, or for
/// all.
Socket listen_anywhere(bool on_one_host);
/// By which addresses the other processes of a job reach this host: loopback, or several with commas between them.
std::string own_hosts(bool on_one_host);

/// The address is coordinator_address of the options, that which process 0 tells by the launcher, or that which all
/// make of what the launcher has told. The secret is the first of these: what the environment gives (given_secret()); a
/// random one that process 0 tells by the launcher, with its address and a port that is free (launcher_space.h); a
/// random one that it tells by MUNGE, in a step of Slurm; that of the user (secret_of_user()); if the coordinator is
/// reached from this host alone, that of the user's jobs on it (local_secret()). The last two are no matter of a job
/// that is to be insecure. The options have what the cluster told, but for the address. Throws InvalidArgument for
/// addresses and secrets that cannot be, and as share_by_launcher().
Rendezvous find_rendezvous(const std::optional<Cluster>& cluster, const InitializeOptions& options);

}  // namespace shoal::distributed
