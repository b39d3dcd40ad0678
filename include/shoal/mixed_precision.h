// Training with gradients in half precision: a loss is multiplied before it is differentiated, so that small gradients
// do not become 0 in f16, and the gradients are divided again (Micikevicius et al. 2018, "Mixed precision training").
// bf16 has the exponents of f32 and needs none of this.
//
//   const auto loss_of = [&](const Params& p) { return scale_loss(loss(cast_floats(p, float16), batch), scale); };
//   auto [value, gradients] = value_and_grad(loss_of)(params);
//   gradients = unscale(gradients, scale);
//   const Array is_finite = all_finite(gradients);
//   scale = adjust(scale, is_finite);
//
// optimizers::apply_if_finite leaves out the steps whose gradients are not finite.
//
// @param scale The scale.
// @param tree A tree of arrays.
#pragma once

#include <cstdint>
#include <vector>

#include "shoal/array.h"
#include "shoal/tree.h"

namespace shoal::mixed_precision {

/// By what losses are multiplied, f32, and how many steps in a row were finite, int32. A tree.
struct LossScale {
  Array scale;
  Array finite_steps;
};
[[maybe_unused]] inline auto shoal_tree(LossScale& s) {
  return fields(field("scale", s.scale), field("finite_steps", s.finite_steps));
}

/// The scale to begin with. Throws InvalidArgument unless `initial` is positive and finite.
/// @param initial The first scale.
LossScale loss_scale(double initial = 32768, SourceLocation where = SourceLocation::current());
/// loss times the scale, in the loss's dtype.
/// @param loss The loss, a float scalar.
Array scale_loss(const Operand& loss, const LossScale& scale);

struct AdjustOptions {
  std::int64_t period = 2000;  ///< Finite steps in a row after which the scale grows;
  double factor = 2;           ///< by this; and it shrinks by it where a step is not finite,
  double least = 1;            ///< down to this.
};
/// The scale for the next step. Throws InvalidArgument for a period below 1 and a factor not above 1.
/// @param is_finite Whether the gradients of this step were finite: a bool scalar.
LossScale adjust(const LossScale& scale, const Operand& is_finite, const AdjustOptions& options = {},
                 SourceLocation where = SourceLocation::current());

/// Whether no element is infinite or NaN: a bool scalar.
/// @param arrays The arrays.
Array all_finite_leaves(const std::vector<Array>& arrays, SourceLocation where = SourceLocation::current());
/// Whether no element of a tree is infinite or NaN: a bool scalar.
template <class T>
Array all_finite(const T& tree, SourceLocation where = SourceLocation::current()) {
  return all_finite_leaves(tree::flatten(tree), where);
}

/// The gradients divided by the scale, in f32, so that what is small is not lost again.
/// @param gradients A tree of arrays.
/// @return A tree like it.
template <class T>
T unscale(const T& gradients, const LossScale& scale) {
  return tree::map(
      [&](const Array& g) {
        const Array wide = size_of(g.dtype()) < size_of(float32) ? g.astype(float32) : g;
        return wide / scale.scale.astype(wide.dtype());
      },
      gradients);
}

/// The tree with its arrays of floats in another dtype of floats; others stay.
/// @param dtype The dtype.
/// @return A tree like it.
template <class T>
T cast_floats(const T& tree, Dtype dtype) {
  return tree::map([&](const Array& a) { return is_floating(a.dtype()) ? a.astype(dtype) : a; }, tree);
}

}  // namespace shoal::mixed_precision
