#include "support.h"

#include <sys/prctl.h>

#include <csignal>
#include <filesystem>
#include <system_error>

namespace shoal::cluster {

bool is_installed(const std::string& program) {
  return std::system(("command -v '" + program + "' > /dev/null").c_str()) == 0;
}

std::string open_mpi_5() { return std::filesystem::absolute("build/openmpi5/bin/mpirun"); }

namespace {

Tool::Options options_of(std::vector<std::string> environment, std::chrono::seconds most) {
  // A secret of the user would hide that there is none.
  environment.insert(environment.begin(),
                     {"HOME=/var/empty", "SHOAL_INITIALIZATION_TIMEOUT=30", "SHOAL_NUM_THREADS=1"});
  return {.environment = std::move(environment),
          .in_child = [] { prctl(PR_SET_PDEATHSIG, SIGKILL); },  // Nothing outlives a test that is killed.
          .program = "/bin/sh",
          .most = most};
}

}  // namespace

Command::Command(const std::string& text, const std::vector<std::string>& environment, std::chrono::seconds most)
    : Tool({"-c", text}, options_of(environment, most)) {}

Command::~Command() {
  for (const pid_t pid : descendants()) kill(pid, SIGKILL);
}

Ended run(const std::string& text, const std::vector<std::string>& environment) {
  return Command(text, environment).wait();
}

void kill_one_program(const Command& command) {
  const auto own = std::filesystem::read_symlink("/proc/self/exe");
  for (const pid_t pid : command.descendants()) {
    std::error_code gone;
    if (std::filesystem::read_symlink("/proc/" + std::to_string(pid) + "/exe", gone) != own) continue;
    kill(pid, SIGKILL);
    return;
  }
  ADD_FAILURE() << "no program runs";
}

void expect_sums(const Ended& ended, int count, const std::string& method) {
  EXPECT_EQ(ended.exit_code, 0) << ended.out << ended.err;
  for (int process = 0; process < count; ++process) {
    const std::string line = "process " + std::to_string(process) + " of " + std::to_string(count) + " by " + method;
    EXPECT_EQ(count_of(ended.out, line + ": right\n"), 1) << line << ": " << ended.out << ended.err;
  }
}

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

}  // namespace shoal::cluster
