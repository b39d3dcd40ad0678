"""The distribution of Bernoulli: 1 with probability p, else 0."""

from shoal import numpy as _np
from shoal.scipy import special as _special
from shoal.scipy.stats._given import given as _given


def logpmf(k, p, loc=0):
    """The logarithm of the probability of k.

    Args:
      k: Where: whole numbers.
      p: A probability.
      loc: Where the distribution lies: what is added to its numbers.
    """
    k, p, loc = _given(k, p, loc)
    n = k - loc
    value = _special.xlogy(n, p) + _special.xlog1py(1 - n, -p)
    return _np.where((n < 0) | (n > 1), -_np.inf, value)


def pmf(k, p, loc=0):
    """The probability of k.

    Args:
      k: Where: whole numbers.
      p: A probability.
      loc: Where the distribution lies: what is added to its numbers.
    """
    return _np.exp(logpmf(k, p, loc))


def cdf(k, p):
    """The probability of at most k.

    Args:
      k: Where: whole numbers.
      p: A probability.
    """
    k, p = _given(k, p)
    value = _np.where(k < 0, 0, _np.where(k < 1, 1 - p, 1))
    return _np.where((p < 0) | (p > 1) | _np.isnan(k) | _np.isnan(p), _np.nan, value)


def ppf(q, p):
    """The least number up to which a share q lies.

    Args:
      q: Shares between 0 and 1.
      p: A probability.
    """
    q, p = _given(q, p)
    outside = (q < 0) | (q > 1) | (p < 0) | (p > 1) | _np.isnan(q) | _np.isnan(p)
    return _np.where(outside, _np.nan, _np.where(q <= 1 - p, 0, _np.ones_like(q)))
