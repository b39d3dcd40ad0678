#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <condition_variable>
#include <exception>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "distributed/session.h"
#include "shoal/device.h"
#include "shoal/multihost.h"

namespace shoal::multihost {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kInterval{100};  // Between two looks for notices,
constexpr std::chrono::milliseconds kAgreeing{10};   // and while processes agree.
constexpr std::chrono::seconds kPatience{60};        // For the answers of other processes.
constexpr std::int64_t kNoStep = std::numeric_limits<std::int64_t>::min();

// What the signal handler uses.
std::atomic<bool> signalled = false;
struct sigaction handled_before = {};
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void take_notice(int signal) {
  const int error = errno;
  signalled.store(true);
  ::sigaction(signal, &handled_before, nullptr);
  errno = error;
}

std::atomic<PreemptionWatch::Impl*> current = nullptr;

}  // namespace

// A process that learns of a notice stops at its next question, and writes down the last step that it asked about. When
// all have done so, the step to save at is the first after all of these. The thread learns and writes, so that no
// process waits for one that waits for its part of a collective.
class PreemptionWatch::Impl {
 public:
  Impl(int signal, SourceLocation where) : signal_(signal), session_(distributed::Session::current()) {
    Impl* none = nullptr;
    if (!current.compare_exchange_strong(none, this)) {
      throw InvalidState("PreemptionWatch: there is one already; a process has one at a time", where);
    }
    static distributed::SessionCounter number;
    folder_ = fmt::format("shoal/preemption/{}", number.next());
    signalled = false;
    struct sigaction action = {};
    action.sa_handler = take_notice;
    action.sa_flags = SA_RESTART;
    if (::sigaction(signal, nullptr, &handled_before) != 0 || ::sigaction(signal, &action, nullptr) != 0) {
      current = nullptr;
      throw InvalidArgument(fmt::format("PreemptionWatch: signal {} cannot be caught", signal), where);
    }
    try {
      thread_ = std::thread([this] { work(); });
    } catch (...) {
      ::sigaction(signal, &handled_before, nullptr);
      current = nullptr;
      throw;
    }
  }

  ~Impl() {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
    }
    changed_.notify_all();
    thread_.join();
    struct sigaction now = {};
    if (::sigaction(signal_, nullptr, &now) == 0 && now.sa_handler == take_notice) {
      ::sigaction(signal_, &handled_before, nullptr);
    }
    try {
      if (!frozen_ && !last_of_all_) write_step();  // Others may agree without this process.
    } catch (const std::exception&) {
      // The job is over.
    }
    current = nullptr;
  }

  void notify() { signalled = true; }

  bool reached(std::int64_t step) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !frozen_; });
    if (error_) std::rethrow_exception(error_);
    step_ = std::max(step_, step);
    if (last_of_all_ && !sync_step_ && step > *last_of_all_) sync_step_ = step;
    return sync_step_ == step;
  }

 private:
  // The thread: looks for notices until there was one.
  void work() {
    std::unique_lock lock(mutex_);
    try {
      while (!closing_) {
        lock.unlock();
        if (signalled) give_notice();
        const bool noticed = has_notice();
        lock.lock();
        if (noticed) return agree(lock);
        changed_.wait_for(lock, kInterval, [&] { return closing_; });
      }
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      frozen_ = false;
      if (!distributed::is_initialized()) return;  // After shutdown() there is nothing to agree on.
      error_ = std::current_exception();
      changed_.notify_all();
    }
  }

  bool is_alone() const { return session_ == nullptr || session_->num_processes() == 1; }
  std::string steps() const { return folder_ + "/steps"; }

  void give_notice() {
    if (!is_alone()) session_->client().key_value_set(folder_ + "/notice", "", true);
  }
  bool has_notice() const {
    return is_alone() ? signalled.load() : session_->client().key_value_try_get(folder_ + "/notice").has_value();
  }
  void write_step() const {
    if (is_alone()) return;
    session_->client().key_value_set(fmt::format("{}/{}", steps(), session_->process_index()), fmt::format("{}", step_),
                                     true);
  }

  void agree(std::unique_lock<std::mutex>& lock) {
    frozen_ = true;
    write_step();
    std::int64_t last = step_;
    const Clock::time_point deadline = Clock::now() + kPatience;
    while (!is_alone()) {
      const auto written = session_->client().key_value_dir_get(steps());
      for (const auto& [key, value] : written) last = std::max(last, number_of(value));
      if (written.size() == static_cast<std::size_t>(session_->num_processes())) break;
      if (Clock::now() > deadline) throw DeadlineExceeded(missing_text(written));
      if (changed_.wait_for(lock, kAgreeing, [&] { return closing_; })) break;
    }
    last_of_all_ = last;
    frozen_ = false;
    changed_.notify_all();
  }

  static std::int64_t number_of(const std::string& text) {
    std::int64_t number = kNoStep;
    std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
  }

  std::string missing_text(const std::vector<std::pair<std::string, std::string>>& written) const {
    std::vector<std::string> names;
    for (const distributed::Member& member : session_->members()) {
      if (!is_present(member)) continue;
      const std::string key = fmt::format("{}/{}", steps(), member.process);
      const auto is_it = [&](const auto& entry) { return entry.first == key; };
      if (std::ranges::none_of(written, is_it)) names.push_back(process_name(member));
    }
    return fmt::format(
        "reached_preemption_sync_point: a process is to end, and {} did not say within {} s at what step "
        "it is; all processes make a PreemptionWatch",
        fmt::join(names, ", "), kPatience.count());
  }

  const int signal_;
  const std::shared_ptr<distributed::Session> session_;
  std::string folder_;  // Of the keys of this watch.

  std::mutex mutex_;  // Guards what follows.
  std::condition_variable changed_;
  std::int64_t step_ = kNoStep;              // The last that was asked about.
  bool frozen_ = false;                      // No process goes on while they agree.
  std::optional<std::int64_t> last_of_all_;  // Of all processes, when a notice came.
  std::optional<std::int64_t> sync_step_;
  std::exception_ptr error_;
  bool closing_ = false;
  std::thread thread_;
};

PreemptionWatch::PreemptionWatch(int signal, SourceLocation where) : impl_(std::make_unique<Impl>(signal, where)) {}
PreemptionWatch::~PreemptionWatch() = default;
void PreemptionWatch::notify() { impl_->notify(); }

bool reached_preemption_sync_point(std::int64_t step, SourceLocation where) {
  if (PreemptionWatch::Impl* watch = current.load()) return watch->reached(step);
  if (process_count() == 1) return false;
  throw InvalidState("reached_preemption_sync_point: this process has no PreemptionWatch; make one in all processes",
                     where);
}

}  // namespace shoal::multihost
