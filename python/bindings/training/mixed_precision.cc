// shoal.mixed_precision: losses that are scaled for gradients in half precision.
#include "shoal/mixed_precision.h"

#include <fmt/format.h>

#include <vector>

#include "bindings/core/tree.h"
#include "bindings/training/training.h"

namespace shoal::python {
namespace {

using namespace mixed_precision;

LossScale scale_of(nb::handle x, const char* function) {
  std::vector<Array> parts;
  for (const nb::handle part : x) parts.push_back(to_array(part, function, "scale"));
  if (parts.size() != 2) value_error(fmt::format("{}: a scale is (scale, finite_steps)", function));
  return {parts[0], parts[1]};
}

nb::tuple object_of(const LossScale& scale) { return nb::make_tuple(scale.scale, scale.finite_steps); }

}  // namespace

void bind_mixed_precision(nb::module_& m) {
  m.def(
      "loss_scale",
      [](double initial) {
        const SourceLocation where = user_line();
        return object_of(unlocked([&] { return loss_scale(initial, where); }));
      },
      "initial"_a = 32768.0,
      "The scale to begin with: (scale float32, finite_steps int32). Raises ValueError unless `initial` is positive "
      "and "
      "finite.");
  m.def(
      "scale_loss",
      [](nb::handle loss, nb::handle scale) {
        const Operand given = operand(loss, "scale_loss", "loss");
        const LossScale by = scale_of(scale, "scale_loss");
        return unlocked([&] { return scale_loss(given, by); });
      },
      "loss"_a.none(), "scale"_a, "loss times the scale, in the loss's dtype.");
  m.def(
      "unscale",
      [](nb::handle gradients, nb::handle scale) {
        const ArrayTree tree = array_tree(gradients, "unscale: gradients");
        const LossScale by = scale_of(scale, "unscale");
        return tree_object(tree.tree, unlocked([&] { return unscale(tree.leaves, by); }));
      },
      "gradients"_a.none(), "scale"_a, "The gradients divided by the scale, in float32 at least.");
  m.def(
      "all_finite",
      [](nb::handle tree) {
        const ArrayTree arrays = array_tree(tree, "all_finite");
        const SourceLocation where = user_line();
        return unlocked([&] { return all_finite_leaves(arrays.leaves, where); });
      },
      "tree"_a.none(), "Whether no element of a tree is infinite or NaN.");
  m.def(
      "cast_floats",
      [](nb::handle tree, nb::handle type) {
        const ArrayTree arrays = array_tree(tree, "cast_floats");
        const Dtype wanted = dtype(type);
        return tree_object(arrays.tree, unlocked([&] { return cast_floats(arrays.leaves, wanted); }));
      },
      "tree"_a.none(), "dtype"_a, "The tree with its arrays of floats in another dtype of floats; others stay.");
  m.def(
      "adjust",
      [](nb::handle scale, nb::handle is_finite, std::int64_t period, double factor, double least) {
        const LossScale before = scale_of(scale, "adjust");
        const Operand finite = operand(is_finite, "adjust", "is_finite");
        const SourceLocation where = user_line();
        return object_of(unlocked(
            [&] { return adjust(before, finite, {.period = period, .factor = factor, .least = least}, where); }));
      },
      "scale"_a, "is_finite"_a.none(), "period"_a = 2000, "factor"_a = 2.0, "least"_a = 1.0,
      "The scale for the next step: times the factor after `period` finite steps in a row, divided by it, down to "
      "`least`, "
      "where a step is not finite.");
}

}  // namespace shoal::python
