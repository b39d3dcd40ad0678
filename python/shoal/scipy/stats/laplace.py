"""The distribution of Laplace."""

from shoal import numpy as _np
from shoal.scipy.stats._given import standard as _standard


def logpdf(x, loc=0, scale=1):
    """The logarithm of the density.

    Args:
      x: Where: an array or a number.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    z, scale = _standard(x, loc, scale)
    return -_np.abs(z) - _np.log(2 * scale)


def pdf(x, loc=0, scale=1):
    """The density.

    Args:
      x: Where: an array or a number.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    return _np.exp(logpdf(x, loc, scale))


def cdf(x, loc=0, scale=1):
    """The share below x.

    Args:
      x: Where: an array or a number.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    z, _ = _standard(x, loc, scale)
    return _np.where(z <= 0, _np.exp(z) / 2, 1 - _np.exp(-z) / 2)
