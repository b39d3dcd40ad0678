"""The nearest of some vectors."""

from shoal import numpy as _numpy
from shoal._core import linalg as _linalg


def vq(obs, code_book, check_finite=True):
    """For each vector of observations the number of the nearest one of the code book, the first if there are several, and
    its distance: of shapes (n, d) and (k, d), or (n,) and (k,). Raises ValueError for other ranks.

    Args:
      obs: The observations, a row for each.
      code_book: The points, a row for each.
      check_finite: Makes no difference.
    """
    del check_finite
    obs, code_book = _numpy.asarray(obs), _numpy.asarray(code_book)
    if obs.ndim != code_book.ndim:
        raise ValueError(f"vq: obs and code_book must have the same rank, not {obs.ndim} and {code_book.ndim}")
    if obs.ndim == 1:
        obs, code_book = obs[:, None], code_book[:, None]
    if obs.ndim != 2:
        raise ValueError(f"vq: takes vectors or matrices, not {obs.ndim} dimensions")
    distances = _linalg.norm(obs[:, None, :] - code_book[None, :, :], axis=-1)
    code = _numpy.argmin(distances, axis=-1)
    return code, _numpy.take_along_axis(distances, code[:, None], axis=-1)[:, 0]
