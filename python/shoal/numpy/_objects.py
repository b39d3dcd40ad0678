"""Functions that call functions of the user, or speak of objects of Python."""

from collections import namedtuple

from shoal._core import from_dlpack as _from_dlpack
from shoal._core import numpy as _numpy
from shoal._core.numpy import _unique_all

UniqueAllResult = namedtuple("_UniqueAllResult", "values indices inverse_indices counts")
UniqueCountsResult = namedtuple("_UniqueCountsResult", "values counts")
UniqueInverseResult = namedtuple("_UniqueInverseResult", "values inverse_indices")


def unique_all(x, /, *, size=None, fill_value=None):
    """The different elements, where each is first, the number of each element's value, and the counts.

    Args:
      x: The array.
      size: How many elements the result has; None: as many as there are.
      fill_value: What the result is filled up with.
    """
    return UniqueAllResult(*_unique_all(x, size=size, fill_value=fill_value))


def unique_counts(x, /, *, size=None, fill_value=None):
    """The different elements and how often each occurs.

    Args:
      x: The array.
      size: How many positions the result has.
      fill_value: What the result is filled up with.
    """
    result = _unique_all(x, size=size, fill_value=fill_value)
    return UniqueCountsResult(result[0], result[3])


def unique_inverse(x, /, *, size=None, fill_value=None):
    """The different elements and the number of each element's value.

    Args:
      x: The array.
      size: How many positions the result has.
      fill_value: What the result is filled up with.
    """
    result = _unique_all(x, size=size, fill_value=fill_value)
    return UniqueInverseResult(result[0], result[2])


def unique_values(x, /, *, size=None, fill_value=None):
    """The different elements.

    Args:
      x: The array.
      size: How many positions the result has.
      fill_value: What the result is filled up with.
    """
    return _unique_all(x, size=size, fill_value=fill_value)[0]


def from_dlpack(x, /, *, device=None, copy=None):
    """An array of what speaks DLPack, whose memory it shares where no copy is needed.

    Args:
      x: The array.
      device: Where the result lies.
      copy: Whether the result is a copy.
    """
    return _from_dlpack(x, device, copy)


def iterable(y):
    """Whether an object can be iterated over.

    Args:
      y: Anything.
    """
    try:
        iter(y)
    except TypeError:
        return False
    return True


def array_repr(arr, max_line_width=None, precision=None, suppress_small=None):
    """The text that repr() gives.

    Args:
      arr: The array.
      max_line_width: How many characters a line has at most.
      precision: How many digits are shown.
      suppress_small: Whether numbers near 0 are shown as 0.
    """
    return repr(_numpy.asarray(arr))


def array_str(a, max_line_width=None, precision=None, suppress_small=None):
    """The text that str() gives.

    Args:
      a: The array.
      max_line_width: How many characters a line has at most.
      precision: How many digits are shown.
      suppress_small: Whether numbers near 0 are shown as 0.
    """
    return str(_numpy.asarray(a))


def apply_along_axis(func1d, axis, arr, *args, **kwargs):
    """func1d of each line along an axis, put together.

    Args:
      func1d: The function of a vector.
      axis: The dimension.
      arr: The array.
      args: More arguments of the function.
      kwargs: The same, by name.
    """
    moved = _numpy.moveaxis(arr, axis, -1)
    lines = moved.reshape((-1, moved.shape[-1]))
    results = _numpy.stack([_numpy.asarray(func1d(line, *args, **kwargs)) for line in lines])
    result = results.reshape(tuple(moved.shape[:-1]) + tuple(results.shape[1:]))
    axis = axis % _numpy.ndim(arr)
    new = results.ndim - 1
    first = moved.ndim - 1
    return _numpy.moveaxis(result, tuple(range(first, first + new)), tuple(range(axis, axis + new)))


def apply_over_axes(func, a, axes):
    """func(a, axis) for one axis after the other.

    Args:
      func: The function of an array and a dimension.
      a: The array.
      axes: The dimensions.
    """
    for axis in (axes,) if isinstance(axes, int) else axes:
        result = func(a, axis)
        if result.ndim == _numpy.ndim(a) - 1:
            result = _numpy.expand_dims(result, axis)
        if result.ndim != _numpy.ndim(a):
            raise ValueError("function is not returning an array of the correct shape")
        a = result
    return a


def mask_indices(n, mask_func, k=0, *, size=None):
    """The positions where mask_func, as triu, keeps an n × n matrix of ones.

    Args:
      n: The number of rows.
      mask_func: The function of a matrix that keeps some elements, such as triu.
      k: What mask_func is called with, too.
      size: How many positions the result has; None: as many as there are.
    """
    return _numpy.nonzero(mask_func(_numpy.ones((n, n)), k), size=size)


def piecewise(x, condlist, funclist, *args, **kw):
    """Of each element the function, or value, whose condition is the last that holds.

    Args:
      x: The array.
      condlist: The conditions.
      funclist: The functions, or numbers; one more is for where no condition holds.
      args: More arguments of the function.
      kw: Arguments of the functions, by name.
    """
    x = _numpy.asarray(x)
    conditions = list(condlist) if _numpy.ndim(condlist[0]) or x.ndim == 0 else [condlist]
    functions = list(funclist)
    if len(functions) not in (len(conditions), len(conditions) + 1):
        raise ValueError(
            f"with {len(conditions)} condition(s), either {len(conditions)} or {len(conditions) + 1} functions are "
            f"expected; got {len(functions)}"
        )
    otherwise = functions.pop() if len(functions) > len(conditions) else 0
    value = lambda f: f(x, *args, **kw) if callable(f) else f
    result = _numpy.broadcast_to(_numpy.asarray(value(otherwise)).astype(x.dtype), x.shape)
    for condition, function in zip(conditions, functions):
        result = _numpy.where(condition, _numpy.asarray(value(function)).astype(x.dtype), result)
    return result


def trim_zeros(filt, trim="fb", axis=None):
    """Without the zeros at the ends of a vector.

    Args:
      filt: The array.
      trim: "f": at the beginning, "b": at the end, "fb": at both.
      axis: The dimension.
    """
    array = _numpy.asarray(filt)
    if array.ndim != 1:
        raise NotImplementedError("trim_zeros of arrays of several dimensions")
    places = _numpy.flatnonzero(array)
    if places.size == 0:
        return array[:0]
    begin = int(places[0]) if "f" in trim.lower() else 0
    end = int(places[-1]) + 1 if "b" in trim.lower() else array.size
    return array[begin:end]


def einsum_path(subscripts, /, *operands, optimize="auto"):
    """The order in which NumPy would contract the operands, as pairs of their positions, and a text about it.

    Args:
      subscripts: The labels of dimensions, as of einsum.
      operands: The arrays.
      optimize: How the order is found.
    """
    import numpy

    how = "greedy" if optimize in ("auto", True) else optimize
    path, text = numpy.einsum_path(subscripts, *(numpy.empty(_numpy.shape(x)) for x in operands), optimize=how)
    return path[1:], text
