#include "job.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <utility>

#include "base/test_command.h"

namespace shoal::multiprocess {
namespace {

using Clock = std::chrono::steady_clock;

// A port that nobody listens at. Another program might take it before the job does; then the job says so.
int free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (bind(socket, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw std::runtime_error("no free port");
  }
  close(socket);
  return ntohs(address.sin_port);
}

std::string free_address() { return "127.0.0.1:" + std::to_string(free_port()); }

// The variables of process number i.
std::map<std::string, std::string> variables(const Job& job, std::size_t i, const std::string& address) {
  std::map<std::string, std::string> env = job.env;
  env.merge(std::map<std::string, std::string>{{"SHOAL_NUM_CPU_DEVICES", std::to_string(job.devices[i])},
                                               {"SHOAL_NUM_THREADS", "1"},
                                               {"SHOAL_SECRET", "known to the processes of tests"},
                                               {"SHOAL_COORDINATOR_ADDRESS", address},
                                               {"SHOAL_NUM_PROCESSES", std::to_string(job.devices.size())},
                                               {"SHOAL_PROCESS_ID", std::to_string(i)}});
  return env;
}

std::string text_of(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

}  // namespace

std::map<std::string, Program>& programs() {
  static std::map<std::string, Program> all;
  return all;
}

struct Running::Process {
  pid_t pid = -1;
  int output = -1;
  bool reaped = false;
  Clock::time_point begin;
  Outcome outcome;
};

Running::Running(const Job& job) : job_(job), address_(free_address()), deadline_(Clock::now() + job.deadline) {
  processes_.resize(job.devices.size());
  for (std::size_t turn = 0; turn < job.devices.size(); ++turn) {
    if (turn > 0) std::this_thread::sleep_for(job.between);
    start(job.last_first ? job.devices.size() - 1 - turn : turn);
  }
}

void Running::start(std::size_t i) {
  const std::map<std::string, std::string> env = variables(job_, i, address_);
  std::array<int, 2> pipe{};
  if (pipe2(pipe.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  const pid_t pid = fork();
  if (pid < 0) throw std::runtime_error("no process");
  if (pid == 0) {
    for (const auto& [name, value] : env) setenv(name.c_str(), value.c_str(), 1);
    if (job_.in_child) job_.in_child(i);
    dup2(pipe[1], STDOUT_FILENO);
    dup2(pipe[1], STDERR_FILENO);
    const char* const kind = job_.joins_itself ? "--bare-program" : "--program";
    execl("/proc/self/exe", "multiprocess_test", kind, job_.program.c_str(), nullptr);
    _exit(127);
  }
  close(pipe[1]);
  Process& process = processes_[i];
  process.pid = pid;
  process.output = pipe[0];
  process.reaped = false;
  process.begin = Clock::now();
}

void Running::start_again(std::size_t process) {
  while (!processes_[process].reaped) read_some(std::chrono::milliseconds(10));
  start(process);
}

Running::~Running() {
  for (Process& process : processes_) {
    if (process.pid > 0 && !process.reaped) {
      kill(process.pid, SIGKILL);
      waitpid(process.pid, nullptr, 0);
    }
    if (process.output >= 0) close(process.output);
  }
}

int Running::pid(std::size_t process) const { return processes_[process].pid; }

void Running::signal(std::size_t process, int number) { kill(processes_[process].pid, number); }

// Reads what processes print, and notes those that have ended.
void Running::read_some(std::chrono::milliseconds most) {
  std::vector<pollfd> files;
  for (const Process& process : processes_) files.push_back({process.output, POLLIN, 0});
  poll(files.data(), files.size(), static_cast<int>(most.count()));
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    Process& process = processes_[i];
    if (process.output >= 0 && files[i].revents != 0) {
      std::array<char, 65536> text{};
      const ssize_t size = read(process.output, text.data(), text.size());
      if (size > 0) {
        process.outcome.output.append(text.data(), static_cast<std::size_t>(size));
      } else if (size == 0 || errno != EINTR) {
        close(std::exchange(process.output, -1));
      }
    }
    int status = 0;
    if (!process.reaped && process.output < 0 && waitpid(process.pid, &status, WNOHANG) == process.pid) {
      process.reaped = true;
      process.outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      process.outcome.seconds = std::chrono::duration<double>(Clock::now() - process.begin).count();
    }
  }
}

bool Running::wait_for_output(std::size_t process, const std::string& text) {
  while (processes_[process].outcome.output.find(text) == std::string::npos) {
    if (processes_[process].reaped || Clock::now() >= deadline_) return false;
    read_some(std::chrono::milliseconds(10));
  }
  return true;
}

std::vector<Outcome> Running::finish() {
  const auto all_over = [&] {
    for (const Process& process : processes_) {
      if (!process.reaped) return false;
    }
    return true;
  };
  bool killed = false;
  while (!all_over()) {
    if (!killed && Clock::now() >= deadline_) {
      killed = true;
      for (Process& process : processes_) {
        if (process.reaped) continue;
        process.outcome.output += "\n[killed at the deadline]\n";
        kill(process.pid, SIGKILL);
      }
    }
    read_some(std::chrono::milliseconds(10));
  }
  std::vector<Outcome> outcomes;
  for (Process& process : processes_) outcomes.push_back(std::move(process.outcome));
  return outcomes;
}

std::vector<Outcome> run(const Job& job) { return Running(job).finish(); }

// mpirun mixes what its processes print, so each writes to a file of its own.
std::vector<Outcome> run_by_mpirun(const Job& job, const std::vector<std::string>& words_before) {
  std::string folder = std::filesystem::temp_directory_path() / "shoal-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) throw std::runtime_error("no folder");
  const std::string address = free_address();
  std::vector<std::string> words = mpirun_words();
  for (std::size_t i = job.devices.size(); i-- > 0;) {
    if (words.back() != mpirun_words().back()) words.emplace_back(":");
    words.insert(words.end(), {"-n", "1"});
    words.insert(words.end(), words_before.begin(), words_before.end());
    words.emplace_back("env");
    for (const auto& [name, value] : variables(job, i, address)) words.push_back(name + "=" + value);
    const std::string output = folder + "/" + std::to_string(i);
    words.insert(words.end(),
                 {"sh", "-c", "exec \"$0\" --program \"$1\" >\"$2\" 2>&1", own_program(), job.program, output});
  }
  const CommandOutcome all = run_command(words, job.deadline);
  std::vector<Outcome> outcomes;
  for (std::size_t i = 0; i < job.devices.size(); ++i) {
    outcomes.push_back({all.code, text_of(folder + "/" + std::to_string(i)), all.seconds});
  }
  outcomes.front().output += all.output;
  std::filesystem::remove_all(folder);
  return outcomes;
}

}  // namespace shoal::multiprocess
