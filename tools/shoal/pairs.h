// How fast the processes of a job reach each other.
#pragma once

#include <string>
#include <vector>

namespace shoal::tool {

struct Pair {
  int first = 0;
  int second = 0;
  std::string transport;
  double latency = 0;    ///< Of a message of 8 bytes, one way, in seconds.
  double bandwidth = 0;  ///< Of messages of 8 MiB that are read, one way, in bytes per second.
};

/// Measures one pair of processes after another. All processes of the job call it; process 0 gets all pairs, the others
/// none. Throws DeadlineExceeded if a process does not answer, and what ends the job meanwhile.
std::vector<Pair> measure_pairs();

}  // namespace shoal::tool
