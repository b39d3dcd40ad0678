#include "backend/cpu/products/fused_product.h"

#include <algorithm>
#include <array>
#include <utility>

#include "backend/cpu/loops/compiler.h"
#include "backend/cpu/loops/interpreter.h"
#include "backend/cpu/products/dot.h"
#include "base/check.h"

namespace shoal::cpu {
namespace {

/// The loop that follows a product. The product is an input of it, after those of the kernel.
class Epilogue {
 public:
  Epilogue(LoopPlan plan, const Graph& body)
      : plan_(std::move(plan)), product_(body.inputs.size()), interpreter_(interpret_loop(plan_.loop)) {
    const std::int64_t elements = num_elements(body.type(body.eqns.front().outputs[0]).shape);
    compiled_ = compile_loop(plan_.loop, elements >= kLargeElements ? When::kNow : When::kInBackground);
    for (ValueId id : body.inputs) usual_inputs_.push_back(body.type(id).shape);
    for (ValueId id : body.outputs) usual_outputs_.push_back(body.type(id).shape);
    usual_ = strides(usual_inputs_, usual_outputs_);
  }

  void run(const DotTile& tile, std::span<const TensorView> inputs, std::span<const TensorView> outputs) const {
    const bool is_usual = have_shapes(inputs, usual_inputs_) && have_shapes(outputs, usual_outputs_);
    const LoopStrides others = is_usual ? LoopStrides() : strides(shapes_of(inputs), shapes_of(outputs));
    const LoopStrides& strides = is_usual ? usual_ : others;
    const std::size_t dims = strides.extents.size();
    const std::int64_t run = dims < 2 ? 1 : strides.extents[dims - 2];
    const LoopRunner* compiled = compiled_->runner();
    const LoopRunner& loop = compiled != nullptr ? *compiled : *interpreter_;
    for (std::int64_t row = tile.row; row < tile.row + tile.rows;) {
      const std::int64_t count = std::min(tile.row + tile.rows - row, run - row % run);
      std::array<std::byte*, kMostArrays> bases;
      std::array<std::int64_t, kMostArrays> row_strides;
      std::array<std::int64_t, kMostArrays> column_strides;
      const std::size_t arrays = plan_.operands.size();
      for (std::size_t a = 0; a < arrays; ++a) {
        const LoopOperand& operand = plan_.operands[a];
        column_strides[a] = strides.strides[a].back();
        row_strides[a] = dims < 2 ? 0 : strides.strides[a][dims - 2];
        void* data = operand.kind == LoopOperand::Kind::kOutput  ? outputs[operand.number].data
                     : operand.kind == LoopOperand::Kind::kCount ? address_of_count(0)
                     : is_tile(operand)                          ? tile.data
                                                                 : inputs[operand.number].data;
        bases[a] = static_cast<std::byte*>(data) + strides.offsets[a] + tile.column * column_strides[a];
      }
      move_to_row(strides, row, {bases.data(), arrays});
      for (std::size_t a = 0; a < arrays; ++a) {
        if (!is_tile(plan_.operands[a])) continue;
        bases[a] = tile.data + (row - tile.row) * tile.row_stride;
        row_strides[a] = tile.row_stride;
      }
      loop.run({.bases = bases.data(),
                .row_strides = row_strides.data(),
                .column_strides = column_strides.data(),
                .rows = count,
                .columns = tile.columns,
                .scratch = nullptr});
      row += count;
    }
  }

 private:
  static std::vector<Shape> shapes_of(std::span<const TensorView> views) {
    std::vector<Shape> shapes;
    for (const TensorView& view : views) shapes.push_back(view.shape);
    return shapes;
  }

  static bool have_shapes(std::span<const TensorView> views, const std::vector<Shape>& shapes) {
    return std::ranges::equal(views, shapes, {}, &TensorView::shape);
  }

  LoopStrides strides(const std::vector<Shape>& inputs, const std::vector<Shape>& outputs) const {
    return strides_of(plan_, [&](const LoopOperand& operand) -> const Shape& {
      // All outputs have the shape of the product.
      if (operand.kind == LoopOperand::Kind::kOutput) return outputs[operand.number];
      return is_tile(operand) ? outputs[0] : inputs[operand.number];
    });
  }

  bool is_tile(const LoopOperand& operand) const {
    return operand.kind == LoopOperand::Kind::kInput && operand.number == product_;
  }

  LoopPlan plan_;
  std::size_t product_;
  std::unique_ptr<LoopRunner> interpreter_;
  std::shared_ptr<const CompiledLoop> compiled_;
  // Of most shards, worked out once.
  std::vector<Shape> usual_inputs_;
  std::vector<Shape> usual_outputs_;
  LoopStrides usual_;
};

}  // namespace

bool is_product(const Eqn& eqn) { return eqn.op->name == "dot_general"; }

std::optional<LoopPlan> plan_after_product(const Graph& body) {
  const Eqn& product = body.eqns.front();
  SHOAL_CHECK(is_product(product) && body.inputs.size() >= 2 && product.inputs[0] == body.inputs[0] &&
                  product.inputs[1] == body.inputs[1],
              "a fused product begins with its operands");
  // The columns are the right operand's free dimensions.
  const std::size_t free = body.type(product.inputs[1]).rank() - product.attrs.get<Dims>("rhs_contract").size() -
                           product.attrs.get<Dims>("rhs_batch").size();
  if (free == 0) return std::nullopt;
  const Type& result = body.type(product.outputs[0]);
  for (ValueId id : body.outputs) {
    if (body.type(id).shape != result.shape) return std::nullopt;
  }
  Graph loop = body;
  loop.eqns.erase(loop.eqns.begin());
  loop.inputs.push_back(product.outputs[0]);
  std::optional<LoopPlan> plan = lower(loop, static_cast<int>(free));
  if (!plan || plan->operands.size() > kMostArrays) return std::nullopt;
  // A tile is all there is of the product: each element is read where it is, and no other.
  for (const LoopOperand& operand : plan->operands) {
    if (operand.kind != LoopOperand::Kind::kInput || operand.number != body.inputs.size()) continue;
    for (std::size_t d = 0; d < operand.dims.size(); ++d) {
      if (result.shape[d] != 1 && operand.dims[d] != static_cast<int>(d)) return std::nullopt;
    }
    const auto is = [](std::int64_t value) { return [value](std::int64_t x) { return x == value; }; };
    if (!std::ranges::all_of(operand.starts, is(0)) || !std::ranges::all_of(operand.steps, is(1))) return std::nullopt;
  }
  return plan;
}

std::unique_ptr<Kernel> fused_product(const Graph& body) {
  const Eqn& product = body.eqns.front();
  std::optional<LoopPlan> plan = plan_after_product(body);
  SHOAL_CHECK(plan.has_value(), "a product is fused with what a loop computes");
  const auto epilogue = std::make_shared<const Epilogue>(std::move(*plan), body);
  const auto follow = [epilogue](const DotTile& tile, std::span<const TensorView> inputs,
                                 std::span<const TensorView> outputs) { epilogue->run(tile, inputs, outputs); };
  return dot_kernel(body, product, follow);
}

}  // namespace shoal::cpu
