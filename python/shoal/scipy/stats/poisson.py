"""The distribution of Poisson."""

import math as _math

from shoal import numpy as _np
from shoal.scipy import special as _special
from shoal.scipy.stats._given import given as _given


def logpmf(k, mu, loc=0):
    """The logarithm of the probability of k.

    Args:
      k: Where: whole numbers.
      mu: The mean.
      loc: Where the distribution lies: what is added to its numbers.
    """
    k, mu, loc = _given(k, mu, loc)
    n = k - loc
    value = _special.xlogy(n, mu) - _special.gammaln(n + 1) - mu
    return _np.where((n < 0) | (n != _np.floor(n)), -_np.inf, value)


def pmf(k, mu, loc=0):
    """The probability of k.

    Args:
      k: Where: whole numbers.
      mu: The mean.
      loc: Where the distribution lies: what is added to its numbers.
    """
    return _np.exp(logpmf(k, mu, loc))


def cdf(k, mu, loc=0):
    """The probability of at most k.

    Args:
      k: Where: whole numbers.
      mu: The mean.
      loc: Where the distribution lies: what is added to its numbers.
    """
    k, mu, loc = _given(k, mu, loc)
    n = k - loc
    return _np.where(n < 0, 0.0, _special.gammaincc(_np.floor(_np.maximum(n, 0)) + 1, mu))


# Where the mean is below this, all that is worth adding is that of the first numbers: up to 12 deviations above it.
_FAR = 100
_NUMBERS = _FAR + 12 * 10


def entropy(mu, loc=0):
    """The expectation of -logpmf: 0 for a mean of 0, and NaN for one below. Up to a mean of 100 by summing it, and beyond
    by Stirling's series."""
    mu, loc = _given(mu, loc)
    is_near = (mu > 0) & (mu < _FAR)
    near = _np.where(is_near, mu, 1)[..., None]
    logs = logpmf(_np.arange(_NUMBERS, dtype=mu.dtype), near)
    r = 1 / _np.where(mu < _FAR, _FAR, mu)
    far = (_math.log(2 * _math.pi * _math.e) - _np.log(r)) / 2 - r * (1 / 12 + r * (1 / 24 + r * (19 / 360)))
    value = _np.where(is_near, -_np.sum(_np.exp(logs) * logs, axis=-1), far)
    value = _np.where(mu == 0, 0, _np.where(mu > 0, value, _np.nan))
    return _np.broadcast_to(value, _np.broadcast_shapes(mu.shape, loc.shape))
