// Who belongs to a job, and what can go wrong with it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/resources.h"

namespace shoal::distributed {

/// One process of a job, as all others know it.
struct Member {
  int process = 0;                ///< -1 in the place of a number that no process of the job has any more.
  std::string host;               ///< Its host's name.
  std::string host_identity;      ///< Equal for processes of one running kernel, one network and one file system.
  int pid = 0;                    ///< As it sees itself.
  std::string address;            ///< By which others can reach it: that of its control connection, without a port.
  std::uint64_t incarnation = 0;  ///< Another number each time the program starts.
  std::string card;               ///< What it tells about itself at the start, kMaxCardBytes at most.
  Resources resources = {};       ///< What it may use of its machine if it were alone there.

  static void fields(auto& self, auto& archive) {
    archive(self.process, self.host, self.host_identity, self.pid, self.address, self.incarnation, self.card,
            self.resources);
  }
};

inline constexpr std::size_t kMaxCardBytes = 4096;

/// Whether there is such a process. A job that went on without some of its processes leaves their numbers free.
inline bool is_present(const Member& member) { return member.process >= 0; }

/// In the order in which one causes another: of those that are told together, the first is the cause.
enum class FaultKind : std::uint8_t {
  kUserError,     ///< The program reported an error.
  kDisagreement,  ///< Processes do not run the same program, or on the same data.
  kDeath,         ///< A process ended, or cannot be reached.
  kTimeout,       ///< A process is silent, or did not come in time.
  kShutdown,      ///< A process left while others still needed it.
  kSecondary,     ///< A consequence of something that was not told yet.
  kLast = kSecondary,
};

/// What ended common work of processes.
struct Fault {
  FaultKind kind = FaultKind::kUserError;
  int process = 0;             ///< Whose fault it is, or who found it.
  std::string host = {};       ///< Of that process. Filled in by the service.
  std::string text = {};       ///< A sentence, for users.
  std::string last_done = {};  ///< What the process did last, if that is known.
  /// The processes whose common work it ended, ascending; others go on. None: all work with `process`.
  std::vector<int> processes = {};

  static void fields(auto& self, auto& archive) {
    archive(self.kind, self.process, self.host, self.text, self.last_done, self.processes);
  }
};

/// "process 1 on host b".
std::string process_name(const Member& member);

/// Whether it ended what these processes do together.
bool concerns(const Fault& fault, const std::vector<int>& processes);

/// A fault as one text: its sentence, and what the process did last.
std::string describe(const Fault& fault);

}  // namespace shoal::distributed
