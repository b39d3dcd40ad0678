"""The distribution of Poisson."""

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
