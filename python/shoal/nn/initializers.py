"""Functions that make the first parameters of layers: initializer(key, shape, dtype)."""

from typing import Protocol as _Protocol

from shoal._core.lax import full
from shoal._core.nn import _initializers


class Initializer(_Protocol):
    """What the functions of this module are, or return."""

    def __call__(self, key, shape, dtype=None, out_sharding=None): ...


def _filled(shape, value, dtype, out_sharding):
    return full(shape, value, float if dtype is None else dtype, sharding=out_sharding)


def zeros(key, shape, dtype=None, out_sharding=None):
    """An array of zeros.

    Args:
      key: Makes no difference.
      shape: The shape of the weights.
      dtype: The dtype of the weights, where they are made without one.
      out_sharding: How the weights lie.
    """
    return _filled(shape, 0, dtype, out_sharding)


def ones(key, shape, dtype=None, out_sharding=None):
    """An array of ones.

    Args:
      key: Makes no difference.
      shape: The shape of the weights.
      dtype: The dtype of the weights, where they are made without one.
      out_sharding: How the weights lie.
    """
    return _filled(shape, 1, dtype, out_sharding)


def constant(value, dtype=None):
    """An initializer that fills arrays with one value.

    Args:
      value: The value.
      dtype: The dtype of the weights, where they are made without one.
    """
    default = dtype

    def init(key, shape, dtype=None, out_sharding=None):
        return _filled(shape, value, default if dtype is None else dtype, out_sharding)

    return init


def _initializer(draw, dtype, *parameters):
    """The initializer that draws by `draw`, in `dtype` where none is asked for."""
    default = dtype

    def init(key, shape, dtype=None, out_sharding=None):
        return draw(key, shape, default if dtype is None else dtype, *parameters, out_sharding=out_sharding)

    return init


def uniform(scale=1e-2, dtype=None):
    """An initializer with uniform numbers from 0 up to scale.

    Args:
      scale: By what the numbers are multiplied.
      dtype: The dtype of the weights, where they are made without one.
    """
    return _initializer(_initializers.uniform, dtype, scale)


def normal(stddev=1e-2, dtype=None):
    """An initializer with normal numbers.

    Args:
      stddev: The deviation.
      dtype: The dtype of the weights, where they are made without one.
    """
    return _initializer(_initializers.normal, dtype, stddev)


def truncated_normal(stddev=1e-2, dtype=None, lower=-2.0, upper=2.0):
    """An initializer with normal numbers between two bounds, which are those before they are multiplied by stddev.

    Args:
      stddev: The deviation.
      dtype: The dtype of the weights, where they are made without one.
      lower: The least number, before it is multiplied by the deviation.
      upper: The greatest number, before that.
    """
    return _initializer(_initializers.truncated_normal, dtype, stddev, lower, upper)


def variance_scaling(scale, mode, distribution, in_axis=-2, out_axis=-1, batch_axis=(), dtype=None):
    """An initializer that keeps the variance of what goes through a layer.

    The variance is scale divided by the number that mode names: of inputs ("fan_in"), of outputs ("fan_out"), or the
    mean of both ("fan_avg", "fan_geo_avg"). The distribution is "truncated_normal", "normal" or "uniform".

    Args:
      scale: The variance.
      mode: By what the variance is divided: "fan_in", "fan_out", "fan_avg" or "fan_geo_avg".
      distribution: "truncated_normal", "normal" or "uniform".
      in_axis: The dimensions of the inputs.
      out_axis: The dimensions of the outputs.
      batch_axis: The dimensions of layers side by side.
      dtype: The dtype of the weights, where they are made without one.
    """
    return _initializer(_initializers.variance_scaling, dtype, scale, mode, distribution, in_axis, out_axis, batch_axis)


def glorot_uniform(in_axis=-2, out_axis=-1, batch_axis=(), dtype=None):
    """variance_scaling with the mean of inputs and outputs, and uniform numbers.

    Args:
      in_axis: The dimensions of the inputs.
      out_axis: The dimensions of the outputs.
      batch_axis: The dimensions of layers side by side.
      dtype: The dtype of the weights, where they are made without one.
    """
    return variance_scaling(1.0, "fan_avg", "uniform", in_axis, out_axis, batch_axis, dtype)


def glorot_normal(in_axis=-2, out_axis=-1, batch_axis=(), dtype=None):
    """variance_scaling with the mean of inputs and outputs, and normal numbers.

    Args:
      in_axis: The dimensions of the inputs.
      out_axis: The dimensions of the outputs.
      batch_axis: The dimensions of layers side by side.
      dtype: The dtype of the weights, where they are made without one.
    """
    return variance_scaling(1.0, "fan_avg", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


def lecun_uniform(in_axis=-2, out_axis=-1, batch_axis=(), dtype=None):
    """variance_scaling with the inputs, and uniform numbers.

    Args:
      in_axis: The dimensions of the inputs.
      out_axis: The dimensions of the outputs.
      batch_axis: The dimensions of layers side by side.
      dtype: The dtype of the weights, where they are made without one.
    """
    return variance_scaling(1.0, "fan_in", "uniform", in_axis, out_axis, batch_axis, dtype)


def lecun_normal(in_axis=-2, out_axis=-1, batch_axis=(), dtype=None):
    """variance_scaling with the inputs, and normal numbers.

    Args:
      in_axis: The dimensions of the inputs.
      out_axis: The dimensions of the outputs.
      batch_axis: The dimensions of layers side by side.
      dtype: The dtype of the weights, where they are made without one.
    """
    return variance_scaling(1.0, "fan_in", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


def he_uniform(in_axis=-2, out_axis=-1, batch_axis=(), dtype=None):
    """variance_scaling with half the inputs, as for relu, and uniform numbers.

    Args:
      in_axis: The dimensions of the inputs.
      out_axis: The dimensions of the outputs.
      batch_axis: The dimensions of layers side by side.
      dtype: The dtype of the weights, where they are made without one.
    """
    return variance_scaling(2.0, "fan_in", "uniform", in_axis, out_axis, batch_axis, dtype)


def he_normal(in_axis=-2, out_axis=-1, batch_axis=(), dtype=None):
    """variance_scaling with half the inputs, as for relu, and normal numbers.

    Args:
      in_axis: The dimensions of the inputs.
      out_axis: The dimensions of the outputs.
      batch_axis: The dimensions of layers side by side.
      dtype: The dtype of the weights, where they are made without one.
    """
    return variance_scaling(2.0, "fan_in", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


xavier_uniform = glorot_uniform
xavier_normal = glorot_normal
kaiming_uniform = he_uniform
kaiming_normal = he_normal


def orthogonal(scale=1.0, column_axis=-1, dtype=None):
    """An initializer with matrices whose rows or columns are orthonormal, times scale.

    Args:
      scale: By what the numbers are multiplied.
      column_axis: The dimension of the columns.
      dtype: The dtype of the weights, where they are made without one.
    """
    return _initializer(_initializers.orthogonal, dtype, scale, column_axis)


def delta_orthogonal(scale=1.0, column_axis=-1, dtype=None):
    """The same in the middle of the windows of a convolution, and 0 elsewhere.

    Args:
      scale: By what the numbers are multiplied.
      column_axis: The dimension of the columns.
      dtype: The dtype of the weights, where they are made without one.
    """
    return _initializer(_initializers.delta_orthogonal, dtype, scale, column_axis)
