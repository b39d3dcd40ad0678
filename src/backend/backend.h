// The interface of a back end: it turns equations of partitioned graphs into kernels and owns the memories of its
// devices. docs/design/0003 reviews it with CUDA in mind.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "core/buffer.h"
#include "ir/graph.h"

namespace shoal {

/// One step's computation on one shard. Immutable: any number of threads may run it at once.
class Kernel {
 public:
  virtual ~Kernel() = default;
  /// Computes the results from the operands. Shapes are those of the shard at hand, which need not be those the kernel
  /// was compiled for.
  virtual void run(std::span<const TensorView> inputs, std::span<const TensorView> outputs) const = 0;
};

/// Objects live as long as the process; the functions may be called from any thread.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  /// Where values of a memory kind live on a device. Devices that share a space share buffers.
  virtual AddressSpace& address_space(const Device& device, MemoryKind kind) const = 0;
  /// A kernel for a compute op of a partitioned graph. Throws Unsupported for an op that the back end has not.
  virtual std::unique_ptr<Kernel> compile(const Graph& graph, const Eqn& eqn) const = 0;
};

/// The back end that interprets each op's reference: slow, obvious, and the oracle of every test.
const Backend& reference_backend();

}  // namespace shoal
