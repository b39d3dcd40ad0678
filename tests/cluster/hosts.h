// Hosts of a cluster on this machine: namespaces with a network, a host name, /dev/shm and a boot id of their own.
// Programs and other files are those of this machine.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "network_switch.h"
#include "support.h"

namespace shoal::cluster {

class Hosts {
 public:
  enum class Network {
    kBridge,  ///< A bridge of the kernel.
    kSwitch,  ///< A NetworkSwitch, which can lose and delay.
  };
  struct Options {
    Network network = Network::kBridge;
    bool own_name_is_loopback = false;  ///< In its list of hosts each is 127.0.1.1 for itself, as Debian has it.
    bool only_ipv6 = false;
  };

  /// Whether this process may make namespaces.
  static bool are_possible();

  /// Hosts h1, h2, ..., which reach each other by these names.
  explicit Hosts(int count) : Hosts(count, Options()) {}
  Hosts(int count, const Options& options);
  ~Hosts();
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;

  /// The shell command that runs another on host h1, h2, ...
  std::string on(int host, const std::string& command) const;
  /// A program that runs a command on a host, as ssh does: "ssh host command...". Of the environment only the test's
  /// mark and what a login sets go along.
  std::string ssh() const { return folder_.path(); }
  /// The address of a host, as a number.
  std::string address(int host) const;
  /// That of Network::kSwitch.
  NetworkSwitch& network_switch() { return *switch_; }

 private:
  void start(const std::string& name, const std::string& script);

  Options options_;
  ScratchFile folder_;                           // The stand-in for ssh; beside it the list of hosts.
  std::vector<std::unique_ptr<Command>> hosts_;  // Processes that sleep there.
  std::unique_ptr<Command> bridge_;
  std::unique_ptr<NetworkSwitch> switch_;
};

}  // namespace shoal::cluster
