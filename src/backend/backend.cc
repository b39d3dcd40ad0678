#include "backend/backend.h"

#include <memory>
#include <new>
#include <string>

#include "base/env.h"
#include "shoal/error.h"

namespace shoal {
namespace {

thread_local const Backend* scoped = nullptr;

const Backend& chosen_backend() {
  const auto wanted = env_choice("SHOAL_BACKEND", {"cpu", "reference"});
  return wanted == "reference" ? reference_backend() : cpu_backend();
}

}  // namespace

Work Kernel::work(std::span<const TensorView>, std::span<const TensorView>) const { return {}; }

void Kernel::run_tiles(std::span<const TensorView> inputs, std::span<const TensorView> outputs, std::byte* scratch,
                       std::int64_t begin, std::int64_t end) const {
  for (std::int64_t tile = begin; tile < end; ++tile) run(inputs, outputs, scratch, tile);
}

void Kernel::run_shards(std::span<const ShardTiles> shards) const {
  for (const auto& [inputs, outputs, scratch, begin, end] : shards) run_tiles(inputs, outputs, scratch, begin, end);
}

void Kernel::finish(std::span<const TensorView>, std::span<const TensorView>, std::byte*) const {}

bool Kernel::may_overwrite(std::size_t, std::size_t) const { return false; }

collectives::CollectivePtr Backend::compile_collective(const Graph&, const Eqn& eqn,
                                                       std::span<const ShardShapes>) const {
  throw InternalError(std::string("the back end ") + std::string(name()) + " makes no collective of " +
                      std::string(eqn.op->name));
}

void run_kernel(const Kernel& kernel, std::span<const TensorView> inputs, std::span<const TensorView> outputs) {
  struct Free {
    void operator()(std::byte* data) const { ::operator delete (data, std::align_val_t{64}); }
  };
  const Work work = kernel.work(inputs, outputs);
  const std::unique_ptr<std::byte, Free> scratch(
      work.scratch_bytes == 0 ? nullptr
                              : static_cast<std::byte*>(::operator new (work.scratch_bytes, std::align_val_t{64})));
  kernel.run_tiles(inputs, outputs, scratch.get(), 0, work.tiles);
  kernel.finish(inputs, outputs, scratch.get());
}

const Backend& current_backend() {
  if (scoped != nullptr) return *scoped;
  static const Backend& chosen = chosen_backend();
  return chosen;
}

BackendScope::BackendScope(const Backend& backend) : before_(scoped) { scoped = &backend; }

BackendScope::~BackendScope() { scoped = before_; }

}  // namespace shoal
