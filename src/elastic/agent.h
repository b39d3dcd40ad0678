// How the processes of a job agree on who goes on, when some of them are lost or others come.
//
// Each process has an agent: a thread that answers the others, whatever the program does meanwhile. There is no service
// in any one process, so it does not matter which of them are lost. A process that has lost another calls meet(): it
// asks all agents of its generation, until each has answered, or is known not to.
//
//   answer                                what it means
//   nobody listens                        the process has ended
//   it is at work                         it will come to meet(), too, and is waited for
//   it meets                              it goes on
//   it is in a later generation           which has this process: it goes there; or not: this process is fenced
//   none, though the system takes calls   it is stopped, if so for three surveys; when it wakes, it will ask, and
//                                         find itself fenced
//   none at all                           its host or the network is down: more than half of the others must be here
//
// Of those that meet, the one with the lowest number leads. It proposes who goes on, with the address at which it will
// run the coordination service; when all have accepted, it decides, and tells them. Where two lead, as one has not
// heard of the other in time, the lower number's plan takes the place of the other's own. So a process goes on only in
// a generation that all of its members have accepted.
//
// Calls and answers are sealed by a key of the job. A new process knocks at all agents, and is in the next proposal
// that takes in others.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/socket.h"
#include "distributed/net.h"
#include "distributed/secret.h"

namespace shoal::elastic {

/// A process of the job, and where its agent is.
struct Seat {
  int process = 0;
  std::uint64_t incarnation = 0;  ///< Another one each time the program starts.
  std::string host;               ///< By which others reach it; several with commas between them.
  std::uint16_t port = 0;
  int devices = 0;  ///< How many it has.

  static void fields(auto& self, auto& archive) {
    archive(self.process, self.incarnation, self.host, self.port, self.devices);
  }
  friend bool operator==(const Seat&, const Seat&) = default;
};

/// Who goes on.
struct Plan {
  std::uint64_t generation = 0;
  std::vector<Seat> seats;     ///< Ascending by process.
  int leader = 0;              ///< The process that runs the coordination service,
  std::uint16_t port = 0;      ///< and its port.
  distributed::Nonce nonce{};  ///< The secret of the generation is made of it.

  bool has(const Seat& seat) const;
  const Seat& seat_of(int process) const;
  static void fields(auto& self, auto& archive) {
    archive(self.generation, self.seats, self.leader, self.port, self.nonce);
  }
};

struct MeetOptions {
  bool takes_in = false;    ///< Whether those that knock are taken in.
  int min_processes = 1;    ///< Fewer do not go on: they wait for those that knock.
  bool on_one_host = true;  ///< Whether the coordination service need only be reached from this host.
  /// How long processes that are at work are waited for, and those that are missing for min_processes.
  std::chrono::milliseconds patience{60'000};
  /// Throws if so many devices are too few.
  std::function<void(std::int64_t devices)> check_devices = {};
};

struct Agreement {
  Plan plan;
  Socket listener;  ///< Of the leader's service; none in the others.
};

/// All functions may be called by the one thread that runs the program; its own thread answers others.
class Agent {
 public:
  /// Of a process that listens there. Its calls are sealed by `key`.
  Agent(distributed::Key key, Seat me, Socket listener);
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  const Seat& me() const { return me_; }
  /// This process is in that generation, and at work. Those that are to be taken in knock again.
  void enter(const Plan& plan);
  std::vector<Seat> seats() const;

  /// The devices of this generation, and those of the processes that have knocked.
  std::int64_t devices() const;
  std::int64_t knocking_devices() const;
  /// For a process that may have been stopped since it last called this: asks the others, and throws Fenced if they
  /// have gone on without it. Takes a nanosecond if the agent's thread has run all the time.
  void check_not_stopped();

  /// Agrees with the other processes of this generation on the next one. Throws Fenced if they have gone on without
  /// this process; ProcessFailed if too few are left, or if it cannot be known whether others go on.
  Agreement meet(const MeetOptions& options);
  /// As a new process: knocks at these agents until it is taken in. nullopt if none of them is there. Throws
  /// DeadlineExceeded if it is not taken in by then.
  std::optional<Agreement> knock(const std::vector<Seat>& at, std::chrono::milliseconds timeout);

 private:
  using Clock = std::chrono::steady_clock;
  struct Connection;
  struct Called;
  struct Survey;

  void work();
  bool read_from(Connection& connection);
  std::string answer(const std::string& body);

  Called call(const Seat& seat, const std::string& body, std::chrono::milliseconds timeout) const;
  Called call_at(const distributed::Endpoint& endpoint, const std::string& body, Clock::time_point deadline) const;
  std::vector<Called> call_all(const std::vector<Seat>& seats, const std::string& body,
                               std::chrono::milliseconds timeout) const;
  void enter_locked(const Plan& plan);
  Survey survey() const;
  std::optional<Agreement> lead(const Survey& survey, const MeetOptions& options);
  std::optional<Plan> await_decision(std::chrono::milliseconds time);
  Agreement settle(Plan plan, Socket listener);

  const distributed::Key key_;
  const Seat me_;
  Socket listener_;
  Socket wakeup_;  // Readable when the agent ends.

  mutable std::mutex mutex_;  // Guards what follows.
  std::condition_variable changed_;
  Plan plan_;  // Of the generation that this process is in.
  bool is_meeting_ = false;
  bool is_new_ = false;           // It knocks: any plan that has it will do.
  std::optional<Plan> proposed_;  // The last one that it has accepted while it meets.
  bool is_decided_ = false;       // And that its leader has decided.
  std::map<int, Seat> knocks_;

  std::atomic<Clock::rep> last_tick_{0};    // When the thread last ran.
  std::atomic<Clock::rep> stopped_for_{0};  // The longest time it did not, since that was last looked at.
  std::thread thread_;                      // The last: it uses all others.
};

}  // namespace shoal::elastic
