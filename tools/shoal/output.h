// What the processes print, line by line.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "descriptor.h"
#include "host_job.h"

namespace shoal::tool {

struct OutputOptions {
  bool prefix = true;               ///< Each line begins with "[3] ".
  bool json = false;                ///< Lines and events are JSON objects, one a line, on standard output.
  std::filesystem::path log_dir;    ///< For a file per process, process_3.log, of all it prints; empty: none.
  int signals = -1;                 ///< A descriptor: when it can be read, nobody waits for what cannot be written.
  std::function<void()> on_broken;  ///< Nobody reads standard output any more.
};

/// Writes lines of many processes, each in one piece. The last line may lack its end; it gets one, unless there are no
/// prefixes. A line of more than 64 MiB comes in pieces.
class Output {
 public:
  explicit Output(OutputOptions options);

  void write(int process, Stream stream, std::string_view bytes);
  /// Writes what there is of lines that a process has not ended.
  void finish(int process);
  /// With json: an object with a member "event". `members` is the text of further ones, as `"process":3`.
  void event(std::string_view name, const std::string& members);

 private:
  void emit(int process, Stream stream, std::string_view lines);
  void log(int process, std::string_view lines);
  void put(int descriptor, std::string_view text);

  OutputOptions options_;
  std::map<std::pair<int, Stream>, std::string> pending_;
  std::map<int, Descriptor> logs_;
  bool is_lost_[3] = {};
};

/// Writes all of the text. Where the reader is slow, waits for it until `signals` (if not -1) can be read. False: not
/// all was written, as errno says; 0 if a signal came.
bool write_all(int descriptor, std::string_view text, int signals = -1);

/// The text as a JSON string; bytes that are not UTF-8 are replaced.
std::string json_text(std::string_view text);

}  // namespace shoal::tool
