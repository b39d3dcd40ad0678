#include "comm/transport/mpi_world.h"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>

#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

#include "base/plugin.h"
#include "shoal/error.h"

namespace shoal {
namespace {

// Null if there is none, and `why` says why.
const MpiApi* library(std::string* why) {
  static std::string failure;
  static const auto* const api = static_cast<const MpiApi*>(load_plugin("mpi", MpiApi::kVersion, &failure));
  *why = failure;
  return api;
}

}  // namespace

// A thread that calls what may wait for ever. If that happens, it is left behind with what it uses.
class MpiWorld::Worker {
 public:
  static std::shared_ptr<Worker> start() {
    auto worker = std::make_shared<Worker>();
    std::thread([worker] {
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, nullptr);
      while (worker->work()) {
      }
    }).detach();
    return worker;
  }

  std::future<std::string> add(std::function<std::string()> f) {
    const std::lock_guard lock(mutex_);
    std::future<std::string> result = tasks_.emplace_back(std::move(f)).get_future();
    changed_.notify_one();
    return result;
  }
  void stop() {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_one();
  }

 private:
  bool work() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    if (tasks_.empty()) return false;
    std::packaged_task<std::string()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    return true;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::packaged_task<std::string()>> tasks_;
  bool stopping_ = false;
};

std::string MpiWorld::obstacle() {
  std::string why;
  if (library(&why) == nullptr) {
    return why + "; install Open MPI (Debian: apt-get install libopenmpi-dev openmpi-bin) and build Shoal with it";
  }
  if (library(&why)->is_running()) return "";
  // Without a launcher MPI would start with a world of this process alone.
  for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK"}) {
    if (std::getenv(variable) != nullptr) return "";
  }
  return "no launcher of Open MPI started this process; start the program with mpirun";
}

MpiWorld::MpiWorld(Clock::time_point deadline)
    : api_([]() -> const MpiApi& {
        std::string why = obstacle();
        if (!why.empty()) throw InvalidState("MPI: " + why);
        return *library(&why);
      }()),
      worker_(Worker::start()) {
  const auto rank = std::make_shared<int>(-1);
  const std::string failure = call("start", deadline, [rank, &api = api_]() -> std::string {
    const char* why = api.start(rank.get());
    return why == nullptr ? "" : why;
  });
  if (!failure.empty()) throw InvalidState("MPI: " + failure);
  rank_ = *rank;
}

MpiWorld::~MpiWorld() { worker_->stop(); }

void MpiWorld::connect(const std::vector<int>& ranks, Clock::time_point deadline) {
  const std::string failure = call("connect the processes", deadline, [ranks, &api = api_]() -> std::string {
    const char* why = api.connect(ranks.data(), static_cast<int>(ranks.size()));
    return why == nullptr ? "" : why;
  });
  if (!failure.empty()) throw DistributedError("MPI: " + failure);
}

void MpiWorld::finish(Clock::time_point deadline) {
  if (is_over()) return;
  call("finish", deadline, [&api = api_]() -> std::string {
    api.finish();
    return "";
  });
}

// Of one thread, as MPI wants it of what starts and what ends it.
std::string MpiWorld::call(std::string_view what, Clock::time_point deadline, std::function<std::string()> f) {
  std::future<std::string> result = worker_->add(std::move(f));
  if (result.wait_until(deadline) != std::future_status::ready) {
    abandon();
    throw DeadlineExceeded(
        fmt::format("MPI: it took too long to {}: all processes that mpirun started must come so far", what));
  }
  return result.get();
}

}  // namespace shoal
