"""The negative binomial distribution."""

from shoal import numpy as _np
from shoal.scipy import special as _special
from shoal.scipy.stats._given import given as _given


def logpmf(k, n, p, loc=0):
    """The logarithm of the probability of k failures before the n-th success.

    Args:
      k: Where: whole numbers.
      n: The number of trials.
      p: A probability.
      loc: Where the distribution lies: what is added to its numbers.
    """
    k, n, p, loc = _given(k, n, p, loc)
    y = k - loc
    choices = _special.gammaln(y + n) - _special.gammaln(n) - _special.gammaln(y + 1)
    value = choices + _special.xlogy(n, p) + _special.xlogy(y, 1 - p)
    return _np.where(y < 0, -_np.inf, value)


def pmf(k, n, p, loc=0):
    """The probability of k failures before the n-th success.

    Args:
      k: Where: whole numbers.
      n: The number of trials.
      p: A probability.
      loc: Where the distribution lies: what is added to its numbers.
    """
    return _np.exp(logpmf(k, n, p, loc))
