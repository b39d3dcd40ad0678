// Graphs cut in two for equations that hold them.
#pragma once

#include <vector>

#include "base/function_ref.h"
#include "transform/linearize.h"

namespace shoal {

/// A graph without equations, of this name, in these axes.
Graph empty_like(const Graph& body);

/// The values that are made of nothing but these inputs and constants, without effects.
std::vector<bool> made_of(const Graph& body, const std::vector<bool>& inputs);

/// Appends to `to` what `values` of `from` need, down to what is at hand there; returns what stands for them.
std::vector<ValueId> computed(const Graph& from, std::span<const ValueId> values, Graph& to,
                              FunctionRef<MaybeValue(ValueId)> at_hand);

/// Whether what is kept inside of an equation can leave it. Of loops that ask whether to go on nobody knows how much
/// that is; what stands in a region is there to be computed again; and calls with a transpose are their own affair.
bool can_be_cut(const Eqn& eqn);

/// A body cut in two. The residuals are no outputs of the primal part yet.
struct Cut {
  Cut(const Graph& body, const std::vector<bool>& with_tangent, const std::vector<bool>& wanted = {});

  Graph primal;
  Graph tangent;
  std::vector<bool> has_tangent;
  std::vector<ValueId> residuals;  ///< Values of `primal`.
};

/// What bodies give as further results. Branches, of which one runs, share those of one type.
class FurtherResults {
 public:
  explicit FurtherResults(std::size_t num_bodies) : values_(num_bodies) {}

  /// The place of a value of body `b`, of this type, among them.
  std::size_t add(std::size_t b, ValueId value, Type type);
  std::size_t count() const { return types_.size(); }
  /// Appends them to the outputs of body `b`.
  void append_to(Graph& body, std::size_t b);

 private:
  std::vector<Type> types_;
  std::vector<std::vector<MaybeValue>> values_;
};

/// An equation of which no result has a tangent.
LinearizedEqn without_tangents(const Attrs& attrs, std::size_t num_results);

/// The values for those of `flags`, nothing for the others.
std::vector<MaybeValue> at_flags(const std::vector<bool>& flags, std::span<const ValueId> values);

}  // namespace shoal
