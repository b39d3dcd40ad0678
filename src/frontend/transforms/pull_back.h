// Maps of tangents, forward and in reverse, outside of graphs.
#pragma once

#include <vector>

#include "frontend/array/tape.h"
#include "ir/graph.h"
#include "shoal/array.h"

namespace shoal::detail {

/// Adds to a graph that an output, the gradient by this argument, lies as that does. `operands` are those of the graph.
void lie_as_argument(Graph& graph, std::size_t output, const Array& argument, std::vector<Array>& operands);

/// What a graph gives for these operands, as one equation.
std::vector<Array> run_graph(const GraphPtr& graph, const std::vector<Array>& operands);

/// Whether some are tangents that a rule of the user's was given.
bool has_tangents_alone(const std::vector<Array>& arrays);

/// What a map gives for its residuals and tangents. Of tangents alone it writes down what becomes of them.
std::vector<Array> push_forward_map(const TangentMap& map, const std::vector<Array>& operands);

/// The cotangents of the arguments of a map that has cuts, empty where they are zero, for those of its outputs. What
/// lies between two cuts is one program, and the functions of the cuts are called with arrays.
std::vector<Array> pull_back_in_parts(const TangentMap& map, const std::vector<Array>& arguments,
                                      const std::vector<Array>& cotangents);

}  // namespace shoal::detail
