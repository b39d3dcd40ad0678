#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <map>
#include <mutex>
#include <ranges>
#include <set>
#include <string>
#include <vector>

#include "base/misuse.h"
#include "distributed/session.h"
#include "shoal/distributed.h"
#include "shoal/multihost.h"

namespace shoal::multihost {
namespace {

// How often these processes have called live_devices: they do it in one order.
std::uint64_t next_number(const std::vector<int>& processes) {
  static std::mutex mutex;
  static std::map<std::vector<int>, distributed::SessionCounter> numbers;
  const std::lock_guard lock(mutex);
  return numbers[processes].next();
}

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& one) {
    return one.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

}  // namespace

void live_devices(const std::vector<Device>& devices, const std::function<void(const std::vector<Device>& live)>& body,
                  const LiveDevicesOptions& options, SourceLocation where) {
  const Caller caller("live_devices", where);
  std::set<int> hosts;
  for (const Device& device : devices) hosts.insert(device.process_index);
  const std::vector<int> processes(hosts.begin(), hosts.end());
  if (!hosts.contains(process_index())) {
    throw misuse<InvalidArgument>(
        "none of the {} devices given is of this process, {}; only processes that have some of them call it",
        devices.size(), process_index());
  }
  if (processes.size() == 1) {
    std::vector<Device> own = devices;
    std::ranges::sort(own);
    return body(own);
  }
  distributed::Client& client = distributed::client();
  const auto key_of = [&, base = fmt::format("shoal/live_devices/{}", fmt::join(processes, "_"))](
                          std::uint64_t number, int process) { return fmt::format("{}/{}/{}", base, number, process); };
  const std::uint64_t number = next_number(processes);
  const std::map<int, std::uint64_t> before = client.get_live_nodes(processes, options.timeout);
  std::vector<Device> live;
  std::ranges::copy_if(devices, std::back_inserter(live),
                       [&](const Device& device) { return before.contains(device.process_index); });
  std::ranges::sort(live);
  std::exception_ptr error;
  try {
    const Caller::Pause pause;
    body(live);
  } catch (...) {
    error = std::current_exception();
  }
  if (number > 1) client.key_value_delete(key_of(number - 1, process_index()));  // All have read it.
  client.key_value_set(key_of(number, process_index()), error ? text_of(error) : "");
  const std::map<int, std::uint64_t> after = client.get_live_nodes(processes, options.timeout);
  std::vector<Device> failed;
  std::ranges::copy_if(live, std::back_inserter(failed), [&](const Device& device) {
    const auto found = after.find(device.process_index);
    return found == after.end() || found->second != before.at(device.process_index);
  });
  if (!failed.empty()) {
    const auto failure = misuse<ProcessFailed>(
        "devices failed: {}",
        fmt::join(failed | std::views::transform([](const Device& one) { return to_string(one); }), ", "));
    if (!error) throw failure;
    try {
      std::rethrow_exception(error);
    } catch (...) {
      std::throw_with_nested(failure);
    }
  }
  if (error) std::rethrow_exception(error);
  for (const auto& [process, incarnation] : after) {
    const std::string text = client.key_value_try_get(key_of(number, process)).value_or("");
    if (text.empty()) continue;
    throw misuse<DistributedError>("process {} threw: {}", process, text);
  }
}

}  // namespace shoal::multihost
