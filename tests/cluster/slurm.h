// Slurm with its authentication, in a folder of its own: the real daemons, which end with this object.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "support.h"

namespace shoal::cluster {

/// A node of it.
struct SlurmNode {
  std::string name;
  std::string host;  ///< The name of its host.
  std::string address;
  std::function<std::string(const std::string& command)> on_it;  ///< A command that runs another on the node's host.
};

class Slurm {
 public:
  static bool is_installed();

  /// Starts the nodes' daemons, and the controller on the host of the first.
  explicit Slurm(const std::vector<SlurmNode>& nodes);
  /// All on this machine: nodes n1 to n4, with two processors each.
  static std::unique_ptr<Slurm> on_this_machine();
  ~Slurm();
  Slurm(const Slurm&) = delete;
  Slurm& operator=(const Slurm&) = delete;

  /// Waits until all nodes can run jobs; false if they do not come to that.
  bool is_ready();
  /// The variables that clients need, and who talks to munge.
  std::vector<std::string> environment() const;
  /// What the daemons wrote.
  std::string logs() const;

 private:
  ScratchFile folder_{""};
  std::vector<SlurmNode> nodes_;
  std::vector<std::unique_ptr<Command>> daemons_;
};

}  // namespace shoal::cluster
