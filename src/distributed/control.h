// The connection of a process to the coordination service.
//
// It joins the job in the constructor. run() then starts a thread that reads what the service says and sends
// heartbeats, so that a process that computes for long is not taken for dead.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "distributed/net.h"
#include "distributed/protocol.h"
#include "distributed/transport.h"

namespace shoal::distributed {

struct ControlOptions {
  Address coordinator;
  Join join;
  std::optional<Secret> secret;
  int coordinator_process = 0;                                        ///< The process that runs the service.
  std::chrono::milliseconds reset_timeout = std::chrono::seconds(1);  ///< For coming back after a reset.
};

/// Called by the thread of the connection.
struct ControlEvents {
  std::function<void(const std::vector<Fault>&)> faults;    ///< The cause first.
  std::function<void(int)> leaving;                         ///< A process has entered shutdown.
  std::function<std::string()> last_done;                   ///< What this process did last; asked at each heartbeat.
  std::function<std::string(const std::vector<int>&)> log;  ///< Its flight log, of launches with these processes.
};

class Control : public Client::Transport {
 public:
  /// Returns when all processes have joined; tries again and again if nobody listens yet. Throws as
  /// distributed::initialize.
  explicit Control(ControlOptions options);
  /// As close().
  ~Control() override;
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  void run(ControlEvents events);

  const Started& started() const { return started_; }
  /// The job's secret; zeros if it has none.
  Key secret() const { return secret_.value_or(Key{}); }
  /// The service's address, as this connection reached it.
  const Address& remote() const { return remote_; }

  /// Throws InvalidState in a child made by fork().
  Reply call(Request request) override;
  void report(const Fault& fault);
  /// Says goodbye, and ends the thread. Not to be called by an event.
  void close();

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Pending {
    RequestKind kind;
    std::optional<Reply> reply;
  };
  // A connection after the handshake.
  struct Link {
    Socket socket;
    Seals seals;
    std::string in;  // What was read and not yet taken.
    std::uint64_t seen_by_service = 0;
  };

  const Member& coordinator() const { return started_.members[static_cast<std::size_t>(options_.coordinator_process)]; }
  void join();
  Link handshake(Socket socket, bool again, Time deadline);
  void await_start();

  void work();
  void read();
  void take_frames();
  void take(const FrameView& frame);
  void beat();
  void lost(FaultKind kind, const std::string& why);
  bool reconnect();
  void finish(const std::string& text);

  void send(MessageType type, std::string body);  // These three need the lock.
  void write(MessageType type, const std::string& body);
  void flush();
  void wake() const;

  const ControlOptions options_;
  ControlEvents events_;
  std::optional<Key> secret_;  // As soon as it is known.
  Started started_;
  Address remote_;
  bool same_host_ = false;
  std::chrono::milliseconds beat_interval_ = {};

  std::mutex mutex_;
  std::condition_variable answered_;
  Link link_;
  std::string out_;
  Outbox outbox_;
  std::uint64_t seen_ = 0;
  std::map<std::uint64_t, Pending*> pending_;
  std::uint64_t last_request_ = 0;
  std::optional<std::string> lost_;  // Why there is no connection any more.
  bool ending_ = false;              // The job has met at shutdown: the end of the connection is no fault.
  bool closing_ = false;

  Socket wakeup_;
  std::string told_last_done_;
  Time last_heard_, next_beat_;
  std::thread thread_;
};

}  // namespace shoal::distributed
