"""The distribution of Cauchy, wrapped around a circle."""

import math as _math

from shoal import numpy as _np
from shoal.scipy.stats._given import given as _given


def logpdf(x, c):
    """The logarithm of the density.

    Args:
      x: Where: an array or a number.
      c: A shape of the distribution.
    """
    x, c = _given(x, c)
    value = _np.log1p(-c * c) - _math.log(2 * _math.pi) - _np.log(1 + c * c - 2 * c * _np.cos(x))
    inside = _np.where((x >= 0) & (x <= 2 * _math.pi), value, -_np.inf)
    return _np.where((c > 0) & (c < 1), inside, _np.nan)


def pdf(x, c):
    """The density.

    Args:
      x: Where: an array or a number.
      c: A shape of the distribution.
    """
    return _np.exp(logpdf(x, c))
