// What solvers tell of how far they are to who has asked for it (shoal/progress.h).
#pragma once

#include <chrono>
#include <memory>
#include <string_view>

#include "shoal/progress.h"

namespace shoal::linalg {

/// One run of a solver.
class ProgressReport {
 public:
  explicit ProgressReport(std::string_view solver);
  /// Tells that this share is done, if it was not told just before.
  void tell(double done);

 private:
  using Clock = std::chrono::steady_clock;

  std::string_view solver_;
  std::shared_ptr<const ProgressCallback> callback_;  // nullptr: nobody has asked.
  Clock::time_point begin_;
  Clock::time_point told_;
};

}  // namespace shoal::linalg
