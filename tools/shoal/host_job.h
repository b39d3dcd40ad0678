// What is to be run on one host, and what happens there.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace shoal::tool {

/// The processes of a job on one host: those with consecutive ids from first_process on.
struct HostJob {
  int num_processes = 1;  ///< Of the whole job.
  int first_process = 0;
  int local_count = 1;
  std::string coordinator_address = {};
  std::string id;      ///< Tells this run from all others.
  std::string secret;  ///< Known to its processes alone.
  std::vector<std::string> arguments;
  std::vector<std::string> environment = {};  ///< "NAME=VALUE", besides that of the host.
  std::string folder = {};                    ///< Where the processes run.
};

/// What detect_cluster() of a process reads: "NAME=VALUE".
std::vector<std::string> environment_of(const HostJob& job, int local_index);

/// A port for process 0 to listen on, on `address` (IPv4): a socket that is bound to it and does not listen. As long as
/// it is there nobody is given the port, but process 0, which binds with SO_REUSEADDR.
class ReservedPort {
 public:
  explicit ReservedPort(const std::string& address);
  ~ReservedPort();
  ReservedPort(const ReservedPort&) = delete;
  ReservedPort& operator=(const ReservedPort&) = delete;
  int number() const { return number_; }

 private:
  int socket_ = -1;
  int number_ = 0;
};

enum class Stream : std::uint8_t { kOutput, kErrors };

/// Is told what happens to the processes of a host.
struct HostEvents {
  std::function<void(int process, int pid)> on_start;
  std::function<void(int process, Stream stream, std::string_view bytes)> on_output;
  /// `status` as of waitpid(). The process's output may go on, if it has left children.
  std::function<void(int process, int status)> on_exit;
  /// All have ended, and nothing more comes.
  std::function<void()> on_end;
  /// The processes cannot be started, or the host is lost. Nothing more comes.
  std::function<void(const std::string& text, int exit_code)> on_failure;
};

/// A host with its part of a job.
class Host {
 public:
  virtual ~Host() = default;
  Host() = default;
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;
  /// Sends a signal to the process groups of all processes that have not ended.
  virtual void signal(int number) = 0;
  /// Starts a process again that has ended; false if that cannot be done here.
  virtual bool restart(int /*process*/) { return false; }
};

}  // namespace shoal::tool
