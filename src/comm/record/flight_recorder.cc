#include "comm/record/flight_recorder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <system_error>

#include "base/bytes.h"
#include "base/env.h"
#include "base/file_descriptor.h"
#include "base/log.h"
#include "base/safe_file.h"

namespace shoal {
namespace {

constexpr std::uint64_t kMagic = 0x0031'7468'6769'6c66;  // "flight1"
constexpr std::size_t kWords = sizeof(FlightRecord) / sizeof(std::uint64_t);
constexpr std::size_t kMostNumbers = std::size_t{1} << 16;  // Of processes in lists of them.

// A few nanoseconds, and exact to some milliseconds.
std::int64_t now_ms() noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

template <std::size_t N>
void copy_text(std::array<char, N>& to, std::string_view text) noexcept {
  const std::size_t size = std::min(text.size(), N - 1);
  to.fill('\0');
  std::memcpy(to.data(), text.data(), size);
}

template <std::size_t N>
std::string_view view_of(const std::array<char, N>& text) {
  return {text.data(), ::strnlen(text.data(), N)};
}

// "file.cc:12". The lines of a loop are always the same few, so their texts are kept.
const std::array<char, 48>& text_of_line(const SourceLocation& where) noexcept {
  struct Known {
    const char* file = nullptr;
    std::uint_least32_t line = 0;
    std::array<char, 48> text = {};
  };
  thread_local std::array<Known, 16> all;
  const auto place = (std::bit_cast<std::uintptr_t>(where.file_name()) >> 4U) + where.line();
  Known& known = all[place % all.size()];
  if (known.file == where.file_name() && known.line == where.line()) return known.text;
  const std::string_view path = where.file_name();
  const std::string_view name = path.substr(path.rfind('/') + 1);
  known = {where.file_name(), where.line(), {}};
  if (!name.empty()) {
    const std::string_view end = name.substr(name.size() - std::min<std::size_t>(name.size(), 36));
    *fmt::format_to_n(known.text.data(), known.text.size() - 1, "{}:{}", end, where.line()).out = '\0';
  }
  return known.text;
}

}  // namespace

// Written by one thread at a time; who comes meanwhile gives up. The version is odd while it is being written: words
// are released after that was said, and acquired before it is looked at again.
struct FlightRecorder::Slot {
  std::atomic<std::uint64_t> version;
  std::array<std::atomic<std::uint64_t>, kWords> words;

  bool begin_writing() noexcept {
    std::uint64_t before = version.load(std::memory_order_relaxed);
    if (before % 2 != 0) return false;
    return version.compare_exchange_strong(before, before + 1, std::memory_order_acquire);
  }
  void end_writing() noexcept { version.store(version.load(std::memory_order_relaxed) + 1, std::memory_order_release); }
  // The words that hold `size` bytes at `offset` of a record.
  void write(std::size_t offset, const void* data, std::size_t size) noexcept {
    const auto* bytes = static_cast<const std::byte*>(data);
    for (std::size_t i = 0; i < size; i += sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes + i, sizeof word);
      words[(offset + i) / sizeof word].store(word, std::memory_order_release);
    }
  }
  bool read(FlightRecord& record) const noexcept {
    const std::uint64_t before = version.load(std::memory_order_acquire);
    if (before == 0 || before % 2 != 0) return false;
    std::array<std::uint64_t, kWords> copy;
    for (std::size_t i = 0; i < kWords; ++i) copy[i] = words[i].load(std::memory_order_acquire);
    record = std::bit_cast<FlightRecord>(copy);
    return version.load(std::memory_order_relaxed) == before;
  }
};

struct FlightRecorder::File {
  std::uint64_t magic;
  std::uint64_t size;  // Of the whole.
  std::int32_t process;
  std::int32_t pid;
  std::array<char, 64> host;
  std::atomic<std::int64_t> time;       // When this process last did anything here.
  std::atomic<std::uint64_t> launches;  // Called for so far.
  std::atomic<std::uint32_t> has_ended;
  std::array<char, 4096> end;
  std::atomic<std::uint32_t> numbers_used;
  std::array<std::int32_t, kMostNumbers> numbers;  // Of each communicator: its id (two), how many processes, and which.
  alignas(64) std::array<Slot, kRecords> slots;
};

FlightRecorder::FlightRecorder(int process, std::string_view host, const std::string& folder) {
  int flags = MAP_PRIVATE | MAP_ANONYMOUS;
  FileDescriptor file;
  if (!folder.empty()) {
    std::error_code ignored;
    std::filesystem::create_directories(folder, ignored);
    const std::string path = fmt::format("{}/{}", folder, flight_file_name(process));
    file = create_file(path, 0644);
    // All of it now: a full disk is an error here, and would be a signal later.
    if (const int error = posix_fallocate(file.get(), 0, sizeof(File)); error != 0) {
      throw std::system_error(error, std::generic_category(), path);
    }
    flags = MAP_SHARED;
  }
  void* const memory = mmap(nullptr, sizeof(File), PROT_READ | PROT_WRITE, flags, file.get(), 0);
  if (memory == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
  file_ = static_cast<File*>(memory);  // Of zeros.
  file_->size = sizeof(File);
  file_->process = process;
  file_->pid = getpid();
  copy_text(file_->host, host);
  file_->time.store(now_ms(), std::memory_order_relaxed);
  file_->magic = kMagic;
}

FlightRecorder::~FlightRecorder() { munmap(file_, sizeof(File)); }

namespace {
std::atomic<FlightRecorder*> the_recorder{nullptr};
}

FlightRecorder* FlightRecorder::current() noexcept { return the_recorder.load(std::memory_order_acquire); }

void FlightRecorder::start(int process, std::string_view host) {
  std::unique_ptr<FlightRecorder> recorder;
  try {
    recorder = std::make_unique<FlightRecorder>(process, host, env_text("SHOAL_FLIGHT_RECORDER").value_or(""));
  } catch (const std::system_error& error) {
    log_warning(
        fmt::format("SHOAL_FLIGHT_RECORDER: {}; what this process does is recorded in memory only", error.what()));
    recorder = std::make_unique<FlightRecorder>(process, host);
  }
  FlightRecorder* none = nullptr;
  if (the_recorder.compare_exchange_strong(none, recorder.get(), std::memory_order_acq_rel)) recorder.release();
}

FlightRecorder::Slot& FlightRecorder::slot(std::uint64_t number) const { return file_->slots[number % kRecords]; }

// Lets `f` write to the slot of a launch, if that is still its own.
template <class F>
void FlightRecorder::change(std::uint64_t number, F&& f) noexcept {
  Slot& slot = this->slot(number);
  if (number == 0 || slot.words[0].load(std::memory_order_relaxed) != number || !slot.begin_writing()) return;
  const std::int64_t now = now_ms();
  f(slot);
  slot.write(offsetof(FlightRecord, since), &now, sizeof now);
  slot.end_writing();
  file_->time.store(now, std::memory_order_relaxed);
}

std::uint64_t FlightRecorder::queue(std::uint64_t communicator, std::string_view name,
                                    const SourceLocation& where) noexcept {
  FlightRecord record{.number = file_->launches.fetch_add(1, std::memory_order_relaxed) + 1,
                      .communicator = communicator,
                      .since = now_ms(),
                      .where = text_of_line(where)};
  copy_text(record.name, name);
  Slot& slot = this->slot(record.number);
  if (!slot.begin_writing()) return 0;
  slot.write(0, &record, sizeof record);
  slot.end_writing();
  return record.number;
}

void FlightRecorder::begin(std::uint64_t number, std::uint64_t sequence, const Digest& program,
                           const Digest& lineage) noexcept {
  current_.store(number, std::memory_order_relaxed);
  change(number, [&](Slot& slot) {
    const std::array<std::uint64_t, 5> words{sequence, program[0], program[1], lineage[0], lineage[1]};
    slot.write(offsetof(FlightRecord, sequence), words.data(), sizeof words);
    const std::array<std::uint32_t, 2> state{static_cast<std::uint32_t>(FlightRecord::State::kRunning), 0};
    slot.write(offsetof(FlightRecord, state), state.data(), sizeof state);
  });
}

void FlightRecorder::step(std::uint32_t step, std::string_view op, const SourceLocation& where,
                          std::uint64_t trip) noexcept {
  change(current_.load(std::memory_order_relaxed), [&](Slot& slot) {
    const std::array<std::uint32_t, 2> state{static_cast<std::uint32_t>(FlightRecord::State::kRunning), step};
    slot.write(offsetof(FlightRecord, state), state.data(), sizeof state);
    std::array<char, 24> name;
    copy_text(name, op);
    slot.write(offsetof(FlightRecord, op), name.data(), name.size());
    const std::array<char, 48>& line = text_of_line(where);
    slot.write(offsetof(FlightRecord, op_at), line.data(), line.size());
    slot.write(offsetof(FlightRecord, trip), &trip, sizeof trip);
  });
}

void FlightRecorder::await(int process) noexcept {
  change(current_.load(std::memory_order_relaxed), [&](Slot& slot) {
    const std::array<std::int32_t, 2> words{process, 0};
    slot.write(offsetof(FlightRecord, awaited), words.data(), sizeof words);
  });
}

void FlightRecorder::end(bool is_failed) noexcept {
  change(current_.exchange(0, std::memory_order_relaxed), [&](Slot& slot) {
    const auto state = is_failed ? FlightRecord::State::kFailed : FlightRecord::State::kDone;
    // Where it failed stays known.
    std::uint64_t word = slot.words[offsetof(FlightRecord, state) / sizeof(word)].load(std::memory_order_relaxed);
    word = (word & ~std::uint64_t{0xFFFFFFFF}) | static_cast<std::uint32_t>(state);
    slot.write(offsetof(FlightRecord, state), &word, sizeof word);
  });
}

void FlightRecorder::note_communicator(std::uint64_t id, const std::vector<int>& processes) {
  const std::lock_guard lock(mutex_);
  const std::uint32_t used = file_->numbers_used.load(std::memory_order_relaxed);
  if (kMostNumbers - used < processes.size() + 3) return;
  std::int32_t* to = file_->numbers.data() + used;
  *to++ = static_cast<std::int32_t>(id & 0xFFFFFFFFU);
  *to++ = static_cast<std::int32_t>(id >> 32U);
  *to++ = static_cast<std::int32_t>(processes.size());
  std::copy(processes.begin(), processes.end(), to);
  file_->numbers_used.store(used + 3 + static_cast<std::uint32_t>(processes.size()), std::memory_order_release);
}

void FlightRecorder::note_alive() noexcept { file_->time.store(now_ms(), std::memory_order_relaxed); }

void FlightRecorder::note_end(std::string_view why) noexcept {
  const std::lock_guard lock(mutex_);
  if (file_->has_ended.load(std::memory_order_relaxed) != 0) return;
  copy_text(file_->end, why);
  file_->time.store(now_ms(), std::memory_order_relaxed);
  file_->has_ended.store(1, std::memory_order_release);
}

FlightLog FlightRecorder::read(const File& file, std::size_t most, std::uint64_t communicator) {
  FlightLog log{.process = file.process,
                .host = std::string(view_of(file.host)),
                .pid = file.pid,
                .last_done = {},
                .end = {},
                .time = file.time.load(std::memory_order_relaxed),
                .records = {},
                .communicators = {}};
  if (file.has_ended.load(std::memory_order_acquire) != 0) log.end = view_of(file.end);
  std::optional<FlightRecord> latest;  // Of those that are not of interest otherwise.
  for (const Slot& slot : file.slots) {
    FlightRecord record;
    if (!slot.read(record)) continue;
    if (communicator == 0 || record.communicator == communicator) {
      log.records.push_back(record);
    } else if (!latest || latest->number < record.number) {
      latest = record;
    }
  }
  if (latest) log.records.push_back(*latest);
  std::ranges::sort(log.records, {}, &FlightRecord::number);
  if (log.records.size() > most) log.records.erase(log.records.begin(), log.records.end() - static_cast<long>(most));
  const std::size_t used = std::min<std::size_t>(file.numbers_used.load(std::memory_order_acquire), kMostNumbers);
  for (std::size_t at = 0; at + 3 <= used;) {
    const auto word = [&](std::size_t i) { return static_cast<std::uint32_t>(file.numbers[i]); };
    const std::uint64_t id = word(at) | (std::uint64_t{word(at + 1)} << 32U);
    const std::size_t size = word(at + 2);
    if (size > used - at - 3) break;
    const std::int32_t* const first = file.numbers.data() + at + 3;
    if (communicator == 0 || communicator == id) log.communicators.push_back({id, {first, first + size}});
    at += 3 + size;
  }
  return log;
}

FlightLog FlightRecorder::log(std::size_t most, std::uint64_t communicator) const {
  FlightLog log = read(*file_, most, communicator);
  log.time = now_ms();
  return log;
}

std::string FlightRecorder::last_done() const {
  FlightRecord latest;
  FlightRecord one;
  for (const Slot& slot : file_->slots) {
    if (slot.read(one) && one.state != FlightRecord::State::kQueued && one.number > latest.number) latest = one;
  }
  return latest.number == 0 ? "" : text_of(latest);
}

std::string text_of(const FlightRecord& record) {
  std::string text = record.sequence == 0 ? fmt::format("'{}'", view_of(record.name))
                                          : fmt::format("launch {} of '{}'", record.sequence, view_of(record.name));
  if (const std::string_view where = view_of(record.where); !where.empty()) text += fmt::format(" at {}", where);
  return text;
}

std::string to_bytes(const FlightLog& log) {
  ByteWriter out;
  out.number(log.process);
  out.text(log.host);
  out.number(log.pid);
  out.text(log.last_done);
  out.text(log.end);
  out.number(log.time);
  out.text({reinterpret_cast<const char*>(log.records.data()), log.records.size() * sizeof(FlightRecord)});
  out.number(static_cast<std::int64_t>(log.communicators.size()));
  for (const auto& [id, processes] : log.communicators) {
    out.number(static_cast<std::int64_t>(id));
    out.text({reinterpret_cast<const char*>(processes.data()), processes.size() * sizeof(int)});
  }
  return out.bytes();
}

namespace {

// The end of the year 9999: what comes later is no time that a process has told.
constexpr std::int64_t kLastTime = 253'402'300'799'999;

void check_sound(bool holds, std::string_view what) {
  if (!holds) throw InvalidArgument(fmt::format("damaged records of a process: {}", what));
}

bool is_time(std::int64_t time) { return time >= 0 && time <= kLastTime; }

bool is_process(std::int64_t process) { return process >= 0 && process <= std::numeric_limits<int>::max(); }

template <std::size_t N>
bool ends(const std::array<char, N>& text) {
  return text.back() == '\0';
}

// Of logs that come from elsewhere. It holds of those that are being written, too.
void check_sound(const FlightLog& log) {
  check_sound(is_process(log.process) && log.pid >= 0, "the process has no number");
  check_sound(is_time(log.time), "when it was still there is no time");
  for (const FlightRecord& record : log.records) {
    check_sound(record.state <= FlightRecord::State::kFailed, "a launch is in no known state");
    check_sound(is_time(record.since), "a launch came into its state at no time");
    check_sound(record.awaited >= -1, "a launch waits for no process");
    check_sound(ends(record.name) && ends(record.where) && ends(record.op) && ends(record.op_at), "a text has no end");
  }
  for (const auto& [id, processes] : log.communicators) {
    check_sound(
        !processes.empty() && processes.front() >= 0 && std::ranges::is_sorted(processes, std::ranges::less_equal()),
        "the processes of a communicator are not ascending numbers");
  }
}

template <class T>
std::vector<T> list_of(std::string_view bytes) {
  check_sound(bytes.size() % sizeof(T) == 0, "a list ends within an entry");
  std::vector<T> list(bytes.size() / sizeof(T));
  if (!list.empty()) std::memcpy(list.data(), bytes.data(), bytes.size());
  return list;
}

int process_in(ByteReader& in) {
  const std::int64_t number = in.number();
  check_sound(is_process(number), "the process has no number");
  return static_cast<int>(number);
}

}  // namespace

FlightLog log_from_bytes(std::string_view bytes) {
  ByteReader in(bytes);
  FlightLog log;
  log.process = process_in(in);
  log.host = in.text();
  log.pid = process_in(in);
  log.last_done = in.text();
  log.end = in.text();
  log.time = in.number();
  log.records = list_of<FlightRecord>(in.text());
  for (std::size_t left = in.count(2 * sizeof(std::int64_t)); left > 0; --left) {
    const auto id = static_cast<std::uint64_t>(in.number());
    log.communicators.emplace_back(id, list_of<int>(in.text()));
  }
  check_sound(in.at_end(), "there are bytes after the last communicator");
  check_sound(log);
  return log;
}

std::string flight_file_name(int process) { return fmt::format("process_{}.flight", process); }

FlightLog log_from_file(const std::string& path) {
  // A pipe is opened at once, and refused.
  const FileDescriptor descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!descriptor || fstat(descriptor.get(), &status) != 0) {
    throw InvalidArgument(fmt::format("{} cannot be read: {}", path, std::generic_category().message(errno)));
  }
  const auto file = std::make_unique<FlightRecorder::File>();
  std::size_t size = 0;
  if (S_ISREG(status.st_mode) && status.st_size == static_cast<off_t>(sizeof *file)) {
    auto* const bytes = reinterpret_cast<std::byte*>(file.get());
    for (ssize_t n = 1; n > 0 && size < sizeof *file; size += static_cast<std::size_t>(std::max<ssize_t>(n, 0))) {
      n = read(descriptor.get(), bytes + size, sizeof *file - size);
    }
  }
  if (size != sizeof *file || file->magic != kMagic || file->size != sizeof *file) {
    throw InvalidArgument(fmt::format("{} is no file of a flight recorder, or one of another version of Shoal", path));
  }
  try {
    FlightLog log = FlightRecorder::read(*file, FlightRecorder::kRecords, 0);
    check_sound(log);
    return log;
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(fmt::format("{}: {}", path, error.what()));
  }
}

}  // namespace shoal
