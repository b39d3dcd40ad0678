#include "run.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <stdexcept>
#include <utility>

#include "event_loop.h"
#include "guardian.h"
#include "hosts.h"
#include "local_host.h"
#include "output.h"
#include "remote_host.h"

namespace shoal::tool {

namespace {

constexpr const char* kLoopback = "127.0.0.1";
constexpr auto kPatienceWithSsh = std::chrono::seconds(60);
// What a process may take to end after a signal that asks for it, before it is told by SIGTERM.
constexpr auto kPatienceAfterSignal = std::chrono::seconds(2);
// What a host may take to tell of the end of processes that were killed.
constexpr auto kPatienceAfterKill = std::chrono::milliseconds(500);

/// Random bytes of the system, as hexadecimal digits.
std::string random_text(std::size_t num_bytes) {
  std::string bytes(num_bytes, '\0');
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) throw system_error("getrandom");
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file.is_open() || file.bad()) throw std::runtime_error(fmt::format("cannot read \"{}\"", path));
  return text;
}

/// "ended by signal 9 (Killed)" or "exited with 3".
std::string text_of(int status) {
  if (!WIFSIGNALED(status)) return fmt::format("exited with {}", WEXITSTATUS(status));
  return fmt::format("was ended by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
}

int exit_code_of(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

void say(const std::string& text) { fmt::print(stderr, "shoal run: {}\n", text); }

/// The variables that a process on another host would not have.
std::vector<std::string> variables_for(const RunOptions& options, bool is_remote) {
  std::vector<std::string> variables;
  if (is_remote) {
    // Shoal's own, but those that belong to this host or run.
    for (char** variable = environ; *variable != nullptr; ++variable) {
      const std::string_view text = *variable;
      const bool is_ours = text.starts_with("SHOAL_") && !text.starts_with("SHOAL_RUN_") &&
                           !text.starts_with("SHOAL_SECRET") && !text.starts_with("SHOAL_SSH=") &&
                           !text.starts_with("SHOAL_REMOTE_TOOL=");
      if (is_ours) variables.emplace_back(text);
    }
  }
  if (options.devices_per_process) {
    variables.push_back(fmt::format("SHOAL_NUM_CPU_DEVICES={}", *options.devices_per_process));
  }
  for (const std::string& variable : options.environment) {
    const std::size_t equals = variable.find('=');
    const char* const value = equals == std::string::npos ? std::getenv(variable.c_str()) : "";
    if (variable.empty() || equals == 0) throw std::runtime_error(fmt::format("--env {}: there is no name", variable));
    if (value == nullptr) throw std::runtime_error(fmt::format("--env {0}: {0} is not set here", variable));
    variables.push_back(equals == std::string::npos ? fmt::format("{}={}", variable, value) : variable);
  }
  return variables;
}

class Run {
 public:
  /// The run after so many others, in which single processes may be started again so often. The job tells in the file
  /// of its progress, and an elastic one in the other where its processes are.
  Run(const RunOptions& options, int restart, int restarts_left, const std::string& progress,
      const std::string& members)
      : options_(options),
        restart_(restart),
        restarts_left_(restarts_left),
        progress_(progress),
        members_(members),
        output_(output_options()) {}

  /// How many of those restarts are left.
  int restarts_left() const { return restarts_left_; }

  /// Whether the user, or the system, has asked for the end.
  bool was_asked_to_end() const { return was_asked_to_end_; }

  int run() {
    HostJob job = {.id = random_text(16), .secret = random_text(32), .arguments = options_.arguments};
    job.environment = variables_for(options_, !options_.hosts_file.empty());
    job.environment.push_back(fmt::format("SHOAL_RUN_RESTART={}", restart_));
    // Other hosts do not see the file.
    if (options_.hosts_file.empty()) job.environment.push_back("SHOAL_RUN_PROGRESS=" + progress_);
    if (options_.elastic && options_.hosts_file.empty()) job.environment.push_back("SHOAL_ELASTIC_FILE=" + members_);
    if (options_.hosts_file.empty()) {
      start_here(std::move(job));
    } else {
      start_elsewhere(std::move(job));
    }
    // A host that failed at once may have ended it all already.
    if (num_hosts_left_ > 0) loop_.run();
    for (int process = 0; process < num_processes_; ++process) output_.finish(process);
    const int code = exit_code_.value_or(num_hosts_left_ > 0 ? 128 + SIGKILL : 0);
    output_.event("end", fmt::format("\"code\":{}", code));
    return code;
  }

 private:
  OutputOptions output_options() {
    const auto ends = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    const auto others = {SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH};
    loop_.on_signals(others, [this](int signal) { signal_all(signal); });
    return {.prefix = options_.prefix,
            .json = options_.json,
            .log_dir = options_.log_dir.empty() || restart_ == 0
                           ? options_.log_dir
                           : fmt::format("{}/restart_{}", options_.log_dir, restart_),
            .signals = loop_.on_signals(ends, [this](int signal) { end_by(signal); }),
            .on_broken = [this] { loop_.after({}, [this] { fail(128 + SIGPIPE); }); }};
  }

  HostEvents events(const std::string& host, int first_process, int local_count) {
    return {.on_start =
                [this, host](int process, int pid) {
                  running_.insert(process);
                  output_.event("start",
                                fmt::format("\"process\":{},\"host\":{},\"pid\":{}", process, json_text(host), pid));
                },
            .on_output = [this](int process, Stream stream,
                                std::string_view bytes) { output_.write(process, stream, bytes); },
            .on_exit = [this](int process, int status) { process_ended(process, status); },
            .on_end = [this] { host_ended(); },
            .on_failure =
                [this, first_process, local_count](const std::string& text, int exit_code) {
                  if (!exit_code_) say(text);
                  bool goes_on = false;
                  for (int process = first_process; process < first_process + local_count; ++process) {
                    if (running_.erase(process) > 0) goes_on = goes_on_without(process);
                  }
                  host_ended();
                  if (!goes_on) fail(exit_code);
                }};
  }

  void start_here(HostJob job) {
    if (!options_.num_processes) throw std::runtime_error("-n is needed: the number of processes");
    port_ = std::make_unique<ReservedPort>(kLoopback);
    num_processes_ = job.num_processes = job.local_count = *options_.num_processes;
    job.coordinator_address = fmt::format("{}:{}", kLoopback, port_->number());
    auto host = std::make_unique<LocalHost>(loop_, guardian_, events("localhost", 0, num_processes_));
    LocalHost& here = *host;
    hosts_.push_back(std::move(host));
    num_hosts_left_ = 1;
    loop_.on_signals({SIGCHLD}, [&here](int) { here.reap(); });
    // A process that is not in the terminal's foreground would be stopped when it reads from it.
    here.start(job, isatty(STDIN_FILENO) == 0);
  }

  void start_elsewhere(HostJob job) {
    const auto entries = parse_hosts(read_file(options_.hosts_file), options_.hosts_file);
    const int num_slots = std::accumulate(entries.begin(), entries.end(), 0,
                                          [](int sum, const HostEntry& entry) { return sum + entry.slots; });
    num_processes_ = job.num_processes = options_.num_processes.value_or(num_slots);
    if (job.num_processes > num_slots) {
      throw std::runtime_error(
          fmt::format("-n {}: the hosts of {} take {} processes in all; write how many each takes, "
                      "as in \"{} slots=4\"",
                      job.num_processes, options_.hosts_file, num_slots, entries.front().name));
    }
    job.folder = std::filesystem::current_path();
    std::vector<HostJob> parts;
    for (const HostEntry& entry : entries) {
      if (job.first_process == job.num_processes) break;
      job.local_count = std::min(entry.slots, job.num_processes - job.first_process);
      auto host = std::make_unique<RemoteHost>(loop_, guardian_, events(entry.name, job.first_process, job.local_count),
                                               entry.name);
      remote_hosts_.push_back(host.get());
      hosts_.push_back(std::move(host));
      parts.push_back(job);
      job.first_process += job.local_count;
    }
    num_hosts_left_ = static_cast<int>(hosts_.size());
    num_hosts_to_connect_ = num_hosts_left_;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      remote_hosts_[i]->connect(parts[i], i == 0, [this, i](int port) {
        if (i == 0) coordinator_ = address_of(remote_hosts_[i]->name(), port);
        if (--num_hosts_to_connect_ == 0) start_all();
      });
    }
    loop_.after(kPatienceWithSsh, [this] {
      for (RemoteHost* host : remote_hosts_) {
        if (!host->is_ready()) host->give_up(fmt::format("no answer for {} s", kPatienceWithSsh.count()));
      }
    });
  }

  /// Where the others reach process 0: the host as it is called here, or loopback if there are no others.
  std::string address_of(const std::string& host, int port) const {
    if (hosts_.size() == 1) return fmt::format("{}:{}", kLoopback, port);
    const std::string name = host.substr(host.find('@') + 1);
    const bool is_ipv6 = name.find(':') != std::string::npos;
    return fmt::format("{}{}{}:{}", is_ipv6 ? "[" : "", name, is_ipv6 ? "]" : "", port);
  }

  void start_all() {
    for (RemoteHost* host : remote_hosts_) host->start(coordinator_);
  }

  void process_ended(int process, int status) {
    const int code = exit_code_of(status);
    output_.finish(process);
    output_.event("exit", fmt::format("\"process\":{},\"code\":{},\"signal\":{}", process, code,
                                      WIFSIGNALED(status) ? WTERMSIG(status) : 0));
    running_.erase(process);
    if (code == 0) return;
    const bool goes_on = goes_on_without(process);
    if (!exit_code_ && !was_asked_to_end_) {
      say(fmt::format("process {} {}{}", process, text_of(status), goes_on ? "; the others go on" : ""));
    }
    if (!goes_on) return fail(code);
    if (restarts_left_ == 0) return;
    for (const auto& host : hosts_) {
      if (!host->restart(process)) continue;
      failed_.erase(process);
      --restarts_left_;
      return say(fmt::format("process {} is started again, {} of {} times", process, options_.restarts - restarts_left_,
                             options_.restarts));
    }
  }

  /// Whether an elastic job goes on without a process that has failed.
  bool goes_on_without(int process) {
    failed_.insert(process);
    return options_.elastic && !exit_code_ && !was_asked_to_end_ &&
           num_processes_ - static_cast<int>(failed_.size()) >= options_.min_processes;
  }

  void host_ended() {
    if (--num_hosts_left_ == 0) loop_.stop();
  }

  /// The first failure is the job's; the others are stopped.
  void fail(int code) {
    if (exit_code_) return;
    exit_code_ = code;
    if (!was_asked_to_end_) terminate();
  }

  /// The user, or the system, asks for the end: the processes are told the same. If asked again, they are killed.
  void end_by(int signal) {
    if (was_asked_to_end_) return kill_all();
    was_asked_to_end_ = true;
    signal_all(signal);
    if (signal == SIGTERM) return kill_after_grace();
    loop_.after(kPatienceAfterSignal, [this] { signal_all(SIGTERM); });
    kill_after_grace();
  }

  void terminate() {
    signal_all(SIGTERM);
    kill_after_grace();
  }

  void kill_after_grace() {
    loop_.after(std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options_.grace)),
                [this] { kill_all(); });
  }

  void kill_all() {
    signal_all(SIGKILL);
    loop_.after(kPatienceAfterKill, [this] { loop_.stop(); });
  }

  void signal_all(int signal) {
    for (const auto& host : hosts_) host->signal(signal);
  }

  const RunOptions& options_;
  const int restart_;
  int restarts_left_;
  const std::string& progress_;
  const std::string& members_;
  Guardian guardian_;  // first of all that opens something, since it forks
  EventLoop loop_;
  Output output_;
  std::unique_ptr<ReservedPort> port_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<RemoteHost*> remote_hosts_;  // those of hosts_ that are
  std::string coordinator_;
  std::set<int> running_;
  std::set<int> failed_;  // And were not started again.
  int num_processes_ = 0;
  int num_hosts_left_ = 0;
  int num_hosts_to_connect_ = 0;
  std::optional<int> exit_code_;
  bool was_asked_to_end_ = false;
};

/// A file that is gone at the end.
class ScratchFile {
 public:
  ScratchFile() {
    const char* folder = std::getenv("TMPDIR");
    name_ = fmt::format("{}/shoal_run_XXXXXX", folder != nullptr && *folder != '\0' ? folder : "/tmp");
    const int descriptor = mkostemp(name_.data(), O_CLOEXEC);
    if (descriptor < 0) throw system_error(name_);
    close(descriptor);
  }
  ~ScratchFile() { unlink(name_.c_str()); }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  const std::string& name() const { return name_; }

 private:
  std::string name_;
};

}  // namespace

int run(const RunOptions& options) {
  const ScratchFile progress;
  const ScratchFile members;
  std::string told;       // What the file had when the last run ended.
  bool is_stuck = false;  // Whether that run told nothing new.
  int restarts_left = options.restarts;
  for (int restart = 0;; ++restart) {
    Run one(options, restart, options.elastic ? restarts_left : 0, progress.name(), members.name());
    const int code = one.run();
    if (options.elastic) restarts_left = one.restarts_left();
    if (code == 0 || one.was_asked_to_end() || restarts_left-- == 0) return code;
    const std::string now = read_file(progress.name());
    const bool was_stuck = std::exchange(is_stuck, now == told);
    told = now;
    if (is_stuck && was_stuck && !told.empty()) {
      say("two runs in a row have failed without a new checkpoint: the job is not started again");
      return code;
    }
    say(fmt::format("the job is started again, {} of {} times", options.restarts - restarts_left, options.restarts));
  }
}

}  // namespace shoal::tool
