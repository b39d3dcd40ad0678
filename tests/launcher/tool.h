// The tool `shoal` as a process, with what it prints, and what it leaves behind.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace shoal {

struct Ended {
  int exit_code = -1;  ///< 128 + signal if a signal ended it.
  std::string out;
  std::string err;
  double seconds = 0;

  /// The lines of `out`, sorted, since processes print in any order.
  std::vector<std::string> sorted_lines() const;
};

/// The tool, or another program, started. Its environment has a mark, which all that it starts inherits.
class Tool {
 public:
  struct Options {
    std::vector<std::string> environment = {};  ///< "NAME=VALUE", besides the test's own.
    std::string input = {};                     ///< What standard input holds.
    bool close_input = false;                   ///< Standard input is closed.
    std::function<void()> in_child = {};        ///< Called before the tool is run.
    std::string program = SHOAL_TOOL;           ///< With its path.
    std::chrono::seconds most{30};              ///< That wait() waits.
  };

  explicit Tool(const std::vector<std::string>& arguments) : Tool(arguments, Options()) {}
  Tool(const std::vector<std::string>& arguments, const Options& options);
  ~Tool();
  Tool(const Tool&) = delete;
  Tool& operator=(const Tool&) = delete;

  /// Reads standard output until it holds `count` times `text`, for 20 s at most. Returns all that was read so far.
  const std::string& read_until(const std::string& text, int count = 1);
  void signal(int number) const;
  pid_t pid() const { return pid_; }
  /// Closes the test's end of standard output.
  void stop_reading();
  /// Waits for its end, for the time that the options give at most.
  Ended wait();

  /// The processes that have the mark, and are not the tool itself.
  std::vector<pid_t> descendants() const;
  /// How many there are.
  int num_descendants() const { return static_cast<int>(descendants().size()); }
  /// Waits until there are none, for this time at most; true if there are none.
  bool descendants_end_within(std::chrono::milliseconds time) const;
  /// Those of its descendants and itself whose command line, or that of any process, holds `text`.
  static bool is_in_a_command_line(const std::string& text);

 private:
  bool read_some(std::chrono::steady_clock::time_point deadline);

  std::string mark_;
  std::chrono::seconds most_;
  pid_t pid_ = 0;
  int out_ = -1;
  int err_ = -1;
  std::chrono::steady_clock::time_point start_;
  Ended ended_;
};

/// Runs the tool to its end.
Ended run_tool(const std::vector<std::string>& arguments, const Tool::Options& options = Tool::Options());

/// A file or folder that goes with the scope. It has `text` in it, and can be run.
class ScratchFile {
 public:
  explicit ScratchFile(const std::string& text);
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  std::string path() const { return folder_ / "file"; }
  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
};

}  // namespace shoal
