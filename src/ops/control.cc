// Ops that run graphs under control: loops and branches. What they have in common stands in Control (ir/op.h); all
// their operands and results are those of the bodies, but for the index of a switch.
#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <string>

#include "ir/dim_attrs.h"
#include "ir/graph.h"
#include "ops/rules.h"
#include "ops/table.h"

namespace shoal {
namespace {

using Bodies = std::vector<GraphAttr>;

std::size_t count_of(const Attrs& attrs, std::string_view name) {
  return static_cast<std::size_t>(attrs.get<std::int64_t>(name));
}

// The same elements: over which devices these differ, and how they are divided, is another matter.
bool same_elements(const Type& a, const Type& b) {
  return a.dtype == b.dtype && a.shape == b.shape && a.memory == b.memory;
}

void check_same(const InferContext& context, const Type& is, const Type& wanted, const std::string& what) {
  if (same_elements(is, wanted)) return;
  infer_error(context, fmt::format("{} is {}, and should be {}", what, to_string(is), to_string(wanted)));
}

Type slice_of(const InferContext& context, const Type& whole, std::int64_t trips) {
  if (whole.rank() == 0 || whole.shape[0] != trips) {
    infer_error(context, fmt::format("{} is no stack of {} slices", to_string(whole), trips));
  }
  return without_dim(whole, 0);
}

void check_arguments(const InferContext& context, const Control& control, const Graph& body) {
  const std::size_t count = context.inputs.size() - control.first_argument;
  if (body.inputs.size() != count) {
    infer_error(context, fmt::format("graph '{}' takes {} arguments, not {}", body.name, body.inputs.size(), count));
  }
  for (std::size_t i = 0; i < count; ++i) {
    const Type& given = context.inputs[control.first_argument + i];
    const Type argument = control.is_slice(i) ? slice_of(context, given, *control.trips) : given;
    check_same(context, body.type(body.inputs[i]), argument, fmt::format("argument {} of graph '{}'", i, body.name));
  }
}

void check_counts(const InferContext& context, const Control& control, const Bodies& bodies) {
  if (bodies.empty() || bodies.size() != control.num_bodies || context.inputs.size() < control.first_argument) {
    infer_error(context, "has too few graphs or operands");
  }
  const std::size_t arguments = context.inputs.size() - control.first_argument;
  if (control.carries > arguments || control.slices > arguments - control.carries) {
    infer_error(context, fmt::format("has {} operands for {} carries and {} slices", arguments, control.carries,
                                     control.slices));
  }
  if (control.trips && *control.trips < 0) infer_error(context, fmt::format("has a length of {}", *control.trips));
}

std::vector<Type> infer_control(const InferContext& context) {
  const Control control = context.op.control(context.attrs);
  const Bodies& bodies = context.attrs.get<Bodies>("bodies");
  check_counts(context, control, bodies);
  const Graph& last = *bodies.back().graph;
  for (std::size_t b = 0; b < bodies.size(); ++b) {
    const Graph& body = *bodies[b].graph;
    check_arguments(context, control, body);
    if (control.asks && b == 0) {
      const bool answers = body.outputs.size() == 1 && body.type(body.outputs[0]).dtype == bool_ &&
                           body.type(body.outputs[0]).rank() == 0;
      if (!answers) infer_error(context, fmt::format("graph '{}' should give one bool", body.name));
      continue;
    }
    if (body.outputs.size() != last.outputs.size() || body.outputs.size() < control.carries) {
      infer_error(context, fmt::format("graph '{}' gives {} results", body.name, body.outputs.size()));
    }
    for (std::size_t i = 0; i < body.outputs.size(); ++i) {
      const Type& wanted =
          control.loops && i < control.carries ? body.type(body.inputs[i]) : last.type(last.outputs[i]);
      check_same(context, body.type(body.outputs[i]), wanted, fmt::format("result {} of graph '{}'", i, body.name));
    }
  }
  std::vector<Type> results = last.types(last.outputs);
  for (std::size_t i = 0; i < results.size(); ++i) {
    // Of branches the first says whether a result is weakly typed.
    const Graph& first = *bodies.front().graph;
    if (!control.asks) results[i].weak = first.type(first.outputs[i]).weak;
    for (const GraphAttr& body : bodies) {
      if (control.asks && &body == &bodies.front()) continue;
      results[i].varying = union_of(results[i].varying, body.graph->type(body.graph->outputs[i]).varying);
    }
    if (control.asks) {
      const Graph& question = *bodies.front().graph;
      results[i].varying = union_of(results[i].varying, question.type(question.outputs[0]).varying);
    }
    if (control.is_stack(i)) results[i] = with_dim(results[i], 0, *control.trips);
  }
  return results;
}

std::vector<Type> infer_switch(const InferContext& context) {
  if (context.inputs.empty() || context.inputs[0].dtype != int32 || context.inputs[0].rank() != 0) {
    infer_error(context, "takes an int32 scalar first, which says which graph runs");
  }
  std::vector<Type> results = infer_control(context);
  for (Type& result : results) result.varying = union_of(result.varying, context.inputs[0].varying);
  return results;
}

Control control_of_scan(const Attrs& attrs) {
  return {.loops = true,
          .carries = count_of(attrs, "carries"),
          .slices = count_of(attrs, "slices"),
          .trips = attrs.get<std::int64_t>("length"),
          .reverse = attrs.get<bool>("reverse")};
}

Control control_of_while(const Attrs& attrs) {
  return {.num_bodies = 2, .loops = true, .asks = true, .carries = count_of(attrs, "carries"), .trips = std::nullopt};
}

Control control_of_switch(const Attrs& attrs) {
  return {.num_bodies = attrs.get<Bodies>("bodies").size(), .first_argument = 1};
}

Control control_of_region(const Attrs&) { return {.recomputes = true}; }

const std::array kControlOps = {
    OpDef{.name = "scan",
          .doc = "Runs a graph `length` times, on carries, slices of arrays and captures, in this order.",
          .arity = -1,
          .op_class = OpClass::kControl,
          .infer = infer_control,
          .control = control_of_scan,
          .attributes =
              {{.name = "bodies"}, {.name = "carries"}, {.name = "slices"}, {.name = "length"}, {.name = "reverse"}}},
    OpDef{.name = "while",
          .doc = "Runs the second graph, on carries and captures, as long as the first one says so.",
          .arity = -1,
          .op_class = OpClass::kControl,
          .infer = infer_control,
          .control = control_of_while,
          .attributes = {{.name = "bodies"}, {.name = "carries"}}},
    OpDef{.name = "switch",
          .doc = "Runs the graph that the first operand says, or the nearest there is, on the others.",
          .arity = -1,
          .op_class = OpClass::kControl,
          .infer = infer_switch,
          .control = control_of_switch,
          .attributes = {{.name = "bodies"}}},
    OpDef{.name = "region",
          .doc = "Runs a graph, which no pass opens.",
          .arity = -1,
          .op_class = OpClass::kControl,
          .infer = infer_control,
          .control = control_of_region,
          .attributes = {{.name = "bodies"}}},
};

}  // namespace

std::span<const OpDef> control_ops() { return kControlOps; }

}  // namespace shoal
