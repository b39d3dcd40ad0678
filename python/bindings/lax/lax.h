// What the files that bind shoal.lax share. Its functions take operands as they are: dtypes are not promoted, and
// shapes broadcast only where a dimension is 1 or missing altogether.
#pragma once

#include <span>

#include "bindings/core/convert.h"
#include "bindings/core/flag.h"
#include "bindings/numpy/numpy.h"
#include "frontend/array/promotion.h"

namespace shoal::python {

/// The sentence that documents a row of elementwise.def.
const char* doc_of(std::string_view op);

/// The dtype that an operand has as an array.
Dtype dtype_of(const Operand& x);
const Shape& shape_of(const Operand& x);

/// Throws TypeError unless lax.`function` takes the operand's dtype. `position` is -1 for an only operand.
void check_kind(std::string_view function, const Operand& x, Kinds kinds, int position = -1);
/// Throws TypeError unless all dtypes are equal; `similar` is the function of shoal.numpy that promotes, if there is
/// one.
void check_dtypes(std::string_view function, std::span<const Operand* const> operands, std::string_view similar = "");
/// Throws TypeError for shapes of different ranks, scalars excepted, or that do not broadcast.
void check_shapes(std::string_view function, std::span<const Operand* const> operands);
/// Throws ValueError for what does not name a way to multiply; all are computed in the same way.
void check_precision(nb::handle precision, std::string_view function);
/// A sequence of integers.
Dims dim_list(nb::handle x, std::string_view what);
/// "SAME" and the like in capitals or small letters, or pairs.
lax::WindowPadding window_padding(nb::handle padding, std::string_view function);
/// What it puts before and after dimension `dim` of `rank`: for a window of an extent on an array of `size` elements.
std::pair<std::int64_t, std::int64_t> pads_of(const lax::WindowPadding& padding, std::int64_t size, std::int64_t window,
                                              std::int64_t stride, std::size_t dim, std::size_t rank,
                                              SourceLocation where);
/// The dimensions that a reduction of `x` names. Throws ValueError for those that it does not have and for one named
/// twice.
Dims reduced_axes(nb::handle axes, const Operand& x, std::string_view function);

/// f(), computed without the GIL. What the library refuses as a wrong value is a TypeError in jax.lax.
template <class F>
auto typed(F&& f) {
  try {
    return unlocked(f);
  } catch (const InvalidArgument& e) {
    if (typeid(e) != typeid(InvalidArgument)) throw;
    throw TypeMismatch(e.what());
  }
}

/// shoal.lax, which what each file adds makes up.
void bind_lax(nb::module_& m);
void bind_lax_elementwise(nb::module_& m);
void bind_lax_movement(nb::module_& m);
void bind_lax_reductions(nb::module_& m);
void bind_lax_contractions(nb::module_& m);
void bind_lax_collectives(nb::module_& m);
void bind_lax_linalg(nb::module_& m);
void bind_solvers(nb::module_& root);
void bind_lax_control_flow(nb::module_& m);
void bind_lax_derivatives(nb::module_& m);
void bind_lax_checkpoint(nb::module_& m);
void bind_lax_custom_rules(nb::module_& m);
void bind_lax_vmap(nb::module_& m);

}  // namespace shoal::python
