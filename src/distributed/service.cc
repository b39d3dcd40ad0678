#include "distributed/service.h"

#define BOOST_ASIO_NO_DEPRECATED

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <functional>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "base/log.h"
#include "base/seconds_text.h"
#include "comm/record/diagnosis.h"
#include "distributed/key_value_store.h"
#include "distributed/munge.h"
#include "distributed/protocol.h"
#include "distributed/service_connections.h"

namespace shoal::distributed {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// How long faults are collected before they are told.
constexpr milliseconds kCollection{200};
// How long processes have to tell what they have launched. Those that are stopped do not.
constexpr milliseconds kAnswering{500};
constexpr int kMaxRefusalsTold = 20;

// What the service knows of a process.
struct Slot {
  bool joined = false;
  bool gone = false;  // Left, or failed.
  Member member;
  ConnectionPtr connection;
  Outbox outbox;
  std::uint64_t seen = 0;
  Clock::time_point last_heard, join_deadline;
  std::string last_done;
  std::unique_ptr<asio::steady_timer> reset;
};

// What some processes were asked, until they have answered.
struct Question {
  std::set<int> open;  // Those that have not.
  std::vector<FlightLog> logs;
  std::function<void(std::vector<FlightLog>)> done;
  std::unique_ptr<asio::steady_timer> timer;
};

}  // namespace

class Service::Impl {
 public:
  Impl(Socket listener, ServiceOptions options)
      : options_(std::move(options)),
        credential_(options_.secret && options_.secret->by_munge ? seal_by_munge(options_.secret->key) : ""),
        slots_(static_cast<std::size_t>(options_.num_processes)),
        connections_(io_, std::move(listener), options_.heartbeat_timeout, connection_events()),
        check_interval_(std::clamp(options_.heartbeat_timeout / 8, milliseconds(10), milliseconds(1000))) {
    for (const int process : options_.absent) slot(process) = absent_slot();
    check();
    thread_ = std::thread([this] { run(); });
  }

  ~Impl() { stop(milliseconds(0)); }

  Address address() const { return connections_.address(); }

  void stop(milliseconds grace) {
    if (!thread_.joinable()) return;
    asio::post(io_, [this, grace] {
      stopping_ = true;
      connections_.stop_accepting();
      after(stop_timer_, grace, [this] { io_.stop(); });
      stop_if_alone();
    });
    thread_.join();
    // Who is still there sees the end now, and not when this object goes.
    for (Slot& slot : slots_) {
      if (slot.connection) slot.connection->close();
    }
    for (const ConnectionPtr& stranger : connections_.strangers()) stranger->close();
  }

 private:
  void run() {
    while (!io_.stopped()) {
      try {
        io_.run();
      } catch (const std::exception& error) {
        log_warning(fmt::format("the coordination service: {}", error.what()));
      }
    }
  }

  // Of a number that no process has: it is waited for as little as a process that has left.
  static Slot absent_slot() {
    Slot slot;
    slot.joined = slot.gone = true;
    slot.member.process = -1;
    slot.join_deadline = Clock::time_point::max();
    return slot;
  }

  Slot& slot(int process) { return slots_[static_cast<std::size_t>(process)]; }

  // ---- Connections that end.

  Connections::Events connection_events() {
    return {.frame = [this](const ConnectionPtr& connection, const FrameView& frame) { take(connection, frame); },
            .malformed =
                [this](const ConnectionPtr& connection, const std::string& why) {
                  refuse(connection, {Status::kDisagreed, fmt::format("the coordinator does not understand: {}", why)});
                },
            .lost = [this](const ConnectionPtr& connection, const std::string& why) { lost(connection, why); },
            .dropped = [this](const ConnectionPtr& connection) { forget(connection); }};
  }

  void forget(const ConnectionPtr& connection) {
    if (connection->process >= 0 && slot(connection->process).connection == connection) {
      slot(connection->process).connection = nullptr;
    }
    stop_if_alone();
  }

  // The other side has ended a connection, or broken its rules.
  void lost(const ConnectionPtr& connection, const std::string& why) {
    const int process = connection->process;
    const bool is_current = process >= 0 && this->slot(process).connection == connection;
    connections_.drop(connection);
    if (!is_current || this->slot(process).gone || stopping_ || failure_) return;
    Slot& slot = this->slot(process);
    const std::string name = process_name(slot.member);
    if (!board_) {
      slot.joined = false;
      return fail_start({Status::kFailed, fmt::format("distributed::initialize: {} (pid {}) ended while the job was "
                                                      "starting",
                                                      name, slot.member.pid)});
    }
    if (board_->is_finished()) return;
    const std::string text =
        fmt::format("{} (pid {}) died: its connection to the coordinator ended ({})", name, slot.member.pid, why);
    if (slot.member.host_identity == options_.host_identity) return fail(process, FaultKind::kDeath, text);
    slot.reset = std::make_unique<asio::steady_timer>(io_);
    after(*slot.reset, options_.reset_timeout, [this, process, text] { fail(process, FaultKind::kDeath, text); });
  }

  void stop_if_alone() {
    if (!stopping_) return;
    const auto is_over = [](const Slot& slot) { return slot.connection == nullptr; };
    if (std::all_of(slots_.begin(), slots_.end(), is_over)) io_.stop();
  }

  // ---- Joining.

  void take(const ConnectionPtr& connection, const FrameView& frame) {
    if (connection->process >= 0) return take_from_member(connection, frame);
    if (!connection->nonce) {
      if (frame.type != MessageType::kHello) throw Malformed("a connection begins with a hello");
      connection->nonce = random_nonce();
      const auto key = options_.secret ? std::optional(options_.secret->key) : std::nullopt;
      connections_.send(connection, MessageType::kChallenge, 0, encode(Challenge{*connection->nonce, credential_}));
      connection->seals = make_seals(key, decode<Hello>(frame.body).nonce, *connection->nonce);
      return;
    }
    if (frame.type != MessageType::kJoin) throw Malformed("a join comes after the hello");
    if (!connection->seals.to_service.accepts(frame)) {
      const bool has_secret = frame.tag != Tag{};
      const char* text = "the coordinator has another secret";
      if (!has_secret) text = "the coordinator has a secret, and this process has none";
      if (!options_.secret) text = "the coordinator has no secret, and this process has one";
      return refuse(connection, {Status::kInvalid, text});
    }
    join(connection, decode<Join>(frame.body));
  }

  void join(const ConnectionPtr& connection, Join join) {
    const Member& me = join.me;
    if (join.version != options_.version) {
      return refuse(connection, {Status::kDisagreed, fmt::format("the coordinator uses Shoal {}, and {} uses {}",
                                                                 options_.version, process_name(me), join.version)});
    }
    if (join.job != options_.job) {
      return refuse(connection,
                    {Status::kDisagreed,
                     fmt::format("the coordinator belongs to the job \"{}\", and {} to \"{}\": it may be left over, or "
                                 "two jobs use one address; end it, or choose another port",
                                 options_.job, process_name(me), join.job)});
    }
    if (failure_) return refuse(connection, *failure_);
    if (join.again) return join_again(connection, join);
    if (board_) {
      std::string occupant;
      if (me.process >= 0 && me.process < options_.num_processes) {
        const Member& other = slot(me.process).member;
        occupant =
            fmt::format(", in which process {} is the one on {} with pid {}", other.process, other.host, other.pid);
      }
      return refuse(connection, {Status::kDisagreed,
                                 fmt::format("process {} on {} (pid {}) comes too late: the job of {} processes has "
                                             "started{}",
                                             me.process, me.host, me.pid, options_.num_processes, occupant)});
    }
    if (join.num_processes != options_.num_processes) {
      return fail_start(
          {Status::kInvalid, fmt::format("distributed::initialize: num_processes is {} in process {} on {}, "
                                         "and {} in the coordinator; it must be the same everywhere",
                                         join.num_processes, me.process, me.host, options_.num_processes)},
          connection);
    }
    if (me.process < 0 || me.process >= options_.num_processes || me.card.size() > kMaxCardBytes) {
      throw Malformed("a join that no client sends");
    }
    Slot& slot = this->slot(me.process);
    if (slot.gone) {
      return refuse(connection, {Status::kFailed, fmt::format("the job goes on without process {}", me.process)});
    }
    if (slot.joined) {
      return fail_start(
          {Status::kInvalid,
           fmt::format("distributed::initialize: process_id {} was given to two processes: on {} (pid {}) "
                       "and on {} (pid {})",
                       me.process, slot.member.host, slot.member.pid, me.host, me.pid)},
          connection);
    }
    slot.joined = true;
    slot.member = me;
    slot.member.address = connection->remote.host;
    slot.join_deadline = Clock::now() + join.timeout;
    admit(connection, slot, 0);
    const auto has_joined = [](const Slot& any) { return any.joined; };
    if (std::all_of(slots_.begin(), slots_.end(), has_joined)) return start();
    watch_join();
  }

  void admit(const ConnectionPtr& connection, Slot& slot, std::uint64_t seen_by_client) {
    connections_.make_member(connection, slot.member.process);
    slot.connection = connection;
    slot.last_heard = Clock::now();
    slot.outbox.seen(seen_by_client);
    connections_.send(connection, MessageType::kAccepted, slot.seen, encode(Accepted{slot.seen}));
  }

  // A process comes back after its connection was reset.
  void join_again(const ConnectionPtr& connection, const Join& join) {
    const int process = join.me.process;
    const bool known = board_ && process >= 0 && process < options_.num_processes && !slot(process).gone &&
                       slot(process).member.incarnation == join.me.incarnation;
    if (!known) return refuse(connection, {Status::kFailed, "the process was taken for dead meanwhile"});
    Slot& slot = this->slot(process);
    if (slot.connection) {  // Its end was not seen here.
      slot.connection->process = -1;
      connections_.drop(slot.connection);
    }
    slot.reset = nullptr;
    admit(connection, slot, join.seen);
    for (const auto& item : slot.outbox.items()) connections_.send(connection, item.type, slot.seen, item.body);
  }

  void watch_join() {
    auto deadline = Clock::time_point::max();
    for (const Slot& slot : slots_) {
      if (slot.joined) deadline = std::min(deadline, slot.join_deadline);
    }
    after(join_timer_, deadline - Clock::now(), [this] {
      std::vector<int> missing;
      std::vector<std::string> there;
      for (std::size_t i = 0; i < slots_.size(); ++i) {
        if (slots_[i].gone) continue;
        if (slots_[i].joined) {
          there.push_back(process_name(slots_[i].member));
        } else {
          missing.push_back(static_cast<int>(i));
        }
      }
      fail_start({Status::kDeadline,
                  fmt::format("distributed::initialize: of {} processes {} did not join within initialization_timeout; "
                              "there are {}{}",
                              missing.size() + there.size(), fmt::join(missing, ", "), fmt::join(there, ", "),
                              refusals_.empty() ? "" : "; refused: " + refusals_)});
    });
  }

  void start() {
    join_timer_.cancel();
    Started started{{}, options_.heartbeat_timeout, random_nonce()};
    for (const Slot& slot : slots_) started.members.push_back(slot.member);
    board_.emplace(started.members, [this](Fault fault) { note(std::move(fault)); });
    const std::string body = encode(started);
    for (int process = 0; process < options_.num_processes; ++process) tell(process, MessageType::kStarted, body);
  }

  // Nobody can join any more, and who has is told why; `newcomer` has caused it.
  void fail_start(Refused failure, const ConnectionPtr& newcomer = nullptr) {
    failure_ = std::move(failure);
    const std::string body = encode(*failure_);
    for (Slot& slot : slots_) {
      if (!slot.connection) continue;
      connections_.send(slot.connection, MessageType::kRefused, slot.seen, body);
      connections_.end(slot.connection);
    }
    if (newcomer) refuse(newcomer, *failure_);
  }

  // Tells a stranger why it cannot join, and the user of process 0 that it was there.
  void refuse(const ConnectionPtr& connection, const Refused& refused) {
    if (connection->process < 0 && !failure_ && ++num_refused_ <= kMaxRefusalsTold) {
      const std::string text = fmt::format("{}: {}", to_string(connection->remote), refused.text);
      log_warning(fmt::format("the coordination service refused a connection from {}", text));
      refusals_ += (refusals_.empty() ? "" : "; ") + text;
    }
    if (connection->process >= 0) return lost(connection, refused.text);
    connections_.send(connection, MessageType::kRefused, 0, encode(refused));
    connections_.end(connection);
  }

  // ---- Members.

  void tell(int process, MessageType type, std::string body) {
    Slot& slot = this->slot(process);
    if (slot.gone && type != MessageType::kFaults) return;
    const auto& item = slot.outbox.keep(type, std::move(body));
    connections_.send(slot.connection, type, slot.seen, item.body);
  }

  void take_from_member(const ConnectionPtr& connection, const FrameView& frame) {
    const int process = connection->process;
    Slot& slot = this->slot(process);
    if (!connection->seals.to_service.accepts(frame)) throw Malformed("a frame has a wrong tag");
    slot.last_heard = Clock::now();
    slot.outbox.seen(frame.seen);
    if (is_counted(frame.type)) ++slot.seen;
    if (!board_) throw Malformed("a process waits until the job has started");
    switch (frame.type) {
      case MessageType::kHeartbeat: {
        auto beat = decode<Heartbeat>(frame.body);
        if (!beat.last_done.empty()) slot.last_done = std::move(beat.last_done);
        return connections_.send(connection, MessageType::kHeartbeat, slot.seen, encode(Heartbeat{}));
      }
      case MessageType::kRequest:
        return serve(process, decode<Request>(frame.body));
      case MessageType::kReport:
        return note(decode<Fault>(frame.body));
      case MessageType::kAnswer:
        return take_answer(process, decode<Answer>(frame.body));
      case MessageType::kGoodbye:
        return leave(process);
      default:
        throw Malformed("a message that only the service sends");
    }
  }

  void serve(int process, const Request& request) {
    if (request.kind == RequestKind::kWhereabouts) return tell_whereabouts(process, request);
    if (request.kind == RequestKind::kShutdown) {
      if (!request.value.empty()) slot(process).last_done = decode<Farewell>(request.value).last_done;
      const std::string body = encode(Leaving{process});
      for (int other = 0; other < options_.num_processes; ++other) {
        if (other != process) tell(other, MessageType::kLeaving, body);
      }
    }
    board_->handle(process, request, Clock::now(), [this, process, id = request.id](Reply reply) {
      reply.id = id;
      std::string body = encode(reply);
      if (body.size() > kMaxBody) {
        body = encode(Reply{.id = id,
                            .status = Status::kInvalid,
                            .text = fmt::format("key_value_dir_get: there are more than {} MiB", kMaxBody >> 20U)});
      }
      tell(process, MessageType::kReply, std::move(body));
    });
    watch_board();
  }

  void watch_board() {
    const auto next = board_->next_deadline();
    if (next == board_deadline_) return;
    board_deadline_ = next;
    if (!next) {
      board_timer_.cancel();
      return;
    }
    after(board_timer_, *next - Clock::now(), [this] {
      board_deadline_.reset();
      board_->expire(Clock::now());
      watch_board();
    });
  }

  void leave(int process) {
    Slot& slot = this->slot(process);
    const bool is_early = !board_->is_finished() && !board_->is_leaving(process);
    slot.gone = true;
    connections_.end(slot.connection);
    board_->remove(process);
    watch_board();
    if (is_early) {
      note({.kind = FaultKind::kShutdown,
            .process = process,
            .text = fmt::format("{} left without waiting for the others", process_name(slot.member))});
    }
  }

  // ---- Where processes are.

  // Calls done(logs) with those of these processes, when they have answered or have had the time to. `interest` are the
  // processes whose common launches matter.
  void ask(const std::vector<int>& processes, const std::vector<int>& interest,
           std::function<void(std::vector<FlightLog>)> done) {
    const std::uint64_t number = ++last_question_;
    Question& question = questions_[number];
    question.done = std::move(done);
    for (const int process : processes) {
      const Slot& slot = this->slot(process);
      if (slot.gone || !slot.connection) {
        question.logs.push_back(silent_log(process));
      } else {
        question.open.insert(process);
      }
    }
    question.timer = std::make_unique<asio::steady_timer>(io_);
    after(*question.timer, question.open.empty() ? milliseconds(0) : kAnswering, [this, number] { close(number); });
    const std::string body = encode(Ask{number, interest});
    for (const int process : processes) {
      if (!slot(process).gone) tell(process, MessageType::kAsk, body);
    }
  }

  FlightLog silent_log(int process) {
    const Slot& slot = this->slot(process);
    FlightLog log;
    log.process = process;
    log.host = slot.member.host;
    log.pid = slot.member.pid;
    log.answers = false;
    log.last_done = slot.last_done;
    return log;
  }

  void take_answer(int process, const Answer& answer) {
    const auto found = questions_.find(answer.number);
    if (found == questions_.end() || found->second.open.erase(process) == 0) return;  // Too late.
    try {
      FlightLog log = answer.log.empty() ? silent_log(process) : log_from_bytes(answer.log);
      log.process = process;
      found->second.logs.push_back(std::move(log));
    } catch (const InvalidArgument& error) {
      throw Malformed(error.what());
    }
    if (found->second.open.empty()) close(answer.number);
  }

  void close(std::uint64_t number) {
    const auto found = questions_.find(number);
    if (found == questions_.end()) return;
    Question question = std::move(found->second);
    questions_.erase(found);
    for (const int process : question.open) question.logs.push_back(silent_log(process));
    question.done(std::move(question.logs));
  }

  void tell_whereabouts(int process, const Request& request) {
    const auto of = static_cast<int>(request.increment);
    if (!are_members(request.processes) || !are_members({of})) throw Malformed("a question that no client asks");
    ask({of}, request.processes, [this, process, of, request](const std::vector<FlightLog>& logs) {
      Reply reply{.id = request.id};
      for (const Diagnosis::Place& place : diagnose(request.processes, logs).places) {
        if (place.process == of) reply.text = place.where;
      }
      tell(process, MessageType::kReply, encode(reply));
    });
  }

  bool are_members(const std::vector<int>& processes) const {
    return std::all_of(processes.begin(), processes.end(),
                       [&](int process) { return process >= 0 && process < options_.num_processes; });
  }

  // ---- What goes wrong.

  void fail(int process, FaultKind kind, const std::string& text) {
    Slot& slot = this->slot(process);
    if (std::exchange(slot.gone, true)) return;
    board_->remove(process);
    watch_board();
    note({.kind = kind, .process = process, .text = text});
  }

  void note(Fault fault) {
    if (fault.process >= 0 && fault.process < options_.num_processes) {
      const Slot& slot = this->slot(fault.process);
      fault.host = slot.member.host;
      if (fault.last_done.empty()) fault.last_done = slot.last_done;
    }
    if (fault.processes.empty()) {
      board_->expect_failure();
    } else {
      if (!are_members(fault.processes)) throw Malformed("a fault that no client reports");
      // Of many processes that found the same, one is enough.
      const auto is_same = [&](const Fault& other) {
        return other.processes == fault.processes && other.kind == fault.kind;
      };
      if (told_sets_.contains(fault.processes) || std::any_of(collected_.begin(), collected_.end(), is_same)) return;
      board_->note_failed(fault.processes);
      if (fault.kind == FaultKind::kDisagreement || fault.kind == FaultKind::kTimeout) look_into(fault.processes);
    }
    collected_.push_back(std::move(fault));
    if (collected_.size() > 1) return;
    is_collecting_ = true;
    after(fault_timer_, kCollection, [this] {
      is_collecting_ = false;
      tell_faults();
    });
  }

  // Asks those that do not do the same, or do not come, where they are, and adds that to what will be told.
  void look_into(const std::vector<int>& processes) {
    ++looking_;
    ask(processes, processes, [this, processes](const std::vector<FlightLog>& logs) {
      --looking_;
      const std::string text = to_string(diagnose(processes, logs));
      for (Fault& fault : collected_) {
        if (fault.processes == processes && !fault.text.ends_with(text)) fault.text += text;
      }
      tell_faults();
    });
  }

  void tell_faults() {
    if (is_collecting_ || looking_ > 0 || collected_.empty()) return;
    Faults told{std::exchange(collected_, {})};
    const auto is_before = [](const Fault& a, const Fault& b) { return a.kind < b.kind; };
    std::stable_sort(told.faults.begin(), told.faults.end(), is_before);
    const std::string body = encode(told);
    for (int process = 0; process < options_.num_processes; ++process) {
      tell(process, MessageType::kFaults, body);
      if (slot(process).gone) connections_.end(slot(process).connection);
    }
    const auto ends_job = [](const Fault& fault) { return fault.processes.empty(); };
    const auto first = std::find_if(told.faults.begin(), told.faults.end(), ends_job);
    if (first != told.faults.end()) board_->fail_all(describe(*first));
    for (const Fault& fault : told.faults) {
      if (!fault.processes.empty()) told_sets_.insert(fault.processes);
    }
    board_->end_shutdown();
    watch_board();
  }

  // Looks again and again for who is silent.
  void check() {
    const auto now = Clock::now();
    // If this thread itself was stopped, what the others sent meanwhile has not been read yet.
    const bool was_stopped = now - last_check_ > 2 * check_interval_ + milliseconds(500);
    last_check_ = now;
    const std::list<ConnectionPtr> strangers = connections_.strangers();
    for (const ConnectionPtr& stranger : strangers) {
      if (now - stranger->since <= options_.handshake_timeout) break;  // Those that follow are younger.
      if (stranger->ending) {
        connections_.drop(stranger);  // It does not even read why it is refused.
      } else {
        refuse(stranger, {Status::kDeadline, "it has not joined in time"});
      }
    }
    for (int process = 0; board_ && process < options_.num_processes; ++process) {
      Slot& slot = this->slot(process);
      if (was_stopped) slot.last_heard = now;
      if (slot.gone || slot.reset || now - slot.last_heard <= options_.heartbeat_timeout) continue;
      fail(process, FaultKind::kTimeout,
           fmt::format("{} (pid {}) has been silent for {}: it is stopped, or the network between is broken",
                       process_name(slot.member), slot.member.pid, seconds_text(options_.heartbeat_timeout)));
    }
    after(check_timer_, check_interval_, [this] { check(); });
  }

  asio::io_context io_{1};
  const ServiceOptions options_;
  const std::string credential_;
  std::vector<Slot> slots_;         // By process id.
  std::optional<Board> board_;      // Since the start.
  std::optional<Refused> failure_;  // Why there was none.
  std::vector<Fault> collected_;
  bool is_collecting_ = false;
  int looking_ = 0;                       // Into so many faults, which are told after that.
  std::set<std::vector<int>> told_sets_;  // Of processes whose common work has failed.
  std::map<std::uint64_t, Question> questions_;
  std::uint64_t last_question_ = 0;
  std::string refusals_;
  int num_refused_ = 0;
  bool stopping_ = false;

  Connections connections_;
  milliseconds check_interval_;
  Clock::time_point last_check_ = Clock::now();
  std::optional<Clock::time_point> board_deadline_;
  asio::steady_timer join_timer_{io_}, board_timer_{io_}, fault_timer_{io_}, check_timer_{io_}, stop_timer_{io_};
  std::thread thread_;
};

Service::Service(Socket listener, ServiceOptions options)
    : impl_(std::make_unique<Impl>(std::move(listener), std::move(options))) {}

Service::~Service() = default;

Address Service::address() const { return impl_->address(); }

void Service::stop(milliseconds grace) { impl_->stop(grace); }

}  // namespace shoal::distributed
