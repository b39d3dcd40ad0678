// What the processes of a job write down for each other, and where they meet: keys with values, barriers.
//
// The board knows nothing of connections and threads. A request is answered by a call of its function, now or later;
// time is given by the caller.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "distributed/job.h"
#include "distributed/protocol.h"

namespace shoal::distributed {

class Board {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Answer = std::function<void(Reply)>;

  /// What keys, values and requests that wait may take together, of the memory of process 0.
  static constexpr std::size_t kMostBytes = std::size_t{1} << 30;

  /// `members` in the order of their process ids, those that are not there as well. `on_fault` is told when a process
  /// waits for one that has left, and calls expect_failure(); and when processes meet at shutdown that did not launch
  /// the same. A request that would take it beyond `most_bytes` fails.
  Board(std::vector<Member> members, std::function<void(Fault)> on_fault, std::size_t most_bytes = kMostBytes);

  void handle(int process, const Request& request, Time now, Answer answer);

  /// When expire() is next needed.
  std::optional<Time> next_deadline() const;
  /// Answers what has waited too long.
  void expire(Time now);

  /// The process is gone; its own requests are forgotten.
  void remove(int process);
  /// Something has failed, and fail_all() comes soon: until then what waits is left waiting.
  void expect_failure() { failing_ = true; }
  /// Answers everything that waits by this failure. From now on nobody waits at shutdown.
  void fail_all(const std::string& text);
  /// The common work of these processes has failed: what they launched is not compared.
  void note_failed(const std::vector<int>& processes) { failed_sets_.insert(processes); }
  /// A fault was told that was found when all had met at shutdown: ends that.
  void end_shutdown();

  /// Whether all processes have met at shutdown.
  bool is_finished() const { return finished_; }
  /// Whether this process has entered shutdown.
  bool is_leaving(int process) const { return state_[index(process)] == State::kLeaving; }

 private:
  enum class State : std::uint8_t { kWorking, kLeaving, kGone };
  using WaitId = std::uint64_t;
  struct Wait {
    int process = 0;
    Request request;
    Time deadline;
    Answer answer;
  };
  // Barriers, meetings of those that live, and the shutdown.
  struct Meeting {
    std::vector<int> processes;     // Sorted.
    std::map<int, WaitId> arrived;  // By process.
  };
  using Meetings = std::map<std::string, Meeting>;

  static std::size_t index(int process) { return static_cast<std::size_t>(process); }
  WaitId wait(int process, const Request& request, Time now, Answer answer);
  void finish(WaitId id, Reply reply);
  void finish(Meeting meeting, const Reply& reply);

  std::optional<Reply> refusal(const Request& request) const;
  void set(const Request& request, const Answer& answer);
  void publish(const std::string& key, const std::string& value);
  void increment(const Request& request, const Answer& answer);
  void meet(Meetings& meetings, int process, const Request& request, Time now, Answer answer);
  void check_barrier(const std::string& id);
  void check_live();
  void check_gets();
  void enter_shutdown(int process, const Request& request, Time now, Answer answer);
  std::optional<Fault> differing_launches() const;
  void time_out(const Wait& wait);

  std::vector<int> all_processes() const;
  std::vector<int> missing(const Meeting& meeting) const;
  std::string names(const std::vector<int>& processes) const;

  std::vector<Member> members_;
  std::function<void(Fault)> on_fault_;
  std::vector<State> state_;
  const std::size_t most_bytes_;
  std::size_t bytes_ = 0;  // Of values_ and waits_.
  std::map<std::string, std::string> values_;
  std::map<WaitId, Wait> waits_;
  std::set<std::pair<Time, WaitId>> deadlines_;
  std::multimap<std::string, WaitId> gets_;
  Meetings barriers_, live_;
  // Barriers that failed, and who has not been told.
  std::map<std::string, std::pair<Reply, std::set<int>>> failed_;
  Meeting shutdown_;
  std::map<int, Farewell> farewells_;  // By process.
  std::set<std::vector<int>> failed_sets_;
  WaitId last_wait_ = 0;
  bool failing_ = false;
  bool failed_job_ = false;
  bool finished_ = false;
};

}  // namespace shoal::distributed
