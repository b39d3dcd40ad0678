#include "distributed/launcher_space.h"

#include <fmt/format.h>

#include <exception>
#include <future>
#include <thread>
#include <utility>

#include "shoal/error.h"

namespace shoal::distributed {
namespace {

constexpr const char* kKey = "shoal.coordinator";

std::optional<std::string> share(const Cluster& cluster, const std::string& text) {
  const std::unique_ptr<LauncherSpace> space =
      cluster.method == "pmi" ? open_pmi_space(own_environment) : open_pmix_space(own_environment, cluster.process_id);
  if (!space) return std::nullopt;
  if (cluster.process_id == 0) space->put(kKey, text);
  space->meet();
  return cluster.process_id == 0 ? text : space->get(kKey);
}

}  // namespace

std::optional<std::string> share_by_launcher(const Cluster& cluster, const std::string& text,
                                             std::chrono::milliseconds timeout) {
  if (cluster.method != "pmi" && cluster.method != "ompi" && cluster.method != "slurm") return std::nullopt;
  // Launchers know no deadlines, so a thread of its own waits for them; it may never end.
  auto shared = std::make_shared<std::promise<std::optional<std::string>>>();
  std::future<std::optional<std::string>> result = shared->get_future();
  std::thread([cluster, text, shared = std::move(shared)] {
    try {
      shared->set_value(share(cluster, text));
    } catch (...) {
      shared->set_exception(std::current_exception());
    }
  }).detach();
  if (result.wait_for(timeout) == std::future_status::timeout) {
    throw DeadlineExceeded(
        fmt::format("distributed::initialize: process {} of {} waited for {} s for the others to tell their launcher "
                    "({}) that they have come; each must call initialize()",
                    cluster.process_id, cluster.num_processes.value_or(0),
                    std::chrono::duration<double>(timeout).count(), cluster.why));
  }
  return result.get();
}

}  // namespace shoal::distributed
