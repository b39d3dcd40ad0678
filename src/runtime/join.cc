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
#include "comm/communicator.h"
#include "comm/connector.h"
#include "comm/peers.h"
#include "comm/shared_heap.h"
#include "distributed/session.h"
#include "runtime/client.h"
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
  explicit JobPeers(std::shared_ptr<Session> session)
      : session_(std::move(session)), connector_(session_->process_index(), job_key(*session_)) {
    std::map<std::string, int> hosts;
    for (const Member& member : session_->members()) {
      hosts_.push_back(hosts.try_emplace(member.host_identity, static_cast<int>(hosts.size())).first->second);
    }
    SharedHeap::shared();  // What is made from now on lies where peers can see it.
    distributed::Client& client = session_->client();
    const bool tries_mpi = JobMpi::announce(*session_);
    client.key_value_set(card_key(session_->process_index()), connector_.card());
    client.wait_at_barrier(kCards, kConnecting);
    cards_.resize(session_->members().size());
    for (std::size_t i = 0; i < cards_.size(); ++i) {
      cards_[i] = client.blocking_key_value_get(card_key(static_cast<int>(i)), kConnecting);
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
  void check() const override { session_->throw_if_failed(); }

  void report(const std::exception_ptr& error) noexcept override {
    try {
      FaultKind kind = FaultKind::kUserError;
      std::string text;
      try {
        std::rethrow_exception(error);
      } catch (const Disagreement& one) {
        kind = FaultKind::kDisagreement;
        text = one.what();
      } catch (const DeadlineExceeded& one) {
        kind = FaultKind::kTimeout;
        text = one.what();
      } catch (const DistributedError& one) {
        kind = FaultKind::kSecondary;
        text = one.what();
      } catch (const std::exception& one) {
        text = one.what();
      } catch (...) {
        text = "an exception that is no std::exception";
      }
      session_->report({.kind = kind, .process = session_->process_index(), .text = std::move(text)});
    } catch (const std::exception& failure) {
      log_warning(fmt::format("the other processes could not be told of an error: {}", failure.what()));
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
}

}  // namespace

void initialize(const InitializeOptions& options, SourceLocation where) {
  Lane::shared();  // Its end at exit comes after that of the session, which tells the others why it ends.
  const auto card = [](const std::optional<std::vector<int>>& local_device_ids) {
    std::vector<int> own = local_device_ids.value_or(std::vector<int>());
    const int count = num_own_devices();
    for (int id = 0; !local_device_ids && id < count; ++id) own.push_back(id);
    return card_of(own);
  };
  start_session(options, card, where);
  const std::shared_ptr<Session> session = Session::current();
  if (session == nullptr || session->num_processes() == 1) return;
  std::vector<std::vector<int>> devices;
  for (const Member& member : session->members()) devices.push_back(ids_of(member));
  auto peers = std::make_unique<JobPeers>(session);
  set_job_devices(session->process_index(), devices, where);
  set_peers(std::move(peers));
}

void shutdown(SourceLocation where) {
  if (is_initialized()) Lane::shared().drain();
  try {
    leave_session(where);
  } catch (...) {
    close_communicators();
    throw;
  }
  close_communicators();
  if (Peers* const all = peers()) all->leave();
}

}  // namespace distributed
}  // namespace shoal
