"""The normal distribution of vectors."""

import math as _math

from shoal import numpy as _np
from shoal._core.lax import linalg as _linalg


def _floats(*arrays):
    arrays = [_np.asarray(a) for a in arrays]
    dtype = _np.result_type(*arrays, float)
    if not any(_np.issubdtype(a.dtype, _np.inexact) for a in arrays):
        return [a.astype(dtype) for a in arrays]
    return [a.astype(_np.result_type(*arrays)) for a in arrays]


def logpdf(x, mean, cov, allow_singular=None):
    """The logarithm of the density: of vectors along the last dimension, with a matrix of covariances, which is positive
    definite, or a number for all components. Raises ValueError for shapes that do not fit.

    Args:
      x: Where: an array or a number.
      mean: The mean, a vector.
      cov: The covariances, a matrix.
      allow_singular: Makes no difference.
    """
    if allow_singular is not None:
        raise NotImplementedError("multivariate_normal.logpdf: allow_singular")
    x, mean, cov = _floats(x, mean, cov)
    if mean.ndim == 0:
        return -(x - mean) ** 2 / cov / 2 - (_math.log(2 * _math.pi) + _np.log(cov)) / 2
    n = mean.shape[-1]
    y = x - mean
    if cov.ndim == 0:
        return -_np.sum(y * y, axis=-1) / cov / 2 - n / 2 * (_math.log(2 * _math.pi) + _np.log(cov))
    if cov.ndim < 2 or cov.shape[-2:] != (n, n):
        raise ValueError(
            f"multivariate_normal.logpdf: cov must end in ({n}, {n}), as the mean has {n} components, and has shape {cov.shape}"
        )
    factor = _linalg.cholesky(cov)
    if cov.ndim == 2:
        # All vectors are right sides of one system.
        rows = y.reshape(-1, n)
        whitened = _linalg.triangular_solve(factor, rows, lower=True, transpose_a=True)
        squares = _np.sum(whitened * whitened, axis=-1).reshape(y.shape[:-1])
    else:
        batch = _np.broadcast_shapes(y.shape[:-1], factor.shape[:-2])
        whitened = _linalg.triangular_solve(
            _np.broadcast_to(factor, batch + (n, n)),
            _np.broadcast_to(y, batch + (n,))[..., None],
            left_side=True,
            lower=True,
        )
        squares = _np.sum(whitened * whitened, axis=(-2, -1))
    logarithms = _np.sum(_np.log(_np.diagonal(factor, axis1=-1, axis2=-2)), axis=-1)
    return -squares / 2 - n / 2 * _math.log(2 * _math.pi) - logarithms


def pdf(x, mean, cov):
    """The density.

    Args:
      x: Where: an array or a number.
      mean: The mean, a vector.
      cov: The covariances, a matrix.
    """
    return _np.exp(logpdf(x, mean, cov))
