// Jobs of real processes: this test program, started anew with the name of a program that it has.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace shoal::multiprocess {

/// What a process does after distributed::initialize(); what it prints is its result.
using Program = std::function<void()>;
/// Those that can be started, by name.
std::map<std::string, Program>& programs();
/// Adds one, as a global variable of the file that has it.
struct Registered {
  Registered(std::string name, Program program) { programs()[std::move(name)] = std::move(program); }
};

struct Outcome {
  int code = -1;       ///< Exit code; 128 + the signal that ended it.
  std::string output;  ///< Standard output and error.
  double seconds = 0;  ///< From its start to its end.
};

struct Job {
  std::string program;
  std::vector<int> devices;                     ///< Of each process.
  std::map<std::string, std::string> env = {};  ///< More variables for all; they win.
  std::chrono::seconds deadline{60};            ///< After which what is left is killed.
  bool last_first = false;                      ///< Starts the last process first,
  std::chrono::milliseconds between{0};         ///< with this pause between two.
  /// Called in a process, by its number, before it runs the program.
  std::function<void(std::size_t process)> in_child = {};
  bool joins_itself = false;  ///< The program calls distributed::initialize() by itself, or what does.
};

/// Runs a job to its end.
std::vector<Outcome> run(const Job& job);
/// The same, started by mpirun, each process by these words before its command. Processes have other numbers than
/// ranks. The exit code is that of mpirun, whose output comes after that of process 0.
std::vector<Outcome> run_by_mpirun(const Job& job, const std::vector<std::string>& words_before = {});

/// Started processes of a job, to be looked at and harmed.
class Running {
 public:
  explicit Running(const Job& job);
  ~Running();  ///< Kills what is left.
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  int pid(std::size_t process) const;
  /// Waits until a process has printed `text`; false if it ends, or the deadline passes, before.
  bool wait_for_output(std::size_t process, const std::string& text);
  void signal(std::size_t process, int number);
  /// Starts a process again that has ended. Its outcome is that of both.
  void start_again(std::size_t process);
  /// Waits for all, and kills at the deadline.
  std::vector<Outcome> finish();

 private:
  struct Process;
  void start(std::size_t process);
  void read_some(std::chrono::milliseconds most);
  const Job job_;
  const std::string address_;
  std::vector<Process> processes_;
  std::chrono::steady_clock::time_point deadline_;
};

}  // namespace shoal::multiprocess
