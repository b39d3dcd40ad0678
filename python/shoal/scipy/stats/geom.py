"""The geometric distribution."""

from shoal import numpy as _np
from shoal.scipy import special as _special
from shoal.scipy.stats._given import given as _given


def logpmf(k, p, loc=0):
    """The logarithm of the probability that the first success is the k-th trial.

    Args:
      k: Where: whole numbers.
      p: A probability.
      loc: Where the distribution lies: what is added to its numbers.
    """
    k, p, loc = _given(k, p, loc)
    n = k - loc
    return _np.where(n <= 0, -_np.inf, _special.xlog1py(n - 1, -p) + _np.log(p))


def pmf(k, p, loc=0):
    """The probability that the first success is the k-th trial.

    Args:
      k: Where: whole numbers.
      p: A probability.
      loc: Where the distribution lies: what is added to its numbers.
    """
    return _np.exp(logpmf(k, p, loc))
