// The first parameters of layers: the functions of jax.nn.initializers. zeros, ones and full make those that need no
// random numbers.
//
// A shape is that of the weights of a layer. They are made of a key as those of random.h, and throw as these do; dtype
// is of floats or complex numbers.
//
// @param key A key of random numbers.
// @param shape The shape of the weights.
// @param dtype Their dtype.
// @param scale By what the numbers are multiplied.
// @param stddev The deviation: by what numbers of variance 1 are multiplied.
// @param lower The least number, before that.
// @param upper The greatest number, before that.
// @param column_axis The dimension of the columns, from the end if negative.
// @return An array of this shape and dtype.
#pragma once

#include <cstdint>
#include <string>

#include "shoal/array.h"
#include "shoal/numpy.h"

namespace shoal::nn::initializers {

/// Uniform numbers from 0 up to, but not including, scale.
Array uniform(const Operand& key, const Shape& shape, Dtype dtype = float32, const Operand& scale = 1e-2);
/// Normal numbers.
Array normal(const Operand& key, const Shape& shape, Dtype dtype = float32, const Operand& stddev = 1e-2);
/// Normal numbers between lower and upper, before they are multiplied by stddev.
Array truncated_normal(const Operand& key, const Shape& shape, Dtype dtype = float32, const Operand& stddev = 1e-2,
                       const Operand& lower = -2.0, const Operand& upper = 2.0);

struct VarianceScalingOptions {
  Operand scale = 1.0;  ///< A number or a scalar array.
  /// By what the variance `scale` is divided: "fan_in", the inputs of each output; "fan_out", the outputs of each
  /// input; "fan_avg" or "fan_geo_avg", their arithmetic or geometric mean.
  std::string mode = "fan_in";
  std::string distribution = "truncated_normal";  ///< Or "normal" or "uniform"; of variance 1 in any case.
  Dims in_axis = {-2};                            ///< The dimensions of the inputs,
  Dims out_axis = {-1};                           ///< of the outputs,
  Dims batch_axis = {};  ///< and of layers side by side. Others are windows, which share weights.
};
/// Numbers whose variance keeps that of what goes through the layer: LeCun et al. 1998, "Efficient BackProp"; Glorot
/// and Bengio 2010, "Understanding the difficulty of training deep feedforward neural networks"; He et al. 2015,
/// "Delving deep into rectifiers". Throws InvalidArgument for other modes and distributions, and for a shape without
/// the dimensions.
Array variance_scaling(const Operand& key, const Shape& shape, const VarianceScalingOptions& options = {},
                       Dtype dtype = float32);

/// A matrix whose rows or columns are orthonormal, times scale: Saxe, McClelland and Ganguli 2013, "Exact solutions to
/// the nonlinear dynamics of learning in deep linear neural networks". The dimensions but column_axis are its rows.
/// Throws InvalidArgument for less than two dimensions.
Array orthogonal(const Operand& key, const Shape& shape, Dtype dtype = float32, const Operand& scale = 1.0,
                 std::int64_t column_axis = -1);
/// The same in the middle of the windows of a convolution, and 0 elsewhere: Xiao et al. 2018, "Dynamical isometry and a
/// mean field theory of CNNs". The last two dimensions are inputs and outputs, of which there are no less. Throws
/// InvalidArgument for others than 3 to 5 dimensions.
Array delta_orthogonal(const Operand& key, const Shape& shape, Dtype dtype = float32, const Operand& scale = 1.0,
                       std::int64_t column_axis = -1);

}  // namespace shoal::nn::initializers
