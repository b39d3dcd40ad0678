// How far solvers of large matrices have come (shoal/linalg.h, shoal/solvers.h).
#pragma once

#include <cstdio>
#include <functional>
#include <string>

namespace shoal::linalg {

/// Of one solver that is running.
struct SolverProgress {
  std::string solver;  ///< Its name in ScaLAPACK: "potrf".
  double done;         ///< The share of this process' work, from 0 to 1.
  double seconds;      ///< Since it began.
};
using ProgressCallback = std::function<void(const SolverProgress&)>;

/// From now on `callback` is told of every solver that this process runs, some ten times in a second, and once when it
/// is done; an empty one ends that. It is called by a thread that computes, while the solver waits, and must not launch
/// programs. What it throws becomes the error of the computation. Returns the one before. Any thread may call it.
/// @param callback The function.
ProgressCallback on_progress(ProgressCallback callback);

/// A callback that draws a bar on one line of a terminal: "potrf ━━━━━━──────  52 %   1.3 s".
/// @param out Where the bar is drawn.
ProgressCallback progress_bar(std::FILE* out = stderr);

}  // namespace shoal::linalg
