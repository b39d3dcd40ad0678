// Runs the tests, or one program as a process of a job.
#include <gtest/gtest.h>
#include <shoal/distributed.h>
#include <shoal/shoal.h>

#include <cstring>
#include <exception>
#include <iostream>

#include "job.h"

int main(int argc, char** argv) {
  const bool joins_itself = argc == 3 && std::strcmp(argv[1], "--bare-program") == 0;
  if (joins_itself || (argc == 3 && std::strcmp(argv[1], "--program") == 0)) {
    try {
      const auto& program = shoal::multiprocess::programs().at(argv[2]);
      if (!joins_itself) shoal::distributed::initialize();
      program();
      shoal::distributed::shutdown();
      return 0;
    } catch (const std::exception& error) {
      std::cerr << "error: " << error.what() << std::endl;
      return 1;
    }
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
