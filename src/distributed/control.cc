#include "distributed/control.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/fork.h"
#include "base/seconds_text.h"
#include "base/sort_unique.h"
#include "distributed/frame_io.h"
#include "distributed/munge.h"

namespace shoal::distributed {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kFirstRetry{2};
constexpr milliseconds kLongestRetry{200};
constexpr milliseconds kLongestHandshake = std::chrono::seconds(10);
// The service keeps the deadlines; this long after one it counts as silent.
constexpr milliseconds kSlack = std::chrono::seconds(5);
// For the goodbye to leave.
constexpr milliseconds kLongestClose = std::chrono::seconds(1);

Key find_key(const Secret& secret, const Challenge& challenge) {
  if (!secret.by_munge) return secret.key;
  if (challenge.credential.empty()) {
    throw DistributedError(
        "distributed::initialize: this process expects the secret by munge, and the coordinator does not give it: "
        "munge "
        "does not run on its host, or it has another secret; set SHOAL_SECRET for all processes");
  }
  return open_by_munge(challenge.credential);
}

}  // namespace

// ---- Joining, by the thread of the user.

Control::Control(ControlOptions options) : options_(std::move(options)) {
  join();
  beat_interval_ = std::clamp(started_.heartbeat_timeout / 8, milliseconds(10), milliseconds(1000));
  wakeup_ = Socket([] { return ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); });
  if (!wakeup_) throw DistributedError("distributed::initialize: eventfd: " + error_text(errno));
}

Control::~Control() { close(); }

void Control::join() {
  const auto deadline = Clock::now() + options_.join.timeout;
  std::string why;
  for (milliseconds pause = kFirstRetry;; pause = std::min(2 * pause, kLongestRetry)) {
    std::vector<std::string> failures;
    std::vector<Endpoint> endpoints;
    try {
      endpoints = resolve(options_.coordinator);
    } catch (const DistributedError& error) {
      failures.emplace_back(error.what());  // The name may become known.
    }
    for (const Endpoint& endpoint : endpoints) {
      const auto soon = std::min(deadline, Clock::now() + kLongestHandshake);
      Socket socket = connect_to(endpoint, soon, why);
      if (!socket) {
        failures.push_back(why);
        continue;
      }
      remote_ = remote_address(socket.get());
      try {
        link_ = handshake(std::move(socket), false, soon);
        return await_start();
      } catch (const Broken& error) {
        failures.push_back(fmt::format("a connection was made, but {}", error.what()));
      } catch (const Malformed& error) {
        throw DistributedError(
            fmt::format("distributed::initialize: what listens at coordinator_address {} is no "
                        "coordinator for this process: {}",
                        to_string(options_.coordinator), error.what()));
      }
    }
    sort_unique(failures);
    if (Clock::now() + pause >= deadline) {
      throw DeadlineExceeded(
          fmt::format("distributed::initialize: process {} found no coordinator at {} within {} ({}); "
                      "process 0 must run, and be reached there",
                      options_.join.me.process, to_string(options_.coordinator), seconds_text(options_.join.timeout),
                      fmt::join(failures, "; ")));
    }
    std::this_thread::sleep_for(pause);
  }
}

// Throws Broken if the connection ends, and what the service's refusal stands for.
Control::Link Control::handshake(Socket socket, bool again, Time deadline) {
  Link link;
  const Nonce nonce = random_nonce();
  send_all(socket.get(), Seal().frame(MessageType::kHello, 0, encode(Hello{nonce})));
  const auto next = [&](MessageType expected, Seal& seal) {
    const FrameView frame = receive(socket.get(), link.in, deadline);
    if (frame.type == MessageType::kRefused) {
      const auto refused = decode<Refused>(frame.body);
      throw_failure(refused.status, fmt::format("distributed::initialize: the coordinator at {} refused process {}: {}",
                                                to_string(remote_), options_.join.me.process, refused.text));
    }
    if (frame.type != expected) throw Malformed("it does not follow the protocol");
    if (!seal.accepts(frame)) {
      throw InvalidArgument(fmt::format("distributed::initialize: what listens at {} does not know the secret of {}",
                                        to_string(remote_), options_.secret ? options_.secret->source : "this job"));
    }
    std::string body(frame.body);
    link.in.erase(0, frame.size);
    return body;
  };
  Seal none;
  const auto challenge = decode<Challenge>(next(MessageType::kChallenge, none));
  if (options_.secret && !secret_) secret_ = find_key(*options_.secret, challenge);
  link.seals = make_seals(secret_, nonce, challenge.nonce);
  Join join = options_.join;
  join.again = again;
  join.seen = seen_;
  send_all(socket.get(), link.seals.to_service.frame(MessageType::kJoin, seen_, encode(join)));
  link.seen_by_service = decode<Accepted>(next(MessageType::kAccepted, link.seals.to_client)).seen;
  link.socket = std::move(socket);
  return link;
}

void Control::await_start() {
  // The service tells who is missing when the time is over.
  const auto deadline = Clock::now() + options_.join.timeout + kSlack;
  try {
    const FrameView frame = receive(link_.socket.get(), link_.in, deadline);
    if (!link_.seals.to_client.accepts(frame)) throw Malformed("a frame has a wrong tag");
    if (frame.type == MessageType::kRefused) {
      const auto refused = decode<Refused>(frame.body);
      throw_failure(refused.status, refused.text);
    }
    if (frame.type != MessageType::kStarted) throw Malformed("it does not follow the protocol");
    started_ = decode<Started>(frame.body);
    const auto id = static_cast<std::size_t>(options_.join.me.process);
    if (started_.members.size() != static_cast<std::size_t>(options_.join.num_processes) ||
        started_.members[id].incarnation != options_.join.me.incarnation) {
      throw Malformed("it tells of another job");
    }
    link_.in.erase(0, frame.size);
    ++seen_;
  } catch (const Broken& error) {
    throw ProcessFailed(
        fmt::format("distributed::initialize: the coordinator at {} was lost while the job was starting: "
                    "{}",
                    to_string(remote_), error.what()));
  }
  same_host_ = coordinator().host_identity == options_.join.me.host_identity;
  set_control_options(link_.socket.get(), started_.heartbeat_timeout);
}

// ---- The thread of the connection.

void Control::run(ControlEvents events) {
  events_ = std::move(events);
  last_heard_ = Clock::now();
  next_beat_ = last_heard_ + beat_interval_;
  thread_ = std::thread([this] {
    try {
      work();
    } catch (const std::exception& error) {  // Memory ran out.
      finish(fmt::format("the connection to the coordinator failed: {}", error.what()));
    }
  });
}

void Control::work() {
  Time close_deadline = Time::max();
  try {
    take_frames();  // Some may have come together with the start.
  } catch (const Malformed& error) {
    lost(FaultKind::kDeath, error.what());
  }
  while (true) {
    bool has_output = false;
    int socket = -1;
    {
      const std::lock_guard lock(mutex_);
      if (lost_) return;
      has_output = !out_.empty();
      if (closing_ && !has_output) return;
      if (closing_ && close_deadline == Time::max()) close_deadline = Clock::now() + kLongestClose;
      socket = link_.socket.get();
    }
    std::array<pollfd, 2> waiting{{{socket, POLLIN, 0}, {wakeup_.get(), POLLIN, 0}}};
    if (has_output) waiting[0].events |= POLLOUT;
    const auto before = Clock::now();
    if (before >= close_deadline) return;
    ::poll(waiting.data(), waiting.size(), poll_timeout(std::min(next_beat_, close_deadline)));
    if (waiting[1].revents != 0) {
      std::uint64_t count = 0;
      while (::read(wakeup_.get(), &count, sizeof(count)) > 0) {
      }
    }
    try {
      if (has_output) {
        const std::lock_guard lock(mutex_);
        flush();
      }
      if (waiting[0].revents != 0) read();
      // A process that was stopped reads first what came meanwhile.
      if (Clock::now() - before > beat_interval_ + milliseconds(500)) last_heard_ = Clock::now();
      if (Clock::now() >= next_beat_) beat();
    } catch (const Broken& error) {
      lost(FaultKind::kDeath, error.what());
    } catch (const Malformed& error) {
      lost(FaultKind::kDeath, error.what());
    }
  }
}

void Control::read() {
  if (!read_some(link_.socket.get(), link_.in)) return;
  last_heard_ = Clock::now();
  take_frames();
}

void Control::take_frames() {
  std::size_t begin = 0;
  while (true) {
    const FrameView frame = parse_frame(std::string_view(link_.in).substr(begin), kMaxBody);
    if (frame.size == 0) break;
    if (!link_.seals.to_client.accepts(frame)) throw Malformed("a frame has a wrong tag");
    take(frame);
    begin += frame.size;
  }
  link_.in.erase(0, begin);
}

void Control::take(const FrameView& frame) {
  {
    const std::lock_guard lock(mutex_);
    outbox_.seen(frame.seen);
    if (is_counted(frame.type)) ++seen_;
  }
  switch (frame.type) {
    case MessageType::kHeartbeat:
      return;
    case MessageType::kReply: {
      auto reply = decode<Reply>(frame.body);
      const std::lock_guard lock(mutex_);
      const auto found = pending_.find(reply.id);
      if (found == pending_.end()) return;  // It came too late for who waited.
      if (found->second->kind == RequestKind::kShutdown) ending_ = true;
      found->second->reply = std::move(reply);
      return answered_.notify_all();
    }
    case MessageType::kFaults:
      return events_.faults(decode<Faults>(frame.body).faults);
    case MessageType::kLeaving:
      return events_.leaving(decode<Leaving>(frame.body).process);
    case MessageType::kAsk: {
      const auto ask = decode<Ask>(frame.body);
      std::string body = encode(Answer{ask.number, events_.log(ask.processes)});
      const std::lock_guard lock(mutex_);
      return send(MessageType::kAnswer, std::move(body));
    }
    default:
      throw Malformed("a message that only clients send");
  }
}

void Control::beat() {
  next_beat_ = Clock::now() + beat_interval_;
  if (Clock::now() - last_heard_ > started_.heartbeat_timeout) {
    return lost(FaultKind::kTimeout,
                fmt::format("nothing was heard from it for {}: it is stopped, or the network between "
                            "is broken",
                            seconds_text(started_.heartbeat_timeout)));
  }
  std::string last_done = events_.last_done();
  Heartbeat heartbeat;
  if (last_done != told_last_done_) heartbeat.last_done = told_last_done_ = std::move(last_done);
  const std::lock_guard lock(mutex_);
  write(MessageType::kHeartbeat, encode(heartbeat));
}

void Control::lost(FaultKind kind, const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    if (ending_ || closing_) {
      lost_ = "the job has ended";
      return answered_.notify_all();
    }
  }
  if (kind == FaultKind::kDeath && !same_host_ && reconnect()) return;
  const Member& coordinator = this->coordinator();
  const std::string text =
      kind == FaultKind::kTimeout
          ? fmt::format("{} (pid {}), which coordinates the job, failed: {}", process_name(coordinator),
                        coordinator.pid, why)
          : fmt::format("{} (pid {}), which coordinates the job, died: the connection to it ended ({})",
                        process_name(coordinator), coordinator.pid, why);
  // First the fault: whose request fails finds it.
  events_.faults({{.kind = kind, .process = coordinator.process, .host = coordinator.host, .text = text}});
  finish(text);
}

// Goes on after a reset, if the service still takes this process for alive.
bool Control::reconnect() {
  {
    const std::lock_guard lock(mutex_);
    link_.socket.close();
    out_.clear();
  }
  const auto deadline = Clock::now() + options_.reset_timeout;
  for (milliseconds pause = kFirstRetry; Clock::now() + pause < deadline; pause = std::min(2 * pause, kLongestRetry)) {
    try {
      for (const Endpoint& endpoint : resolve(remote_)) {
        std::string why;
        Socket socket = connect_to(endpoint, deadline, why);
        if (!socket) continue;
        Link link = handshake(std::move(socket), true, deadline);
        set_control_options(link.socket.get(), started_.heartbeat_timeout);
        {
          const std::lock_guard lock(mutex_);
          link_ = std::move(link);
          outbox_.seen(link_.seen_by_service);
          for (const auto& item : outbox_.items()) write(item.type, item.body);
        }
        last_heard_ = Clock::now();
        take_frames();
        return true;
      }
    } catch (const Broken&) {  // Once more.
    } catch (const Malformed&) {
      return false;
    } catch (const Error&) {
      return false;
    }
    std::this_thread::sleep_for(pause);
  }
  return false;
}

// Nothing is answered any more.
void Control::finish(const std::string& text) {
  const std::lock_guard lock(mutex_);
  lost_ = text;
  answered_.notify_all();
}

// ---- Requests, by any thread.

Reply Control::call(Request request) {
  if (is_forked_child()) {
    throw InvalidState(
        "this process was made by fork(), and is no process of the job: use Shoal before fork(), or call exec");
  }
  const auto deadline = Clock::now() + std::min(request.timeout, milliseconds(std::chrono::hours(24 * 365))) +
                        (request.kind == RequestKind::kWhereabouts ? milliseconds(0) : started_.heartbeat_timeout) +
                        kSlack;
  Pending pending{request.kind, {}};
  std::unique_lock lock(mutex_);
  const std::uint64_t id = request.id = ++last_request_;
  if (closing_)
    return {.status = Status::kState, .text = "distributed::shutdown was called: this process has left the job"};
  pending_[id] = &pending;
  if (!lost_) send(MessageType::kRequest, encode(request));
  answered_.wait_until(lock, deadline, [&] { return pending.reply || lost_; });
  pending_.erase(id);
  if (pending.reply) return std::move(*pending.reply);
  if (lost_) return {.status = Status::kFailed, .text = *lost_};
  return {.status = Status::kDeadline, .text = "the coordination service does not answer"};
}

// The process may be about to end with the lock held, by a thread that threw what must not be thrown.
void Control::report(const Fault& fault) {
  if (is_forked_child()) return;
  std::unique_lock lock(mutex_, std::defer_lock);
  for (const auto deadline = Clock::now() + kLongestClose; !lock.try_lock();) {
    if (Clock::now() >= deadline) return;
    std::this_thread::sleep_for(milliseconds(1));
  }
  if (!lost_ && !closing_) send(MessageType::kReport, encode(fault));
}

void Control::close() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    if (!lost_) send(MessageType::kGoodbye, "");
    closing_ = true;
  }
  wake();
  thread_.join();
  const std::lock_guard lock(mutex_);
  if (!lost_) lost_ = "this process has left the job";
  link_.socket.close();
  answered_.notify_all();
}

void Control::send(MessageType type, std::string body) {
  const auto& item = outbox_.keep(type, std::move(body));
  write(type, item.body);
}

void Control::write(MessageType type, const std::string& body) {
  if (!link_.socket) return;  // Sent from the outbox when there is a connection again.
  out_ += link_.seals.to_service.frame(type, seen_, body);
  flush();
  if (!out_.empty()) wake();  // The thread writes the rest.
}

void Control::flush() {
  std::size_t begin = 0;
  while (begin < out_.size()) {
    const ssize_t sent =
        ::send(link_.socket.get(), out_.data() + begin, out_.size() - begin, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno != EAGAIN) begin = out_.size();  // The thread sees the end where it reads.
    if (sent < 0) break;
    begin += static_cast<std::size_t>(sent);
  }
  out_.erase(0, begin);
}

void Control::wake() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wakeup_.get(), &one, sizeof(one));
}

}  // namespace shoal::distributed
