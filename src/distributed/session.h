// This process as one of a job: what the layers above need of distributed::initialize.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "distributed/job.h"
#include "distributed/net.h"
#include "distributed/protocol.h"
#include "distributed/secret.h"
#include "shoal/distributed.h"

namespace shoal::distributed {

class Control;
class Service;

struct SessionOptions {
  Address coordinator = {};          ///< Where process 0 is reached. A job of one process needs none.
  std::optional<Address> bind = {};  ///< Where process 0 listens; default: see InitializeOptions.
  int num_processes = 1;
  int process = 0;
  /// The numbers below num_processes that no process has, of a job that goes on without some.
  std::vector<int> absent = {};
  int coordinator_process = 0;  ///< That runs the coordination service.
  std::string job = {};         ///< The launcher's name for the job.
  std::string card = {};
  std::optional<std::vector<int>> local_device_ids = {};
  std::optional<Secret> secret = {};
  std::chrono::milliseconds initialization_timeout = std::chrono::seconds(300);
  std::chrono::milliseconds heartbeat_timeout = std::chrono::seconds(100);
  std::chrono::milliseconds shutdown_timeout = std::chrono::seconds(300);
  std::string host = {};           ///< This host's name; empty: as the system says.
  std::string host_identity = {};  ///< See Member; empty: as the system says.
};

/// All functions may be called by any thread.
class Session {
 public:
  /// That of initialize(), until shutdown(); null outside.
  static std::shared_ptr<Session> current() noexcept;

  /// Joins the job. Throws as distributed::initialize. Process 0 listens at `listener`, if that is given.
  explicit Session(SessionOptions options, Socket listener = {});
  /// Leaves without waiting for the others, which is a fault if they still work.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  int process_index() const { return options_.process; }
  /// How many there are.
  int num_processes() const { return static_cast<int>(processes_.size()); }
  /// Their numbers, ascending.
  const std::vector<int>& processes() const { return processes_; }
  /// The place of this process among them, from 0 on.
  int place() const;
  /// By process id; those that are not there are not present (is_present).
  const std::vector<Member>& members() const { return members_; }
  const Member& me() const { return members_[static_cast<std::size_t>(options_.process)]; }
  /// The options with which it joined, and the key of the secret of the job; zeros if it has none.
  const SessionOptions& options() const { return options_; }
  Key secret() const;
  /// Whether all can share memory, and reach each other by loopback.
  bool is_on_one_host() const;
  /// Those of initialize(); none: all.
  const std::optional<std::vector<int>>& local_device_ids() const { return options_.local_device_ids; }
  Client& client() { return *client_; }
  /// For connections between processes of this job: the same in all of them, another for each label.
  Key key(std::string_view label) const;

  /// Tells all processes, this one as well, within a quarter of a second. `host` need not be given.
  void report(const Fault& fault);
  /// The first fault that was told, the cause of the others; null as long as all is well. One atomic load.
  const Fault* fault() const noexcept;
  /// All that were told, in the order in which one may have caused the other.
  std::vector<Fault> faults() const;
  /// The first fault that ended what these processes do together; null as long as there is none, which takes one atomic
  /// load to know.
  const Fault* failure_of(const std::vector<int>& processes) const;
  /// The same, waited for.
  const Fault* await_failure_of(const std::vector<int>& processes, std::chrono::milliseconds timeout) const;
  /// Whether a process has entered shutdown: it takes part in nothing any more.
  bool is_leaving(int process) const;

  /// Calls `f` at each fault, with those told before as well; at once if there are any. `f` is called by the thread of
  /// the connection, must not wait, and is kept until the session ends.
  void on_fault(std::function<void(const Fault&)> f);
  /// Calls `f` with each process that enters shutdown, in the same way.
  void on_leaving(std::function<void(int process)> f);
  /// What this process did last, as a text for messages, and its flight log as bytes, where launches with some
  /// processes are of most interest: asked for now and then by the thread of the connection.
  void set_records(std::function<std::string()> last_done, std::function<std::string(const std::vector<int>&)> log);
  /// Where a process is that this one waits for in a launch on `processes`: a sentence without its subject; empty if
  /// nothing is known.
  std::string whereabouts_of(int process, const std::vector<int>& processes);

  /// Leaves at once, without waiting for anybody: those that still need this process hear that it is gone.
  void abandon();

  /// As distributed::shutdown. `launches` are those of this process, which are compared with those of the others.
  void shutdown(std::vector<Launches> launches = {});

 private:
  void take_faults(const std::vector<Fault>& faults);
  void take_leaving(int process);
  std::string last_done() const;
  const Fault* find_failure(const std::vector<int>& processes) const;

  const SessionOptions options_;
  std::vector<int> processes_;
  std::vector<Member> members_;
  Key key_ = {};
  std::unique_ptr<Service> service_;  // In process 0.
  std::shared_ptr<Control> control_;  // None in a job of one process.
  std::optional<Client> client_;

  mutable std::mutex mutex_;
  mutable std::condition_variable told_;
  std::atomic<const Fault*> first_fault_ = nullptr;
  std::vector<std::unique_ptr<const Fault>> faults_;
  std::set<int> leaving_;
  std::atomic<bool> any_leaving_ = false;
  std::vector<std::function<void(const Fault&)>> fault_callbacks_;
  std::vector<std::function<void(int)>> leaving_callbacks_;
  std::function<std::string()> last_done_;
  std::function<std::string(const std::vector<int>&)> log_;
};

/// Counts from 1 on what processes do together in one order. Each session begins anew, so that processes that have
/// not been in the same ones before give the same numbers.
class SessionCounter {
 public:
  std::uint64_t next();

 private:
  std::mutex mutex_;
  std::weak_ptr<Session> session_;
  std::uint64_t number_ = 0;
};

/// What is thrown for a fault: Disagreement; DeadlineExceeded where a launch waited too long; else ProcessFailed.
std::exception_ptr error_of(const Fault& fault);

/// Makes the card of a process that uses these of its devices, or all.
using MakeCard = std::function<std::string(const std::optional<std::vector<int>>& local_device_ids)>;

/// The part of distributed::initialize that knows of no devices. `card` is called once it is known that there are other
/// processes.
void start_session(const InitializeOptions& options, const MakeCard& card, const SourceLocation& where);

/// The part of distributed::shutdown that knows of no devices.
void leave_session(std::vector<Launches> launches, const SourceLocation& where);

/// Leaves at once, as what follows start_session() failed, and tells the others why.
void abandon_session(const std::string& why) noexcept;

/// What initialize() would join with these options, and the socket at which this process listens, if there is one
/// already. Throws as initialize().
std::pair<SessionOptions, Socket> session_options(InitializeOptions options);

/// Takes the place of the session of before, if there was one: this process joins with these options. Throws as
/// initialize(); there is no session then.
std::shared_ptr<Session> next_session(SessionOptions options, Socket listener);

/// The session of before is that of the process no longer.
std::shared_ptr<Session> take_session() noexcept;

/// What is the same for processes that can share memory and files: the running kernel, the network and the file system.
std::string host_identity();

}  // namespace shoal::distributed
