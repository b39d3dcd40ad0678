"""Kinds of dtypes, and the limits of their numbers."""

from shoal import _core


def _type_of(x):
    """The scalar type of NumPy that stands for a dtype, or an abstract one as it is."""
    import numpy

    if isinstance(x, type) and issubclass(x, numpy.generic):
        return x
    if x in (int, float, complex, bool):
        return numpy.dtype(x).type
    name = getattr(x, "_shoal_dtype", None)
    if name is not None:
        return _core._dtype_object(name).type
    if hasattr(x, "dtype") and not isinstance(x, type):
        return _type_of(x.dtype) if hasattr(x.dtype, "_shoal_dtype") else numpy.dtype(x.dtype).type
    if isinstance(x, str) and x == "bfloat16":
        return _core._dtype_object(x).type
    return numpy.dtype(x).type


def issubdtype(arg1, arg2):
    """Whether the first dtype is of the kind of the second.

    Args:
      arg1: The dtype.
      arg2: The dtype or kind that it may belong to.
    """
    import numpy

    first, second = _type_of(arg1), _type_of(arg2)
    if first is _core._dtype_object("bfloat16").type:
        return second in (first, numpy.floating, numpy.inexact, numpy.number, numpy.generic)
    return issubclass(first, second)


_KINDS = {
    "bool": ["bool"],
    "signed integer": ["int8", "int16", "int32", "int64"],
    "unsigned integer": ["uint8", "uint16", "uint32", "uint64"],
    "real floating": ["float16", "bfloat16", "float32", "float64"],
    "complex floating": ["complex64", "complex128"],
}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]


def _stored_name(dtype):
    import numpy

    name = getattr(dtype, "_shoal_dtype", None)
    return name if name is not None else numpy.dtype(dtype).name


def isdtype(dtype, kind):
    """Whether a dtype is of a kind: a dtype, a name such as 'real floating', or a tuple of these.

    Args:
      dtype: The dtype.
      kind: A kind, or a tuple of them, as the Array API names them.
    """
    name = _stored_name(dtype)
    for one in kind if isinstance(kind, tuple) else (kind,):
        if isinstance(one, str) and one in _KINDS:
            if name in _KINDS[one]:
                return True
            continue
        try:
            known = _stored_name(one)
        except TypeError as error:
            if isinstance(one, str):
                raise ValueError(f"Unrecognized kind {one!r} expected one of {list(_KINDS)}") from None
            raise TypeError(f"Expected kind to be a dtype, string, or tuple; got {kind!r}") from error
        if name == known:
            return True
    return False


def _limits(dtype, of):
    import ml_dtypes

    if hasattr(dtype, "dtype") and not isinstance(dtype, type):
        dtype = dtype.dtype
    name = getattr(dtype, "_shoal_dtype", None)
    return getattr(ml_dtypes, of)(_core._dtype_object(name) if name is not None else dtype)


def finfo(dtype):
    """The limits of the numbers of a floating-point dtype.

    Args:
      dtype: The dtype.
    """
    return _limits(dtype, "finfo")


def iinfo(int_type):
    """The limits of the numbers of an integer dtype.

    Args:
      int_type: The dtype.
    """
    return _limits(int_type, "iinfo")
