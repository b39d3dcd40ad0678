"""dtypes by name and kind."""

from shoal import _core
from shoal._dtypes import bfloat16, key_kinds as _key_kinds
from shoal._later import YET as _YET, later as _later


def canonicalize_dtype(dtype, allow_extended_dtype=False):
    """The dtype that arrays have for this one: its half while 64-bit types are off. None stands for float64.

    Args:
      dtype: The dtype.
      allow_extended_dtype: Whether dtypes of keys are taken, too.
    """
    return _core._dtype_object(_core._dtype_name("float64" if dtype is None else dtype))


def issubdtype(a, b):
    """Whether the first is of the kind of the second.

    Args:
      a: The one dtype.
      b: The other one, or a kind.
    """
    from shoal import numpy

    return numpy.issubdtype(a, b)


def finfo(dtype):
    """The limits of the numbers of a floating-point dtype.

    Args:
      dtype: The dtype.
    """
    from shoal import numpy

    return numpy.finfo(dtype)


def iinfo(dtype):
    """The limits of the numbers of an integer dtype.

    Args:
      dtype: The dtype.
    """
    from shoal import numpy

    return numpy.iinfo(dtype)


def result_type(*args):
    """The dtype of a result of these.

    Args:
      args: Arrays and dtypes.
    """
    from shoal import numpy

    return numpy.result_type(*args)


def scalar_type_of(x):
    """Python's type for the elements: bool, int, float or complex.

    Args:
      x: An array or a number.
    """
    kind = getattr(x, "dtype", _core._dtype_object(_core._dtype_name(type(x)))).kind
    return {"b": bool, "i": int, "u": int, "f": float, "V": float, "c": complex}[kind]


_missing = _later(__name__, {_YET: "itemsize_bits TypePromotionError"})


def __getattr__(name):
    if name == "float0":
        import shoal

        return shoal.float0
    if name in ("extended", "prng_key"):
        return _key_kinds()[name]
    return _missing(name)
