// Contractions: products of arrays summed over dimensions.
#include <fmt/format.h>

#include <string>

#include "base/caller.h"
#include "bindings/numpy/numpy.h"

namespace shoal::python {
namespace {

// Both operands in the dtype that products shall be added in, if it is the wider one.
std::optional<Dtype> accumulate_in(nb::handle preferred, Operand& x, Operand& y) {
  const std::optional<Dtype> wanted = maybe_dtype(preferred);
  if (wanted && size_of(*wanted) >= size_of(promote_types(type_of_operand(x), type_of_operand(y)).dtype)) {
    x = in_dtype(x, wanted);
    y = in_dtype(y, wanted);
  }
  return wanted;
}

// f(x, y, out_sharding), in the dtype that is preferred.
template <class F>
void bind_product(nb::module_& m, const char* name, const F& f, const char* x_name, const char* y_name,
                  const char* doc) {
  m.def(
      name,
      [f, name](nb::handle a, nb::handle b, nb::handle precision, nb::handle preferred_element_type,
                nb::handle out_sharding) {
        static_cast<void>(precision);
        Operand x = operand(a, name, "a");
        Operand y = operand(b, name, "b");
        const std::optional<Dtype> wanted = accumulate_in(preferred_element_type, x, y);
        const OutSharding sharding = python::out_sharding(out_sharding);
        return unlocked([&] { return shoal::to_array(in_dtype({f(x, y, sharding), x.where()}, wanted)); });
      },
      nb::arg(x_name).none(), nb::arg(y_name).none(), nb::kw_only(), "precision"_x = nb::none(),
      "preferred_element_type"_x = nb::none(), "out_sharding"_x = nb::none(), doc);
}

Array dot_of(nb::handle a, nb::handle b, nb::handle precision, nb::handle preferred_element_type,
             nb::handle out_sharding) {
  static_cast<void>(precision);
  Operand x = operand(a, "dot", "a");
  Operand y = operand(b, "dot", "b");
  const std::optional<Dtype> wanted = accumulate_in(preferred_element_type, x, y);
  const OutSharding sharding = python::out_sharding(out_sharding);
  return unlocked([&] { return shoal::to_array(in_dtype({dot(x, y, sharding), x.where()}, wanted)); });
}

Array tensordot_of(nb::handle a, nb::handle b, nb::handle axes, nb::handle precision, nb::handle preferred_element_type,
                   nb::handle out_sharding) {
  static_cast<void>(precision);
  Operand x = operand(a, "tensordot", "a");
  Operand y = operand(b, "tensordot", "b");
  const std::optional<Dtype> wanted = accumulate_in(preferred_element_type, x, y);
  const OutSharding sharding = python::out_sharding(out_sharding);
  const auto result = [&](const auto&... given) {
    return unlocked([&] {
      return shoal::to_array(in_dtype({tensordot(x, y, given..., sharding), x.where()}, wanted));
    });
  };
  if (PyIndex_Check(axes.ptr()) != 0) return result(integer(axes, "tensordot: axes"));
  if (PySequence_Check(axes.ptr()) == 0 || nb::len(axes) != 2) {
    type_error("tensordot axes argument must be an int, a pair of ints, or a pair of lists/tuples of ints.");
  }
  return result(dims(axes[0], "tensordot: axes"), dims(axes[1], "tensordot: axes"));
}

// The letters that stand for the numbers of einsum(x, [0, 1], y, [1, 2], [0, 2]).
std::string letters(nb::handle labels) {
  std::string text;
  for (nb::handle label : labels) {
    if (label.is(Py_Ellipsis)) {
      text += "...";
      continue;
    }
    const std::int64_t number = integer(label, "einsum: a label");
    if (number < 0 || number >= 52) value_error("einsum: a label must be between 0 and 51");
    text += static_cast<char>(number < 26 ? 'A' + number : 'a' + number - 26);
  }
  return text;
}

Array einsum_of(nb::args args, nb::handle out, nb::handle optimize, nb::handle precision,
                nb::handle preferred_element_type, nb::handle out_sharding) {
  static_cast<void>(optimize);
  static_cast<void>(precision);
  refuse_out("einsum", out);
  const std::size_t count = nb::len(args);
  if (count < 2) type_error("einsum needs subscripts and at least one operand");
  std::string subscripts;
  std::vector<Operand> arrays;
  if (PyUnicode_Check(args[0].ptr())) {
    subscripts = nb::cast<std::string>(args[0]);
    for (std::size_t i = 1; i < count; ++i) arrays.push_back(operand(args[i], "einsum", "operands"));
  } else {
    for (std::size_t i = 0; i + 1 < count; i += 2) {
      arrays.push_back(operand(args[i], "einsum", "operands"));
      subscripts += (i > 0 ? "," : "") + letters(args[i + 1]);
    }
    if (count % 2 == 1) subscripts += "->" + letters(args[count - 1]);
  }
  const EinsumOptions options{.preferred_element_type = maybe_dtype(preferred_element_type),
                              .out_sharding = python::out_sharding(out_sharding)};
  return unlocked([&] { return einsum(subscripts, arrays, options); });
}

// A matrix and a vector of the last dimensions, the ones before broadcasting.
Array matvec(const Operand& x, const Operand& y) {
  const SourceLocation where = x.where();
  return squeeze({matmul(x, {expand_dims(y, -1), where}), where}, -1);
}
Array vecmat(const Operand& x, const Operand& y) {
  const SourceLocation where = x.where();
  return squeeze({matmul({expand_dims({conj(x), where}, -2), where}, y), where}, -2);
}

}  // namespace

void bind_numpy_products(nb::module_& m, ArrayClass& c) {
  const auto dot_extras = [](auto& to, const auto&... first) {
    to.def("dot", &dot_of, first..., nb::kw_only(), "precision"_x = nb::none(), "preferred_element_type"_x = nb::none(),
           "out_sharding"_x = nb::none(), "NumPy's dot.");
  };
  dot_extras(m, "a"_x, "b"_x);
  dot_extras(c, "b"_x);
  bind_product(
      m, "matmul", [](const Operand& x, const Operand& y, const OutSharding& s) { return matmul(x, y, s); }, "a", "b",
      "The matrix product of the last two dimensions.");
  bind_product(
      m, "inner", [](const Operand& x, const Operand& y, const OutSharding& s) { return inner(x, y, s); }, "a", "b",
      "The sum over the last dimension of both.");
  bind_product(
      m, "vdot", [](const Operand& x, const Operand& y, const OutSharding&) { return vdot(x, y); }, "a", "b",
      "The sum of conj(a) b over all elements.");
  m.def(
      "vecdot",
      [](nb::handle x1, nb::handle x2, nb::handle axis, nb::handle precision, nb::handle preferred_element_type) {
        static_cast<void>(precision);
        Operand x = operand(x1, "vecdot", "x1");
        Operand y = operand(x2, "vecdot", "x2");
        const std::optional<Dtype> wanted = accumulate_in(preferred_element_type, x, y);
        const std::int64_t along = integer(axis, "vecdot: axis");
        return unlocked([&] { return shoal::to_array(in_dtype({vecdot(x, y, along), x.where()}, wanted)); });
      },
      positional(), positional(), nb::kw_only(), "axis"_x = -1, "precision"_x = nb::none(),
      "preferred_element_type"_x = nb::none(), "The sum of conj(x1) x2 over a dimension.");
  m.def("tensordot", &tensordot_of, "a"_x, "b"_x, "axes"_x = 2, nb::kw_only(), "precision"_x = nb::none(),
        "preferred_element_type"_x = nb::none(), "out_sharding"_x = nb::none(), "The sum over pairs of dimensions.");
  m.def(
      "outer",
      [](nb::handle a, nb::handle b, nb::handle out) {
        refuse_out("outer", out);
        const Operand x = operand(a, "outer", "a");
        const Operand y = operand(b, "outer", "b");
        return unlocked([&] { return outer(x, y); });
      },
      "a"_x, "b"_x, "out"_x = nb::none(), "The products of all elements with all.");
  using Plain = Array (*)(const Operand&, const Operand&);
  const auto plain = [&](const char* name, Plain f, const char* doc, const auto&... arguments) {
    m.def(
        name,
        [f, name](nb::handle a, nb::handle b) {
          const Operand x = operand(a, name, "a");
          const Operand y = operand(b, name, "b");
          return unlocked([&] { return f(x, y); });
        },
        arguments..., doc);
  };
  plain("kron", &kron, "The Kronecker product.", "a"_x, "b"_x);
  plain("matvec", &matvec, "Products of matrices and vectors.", positional(), positional());
  plain("vecmat", &vecmat, "Products of conjugated vectors and matrices.", positional(), positional());
  m.def(
      "cross",
      [](nb::handle a, nb::handle b, nb::handle axisa, nb::handle axisb, nb::handle axisc, nb::handle axis) {
        const Operand x = operand(a, "cross", "a");
        const Operand y = operand(b, "cross", "b");
        CrossOptions options{integer(axisa, "cross: axisa"), integer(axisb, "cross: axisb"),
                             integer(axisc, "cross: axisc")};
        if (const auto all = maybe_integer(axis, "cross: axis")) options = {*all, *all, *all};
        return unlocked([&] { return cross(x, y, options); });
      },
      "a"_x, "b"_x, "axisa"_x = -1, "axisb"_x = -1, "axisc"_x = -1, "axis"_x = nb::none(), "The cross product.");
  m.def("einsum", &einsum_of, "args"_a, nb::kw_only(), "out"_x = nb::none(), "optimize"_x = "auto",
        "precision"_x = nb::none(), "preferred_element_type"_x = nb::none(), "out_sharding"_x = nb::none(),
        "Products summed over the labels that the output lacks.");
  define(
      m, c, "trace",
      [](nb::handle a, nb::handle offset, nb::handle axis1, nb::handle axis2, nb::handle dtype, nb::handle out) {
        refuse_out("trace", out);
        const Operand x = operand(a, "trace", "a");
        const DiagonalOptions options{integer(offset, "trace: offset"), integer(axis1, "trace: axis1"),
                                      integer(axis2, "trace: axis2")};
        const std::optional<Dtype> wanted = dtype.is_none() ? summed(type_of_operand(x).dtype) : maybe_dtype(dtype);
        return unlocked([&] {
          const Operand given = in_dtype(x, wanted);
          return shoal::to_array(in_dtype({trace(given, options), x.where()}, wanted));
        });
      },
      "a"_x, "offset"_x = 0, "axis1"_x = 0, "axis2"_x = 1, "dtype"_x = nb::none(), "out"_x = nb::none(),
      "The sum of a diagonal.");
  define(
      m, c, "diagonal",
      [](nb::handle a, nb::handle offset, nb::handle axis1, nb::handle axis2) {
        const Operand x = operand(a, "diagonal", "a");
        const DiagonalOptions options{integer(offset, "diagonal: offset"), integer(axis1, "diagonal: axis1"),
                                      integer(axis2, "diagonal: axis2")};
        return unlocked([&] { return diagonal(x, options); });
      },
      "a"_x, "offset"_x = 0, "axis1"_x = 0, "axis2"_x = 1, "A diagonal of two dimensions, as the last one.");
}

}  // namespace shoal::python
