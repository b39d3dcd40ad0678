// What this process launched together with others, and how far it came: for the day when it stands still.
//
// A ring of records, of which the newest are kept. Writing takes neither locks nor memory of its own. Whoever reads
// gets a record as it was at one moment, or leaves it out while it is being written. If SHOAL_FLIGHT_RECORDER names a
// folder, the ring lies in a file there, so that it is left behind however the process ends.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "shoal/error.h"

namespace shoal {

/// One launch of a program that runs on several processes. Texts are cut off where they do not fit, and end with zeros.
struct FlightRecord {
  enum class State : std::uint32_t { kQueued, kRunning, kDone, kFailed };

  std::uint64_t number = 0;        ///< Among those of this process, from 1 on.
  std::uint64_t communicator = 0;  ///< Whose launch it is: Communicator::id().
  std::uint64_t sequence = 0;      ///< Its number there; 0 while it is queued.
  Digest program = {};             ///< What is run,
  Digest lineage = {};             ///< and on what.
  std::int64_t since = 0;          ///< When it came into its state, or to its step: milliseconds since 1970.
  State state = State::kQueued;
  std::uint32_t step = 0;           ///< The last exchange that it began; 0: none.
  std::int32_t awaited = -1;        ///< The process that it has to wait for; -1: none.
  std::uint32_t unused = 0;         ///< Zero.
  std::array<char, 48> name = {};   ///< Of the program.
  std::array<char, 48> where = {};  ///< The user's line of the call.
  std::array<char, 24> op = {};     ///< What the step does,
  std::array<char, 48> op_at = {};  ///< and the user's line of that.
  std::uint64_t trip = 0;           ///< Of the innermost loop around the step, from 1 on; 0 outside of loops.
};
static_assert(std::is_trivially_copyable_v<FlightRecord> && sizeof(FlightRecord) % sizeof(std::uint64_t) == 0);

/// What is known of one process.
struct FlightLog {
  int process = 0;
  std::string host;
  int pid = 0;
  bool answers = true;                ///< Else nothing is known but `last_done`.
  std::string last_done;              ///< What it told of itself before.
  std::string end;                    ///< Why its common work ended, if it did.
  std::int64_t time = 0;              ///< When it was still there: milliseconds since 1970.
  std::vector<FlightRecord> records;  ///< Ascending.
  std::vector<std::pair<std::uint64_t, std::vector<int>>> communicators;  ///< Their ids, and the processes of each.
};

/// Bytes for another process, and back. Reading checks all, so that what is read can be put into words: it throws
/// InvalidArgument for what no process writes.
std::string to_bytes(const FlightLog& log);
FlightLog log_from_bytes(std::string_view bytes);
/// The file that a process leaves behind. Throws InvalidArgument if it is none, of another version, or damaged.
FlightLog log_from_file(const std::string& path);
/// Its name in the folder.
std::string flight_file_name(int process);

class FlightRecorder {
 public:
  static constexpr std::size_t kRecords = 1024;

  /// Without a folder the ring lies in memory. Throws std::system_error if there is no room.
  FlightRecorder(int process, std::string_view host, const std::string& folder = "");
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  /// That of this process; null as long as it is alone. Once started it stays for good.
  static FlightRecorder* current() noexcept;
  /// Begins to record. Warns, and records in memory, if the folder of SHOAL_FLIGHT_RECORDER cannot be used.
  static void start(int process, std::string_view host);

  /// A launch is called for. Returns its number.
  std::uint64_t queue(std::uint64_t communicator, std::string_view name, const SourceLocation& where) noexcept;
  /// It begins. There is one at a time.
  void begin(std::uint64_t number, std::uint64_t sequence, const Digest& program, const Digest& lineage) noexcept;
  /// What has begun comes to an exchange, maybe in a trip of a loop.
  void step(std::uint32_t step, std::string_view op, const SourceLocation& where, std::uint64_t trip = 0) noexcept;
  /// It has to wait for a process; -1: no more.
  void await(int process) noexcept;
  /// It is over.
  void end(bool is_failed) noexcept;

  /// Keeps who the processes of a communicator are.
  void note_communicator(std::uint64_t id, const std::vector<int>& processes);
  /// The process is still there.
  void note_alive() noexcept;
  /// Keeps why the common work ended; the first one stays.
  void note_end(std::string_view why) noexcept;

  /// What was recorded, the newest `most` at most: of one communicator, unless that is 0, and the newest of all others.
  FlightLog log(std::size_t most = kRecords, std::uint64_t communicator = 0) const;
  /// What this process is doing or did last, in a few words; empty at the beginning.
  std::string last_done() const;

 private:
  struct Slot;
  struct File;

  Slot& slot(std::uint64_t number) const;
  template <class F>
  void change(std::uint64_t number, F&& f) noexcept;
  static FlightLog read(const File& file, std::size_t most, std::uint64_t communicator);
  friend FlightLog log_from_file(const std::string& path);

  File* file_ = nullptr;
  std::atomic<std::uint64_t> current_{0};
  std::mutex mutex_;  // Guards what is written once in a while.
};

/// "launch 7 of 'f' at a.cc:3".
std::string text_of(const FlightRecord& record);

}  // namespace shoal
