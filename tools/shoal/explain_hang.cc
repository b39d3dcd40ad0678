#include "explain_hang.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <vector>

#include "comm/record/diagnosis.h"
#include "output.h"

namespace shoal::tool {
namespace {

using Json = nlohmann::ordered_json;

std::vector<FlightLog> read_logs(const std::string& folder) {
  std::vector<FlightLog> logs;
  std::error_code unreadable;
  for (const auto& entry : std::filesystem::directory_iterator(folder, unreadable)) {
    if (entry.path().extension() == ".flight") logs.push_back(log_from_file(entry.path().string()));
  }
  if (logs.empty()) {
    throw std::runtime_error(fmt::format(
        "{} has no files of flight recorders (*.flight); run the job with SHOAL_FLIGHT_RECORDER={}", folder, folder));
  }
  std::ranges::sort(logs, {}, &FlightLog::process);
  return logs;
}

// The sets of processes that launched programs together, the largest first.
std::vector<std::vector<int>> sets_of(const std::vector<FlightLog>& logs) {
  std::map<std::uint64_t, std::vector<int>> sets;
  for (const FlightLog& log : logs) sets.insert(log.communicators.begin(), log.communicators.end());
  std::vector<std::vector<int>> list;
  for (const auto& [id, processes] : sets) list.push_back(processes);
  std::ranges::sort(list,
                    [](const auto& a, const auto& b) { return a.size() != b.size() ? a.size() > b.size() : a < b; });
  return list;
}

std::string time_text(std::int64_t milliseconds) {
  return fmt::format("{:%F %T}.{:03}", fmt::localtime(static_cast<std::time_t>(milliseconds / 1000)),
                     milliseconds % 1000);
}

}  // namespace

int explain_hang(const std::string& folder, bool as_json) {
  const std::vector<FlightLog> logs = read_logs(folder);
  Json report = {{"processes", Json::array()}, {"sets", Json::array()}};
  std::string text;
  for (const FlightLog& log : logs) {
    const std::string end = log.end.empty() ? "nothing says why it ended, or it still runs" : "it ended by: " + log.end;
    text += fmt::format("process {} on {} (pid {}), last active {}; {}\n", log.process, log.host, log.pid,
                        time_text(log.time), end);
    report["processes"].push_back({{"process", log.process},
                                   {"host", log.host},
                                   {"pid", log.pid},
                                   {"last_active_ms", log.time},
                                   {"end", log.end}});
  }
  for (const std::vector<int>& processes : sets_of(logs)) {
    const Diagnosis diagnosis = diagnose(processes, logs);
    text += fmt::format("on the processes [{}]:{}\n", fmt::join(processes, ", "), to_string(diagnosis));
    Json places = Json::array();
    for (const Diagnosis::Place& place : diagnosis.places) {
      places.push_back({{"process", place.process}, {"where", place.where}});
    }
    report["sets"].push_back(
        {{"processes", processes}, {"places", places}, {"first_difference", diagnosis.difference}});
  }
  if (as_json) text = report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  write_all(STDOUT_FILENO, text);
  return 0;
}

}  // namespace shoal::tool
