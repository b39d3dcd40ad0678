"""The multinomial distribution."""

from shoal import numpy as _np
from shoal.scipy import special as _special


def logpmf(x, n, p):
    """The logarithm of the probability of the counts in the last dimension of x, which are n in all.

    Args:
      x: Counts, along the last dimension.
      n: The number of trials.
      p: Probabilities, along the last dimension.
    """
    x, n = _np.asarray(x), _np.asarray(n)
    p = _np.asarray(p, _np.result_type(p, float))
    if not (_np.issubdtype(x.dtype, _np.integer) and _np.issubdtype(n.dtype, _np.integer)):
        raise ValueError(f"multinomial.logpmf: x and n must be integers, not {x.dtype} and {n.dtype}")
    is_whole = _np.sum(x, axis=-1) == n
    counts = x.astype(p.dtype)
    value = _special.gammaln(n.astype(p.dtype) + 1)
    value = value + _np.sum(_special.xlogy(counts, p) - _special.gammaln(counts + 1), axis=-1)
    return _np.where(is_whole, value, -_np.inf)


def pmf(x, n, p):
    """The probability of the counts.

    Args:
      x: Counts, along the last dimension.
      n: The number of trials.
      p: Probabilities, along the last dimension.
    """
    return _np.exp(logpmf(x, n, p))
