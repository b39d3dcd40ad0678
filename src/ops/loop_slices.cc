#include "ops/loop_slices.h"

#include <utility>
#include <vector>

#include "ops/builder.h"

namespace shoal {

Type position_of_slices() { return {.dtype = int64, .shape = {}, .weak = true}; }

Graph slices_at(const Graph& body, const Control& control) {
  Graph graph;
  std::vector<ValueId> stacks;
  for (std::size_t i = control.carries; i < control.carries + control.slices; ++i) {
    Type stack = body.type(body.inputs[i]);
    stack.shape.insert(stack.shape.begin(), *control.trips);
    if (stack.explicit_axes) {
      stack.explicit_axes.edit([](ExplicitAxes& axes) { axes.dims.insert(axes.dims.begin(), AxisNames()); });
    }
    stacks.push_back(graph.add_input(std::move(stack)));
  }
  const ValueId position = graph.add_input(position_of_slices());
  Builder build(graph, {});
  const ValueId zero = build.constant(0, int64);
  for (std::size_t i = 0; i < stacks.size(); ++i) {
    const Shape slice = body.type(body.inputs[control.carries + i]).shape;
    Dims sizes = {1};
    sizes.insert(sizes.end(), slice.begin(), slice.end());
    std::vector<ValueId> operands = {stacks[i], position};
    operands.resize(slice.size() + 2, zero);
    const ValueId part = build.apply("dynamic_slice", {{"sizes", sizes}}, std::move(operands));
    graph.outputs.push_back(build.reshape(part, slice));
  }
  return graph;
}

}  // namespace shoal
