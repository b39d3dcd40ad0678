#include "distributed/session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "base/fork.h"
#include "base/log.h"
#include "distributed/control.h"
#include "distributed/service.h"
#include "distributed/transport.h"

namespace shoal::distributed {
namespace {

// How long process 0 serves those that leave after it, where they do not come to say goodbye.
constexpr std::chrono::milliseconds kGrace = std::chrono::seconds(1);

std::string host_name() {
  std::array<char, 256> name = {};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown host";
  return name.data();
}

std::string link_target(const char* path) {
  std::error_code unreadable;
  return std::filesystem::read_symlink(path, unreadable).string();
}

// Joining costs two round trips, so the address need not be a good one: any that leads to this machine.
Address own_address(const Address& listening) {
  if (listening.host == "::") return {"::1", listening.port};
  if (listening.host == "0.0.0.0") return {"127.0.0.1", listening.port};
  return listening;
}

void call_each(const auto& callbacks, const auto& argument) {
  for (const auto& callback : callbacks) {
    try {
      callback(argument);
    } catch (const std::exception& error) {
      log_warning(fmt::format("a callback of the session failed: {}", error.what()));
    }
  }
}

const Fault kForked = {
    .kind = FaultKind::kUserError,
    .text = "this process was made by fork(), and is no process of the job: use Shoal before fork(), or call exec"};

}  // namespace

std::string host_identity() {
  return fmt::format("{} {} {}", machine_identity(), link_target("/proc/self/ns/net"),
                     link_target("/proc/self/ns/mnt"));
}

Session::Session(SessionOptions options, Socket listener)
    : options_([&] {
        if (options.host.empty()) options.host = host_name();
        if (options.host_identity.empty()) options.host_identity = host_identity();
        return std::move(options);
      }()) {
  for (int process = 0; process < options_.num_processes; ++process) {
    if (std::ranges::count(options_.absent, process) == 0) processes_.push_back(process);
  }
  Member me{.process = options_.process,
            .host = options_.host,
            .host_identity = options_.host_identity,
            .pid = ::getpid(),
            .address = "127.0.0.1",
            .incarnation = random_number(),
            .card = options_.card,
            .resources = own_resources()};
  if (processes_.size() == 1) {
    Member absent;
    absent.process = -1;
    members_.resize(static_cast<std::size_t>(options_.num_processes), absent);
    members_[static_cast<std::size_t>(me.process)] = me;
    key_ = derive_key({}, {"shoal job", as_text(random_nonce())});
    client_.emplace(make_local_transport(me.process, members_));
    return;
  }
  Address coordinator = options_.coordinator;
  if (options_.process == options_.coordinator_process) {
    // Beyond loopback all addresses are as good: those of the others decide by which one they come.
    const Address bind =
        options_.bind.value_or(is_loopback(coordinator.host) ? coordinator : Address{"", coordinator.port});
    if (!listener) listener = listen_at(bind);
    service_ =
        std::make_unique<Service>(std::move(listener), ServiceOptions{.version = SHOAL_VERSION,
                                                                      .job = options_.job,
                                                                      .num_processes = options_.num_processes,
                                                                      .absent = options_.absent,
                                                                      .secret = options_.secret,
                                                                      .host_identity = options_.host_identity,
                                                                      .heartbeat_timeout = options_.heartbeat_timeout});
    coordinator = own_address(service_->address());
  }
  control_ = std::make_shared<Control>(ControlOptions{.coordinator = coordinator,
                                                      .join = {.version = SHOAL_VERSION,
                                                               .job = options_.job,
                                                               .num_processes = options_.num_processes,
                                                               .me = std::move(me),
                                                               .timeout = options_.initialization_timeout},
                                                      .secret = options_.secret,
                                                      .coordinator_process = options_.coordinator_process});
  const Started& started = control_->started();
  members_ = started.members;
  for (Member& member : members_) {
    // On the coordinator's own host loopback leads to it, and from elsewhere the way by which this process came.
    if (is_loopback(member.address)) member.address = control_->remote().host;
  }
  key_ = derive_key(control_->secret(), {"shoal job", as_text(started.nonce)});
  client_.emplace(control_);
  control_->run({.faults = [this](const std::vector<Fault>& faults) { take_faults(faults); },
                 .leaving = [this](int process) { take_leaving(process); },
                 .last_done = [this] { return last_done(); },
                 .log =
                     [this](const std::vector<int>& processes) {
                       std::function<std::string(const std::vector<int>&)> f;
                       {
                         const std::lock_guard lock(mutex_);
                         f = log_;
                       }
                       return f ? f(processes) : std::string();
                     }});
}

Session::~Session() {
  if (control_) control_->close();
  if (service_) service_->stop(kGrace);
}

bool Session::is_on_one_host() const {
  return std::ranges::all_of(members_, [&](const Member& member) {
    return !is_present(member) || member.host_identity == options_.host_identity;
  });
}

int Session::place() const {
  return static_cast<int>(std::ranges::lower_bound(processes_, options_.process) - processes_.begin());
}

Key Session::secret() const {
  if (control_) return control_->secret();
  return options_.secret ? options_.secret->key : Key{};
}

Key Session::key(std::string_view label) const { return derive_key(key_, {label}); }

void Session::report(const Fault& fault) {
  Fault told = fault;
  if (told.last_done.empty() && told.process == options_.process) told.last_done = last_done();
  if (control_) {
    control_->report(told);
  } else {
    take_faults({told});
  }
}

const Fault* Session::fault() const noexcept {
  return is_forked_child() ? &kForked : first_fault_.load(std::memory_order_acquire);
}

std::vector<Fault> Session::faults() const {
  if (is_forked_child()) return {kForked};
  const std::lock_guard lock(mutex_);
  std::vector<Fault> faults;
  for (const auto& fault : faults_) faults.push_back(*fault);
  return faults;
}

const Fault* Session::find_failure(const std::vector<int>& processes) const {
  for (const auto& fault : faults_) {
    if (concerns(*fault, processes)) return fault.get();
  }
  return nullptr;
}

const Fault* Session::failure_of(const std::vector<int>& processes) const {
  const Fault* const first = fault();
  if (first == nullptr || first == &kForked) return first;
  const std::lock_guard lock(mutex_);
  return find_failure(processes);
}

const Fault* Session::await_failure_of(const std::vector<int>& processes, std::chrono::milliseconds timeout) const {
  if (is_forked_child()) return &kForked;
  const Fault* found = nullptr;
  std::unique_lock lock(mutex_);
  told_.wait_for(lock, timeout, [&] { return (found = find_failure(processes)) != nullptr; });
  return found;
}

std::exception_ptr error_of(const Fault& fault) {
  const std::string text = describe(fault);
  if (&fault == &kForked) return std::make_exception_ptr(InvalidState(text));
  if (fault.kind == FaultKind::kDisagreement) return std::make_exception_ptr(Disagreement(text));
  if (fault.kind == FaultKind::kTimeout && !fault.processes.empty()) {
    return std::make_exception_ptr(DeadlineExceeded(text));
  }
  return std::make_exception_ptr(ProcessFailed(text));
}

bool Session::is_leaving(int process) const {
  if (!any_leaving_.load(std::memory_order_acquire)) return false;
  const std::lock_guard lock(mutex_);
  return leaving_.contains(process);
}

// Callbacks are called without the lock, so that they may ask this session.
void Session::take_faults(const std::vector<Fault>& faults) {
  for (const Fault& told : faults) {
    std::vector<std::function<void(const Fault&)>> callbacks;
    const Fault* fault = nullptr;
    {
      const std::lock_guard lock(mutex_);
      fault = faults_.emplace_back(std::make_unique<const Fault>(told)).get();
      const Fault* none = nullptr;
      first_fault_.compare_exchange_strong(none, fault, std::memory_order_release, std::memory_order_relaxed);
      callbacks = fault_callbacks_;
      told_.notify_all();
    }
    call_each(callbacks, *fault);
  }
}

void Session::take_leaving(int process) {
  std::vector<std::function<void(int)>> callbacks;
  {
    const std::lock_guard lock(mutex_);
    leaving_.insert(process);
    any_leaving_.store(true, std::memory_order_release);
    callbacks = leaving_callbacks_;
  }
  call_each(callbacks, process);
}

void Session::on_fault(std::function<void(const Fault&)> f) {
  std::vector<const Fault*> told;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& fault : faults_) told.push_back(fault.get());
    fault_callbacks_.push_back(f);
  }
  for (const Fault* fault : told) call_each(std::array{f}, *fault);
}

void Session::on_leaving(std::function<void(int)> f) {
  std::set<int> told;
  {
    const std::lock_guard lock(mutex_);
    told = leaving_;
    leaving_callbacks_.push_back(f);
  }
  for (const int process : told) call_each(std::array{f}, process);
}

void Session::set_records(std::function<std::string()> last_done,
                          std::function<std::string(const std::vector<int>&)> log) {
  const std::lock_guard lock(mutex_);
  last_done_ = std::move(last_done);
  log_ = std::move(log);
}

std::string Session::last_done() const {
  std::function<std::string()> f;
  {
    const std::lock_guard lock(mutex_);
    f = last_done_;
  }
  return f ? f() : std::string();
}

std::string Session::whereabouts_of(int process, const std::vector<int>& processes) {
  if (!control_) return {};
  const Reply reply = control_->call({.kind = RequestKind::kWhereabouts, .increment = process, .processes = processes});
  return reply.status == Status::kOk ? reply.text : std::string();
}

std::uint64_t SessionCounter::next() {
  const std::lock_guard lock(mutex_);
  if (const auto current = Session::current(); session_.lock() != current) {
    session_ = current;
    number_ = 0;
  }
  return ++number_;
}

void Session::abandon() {
  if (!control_) return;
  control_->close();
  if (service_) service_->stop(std::chrono::milliseconds(0));
}

void Session::shutdown(std::vector<Launches> launches) {
  if (!control_) return;
  const bool failed_before = fault() != nullptr;
  const Reply reply = control_->call({.kind = RequestKind::kShutdown,
                                      .value = encode(Farewell{last_done(), std::move(launches)}),
                                      .timeout = options_.shutdown_timeout});
  control_->close();
  if (service_) service_->stop(kGrace);
  // Who knows of a fault has had its exception.
  if (!failed_before) throw_failure(reply.status, reply.text);
}

}  // namespace shoal::distributed
