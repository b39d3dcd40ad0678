#include "comm/record/diagnosis.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "comm/record/communicator.h"

namespace shoal {
namespace {

using State = FlightRecord::State;

constexpr std::size_t kMostPlaces = 16;  // That a text names.

std::string seconds_text(std::int64_t milliseconds) {
  return fmt::format("{:.1f} s", static_cast<double>(std::max<std::int64_t>(milliseconds, 0)) / 1000);
}

std::string processes_text(const std::vector<int>& processes) {
  return fmt::format("process{} {}", processes.size() == 1 ? "" : "es", fmt::join(processes, ", "));
}

// What a process does now, or did last.
std::string where_is(const FlightLog* log, std::uint64_t communicator) {
  if (log == nullptr || (!log->answers && log->last_done.empty())) return "does not answer, and told nothing before";
  if (!log->answers) return fmt::format("does not answer; what it told last is {}", log->last_done);
  const FlightRecord* running = nullptr;
  const FlightRecord* over = nullptr;
  const FlightRecord* queued = nullptr;
  for (const FlightRecord& record : log->records) {
    if (record.state == State::kRunning || record.state == State::kFailed) running = &record;
    if (record.communicator != communicator) continue;
    if (record.state == State::kDone) over = &record;
    if (record.state == State::kQueued && queued == nullptr) queued = &record;
  }
  // What came after a failure does not matter.
  const std::string next = queued == nullptr ? "" : fmt::format("; queued is {}", text_of(*queued));
  if (running != nullptr && (over == nullptr || running->number > over->number)) {
    std::string text =
        fmt::format("{} {}", running->state == State::kFailed ? "failed in" : "is in", text_of(*running));
    if (running->communicator != communicator) text += ", with other processes,";
    if (running->step != 0) {
      const std::string_view at = running->op_at.data();
      text += fmt::format(", step {}, {}{}{}", running->step, running->op.data(), at.empty() ? "" : " at ", at);
      if (running->trip != 0) text += fmt::format(", in trip {} of a loop", running->trip);
    }
    if (running->awaited >= 0) text += fmt::format(", and waits for process {}", running->awaited);
    const std::string time = seconds_text(log->time - running->since);
    return text + (running->state == State::kFailed ? fmt::format(" {} ago", time) : fmt::format(" for {}", time)) +
           next;
  }
  if (over == nullptr) return "has launched nothing on these processes" + next;
  return fmt::format("has done {}, {} ago{}", text_of(*over), seconds_text(log->time - over->since),
                     next.empty() ? ", and called nothing since" : next);
}

// The first launch that is another one in some process, as far as the records reach back.
std::string first_difference(const std::vector<int>& processes, const std::vector<const FlightLog*>& logs,
                             std::uint64_t communicator) {
  std::vector<std::map<std::uint64_t, const FlightRecord*>> launches(logs.size());  // By sequence.
  std::uint64_t first = 0;                                                          // That all still know.
  std::set<std::uint64_t> known;                                                    // To any.
  for (std::size_t i = 0; i < logs.size(); ++i) {
    if (logs[i] == nullptr || !logs[i]->answers) continue;
    for (const FlightRecord& record : logs[i]->records) {
      if (record.communicator != communicator || record.sequence == 0) continue;
      launches[i][record.sequence] = &record;
      known.insert(record.sequence);
    }
    if (!launches[i].empty()) first = std::max(first, launches[i].begin()->first);
  }
  for (auto at = known.lower_bound(first); at != known.end(); ++at) {
    const std::uint64_t sequence = *at;
    std::vector<std::pair<const FlightRecord*, std::vector<int>>> kinds;
    std::vector<int> absent;
    for (std::size_t i = 0; i < logs.size(); ++i) {
      if (logs[i] == nullptr || !logs[i]->answers) continue;
      const auto found = launches[i].find(sequence);
      if (found == launches[i].end()) {
        absent.push_back(processes[i]);
        continue;
      }
      const FlightRecord* record = found->second;
      auto kind = std::ranges::find_if(kinds, [&](const auto& other) {
        return other.first->program == record->program && other.first->lineage == record->lineage;
      });
      if (kind == kinds.end()) kind = kinds.insert(kinds.end(), {record, {}});
      kind->second.push_back(processes[i]);
    }
    if (kinds.size() < 2 && absent.empty()) continue;
    const bool same_program =
        std::ranges::all_of(kinds, [&](const auto& kind) { return kind.first->program == kinds[0].first->program; });
    std::vector<std::string> texts;
    for (const auto& [record, where] : kinds) {
      const std::string_view line = record->where.data();
      texts.push_back(
          fmt::format("'{}'{}{} in {}", record->name.data(), line.empty() ? "" : " at ", line, processes_text(where)));
    }
    if (kinds.size() < 2) {
      return fmt::format("launch {} is {}, and {} {} not come to it", sequence, fmt::join(texts, ""),
                         processes_text(absent), absent.size() == 1 ? "has" : "have");
    }
    return fmt::format("launch {} is {}{}", sequence, fmt::join(texts, ", and "),
                       same_program ? ": the same program on other arrays" : "");
  }
  return "";
}

}  // namespace

Diagnosis diagnose(const std::vector<int>& processes, const std::vector<FlightLog>& logs) {
  const std::uint64_t communicator = Communicator::id_of(processes);
  Diagnosis diagnosis{.processes = processes, .places = {}, .difference = {}};
  std::vector<const FlightLog*> of_processes;
  for (int process : processes) {
    const auto found = std::ranges::find(logs, process, &FlightLog::process);
    const FlightLog* log = of_processes.emplace_back(found == logs.end() ? nullptr : &*found);
    std::string name = fmt::format("process {}", process);
    if (log != nullptr) name += fmt::format(" on {} (pid {})", log->host, log->pid);
    diagnosis.places.push_back({process, std::move(name), where_is(log, communicator)});
  }
  diagnosis.difference = first_difference(processes, of_processes, communicator);
  return diagnosis;
}

std::string to_string(const Diagnosis& diagnosis) {
  std::string text;
  for (std::size_t i = 0; i < std::min(diagnosis.places.size(), kMostPlaces); ++i) {
    text += fmt::format("\n  {} {}", diagnosis.places[i].name, diagnosis.places[i].where);
  }
  if (diagnosis.places.size() > kMostPlaces) {
    text += fmt::format("\n  and {} more processes", diagnosis.places.size() - kMostPlaces);
  }
  if (!diagnosis.difference.empty()) text += "\n  first difference: " + diagnosis.difference;
  return text;
}

}  // namespace shoal
