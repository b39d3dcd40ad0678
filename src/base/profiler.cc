// The file is made of JSON objects, one for each event, dumped by nlohmann::json as they come: names and paths are any
// text, also such as is no UTF-8.
#include "base/profiler.h"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/safe_file.h"

namespace shoal::profiler {

std::atomic<std::uint32_t> current_recording{0};
RunTallies run_tallies;
std::atomic<std::int32_t> step_timers{0};

namespace {

// So that a recording which nobody stops does not eat the memory: some 100 MB for each thread.
constexpr std::size_t kMostEventsOfThread = 500'000;

struct Event {
  Category category;
  std::string name;
  std::string program;
  Clock::time_point begin, end;
  SourceLocation where;
  std::int64_t bytes, shard, tile, step, trip, trips, branch;
};

// The events of one thread. The mutex is taken by that thread alone until the recording ends.
struct Row {
  std::mutex mutex;
  std::string thread_name;
  std::vector<Event> events;
  std::size_t dropped = 0;
};

// Never destroyed: threads may record while static objects are torn down.
struct Recorder {
  std::mutex mutex;  // Held by whoever starts or stops a recording; then a row's.
  std::uint32_t last_recording = 0;
  SourceLocation started_at;
  Clock::time_point begin;
  std::string path;
  FileStream file;

  std::mutex rows_mutex;  // Guards the list.
  std::vector<std::shared_ptr<Row>> rows;
};

Recorder& recorder() {
  static auto& recorder = *new Recorder;
  return recorder;
}

std::shared_ptr<Row> new_row() {
  auto row = std::make_shared<Row>();
  std::array<char, 64> name{};
  pthread_getname_np(pthread_self(), name.data(), name.size());
  row->thread_name = name.data();
  const std::lock_guard lock(recorder().rows_mutex);
  recorder().rows.push_back(row);
  return row;
}

Row& row_of_this_thread() {
  thread_local const std::shared_ptr<Row> row = new_row();
  return *row;
}

constexpr std::string_view name_of(Category category) {
  switch (category) {
    case Category::kCompile:
      return "compile";
    case Category::kStep:
      return "step";
    case Category::kKernel:
      return "kernel";
    case Category::kCollective:
      return "collective";
    case Category::kUser:
      return "user";
  }
  return "";
}

double microseconds(Clock::duration time) { return std::chrono::duration<double, std::micro>(time).count(); }

nlohmann::json arguments_of(const Event& event) {
  auto arguments = nlohmann::json::object();
  if (!event.program.empty()) arguments["program"] = event.program;
  if (const std::string line = to_string(event.where); !line.empty()) arguments["line"] = line;
  if (event.step >= 0) arguments["step_num"] = event.step;
  if (event.trip > 0) arguments["trip"] = event.trip;
  if (event.trips >= 0) arguments["trips"] = event.trips;
  if (event.branch >= 0) arguments["branch"] = event.branch;
  if (event.shard >= 0) arguments["shard"] = event.shard;
  if (event.tile >= 0) arguments["tile"] = event.tile;
  if (event.bytes >= 0) {
    arguments["bytes"] = event.bytes;
    const double seconds = std::chrono::duration<double>(event.end - event.begin).count();
    if (seconds > 0) arguments["GB/s"] = static_cast<double>(event.bytes) / seconds * 1e-9;
  }
  return arguments;
}

// Writes what the rows hold, and empties them.
void write(std::FILE* file, Clock::time_point start, const std::vector<std::shared_ptr<Row>>& rows) {
  bool first = true;
  const auto put = [&](const nlohmann::json& object) {
    std::fputs(first ? "\n" : ",\n", file);
    std::fputs(object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str(), file);
    first = false;
  };
  const auto process = static_cast<std::int64_t>(getpid());
  std::size_t dropped = 0;
  std::fputs(R"({"displayTimeUnit":"ns","traceEvents":[)", file);
  put({{"ph", "M"}, {"name", "process_name"}, {"pid", process}, {"args", {{"name", program_invocation_short_name}}}});
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::lock_guard lock(rows[i]->mutex);
    const std::vector<Event> events = std::exchange(rows[i]->events, {});
    dropped += std::exchange(rows[i]->dropped, 0);
    if (events.empty()) continue;
    put({{"ph", "M"},
         {"name", "thread_name"},
         {"pid", process},
         {"tid", i},
         {"args", {{"name", fmt::format("{} {}", rows[i]->thread_name, i)}}}});
    for (const Event& event : events) {
      put({{"ph", "X"},
           {"cat", name_of(event.category)},
           {"name", event.name},
           {"pid", process},
           {"tid", i},
           {"ts", microseconds(event.begin - start)},
           {"dur", microseconds(event.end - event.begin)},
           {"args", arguments_of(event)}});
    }
  }
  std::fputs("\n]}\n", file);
  if (dropped > 0) {
    log_warning(fmt::format("profiler: {} events are not in the trace, which holds {} of a thread at most", dropped,
                            kMostEventsOfThread));
  }
}

std::string reason(int error) { return std::generic_category().message(error); }

// Ends a recording if it is the one under way, or any for 0; whether it was.
bool stop(std::uint32_t recording) {
  Recorder& self = recorder();
  const std::lock_guard lock(self.mutex);
  const std::uint32_t current = current_recording.load();
  if (current == 0 || (recording != 0 && recording != current)) return false;
  current_recording = 0;  // A thread that has not seen it yet adds its event before its row is read, or not at all.
  std::vector<std::shared_ptr<Row>> rows;
  {
    const std::lock_guard rows_lock(self.rows_mutex);
    rows = self.rows;
  }
  FileStream file = std::exchange(self.file, nullptr);
  errno = 0;
  write(file.get(), self.begin, rows);
  rows.clear();
  {
    const std::lock_guard rows_lock(self.rows_mutex);
    std::erase_if(self.rows, [](const auto& row) { return row.use_count() == 1; });  // Of threads that have ended.
  }
  const bool has_failed = std::ferror(file.get()) != 0;
  if (std::fclose(file.release()) != 0 || has_failed)
    throw Error(fmt::format("profiler::stop_trace: cannot write \"{}\": {}", self.path, reason(errno)));
  return true;
}

std::uint32_t start(const std::string& path, SourceLocation where) {
  Recorder& self = recorder();
  const std::lock_guard lock(self.mutex);
  if (current_recording.load() != 0) {
    throw InvalidState(fmt::format("profiler::start_trace: a trace is already being recorded to \"{}\", since {}; end "
                                   "it with stop_trace",
                                   self.path, to_string(self.started_at)),
                       where);
  }
  try {
    self.file = create_file_stream(path);
  } catch (const std::system_error& error) {
    throw InvalidArgument(fmt::format("profiler::start_trace: cannot write {}", error.what()), where);
  }
  self.path = path;
  self.started_at = where;
  self.begin = Clock::now();
  current_recording = ++self.last_recording;
  return self.last_recording;
}

}  // namespace

void add_event(std::uint32_t recording, Category category, std::string_view name, Clock::time_point begin,
               Clock::time_point end, const Details& details) noexcept try {
  if (recording == 0) return;
  Row& row = row_of_this_thread();
  const std::lock_guard lock(row.mutex);
  if (current_recording.load() != recording) return;
  if (row.events.size() == kMostEventsOfThread) {
    ++row.dropped;
    return;
  }
  row.events.push_back({.category = category,
                        .name = std::string(name),
                        .program = std::string(details.program),
                        .begin = begin,
                        .end = end,
                        .where = details.where,
                        .bytes = details.bytes,
                        .shard = details.shard,
                        .tile = details.tile,
                        .step = details.step,
                        .trip = details.trip,
                        .trips = details.trips,
                        .branch = details.branch});
} catch (...) {
}

void start_trace(const std::string& path, SourceLocation where) { start(path, where); }

void stop_trace(SourceLocation where) {
  if (!stop(0)) throw InvalidState("profiler::stop_trace: no trace is being recorded; begin with start_trace", where);
}

Trace::Trace(const std::string& path, SourceLocation where) : recording_(start(path, where)) {}

Trace::~Trace() {
  try {
    stop(recording_);
  } catch (const std::exception& error) {
    log_warning(error.what());
  }
}

TraceAnnotation::TraceAnnotation(std::string_view name, SourceLocation where)
    : TraceAnnotation(name, std::nullopt, where) {}

TraceAnnotation::TraceAnnotation(std::string_view name, std::optional<std::int64_t> step, SourceLocation where)
    : recording_(current_recording.load(std::memory_order_relaxed)), step_(step), where_(where) {
  if (recording_ == 0) return;
  name_ = name;
  begin_ = Clock::now();
}

TraceAnnotation::~TraceAnnotation() {
  if (recording_ == 0) return;
  add_event(recording_, Category::kUser, name_, begin_, Clock::now(), {.where = where_, .step = step_.value_or(-1)});
}

// ---- Times of steps

namespace {

std::int64_t spent(const Tally& tally) { return tally.nanoseconds.load(std::memory_order_relaxed); }

// The seconds from a number of nanoseconds to what a tally has now, which becomes that number.
double seconds_since(std::int64_t& before, const Tally& tally) {
  const std::int64_t now = spent(tally);
  return static_cast<double>(now - std::exchange(before, now)) * 1e-9;
}

}  // namespace

StepTimer::StepTimer() noexcept
    : begin_(Clock::now()),
      programs_(spent(run_tallies.programs)),
      exchanges_(spent(run_tallies.exchanges)),
      waits_(spent(run_tallies.waits)) {
  step_timers.fetch_add(1, std::memory_order_relaxed);
}

StepTimer::~StepTimer() { step_timers.fetch_sub(1, std::memory_order_relaxed); }

TimeSplit StepTimer::lap() noexcept {
  const Clock::time_point now = Clock::now();
  const double total = std::chrono::duration<double>(now - std::exchange(begin_, now)).count();
  // In this order, so that what ends meanwhile does not make a part greater than the whole.
  const double waiting = seconds_since(waits_, run_tallies.waits);
  const double exchanges = seconds_since(exchanges_, run_tallies.exchanges);
  const double programs = seconds_since(programs_, run_tallies.programs);
  // A program that began before the timer, or has not ended, is counted in part.
  return {.total = total,
          .compute = std::max(programs - exchanges, 0.0),
          .exchange = std::max(exchanges - waiting, 0.0),
          .waiting = waiting};
}

}  // namespace shoal::profiler
