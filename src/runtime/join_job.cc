// How a process joins a job: what the coordination service tells makes the devices and the channels.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/log.h"
#include "comm/record/communicator.h"
#include "comm/record/flight_recorder.h"
#include "comm/record/peers.h"
#include "comm/transport/connector.h"
#include "comm/transport/shared_heap.h"
#include "core/job_devices.h"
#include "distributed/session.h"
#include "runtime/generations.h"
#include "runtime/job_mpi.h"
#include "runtime/lane.h"
#include "shoal/distributed.h"

namespace shoal {
namespace {

using distributed::Fault;
using distributed::FaultKind;
using distributed::Member;
using distributed::Session;

// What a process tells of itself when it joins: the numbers of its devices.
std::string card_of(const std::vector<int>& ids) { return fmt::format("{}", fmt::join(ids, ",")); }

std::vector<int> ids_of(const Member& member) {
  std::vector<int> ids;
  const char* at = member.card.data();
  const char* const end = at + member.card.size();
  while (at < end) {
    const auto [next, error] = std::from_chars(at, end, ids.emplace_back());
    if (error != std::errc()) {
      throw DistributedError(
          fmt::format("distributed::initialize: {} tells of devices \"{}\", which is no list of "
                      "numbers: it runs another version",
                      process_name(member), member.card));
    }
    at = next + 1;
  }
  return ids;
}

// The other processes of a job, by its coordination service and channels to each.
class JobPeers final : public Peers {
 public:
  // MPI connects the processes that mpirun has started, and no others.
  JobPeers(std::shared_ptr<Session> session, bool may_use_mpi)
      : session_(std::move(session)),
        connector_(session_->process_index(), job_key(*session_),
                   {.reach = session_->is_on_one_host() ? Reach::kHost : Reach::kAllHosts}) {
    std::map<std::string, int> hosts;
    for (const Member& member : session_->members()) {
      hosts_.push_back(hosts.try_emplace(member.host_identity, static_cast<int>(hosts.size())).first->second);
    }
    SharedHeap::shared();  // What is made from now on lies where peers can see it.
    distributed::Client& client = session_->client();
    const bool tries_mpi = may_use_mpi && JobMpi::announce(*session_);
    client.key_value_set(card_key(session_->process_index()), connector_.card());
    client.wait_at_barrier(kCards, kConnecting);
    cards_.resize(session_->members().size());
    for (const int process : session_->processes()) {
      cards_[static_cast<std::size_t>(process)] = client.blocking_key_value_get(card_key(process), kConnecting);
    }
    if (tries_mpi) mpi_ = JobMpi::join(*session_);
    channels_.resize(session_->members().size(), nullptr);
  }

  // Only the lane asks, one thread at a time.
  Channel& channel(int process) override {
    Channel*& channel = channels_[static_cast<std::size_t>(process)];
    if (channel == nullptr && mpi_ != nullptr && mpi_->carries(process)) channel = &mpi_->channel(process);
    if (channel == nullptr) {
      const std::string& card = cards_[static_cast<std::size_t>(process)];
      // By that address the coordinator was reached from there, or is from here.
      const std::string& likely = session_->members()[static_cast<std::size_t>(process)].address;
      channel = &connector_.channel(process, card, Clock::now() + kConnecting, likely);
    }
    return *channel;
  }
  int host_of(int process) const override { return hosts_[static_cast<std::size_t>(process)]; }
  std::string name_of(int process) const override {
    const Member& member = session_->members()[static_cast<std::size_t>(process)];
    return fmt::format("{} (pid {})", process_name(member), member.pid);
  }
  bool is_leaving(int process) const override { return session_->is_leaving(process); }
  std::string whereabouts_of(int process, const std::vector<int>& processes) override {
    return session_->whereabouts_of(process, processes);
  }
  std::exception_ptr failure_of(const std::vector<int>& processes) const override {
    const Fault* const fault = session_->failure_of(processes);
    return fault == nullptr ? nullptr : noted(error_of(*fault));
  }

  std::exception_ptr settle(const std::vector<int>& processes, const std::exception_ptr& error,
                            bool is_cause) noexcept override {
    try {
      Fault fault = fault_of(error);
      fault.process = session_->process_index();
      fault.processes = processes;
      const bool is_own = fault.kind == FaultKind::kUserError;
      if (is_own) fault.text = fmt::format("{} failed: {}", name_of(fault.process), fault.text);
      if (!is_cause && !is_own) fault.kind = FaultKind::kSecondary;
      if (fault.kind == FaultKind::kSecondary) {
        const auto leaver = std::ranges::find_if(processes, [&](int process) { return session_->is_leaving(process); });
        if (leaver != processes.end()) {  // It is to hear of this in its shutdown.
          fault.kind = FaultKind::kShutdown;
          fault.process = *leaver;
          fault.processes.clear();
          fault.text = fmt::format("{} waits for {}, which has entered distributed::shutdown: {}",
                                   name_of(session_->process_index()), name_of(*leaver), fault.text);
        } else if (const Fault* const cause = session_->await_failure_of(processes, kCause)) {
          return noted(error_of(*cause));
        }
      }
      session_->report(fault);
      if (is_own) return noted(error);
      const Fault* const told = session_->await_failure_of(processes, kAgreement);
      return noted(told == nullptr ? error : error_of(*told));
    } catch (const std::exception& failure) {
      log_warning(fmt::format("the other processes could not be told of an error: {}", failure.what()));
      return error;
    }
  }

  void leave() noexcept override {
    // After a fault MPI would wait for processes that do not come.
    if (mpi_ == nullptr || session_->fault() != nullptr) return;
    std::ranges::fill(channels_, nullptr);
    try {
      mpi_->leave();
    } catch (const std::exception& error) {
      log_warning(fmt::format("distributed::shutdown: {}", error.what()));
    }
  }

 private:
  static constexpr std::chrono::seconds kConnecting{60};
  // How long a failed launch waits to be told of a death that may have made it fail,
  static constexpr std::chrono::milliseconds kCause{2000};
  // and of what all processes throw.
  static constexpr std::chrono::milliseconds kAgreement{3000};

  static Fault fault_of(const std::exception_ptr& error) {
    try {
      std::rethrow_exception(error);
    } catch (const Disagreement& one) {
      return {.kind = FaultKind::kDisagreement, .text = one.what()};
    } catch (const DeadlineExceeded& one) {
      return {.kind = FaultKind::kTimeout, .text = one.what()};
    } catch (const DistributedError& one) {
      return {.kind = FaultKind::kSecondary, .text = one.what()};
    } catch (const std::exception& one) {
      return {.kind = FaultKind::kUserError, .text = one.what()};
    } catch (...) {
      return {.kind = FaultKind::kUserError, .text = "an exception that is no std::exception"};
    }
  }

  // Keeps in the flight recorder why the work ended.
  static std::exception_ptr noted(const std::exception_ptr& error) {
    if (FlightRecorder* const recorder = FlightRecorder::current()) recorder->note_end(fault_of(error).text);
    return error;
  }

  static JobKey job_key(const Session& session) {
    const auto key = session.key("channels");
    return JobKey({reinterpret_cast<const char*>(key.data()), key.size()});
  }
  static constexpr const char* kCards = "shoal/channels";
  static std::string card_key(int process) { return fmt::format("{}/{:08}", kCards, process); }

  std::shared_ptr<Session> session_;
  Connector connector_;
  std::unique_ptr<JobMpi> mpi_;
  std::vector<int> hosts_;
  std::vector<std::string> cards_;
  std::vector<Channel*> channels_;
};

}  // namespace

namespace distributed {
namespace {

void close_communicators() {
  Communicator::close_all(std::make_exception_ptr(
      InvalidState("distributed::shutdown was called: programs over several processes cannot run any more")));
  if (FlightRecorder* const recorder = FlightRecorder::current()) recorder->note_end("distributed::shutdown");
}

// What the others may ask of this process.
void tell_of_records(Session& session) {
  constexpr std::size_t kMost = 64;
  if (FlightRecorder::current() == nullptr) FlightRecorder::start(session.process_index(), session.me().host);
  session.set_records(
      [] {
        FlightRecorder::current()->note_alive();
        return FlightRecorder::current()->last_done();
      },
      [](const std::vector<int>& processes) {
        const FlightRecorder& recorder = *FlightRecorder::current();
        return to_bytes(recorder.log(kMost, Communicator::id_of(processes)));
      });
}

// The numbers of the devices of each process.
std::vector<std::vector<int>> devices_of(const Session& session) {
  std::vector<std::vector<int>> devices;
  for (const Member& member : session.members()) devices.push_back(ids_of(member));
  return devices;
}

// Makes devices and channels of what the coordination service tells.
void join(const std::shared_ptr<Session>& session, const SourceLocation& where) {
  const std::vector<std::vector<int>> devices = devices_of(*session);
  tell_of_records(*session);
  auto peers = std::make_unique<JobPeers>(session, true);
  set_job_devices(session->process_index(), devices, where);
  set_peers(std::move(peers));
}

// What a process tells when it joins, which has all of its devices unless some are named.
std::string own_card(const std::optional<std::vector<int>>& local_device_ids) {
  std::vector<int> own = local_device_ids.value_or(std::vector<int>());
  const int count = num_own_devices();
  for (int id = 0; !local_device_ids && id < count; ++id) own.push_back(id);
  return card_of(own);
}

std::vector<Launches> own_launches() {
  std::vector<Launches> all;
  for (LaunchHistory& history : Communicator::histories()) {
    all.push_back({std::move(history.processes), history.launches, history.digest});
  }
  return all;
}

}  // namespace

void initialize(const InitializeOptions& options, SourceLocation where) {
  Lane::shared();  // Its end at exit comes after that of the session, which tells the others why it ends.
  start_session(options, own_card, where);
  const std::shared_ptr<Session> session = Session::current();
  if (session == nullptr || session->num_processes() == 1) return;
  try {
    join(session, where);
  } catch (const std::exception& error) {
    abandon_session(fmt::format("process {} could not join: {}", session->process_index(), error.what()));
    throw;
  }
}

void shutdown(SourceLocation where) {
  if (is_initialized()) Lane::shared().drain();
  try {
    leave_session(own_launches(), where);
    Communicator::throw_untold();
  } catch (...) {
    close_communicators();
    throw;
  }
  close_communicators();
  if (Peers* const all = peers()) all->leave();
}

}  // namespace distributed

void end_generation(bool together) {
  // What waits for other processes ends with the work of those, or with their connection to the service.
  constexpr std::chrono::seconds kPatience{5};
  Lane& lane = Lane::shared();
  if (together) lane.drain();
  const bool is_drained = lane.drain_for(kPatience);
  Communicator::close_all(
      std::make_exception_ptr(InvalidState("the job goes on with other processes: make this array, or program, anew")));
  const std::shared_ptr<Session> session = distributed::take_session();
  std::exception_ptr error;
  try {
    if (session != nullptr && together) session->shutdown();
  } catch (...) {
    error = std::current_exception();
  }
  if (session != nullptr) session->abandon();
  if (!is_drained) lane.drain();
  set_peers(nullptr);
  if (error) std::rethrow_exception(error);
}

void begin_generation(distributed::SessionOptions options, Socket listener, std::uint64_t generation) {
  Lane::shared();
  const bool is_first = !distributed::is_initialized() && !devices_in_use();
  options.card = distributed::own_card(options.local_device_ids);
  const std::shared_ptr<Session> session = distributed::next_session(std::move(options), std::move(listener));
  try {
    distributed::tell_of_records(*session);
    Communicator::begin_generation(generation, session->processes());
    if (session->num_processes() > 1) set_peers(std::make_unique<JobPeers>(session, false));
  } catch (const std::exception& error) {
    distributed::abandon_session(fmt::format("process {} could not join: {}", session->process_index(), error.what()));
    throw;
  }
  if (is_first) {
    set_job_devices(session->process_index(), distributed::devices_of(*session), {});
  } else {
    change_job_devices(session->process_index(), distributed::devices_of(*session));
  }
}

}  // namespace shoal
