"""Indices as objects, and arrays made by indexing."""

from shoal._core import numpy as _numpy


class _Index:
    """The index itself, as an object."""

    def __init__(self, always_tuple):
        self._always_tuple = always_tuple

    def __getitem__(self, index):
        return (index,) if self._always_tuple and not isinstance(index, tuple) else index


index_exp = _Index(True)
s_ = _Index(False)


class _Joined:
    """Slices, numbers and arrays, joined along an axis."""

    def __init__(self, axis, rank, first):
        self._directive = (axis, rank, first)

    def __getitem__(self, key):
        axis, rank, first = self._directive
        items = list(key) if isinstance(key, tuple) else [key]
        if items and isinstance(items[0], str):
            words = items.pop(0)
            if words in ("r", "c"):
                raise NotImplementedError(f"r_['{words}', …] is not supported")
            numbers = [int(word) for word in words.split(",")]
            if len(numbers) > 3:
                raise ValueError(f"string directives must have the form '0,2,1'; got {words!r}")
            axis, rank, first = numbers + [axis, rank, first][len(numbers) :]
        arrays = []
        for item in items:
            array = _numpy.mgrid[item] if isinstance(item, slice) else _numpy.asarray(item)
            missing = rank - array.ndim
            if missing > 0:
                # Where the array's own dimensions go among the new ones.
                at = first % (missing + 1) if first >= 0 or array.ndim == 0 else missing + 1 + first
                at = min(max(at, 0), missing)
                array = array.reshape((1,) * at + tuple(array.shape) + (1,) * (missing - at))
            arrays.append(array)
        return _numpy.concatenate(arrays, axis)


r_ = _Joined(0, 1, -1)
c_ = _Joined(-1, 2, 0)
