// Runs the tests, or one program as a process of a job.
#include <gtest/gtest.h>

#include <string_view>

#include "program.h"

int main(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "--program") return shoal::cluster::run_program(argv[2]);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
