#include "backend/cpu/kernels.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "backend/cpu/attention/attention_kernel.h"
#include "backend/cpu/decompositions/decomposition_kernels.h"
#include "backend/cpu/loops/fused_kernel.h"
#include "backend/cpu/loops/loop_shape.h"
#include "backend/cpu/moves/item_kernels.h"
#include "backend/cpu/moves/move_kernels.h"
#include "backend/cpu/moves/window_kernels.h"
#include "backend/cpu/products/dot.h"
#include "backend/cpu/products/fused_product.h"
#include "backend/cpu/scans/scan_kernels.h"
#include "backend/cpu/sorts/sort_kernels.h"
#include "backend/cpu/transforms/fft_kernel.h"
#include "backend/cpu/windows/convolution.h"
#include "backend/cpu/windows/reduce_window.h"
#include "backend/reference/reference.h"
#include "base/check.h"
#include "ops/builder.h"

namespace shoal::cpu {
namespace {

// The shards that a step computes in this process.
std::int64_t shards_of_step(const Graph& graph, const Eqn& eqn) {
  if (graph.grid == nullptr) return 1;
  return std::ssize(graph.grid->held(graph.value(eqn.outputs[0]).varying).shards);
}

// The loop of one equation. Its graph has an input for each operand, also where the same value is passed twice.
std::unique_ptr<Kernel> loop_kernel(const Graph& graph, const Eqn& eqn) {
  if (!is_loop_op(graph, eqn)) return nullptr;
  Graph body;
  Eqn copy = eqn;
  for (ValueId& id : copy.inputs) id = body.add_input(graph.type(id));
  for (ValueId& id : copy.outputs) id = body.add_value(graph.type(id));
  body.outputs = copy.outputs;
  body.eqns.push_back(std::move(copy));
  return fused_kernel(body, shards_of_step(graph, eqn));
}

// A loop that stores positions.
std::unique_ptr<Kernel> count_kernel(const Graph& graph, const Eqn& eqn) {
  if (!is_known(eqn)) return nullptr;
  Graph body;
  const Type& type = graph.type(eqn.outputs[0]);
  const ValueId counted = body.add_value(type);
  const ValueId stored = body.add_value(type);
  body.outputs = {stored};
  body.eqns.push_back({.op = eqn.op, .attrs = eqn.attrs, .inputs = {}, .outputs = {counted}, .where = eqn.where});
  Builder(body, eqn.where).into(stored).convert(counted, type.dtype);
  return fused_kernel(body, shards_of_step(graph, eqn));
}

// What fuse_loops has put together.
std::unique_ptr<Kernel> fusion_kernel(const Graph& graph, const Eqn& eqn) {
  const Graph& body = eqn.attrs.graph();
  if (is_gather(body.eqns.front())) return placed_gather_kernel(body);
  if (is_product(body.eqns.front())) return fused_product(body);
  return fused_kernel(body, shards_of_step(graph, eqn));
}

std::unique_ptr<Kernel> product_kernel(const Graph& graph, const Eqn& eqn) { return dot_kernel(graph, eqn); }

constexpr KernelRow kElementwise = {"(elementwise ops)", loop_kernel};
constexpr KernelRow kReductions = {"(reductions)", loop_kernel, "of complex numbers, or over no dimension"};

constexpr KernelRow kCounts = {"(positions)", count_kernel, "of complex numbers"};
constexpr KernelRow kMoves = {"(moves)", move_kernel};

constexpr KernelRow kRows[] = {
    {"fusion", fusion_kernel},
    {"dot_general", product_kernel},
    {"convolution", convolution_kernel},
    {"reduce_window", reduce_window_kernel},
    {"full", fill_kernel},
    {"gather", gather_kernel, "into another dtype"},
    {"dynamic_slice", window_kernel, "into another dtype"},
    {"dynamic_update_slice", window_update_kernel},
    {"scatter", scatter_kernel},
    {"scatter_reduce", scatter_reduce_kernel},
    {"scatter_combine", scatter_combine_kernel},
    {"sort", sort_kernel},
    {"top_k", top_k_kernel},
    {"cumsum", cumsum_kernel},
    {"cumprod", cumprod_kernel},
    {"cummax", cummax_kernel},
    {"cummin", cummin_kernel},
    {"cumlogsumexp", cumlogsumexp_kernel},
    {.op = "cholesky", .make = cholesky_kernel, .rounds_differently = true},
    {.op = "triangular_solve", .make = triangular_solve_kernel, .rounds_differently = true},
    {.op = "lu", .make = lu_kernel, .rounds_differently = true},
    {.op = "qr", .make = qr_kernel, .rounds_differently = true},
    {.op = "eigh", .make = eigh_kernel, .rounds_differently = true},
    {.op = "svd", .make = svd_kernel, .rounds_differently = true},
    {.op = "hessenberg", .make = hessenberg_kernel, .rounds_differently = true},
    {.op = "householder_product", .make = householder_product_kernel, .rounds_differently = true},
    {.op = "schur", .make = schur_kernel, .rounds_differently = true},
    {.op = "eig", .make = eig_kernel, .rounds_differently = true},
    {.op = "fft", .make = fft_kernel, .rounds_differently = true},
    {.op = "attention", .make = attention_kernel, .rounds_differently = true},
    {.op = "attention_gradient", .make = attention_gradient_kernel, .rounds_differently = true},
};

}  // namespace

bool is_gather(const Eqn& eqn) {
  const KernelRow* row = kernel_row(*eqn.op);
  return row != nullptr && row->make == gather_kernel;
}

const KernelRow* kernel_row(const OpDef& op) {
  if (op.elementwise != nullptr) return &kElementwise;
  if (op.reduces) return &kReductions;
  if (op.counts) return &kCounts;
  if (only_moves(op)) return &kMoves;
  const auto* row = std::ranges::find(kRows, op.name, &KernelRow::op);
  return row == std::end(kRows) ? nullptr : row;
}

std::unique_ptr<Kernel> make_kernel(const Graph& graph, const Eqn& eqn) {
  if (const KernelRow* row = kernel_row(*eqn.op)) {
    if (std::unique_ptr<Kernel> kernel = row->make(graph, eqn)) return kernel;
    SHOAL_CHECK(!row->all_but.empty(),
                "a kernel that takes all equations does not take one of " + std::string(eqn.op->name));
  }
  return reference_kernel(eqn, "cpu");
}

}  // namespace shoal::cpu
