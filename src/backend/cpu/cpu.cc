// The back end that fuses and compiles.
#include <utility>

#include "backend/backend.h"
#include "backend/cpu/fuse.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/loops/repeated_kernel.h"
#include "backend/cpu/products/summed_product.h"

namespace shoal {
namespace {

class CpuBackend final : public Backend {
 public:
  std::string_view name() const override { return "cpu"; }

  AddressSpace& address_space(const Device&, MemoryKind kind) const override { return host_space(kind); }

  using Backend::fuse;
  Graph fuse(Graph graph, FusionGoal goal) const override { return cpu::fuse_loops(std::move(graph), goal); }

  std::unique_ptr<Kernel> compile(const Graph& graph, const Eqn& eqn) const override {
    return cpu::make_kernel(graph, eqn);
  }

  collectives::CollectivePtr compile_collective(const Graph& graph, const Eqn& eqn,
                                                std::span<const ShardShapes> shapes) const override {
    return cpu::summed_product(graph, eqn, shapes);
  }

  std::unique_ptr<RepeatedKernel> compile_repeated(const Graph& body, const Graph* condition, std::size_t carries,
                                                   std::int64_t trips) const override {
    return cpu::repeated_kernel(body, condition, carries, trips);
  }
};

}  // namespace

const Backend& cpu_backend() {
  static const auto& backend = *new CpuBackend;  // Programs may still run when the process exits.
  return backend;
}

}  // namespace shoal
