#include "hosts.h"

#include <unistd.h>

#include <csignal>
#include <fstream>
#include <sstream>

namespace shoal::cluster {

namespace {

// "$1" is the host's name, "$2" the folder.
constexpr const char* kHost = R"(
hostname $1
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /run
mount --bind $2/hosts.$1 /etc/hosts
mount --bind $2/boot.$1 /proc/sys/kernel/random/boot_id
ip link set lo up
echo ready
exec sleep infinity
)";

constexpr const char* kBridge = R"(
ip link add br0 type bridge
ip link set br0 up
echo ready
exec sleep infinity
)";

// As ssh and sshd: of the environment little goes along, and words become one for the other side's shell. Launchers
// give options before the host.
constexpr const char* kSsh = R"sh(#!/bin/sh
while [ "${1#-}" != "$1" ]; do case $1 in -o|-p|-l) shift ;; esac; shift; done
host=${1#*@}
shift
exec env -i PATH="$PATH" HOME=/var/empty SHOAL_LAUNCHER_TEST="$SHOAL_LAUNCHER_TEST" \
  nsenter -t "$(cat "${0%/*}/pid.$host")" -n -u -i -m sh -c "$*"
)sh";

std::string read_file(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::string name_of(std::size_t index) { return "h" + std::to_string(index + 1); }

}  // namespace

bool Hosts::are_possible() {
  return geteuid() == 0 && is_installed("ip") && is_installed("nsenter") &&
         run("unshare --net --uts --ipc --mount true").exit_code == 0;
}

Hosts::Hosts(int count, const Options& options) : options_(options), folder_(kSsh) {
  const std::string folder = folder_.folder();
  const auto number = static_cast<std::size_t>(count);
  for (std::size_t i = 0; i < number; ++i) {
    std::ofstream list(folder + "/hosts." + name_of(i));
    list << "127.0.0.1 localhost\n::1 localhost\n";
    if (options.own_name_is_loopback) list << "127.0.1.1 " << name_of(i) << "\n";
    for (std::size_t j = 0; j < number; ++j) {
      if (j != i || !options.own_name_is_loopback)
        list << address(static_cast<int>(j) + 1) << " " << name_of(j) << "\n";
    }
    std::ofstream(folder + "/boot." + name_of(i)) << read_file("/proc/sys/kernel/random/uuid");
    start(name_of(i), kHost);
  }
  const auto in_network = [](pid_t process, const std::string& command) {
    const Ended ended = run("nsenter -t " + std::to_string(process) + " -n sh -ec '" + command + "'");
    EXPECT_EQ(ended.exit_code, 0) << command << ": " << ended.err;
  };
  if (options.network == Network::kSwitch) {
    std::vector<pid_t> processes;
    for (const auto& host : hosts_) processes.push_back(host->pid());
    switch_ = std::make_unique<NetworkSwitch>(processes);
  } else {
    start("bridge", kBridge);
    bridge_ = std::move(hosts_.back());
    hosts_.pop_back();
  }
  for (std::size_t i = 0; i < number; ++i) {
    if (!switch_) {
      const std::string port = "p" + std::to_string(i + 1);
      in_network(bridge_->pid(), "ip link add " + port + " type veth peer name eth0 netns " +
                                     std::to_string(hosts_[i]->pid()) + "; ip link set " + port + " master br0 up");
    }
    in_network(hosts_[i]->pid(), "ip addr add " + address(static_cast<int>(i) + 1) +
                                     (options.only_ipv6 ? "/64 nodad" : "/24") + " dev eth0; ip link set eth0 up");
  }
}

Hosts::~Hosts() {
  switch_.reset();
  // Namespaces end with the last process in them.
  for (const auto& host : hosts_) host->signal(SIGKILL);
  if (bridge_) bridge_->signal(SIGKILL);
}

void Hosts::start(const std::string& name, const std::string& script) {
  const std::string folder = folder_.folder();
  hosts_.push_back(std::make_unique<Command>(
      "exec unshare --net --uts --ipc --mount sh -ec '" + script + "' sh " + name + " " + folder,
      std::vector<std::string>(), std::chrono::hours(1)));
  hosts_.back()->read_until("ready\n");
  std::ofstream(folder + "/pid." + name) << hosts_.back()->pid();
}

std::string Hosts::on(int host, const std::string& command) const {
  return "nsenter -t " + std::to_string(hosts_[static_cast<std::size_t>(host) - 1]->pid()) + " -n -u -i -m " + command;
}

std::string Hosts::address(int host) const {
  return (options_.only_ipv6 ? "fd77::" : "10.77.0.") + std::to_string(host);
}

}  // namespace shoal::cluster
