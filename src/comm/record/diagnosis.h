// Where the processes of a communicator are, and where they went different ways: from their flight recorders.
#pragma once

#include <string>
#include <vector>

#include "comm/record/flight_recorder.h"

namespace shoal {

struct Diagnosis {
  struct Place {
    int process = 0;
    std::string name;   ///< "process 1 on host a (pid 42)".
    std::string where;  ///< A sentence without its subject: "is in launch 7 of 'f' at a.cc:3 for 2.0 s".
  };
  std::vector<int> processes;
  std::vector<Place> places;  ///< Of each process.
  std::string difference;     ///< The first launch that is not the same everywhere, and what it is where; or empty.
};

/// Of these processes, by the logs that there are of them.
Diagnosis diagnose(const std::vector<int>& processes, const std::vector<FlightLog>& logs);

/// Lines, each after "\n  ".
std::string to_string(const Diagnosis& diagnosis);

}  // namespace shoal
