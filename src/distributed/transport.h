// How a Client's requests are answered.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "distributed/job.h"
#include "distributed/protocol.h"
#include "shoal/distributed.h"

namespace shoal::distributed {

class Client::Transport {
 public:
  virtual ~Transport() = default;
  /// Sends a request, and waits for the reply.
  virtual Reply call(Request request) = 0;
};

/// Answers the process with this number, which is the only one of `members` that is there.
std::shared_ptr<Client::Transport> make_local_transport(int process, std::vector<Member> members);

/// Throws what the status stands for, unless that is kOk.
void throw_failure(Status status, const std::string& text);

}  // namespace shoal::distributed
