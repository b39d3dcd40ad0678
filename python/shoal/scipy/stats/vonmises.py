"""The distribution of von Mises, of angles."""

import math as _math

from shoal import numpy as _np
from shoal.scipy import special as _special
from shoal.scipy.stats._given import given as _given


def logpdf(x, kappa):
    """The logarithm of the density.

    Args:
      x: Where: an array or a number.
      kappa: How narrow the distribution is.
    """
    x, kappa = _given(x, kappa)
    value = kappa * (_np.cos(x) - _np.sign(kappa)) - _math.log(2 * _math.pi) - _np.log(_special.i0e(kappa))
    return _np.where(kappa >= 0, value, _np.nan)


def pdf(x, kappa):
    """The density.

    Args:
      x: Where: an array or a number.
      kappa: How narrow the distribution is.
    """
    return _np.exp(logpdf(x, kappa))
