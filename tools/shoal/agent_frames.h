// What `shoal run` and its agents on other hosts tell each other over the standard streams of ssh.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "host_job.h"

namespace shoal::tool {

/// The first line of an agent. What a login shell prints before it is passed over.
inline constexpr std::string_view kGreeting = "\x01shoal agent ";

enum class FrameType : std::uint32_t {
  kJob,    ///< To the agent: what to run, as encode_job() writes it. value: 1 if it shall reserve a port for process 0.
  kReady,  ///< From the agent: it has understood. value: the port.
  kStart,  ///< To the agent: go. bytes: the coordinator's address.
  kSignal,   ///< To the agent: send the signal `value` to all.
  kStarted,  ///< From the agent: the process has the pid `value`.
  kOutput,   ///< From the agent: the process printed.
  kErrors,   ///< The same, to standard error.
  kExit,     ///< From the agent: the process ended with this status of waitpid().
  kEnd,      ///< From the agent: nothing more comes.
  kFailure,  ///< From the agent: it cannot go on. value: the exit code; bytes: why.
};

struct Frame {
  FrameType type = FrameType::kEnd;
  std::int32_t process = 0;
  std::int32_t value = 0;
  std::string bytes;
};

std::string encode_frame(FrameType type, std::int32_t process, std::int32_t value, std::string_view bytes = {});

/// Takes frames off a stream of bytes.
class FrameReader {
 public:
  void append(std::string_view bytes) { buffer_ += bytes; }
  /// The next one, once all of it has come. Throws std::runtime_error if it cannot be one.
  std::optional<Frame> next();

 private:
  std::string buffer_;
  std::size_t taken_ = 0;
};

std::string encode_job(const HostJob& job);
/// Throws std::runtime_error if the text is none.
HostJob decode_job(std::string_view text);

}  // namespace shoal::tool
