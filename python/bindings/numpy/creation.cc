// Functions that make arrays.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "base/caller.h"
#include "bindings/core/memory.h"
#include "bindings/numpy/numpy.h"
#include "frontend/array/trace.h"
#include "runtime/transfer_guard.h"

namespace shoal::python {
namespace {

// An array that is weakly typed if it was made of a number alone.
Array weak_as(const Array& array, bool weak, SourceLocation where) {
  const Caller caller("convert", where);
  return weak ? convert(array, array.dtype(), true) : array;
}

Array filled(const Shape& shape, const Operand& value, const CreationOptions& options) {
  const SourceLocation where = value.where();
  const DtypeAndWeakness type = type_of_operand(value);
  if (value.array() != nullptr && value.array()->ndim() > 0) {
    const Array array = broadcast_to(in_dtype(value, options.dtype), shape);
    return options.sharding ? device_put({array, where}, *options.sharding) : array;
  }
  CreationOptions typed = options;
  if (!typed.dtype) typed.dtype = type.dtype;
  return weak_as(full(shape, value, typed), !options.dtype && type.weak, where);
}

// zeros, ones and empty.
void bind_constant(nb::module_& m, const char* name, double value, const char* doc) {
  m.def(
      name,
      [name, value](nb::handle shape, nb::handle dtype, nb::handle device, nb::handle out_sharding) -> nb::object {
        if (is_float0_dtype(dtype)) return float0_array(shape);
        const Shape extents = shape_from(shape, name);
        const CreationOptions options =
            creation(dtype.is_none() ? default_float() : python::dtype(dtype), device, out_sharding);
        const SourceLocation where = user_line();
        // The number that fills it comes from the program.
        if (Trace::current() == nullptr) check_transfer(TransferKind::kHostToDevice, name, where);
        return nb::cast(
            unlocked([&] { return value == 0 ? zeros(extents, options, where) : ones(extents, options, where); }));
      },
      "shape"_x, "dtype"_x = nb::none(), nb::kw_only(), "device"_x = nb::none(), "out_sharding"_x = nb::none(), doc);
}

// Shape and dtype of an array, a number, or of what has both.
struct Prototype {
  std::optional<Operand> operand;
  Shape shape;
  DtypeAndWeakness type;
};

Prototype prototype(nb::handle a, const char* name) {
  if (is_array_like(a)) {
    const Operand x = operand(a, name, "a");
    return {x, x.array() != nullptr ? x.array()->shape() : Shape{}, type_of_operand(x)};
  }
  if (!nb::hasattr(a, "shape") || !nb::hasattr(a, "dtype")) {
    static_cast<void>(operand(a, name, "a"));  // Throws.
  }
  return {std::nullopt, dims(a.attr("shape"), "shape"), {python::dtype(a.attr("dtype")), false}};
}

// Where a type says that its array lies. The mesh of set_mesh gives an abstract one its devices.
std::optional<Sharding> sharding_of_type(nb::handle a) {
  const nb::object given = nb::getattr(a, "sharding", nb::none());
  if (given.is_none()) return std::nullopt;
  const Sharding wanted = sharding(given, "sharding");
  if (wanted.named() == nullptr || !wanted.named()->mesh().is_abstract()) return wanted;
  if (get_mesh().empty() || get_mesh().abstract_mesh() != wanted.named()->mesh()) return std::nullopt;
  return NamedSharding(get_mesh(), wanted.named()->spec(), {.memory_kind = wanted.memory_kind()});
}

Array like(const char* name, nb::handle a, const Operand& value, nb::handle dtype, nb::handle shape, nb::handle device,
           nb::handle out_sharding) {
  const Prototype given = prototype(a, name);
  const std::optional<Dtype> wanted = maybe_dtype(dtype);
  CreationOptions options = creation(wanted.value_or(given.type.dtype), device, out_sharding);
  const std::optional<Dims> extents = shape.is_none() ? std::nullopt : std::optional<Dims>(shape_from(shape, name));
  const bool weak = !wanted && given.type.weak;
  if (!given.operand && !extents && !options.sharding) options.sharding = sharding_of_type(a);
  return unlocked([&] {
    const bool scalar = value.array() == nullptr || value.array()->ndim() == 0;
    if (given.operand && !extents && scalar) {
      return weak_as(full_like(*given.operand, value, options), weak, value.where());
    }
    return weak_as(filled(extents.value_or(given.shape), value, options), weak, value.where());
  });
}

void bind_like(nb::module_& m, const char* name, const char* argument, int value, const char* doc) {
  m.def(
      name,
      [name, value](nb::handle a, nb::handle dtype, nb::handle shape, nb::handle device, nb::handle out_sharding) {
        return like(name, a, {value, user_line()}, dtype, shape, device, out_sharding);
      },
      nb::arg(argument).none(), "dtype"_x = nb::none(), "shape"_x = nb::none(), nb::kw_only(), "device"_x = nb::none(),
      "out_sharding"_x = nb::none(), doc);
}

// Python's own numbers stay numbers where 64-bit types are on, too: arrays of them are not known in a trace.
Operand bound_of(nb::handle x, const char* name, bool is_alone) {
  if (default_int() == int64 && PyLong_CheckExact(x.ptr())) return {integer(x, "arange"), user_line()};
  if (default_int() == int64 && PyFloat_CheckExact(x.ptr())) return {PyFloat_AS_DOUBLE(x.ptr()), user_line()};
  return is_alone ? operand_as_type(x, "arange", name) : operand(x, "arange", name);
}

DtypeAndWeakness type_of_bound(const Operand& bound) {
  if (bound.number() == nullptr) return type_of_operand(bound);
  return {std::holds_alternative<double>(*bound.number()) ? canonical(float64) : default_int(), true};
}

Array arange_of(nb::handle start, nb::handle stop, nb::handle step, nb::handle dtype, nb::handle device,
                nb::handle out_sharding) {
  CreationOptions options = creation(maybe_dtype(dtype), device, out_sharding);
  // A bound alone is part of the program, and moved nowhere.
  const bool is_alone = stop.is_none() && step.is_none();
  const auto maybe_bound = [](nb::handle x, const char* name) {
    return x.is_none() ? std::nullopt : std::optional(bound_of(x, name, false));
  };
  Operand first = bound_of(start, "start", is_alone);
  std::optional<Operand> last = maybe_bound(stop, "stop");
  const std::optional<Operand> stride = maybe_bound(step, "step");
  for (const auto& bound : {std::optional<Operand>(first), last, stride}) {
    if (bound && bound->array() != nullptr && bound->array()->ndim() != 0) {
      type_error(fmt::format("jax.numpy.arange: arguments must be scalars; got an array of shape {}",
                             to_string(bound->array()->shape())));
    }
  }
  if (!last && stride) {
    last = first;
    first = {0, last->where()};
  }
  if (!options.dtype) {
    DtypeAndWeakness type = type_of_bound(first);
    for (const auto& bound : {last, stride}) {
      if (bound) type = promote_types(type, type_of_bound(*bound));
    }
    options.dtype = type.dtype == bool_ ? default_int() : canonical(type.dtype);
  }
  return unlocked([&] {
    if (is_alone) {
      const ExplicitTransfers none_that_counts;
      return arange(first, options);
    }
    if (!last) return arange(first, options);
    return stride ? arange(first, *last, *stride, options) : arange(first, *last, options);
  });
}

// ---- Numbers between bounds.

Dtype bounds_dtype(const Operand& start, const Operand& stop) {
  return inexact_dtype(promote_types(type_of_operand(start), type_of_operand(stop)).dtype);
}

nb::object linspace_of(nb::handle start, nb::handle stop, nb::handle num, Flag endpoint, Flag retstep, nb::handle dtype,
                       nb::handle axis, nb::handle device) {
  const Operand first = operand(start, "linspace", "start");
  const Operand last = operand(stop, "linspace", "stop");
  const std::int64_t count = integer(num, "'num' argument of jnp.linspace");
  const LinspaceOptions options{.endpoint = endpoint,
                                .dtype = maybe_dtype(dtype),
                                .axis = integer(axis, "linspace: axis"),
                                .sharding = maybe_sharding(device, "device")};
  const Array numbers = unlocked([&] { return linspace(first, last, count, options); });
  if (!retstep) return nb::cast(numbers);
  const std::int64_t steps = endpoint ? count - 1 : count;
  const Array step = unlocked([&] {
    const SourceLocation where = first.where();
    const Operand distance(in_dtype({subtract(last, first), where}, bounds_dtype(first, last)));
    return divide(distance, {steps == 0 ? std::nan("") : static_cast<double>(steps), where});
  });
  return nb::make_tuple(numbers, step);
}

struct Spread {
  std::int64_t num;
  LinspaceOptions options;
  std::optional<Dtype> dtype;
};

Spread spread(const char* name, nb::handle num, bool endpoint, nb::handle dtype, nb::handle axis) {
  return {integer(num, fmt::format("'num' argument of jnp.{}", name)),
          {.endpoint = endpoint, .dtype = {}, .axis = integer(axis, fmt::format("{}: axis", name)), .sharding = {}},
          maybe_dtype(dtype)};
}

Array logspace_of(nb::handle start, nb::handle stop, nb::handle num, Flag endpoint, nb::handle base, nb::handle dtype,
                  nb::handle axis) {
  const Operand first = operand(start, "logspace", "start");
  const Operand last = operand(stop, "logspace", "stop");
  const Operand root = operand(base, "logspace", "base");
  const Spread way = spread("logspace", num, endpoint, dtype, axis);
  return unlocked([&] {
    const SourceLocation where = first.where();
    const Operand exponents(linspace(first, last, way.num, way.options), where);
    return shoal::to_array(in_dtype({power(root, exponents), where}, way.dtype));
  });
}

// start times the powers of the ratio stop / start; exact at both ends.
Array geomspace_of(nb::handle start, nb::handle stop, nb::handle num, Flag endpoint, nb::handle dtype,
                   nb::handle axis) {
  const Operand first = operand(start, "geomspace", "start");
  const Operand last = operand(stop, "geomspace", "stop");
  const Spread way = spread("geomspace", num, endpoint, dtype, axis);
  return unlocked([&] {
    const SourceLocation where = first.where();
    const Dtype computed = bounds_dtype(first, last);
    check_promotion({&first, &last});
    const Caller caller("geomspace", where);
    const std::vector<Array> both = broadcast_arrays({{in_dtype(first, computed), in_dtype(last, computed)}, where});
    const Operand begin(both[0], where);
    const Operand end(both[1], where);
    const Operand turn(is_complex(computed) ? divide(begin, {abs(begin), where}) : sign(begin), where);
    const auto exponent = [&](const Operand& x) {
      return Operand(log10(Operand(real({divide(x, turn), where}), where)), where);
    };
    const Operand exponents(linspace(exponent(begin), exponent(end), way.num, way.options), where);
    const Operand powers(power({10.0, where}, exponents), where);
    const std::int64_t along = canonical_axis(way.options.axis, powers.array()->ndim());
    Operand numbers(multiply(powers, {expand_dims(turn, along), where}), where);
    if (way.num > 0) {
      const auto row = [&](const Operand& x) {
        const Array array = shoal::to_array(in_dtype(x, numbers.array()->dtype()));
        Shape shape = numbers.array()->shape();
        shape.erase(shape.begin() + along);
        return Operand(expand_dims({broadcast_to({array, where}, shape), where}, along), where);
      };
      std::vector<Operand> parts;
      parts.push_back(row(begin));
      const std::int64_t inner_end = endpoint ? way.num - 1 : way.num;
      if (inner_end > 1) parts.emplace_back(lax::slice_in_dim(numbers, 1, inner_end, 1, along), where);
      if (endpoint && way.num > 1) parts.push_back(row(end));
      numbers = Operand(concatenate({parts, where}, along), where);
    }
    return shoal::to_array(in_dtype(numbers, way.dtype));
  });
}

// ---- Grids.

// numpy.mgrid and ogrid: g[0:2, -1:1:5j]. An imaginary step is a number of points, both ends included.
struct Grid {
  bool sparse;
};

Array points(nb::handle key) {
  if (!PySlice_Check(key.ptr())) return to_array(key, "mgrid", "an index");
  const nb::handle start = key.attr("start");
  const nb::handle stop = key.attr("stop");
  const nb::handle step = key.attr("step");
  const nb::int_ zero(0);
  const nb::handle first = start.is_none() ? nb::handle(zero) : start;
  if (PyComplex_Check(step.ptr())) {
    const nb::int_ count(
        static_cast<std::int64_t>(std::hypot(PyComplex_RealAsDouble(step.ptr()), PyComplex_ImagAsDouble(step.ptr()))));
    return nb::cast<Array>(linspace_of(first, stop, count, true, false, nb::none(), zero, nb::none()));
  }
  return arange_of(first, stop, step, nb::none(), nb::none(), nb::none());
}

nb::object grid(const Grid& kind, nb::handle key) {
  const SourceLocation where = user_line();
  if (!PyTuple_Check(key.ptr())) return nb::cast(points(key));
  if (nb::len(key) == 0) {
    if (kind.sparse) return nb::list();
    return nb::cast(zeros({0}, {.dtype = default_int()}, where));
  }
  std::vector<Operand> vectors;
  DtypeAndWeakness type{bool_, false};
  for (nb::handle item : key) {
    vectors.emplace_back(points(item), where);
    type = promote_types(type, type_of_operand(vectors.back()));
  }
  for (Operand& vector : vectors) vector = in_dtype(vector, type.dtype);
  std::vector<Array> arrays = unlocked([&] {
    return meshgrid({vectors, where}, {.indexing = "ij", .sparse = kind.sparse});
  });
  if (kind.sparse) return list_of(std::move(arrays));
  return nb::cast(unlocked([&] { return stack({arrays, where}); }));
}

// The arrays of positions along each of some dimensions.
std::vector<Array> indices_of(const Shape& shape, Dtype dtype, bool sparse, SourceLocation where) {
  std::vector<Array> all;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    Shape extents(shape.size(), 1);
    if (sparse) {
      extents[d] = shape[d];
    } else {
      extents = shape;
    }
    all.push_back(lax::broadcasted_iota(dtype, extents, static_cast<std::int64_t>(d), where));
  }
  return all;
}

nb::object indices(nb::handle dimensions, nb::handle dtype, Flag sparse) {
  const Shape shape = shape_from(dimensions, "indices");
  const Dtype wanted = dtype.is_none() ? default_int() : python::dtype(dtype);
  const SourceLocation where = user_line();
  std::vector<Array> all = unlocked([&] { return indices_of(shape, wanted, sparse, where); });
  if (sparse) return tuple_of(std::move(all));
  if (all.empty()) return nb::cast(zeros({0}, {.dtype = wanted}, where));
  return nb::cast(unlocked([&] { return stack({all, where}); }));
}

nb::object fromfunction(nb::callable function, nb::handle shape, nb::handle dtype, nb::kwargs kwargs) {
  const Shape extents = shape_from(shape, "fromfunction");
  const Dtype wanted = python::dtype(dtype);
  const SourceLocation where = user_line();
  nb::list positions;
  for (Array& array : indices_of(extents, wanted, false, where)) positions.append(nb::cast(std::move(array)));
  return function(*positions, **kwargs);
}

// ---- Diagonals.

// The number of a diagonal that is known when the program runs only, or nothing.
std::optional<Operand> traced_number(nb::handle k, const char* name) {
  const Array* array = array_of(k);
  if (array == nullptr || !array->is_tracer()) return std::nullopt;
  if (array->ndim() != 0 || !is_integer(array->dtype())) {
    value_error(fmt::format("{}: k must be a scalar integer; got {}", name, nb::cast<std::string>(nb::repr(k))));
  }
  return Operand(*array, user_line());
}

// One that is known. All beyond the matrix are alike.
std::int64_t diagonal_number(nb::handle k, const char* name) {
  if (PyIndex_Check(k.ptr()) == 0) {
    value_error(fmt::format("{}: k must be a scalar integer; got {}", name, nb::cast<std::string>(nb::repr(k))));
  }
  const nb::object number = nb::steal(PyNumber_Index(k.ptr()));
  if (!number.is_valid()) throw nb::python_error();
  int overflow = 0;
  const std::int64_t value = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow == 0) return value;
  return overflow > 0 ? std::numeric_limits<std::int64_t>::max() : std::numeric_limits<std::int64_t>::min() + 1;
}

// Ones where the position in the row compares so with the row and k.
Array side_of_diagonal(Array (*comparison)(const Operand&, const Operand&), std::int64_t rows, std::int64_t columns,
                       const Operand& k, Dtype dtype) {
  return unlocked([&] {
    const SourceLocation where = k.where();
    const Operand row(lax::broadcasted_iota(int32, {rows, columns}, 0, where), where);
    const Operand column(lax::broadcasted_iota(int32, {rows, columns}, 1, where), where);
    const Array holds = comparison(column, {add(row, {astype(k, int32), where}), where});
    return astype({holds, where}, dtype);
  });
}

// What NumPy reads, as an array.
Array from_numpy_function(const char* name, nb::args arguments, nb::kwargs keywords) {
  nb::object read = nb::module_::import_("numpy").attr(name)(*arguments, **keywords);
  // NumPy knows bfloat16 by name only, which its files do not have.
  if (nb::hasattr(read, "dtype") && nb::object(read.attr("dtype").attr("str")).equal(nb::str("|V2"))) {
    read = read.attr("view")(dtype_object(bfloat16));
  }
  return from_numpy(read, name, user_line(), Sharing::kConstant);
}

nb::object array_of_object(nb::handle object, nb::handle dtype, nb::handle copy, nb::handle order, nb::handle ndmin,
                           nb::handle device, nb::handle out_sharding) {
  if (!order.is_none()) {
    const auto name = nb::cast<std::string>(nb::str(order));
    if (name != "K" && name != "C") not_implemented("Only implemented for order='K'");
  }
  if (dtype.is_none() && is_float0(object)) return nb::borrow(object);
  if (is_float0_dtype(dtype)) return float0_array(nb::object(nb::module_::import_("numpy").attr("shape")(object)));
  static PyObject* const make = nb::object(nb::module_::import_("shoal._core").attr("_array")).release().ptr();
  return nb::handle(make)(object, dtype, copy, ndmin, out_sharding.is_none() ? device : out_sharding);
}

}  // namespace

void bind_numpy_creation(nb::module_& m) {
  m.def("array", &array_of_object, "object"_x, "dtype"_x = nb::none(), "copy"_x = true, "order"_x = "K", "ndmin"_x = 0,
        nb::kw_only(), "device"_x = nb::none(), "out_sharding"_x = nb::none(),
        "An array of numbers, lists, or anything that is an array.");
  m.def(
      "asarray",
      [](nb::handle a, nb::handle dtype, nb::handle order, nb::handle copy, nb::handle device,
         nb::handle out_sharding) {
        // Numbers and lists have no memory of an array that could be copied.
        const bool is_memory = PyObject_CheckBuffer(a.ptr()) != 0 || nb::hasattr(a, "__array__");
        const nb::object copies =
            is_memory || copy.is_none() || PyObject_IsTrue(copy.ptr()) != 0 ? nb::borrow(copy) : nb::none();
        return array_of_object(a, dtype, copies, order, nb::int_(0), device, out_sharding);
      },
      "a"_x, "dtype"_x = nb::none(), "order"_x = nb::none(), nb::kw_only(), "copy"_x = nb::none(),
      "device"_x = nb::none(), "out_sharding"_x = nb::none(), "The same without a copy if that can be avoided.");
  m.def(
      "copy",
      [](nb::handle a, nb::handle order) {
        static_cast<void>(operand(a, "copy", "a"));
        return array_of_object(a, nb::none(), nb::bool_(true), order, nb::int_(0), nb::none(), nb::none());
      },
      "a"_x, "order"_x = nb::none(), "A copy.");
  bind_constant(m, "zeros", 0, "Zeros.");
  bind_constant(m, "ones", 1, "Ones.");
  bind_constant(m, "empty", 0, "Zeros, too.");
  m.def(
      "full",
      [](nb::handle shape, nb::handle fill_value, nb::handle dtype, nb::handle device, nb::handle out_sharding) {
        const Shape extents = shape_from(shape, "full");
        const CreationOptions options = creation(maybe_dtype(dtype), device, out_sharding);
        const Operand value = operand_for(options.dtype, fill_value, "full", "fill_value");
        return unlocked([&] { return filled(extents, value, options); });
      },
      "shape"_x, "fill_value"_x, "dtype"_x = nb::none(), nb::kw_only(), "device"_x = nb::none(),
      "out_sharding"_x = nb::none(), "An array with one value everywhere.");
  bind_like(m, "zeros_like", "a", 0, "Zeros in the shape of another array.");
  bind_like(m, "ones_like", "a", 1, "Ones in the shape of another array.");
  bind_like(m, "empty_like", "prototype", 0, "Zeros in the shape of another array.");
  m.def(
      "full_like",
      [](nb::handle a, nb::handle fill_value, nb::handle dtype, nb::handle shape, nb::handle device,
         nb::handle out_sharding) {
        const std::optional<Dtype> wanted = dtype.is_none() ? prototype(a, "full_like").type.dtype : maybe_dtype(dtype);
        const Operand value = operand_for(wanted, fill_value, "full_like", "fill_value");
        return like("full_like", a, value, dtype, shape, device, out_sharding);
      },
      "a"_x, "fill_value"_x, "dtype"_x = nb::none(), "shape"_x = nb::none(), nb::kw_only(), "device"_x = nb::none(),
      "out_sharding"_x = nb::none(), "One value everywhere, in the shape of another array.");
  m.def("arange", &arange_of, "start"_x, "stop"_x = nb::none(), "step"_x = nb::none(), "dtype"_x = nb::none(),
        nb::kw_only(), "device"_x = nb::none(), "out_sharding"_x = nb::none(), "start, start + step, … up to stop.");
  m.def("linspace", &linspace_of, "start"_x, "stop"_x, "num"_x = 50, "endpoint"_x = true, "retstep"_x = false,
        "dtype"_x = nb::none(), "axis"_x = 0, nb::kw_only(), "device"_x = nb::none(),
        "Numbers evenly spaced from start to stop.");
  m.def("logspace", &logspace_of, "start"_x, "stop"_x, "num"_x = 50, "endpoint"_x = true, "base"_x = 10.0,
        "dtype"_x = nb::none(), "axis"_x = 0, "Powers of base with evenly spaced exponents.");
  m.def("geomspace", &geomspace_of, "start"_x, "stop"_x, "num"_x = 50, "endpoint"_x = true, "dtype"_x = nb::none(),
        "axis"_x = 0, "Numbers from start to stop with one ratio of neighbours.");
  m.def(
      "eye",
      [](nb::handle N, nb::handle M, nb::handle k, nb::handle dtype, nb::handle device) {
        const std::int64_t rows = integer(N, "'N' argument of jnp.eye");
        EyeOptions options{.m = maybe_integer(M, "'M' argument of jnp.eye"),
                           .dtype = dtype.is_none() ? default_float() : python::dtype(dtype),
                           .sharding = maybe_sharding(device, "device")};
        if (const auto number = traced_number(k, "eye")) {
          const Array ones = side_of_diagonal(&equal, rows, options.m.value_or(rows), *number, *options.dtype);
          return options.sharding ? device_put({ones, number->where()}, *options.sharding) : ones;
        }
        options.k = diagonal_number(k, "eye");
        return unlocked([&, where = user_line()] { return eye(rows, options, where); });
      },
      "N"_x, "M"_x = nb::none(), "k"_x = 0, "dtype"_x = nb::none(), nb::kw_only(), "device"_x = nb::none(),
      "Ones on a diagonal, zeros elsewhere.");
  m.def(
      "identity",
      [](nb::handle n, nb::handle dtype) {
        const std::int64_t rows = integer(n, "'n' argument of jnp.identity");
        const CreationOptions options = creation(dtype.is_none() ? default_float() : python::dtype(dtype), nb::none());
        return unlocked([&, where = user_line()] { return identity(rows, options, where); });
      },
      "n"_x, "dtype"_x = nb::none(), "Ones on the main diagonal of a square matrix, zeros elsewhere.");
  m.def(
      "tri",
      [](nb::handle N, nb::handle M, nb::handle k, nb::handle dtype) {
        const std::int64_t rows = integer(N, "'N' argument of jnp.tri");
        const std::int64_t columns = maybe_integer(M, "'M' argument of jnp.tri").value_or(rows);
        const CreationOptions options = creation(dtype.is_none() ? default_float() : python::dtype(dtype), nb::none());
        if (const auto number = traced_number(k, "tri")) {
          return side_of_diagonal(&less_equal, rows, columns, *number, *options.dtype);
        }
        const std::int64_t diagonal = diagonal_number(k, "tri");
        if (diagonal != static_cast<std::int32_t>(diagonal)) {
          PyErr_SetString(PyExc_OverflowError,
                          fmt::format("tri: k is {}, which int32 does not hold", diagonal).c_str());
          throw nb::python_error();
        }
        return unlocked([&, where = user_line()] {
          return tril({ones({rows, columns}, options, where), where}, diagonal);
        });
      },
      "N"_x, "M"_x = nb::none(), "k"_x = 0, "dtype"_x = nb::none(), "Ones on and below a diagonal.");
  m.def(
      "meshgrid",
      [](nb::args xi, Flag copy, Flag sparse, const std::string& indexing) {
        if (!copy) value_error("jax.numpy.meshgrid only supports copy=True");
        const Operands vectors = operands(xi, "meshgrid", "xi");
        const MeshgridOptions options{.indexing = indexing, .sparse = sparse};
        return tuple_of(unlocked([&] { return meshgrid(vectors, options); }));
      },
      "xi"_a, nb::kw_only(), "copy"_x = true, "sparse"_x = false, "indexing"_x = "xy", "The coordinates of a grid.");
  nb::class_<Grid>(m, "_Grid", "Coordinates of a grid, from slices.").def("__getitem__", &grid);
  m.attr("mgrid") = nb::cast(Grid{.sparse = false});
  m.attr("ogrid") = nb::cast(Grid{.sparse = true});
  m.def("indices", &indices, "dimensions"_x, "dtype"_x = nb::none(), "sparse"_x = false,
        "The positions along each dimension.");
  m.def("fromfunction", &fromfunction, "function"_a, "shape"_x, nb::kw_only(),
        "dtype"_x = nb::borrow(reinterpret_cast<PyObject*>(&PyFloat_Type)), "kwargs"_a,
        "A function of the positions along each dimension.");
  for (const char* name : {"frombuffer", "fromfile", "fromiter", "fromstring", "load"}) {
    m.def(
        name,
        [name](nb::args arguments, nb::kwargs keywords) { return from_numpy_function(name, arguments, keywords); },
        "What NumPy's function of this name gives, as an array.");
  }
}

}  // namespace shoal::python
