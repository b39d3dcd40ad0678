// How process 0 gives the others a key by MUNGE, which the hosts of a Slurm cluster run.
//
// A credential is made and opened by the hosts' munge daemons, which share a key of their own. It says which user has
// made it, and only that user can have it opened; so it may be shown to anyone.
#pragma once

#include <string>

#include "distributed/secret.h"

namespace shoal::distributed {

/// Whether libmunge is installed here and the daemon answers; at SHOAL_MUNGE_SOCKET if that is set.
bool has_munge();

/// A credential that holds this key, for processes of this process's user. Throws DistributedError if the daemon does
/// not make it.
std::string seal_by_munge(const Key& key);

/// The key of a credential. Throws DistributedError if the daemon does not open it, or if it was made by another user.
Key open_by_munge(const std::string& credential);

}  // namespace shoal::distributed
