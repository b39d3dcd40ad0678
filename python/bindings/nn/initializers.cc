// What the initializers of shoal.nn.initializers call: functions of a key, a shape and a dtype.
#include "shoal/initializers.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include "bindings/core/numbers.h"
#include "bindings/nn/nn.h"
#include "bindings/numpy/numpy.h"
#include "shoal/explicit_axes.h"

namespace shoal::python {
namespace {

namespace initializers = nn::initializers;

// What all of them take.
struct Weights {
  Weights(const char* function, nb::handle key, nb::handle shape, nb::handle dtype, nb::handle out_sharding)
      : function(function),
        key(operand(key, function, "key")),
        shape(shape_from(shape, function)),
        dtype(dtype.is_none() ? default_float() : python::dtype(dtype)),
        out_sharding(python::out_sharding(out_sharding)) {}

  // make(key, shape, dtype), split as is wanted.
  template <class Make>
  Array made(Make&& make) const {
    return unlocked([&] {
      const Array result = make(key, shape, dtype);
      if (!out_sharding) return result;
      return called_as(function, key.where(), [&] { return reshard({result, key.where()}, *out_sharding); });
    });
  }

  const char* function;
  Operand key;
  Shape shape;
  Dtype dtype;
  OutSharding out_sharding;
};

// uniform and normal: numbers times a factor.
template <Array (*f)(const Operand&, const Shape&, Dtype, const Operand&)>
void scaled(nb::module_& m, const char* name, const char* factor, const char* doc) {
  m.def(
      name,
      [name, factor](nb::handle key, nb::handle shape, nb::handle dtype, nb::handle scale, nb::handle out_sharding) {
        const Weights weights(name, key, shape, dtype, out_sharding);
        const Operand times = operand(scale, name, factor);
        return weights.made([&](const Operand& k, const Shape& s, Dtype d) { return f(k, s, d, times); });
      },
      "key"_x, "shape"_x, "dtype"_x, nb::arg(factor).none(), "out_sharding"_x = nb::none(), doc);
}

// orthogonal and delta_orthogonal.
template <Array (*f)(const Operand&, const Shape&, Dtype, const Operand&, std::int64_t)>
void of_matrix(nb::module_& m, const char* name, const char* doc) {
  m.def(
      name,
      [name](nb::handle key, nb::handle shape, nb::handle dtype, nb::handle scale, nb::handle column_axis,
             nb::handle out_sharding) {
        const Weights weights(name, key, shape, dtype, out_sharding);
        const Operand times = operand(scale, name, "scale");
        const std::int64_t axis = integer(column_axis, fmt::format("{}: column_axis", name));
        return weights.made([&](const Operand& k, const Shape& s, Dtype d) { return f(k, s, d, times, axis); });
      },
      "key"_x, "shape"_x, "dtype"_x, "scale"_x, "column_axis"_x, "out_sharding"_x = nb::none(), doc);
}

}  // namespace

void bind_initializers(nb::module_& m) {
  scaled<&initializers::uniform>(m, "uniform", "scale", "Uniform numbers between 0 and scale.");
  scaled<&initializers::normal>(m, "normal", "stddev", "Normal numbers.");
  m.def(
      "truncated_normal",
      [](nb::handle key, nb::handle shape, nb::handle dtype, nb::handle stddev, nb::handle lower, nb::handle upper,
         nb::handle out_sharding) {
        const Weights weights("truncated_normal", key, shape, dtype, out_sharding);
        const Operand times = operand(stddev, "truncated_normal", "stddev");
        const Operand low = operand(lower, "truncated_normal", "lower");
        const Operand high = operand(upper, "truncated_normal", "upper");
        return weights.made([&](const Operand& k, const Shape& s, Dtype d) {
          return initializers::truncated_normal(k, s, d, times, low, high);
        });
      },
      "key"_x, "shape"_x, "dtype"_x, "stddev"_x, "lower"_x, "upper"_x, "out_sharding"_x = nb::none(),
      "Normal numbers between two bounds.");
  m.def(
      "variance_scaling",
      [](nb::handle key, nb::handle shape, nb::handle dtype, nb::handle scale, const std::string& mode,
         const std::string& distribution, nb::handle in_axis, nb::handle out_axis, nb::handle batch_axis,
         nb::handle out_sharding) {
        const Weights weights("variance_scaling", key, shape, dtype, out_sharding);
        const initializers::VarianceScalingOptions options{
            .scale = number_or_array(scale, "variance_scaling", "scale"),
            .mode = mode,
            .distribution = distribution,
            .in_axis = dims(in_axis, "variance_scaling: in_axis"),
            .out_axis = dims(out_axis, "variance_scaling: out_axis"),
            .batch_axis = dims(batch_axis, "variance_scaling: batch_axis")};
        return weights.made([&](const Operand& k, const Shape& s, Dtype d) {
          return initializers::variance_scaling(k, s, options, d);
        });
      },
      "key"_x, "shape"_x, "dtype"_x, "scale"_x, "mode"_a, "distribution"_a, "in_axis"_x, "out_axis"_x, "batch_axis"_x,
      "out_sharding"_x = nb::none(), "Numbers whose variance keeps that of what goes through a layer.");
  of_matrix<&initializers::orthogonal>(m, "orthogonal", "A matrix whose rows or columns are orthonormal.");
  of_matrix<&initializers::delta_orthogonal>(m, "delta_orthogonal",
                                             "The same in the middle of the windows of a convolution.");
}

}  // namespace shoal::python
