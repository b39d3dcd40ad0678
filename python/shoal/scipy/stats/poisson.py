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


def entropy(mu, loc=0):
    """The expectation of -logpmf: 0 for a mean of 0, and NaN for one below. Up to a mean of 30, of f64 100, by summing
    it, and beyond by its asymptotic series; to 2e-6 and 1e-11.

    Args:
      mu: The mean.
      loc: Where the distribution lies, on which the entropy does not depend.
    """
    mu, loc = _given(mu, loc)
    most = 100 if mu.dtype.itemsize == 8 else 30
    # Beyond 12 deviations there is nothing worth adding.
    numbers = _np.arange(most + 12 * _math.isqrt(most) + 12, dtype=mu.dtype)
    is_near = (mu > 0) & (mu < most)
    near = _np.where(is_near, mu, 1)[..., None]
    logs = logpmf(numbers, near)
    r = 1 / _np.where(mu < most, most, mu)
    series = r * (1 / 12 + r * (1 / 24 + r * (19 / 360 + r * (9 / 80 + r * (863 / 2520)))))
    far = (_math.log(2 * _math.pi * _math.e) - _np.log(r)) / 2 - series
    value = _np.where(is_near, -_np.sum(_np.exp(logs) * logs, axis=-1), far)
    value = _np.where(mu == 0, 0, _np.where(mu > 0, value, _np.nan))
    return _np.broadcast_to(value, _np.broadcast_shapes(mu.shape, loc.shape))
