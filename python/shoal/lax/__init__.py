"""Functions on arrays that promote no dtypes, and the collectives that run inside shard_map and pmap."""

import enum as _enum
from collections import namedtuple as _namedtuple

from shoal._core import with_sharding_constraint
from shoal._core.lax import *
from shoal._core.lax import _conv_dimension_numbers, _fft, _round
from shoal._derivatives import stop_gradient
from shoal._implicit import custom_linear_solve, custom_root
from shoal._later import TRANSFORMATION as _TRANSFORMATION, YET as _YET, later as _later
import shoal.lax.linalg as linalg  # After the module of this name that _core has.
from shoal._misuse import misuse as _misuse


class Precision(_enum.Enum):
    """How matrices are multiplied; here always in the operands' own dtype."""

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2

    @classmethod
    def _missing_(cls, value):
        return {
            None: cls.DEFAULT,
            "default": cls.DEFAULT,
            "fastest": cls.DEFAULT,
            "bfloat16": cls.DEFAULT,
            "high": cls.HIGH,
            "bfloat16_3x": cls.HIGH,
            "tensorfloat32": cls.HIGH,
            "highest": cls.HIGHEST,
            "float32": cls.HIGHEST,
        }.get(value)

    def __repr__(self):
        return f"Precision.{self.name}"

    def __str__(self):
        return self.name


DotAlgorithmPreset = _enum.Enum(
    "DotAlgorithmPreset",
    "DEFAULT ANY_F8_ANY_F8_F32 ANY_F8_ANY_F8_F32_FAST_ACCUM ANY_F8_ANY_F8_ANY ANY_F8_ANY_F8_ANY_FAST_ACCUM F16_F16_F16"
    " F16_F16_F32 BF16_BF16_BF16 BF16_BF16_F32 BF16_BF16_F32_X3 BF16_BF16_F32_X6 BF16_BF16_F32_X9 TF32_TF32_F32"
    " TF32_TF32_F32_X3 F32_F32_F32 F64_F64_F64",
)


class RoundingMethod(_enum.IntEnum):
    """Where round takes what lies between two integers."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


class FftType(_enum.IntEnum):
    """Which Fourier transform."""

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


class AccuracyMode(_enum.Enum):
    """How exact elementwise functions are; here always as with HIGHEST."""

    HIGHEST = 1
    DEFAULT = 2


class GatherScatterMode(_enum.Enum):
    """What becomes of windows that do not lie in the array."""

    CLIP = 1
    FILL_OR_DROP = 2
    PROMISE_IN_BOUNDS = 3

    @staticmethod
    def from_any(s):
        if isinstance(s, GatherScatterMode):
            return s
        modes = {
            "clip": GatherScatterMode.CLIP,
            None: GatherScatterMode.FILL_OR_DROP,
            "fill": GatherScatterMode.FILL_OR_DROP,
            "drop": GatherScatterMode.FILL_OR_DROP,
            "promise_in_bounds": GatherScatterMode.PROMISE_IN_BOUNDS,
        }
        if s not in modes:
            raise _misuse(ValueError, f'Unknown gather mode "{s}"')
        return modes[s]


Tolerance = _namedtuple("Tolerance", ["atol", "rtol", "ulps"], defaults=[0.0, 0.0, 0])
ConvDimensionNumbers = _namedtuple("ConvDimensionNumbers", ["lhs_spec", "rhs_spec", "out_spec"])
GatherDimensionNumbers = _namedtuple(
    "GatherDimensionNumbers",
    [
        "offset_dims",
        "collapsed_slice_dims",
        "start_index_map",
        "operand_batching_dims",
        "start_indices_batching_dims",
    ],
    defaults=[(), ()],
)
ScatterDimensionNumbers = _namedtuple(
    "ScatterDimensionNumbers",
    [
        "update_window_dims",
        "inserted_window_dims",
        "scatter_dims_to_operand_dims",
        "operand_batching_dims",
        "scatter_indices_batching_dims",
    ],
    defaults=[(), ()],
)

# Of annotations.
PrecisionLike = object
DotDimensionNumbers = tuple
ConvGeneralDilatedDimensionNumbers = object


def round(x, rounding_method=RoundingMethod.AWAY_FROM_ZERO):
    """The nearest integer.

    Args:
      x: An array or a number.
      rounding_method: Where a number goes that lies between two integers.
    """
    return _round(x, RoundingMethod(rounding_method) is RoundingMethod.TO_NEAREST_EVEN)


def fft(x, fft_type, fft_lengths):
    """The Fourier transform over the last dimensions, as many as there are lengths.

    Args:
      x: An array or a number.
      fft_type: Which transform: "fft", "ifft", "rfft" or "irfft".
      fft_lengths: The extents that are transformed.
    """
    if isinstance(fft_type, str):
        if fft_type.upper() not in FftType.__members__ or fft_type not in (fft_type.upper(), fft_type.lower()):
            raise _misuse(ValueError, f"Unknown FFT type '{fft_type}'")
        fft_type = FftType[fft_type.upper()]
    if not isinstance(fft_type, FftType):
        raise _misuse(TypeError, f"Unknown FFT type value '{fft_type}'")
    return _fft(x, int(fft_type), fft_lengths)


def conv_dimension_numbers(lhs_shape, rhs_shape, dimension_numbers):
    """The positions of batches, features and the other dimensions.

    Args:
      lhs_shape: The extents of the operand.
      rhs_shape: The extents of the window.
      dimension_numbers: The meaning of the dimensions, as of conv_general_dilated.
    """
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    return ConvDimensionNumbers(*_conv_dimension_numbers(lhs_shape, rhs_shape, dimension_numbers))


def platform_dependent(*args, default=None, **per_platform):
    """The function given for this platform, or the default one, of the arguments.

    Args:
      args: The arguments.
      default: The function for other platforms.
      per_platform: The functions, by platform.
    """
    from shoal import default_backend

    function = per_platform.get(default_backend(), default)
    if function is None:
        raise _misuse(
            NotImplementedError,
            f"platform_dependent: there is no function for '{default_backend()}', and no default"
        )
    return function(*args)


__getattr__ = _later(
    __name__,
    {
        _TRANSFORMATION: "composite",
        _YET: "DotAlgorithm RaggedDotDimensionNumbers RandomAlgorithm after_all "
        "conv_general_dilated_local conv_general_permutations conv_general_shape_tuple conv_shape_tuple "
        "conv_transpose_shape_tuple create_token dce_sink index_take "
        "ragged_dot_general reduce_window_shape_tuple rng_bit_generator rng_uniform scaled_dot "
        "scatter_apply shape_as_value stage psum_scatter_start",
    },
)
