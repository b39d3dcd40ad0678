"""The normal distribution with an exponent of its own."""

from shoal import numpy as _np
from shoal.scipy import special as _special
from shoal.scipy.stats._given import given as _given


def logpdf(x, beta):
    """The logarithm of the density.

    Args:
      x: Where: an array or a number.
      beta: A shape of the distribution.
    """
    x, beta = _given(x, beta)
    return _np.log(0.5 * beta) - _special.gammaln(1 / beta) - _np.abs(x) ** beta


def pdf(x, beta):
    """The density.

    Args:
      x: Where: an array or a number.
      beta: A shape of the distribution.
    """
    return _np.exp(logpdf(x, beta))


def cdf(x, beta):
    """The share below x.

    Args:
      x: Where: an array or a number.
      beta: A shape of the distribution.
    """
    x, beta = _given(x, beta)
    return 0.5 * (1 + _np.sign(x) * _special.gammainc(1 / beta, _np.abs(x) ** beta))
