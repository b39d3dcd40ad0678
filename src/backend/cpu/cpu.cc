// The back end that fuses and compiles.
#include "backend/backend.h"
#include "backend/reference/reference.h"

namespace shoal {
namespace {

class CpuBackend final : public Backend {
 public:
  std::string_view name() const override { return "cpu"; }

  AddressSpace& address_space(const Device&, MemoryKind kind) const override { return host_space(kind); }

  std::unique_ptr<Kernel> compile(const Graph&, const Eqn& eqn) const override { return reference_kernel(eqn, name()); }
};

}  // namespace

const Backend& cpu_backend() {
  static const CpuBackend backend;
  return backend;
}

}  // namespace shoal
