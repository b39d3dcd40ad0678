// shoal.random: random numbers.
#include "bindings/random/random.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <limits>
#include <utility>

#include "bindings/core/convert.h"
#include "bindings/core/flag.h"
#include "bindings/numpy/numpy.h"
#include "shoal/explicit_axes.h"
#include "shoal/random.h"
#include "shoal/shoal.h"

namespace shoal::python {
namespace {

using random::SampleShape;

// ---- What functions share.

// The dtype where none is said.
using DefaultDtype = Dtype (*)();
Dtype default_uint() { return x64_enabled() ? uint64 : uint32; }

Dtype dtype_or(nb::handle given, DefaultDtype otherwise) {
  return given.is_none() ? otherwise() : python::dtype(given);
}

SampleShape sample_shape(nb::handle given, const char* function) {
  if (given.is_none()) return {};
  return shape_from(given, function);
}

std::string mode_from(nb::handle given, const char* function) {
  if (given.is_none()) return "low";
  if (!PyUnicode_Check(given.ptr())) {
    type_error(fmt::format("{}: mode must be a string, got {}", function, type_text(given)));
  }
  return nb::cast<std::string>(given);
}

// make(), split as is wanted.
template <class Make>
Array sampled(const Operand& key, const char* function, nb::handle out_sharding, Make&& make) {
  const OutSharding sharding = python::out_sharding(out_sharding);
  return unlocked([&] {
    const Array result = make();
    if (!sharding) return result;
    return called_as(function, key.where(), [&] { return reshard({result, key.where()}, *sharding); });
  });
}

// Positions and counts, which C++ gives as i32.
Array in_default_int(const Array& x, const char* function, const Operand& key) {
  return called_as(function, key.where(), [&] { return astype(x, default_int()); });
}

// ---- Functions of a shape and a dtype.

template <Array (*f)(const Operand&, const Shape&, Dtype)>
void plain(nb::module_& m, const char* name, DefaultDtype otherwise, const char* doc) {
  m.def(
      name,
      [name, otherwise](nb::handle key, nb::handle shape, nb::handle dtype, nb::handle out_sharding) {
        const Operand k = operand(key, name, "key");
        const Shape extents = shape_from(shape, name);
        const Dtype wanted = dtype_or(dtype, otherwise);
        return sampled(k, name, out_sharding, [&] { return f(k, extents, wanted); });
      },
      "key"_x, "shape"_x = nb::make_tuple(), "dtype"_x = nb::none(), nb::kw_only(), "out_sharding"_x = nb::none(), doc);
}

// ---- Functions of parameters too, whose shape the sample has if none is given. Parameters are
// nb::arg, or nb::arg_v with a default.

template <Array (*f)(const Operand&, const Operand&, const SampleShape&, Dtype), class Name>
void of_one(nb::module_& m, const char* name, const Name& a, DefaultDtype otherwise, const char* doc) {
  m.def(
      name,
      [name, otherwise, a_name = a.name_](nb::handle key, nb::handle a, nb::handle shape, nb::handle dtype,
                                          nb::handle out_sharding) {
        const Operand k = operand(key, name, "key");
        const Operand x = operand(a, name, a_name);
        const SampleShape extents = sample_shape(shape, name);
        const Dtype wanted = dtype_or(dtype, otherwise);
        return sampled(k, name, out_sharding, [&] { return f(k, x, extents, wanted); });
      },
      "key"_x, a, "shape"_x = nb::none(), "dtype"_x = nb::none(), nb::kw_only(), "out_sharding"_x = nb::none(), doc);
}

template <Array (*f)(const Operand&, const Operand&, const SampleShape&, Dtype, const std::string&), class Name>
void of_one_by_method(nb::module_& m, const char* name, const Name& a, DefaultDtype otherwise, const char* doc) {
  m.def(
      name,
      [name, otherwise, a_name = a.name_](nb::handle key, nb::handle a, nb::handle shape, nb::handle dtype,
                                          const std::string& method, nb::handle out_sharding) {
        const Operand k = operand(key, name, "key");
        const Operand x = operand(a, name, a_name);
        const SampleShape extents = sample_shape(shape, name);
        const Dtype wanted = dtype_or(dtype, otherwise);
        return sampled(k, name, out_sharding, [&] { return f(k, x, extents, wanted, method); });
      },
      "key"_x, a, "shape"_x = nb::none(), "dtype"_x = nb::none(), nb::kw_only(), "method"_a = "exact",
      "out_sharding"_x = nb::none(), doc);
}

template <Array (*f)(const Operand&, const Operand&, const Operand&, const SampleShape&, Dtype), class A, class B>
void of_two(nb::module_& m, const char* name, const A& a, const B& b, const char* doc) {
  m.def(
      name,
      [name, a_name = a.name_, b_name = b.name_](nb::handle key, nb::handle a, nb::handle b, nb::handle shape,
                                                 nb::handle dtype, nb::handle out_sharding) {
        const Operand k = operand(key, name, "key");
        const Operand x = operand(a, name, a_name);
        const Operand y = operand(b, name, b_name);
        const SampleShape extents = sample_shape(shape, name);
        const Dtype wanted = dtype_or(dtype, default_float);
        return sampled(k, name, out_sharding, [&] { return f(k, x, y, extents, wanted); });
      },
      "key"_x, a, b, "shape"_x = nb::none(), "dtype"_x = nb::none(), nb::kw_only(), "out_sharding"_x = nb::none(), doc);
}

// Those of two parameters beside whose own shape another stands.
template <Array (*f)(const Operand&, const Operand&, const Operand&, const Shape&, Dtype), class A, class B>
void of_two_beside(nb::module_& m, const char* name, const A& a, const B& b, const char* doc) {
  m.def(
      name,
      [name, a_name = a.name_, b_name = b.name_](nb::handle key, nb::handle a, nb::handle b, nb::handle shape,
                                                 nb::handle dtype) {
        const Operand k = operand(key, name, "key");
        const Operand x = operand(a, name, a_name);
        const Operand y = operand(b, name, b_name);
        const Shape extents = shape_from(shape, name);
        const Dtype wanted = dtype_or(dtype, default_float);
        return unlocked([&] { return f(k, x, y, extents, wanted); });
      },
      "key"_x, a, b, "shape"_x = nb::make_tuple(), "dtype"_x = nb::none(), doc);
}

// ---- Keys.

// An implementation by its name, or by the dtype of its keys.
random::Implementation implementation(nb::handle impl, nb::handle dtype, const char* function) {
  if (!impl.is_none() && !dtype.is_none()) {
    value_error(fmt::format("{}: Cannot specify both `impl` and `dtype`", function));
  }
  const nb::handle given = impl.is_none() ? dtype : impl;
  if (given.is_none()) return {};
  if (PyUnicode_Check(given.ptr())) return nb::cast<std::string>(given);
  if (nb::hasattr(given, "_shoal_implementation")) return nb::cast<std::string>(given.attr("_shoal_implementation"));
  type_error(fmt::format("{}: {} must be the name of an implementation, or the dtype of its keys, got {}", function,
                         impl.is_none() ? "dtype" : "impl", type_text(given)));
}

// Integers of Python have 64 bits here, of which the lower half counts while 64-bit types are off.
Operand seed_from(nb::handle seed, const char* function) {
  if (!PyLong_Check(seed.ptr())) return operand(seed, function, "seed");
  const SourceLocation where = user_line();
  const std::int64_t value = integer(seed, fmt::format("{}: seed", function).c_str());
  if (!x64_enabled()) return {value, where};
  return {called_as(function, where, [&] { return full({}, value, {.dtype = int64}); }), where};
}

Operand folded_data(nb::handle data) {
  if (!PyLong_Check(data.ptr()) || PyBool_Check(data.ptr())) return operand(data, "fold_in", "data");
  const std::int64_t value = integer(data, "fold_in: data");
  if (value < 0 || value > std::numeric_limits<std::uint32_t>::max()) {
    PyErr_SetString(PyExc_OverflowError, fmt::format("fold_in: data is {}; it must fit dtype uint32", value).c_str());
    throw nb::python_error();
  }
  return {value, user_line()};
}

void bind_keys(nb::module_& m) {
  m.def(
      "PRNGKey",
      [](nb::handle seed, nb::handle impl) {
        const random::Implementation wanted = implementation(impl, nb::none(), "PRNGKey");
        const Operand given = seed_from(seed, "PRNGKey");
        return unlocked([&] { return random::PRNGKey(given, wanted); });
      },
      "seed"_x, nb::kw_only(), "impl"_x = nb::none(),
      "The raw key that an integer stands for: uint32[2], or uint32[4] of 'rbg' and 'unsafe_rbg'.");
  m.def(
      "key",
      [](nb::handle seed, nb::handle impl, nb::handle dtype) {
        const random::Implementation wanted = implementation(impl, dtype, "key");
        const Operand given = seed_from(seed, "key");
        return unlocked([&] { return random::key(given, wanted); });
      },
      "seed"_x, nb::kw_only(), "impl"_x = nb::none(), "dtype"_x = nb::none(), "The key that an integer stands for.");
  m.def(
      "wrap_key_data",
      [](nb::handle bits, nb::handle impl, nb::handle dtype) {
        const random::Implementation wanted = implementation(impl, dtype, "wrap_key_data");
        const Operand given = operand(bits, "wrap_key_data", "key_bits_array");
        return unlocked([&] { return random::wrap_key_data(given, wanted); });
      },
      "key_bits_array"_x, nb::kw_only(), "impl"_x = nb::none(), "dtype"_x = nb::none(),
      "The keys that have these words, uint32[..., 2], or uint32[..., 4] of 'rbg' and 'unsafe_rbg'.");
  m.def(
      "key_data",
      [](nb::handle keys) {
        const Operand given = operand(keys, "key_data", "keys");
        return unlocked([&] { return random::key_data(given); });
      },
      "keys"_x, "The words of keys, uint32[..., 2], or uint32[..., 4] of 'rbg' and 'unsafe_rbg'.");
  m.def(
      "key_impl", [](nb::handle keys) { return random::key_impl(operand(keys, "key_impl", "keys")); }, "keys"_x,
      "The name of what makes numbers of keys.");
  m.def(
      "key_dtype",
      [](nb::handle impl) { return dtype_object(random::key_dtype(implementation(impl, nb::none(), "key_dtype"))); },
      "impl_spec"_x = nb::none(), "The dtype of the keys of an implementation.");
  m.def("_set_default_implementation",
        [](const std::string& name) { random::set_default_implementation(name, user_line()); });
  m.def(
      "split",
      [](nb::handle key, nb::handle num) {
        const Operand k = operand(key, "split", "key");
        const Shape shape = dims(num, "split: num");
        return unlocked([&] { return random::split(k, shape); });
      },
      "key"_x, "num"_x = 2, "Keys made of a key: their number, or the shape that they have.");
  m.def(
      "fold_in",
      [](nb::handle key, nb::handle data) {
        const Operand k = operand(key, "fold_in", "key");
        const Operand number = folded_data(data);
        return unlocked([&] { return random::fold_in(k, number); });
      },
      "key"_x, "data"_x, "A key made of a key and an integer.");
  m.def(
      "clone",
      [](nb::handle key) {
        const Operand k = operand(key, "clone", "key");
        return unlocked([&] { return random::clone(k); });
      },
      "key"_x, "The same key, for a use of its own.");
}

// ---- Uniform, and what is chosen.

// A bound of uniform: numbers are known.
Operand bound(nb::handle x, const char* argument) {
  if (PyFloat_CheckExact(x.ptr())) return {PyFloat_AS_DOUBLE(x.ptr()), user_line()};
  return operand(x, "uniform", argument);
}

void bind_uniform(nb::module_& m) {
  plain<&random::bits>(m, "bits", default_uint, "Random bits, as unsigned integers.");
  plain<&random::rademacher>(m, "rademacher", default_int, "-1 or 1.");
  m.def(
      "uniform",
      [](nb::handle key, nb::handle shape, nb::handle dtype, nb::handle minval, nb::handle maxval,
         nb::handle out_sharding) {
        const Operand k = operand(key, "uniform", "key");
        const Shape extents = shape_from(shape, "uniform");
        const Dtype wanted = dtype_or(dtype, default_float);
        const Operand from = bound(minval, "minval");
        const Operand to = bound(maxval, "maxval");
        return sampled(k, "uniform", out_sharding, [&] { return random::uniform(k, extents, wanted, from, to); });
      },
      "key"_x, "shape"_x = nb::make_tuple(), "dtype"_x = nb::none(), "minval"_x = 0.0, "maxval"_x = 1.0, nb::kw_only(),
      "out_sharding"_x = nb::none(), "Numbers from minval up to, but not including, maxval.");
  m.def(
      "randint",
      [](nb::handle key, nb::handle shape, nb::handle minval, nb::handle maxval, nb::handle dtype,
         nb::handle out_sharding) {
        const Operand k = operand(key, "randint", "key");
        const Shape extents = shape_from(shape, "randint");
        const Operand from = operand(minval, "randint", "minval");
        const Operand to = operand(maxval, "randint", "maxval");
        const Dtype wanted = dtype_or(dtype, default_int);
        return sampled(k, "randint", out_sharding, [&] { return random::randint(k, extents, from, to, wanted); });
      },
      "key"_x, "shape"_x, "minval"_x, "maxval"_x, "dtype"_x = nb::none(), nb::kw_only(), "out_sharding"_x = nb::none(),
      "Integers from minval up to maxval - 1.");
  m.def(
      "bernoulli",
      [](nb::handle key, nb::handle p, nb::handle shape, const std::string& mode, nb::handle out_sharding) {
        const Operand k = operand(key, "bernoulli", "key");
        const Operand probability = operand(p, "bernoulli", "p");
        const SampleShape extents = sample_shape(shape, "bernoulli");
        return sampled(k, "bernoulli", out_sharding, [&] { return random::bernoulli(k, probability, extents, mode); });
      },
      "key"_x, "p"_x = 0.5, "shape"_x = nb::none(), "mode"_a = "low", nb::kw_only(), "out_sharding"_x = nb::none(),
      "Whether something of probability p happened.");
}

void bind_choices(nb::module_& m) {
  m.def(
      "permutation",
      [](nb::handle key, nb::handle x, nb::handle axis, Flag independent, nb::handle out_sharding) {
        const Operand k = operand(key, "permutation", "key");
        const Operand given = operand(x, "permutation");
        const random::PermutationOptions options{.axis = integer(axis, "permutation: axis"),
                                                 .independent = independent};
        return sampled(k, "permutation", out_sharding, [&] {
          const Array result = random::permutation(k, given, options);
          const bool is_array = given.array() != nullptr && given.array()->ndim() > 0;
          return is_array ? result : in_default_int(result, "permutation", k);
        });
      },
      "key"_x, "x"_x, "axis"_x = 0, "independent"_a = false, nb::kw_only(), "out_sharding"_x = nb::none(),
      "The parts of an array in random order; of an integer, the numbers below it.");
  m.def(
      "choice",
      [](nb::handle key, nb::handle a, nb::handle shape, Flag replace, nb::handle p, nb::handle axis, nb::handle mode) {
        const Operand k = operand(key, "choice", "key");
        const Operand given = operand(a, "choice", "a");
        if (PySequence_Check(shape.ptr()) == 0) {
          type_error(fmt::format("choice: shape must be a sequence, got {}", nb::cast<std::string>(nb::repr(shape))));
        }
        const Shape extents = shape_from(shape, "choice");
        const random::ChoiceOptions options{.replace = replace,
                                            .p = maybe_array(p, "choice", "p"),
                                            .axis = integer(axis, "choice: axis"),
                                            .mode = mode_from(mode, "choice")};
        return unlocked([&] {
          const Array result = random::choice(k, given, extents, options);
          const bool is_array = given.array() != nullptr && given.array()->ndim() > 0;
          return is_array ? result : in_default_int(result, "choice", k);
        });
      },
      "key"_x, "a"_x, "shape"_x = nb::make_tuple(), "replace"_a = true, "p"_x = nb::none(), "axis"_x = 0,
      "mode"_x = nb::none(), "Parts of an array along an axis; of an integer, numbers below it.");
  m.def(
      "categorical",
      [](nb::handle key, nb::handle logits, nb::handle axis, nb::handle shape, Flag replace, nb::handle mode,
         nb::handle out_sharding) {
        const Operand k = operand(key, "categorical", "key");
        const Operand given = operand(logits, "categorical", "logits");
        const random::CategoricalOptions options{.axis = integer(axis, "categorical: axis"),
                                                 .shape = sample_shape(shape, "categorical"),
                                                 .replace = replace,
                                                 .mode = mode_from(mode, "categorical")};
        return sampled(k, "categorical", out_sharding,
                       [&] { return in_default_int(random::categorical(k, given, options), "categorical", k); });
      },
      "key"_x, "logits"_x, "axis"_x = -1, "shape"_x = nb::none(), "replace"_a = true, "mode"_x = nb::none(),
      nb::kw_only(), "out_sharding"_x = nb::none(), "Positions along an axis, with probabilities softmax(logits).");
}

// ---- The normal distribution, and others whose inverse is a formula.

void bind_normal(nb::module_& m) {
  plain<&random::normal>(m, "normal", default_float,
                         "Numbers of the normal distribution of mean 0 and variance 1, also complex.");
  of_two<&random::truncated_normal>(m, "truncated_normal", "lower"_x, "upper"_x,
                                    "Normal numbers between lower and upper.");
  m.def(
      "multivariate_normal",
      [](nb::handle key, nb::handle mean, nb::handle cov, nb::handle shape, nb::handle dtype, const std::string& method,
         nb::handle out_sharding) {
        const Operand k = operand(key, "multivariate_normal", "key");
        const Operand centre = operand(mean, "multivariate_normal", "mean");
        const Operand covariances = operand(cov, "multivariate_normal", "cov");
        const SampleShape extents = sample_shape(shape, "multivariate_normal");
        const random::MultivariateNormalOptions options{.dtype = maybe_dtype(dtype), .method = method};
        return sampled(k, "multivariate_normal", out_sharding,
                       [&] { return random::multivariate_normal(k, centre, covariances, extents, options); });
      },
      "key"_x, "mean"_x, "cov"_x, "shape"_x = nb::none(), "dtype"_x = nb::none(), "method"_a = "cholesky",
      nb::kw_only(), "out_sharding"_x = nb::none(), "Vectors with a mean and a matrix of covariances.");
  of_one<&random::lognormal>(m, "lognormal", "sigma"_x = 1.0, default_float, "exp of sigma times a normal number.");
  plain<&random::maxwell>(m, "maxwell", default_float, "The length of three normal numbers.");
  of_two_beside<&random::double_sided_maxwell>(m, "double_sided_maxwell", "loc"_x, "scale"_x,
                                               "loc, plus or minus scale times a number of maxwell.");
  of_one<&random::rayleigh>(m, "rayleigh", "scale"_x, default_float, "scale times the length of two normal numbers.");
  of_one<&random::wald>(m, "wald", "mean"_x, default_float, "The inverse Gaussian distribution of variance mean^3.");
  m.def(
      "orthogonal",
      [](nb::handle key, nb::handle n, nb::handle shape, nb::handle dtype, nb::handle columns,
         nb::handle out_sharding) {
        const Operand k = operand(key, "orthogonal", "key");
        const std::int64_t rows = integer(n, "orthogonal: n");
        const Shape extents = shape_from(shape, "orthogonal");
        const Dtype wanted = dtype_or(dtype, default_float);
        const std::optional<std::int64_t> width = maybe_integer(columns, "orthogonal: m");
        return sampled(k, "orthogonal", out_sharding,
                       [&] { return random::orthogonal(k, rows, extents, wanted, width); });
      },
      "key"_x, "n"_x, "shape"_x = nb::make_tuple(), "dtype"_x = nb::none(), "m"_x = nb::none(), nb::kw_only(),
      "out_sharding"_x = nb::none(), "Matrices n x m whose columns, or rows if those are fewer, are orthonormal.");
}

void bind_formulas(nb::module_& m) {
  plain<&random::exponential>(m, "exponential", default_float, "The exponential distribution of mean 1.");
  plain<&random::laplace>(m, "laplace", default_float, "The Laplace distribution of mean 0 and scale 1.");
  plain<&random::logistic>(m, "logistic", default_float, "The logistic distribution of mean 0 and scale 1.");
  plain<&random::cauchy>(m, "cauchy", default_float, "The Cauchy distribution of location 0 and scale 1.");
  m.def(
      "gumbel",
      [](nb::handle key, nb::handle shape, nb::handle dtype, nb::handle mode, nb::handle out_sharding) {
        const Operand k = operand(key, "gumbel", "key");
        const Shape extents = shape_from(shape, "gumbel");
        const Dtype wanted = dtype_or(dtype, default_float);
        const std::string precision = mode_from(mode, "gumbel");
        return sampled(k, "gumbel", out_sharding, [&] { return random::gumbel(k, extents, wanted, precision); });
      },
      "key"_x, "shape"_x = nb::make_tuple(), "dtype"_x = nb::none(), "mode"_x = nb::none(), nb::kw_only(),
      "out_sharding"_x = nb::none(), "-log(-log(u)).");
  of_two_beside<&random::weibull_min>(m, "weibull_min", "scale"_x, "concentration"_x,
                                      "scale (-log(1 - u))^(1 / concentration).");
  of_one<&random::pareto>(m, "pareto", "b"_x, default_float, "Numbers from 1 on, with density b x^(-b - 1).");
  m.def(
      "triangular",
      [](nb::handle key, nb::handle left, nb::handle mode, nb::handle right, nb::handle shape, nb::handle dtype,
         nb::handle out_sharding) {
        const Operand k = operand(key, "triangular", "key");
        const Operand from = operand(left, "triangular", "left");
        const Operand top = operand(mode, "triangular", "mode");
        const Operand to = operand(right, "triangular", "right");
        const SampleShape extents = sample_shape(shape, "triangular");
        const Dtype wanted = dtype_or(dtype, default_float);
        return sampled(k, "triangular", out_sharding,
                       [&] { return random::triangular(k, from, top, to, extents, wanted); });
      },
      "key"_x, "left"_x, "mode"_x, "right"_x, "shape"_x = nb::none(), "dtype"_x = nb::none(), nb::kw_only(),
      "out_sharding"_x = nb::none(), "Between left and right, with a density that rises up to mode and then falls.");
}

// ---- The gamma distribution and what is made of it.

void bind_gamma(nb::module_& m) {
  of_one_by_method<&random::gamma>(m, "gamma", "a"_x, default_float, "The gamma distribution of shape a and scale 1.");
  of_one_by_method<&random::loggamma>(m, "loggamma", "a"_x, default_float,
                                      "The logarithm of numbers of gamma, exact also for a small a.");
  m.def(
      "beta",
      [](nb::handle key, nb::handle a, nb::handle b, nb::handle shape, nb::handle dtype, const std::string& method,
         nb::handle out_sharding) {
        const Operand k = operand(key, "beta", "key");
        const Operand x = operand(a, "beta", "a");
        const Operand y = operand(b, "beta", "b");
        const SampleShape extents = sample_shape(shape, "beta");
        const Dtype wanted = dtype_or(dtype, default_float);
        return sampled(k, "beta", out_sharding, [&] { return random::beta(k, x, y, extents, wanted, method); });
      },
      "key"_x, "a"_x, "b"_x, "shape"_x = nb::none(), "dtype"_x = nb::none(), nb::kw_only(), "method"_a = "exact",
      "out_sharding"_x = nb::none(), "Between 0 and 1, with density x^(a - 1) (1 - x)^(b - 1), normalized.");
  of_one<&random::dirichlet>(m, "dirichlet", "alpha"_x, default_float,
                             "Vectors of positive numbers with sum 1, as many as the last dimension of alpha has.");
  of_one_by_method<&random::chisquare>(m, "chisquare", "df"_x, default_float,
                                       "The sum of the squares of df normal numbers.");
  of_one<&random::t>(m, "t", "df"_x, default_float, "Student's distribution with df degrees of freedom.");
  of_two<&random::f>(m, "f", "dfnum"_x, "dfden"_x,
                     "The quotient of two mean squares, with dfnum and dfden degrees of freedom.");
  m.def(
      "generalized_normal",
      [](nb::handle key, nb::handle p, nb::handle shape, nb::handle dtype, nb::handle out_sharding) {
        const Operand k = operand(key, "generalized_normal", "key");
        const Operand power = operand(p, "generalized_normal", "p");
        const Shape extents = shape_from(shape, "generalized_normal");
        const Dtype wanted = dtype_or(dtype, default_float);
        return sampled(k, "generalized_normal", out_sharding,
                       [&] { return random::generalized_normal(k, power, extents, wanted); });
      },
      "key"_x, "p"_x, "shape"_x = nb::make_tuple(), "dtype"_x = nb::none(), nb::kw_only(),
      "out_sharding"_x = nb::none(), "Numbers with density exp(-|x|^p), normalized.");
  m.def(
      "ball",
      [](nb::handle key, nb::handle d, nb::handle p, nb::handle shape, nb::handle dtype, nb::handle out_sharding) {
        const Operand k = operand(key, "ball", "key");
        const std::int64_t dimensions = integer(d, "ball: d");
        const Operand power = operand(p, "ball", "p");
        const Shape extents = shape_from(shape, "ball");
        const Dtype wanted = dtype_or(dtype, default_float);
        return sampled(k, "ball", out_sharding, [&] { return random::ball(k, dimensions, power, extents, wanted); });
      },
      "key"_x, "d"_x, "p"_x = 2, "shape"_x = nb::make_tuple(), "dtype"_x = nb::none(), nb::kw_only(),
      "out_sharding"_x = nb::none(), "Points of the ball of d dimensions in which sum(|x|^p) is at most 1.");
}

// ---- Counts.

void bind_counts(nb::module_& m) {
  of_one_by_method<&random::poisson>(m, "poisson", "lam"_x, default_int,
                                     "How often something happens that does so lam times in the mean.");
  of_one<&random::geometric>(m, "geometric", "p"_x, default_int,
                             "The number of trials until something of probability p happens for the first time.");
  m.def(
      "binomial",
      [](nb::handle key, nb::handle n, nb::handle p, nb::handle shape, nb::handle dtype) {
        const Operand k = operand(key, "binomial", "key");
        const Operand trials = operand(n, "binomial", "n");
        const Operand probability = operand(p, "binomial", "p");
        const SampleShape extents = sample_shape(shape, "binomial");
        const Dtype wanted = dtype_or(dtype, default_float);
        return unlocked([&] { return random::binomial(k, trials, probability, extents, wanted); });
      },
      "key"_x, "n"_x, "p"_x, "shape"_x = nb::none(), "dtype"_x = nb::none(),
      "How often something of probability p happens in n trials.");
  m.def(
      "multinomial",
      [](nb::handle key, nb::handle n, nb::handle p, nb::handle shape, nb::handle dtype, nb::handle unroll) {
        static_cast<void>(unroll);  // How JAX compiles its loop.
        const Operand k = operand(key, "multinomial", "key");
        const Operand trials = operand(n, "multinomial", "n");
        const Operand probabilities = operand(p, "multinomial", "p");
        const random::MultinomialOptions options{.shape = sample_shape(shape, "multinomial"),
                                                 .dtype = maybe_dtype(dtype)};
        return unlocked([&] { return random::multinomial(k, trials, probabilities, options); });
      },
      "key"_x, "n"_x, "p"_x, nb::kw_only(), "shape"_x = nb::none(), "dtype"_x = nb::none(), "unroll"_x = 1,
      "How often each of several things happens in n trials; their probabilities lie along the last dimension of p.");
}

}  // namespace

void bind_random(nb::module_& m) {
  bind_keys(m);
  bind_uniform(m);
  bind_choices(m);
  bind_normal(m);
  bind_formulas(m);
  bind_gamma(m);
  bind_counts(m);
}

}  // namespace shoal::python
