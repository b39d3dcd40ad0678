// Ops of users: what one computes is a function of the user's program, and how it is split a rule in its own text.
//
// `name` is the user's; `rule` is read by ir/rule_text.h; `results` are the types of the results, as "f32[4,8]", so
// that a graph that was read from text has them, too; `function` is what the user wrote.
#include <array>
#include <cstring>

#include "base/check.h"
#include "ir/graph.h"
#include "ir/rule_text.h"
#include "ops/batching.h"
#include "ops/rules.h"
#include "ops/table.h"

namespace shoal {
namespace {

std::vector<Type> infer_custom(const InferContext& context) {
  std::vector<Type> types = promised_results(context.attrs);
  for (Type& type : types) {
    type.memory = common_memory(context);
    type.varying = joint_varying(context);
  }
  return types;
}

std::vector<Shape> shapes_of(std::span<const Type> types) {
  std::vector<Shape> shapes;
  for (const Type& type : types) shapes.push_back(type.shape);
  return shapes;
}

ShardingRule kernel_rule(const RuleContext& context) {
  const auto& name = context.attrs.get<std::string>("name");
  const RuleText text(context.attrs.get<std::string>("rule"), name, {});
  return text.for_shapes(shapes_of(context.inputs), shapes_of(context.outputs), name, {});
}

// A function is traced for shards of one shape.
ShardingRule function_rule(const RuleContext& context) {
  ShardingRule rule = kernel_rule(context);
  rule.even = true;
  return rule;
}

const Callback& function_of(const Attrs& attrs) {
  const auto& callback = attrs.get<CallbackAttr>("function").callback;
  SHOAL_CHECK(callback != nullptr, "a graph that was read from text has no functions");
  return *callback;
}

GraphPtr expand_function(const ExpandContext& context) {
  return function_of(context.attrs).on_shards(context.operands, context.results, context.where);
}

Attrs localize_results(const LocalizeContext& context) {
  Attrs attrs = context.attrs;
  std::vector<std::string> results;
  for (const Type& type : context.local_outputs) {
    results.push_back(promise_of(type));
  }
  attrs.set("results", std::move(results));
  return attrs;
}

void run_kernel(const KernelContext& context) { function_of(context.attrs).on_views(context.inputs, context.outputs); }

// Interprets the graph of the user's function.
void run_function(const KernelContext& context) {
  const auto type_of = [](const TensorView& view) { return Type{.dtype = view.dtype, .shape = view.shape}; };
  std::vector<Type> operands;
  std::vector<Type> results;
  for (const TensorView& view : context.inputs) operands.push_back(type_of(view));
  for (const TensorView& view : context.outputs) results.push_back(type_of(view));
  const GraphPtr graph = function_of(context.attrs).on_shards(operands, results, {});
  std::vector<Buffer> buffers(graph->values.size());
  const auto view_of = [&](ValueId id) { return buffers[slot(id)].view(); };
  const auto copy = [](const TensorView& from, const TensorView& to) {
    std::memcpy(to.data, from.data, static_cast<std::size_t>(num_elements(to.shape)) * size_of(to.dtype));
  };
  const auto make = [&](ValueId id) {
    const Type& type = graph->type(id);
    buffers[slot(id)] = Buffer(host_space(type.memory), type.dtype, type.shape);
  };
  for (std::size_t i = 0; i < operands.size(); ++i) {
    make(graph->inputs[i]);
    copy(context.inputs[i], view_of(graph->inputs[i]));
  }
  for (const Eqn& eqn : graph->eqns) {
    if (eqn.op->reference == nullptr) continue;  // Effects, which a plain evaluation has not.
    std::vector<TensorView> inputs;
    std::vector<TensorView> outputs;
    for (ValueId id : eqn.inputs) inputs.push_back(view_of(id));
    for (ValueId id : eqn.outputs) {
      make(id);
      outputs.push_back(view_of(id));
    }
    eqn.op->reference({.op = *eqn.op, .attrs = eqn.attrs, .inputs = inputs, .outputs = outputs});
  }
  for (std::size_t i = 0; i < results.size(); ++i) copy(view_of(graph->outputs[i]), context.outputs[i]);
}

constexpr AttrFacts kAttributes = {
    {.name = "function"}, {.name = "name", .role = AttrRole::kLabel}, {.name = "results"}, {.name = "rule"}};

const std::array kCustomOps = {
    OpDef{.name = "custom_op",
          .doc = "What the function of a user gives for the operands; it is applied to each shard.",
          .arity = -1,
          .infer = infer_custom,
          .rule = function_rule,
          .expand = expand_function,
          .reference = run_function,
          .flops = reduction_flops,
          .batch = batched_one_by_one,
          .attributes = kAttributes},
    OpDef{.name = "custom_kernel",
          .doc = "What a user's own code writes for the operands, shard by shard.",
          .arity = -1,
          .infer = infer_custom,
          .rule = kernel_rule,
          .localize = localize_results,
          .reference = run_kernel,
          .flops = reduction_flops,
          .batch = batched_one_by_one,
          .attributes = kAttributes},
};

}  // namespace

std::span<const OpDef> custom_ops() { return kCustomOps; }

}  // namespace shoal
