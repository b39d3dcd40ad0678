// What the files that bind shoal.numpy share.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "bindings/core/convert.h"
#include "bindings/core/flag.h"
#include "frontend/array/promotion.h"
#include "ops/elementwise.h"

namespace shoal::python {

using ArrayClass = nb::class_<Array>;

// ---- Arguments.

/// Defines f in the module and, of what is its first argument there, as a method of arrays.
template <class F, class First, class... Extra>
void define(nb::module_& m, ArrayClass& c, const char* name, const F& f, const First& first, const Extra&... extra) {
  m.def(name, f, first, extra...);
  c.def(name, f, extra...);
}

/// Throws NotImplementedError for an argument that is given but means nothing here.
void refuse(std::string_view function, std::string_view argument, nb::handle value);
/// Throws ValueError for a complex operand of a function that has no meaning for it.
void refuse_complex(std::string_view function, std::initializer_list<const Operand*> operands);
inline void refuse_out(std::string_view function, nb::handle out) {
  if (!out.is_none()) refuse(function, "out", out);
}

/// A shape: an integer or a sequence of them. Throws TypeError, for a tracer with advice.
Shape shape_from(nb::handle x, std::string_view function);
/// "C" is false and "F" true. Throws for others.
bool is_column_major(nb::handle order, std::string_view function);
/// Where an array is made, and of what; `device` is a device or a sharding.
CreationOptions creation(std::optional<Dtype> dtype, nb::handle device, nb::handle out_sharding = nb::none());

// ---- Dtypes.

DtypeAndWeakness type_of_operand(const Operand& x);
/// The operand in a dtype, if one is given.
Operand in_dtype(const Operand& x, std::optional<Dtype> dtype);
/// The dtype of sums and products of a dtype, if it is another one: integers of the default width at least.
std::optional<Dtype> summed(Dtype dtype);
/// Positions and counts, which the library gives as i32: i64 in 64-bit mode.
Array counted(const Array& positions);
std::vector<Array> counted(const std::vector<Array>& positions);

// ---- What each file adds.

/// shoal.numpy without linalg and ufuncs. Rows that jax.numpy does not have go to `special`.
void bind_numpy(nb::module_& m, nb::module_& special);
/// shoal.numpy.linalg, and shoal.scipy.linalg and shoal.ops below it.
void bind_linalg(nb::module_& m);
/// shoal.numpy.fft, and what shoal.lax.fft calls.
void bind_numpy_fft(nb::module_& m);
void bind_lax_fft(nb::module_& m);
/// Makes ufuncs of those functions of shoal.numpy that JAX has as such.
void bind_ufuncs(nb::module_& numpy, nb::module_& lax);

void bind_numpy_creation(nb::module_& m);
void bind_numpy_elementwise(nb::module_& m, nb::module_& special, ArrayClass& c);
void bind_numpy_reductions(nb::module_& m, ArrayClass& c);
void bind_numpy_shapes(nb::module_& m, ArrayClass& c);
void bind_numpy_order(nb::module_& m, ArrayClass& c);
void bind_numpy_positions(nb::module_& m, ArrayClass& c);
void bind_numpy_products(nb::module_& m, ArrayClass& c);
void bind_numpy_statistics(nb::module_& m);
void bind_numpy_polynomials(nb::module_& m);
void bind_numpy_dtypes(nb::module_& m);

}  // namespace shoal::python
