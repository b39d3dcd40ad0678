#include "base/progress.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

namespace shoal::linalg {
namespace {

constexpr std::chrono::milliseconds kBetween{100};
constexpr int kBar = 32;

struct Asked {
  std::mutex mutex;
  std::shared_ptr<const ProgressCallback> callback;
};

Asked& asked() {
  static Asked everybody;
  return everybody;
}

}  // namespace

ProgressCallback on_progress(ProgressCallback callback) {
  std::shared_ptr<const ProgressCallback> made;
  if (callback) made = std::make_shared<const ProgressCallback>(std::move(callback));
  {
    const std::lock_guard lock(asked().mutex);
    asked().callback.swap(made);
  }
  return made == nullptr ? ProgressCallback() : *made;
}

ProgressReport::ProgressReport(std::string_view solver) : solver_(solver) {
  {
    const std::lock_guard lock(asked().mutex);
    callback_ = asked().callback;
  }
  if (callback_ == nullptr) return;
  begin_ = told_ = Clock::now();
}

void ProgressReport::tell(double done) {
  if (callback_ == nullptr) return;
  const Clock::time_point now = Clock::now();
  if (done < 1 && now - told_ < kBetween) return;
  told_ = now;
  const std::chrono::duration<double> passed = now - begin_;
  (*callback_)({.solver = std::string(solver_), .done = done, .seconds = passed.count()});
}

ProgressCallback progress_bar(std::FILE* out) {
  return [out](const SolverProgress& progress) {
    const int filled = static_cast<int>(std::clamp(progress.done, 0.0, 1.0) * kBar);
    std::string bar;
    for (int i = 0; i < kBar; ++i) bar += i < filled ? "━" : "─";
    std::fprintf(out, "\r%s %s %3.0f %% %7.1f s%s", progress.solver.c_str(), bar.c_str(), 100 * progress.done,
                 progress.seconds, progress.done < 1 ? "" : "\n");
    std::fflush(out);
  };
}

}  // namespace shoal::linalg
