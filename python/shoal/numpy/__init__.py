"""The functions of NumPy on arrays: `import shoal.numpy as jnp`."""

import math as _math

from shoal._core import Array
from shoal._core.numpy import *
from shoal._dtypes import (
    bfloat16,
    bool_,
    cdouble,
    complex64,
    complex128,
    complex_,
    csingle,
    double,
    float16,
    float32,
    float64,
    float_,
    half,
    int8,
    int16,
    int32,
    int64,
    int_,
    single,
    uint,
    uint8,
    uint16,
    uint32,
    uint64,
)
from shoal._later import YET as _YET, later as _later
from shoal.numpy import fft, linalg
from shoal.numpy._array_api import __array_api_version__, __array_namespace_info__
from shoal.numpy._index_tricks import c_, index_exp, r_, s_
from shoal.numpy._kinds import finfo, iinfo, isdtype, issubdtype
from shoal.numpy._vectorize import vectorize
from shoal.numpy._objects import (
    apply_along_axis,
    apply_over_axes,
    array_repr,
    array_str,
    einsum_path,
    from_dlpack,
    iterable,
    mask_indices,
    piecewise,
    trim_zeros,
    unique_all,
    unique_counts,
    unique_inverse,
    unique_values,
)

del special  # The functions of shoal.scipy.special.

bool = bool_
ndarray = Array
newaxis = None
pi = _math.pi
e = _math.e
inf = _math.inf
nan = _math.nan
euler_gamma = 0.5772156649015329

# What NumPy has and is the same here; it is loaded when one of these is asked for.
_OF_NUMPY = frozenset(
    "ComplexWarning can_cast character complexfloating dtype flexible floating generic get_printoptions inexact integer number "
    "object_ printoptions save savez set_printoptions signedinteger unsignedinteger".split()
)
_missing = _later(
    __name__,
    {
        _YET: "float4_e2m1fn float6_e2m3fn float6_e3m2fn float8_e3m4 float8_e4m3 float8_e4m3b11fnuz "
        "float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu int1 int2 int4 "
        "uint1 uint2 uint4",
    },
)


def __getattr__(name):
    if name in _OF_NUMPY:
        import numpy

        found = globals()[name] = getattr(numpy.exceptions if name == "ComplexWarning" else numpy, name)
        return found
    return _missing(name)


def __dir__():
    return sorted({name for name in globals() if not name.startswith("_")} | _OF_NUMPY)
