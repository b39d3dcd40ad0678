// What the tests of launchers share.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "launcher/tool.h"

namespace shoal::cluster {

/// Whether a component that cannot start is a failure: where SHOAL_REQUIRE_CLUSTER is set.
inline bool is_required() { return std::getenv("SHOAL_REQUIRE_CLUSTER") != nullptr; }

/// Skips the test if a component is not there.
#define SHOAL_NEEDS(is_there, what)                                                                    \
  if (!(is_there)) {                                                                                   \
    if (::shoal::cluster::is_required()) FAIL() << (what) << "; tools/setup.sh --cluster installs it"; \
    GTEST_SKIP() << (what);                                                                            \
  }

/// Whether a program is in PATH.
bool is_installed(const std::string& program);

/// The mpirun of Open MPI 5, a package of Python that tools/setup.sh puts into the build folder.
std::string open_mpi_5();

/// A shell command, started with a home folder that has nothing in it. What is left of it in the end is killed.
class Command : public Tool {
 public:
  explicit Command(const std::string& text, const std::vector<std::string>& environment = {},
                   std::chrono::seconds most = std::chrono::seconds(60));
  ~Command();
};

/// Runs it to its end.
Ended run(const std::string& text, const std::vector<std::string>& environment = {});

/// Kills a process of program.h that a command has started.
void kill_one_program(const Command& command);

/// Expects that all of `count` processes found each other, and a right sum.
void expect_sums(const Ended& ended, int count, const std::string& method);

/// The number of times that a text stands in another.
int count_of(const std::string& text, const std::string& part);

}  // namespace shoal::cluster
