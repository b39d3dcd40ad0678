#include "distributed/key_value_store.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "base/seconds_text.h"
#include "base/sort_unique.h"

namespace shoal::distributed {
namespace {

constexpr std::chrono::milliseconds kLongestTimeout = std::chrono::hours(24 * 365);
constexpr std::size_t kLongestKeyTold = 100;

Reply failure(Status status, std::string text) { return {.status = status, .text = std::move(text)}; }

// What it takes to keep a key with its value, and a request that waits.
constexpr std::size_t kEntryBytes = 128;
std::size_t cost_of(const std::pair<const std::string, std::string>& entry) {
  return kEntryBytes + entry.first.size() + entry.second.size();
}
std::size_t cost_of(const Request& request) {
  return kEntryBytes + request.key.size() + request.value.size() + request.processes.size() * sizeof(int);
}

const char* name_of(RequestKind kind) {
  switch (kind) {
    case RequestKind::kSet:
      return "key_value_set";
    case RequestKind::kIncrement:
      return "key_value_increment";
    case RequestKind::kGet:
      return "blocking_key_value_get";
    case RequestKind::kBarrier:
      return "wait_at_barrier";
    default:
      return "get_live_nodes";
  }
}

Reply entry(const std::string& key, const std::string& value) { return {.entries = {{key, value}}}; }

}  // namespace

Board::Board(std::vector<Member> members, std::function<void(Fault)> on_fault, std::size_t most_bytes)
    : members_(std::move(members)),
      on_fault_(std::move(on_fault)),
      state_(members_.size(), State::kWorking),
      most_bytes_(most_bytes) {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (!is_present(members_[i])) state_[i] = State::kGone;
  }
  shutdown_.processes = all_processes();
}

void Board::handle(int process, const Request& request, Time now, Answer answer) {
  if (const auto refused = refusal(request)) return answer(*refused);
  switch (request.kind) {
    case RequestKind::kSet:
      return set(request, answer);
    case RequestKind::kTryGet: {
      const auto found = values_.find(request.key);
      return answer(found == values_.end() ? Reply{} : entry(found->first, found->second));
    }
    case RequestKind::kGet: {
      const auto found = values_.find(request.key);
      if (found != values_.end()) return answer(entry(found->first, found->second));
      gets_.emplace(request.key, wait(process, request, now, std::move(answer)));
      return check_gets();
    }
    case RequestKind::kIncrement:
      return increment(request, answer);
    case RequestKind::kDirGet: {
      Reply reply;
      const std::string prefix = request.key + "/";
      for (auto it = values_.lower_bound(prefix); it != values_.end() && it->first.starts_with(prefix); ++it) {
        reply.entries.push_back(*it);
      }
      return answer(reply);
    }
    case RequestKind::kDelete: {
      const std::string prefix = request.key + "/";
      const auto erase = [&](auto at) {
        bytes_ -= cost_of(*at);
        return values_.erase(at);
      };
      if (const auto found = values_.find(request.key); found != values_.end()) erase(found);
      auto at = values_.lower_bound(prefix);
      while (at != values_.end() && at->first.starts_with(prefix)) at = erase(at);
      return answer({});
    }
    case RequestKind::kBarrier:
      return meet(barriers_, process, request, now, std::move(answer));
    case RequestKind::kLiveNodes:
      return meet(live_, process, request, now, std::move(answer));
    case RequestKind::kShutdown:
      return enter_shutdown(process, request, now, std::move(answer));
    case RequestKind::kWhereabouts:
      return answer(failure(Status::kInvalid, "whereabouts are no matter of the board"));
  }
}

// Why there is no room for what a request adds; nullopt if there is.
std::optional<Reply> Board::refusal(const Request& request) const {
  std::size_t removed = 0;
  switch (request.kind) {
    case RequestKind::kSet:
    case RequestKind::kIncrement:
      if (const auto found = values_.find(request.key); found != values_.end()) removed = cost_of(*found);
      break;
    case RequestKind::kGet:
    case RequestKind::kBarrier:
    case RequestKind::kLiveNodes:
      break;
    default:
      return std::nullopt;  // It adds nothing, or belongs to the end of a process.
  }
  const std::size_t added = cost_of(request);
  if (bytes_ - removed + added <= most_bytes_) return std::nullopt;
  return failure(Status::kState,
                 fmt::format("{}: the keys and values of the job, and what waits for them, take {} bytes already, and "
                             "with the {} of \"{}\" it would be more than {}; remove what is not needed by "
                             "key_value_delete",
                             name_of(request.kind), bytes_, added,
                             std::string_view(request.key).substr(0, kLongestKeyTold), most_bytes_));
}

void Board::set(const Request& request, const Answer& answer) {
  const bool is_new = !values_.contains(request.key);
  if (!request.overwrite && !is_new) {
    return answer(failure(
        Status::kState,
        fmt::format("key_value_set: the key \"{}\" has a value already; allow_overwrite = true replaces it, and "
                    "key_value_delete removes it",
                    request.key)));
  }
  auto& stored = *values_.try_emplace(request.key).first;
  bytes_ -= is_new ? 0 : cost_of(stored);
  stored.second = request.value;
  bytes_ += cost_of(stored);
  answer({});
  publish(request.key, request.value);
}

void Board::increment(const Request& request, const Answer& answer) {
  const auto [stored, is_new] = values_.try_emplace(request.key, "0");
  if (is_new) bytes_ += cost_of(*stored);
  std::string& text = stored->second;
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    return answer(
        failure(Status::kState, fmt::format("key_value_increment: the value of \"{}\" is no integer", request.key)));
  }
  if (__builtin_add_overflow(number, request.increment, &number)) {
    return answer(failure(Status::kInvalid,
                          fmt::format("key_value_increment: \"{}\" would leave the range of 64 bits", request.key)));
  }
  bytes_ -= cost_of(*stored);
  text = std::to_string(number);
  bytes_ += cost_of(*stored);
  answer({.number = number});
  publish(request.key, std::string(text));
}

// Answers those that wait for a key.
void Board::publish(const std::string& key, const std::string& value) {
  const auto [first, last] = gets_.equal_range(key);
  std::vector<WaitId> ids;
  for (auto it = first; it != last; ++it) ids.push_back(it->second);
  gets_.erase(first, last);
  for (const WaitId id : ids) finish(id, entry(key, value));
}

Board::WaitId Board::wait(int process, const Request& request, Time now, Answer answer) {
  const auto timeout = std::clamp(request.timeout, std::chrono::milliseconds(0), kLongestTimeout);
  const WaitId id = ++last_wait_;
  const auto& added = waits_.emplace(id, Wait{process, request, now + timeout, std::move(answer)}).first->second;
  deadlines_.emplace(added.deadline, id);
  bytes_ += cost_of(request);
  return id;
}

void Board::finish(WaitId id, Reply reply) {
  const auto found = waits_.find(id);
  if (found == waits_.end()) return;  // The process that waited is gone.
  const Wait wait = std::move(found->second);
  deadlines_.erase({wait.deadline, id});
  bytes_ -= cost_of(wait.request);
  waits_.erase(found);
  wait.answer(std::move(reply));
}

// By value: the meeting has been taken from its map, so that a late answer finds no trace of it.
void Board::finish(Meeting meeting, const Reply& reply) {
  for (const auto& [process, id] : meeting.arrived) finish(id, reply);
}

void Board::meet(Meetings& meetings, int process, const Request& request, Time now, Answer answer) {
  const bool is_barrier = &meetings == &barriers_;
  const char* call = is_barrier ? "wait_at_barrier" : "get_live_nodes";
  std::vector<int> processes = request.processes.empty() ? all_processes() : request.processes;
  sort_unique(processes);
  if (processes.front() < 0 || processes.back() >= static_cast<int>(members_.size())) {
    return answer(
        failure(Status::kInvalid, fmt::format("{}: process_ids are [{}], and the job has the processes 0 to {}", call,
                                              fmt::join(processes, ", "), members_.size() - 1)));
  }
  if (!std::binary_search(processes.begin(), processes.end(), process)) {
    return answer(
        failure(Status::kInvalid, fmt::format("{}: process {}, which calls it, is not one of process_ids [{}]", call,
                                              process, fmt::join(processes, ", "))));
  }
  // Meetings of those that live have no names: they are told apart by who comes.
  const std::string id = is_barrier ? request.key : fmt::format("{}", fmt::join(processes, ","));
  if (is_barrier) {
    if (const auto found = failed_.find(id); found != failed_.end() && found->second.second.erase(process) > 0) {
      const Reply reply = found->second.first;
      if (found->second.second.empty()) failed_.erase(found);
      return answer(reply);
    }
  }
  Meeting& meeting = meetings[id];
  if (meeting.processes.empty()) meeting.processes = processes;
  if (meeting.processes != processes) {
    const Reply reply = failure(
        Status::kInvalid,
        fmt::format("wait_at_barrier: at \"{}\" process {} waits for the processes [{}], and process {} for [{}]", id,
                    process, fmt::join(processes, ", "), meeting.arrived.begin()->first,
                    fmt::join(meeting.processes, ", ")));
    answer(reply);
    return finish(std::move(meetings.extract(id).mapped()), reply);
  }
  if (meeting.arrived.contains(process)) {
    return answer(failure(Status::kState,
                          fmt::format("{}: process {} waits at \"{}\" already, in another thread", call, process, id)));
  }
  meeting.arrived[process] = wait(process, request, now, std::move(answer));
  if (is_barrier) {
    check_barrier(id);
  } else {
    check_live();
  }
}

// Ends a barrier at which all have arrived, or to which somebody will never come.
void Board::check_barrier(const std::string& id) {
  const Meeting& meeting = barriers_.at(id);
  const std::vector<int> absent = missing(meeting);
  if (absent.empty()) return finish(std::move(barriers_.extract(id).mapped()), {});
  const auto never_comes = [&](int process) { return state_[index(process)] != State::kWorking; };
  const auto found = std::find_if(absent.begin(), absent.end(), never_comes);
  if (found == absent.end() || failing_) return;
  std::vector<int> waiting;
  for (const auto& [process, wait] : meeting.arrived) waiting.push_back(process);
  const std::string text =
      fmt::format("{} {}, while {} waits at barrier \"{}\" for it", names({*found}),
                  state_[index(*found)] == State::kGone ? "is gone" : "entered shutdown", names(waiting), id);
  if (failed_job_) return finish(std::move(barriers_.extract(id).mapped()), failure(Status::kFailed, text));
  on_fault_({.kind = FaultKind::kShutdown, .process = *found, .text = text});
}

void Board::check_live() {
  for (auto it = live_.begin(); it != live_.end();) {
    const auto is_here = [&](int process) {
      return state_[index(process)] == State::kGone || it->second.arrived.contains(process);
    };
    if (!std::all_of(it->second.processes.begin(), it->second.processes.end(), is_here)) {
      ++it;
      continue;
    }
    Reply reply;
    for (const int process : it->second.processes) {
      if (state_[index(process)] == State::kGone) continue;
      reply.live.emplace_back(process, members_[index(process)].incarnation);
    }
    Meeting meeting = std::move(it->second);
    it = live_.erase(it);
    finish(std::move(meeting), reply);
  }
}

// A process waits for a key that nobody is left to set.
void Board::check_gets() {
  const auto working = std::count(state_.begin(), state_.end(), State::kWorking);
  if (gets_.empty() || working > 1 || failing_ || failed_job_) return;
  const auto left = std::find(state_.begin(), state_.end(), State::kLeaving);
  if (left == state_.end()) return;
  const int process = static_cast<int>(left - state_.begin());
  const Wait& wait = waits_.at(gets_.begin()->second);
  on_fault_({.kind = FaultKind::kShutdown,
             .process = process,
             .text = fmt::format("{} entered shutdown, and so did all others, while {} waits for a value of the key "
                                 "\"{}\"",
                                 names({process}), names({wait.process}), wait.request.key)});
}

void Board::enter_shutdown(int process, const Request& request, Time now, Answer answer) {
  State& state = state_[index(process)];
  if (state != State::kWorking) return answer(failure(Status::kState, "shutdown: it was called already"));
  try {
    if (!request.value.empty()) farewells_[process] = decode<Farewell>(request.value);
  } catch (const Malformed& error) {
    return answer(failure(Status::kInvalid, fmt::format("shutdown: what it tells of this process: {}", error.what())));
  }
  state = State::kLeaving;
  if (failed_job_) return answer({});  // Others may be dead, or busy with their errors.
  shutdown_.arrived[process] = wait(process, request, now, std::move(answer));
  if (failing_) return;  // Everybody is to hear of the failure.
  if (missing(shutdown_).empty()) {
    if (const auto fault = differing_launches()) return on_fault_(*fault);
    return end_shutdown();
  }
  std::vector<std::string> ids;
  for (const auto& [id, meeting] : barriers_) ids.push_back(id);
  for (const std::string& id : ids) check_barrier(id);
  check_gets();
}

void Board::end_shutdown() {
  if (finished_ || failed_job_ || !missing(shutdown_).empty()) return;
  finished_ = true;
  finish(std::exchange(shutdown_, {}), {});
}

// Programs that exchange nothing are compared only here.
std::optional<Fault> Board::differing_launches() const {
  for (const auto& [process, farewell] : farewells_) {
    for (const Launches& mine : farewell.launches) {
      if (mine.processes.empty() || failed_sets_.contains(mine.processes)) continue;
      // The first of the set is compared with all, and they with it.
      const int first = mine.processes.front();
      for (const int other : process == first ? mine.processes : std::vector<int>{first}) {
        const auto found = farewells_.find(other);
        if (found == farewells_.end()) continue;
        const auto& all = found->second.launches;
        const auto same =
            std::find_if(all.begin(), all.end(), [&](const Launches& its) { return its.processes == mine.processes; });
        const Launches its = same == all.end() ? Launches{} : *same;
        if (its.count == mine.count && its.digest == mine.digest) continue;
        const std::string numbers =
            its.count == mine.count
                ? fmt::format("both launched {} programs, but not the same", mine.count)
                : fmt::format("the former launched {} programs, the latter {}", mine.count, its.count);
        return Fault{
            .kind = FaultKind::kDisagreement,
            .process = process,
            .text = fmt::format("distributed::shutdown: {} and {} did not do the same on the processes [{}]: {}",
                                names({process}), names({other}), fmt::join(mine.processes, ", "), numbers),
            .processes = mine.processes};
      }
    }
  }
  return std::nullopt;
}

std::optional<Board::Time> Board::next_deadline() const {
  if (deadlines_.empty()) return std::nullopt;
  return deadlines_.begin()->first;
}

void Board::expire(Time now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const WaitId id = deadlines_.begin()->second;
    time_out(waits_.at(id));
  }
}

// Answers a wait whose time is up, and all that meet with it. A copy of the wait, which is gone at the end.
void Board::time_out(const Wait& due) {
  const Request request = due.request;
  const int process = due.process;
  const std::string time = seconds_text(request.timeout);
  switch (request.kind) {
    case RequestKind::kBarrier: {
      Meeting meeting = std::move(barriers_.extract(request.key).mapped());
      const std::vector<int> absent = missing(meeting);
      const Reply reply =
          failure(Status::kDeadline, fmt::format("wait_at_barrier: {} did not come to \"{}\" within {} of process {}",
                                                 names(absent), request.key, time, process));
      failed_[request.key] = {reply, {absent.begin(), absent.end()}};
      return finish(std::move(meeting), reply);
    }
    case RequestKind::kLiveNodes: {
      for (auto it = live_.begin(); it != live_.end(); ++it) {
        const auto arrived = it->second.arrived.find(process);
        if (arrived == it->second.arrived.end() || &waits_.at(arrived->second) != &due) continue;
        Meeting meeting = std::move(it->second);
        live_.erase(it);
        const Reply reply = failure(
            Status::kDeadline,
            fmt::format("get_live_nodes: {} live, and did not call it within {}", names(missing(meeting)), time));
        return finish(std::move(meeting), reply);
      }
      return;
    }
    case RequestKind::kShutdown: {
      const WaitId id = shutdown_.arrived.at(process);
      const std::string text = fmt::format("{} waited in shutdown for {}, and {} did not come", names({process}), time,
                                           names(missing(shutdown_)));
      finish(id, failure(Status::kDeadline, "shutdown: " + text));
      return on_fault_({.kind = FaultKind::kShutdown, .process = process, .text = text});
    }
    default: {
      const WaitId id = deadlines_.begin()->second;
      std::erase_if(gets_, [&](const auto& get) { return get.second == id; });
      return finish(id, failure(Status::kDeadline, fmt::format("blocking_key_value_get: the key \"{}\" got no value "
                                                               "within {}",
                                                               request.key, time)));
    }
  }
}

void Board::remove(int process) {
  state_[index(process)] = State::kGone;
  for (auto it = waits_.begin(); it != waits_.end();) {
    if (it->second.process != process) {
      ++it;
      continue;
    }
    std::erase_if(gets_, [&](const auto& get) { return get.second == it->first; });
    deadlines_.erase({it->second.deadline, it->first});
    bytes_ -= cost_of(it->second.request);
    it = waits_.erase(it);
  }
  for (Meetings* meetings : {&barriers_, &live_}) {
    for (auto& [id, meeting] : *meetings) meeting.arrived.erase(process);
    std::erase_if(*meetings, [](const auto& entry) { return entry.second.arrived.empty(); });
  }
  check_live();
}

void Board::fail_all(const std::string& text) {
  failing_ = false;
  failed_job_ = true;
  const Reply reply = failure(Status::kFailed, text);
  const Meetings barriers = std::exchange(barriers_, {});
  for (const auto& [id, meeting] : barriers) finish(meeting, reply);
  const auto gets = std::exchange(gets_, {});
  for (const auto& [key, id] : gets) finish(id, reply);
  const Meeting shutdown = std::exchange(shutdown_, {.processes = all_processes(), .arrived = {}});
  finish(shutdown, reply);
}

std::vector<int> Board::all_processes() const {
  std::vector<int> all;
  for (const Member& member : members_) {
    if (is_present(member)) all.push_back(member.process);
  }
  return all;
}

std::vector<int> Board::missing(const Meeting& meeting) const {
  std::vector<int> absent;
  for (const int process : meeting.processes) {
    if (!meeting.arrived.contains(process)) absent.push_back(process);
  }
  return absent;
}

std::string Board::names(const std::vector<int>& processes) const {
  std::vector<std::string> texts;
  for (const int process : processes) {
    const Member& member = members_[index(process)];
    texts.push_back(is_present(member) ? process_name(member) : fmt::format("process {}", process));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace shoal::distributed
