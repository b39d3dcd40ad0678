// By how much the memory of this process grows.
#pragma once

#include <fstream>
#include <string>

namespace shoal::bench {

class MemoryGrowth {
 public:
  MemoryGrowth() : before_(field("VmRSS:")) { std::ofstream("/proc/self/clear_refs") << 5; }  // Resets the peak.
  /// MiB that it held at most since this was made, less what it held then.
  double mib() const { return field("VmHWM:") - before_; }

 private:
  static double field(const std::string& name) {
    std::ifstream status("/proc/self/status");
    double kib = 0;
    for (std::string word; status >> word;) {
      if (word == name) status >> kib;
    }
    return kib / 1024;
  }
  double before_;
};

}  // namespace shoal::bench
