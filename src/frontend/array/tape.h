// Tapes: the recording of how the values of a function change with its arguments.
//
// A value that depends on an argument to be differentiated by carries a tangent. An operation on it computes what it
// computes anyway where it would have been computed, in the enclosing trace or at once, so that what is concrete stays
// concrete; and the tape writes down, by the rules of the records, what becomes of the tangent. That is a linear graph,
// whose residuals are arrays of the world outside. A value without a tangent is an array like any other.
//
// A rule of the user for a function is given the tangents themselves, as arrays that are nothing else. What is linear
// in these is written down as it is, and has no value.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "frontend/array/layer.h"
#include "ir/graph.h"
#include "ops/derivatives.h"
#include "shoal/array.h"

namespace shoal {

/// A call in a map that is no graph: a function of the user's gives the cotangents of its operands for those of its
/// results, both empty where they are zero. It is called where the map is used in reverse, with values if these are
/// known there.
using PullBack = std::function<std::vector<Array>(const std::vector<Array>& cotangents)>;
struct MapCut {
  std::size_t position;  ///< How many equations of the map's graph come before it.
  std::vector<ValueId> operands;
  std::vector<ValueId> results;
  PullBack pull_back;
};

/// What a tape has recorded: a graph of residuals, then tangents of the arguments, that gives the tangents of those
/// results that have one.
struct TangentMap {
  GraphPtr graph;
  std::vector<Array> residuals;
  std::vector<bool> has_tangent;  ///< For each result.
  AxisNames unchecked = {};       ///< The axes of Trace::unchecked().
  bool strong_zeros = false;      ///< As of GradOptions.
  /// In order. The graph of a map that has some does not say where their results come from.
  std::vector<MapCut> cuts = {};
};

class Tape final : public Layer {
 public:
  /// Forward, its map is asked for the tangents of results: what rules add to these has to be refused, as a map that is
  /// linear would forget it. In reverse it makes no difference. So is a tape for an equation of such a one.
  enum class Direction { kForward, kReverse };
  Tape(std::string name, Direction direction);

  /// The array with a tangent, an argument of the map.
  Array with_tangent(const Array& array);
  /// An argument of the map as a tangent alone.
  Array tangent_alone(const Type& type);
  /// The tangent alone of an array of this tape, and the array that has this one; it is `array` if `tangent` is empty.
  Array tangent_of(const Array& array);
  Array with_tangent(const Array& array, const Array& tangent);
  /// Whether what is computed here runs at once, so that a map may have cuts.
  bool is_at_once() const;
  /// The tangents alone that a call of these, which is a cut, gives.
  std::vector<Array> cut(std::span<const Array> tangents, std::span<const Type> types, PullBack pull_back);
  std::string why_not() const override;
  std::vector<Array> bind(const OpDef& op, Attrs attrs, std::span<const Array> operands) override;
  /// Ends the tape: how these results depend on the arguments. Leaves the results without their tangents.
  TangentMap finish(std::vector<Array>& results);
  /// The same for the tangents alone of results, which are empty for those that have none.
  TangentMap finish_tangents(std::span<const Array> tangents);

 private:
  class EqnPrimals;
  class BindingForward;

  ValueId residual(const Array& array);
  ValueId value_of_tangent(const Array& tangent);
  // Whether it is a tangent alone of this tape; of another it is an array like any other.
  bool is_own_tangent(const detail::ArrayImpl& impl) const;
  TangentMap add_the_rest(TangentMap map);

  std::shared_ptr<Tape> self() { return std::static_pointer_cast<Tape>(shared_from_this()); }

  Graph graph_;
  std::vector<ValueId> arguments_;
  std::vector<MapCut> cuts_;
  std::vector<Array> residuals_;
  std::vector<ValueId> residual_values_;
  bool is_forward_;
  std::unordered_map<const void*, std::size_t> known_residuals_;  // By what arrays point to.
};

/// Zeros, which devices hold as the type says.
Array zeros_of(const Type& type);
/// The array without tangents.
Array without_tangents(const Array& array);
/// The array without tangents of tapes that have ended.
Array without_ended_tangents(const Array& array);

}  // namespace shoal
