#include "elastic/agent.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <future>
#include <list>
#include <utility>

#include "base/log.h"
#include "distributed/frame_io.h"
#include "distributed/protocol.h"
#include "distributed/rendezvous.h"
#include "shoal/elastic.h"

namespace shoal::elastic {
namespace {

using distributed::Malformed;
using distributed::MessageType;
using std::chrono::milliseconds;

// How long an agent may take to answer. It has nothing else to do.
constexpr milliseconds kAnswering{1000};
// Whoever takes calls, and has not answered so many surveys in a row, is stopped.
constexpr int kMostSilent = 3;
// How often those are asked again that are at work.
constexpr milliseconds kPause{50};
// How often the thread shows that it runs; one that does not for so long was stopped, or the machine is very busy.
constexpr milliseconds kTick{100};
constexpr milliseconds kStopped{500};
// Others may have gone on, and ended, while a process was stopped for so long.
constexpr milliseconds kLongStopped{3000};
// Of connections that others have begun.
constexpr std::size_t kMostConnections = 64;
// Of a call, of which a stranger may send as much; plans of thousands of processes are smaller.
constexpr std::size_t kMostBytes = std::size_t{256} << 10;
constexpr milliseconds kLongestCall{5000};

enum class CallKind : std::uint8_t { kAsk, kPropose, kDecide, kKnock, kLast = kKnock };

struct Call {
  CallKind kind = CallKind::kAsk;
  Seat from;
  Plan plan;  // That is proposed or decided.
  static void fields(auto& self, auto& archive) { archive(self.kind, self.from, self.plan); }
};

struct Reply {
  Seat me;
  bool is_meeting = false;
  bool accepts = false;
  Plan plan;  // Of the generation in which the process is.
  static void fields(auto& self, auto& archive) { archive(self.me, self.is_meeting, self.accepts, self.plan); }
};

}  // namespace

bool Plan::has(const Seat& seat) const {
  return std::ranges::any_of(
      seats, [&](const Seat& other) { return other.process == seat.process && other.incarnation == seat.incarnation; });
}

const Seat& Plan::seat_of(int process) const { return *std::ranges::find(seats, process, &Seat::process); }

// ---- What the thread answers.

struct Agent::Connection {
  Socket socket;
  Clock::time_point since;
  std::string in;
  std::optional<distributed::Seals> seals;
};

Agent::Agent(distributed::Key key, Seat me, Socket listener)
    : key_(key),
      me_(std::move(me)),
      listener_(std::move(listener)),
      wakeup_([] { return ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); }) {
  if (!wakeup_) throw DistributedError("elastic::run: eventfd: " + distributed::error_text(errno));
  last_tick_ = Clock::now().time_since_epoch().count();
  thread_ = std::thread([this] { work(); });
}

Agent::~Agent() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wakeup_.get(), &one, sizeof(one));
  thread_.join();
}

void Agent::work() {
  std::list<Connection> connections;
  while (true) {
    std::vector<pollfd> waiting{{wakeup_.get(), POLLIN, 0}};
    const bool has_room = connections.size() < kMostConnections;
    waiting.push_back({has_room ? listener_.get() : -1, POLLIN, 0});
    for (const Connection& connection : connections) waiting.push_back({connection.socket.get(), POLLIN, 0});
    ::poll(waiting.data(), waiting.size(), static_cast<int>(kTick.count()));
    const auto now = Clock::now();
    const Clock::duration stopped = now - Clock::time_point(Clock::duration(last_tick_.load()));
    if (stopped > kStopped) stopped_for_ = std::max(stopped_for_.load(), stopped.count());
    last_tick_ = now.time_since_epoch().count();
    if (waiting[0].revents != 0) return;
    std::size_t i = 2;
    for (auto it = connections.begin(); it != connections.end();) {
      const bool is_over = waiting[i++].revents != 0 ? !read_from(*it) : now - it->since > kLongestCall;
      it = is_over ? connections.erase(it) : std::next(it);
    }
    if (waiting[1].revents != 0) {
      Socket socket([&] { return ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK); });
      if (socket) connections.push_back({std::move(socket), now, {}, {}});
    }
  }
}

// False when the connection is over.
bool Agent::read_from(Connection& connection) {
  try {
    distributed::read_some(connection.socket.get(), connection.in);
    const auto frame = distributed::parse_frame(connection.in, kMostBytes);
    if (frame.size == 0) return true;
    if (!connection.seals) {
      if (frame.type != MessageType::kHello) return false;
      const distributed::Nonce mine = distributed::random_nonce();
      connection.seals = distributed::make_seals(key_, distributed::decode<distributed::Hello>(frame.body).nonce, mine);
      distributed::send_all(
          connection.socket.get(),
          distributed::Seal().frame(MessageType::kChallenge, 0, distributed::encode(distributed::Challenge{mine})));
      connection.in.erase(0, frame.size);
      return true;
    }
    if (frame.type != MessageType::kRequest || !connection.seals->to_service.accepts(frame)) return false;
    distributed::send_all(connection.socket.get(),
                          connection.seals->to_client.frame(MessageType::kReply, 0, answer(std::string(frame.body))));
  } catch (const distributed::Broken&) {
  } catch (const Malformed&) {
  } catch (const std::exception& error) {
    log_warning(fmt::format("elastic::run: a call of another process failed: {}", error.what()));
  }
  return false;
}

std::string Agent::answer(const std::string& body) {
  const auto call = distributed::decode<Call>(body);
  const std::lock_guard lock(mutex_);
  Reply reply{.me = me_, .is_meeting = is_meeting_, .accepts = false, .plan = plan_};
  switch (call.kind) {
    case CallKind::kAsk:
      // What the caller knows need not be sent.
      if (call.plan.generation == plan_.generation && call.plan.nonce == plan_.nonce) reply.plan.seats.clear();
      break;
    case CallKind::kKnock:
      knocks_[call.from.process] = call.from;
      reply.accepts = true;
      break;
    case CallKind::kPropose:
      reply.accepts = is_meeting_ && !is_decided_ && call.plan.has(me_) &&
                      (is_new_ || call.plan.generation == plan_.generation + 1) &&
                      (!proposed_ || call.plan.leader <= proposed_->leader);
      // Of several that lead the lowest number decides: lead() finds that its own plan is not the last one any more.
      if (reply.accepts) proposed_ = call.plan;
      break;
    case CallKind::kDecide:
      reply.accepts = is_meeting_ && proposed_ && proposed_->nonce == call.plan.nonce;
      if (reply.accepts) {
        is_decided_ = true;
        plan_ = *proposed_;  // From now on others that ask hear of it.
        changed_.notify_all();
      }
      break;
  }
  return distributed::encode(reply);
}

// ---- Calls of others.

namespace {

enum class Outcome : std::uint8_t {
  kGone,         // At none of its addresses does it listen.
  kUnreachable,  // One of them does not answer at all.
  kSilent,       // One takes calls and does not answer them.
  kClosed,       // One ended the call in the middle, as a process does that ends, or that has too many calls.
  kAnswered,
};

}  // namespace

struct Agent::Called {
  Outcome outcome = Outcome::kGone;
  Reply reply;
};

Agent::Called Agent::call(const Seat& seat, const std::string& body, milliseconds timeout) const {
  const auto deadline = Clock::now() + timeout;
  std::vector<distributed::Endpoint> endpoints;
  try {
    endpoints = distributed::resolve({seat.host, seat.port});
  } catch (const Error&) {
    return {.outcome = Outcome::kUnreachable, .reply = {}};  // Its name is not known any more.
  }
  // At each address it may be another program that listens, or a host of the same address that is nearer; it has ended
  // only if it is at none of them.
  Called worst;
  for (std::size_t i = 0; i < endpoints.size(); ++i) {
    const auto now = Clock::now();
    const auto share = (deadline - now) / static_cast<int>(endpoints.size() - i);
    Called called = call_at(endpoints[i], body, now + share);
    if (called.outcome == Outcome::kAnswered) {
      const Seat& other = called.reply.me;
      if (other.process == seat.process && other.incarnation == seat.incarnation) return called;
      continue;
    }
    if (called.outcome > worst.outcome) worst = std::move(called);
  }
  return worst;
}

Agent::Called Agent::call_at(const distributed::Endpoint& endpoint, const std::string& body,
                             Clock::time_point deadline) const {
  Called called;
  std::string why;
  const Socket socket = distributed::connect_to(endpoint, deadline, why);
  if (!socket) {
    if (!why.ends_with(distributed::error_text(ECONNREFUSED))) called.outcome = Outcome::kUnreachable;
    return called;
  }
  try {
    std::string in;
    const distributed::Nonce mine = distributed::random_nonce();
    distributed::send_all(
        socket.get(), distributed::Seal().frame(MessageType::kHello, 0, distributed::encode(distributed::Hello{mine})));
    const auto challenge = distributed::receive(socket.get(), in, deadline);
    if (challenge.type != MessageType::kChallenge) throw Malformed("no challenge");
    auto seals = distributed::make_seals(key_, mine, distributed::decode<distributed::Challenge>(challenge.body).nonce);
    in.erase(0, challenge.size);
    distributed::send_all(socket.get(), seals.to_service.frame(MessageType::kRequest, 0, body));
    const auto frame = distributed::receive(socket.get(), in, deadline);
    if (frame.type != MessageType::kReply || !seals.to_client.accepts(frame)) throw Malformed("no reply");
    called.reply = distributed::decode<Reply>(frame.body);
    called.outcome = Outcome::kAnswered;
  } catch (const distributed::Broken&) {
    called.outcome = Clock::now() < deadline ? Outcome::kClosed : Outcome::kSilent;
  } catch (const Malformed&) {  // This is no agent of the job: it proves nothing.
  }
  return called;
}

std::vector<Agent::Called> Agent::call_all(const std::vector<Seat>& seats, const std::string& body,
                                           milliseconds timeout) const {
  std::vector<std::future<Called>> calls;
  for (const Seat& seat : seats) {
    calls.push_back(
        std::async(std::launch::async, [this, &seat, &body, timeout] { return call(seat, body, timeout); }));
  }
  std::vector<Called> all;
  for (auto& call : calls) all.push_back(call.get());
  return all;
}

// ---- The program's thread.

void Agent::enter(const Plan& plan) {
  const std::lock_guard lock(mutex_);
  enter_locked(plan);
}

void Agent::enter_locked(const Plan& plan) {
  plan_ = plan;
  is_meeting_ = is_new_ = is_decided_ = false;
  proposed_.reset();
  knocks_.clear();
}

std::vector<Seat> Agent::seats() const {
  const std::lock_guard lock(mutex_);
  return plan_.seats;
}

namespace {

std::int64_t devices_of(const std::vector<Seat>& seats) {
  std::int64_t devices = 0;
  for (const Seat& seat : seats) devices += seat.devices;
  return devices;
}

}  // namespace

std::int64_t Agent::devices() const { return devices_of(seats()); }

std::int64_t Agent::knocking_devices() const {
  const std::lock_guard lock(mutex_);
  std::vector<Seat> seats;
  for (const auto& [process, seat] : knocks_) seats.push_back(seat);
  return devices_of(seats);
}

namespace {

std::string encoded_question(const Seat& me, const Plan& known) {
  Call call{.kind = CallKind::kAsk, .from = me, .plan = {}};
  call.plan.generation = known.generation;
  call.plan.nonce = known.nonce;
  return distributed::encode(call);
}

}  // namespace

// What is known of the others of this generation.
struct Agent::Survey {
  std::vector<Seat> meeting;  // With this process.
  std::vector<Seat> working;
  std::vector<Seat> silent;
  int unreachable = 0;
  std::vector<Seat> left;     // All but those that have ended.
  std::optional<Plan> later;  // A generation after this one, with this process.
};

Agent::Survey Agent::survey() const {
  Plan plan;
  {
    const std::lock_guard lock(mutex_);
    plan = plan_;
  }
  std::vector<Seat> others = plan.seats;
  std::erase(others, me_);
  const std::vector<Called> answers = call_all(others, encoded_question(me_, plan), kAnswering);
  Survey survey;
  survey.meeting = survey.left = {me_};
  for (std::size_t i = 0; i < others.size(); ++i) {
    const auto& [outcome, reply] = answers[i];
    if (outcome != Outcome::kGone) survey.left.push_back(others[i]);
    if (outcome == Outcome::kSilent) survey.silent.push_back(others[i]);
    if (outcome == Outcome::kUnreachable) ++survey.unreachable;
    if (outcome == Outcome::kClosed) survey.working.push_back(others[i]);  // It is asked again.
    if (outcome != Outcome::kAnswered) continue;
    const bool is_other = reply.plan.generation == plan.generation && reply.plan.nonce != plan.nonce;
    if (reply.plan.generation > plan.generation || is_other) {
      if (!reply.plan.has(me_)) {
        std::vector<int> processes;
        for (const Seat& seat : reply.plan.seats) processes.push_back(seat.process);
        throw Fenced(fmt::format(
            "elastic::run: the processes [{}] have gone on without process {}, which was silent for too long",
            fmt::join(processes, ", "), me_.process));
      }
      if (!survey.later || survey.later->generation < reply.plan.generation) survey.later = reply.plan;
    } else {
      (reply.is_meeting ? survey.meeting : survey.working).push_back(others[i]);
    }
  }
  const auto by_process = [](const Seat& a, const Seat& b) { return a.process < b.process; };
  std::ranges::sort(survey.meeting, by_process);
  std::ranges::sort(survey.left, by_process);
  return survey;
}

void Agent::check_not_stopped() {
  const Clock::duration idle = Clock::now() - Clock::time_point(Clock::duration(last_tick_.load()));
  const Clock::duration stopped = std::max(Clock::duration(stopped_for_.exchange(0)), idle);
  if (stopped < kStopped) return;
  const Survey found = survey();
  if (stopped < kLongStopped || found.left.size() > 1 || seats().size() == 1) return;
  throw Fenced(
      fmt::format("elastic::run: process {} was stopped for {} s, and none of the others is there any more: they may "
                  "have gone on without it, and ended",
                  me_.process, std::chrono::duration_cast<std::chrono::seconds>(stopped).count()));
}

Agreement Agent::settle(Plan plan, Socket listener) {
  enter(plan);
  return {std::move(plan), std::move(listener)};
}

std::optional<Plan> Agent::await_decision(milliseconds time) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, time, [&] { return is_decided_; })) return std::nullopt;
  return plan_;
}

Agreement Agent::meet(const MeetOptions& options) {
  {
    const std::lock_guard lock(mutex_);
    is_meeting_ = true;
    is_decided_ = false;
    proposed_.reset();
  }
  const auto patience = Clock::now() + options.patience;
  std::map<int, int> silent;  // How many surveys in a row each process has not answered.
  while (true) {
    const Survey survey = this->survey();
    if (auto decided = await_decision(milliseconds(0))) return settle(std::move(*decided), {});
    if (survey.later) return settle(*survey.later, {});
    {
      // Who has proposed and is lost does not decide any more.
      const std::lock_guard lock(mutex_);
      if (proposed_ && !is_decided_ && std::ranges::count(survey.meeting, proposed_->leader, &Seat::process) == 0) {
        proposed_.reset();
      }
    }
    // If this process was stopped meanwhile, it knows nothing of who was silent.
    std::map<int, int> still;
    if (Clock::duration(stopped_for_.load()) < kStopped) {
      for (const Seat& seat : survey.silent) still[seat.process] = silent[seat.process] + 1;
    }
    stopped_for_ = 0;
    silent = std::move(still);
    const bool may_answer =
        std::ranges::any_of(survey.silent, [&](const Seat& seat) { return silent[seat.process] < kMostSilent; });
    const bool waits = Clock::now() < patience;
    if (waits && (!survey.working.empty() || may_answer)) {
      if (auto decided = await_decision(kPause)) return settle(std::move(*decided), {});
      continue;
    }
    if (survey.meeting.front() == me_) {
      if (auto led = lead(survey, options)) return std::move(*led);
      if (!waits) {
        throw ProcessFailed(
            fmt::format("elastic::run: {} processes are left, min_processes is {}, and no others came "
                        "within {} s",
                        survey.meeting.size(), options.min_processes, options.patience.count() / 1000));
      }
    }
    if (auto decided = await_decision(kPause)) return settle(std::move(*decided), {});
  }
}

// Nothing if these cannot go on yet.
std::optional<Agreement> Agent::lead(const Survey& survey, const MeetOptions& options) {
  // Those that cannot be reached may be many, and go on where they are. Of two halves the one with the lowest number
  // goes on.
  const std::size_t here = 2 * survey.meeting.size();
  const bool is_majority = here > survey.left.size() || (here == survey.left.size() && survey.left.front() == me_);
  if (survey.unreachable > 0 && !is_majority) {
    throw ProcessFailed(
        fmt::format("elastic::run: of {} processes {} cannot be reached, and may go on where they are: this one stops",
                    survey.left.size(), survey.unreachable));
  }
  Plan plan;
  std::vector<Seat> knocking;
  {
    const std::lock_guard lock(mutex_);
    plan.generation = plan_.generation + 1;
    for (const auto& [process, seat] : knocks_) knocking.push_back(seat);
  }
  plan.seats = survey.meeting;
  const bool is_short = std::cmp_less(plan.seats.size(), options.min_processes);
  if (options.takes_in || is_short) {
    const auto answers = call_all(knocking, encoded_question(me_, {}), kAnswering);
    for (std::size_t i = 0; i < knocking.size(); ++i) {
      const bool is_there = answers[i].outcome == Outcome::kAnswered && answers[i].reply.is_meeting;
      const bool is_taken = std::ranges::count(plan.seats, knocking[i].process, &Seat::process) > 0;
      if (is_there && !is_taken) plan.seats.push_back(knocking[i]);
    }
    std::ranges::sort(plan.seats, {}, &Seat::process);
  }
  if (std::cmp_less(plan.seats.size(), options.min_processes)) return std::nullopt;
  if (options.check_devices) options.check_devices(devices_of(plan.seats));
  plan.leader = me_.process;  // A new process may have a lower number.
  Socket listener = distributed::listen_anywhere(options.on_one_host);
  plan.port = distributed::local_address(listener.get()).port;
  plan.nonce = distributed::random_nonce();
  {
    const std::lock_guard lock(mutex_);
    if (is_decided_ || (proposed_ && proposed_->leader < me_.process)) return std::nullopt;
    proposed_ = plan;
  }
  std::vector<Seat> others = plan.seats;
  std::erase(others, me_);
  for (const auto& [outcome, reply] :
       call_all(others, distributed::encode(Call{.kind = CallKind::kPropose, .from = me_, .plan = plan}), kAnswering)) {
    if (outcome != Outcome::kAnswered || !reply.accepts) return std::nullopt;
  }
  {
    // Another one that leads may have this process in its plan by now.
    const std::lock_guard lock(mutex_);
    if (is_decided_ || !proposed_ || proposed_->nonce != plan.nonce) return std::nullopt;
    enter_locked(plan);
  }
  const auto told =
      call_all(others, distributed::encode(Call{.kind = CallKind::kDecide, .from = me_, .plan = plan}), kAnswering);
  static_cast<void>(told);  // Who has not heard of it asks, and hears that this process has gone there.
  return Agreement{std::move(plan), std::move(listener)};
}

std::optional<Agreement> Agent::knock(const std::vector<Seat>& at, milliseconds timeout) {
  {
    const std::lock_guard lock(mutex_);
    is_meeting_ = is_new_ = true;
  }
  const auto deadline = Clock::now() + timeout;
  std::vector<Seat> members = at;
  const std::string body = distributed::encode(Call{.kind = CallKind::kKnock, .from = me_, .plan = {}});
  while (Clock::now() < deadline) {
    bool is_anyone_there = false;
    std::optional<Plan> later;
    for (const auto& [outcome, reply] : call_all(members, body, kAnswering)) {
      if (outcome != Outcome::kAnswered) continue;
      is_anyone_there = true;
      if (!later || later->generation < reply.plan.generation) later = reply.plan;
    }
    if (auto decided = await_decision(milliseconds(0))) return settle(std::move(*decided), {});
    if (later && later->has(me_)) return settle(std::move(*later), {});
    if (!is_anyone_there) return std::nullopt;
    if (later) members = later->seats;  // As long as they go on without it, it knocks at all that do.
    if (auto decided = await_decision(4 * kPause)) return settle(std::move(*decided), {});
  }
  throw DeadlineExceeded(fmt::format(
      "elastic::run: process {} was not taken in again within {} s; Options::admit_every says when processes are",
      me_.process, timeout.count() / 1000));
}

}  // namespace shoal::elastic
