"""The binomial distribution whose probability has a beta distribution."""

from shoal import numpy as _np
from shoal.scipy import special as _special
from shoal.scipy.stats._given import given as _given


def logpmf(k, n, a, b, loc=0):
    """The logarithm of the probability of k.

    Args:
      k: Where: whole numbers.
      n: The number of trials.
      a: A shape of the distribution.
      b: A shape of the distribution.
      loc: Where the distribution lies: what is added to its numbers.
    """
    k, n, a, b, loc = _given(k, n, a, b, loc)
    y = _np.floor(k) - loc
    choices = -_np.log1p(n) - _special.betaln(n - y + 1, y + 1)
    value = choices + _special.betaln(y + a, n - y + b) - _special.betaln(a, b)
    value = _np.where((y == 0) & (n == 0), 0, value)
    value = _np.where((y < -loc) | (y > n) | (y + a <= 0), -_np.inf, value)
    return _np.where((n < 0) | (a <= 0) | (b <= 0), _np.nan, value)


def pmf(k, n, a, b, loc=0):
    """The probability of k.

    Args:
      k: Where: whole numbers.
      n: The number of trials.
      a: A shape of the distribution.
      b: A shape of the distribution.
      loc: Where the distribution lies: what is added to its numbers.
    """
    return _np.exp(logpmf(k, n, a, b, loc))
