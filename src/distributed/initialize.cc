#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/env.h"
#include "base/fork.h"
#include "base/log.h"
#include "core/job_devices.h"
#include "distributed/detect.h"
#include "distributed/rendezvous.h"
#include "distributed/session.h"
#include "shoal/distributed.h"

namespace shoal::distributed {
namespace {

constexpr const char* kSelf = "distributed::initialize";
// The largest product of device and process ids that fits; far beyond any job.
constexpr int kMaxProcesses = 1 << 20;

// The session of this process. Never destroyed: other threads may use it until the very end.
struct Global {
  std::mutex mutex;
  std::shared_ptr<Session> session;
  bool was_started = false;  // Or is starting.
};

Global& global() {
  static auto& instance = *new Global;
  return instance;
}

// ---- What is not given comes from the environment, then from the launcher.

std::optional<int> env_count(const char* variable, int lowest) {
  const auto value = env_int(variable, lowest, kMaxProcesses);
  return value ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

std::optional<std::chrono::milliseconds> env_time(const char* variable) {
  const auto seconds = env_seconds(variable);
  if (!seconds) return std::nullopt;
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::min(*seconds, 1e9) * 1000));
}

std::optional<std::vector<int>> env_ids(const char* variable) {
  const auto text = env_text(variable);
  if (!text) return std::nullopt;
  std::vector<int> ids;
  const char* position = text->data();
  const char* const end = text->data() + text->size();
  while (true) {
    const auto [next, error] = std::from_chars(position, end, ids.emplace_back());
    if (error != std::errc() || ids.back() < 0 || (next != end && *next != ',')) {
      throw InvalidArgument(fmt::format(
          "{} is \"{}\"; allowed: numbers of devices with commas between them, such as 0,2", variable, *text));
    }
    if (next == end) return ids;
    position = next + 1;
  }
}

template <class T>
void fill(std::optional<T>& option, std::optional<T> value) {
  if (!option) option = std::move(value);
}

void fill_from_environment(InitializeOptions& options) {
  fill(options.coordinator_address, env_text("SHOAL_COORDINATOR_ADDRESS"));
  fill(options.num_processes, env_count("SHOAL_NUM_PROCESSES", 1));
  fill(options.process_id, env_count("SHOAL_PROCESS_ID", 0));
  fill(options.local_device_ids, env_ids("SHOAL_LOCAL_DEVICE_IDS"));
  fill(options.coordinator_bind_address, env_text("SHOAL_COORDINATOR_BIND_ADDRESS"));
  fill(options.cluster_detection_method, env_text("SHOAL_CLUSTER_DETECTION_METHOD"));
  fill(options.initialization_timeout, env_time("SHOAL_INITIALIZATION_TIMEOUT"));
  fill(options.heartbeat_timeout, env_time("SHOAL_HEARTBEAT_TIMEOUT"));
  fill(options.shutdown_timeout, env_time("SHOAL_SHUTDOWN_TIMEOUT"));
  fill(options.insecure, env_bool("SHOAL_INSECURE"));
}

// What the launcher told, but for the address, which find_rendezvous() looks for.
Detection fill_from_launcher(InitializeOptions& options) {
  if (options.coordinator_address && options.num_processes && options.process_id) return {};  // Nothing to ask for.
  Detection detection = detect_cluster(own_environment, options.cluster_detection_method);
  if (detection.cluster) {
    fill(options.num_processes, detection.cluster->num_processes);
    fill(options.process_id, {detection.cluster->process_id});
  }
  return detection;
}

void check_time(const std::optional<std::chrono::milliseconds>& time, const char* name) {
  if (time && time->count() <= 0) {
    throw InvalidArgument(fmt::format("{}: {} is {} ms; allowed: more than 0", kSelf, name, time->count()));
  }
}

void check(const InitializeOptions& options) {
  check_time(options.initialization_timeout, "initialization_timeout");
  check_time(options.heartbeat_timeout, "heartbeat_timeout");
  check_time(options.shutdown_timeout, "shutdown_timeout");
  if (options.num_processes && (*options.num_processes < 1 || *options.num_processes > kMaxProcesses)) {
    throw InvalidArgument(
        fmt::format("{}: num_processes is {}; allowed: 1 to {}", kSelf, *options.num_processes, kMaxProcesses));
  }
  if (options.process_id && *options.process_id < 0) {
    throw InvalidArgument(fmt::format("{}: process_id is {}; allowed: 0 or more", kSelf, *options.process_id));
  }
  if (options.num_processes && options.process_id && *options.process_id >= *options.num_processes) {
    throw InvalidArgument(fmt::format("{}: process_id is {}, and num_processes {}; allowed: 0 to {}", kSelf,
                                      *options.process_id, *options.num_processes, *options.num_processes - 1));
  }
  if (options.local_device_ids) {
    std::vector<int> ids = *options.local_device_ids;
    std::sort(ids.begin(), ids.end());
    if (ids.empty() || ids.front() < 0 || std::adjacent_find(ids.begin(), ids.end()) != ids.end()) {
      throw InvalidArgument(fmt::format("{}: local_device_ids must name one device or more, each once", kSelf));
    }
  }
}

// A part of what a job of several processes needs is there; tells of the rest.
void check_complete(const InitializeOptions& options, bool has_address, const std::vector<std::string>& notes) {
  std::string missing;
  const auto need = [&](bool given, const char* what) {
    if (!given) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", what);
  };
  need(options.num_processes.has_value(), "num_processes (SHOAL_NUM_PROCESSES)");
  need(has_address, "coordinator_address (SHOAL_COORDINATOR_ADDRESS)");
  need(options.process_id.has_value(), "process_id (SHOAL_PROCESS_ID)");
  if (missing.empty()) return;
  std::string text = fmt::format(
      "{}: this is one process of several, but not known is {}: give it, or start the program "
      "with `shoal run`",
      kSelf, missing);
  for (const std::string& note : notes) text += "; " + note;
  throw InvalidArgument(text);
}

// Processes of the job that run on one machine do not use more of it than there is.
void divide_machine(const Session& session) {
  std::vector<Resources> all;
  std::size_t own = 0;
  for (const int process : session.processes()) {
    if (process == session.process_index()) own = all.size();
    all.push_back(session.members()[static_cast<std::size_t>(process)].resources);
  }
  keep_to_share(share_of(all, own));
}

// ---- The end of the process.

// A process that ends without shutdown() leaves as shutdown() would. If it fails, it tells why and does not wait.
void leave_at_exit(int status, void* /*unused*/) {
  if (is_forked_child()) return;
  const auto session = Session::current();
  if (!session) return;
  try {
    if (status != 0) {
      session->report({.kind = FaultKind::kUserError,
                       .process = session->process_index(),
                       .text = fmt::format("{} exited with code {}", process_name(session->me()), status)});
    }
    shutdown();
  } catch (const std::exception& error) {
    if (status != 0) return;  // Its own error is what matters.
    log_warning(fmt::format("the process ends without distributed::shutdown(), which would throw: {}", error.what()));
  }
}

std::terminate_handler terminate_before = nullptr;

// An exception that nobody catches ends the process; the others hear what it was, and not only that it ended.
void report_escaping_exception() {
  const auto session = Session::current();
  if (const std::exception_ptr error = std::current_exception(); error && session && !is_forked_child()) {
    const int process = session->process_index();
    const std::string name = process_name(session->me());
    const auto report = [&](std::string_view what) {
      session->report({.kind = FaultKind::kUserError,
                       .process = process,
                       .text = fmt::format("{} ends by an exception that it does not catch: {}", name, what)});
    };
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& one) {
      report(one.what());
    } catch (...) {
      report("one that is no std::exception");
    }
  }
  if (terminate_before != nullptr) terminate_before();
}

void watch_end() {
  if (static std::atomic<bool> done = false; !done.exchange(true)) {
    ::on_exit(leave_at_exit, nullptr);
    terminate_before = std::set_terminate(report_escaping_exception);
  }
}

}  // namespace

std::pair<SessionOptions, Socket> session_options(InitializeOptions options) {
  fill_from_environment(options);
  const auto [cluster, notes] = fill_from_launcher(options);
  SessionOptions session;
  session.local_device_ids = options.local_device_ids;
  if (!cluster && !options.coordinator_address && !options.num_processes && !options.process_id) {  // Alone.
    for (const std::string& note : notes) log_warning(note);
    check_time(options.initialization_timeout, "initialization_timeout");
    return {std::move(session), Socket()};
  }
  check(options);
  if (options.num_processes == 1) {
    session.process = options.process_id.value_or(0);
    return {std::move(session), Socket()};
  }
  Rendezvous rendezvous = find_rendezvous(cluster, options);
  check_complete(options, rendezvous.coordinator.has_value(), notes);
  session.num_processes = *options.num_processes;
  session.process = *options.process_id;
  if (cluster) session.job = cluster->method + " " + cluster->job;
  if (options.initialization_timeout) session.initialization_timeout = *options.initialization_timeout;
  if (options.heartbeat_timeout) session.heartbeat_timeout = *options.heartbeat_timeout;
  if (options.shutdown_timeout) session.shutdown_timeout = *options.shutdown_timeout;
  session.coordinator = *rendezvous.coordinator;
  session.secret = std::move(rendezvous.secret);
  if (session.coordinator.port == 0) {
    throw InvalidArgument(
        fmt::format("{}: coordinator_address is \"{}\"; its port must be one that all processes know, and not 0", kSelf,
                    to_string(session.coordinator)));
  }
  if (options.coordinator_bind_address) {
    session.bind = parse_address(*options.coordinator_bind_address, "coordinator_bind_address");
  }
  if (!session.secret && !options.insecure.value_or(false)) {
    throw InvalidArgument(fmt::format(
        "{}: the coordinator at {} can be reached from other hosts, so the job needs a secret, and there is "
        "none; make one by: {}; or set SHOAL_SECRET or SHOAL_SECRET_FILE. SHOAL_INSECURE=1 does without: whoever "
        "reaches the coordinator can join then",
        kSelf, to_string(session.coordinator), kHowToMakeSecret));
  }
  return {std::move(session), std::move(rendezvous.listener)};
}

std::shared_ptr<Session> Session::current() noexcept {
  Global& global = distributed::global();
  if (is_forked_child()) return global.session;  // Another thread may have held the lock.
  const std::lock_guard lock(global.mutex);
  return global.session;
}

void start_session(const InitializeOptions& options, const MakeCard& card, const SourceLocation& where) {
  Global& global = distributed::global();
  const auto refuse = [&](const char* why) { throw InvalidState(fmt::format("{}: {}", kSelf, why), where); };
  if (is_forked_child()) refuse("this process was made by fork() of one that is part of a job; call exec first");
  {
    const std::lock_guard lock(global.mutex);
    if (global.was_started) refuse("it was called before; a process joins one job, once");
    if (devices_in_use()) {
      refuse("devices are in use already; call it before anything that makes arrays or asks for devices");
    }
    global.was_started = true;
  }
  try {
    auto [session, listener] = session_options(options);
    if (session.num_processes > 1) session.card = card(session.local_device_ids);
    auto joined = std::make_shared<Session>(std::move(session), std::move(listener));
    watch_end();
    divide_machine(*joined);
    const std::lock_guard lock(global.mutex);
    global.session = std::move(joined);
  } catch (...) {
    const std::lock_guard lock(global.mutex);
    global.was_started = false;  // With other options it may go well.
    throw;
  }
}

std::shared_ptr<Session> next_session(SessionOptions options, Socket listener) {
  Global& global = distributed::global();
  auto joined = std::make_shared<Session>(std::move(options), std::move(listener));
  watch_end();
  divide_machine(*joined);
  const std::lock_guard lock(global.mutex);
  global.was_started = true;
  return global.session = std::move(joined);
}

std::shared_ptr<Session> take_session() noexcept {
  Global& global = distributed::global();
  const std::lock_guard lock(global.mutex);
  return std::exchange(global.session, nullptr);
}

void leave_session(std::vector<Launches> launches, const SourceLocation& where) {
  if (is_forked_child()) throw InvalidState("distributed::shutdown: this process was made by fork()", where);
  Global& global = distributed::global();
  std::shared_ptr<Session> session;
  {
    const std::lock_guard lock(global.mutex);
    if (!global.session) {
      throw InvalidState(global.was_started ? "distributed::shutdown: it was called before"
                                            : "distributed::shutdown: distributed::initialize was not called",
                         where);
    }
    session = std::exchange(global.session, nullptr);
  }
  session->shutdown(std::move(launches));
}

void abandon_session(const std::string& why) noexcept {
  try {
    Global& global = distributed::global();
    std::shared_ptr<Session> session;
    {
      const std::lock_guard lock(global.mutex);
      session = std::exchange(global.session, nullptr);
      global.was_started = false;
    }
    if (session) session->report({.kind = FaultKind::kUserError, .process = session->process_index(), .text = why});
  } catch (const std::exception& error) {
    log_warning(fmt::format("{}: the other processes could not be told of an error: {}", kSelf, error.what()));
  }
}

bool is_initialized() noexcept { return !is_forked_child() && Session::current() != nullptr; }

Client& client() {
  if (is_forked_child()) throw InvalidState("distributed::client: this process was made by fork(); call exec first");
  const auto session = Session::current();
  if (!session) throw InvalidState("distributed::client: call distributed::initialize first, and not after shutdown");
  return session->client();
}

}  // namespace shoal::distributed
