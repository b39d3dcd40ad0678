#include "backend/reference/reference.h"

#include <fmt/format.h>

#include "shoal/error.h"

namespace shoal {
namespace {

class ReferenceKernel final : public Kernel {
 public:
  ReferenceKernel(const OpDef& op, Attrs attrs) : op_(op), attrs_(std::move(attrs)) {}

  void run(std::span<const TensorView> inputs, std::span<const TensorView> outputs, std::byte*,
           std::int64_t) const override {
    op_.reference({.op = op_, .attrs = attrs_, .inputs = inputs, .outputs = outputs});
  }

  bool may_overwrite(std::size_t, std::size_t) const override { return op_.elementwise != nullptr; }

 private:
  const OpDef& op_;
  Attrs attrs_;
};

class ReferenceBackend final : public Backend {
 public:
  std::string_view name() const override { return "reference"; }

  AddressSpace& address_space(const Device&, MemoryKind kind) const override { return host_space(kind); }

  std::unique_ptr<Kernel> compile(const Graph&, const Eqn& eqn) const override { return reference_kernel(eqn, name()); }
};

}  // namespace

std::unique_ptr<Kernel> reference_kernel(const Eqn& eqn, std::string_view backend) {
  if (eqn.op->reference == nullptr) {
    throw Unsupported(fmt::format("{}: the back end '{}' has no kernel for this op{}", eqn.op->name, backend,
                                  derived_note(eqn.where)),
                      eqn.where);
  }
  return std::make_unique<ReferenceKernel>(*eqn.op, eqn.attrs);
}

const Backend& reference_backend() {
  static const auto& backend = *new ReferenceBackend;  // Programs may still run when the process exits.
  return backend;
}

}  // namespace shoal
