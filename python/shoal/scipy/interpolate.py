"""Functions between the points of a grid."""

import itertools

from shoal import numpy as _numpy, tree_util as _tree_util


def _check_method(method):
    if method not in ("linear", "nearest"):
        raise ValueError(f"RegularGridInterpolator: method must be 'linear' or 'nearest', not {method!r}")


def _positions(xi, ndim):
    """Points along the last dimension, of an array or of a tuple of coordinates."""
    if isinstance(xi, tuple) and len(xi) == 1:
        (xi,) = xi
    if isinstance(xi, tuple):
        return _numpy.stack(_numpy.broadcast_arrays(*xi), axis=-1)
    xi = _numpy.asarray(xi)
    return xi.reshape(-1, ndim) if xi.ndim == 1 else xi


class RegularGridInterpolator:
    """What lies between values that are given at the points of a grid: `points` has a vector for each of the first
    dimensions of `values`. method "linear": by the distances to the corners of the cell, or "nearest". Outside the grid
    there is `fill_value`, or with None the first or last cell goes on."""

    def __init__(self, points, values, method="linear", bounds_error=False, fill_value=_numpy.nan):
        _check_method(method)
        if bounds_error:
            raise NotImplementedError("RegularGridInterpolator: bounds_error=True, as values are not known in programs")
        values = _numpy.asarray(values)
        if len(points) > values.ndim:
            raise ValueError(
                f"RegularGridInterpolator: there are {len(points)} vectors of points, but values has {values.ndim} dimensions"
            )
        if not _numpy.issubdtype(values.dtype, _numpy.inexact):
            values = values.astype(_numpy.result_type(values.dtype, float))
        if fill_value is not None:
            fill_value = _numpy.asarray(fill_value)
            if not _numpy.can_cast(fill_value.dtype, values.dtype, casting="same_kind"):
                raise ValueError(
                    f"RegularGridInterpolator: fill_value of {fill_value.dtype} does not fit into values of {values.dtype}"
                )
        self.method = method
        self.bounds_error = bounds_error
        self.fill_value = fill_value
        self.grid = tuple(_numpy.asarray(p) for p in points)
        self.values = values

    def __call__(self, xi, method=None):
        """The values at points: an array with coordinates along its last dimension, or a tuple of arrays of them."""
        method = self.method if method is None else method
        _check_method(method)
        ndim = len(self.grid)
        xi = _positions(xi, ndim)
        if xi.shape[-1] != ndim:
            raise ValueError(f"RegularGridInterpolator: points have {xi.shape[-1]} coordinates, and the grid has {ndim}")
        shape = xi.shape[:-1]
        xi = xi.reshape(-1, ndim)
        cells, shares, outside = [], [], False
        for axis, points in enumerate(self.grid):
            x = xi[:, axis]
            cell = _numpy.clip(_numpy.searchsorted(points, x) - 1, 0, points.size - 2)
            low, high = (points.at[c].get(mode="clip") for c in (cell, cell + 1))
            cells.append(cell)
            shares.append((x - low) / (high - low))
            outside |= (x < points[0]) | (x > points[-1])
        rest = self.values.ndim - ndim
        items = lambda places: self.values.at[tuple(places)].get(mode="clip")
        along = lambda x: x.reshape(x.shape + (1,) * rest)
        if method == "nearest":
            result = items(_numpy.where(s <= 0.5, c, c + 1) for c, s in zip(cells, shares))
        else:
            result = 0
            for corner in itertools.product((0, 1), repeat=ndim):
                weight = 1
                for upper, share in zip(corner, shares):
                    weight = weight * (share if upper else 1 - share)
                result = result + items(c + upper for c, upper in zip(cells, corner)) * along(weight)
        if self.fill_value is not None:
            result = _numpy.where(along(outside), self.fill_value, result)
        return result.reshape(shape + self.values.shape[ndim:])


def _of_parts(fixed, parts):
    made = object.__new__(RegularGridInterpolator)
    made.method, made.bounds_error = fixed
    made.grid, made.values, made.fill_value = parts
    return made


_tree_util.register_pytree_node(
    RegularGridInterpolator, lambda r: ((r.grid, r.values, r.fill_value), (r.method, r.bounds_error)), _of_parts
)
