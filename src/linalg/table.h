// The solvers: ops on distributed matrices that all devices of a group compute together.
#pragma once

#include <complex>
#include <cstdint>
#include <span>

#include "comm/collectives/collective.h"
#include "ir/graph.h"

namespace shoal::linalg {

collectives::CollectivePtr potrf(const collectives::Context& context);
collectives::CollectivePtr trsm(const collectives::Context& context);

/// The solver of an equation of a partitioned graph, whose values have shards of these shapes.
collectives::CollectivePtr make_solver(const Graph& graph, const Eqn& eqn, std::span<const ShardShapes> shapes);

/// Calls f(T{}) for the dtype of a matrix.
template <class F>
auto with_matrix_dtype(Dtype dtype, F&& f) {
  switch (dtype) {
    case Dtype::kF32:
      return f(float{});
    case Dtype::kF64:
      return f(double{});
    case Dtype::kC64:
      return f(std::complex<float>{});
    default:
      return f(std::complex<double>{});
  }
}

}  // namespace shoal::linalg
