"""The binomial distribution."""

from shoal import numpy as _np
from shoal.scipy import special as _special
from shoal.scipy.stats._given import given as _given


def logpmf(k, n, p, loc=0):
    """The logarithm of the probability of k of n.

    Args:
      k: Where: whole numbers.
      n: The number of trials.
      p: A probability.
      loc: Where the distribution lies: what is added to its numbers.
    """
    k, n, p, loc = _given(k, n, p, loc)
    y = k - loc
    choices = _special.gammaln(n + 1) - _special.gammaln(y + 1) - _special.gammaln(n - y + 1)
    shares = _special.xlogy(y, p) + _special.xlog1py(n - y, -p)
    value = _np.where(((y == 0) & (n == 0)) | (shares == 0), 0, choices + shares)
    return _np.where((y >= 0) & (y < n + 1), value, -_np.inf)


def pmf(k, n, p, loc=0):
    """The probability of k of n.

    Args:
      k: Where: whole numbers.
      n: The number of trials.
      p: A probability.
      loc: Where the distribution lies: what is added to its numbers.
    """
    return _np.exp(logpmf(k, n, p, loc))
