#include "slurm.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <fstream>
#include <sstream>
#include <thread>

namespace shoal::cluster {

namespace {

// Ports that nobody has now.
std::vector<int> free_ports(std::size_t count) {
  std::vector<int> sockets;
  std::vector<int> ports;
  while (ports.size() < count) {
    sockets.push_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(sockets.back(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(getsockname(sockets.back(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    ports.push_back(ntohs(address.sin_port));
  }
  for (const int one : sockets) close(one);
  return ports;
}

}  // namespace

bool Slurm::is_installed() {
  return cluster::is_installed("/usr/sbin/slurmctld") && cluster::is_installed("/usr/sbin/slurmd") &&
         cluster::is_installed("/usr/sbin/munged") && cluster::is_installed("srun");
}

Slurm::Slurm(const std::vector<SlurmNode>& nodes) : nodes_(nodes) {
  const std::string folder = folder_.folder();
  for (const char* name : {"/munge", "/state", "/spool", "/log", "/tmp"}) {
    std::filesystem::create_directories(folder + name);
  }
  std::filesystem::permissions(folder, std::filesystem::perms(0755));
  EXPECT_EQ(run("umask 077; head -c 1024 /dev/urandom > " + folder + "/munge/munge.key").exit_code, 0);
  daemons_.push_back(std::make_unique<Command>(
      "exec /usr/sbin/munged --foreground --force --key-file=" + folder + "/munge/munge.key --socket=" + folder +
      "/munge/munge.sock --pid-file=" + folder + "/munge/munged.pid --log-file=" + folder +
      "/log/munged.log --seed-file=" + folder + "/munge/munged.seed"));
  const std::vector<int> ports = free_ports(nodes.size() + 1);
  std::ofstream config(folder + "/slurm.conf");
  config << "ClusterName=shoal\nSlurmctldHost=" << nodes[0].host << "(" << nodes[0].address
         << ")\nSlurmctldPort=" << ports.back()
         << "\nSlurmUser=root\nSlurmdUser=root\nAuthType=auth/munge\nAuthInfo=socket=" << folder
         << "/munge/munge.sock\nCredType=cred/munge\nSlurmctldPidFile=" << folder
         << "/slurmctld.pid\nStateSaveLocation=" << folder << "/state\nSlurmdPidFile=" << folder
         << "/slurmd.%n.pid\nSlurmdSpoolDir=" << folder << "/spool/%n\nTmpFS=" << folder
         << "/tmp/%n\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n"
            "JobAcctGatherType=jobacct_gather/none\nAccountingStorageType=accounting_storage/none\n"
            "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nSchedulerType=sched/backfill\n"
            "SwitchType=switch/none\nMpiDefault=none\nReturnToService=2\nSlurmdParameters=config_overrides\n"
            "SlurmdTimeout=30\nKillWait=2\nInactiveLimit=0\n";
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    std::filesystem::create_directories(folder + "/spool/" + nodes[i].name);
    std::filesystem::create_directories(folder + "/tmp/" + nodes[i].name);
    config << "NodeName=" << nodes[i].name << " NodeHostname=" << nodes[i].host << " NodeAddr=" << nodes[i].address
           << " Port=" << ports[i] << " CPUs=2 RealMemory=100 State=UNKNOWN\n";
  }
  config << "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n";
  config.close();
  const auto start = [&](const std::string& command) {
    daemons_.push_back(std::make_unique<Command>("exec " + command, environment()));
  };
  start(nodes[0].on_it("env SLURM_CONF=" + folder + "/slurm.conf /usr/sbin/slurmctld -D -i -c -L " + folder +
                       "/log/slurmctld.log"));
  for (const SlurmNode& node : nodes) {
    start(node.on_it("env SLURM_CONF=" + folder + "/slurm.conf /usr/sbin/slurmd -D -N " + node.name + " -L " + folder +
                     "/log/slurmd." + node.name + ".log"));
  }
}

std::unique_ptr<Slurm> Slurm::on_this_machine() {
  const auto here = [](const std::string& command) { return command; };
  std::vector<SlurmNode> nodes;
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  for (const char* name : {"n1", "n2", "n3", "n4"}) nodes.push_back({name, host.data(), "127.0.0.1", here});
  return std::make_unique<Slurm>(nodes);
}

Slurm::~Slurm() {
  // The nodes' daemons first: they tell the controller.
  while (!daemons_.empty()) {
    daemons_.back()->signal(SIGTERM);
    daemons_.back()->wait();
    daemons_.pop_back();
  }
}

std::vector<std::string> Slurm::environment() const {
  const std::string folder = folder_.folder();
  return {"SLURM_CONF=" + folder + "/slurm.conf", "SHOAL_MUNGE_SOCKET=" + folder + "/munge/munge.sock"};
}

bool Slurm::is_ready() {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (std::chrono::steady_clock::now() < deadline) {
    const Ended nodes = run(nodes_[0].on_it("timeout 5 sinfo --noheader --Node --format=%T"), environment());
    if (count_of(nodes.out, "idle\n") == static_cast<int>(nodes_.size())) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  return false;
}

std::string Slurm::logs() const {
  std::ostringstream text;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.folder() / "log")) {
    text << "--- " << entry.path().filename() << "\n" << std::ifstream(entry.path()).rdbuf() << "\n";
  }
  return text.str();
}

}  // namespace shoal::cluster
