// The modules of NumPy's functions, and what their files share.
#include "bindings/numpy/numpy.h"

#include <fmt/format.h>

#include "base/caller.h"

namespace shoal::python {

void refuse(std::string_view function, std::string_view argument, nb::handle value) {
  if (value.is_none()) return;
  not_implemented(fmt::format("The '{}' argument to jnp.{} is not supported.", argument, function));
}

Shape shape_from(nb::handle x, std::string_view function) {
  const auto is_tracer = [](nb::handle item) { return array_of(item) != nullptr && array_of(item)->is_tracer(); };
  const auto refuse_shape = [&](bool traced) {
    type_error(fmt::format("{}: Shapes must be 1D sequences of concrete values of integer type, got {}.{}", function,
                           nb::cast<std::string>(nb::repr(x)),
                           traced ? " If using `jit`, try using `static_argnums` or applying `jit` to smaller "
                                    "subfunctions."
                                  : ""));
  };
  if (is_tracer(x)) refuse_shape(true);
  // Arrays of NumPy are sequences, those without dimensions of nothing.
  const bool is_number = nb::hasattr(x, "ndim") && nb::cast<int>(x.attr("ndim")) == 0;
  if (PySequence_Check(x.ptr()) != 0 && array_of(x) == nullptr && !PyUnicode_Check(x.ptr()) && !is_number) {
    for (nb::handle item : x) {
      if (is_tracer(item) || PyIndex_Check(item.ptr()) == 0) refuse_shape(is_tracer(item));
    }
  } else if (PyIndex_Check(x.ptr()) == 0) {
    refuse_shape(false);
  }
  return dims(x, fmt::format("{}: shape", function));
}

bool is_column_major(nb::handle order, std::string_view function) {
  const auto name = nb::cast<std::string>(nb::str(order));
  if (name == "C") return false;
  if (name == "F") return true;
  if (name == "A" || name == "K") not_implemented(fmt::format("jnp.{}: order='{}' is not implemented", function, name));
  value_error(fmt::format("Unexpected value for 'order' argument of jnp.{}: {}; it is 'C' or 'F'", function, name));
}

CreationOptions creation(std::optional<Dtype> dtype, nb::handle device, nb::handle out_sharding) {
  CreationOptions options{.dtype = dtype, .sharding = maybe_sharding(device, "device")};
  if (!out_sharding.is_none()) options.sharding = maybe_sharding(out_sharding, "out_sharding");
  return options;
}

DtypeAndWeakness type_of_operand(const Operand& x) {
  const Caller caller("dtype", x.where());
  return element_of(x);
}

Operand in_dtype(const Operand& x, std::optional<Dtype> dtype) {
  if (!dtype) return x;
  const DtypeAndWeakness type = type_of_operand(x);
  if (type.dtype == *dtype && !type.weak) return x;
  return {astype(x, *dtype), x.where()};
}

void refuse_complex(std::string_view function, std::initializer_list<const Operand*> operands) {
  for (const Operand* x : operands) {
    if (!is_complex(type_of_operand(*x).dtype)) continue;
    value_error(fmt::format("{}: does not support complex numbers, got {}", function, type_of(shoal::to_array(*x))));
  }
}

std::optional<Dtype> summed(Dtype dtype) {
  const bool small = size_of(dtype) < size_of(default_int());
  if (dtype == bool_ || (is_integer(dtype) && is_signed(dtype) && small)) return default_int();
  if (is_integer(dtype) && small) return canonical(uint64);
  return std::nullopt;
}

Array counted(const Array& positions) {
  return x64_enabled() ? astype(Operand(positions, user_line()), int64) : positions;
}

std::vector<Array> counted(const std::vector<Array>& positions) {
  std::vector<Array> all;
  for (const Array& array : positions) all.push_back(counted(array));
  return all;
}

void bind_numpy(nb::module_& m, nb::module_& special) {
  auto array = nb::borrow<ArrayClass>(nb::type<Array>());
  bind_numpy_dtypes(m);
  bind_numpy_creation(m);
  bind_numpy_elementwise(m, special, array);
  bind_numpy_reductions(m, array);
  bind_numpy_shapes(m, array);
  bind_numpy_order(m, array);
  bind_numpy_positions(m, array);
  bind_numpy_products(m, array);
  bind_numpy_statistics(m);
  bind_numpy_polynomials(m);
}

}  // namespace shoal::python
