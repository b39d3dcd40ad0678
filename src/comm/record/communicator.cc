#include "comm/record/communicator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>

#include "base/digest.h"
#include "base/env.h"
#include "comm/record/flight_recorder.h"
#include "comm/record/peers.h"
#include "core/this_process.h"

namespace shoal {

namespace {

// Never destroyed: programs may run until the very end.
struct Table {
  std::mutex mutex;
  std::map<std::vector<int>, std::unique_ptr<Communicator>> all;
  std::exception_ptr closed;
  std::optional<std::vector<int>> present;  // Those that are in the job, where it has gone on without some.
  std::atomic<std::uint64_t> generation{0};

  // Whether all of these processes can launch something together.
  bool is_open(const std::vector<int>& processes) const {
    return closed == nullptr || (present && std::ranges::includes(*present, processes));
  }

  static Table& get() {
    static auto* const table = new Table;
    return *table;
  }
  std::vector<Communicator*> list() {
    const std::lock_guard lock(mutex);
    std::vector<Communicator*> list;
    for (const auto& [processes, one] : all) list.push_back(one.get());
    return list;
  }
};

// A launch is under way in this thread.
thread_local bool is_launching = false;

}  // namespace

// Its address stands for a thread, as long as that lives.
struct ThreadMark {
  ThreadMark() = default;
  ThreadMark(const ThreadMark&) = delete;
  ThreadMark& operator=(const ThreadMark&) = delete;
  ~ThreadMark() {
    for (Communicator* one : Table::get().list()) {
      const void* mine = this;
      one->caller_.compare_exchange_strong(mine, nullptr, std::memory_order_acq_rel);
    }
  }
};

Communicator& Communicator::of(const std::vector<int>& processes) {
  Table& table = Table::get();
  const std::lock_guard lock(table.mutex);
  std::unique_ptr<Communicator>& found = table.all[processes];
  if (found != nullptr) return *found;
  found = std::make_unique<Communicator>(processes);
  if (!table.is_open(processes)) {
    found->error_ = table.closed;
    found->told_ = true;
    found->failed_ = true;
  }
  return *found;
}

std::uint64_t Communicator::id_of(const std::vector<int>& processes) {
  const std::uint64_t generation = Table::get().generation.load(std::memory_order_relaxed);
  const Digest of_processes = digest_of(processes.data(), processes.size() * sizeof(int));
  return generation == 0 ? of_processes[0] : digest_of(of_processes, generation)[0];
}

Communicator::Communicator(std::vector<int> processes) : processes_(std::move(processes)), id_(id_of(processes_)) {
  if (FlightRecorder* const recorder = FlightRecorder::current()) recorder->note_communicator(id(), processes_);
}

LaunchCall Communicator::call(std::string_view name, const SourceLocation& where) {
  try {
    check();
  } catch (...) {
    note_told(std::current_exception());
    throw;
  }
  check_thread(name, where);
  calls_.fetch_add(1, std::memory_order_relaxed);
  FlightRecorder* const recorder = FlightRecorder::current();
  return {name, where, recorder == nullptr ? 0 : recorder->queue(id(), name, where)};
}

void Communicator::check_thread(std::string_view name, const SourceLocation& where) {
  static thread_local const ThreadMark mark;
  const void* const me = &mark;
  const void* caller = caller_.load(std::memory_order_relaxed);
  if (caller == me) return;
  if (caller == nullptr && caller_.compare_exchange_strong(caller, me, std::memory_order_acq_rel)) return;
  throw InvalidState(
      fmt::format(
          "{}: another thread launches programs on the processes [{}], too. All processes must launch them in one "
          "order, and two threads have none: launch them from one thread, or after the other has ended",
          name, fmt::join(processes_, ", ")),
      where);
}

bool Communicator::is_strict() {
  static const bool strict = env_choice("SHOAL_CHECK", {"strict"}).has_value();
  return strict;
}

MessageTag Communicator::begin_launch(const LaunchCall& call, const Digest& program, const Digest& lineage) {
  check();
  if (is_launching) {
    throw InvalidState(
        "a callback of a program that runs on several processes must not call another such program, or exchange "
        "anything with other processes");
  }
  MessageTag tag{.communicator = id(),
                 .sequence = launches_.fetch_add(1, std::memory_order_relaxed) + 1,
                 .program = program,
                 .lineage = lineage};
  if (is_strict()) {
    tag.program = digest_of(to_string(call.where), program);
  }
  const std::uint64_t words[] = {history_.load(std::memory_order_relaxed), tag.program[0], tag.program[1], lineage[0],
                                 lineage[1]};
  tag.history = digest_of(words, sizeof words)[0];
  history_.store(tag.history, std::memory_order_relaxed);
  if (FlightRecorder* const recorder = FlightRecorder::current()) {
    const std::uint64_t record = call.record != 0 ? call.record : recorder->queue(id(), call.name, call.where);
    recorder->begin(record, tag.sequence, tag.program, lineage);
  }
  is_launching = true;
  return tag;
}

void Communicator::end_launch(bool is_failed) noexcept {
  is_launching = false;
  if (FlightRecorder* const recorder = FlightRecorder::current()) recorder->end(is_failed);
}

Digest Communicator::new_origin(std::string_view maker) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t calls = calls_.load(std::memory_order_relaxed);
  if (calls != origins_since_) origins_ = 0;
  origins_since_ = calls;
  const std::uint64_t words[] = {id(), calls, ++origins_};
  return digest_of(words, sizeof words, digest_of(maker));
}

std::exception_ptr Communicator::fail_with(const std::exception_ptr& error) noexcept {
  const std::lock_guard lock(mutex_);
  if (error_ == nullptr) error_ = error;
  failed_.store(true, std::memory_order_release);
  return error_;
}

std::exception_ptr Communicator::fail(const std::exception_ptr& error, bool is_cause) {
  {
    const std::lock_guard lock(mutex_);
    if (error_ != nullptr) return error_;
  }
  Peers* const all = peers();
  return fail_with(all == nullptr ? error : all->settle(processes_, error, is_cause));
}

void Communicator::check() {
  if (failed_.load(std::memory_order_acquire)) throw_failure();
  const Peers* const all = peers();
  const std::exception_ptr failure = all == nullptr ? nullptr : all->failure_of(processes_);
  if (failure == nullptr) return;
  fail_with(failure);
  throw_failure();
}

void Communicator::throw_failure() const {
  std::exception_ptr error;
  {
    const std::lock_guard lock(mutex_);
    error = error_;
  }
  std::rethrow_exception(error);
}

bool Communicator::has_failed(std::uint64_t id) {
  const Peers* const all = peers();
  return std::ranges::any_of(Table::get().list(), [&](const Communicator* one) {
    return one->id() == id && (one->failed_.load(std::memory_order_acquire) ||
                               (all != nullptr && all->failure_of(one->processes_) != nullptr));
  });
}

void Communicator::close_all(const std::exception_ptr& error) {
  Table& table = Table::get();
  const std::lock_guard lock(table.mutex);
  table.closed = error;
  table.present.reset();
  for (const auto& [processes, one] : table.all) {
    one->fail_with(error);
    const std::lock_guard one_lock(one->mutex_);
    one->told_ = true;
  }
}

void Communicator::begin_generation(std::uint64_t generation, const std::vector<int>& present) {
  Table& table = Table::get();
  const std::lock_guard lock(table.mutex);
  table.closed = std::make_exception_ptr(
      InvalidState("this needs processes that are no longer in the job, which has gone on without them"));
  table.present = present;
  table.generation.store(generation, std::memory_order_relaxed);
  for (const auto& [processes, one] : table.all) {
    if (table.is_open(processes)) one->begin_anew();
  }
}

void Communicator::begin_anew() {
  id_.store(id_of(processes_), std::memory_order_relaxed);
  calls_.store(0, std::memory_order_relaxed);
  launches_.store(0, std::memory_order_relaxed);
  history_.store(0, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  error_ = nullptr;
  told_ = false;
  origins_ = 0;
  origins_since_ = 0;
  failed_.store(false, std::memory_order_release);
  if (FlightRecorder* const recorder = FlightRecorder::current()) recorder->note_communicator(id(), processes_);
}

void Communicator::note_told(const std::exception_ptr& error) noexcept {
  Table& table = Table::get();
  const std::lock_guard lock(table.mutex);
  for (const auto& [processes, one] : table.all) {
    const std::lock_guard one_lock(one->mutex_);
    if (one->error_ == error) one->told_ = true;
  }
}

void Communicator::throw_untold() {
  for (Communicator* one : Table::get().list()) {
    const Peers* const all = peers();
    if (const std::exception_ptr failure = all == nullptr ? nullptr : all->failure_of(one->processes_)) {
      one->fail_with(failure);
    }
    {
      const std::lock_guard lock(one->mutex_);
      if (one->error_ == nullptr || one->told_) continue;
      one->told_ = true;
    }
    one->throw_failure();
  }
}

std::vector<LaunchHistory> Communicator::histories() {
  std::vector<LaunchHistory> histories;
  for (const Communicator* one : Table::get().list()) {
    if (one->failed_.load(std::memory_order_acquire)) continue;
    // Processes without devices there may have called the same programs, or not.
    if (!std::ranges::binary_search(one->processes_, this_process())) continue;
    const std::uint64_t launches = one->launches_.load(std::memory_order_relaxed);
    if (launches == 0) continue;
    histories.push_back({one->processes_, launches, one->history_.load(std::memory_order_relaxed)});
  }
  return histories;
}

}  // namespace shoal
