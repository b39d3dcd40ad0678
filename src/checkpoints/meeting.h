// What the processes of a job tell each other while they do one thing together: by texts in the coordination service,
// so that a thread beside the program's can do it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "distributed/session.h"

namespace shoal::checkpoints {

/// One such thing. All processes take part, and ask the same in the same order.
class Meeting {
 public:
  Meeting(std::string folder, std::uint64_t number, std::chrono::milliseconds timeout)
      : session_(distributed::Session::current()), folder_(std::move(folder)), number_(number), timeout_(timeout) {}

  bool is_alone() const { return session_ == nullptr || session_->num_processes() == 1; }
  bool is_first() const { return process() == 0; }
  /// Its place among the processes of the job, from 0 on.
  int process() const { return session_ == nullptr ? 0 : session_->place(); }
  int num_processes() const { return session_ == nullptr ? 1 : session_->num_processes(); }
  /// The numbers of all, ascending.
  std::vector<int> processes() const { return session_ == nullptr ? std::vector{0} : session_->processes(); }

  /// What process 0 says, in all. If its `say` throws, all others throw CheckpointError with that text.
  std::string from_first(std::string_view topic, const std::function<std::string()>& say);
  /// What all say, by process, in process 0; nothing in others. If a `say` throws, it does so here, and process 0
  /// throws CheckpointError with that text, once all have said something.
  std::vector<std::string> to_first(std::string_view topic, const std::function<std::string()>& say);
  /// Throws in all processes if `act` throws in one: what it threw here, or else CheckpointError with the text of the
  /// first process in which it did.
  void all(std::string_view topic, const std::function<void()>& act);

  /// Forgets what was said in the meeting before. To be called when all have told process 0 something in this one: so
  /// they are done with that.
  void finish() { forget(number_ - 1); }
  /// Forgets one with a lower number.
  void forget(std::uint64_t number);
  std::uint64_t number() const { return number_; }

 private:
  std::string key(std::string_view topic) const;

  std::shared_ptr<distributed::Session> session_;
  std::string folder_;
  std::uint64_t number_;
  std::chrono::milliseconds timeout_;
};

/// Meetings of a kind, with numbers that are the same in all processes.
class Meetings {
 public:
  explicit Meetings(std::string folder) : folder_(std::move(folder)) {}
  Meeting next(std::chrono::milliseconds timeout) { return {folder_, number_.next(), timeout}; }

 private:
  std::string folder_;
  distributed::SessionCounter number_;
};

}  // namespace shoal::checkpoints
