#include <fmt/format.h>

#include "backend/backend.h"
#include "shoal/error.h"

namespace shoal {
namespace {

class ReferenceKernel final : public Kernel {
 public:
  ReferenceKernel(const OpDef& op, Attrs attrs) : op_(op), attrs_(std::move(attrs)) {}

  void run(std::span<const TensorView> inputs, std::span<const TensorView> outputs) const override {
    op_.reference({.op = op_, .attrs = attrs_, .inputs = inputs, .outputs = outputs});
  }

 private:
  const OpDef& op_;
  Attrs attrs_;
};

class ReferenceBackend final : public Backend {
 public:
  std::string_view name() const override { return "reference"; }

  AddressSpace& address_space(const Device&, MemoryKind kind) const override { return host_space(kind); }

  std::unique_ptr<Kernel> compile(const Graph&, const Eqn& eqn) const override {
    if (eqn.op->reference == nullptr) {
      throw Unsupported(fmt::format("{}: the back end '{}' has no kernel for this op", eqn.op->name, name()),
                        eqn.where);
    }
    return std::make_unique<ReferenceKernel>(*eqn.op, eqn.attrs);
  }
};

}  // namespace

const Backend& reference_backend() {
  static const ReferenceBackend backend;
  return backend;
}

}  // namespace shoal
