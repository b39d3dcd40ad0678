// The back end that fuses and compiles.
#include "backend/backend.h"
#include "backend/cpu/fuse.h"
#include "backend/cpu/loops/fused_kernel.h"
#include "backend/cpu/loops/loop_shape.h"
#include "backend/cpu/moves/move_kernel.h"
#include "backend/cpu/products/dot.h"
#include "backend/cpu/products/fused_product.h"
#include "backend/cpu/sorts/sort_kernel.h"
#include "backend/reference/reference.h"

namespace shoal {
namespace {

// A graph of one equation, with an input for each operand, also where the same value is passed twice.
Graph graph_of(const Graph& graph, const Eqn& eqn) {
  Graph body;
  Eqn copy = eqn;
  for (ValueId& id : copy.inputs) id = body.add_input(graph.type(id));
  for (ValueId& id : copy.outputs) id = body.add_value(graph.type(id));
  body.outputs = copy.outputs;
  body.eqns.push_back(std::move(copy));
  return body;
}

class CpuBackend final : public Backend {
 public:
  std::string_view name() const override { return "cpu"; }

  AddressSpace& address_space(const Device&, MemoryKind kind) const override { return host_space(kind); }

  Graph fuse(Graph graph) const override { return cpu::fuse_loops(graph); }

  std::unique_ptr<Kernel> compile(const Graph& graph, const Eqn& eqn) const override {
    std::unique_ptr<Kernel> kernel;
    if (eqn.op->name == "fusion") {
      const Graph& body = eqn.attrs.graph();
      kernel = cpu::is_product(body.eqns.front()) ? cpu::fused_product(body) : cpu::fused_kernel(body);
    } else if (cpu::is_loop_op(graph, eqn)) {
      kernel = cpu::fused_kernel(graph_of(graph, eqn));
    } else if (cpu::is_product(eqn)) {
      kernel = cpu::dot_kernel(graph, eqn);
    } else {
      kernel = cpu::move_kernel(graph, eqn);
      if (kernel == nullptr) kernel = cpu::sort_kernel(eqn);
    }
    return kernel != nullptr ? std::move(kernel) : reference_kernel(eqn, name());
  }
};

}  // namespace

const Backend& cpu_backend() {
  static const auto& backend = *new CpuBackend;  // Programs may still run when the process exits.
  return backend;
}

}  // namespace shoal
