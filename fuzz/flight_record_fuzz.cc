// What flight recorders leave behind: any bytes of a file or of an answer are a log or are refused, and whatever logs
// say is put into words.
#include <fuzzer/FuzzedDataProvider.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file_descriptor.h"
#include "comm/record/diagnosis.h"
#include "comm/record/flight_recorder.h"
#include "shoal/error.h"

namespace {

using namespace shoal;

void expect(bool condition) {
  if (!condition) std::abort();  // The fuzzer shows where, and keeps the input.
}

const std::vector<int> kProcesses{0, 1, 5};

// What a process recorded that launched a few programs with others, and stands in one.
void record_launches(FlightRecorder& recorder) {
  recorder.note_communicator(7, kProcesses);
  recorder.note_communicator(8, {0, 1});
  for (std::uint64_t i = 1; i <= 6; ++i) {
    const std::uint64_t number = recorder.queue(i % 2 == 0 ? 7 : 8, "a program", SourceLocation::current());
    if (i == 6) break;
    recorder.begin(number, i, {i, i}, {i, 0});
    recorder.step(1, "all_reduce", SourceLocation::current());
    recorder.await(5);
    if (i < 5) recorder.end(false);
  }
  recorder.note_end("a failure");
}

// A file of a recorder, in memory, some bytes of which are others for a while.
class DamagedFile {
 public:
  DamagedFile() : file_(memfd_create("flight", MFD_CLOEXEC)) {
    const std::filesystem::path folder =
        std::filesystem::temp_directory_path() / ("shoal_flight_fuzz_" + std::to_string(getpid()));
    {
      FlightRecorder recorder(1, "a host", folder.string());
      record_launches(recorder);
    }
    std::ifstream stream(folder / flight_file_name(1), std::ios::binary);
    good_.assign(std::istreambuf_iterator<char>(stream), {});
    std::filesystem::remove_all(folder);
    expect(!good_.empty());
    write(0, good_);
  }

  std::size_t size() const { return good_.size(); }
  std::string path() const { return "/proc/self/fd/" + std::to_string(file_.get()); }

  void damage(std::size_t offset, std::string_view bytes) {
    bytes = bytes.substr(0, good_.size() - offset);
    write(offset, bytes);
    damaged_.emplace_back(offset, bytes.size());
  }
  void resize(std::size_t size) {
    expect(ftruncate(file_.get(), static_cast<off_t>(size)) == 0);
    if (size < good_.size()) damaged_.emplace_back(size, good_.size() - size);
  }
  void restore() {
    expect(ftruncate(file_.get(), static_cast<off_t>(good_.size())) == 0);
    for (const auto& [offset, size] : damaged_) write(offset, std::string_view(good_).substr(offset, size));
    damaged_.clear();
  }

 private:
  void write(std::size_t offset, std::string_view bytes) {
    expect(pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset)) ==
           static_cast<ssize_t>(bytes.size()));
  }

  FileDescriptor file_;
  std::string good_;
  std::vector<std::pair<std::size_t, std::size_t>> damaged_;
};

void put_into_words(const std::vector<FlightLog>& logs) {
  for (const FlightLog& log : logs) {
    for (const FlightRecord& record : log.records) expect(!text_of(record).empty());
    for (const auto& [id, processes] : log.communicators) to_string(diagnose(processes, logs));
  }
  to_string(diagnose(kProcesses, logs));
}

// Where the fields of a file lie, roughly: its start, the lists of processes, and the first records.
std::size_t place_in(const DamagedFile& file, FuzzedDataProvider& data) {
  const std::size_t start = 5000;
  const std::size_t records = file.size() - FlightRecorder::kRecords * (sizeof(FlightRecord) + sizeof(std::uint64_t));
  switch (data.ConsumeIntegralInRange(0, 3)) {
    case 0:
      return data.ConsumeIntegralInRange<std::size_t>(0, start);
    case 1:
      return records + data.ConsumeIntegralInRange<std::size_t>(0, 3000);
    case 2:
      return data.ConsumeIntegralInRange<std::size_t>(4096, 4096 + 512);
    default:
      return data.ConsumeIntegralInRange<std::size_t>(0, file.size() - 1);
  }
}

void read_file(FuzzedDataProvider& data) {
  static DamagedFile& file = *new DamagedFile;
  static const FlightLog other = [] {
    FlightRecorder recorder(0, "another host");
    record_launches(recorder);
    return recorder.log();
  }();
  if (data.ConsumeIntegralInRange(0, 15) == 0) {
    file.resize(data.ConsumeIntegralInRange<std::size_t>(0, 2 * file.size()));
  }
  while (data.remaining_bytes() > 0) file.damage(place_in(file, data), data.ConsumeRandomLengthString(64));
  try {
    const FlightLog log = log_from_file(file.path());
    put_into_words({log, other});
    // What was read once is read again.
    expect(to_bytes(log_from_bytes(to_bytes(log))) == to_bytes(log));
  } catch (const InvalidArgument& error) {
    expect(std::string_view(error.what()).starts_with(file.path()));
  }
  file.restore();
}

void read_answer(std::string_view bytes) {
  try {
    const FlightLog log = log_from_bytes(bytes);
    expect(to_bytes(log) == bytes);
    put_into_words({log});
  } catch (const InvalidArgument&) {
  }
}

// What a process answered, with a part of it replaced.
void read_damaged_answer(FuzzedDataProvider& data) {
  static const std::string good = [] {
    FlightRecorder recorder(1, "a host");
    record_launches(recorder);
    return to_bytes(recorder.log());
  }();
  std::string bytes = good;
  while (data.remaining_bytes() > 0) {
    const auto at = data.ConsumeIntegralInRange<std::size_t>(0, bytes.size());
    const auto removed = data.ConsumeIntegralInRange<std::size_t>(0, 16);
    bytes.replace(at, removed, data.ConsumeRandomLengthString(64));
  }
  read_answer(bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  if (size == 0) return 0;
  FuzzedDataProvider data(bytes + 1, size - 1);
  switch (bytes[0] % 3) {
    case 0:
      read_file(data);
      break;
    case 1:
      read_damaged_answer(data);
      break;
    default:
      read_answer({reinterpret_cast<const char*>(bytes) + 1, size - 1});
  }
  return 0;
}
