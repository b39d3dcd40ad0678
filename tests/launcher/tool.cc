#include "launcher/tool.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>
#include <utility>

namespace shoal {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

// What could be read: what /proc tells of a process may end with it.
std::string read_file(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return std::move(text).str();
}

/// The ids of all processes of this machine.
std::vector<pid_t> all_processes() {
  std::vector<pid_t> pids;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") == std::string::npos) pids.push_back(std::stoi(name));
  }
  return pids;
}

/// Whether it is there and no zombie.
bool is_alive(pid_t pid) {
  const std::string status = read_file("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t name_end = status.rfind(')');
  return name_end != std::string::npos && name_end + 2 < status.size() && status[name_end + 2] != 'Z';
}

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

}  // namespace

std::vector<std::string> Ended::sorted_lines() const {
  std::vector<std::string> lines;
  std::istringstream stream(out);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  std::sort(lines.begin(), lines.end());
  return lines;
}

Tool::Tool(const std::vector<std::string>& arguments, const Options& options) : most_(options.most) {
  static int count = 0;
  mark_ = "SHOAL_LAUNCHER_TEST=" + std::to_string(getpid()) + "_" + std::to_string(++count);
  int in[2];
  int out[2];
  int err[2];
  EXPECT_EQ(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC) | pipe2(err, O_CLOEXEC), 0);
  std::vector<std::string> words = {options.program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  start_ = Clock::now();
  pid_ = fork();
  if (pid_ == 0) {
    dup2(in[0], 0);
    dup2(out[1], 1);
    dup2(err[1], 2);
    if (options.close_input) close(0);
    putenv(mark_.data());
    for (const std::string& variable : options.environment) putenv(const_cast<char*>(variable.c_str()));
    if (options.in_child) options.in_child();
    execv(argv[0], argv.data());
    _exit(99);
  }
  for (const int end : {in[0], out[1], err[1]}) close(end);
  EXPECT_EQ(write(in[1], options.input.data(), options.input.size()), static_cast<ssize_t>(options.input.size()));
  close(in[1]);
  out_ = out[0];
  err_ = err[0];
}

Tool::~Tool() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(err_);
  stop_reading();
}

void Tool::stop_reading() {
  if (out_ >= 0) close(out_);
  out_ = -1;
}

/// Reads what there is of either stream; false at the end of both, or at the deadline.
bool Tool::read_some(Clock::time_point deadline) {
  std::array<pollfd, 2> places = {{{out_, POLLIN, 0}, {err_, POLLIN, 0}}};
  const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
  if ((out_ < 0 && err_ < 0) || left <= 0) return false;
  poll(places.data(), places.size(), static_cast<int>(left));
  for (auto& [descriptor, text] : {std::pair<int&, std::string&>(out_, ended_.out), {err_, ended_.err}}) {
    const pollfd& place = places[&text == &ended_.out ? 0 : 1];
    if (place.fd < 0 || place.revents == 0) continue;
    std::array<char, 1 << 16> bytes;
    const ssize_t count = read(descriptor, bytes.data(), bytes.size());
    if (count > 0) {
      text.append(bytes.data(), static_cast<std::size_t>(count));
    } else {
      close(descriptor);
      descriptor = -1;
    }
  }
  return true;
}

const std::string& Tool::read_until(const std::string& text, int count) {
  const auto deadline = Clock::now() + seconds(20);
  while (count_of(ended_.out, text) < count && read_some(deadline)) {
  }
  EXPECT_GE(count_of(ended_.out, text), count) << ended_.out << ended_.err;
  return ended_.out;
}

void Tool::signal(int number) const { kill(pid_, number); }

Ended Tool::wait() {
  const auto deadline = Clock::now() + most_;
  while (read_some(deadline)) {
  }
  int status = 0;
  pid_t found = 0;
  while ((found = waitpid(pid_, &status, WNOHANG)) == 0 && Clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  if (found != pid_) {
    ADD_FAILURE() << "the tool has not ended";
    kill(pid_, SIGKILL);
    waitpid(pid_, &status, 0);
  }
  pid_ = 0;
  ended_.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  ended_.seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  return ended_;
}

std::vector<pid_t> Tool::descendants() const {
  std::vector<pid_t> found;
  for (const pid_t pid : all_processes()) {
    const std::string environment = '\0' + read_file("/proc/" + std::to_string(pid) + "/environ");
    const bool is_marked = environment.find('\0' + mark_ + '\0') != std::string::npos;
    if (is_marked && pid != pid_ && is_alive(pid)) found.push_back(pid);
  }
  return found;
}

bool Tool::descendants_end_within(milliseconds time) const {
  const auto deadline = Clock::now() + time;
  while (num_descendants() > 0) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(milliseconds(10));
  }
  return true;
}

bool Tool::is_in_a_command_line(const std::string& text) {
  const auto pids = all_processes();
  return std::any_of(pids.begin(), pids.end(), [&](pid_t pid) {
    return read_file("/proc/" + std::to_string(pid) + "/cmdline").find(text) != std::string::npos;
  });
}

Ended run_tool(const std::vector<std::string>& arguments, const Tool::Options& options) {
  return Tool(arguments, options).wait();
}

ScratchFile::ScratchFile(const std::string& text) {
  std::string pattern = std::filesystem::temp_directory_path() / "shoal_launcher_XXXXXX";
  EXPECT_NE(mkdtemp(pattern.data()), nullptr);
  folder_ = pattern;
  std::ofstream(path()) << text;
  std::filesystem::permissions(path(), std::filesystem::perms::owner_all);
}

ScratchFile::~ScratchFile() { std::filesystem::remove_all(folder_); }

}  // namespace shoal
