#include "ops/eqn_cost.h"

#include <vector>

#include "ir/bodies.h"

namespace shoal {
namespace {

// Operations on elements that take as long as moving a byte.
constexpr double kFlopsPerByte = 8;

}  // namespace

double bytes_of(const Shape& shape, Dtype dtype) {
  return static_cast<double>(num_elements(shape)) * static_cast<double>(size_of(dtype));
}

double bytes_of(const Type& type) { return bytes_of(type.shape, type.dtype); }

double flops(const Graph& graph, const Eqn& eqn) {
  if (eqn.op->flops == nullptr) return 0;
  const std::vector<Type> inputs = graph.types(eqn.inputs);
  const std::vector<Type> outputs = graph.types(eqn.outputs);
  return eqn.op->flops({.op = *eqn.op, .inputs = inputs, .outputs = outputs, .attrs = eqn.attrs});
}

double work_of(const Graph& graph, const Eqn& eqn) {
  double bytes = flops(graph, eqn) / kFlopsPerByte;
  for (const auto* ids : {&eqn.inputs, &eqn.outputs}) {
    for (const ValueId id : *ids) bytes += bytes_of(graph.type(id));
  }
  return bytes;
}

double work_with_bodies(const Graph& graph, const Eqn& eqn) {
  double work = work_of(graph, eqn);
  if (eqn.op->control == nullptr) return work;
  const double trips = eqn.op->control(eqn.attrs).weight();
  for (const Graph* body : bodies_of(eqn)) {
    for (const Eqn& inside : body->eqns) work += trips * work_with_bodies(*body, inside);
  }
  return work;
}

}  // namespace shoal
