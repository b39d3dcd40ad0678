#include "runtime/executable.h"

#include <new>
#include <utility>

#include "base/check.h"

namespace shoal {

// A launch that nobody else uses.
class Executable::Borrowed {
 public:
  explicit Borrowed(const Executable& executable) : executable_(executable) {
    launch_.reset(executable.spare_.exchange(nullptr, std::memory_order_acquire));
    if (launch_ != nullptr) return;
    {
      const std::lock_guard lock(executable.mutex_);
      if (!executable.spares_.empty()) {
        launch_ = std::move(executable.spares_.back());
        executable.spares_.pop_back();
        return;
      }
    }
    launch_ = std::make_unique<Launch>(executable.schedule_);
  }
  ~Borrowed() {
    if (launch_->may_be_read()) {
      launch_.release();
      return;
    }
    launch_->clear();
    Launch* nothing = nullptr;
    if (executable_.spare_.compare_exchange_strong(nothing, launch_.get(), std::memory_order_release,
                                                   std::memory_order_relaxed)) {
      launch_.release();
      return;
    }
    try {
      const std::lock_guard lock(executable_.mutex_);
      executable_.spares_.push_back(std::move(launch_));
    } catch (const std::bad_alloc&) {
      // A later launch makes another.
    }
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;

  Launch* operator->() const { return launch_.get(); }

 private:
  const Executable& executable_;
  std::unique_ptr<Launch> launch_;
};

Executable::Executable(GraphPtr graph, const Backend& backend, const std::vector<Reuse>& reuses, const Digest& digest)
    : schedule_(make_schedule(std::move(graph), backend, reuses, digest)) {}

Executable::Executable(Graph graph, const Backend& backend, const std::vector<Reuse>& reuses, const Digest& digest)
    : Executable(std::make_shared<const Graph>(std::move(graph)), backend, reuses, digest) {}

Executable::~Executable() { delete spare_.load(); }

std::vector<ShardSet> Executable::run(std::vector<ShardSet> inputs, const Digest& lineage,
                                      const LaunchCall& call) const {
  SHOAL_CHECK(inputs.size() == graph().inputs.size(), "an executable takes as many inputs as its graph");
  return Borrowed(*this)->run(std::move(inputs), lineage, call);
}

}  // namespace shoal
