// The coordination service of a job, which lives in process 0.
//
// It admits the processes, tells all of them when everybody is there, keeps the Board, and watches: a process whose
// connection ends or that is silent for too long has failed. What goes wrong is collected for a moment, so that the
// cause precedes its consequences, and told to all. One thread does everything.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "distributed/net.h"
#include "distributed/secret.h"

namespace shoal::distributed {

struct ServiceOptions {
  std::string version;           ///< Of the library; processes with another are refused.
  std::string job;               ///< The launcher's name for the job; so are those of another.
  int num_processes = 1;         ///< Numbers of processes are below it.
  std::vector<int> absent = {};  ///< The numbers that no process has.
  std::optional<Secret> secret = {};
  std::string host_identity = {};  ///< Of its process. Connections to others on this host cannot be reset by a network.
  std::chrono::milliseconds heartbeat_timeout = std::chrono::seconds(100);
  std::chrono::milliseconds handshake_timeout = std::chrono::seconds(10);  ///< For who has not joined.
  std::chrono::milliseconds reset_timeout = std::chrono::seconds(1);       ///< For coming back after a reset.
};

class Service {
 public:
  /// Serves whoever connects to `listener`, a socket that listens.
  Service(Socket listener, ServiceOptions options);
  /// As stop() without time.
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  /// Where it listens.
  Address address() const;
  /// Ends when all connections of members have ended, or after this time, with what was to be sent.
  void stop(std::chrono::milliseconds grace);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace shoal::distributed
