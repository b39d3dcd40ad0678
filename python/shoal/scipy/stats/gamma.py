"""The gamma distribution."""

from shoal import numpy as _np
from shoal.scipy import special as _special
from shoal.scipy.stats._given import standard as _standard


def logpdf(x, a, loc=0, scale=1):
    """The logarithm of the density.

    Args:
      x: Where: an array or a number.
      a: A shape of the distribution.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    z, a, scale = _standard(x, a, loc, scale)
    inside = _special.xlogy(a - 1, z) - z - _special.gammaln(a) - _np.log(scale)
    return _np.where(z < 0, -_np.inf, inside)


def pdf(x, a, loc=0, scale=1):
    """The density.

    Args:
      x: Where: an array or a number.
      a: A shape of the distribution.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    return _np.exp(logpdf(x, a, loc, scale))


def cdf(x, a, loc=0, scale=1):
    """The share below x.

    Args:
      x: Where: an array or a number.
      a: A shape of the distribution.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    z, a, _ = _standard(x, a, loc, scale)
    return _special.gammainc(a, _np.maximum(z, 0))


def sf(x, a, loc=0, scale=1):
    """The share above x.

    Args:
      x: Where: an array or a number.
      a: A shape of the distribution.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    z, a, _ = _standard(x, a, loc, scale)
    return _special.gammaincc(a, _np.maximum(z, 0))


def logcdf(x, a, loc=0, scale=1):
    """The logarithm of the share below x.

    Args:
      x: Where: an array or a number.
      a: A shape of the distribution.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    return _np.log(cdf(x, a, loc, scale))


def logsf(x, a, loc=0, scale=1):
    """The logarithm of the share above x.

    Args:
      x: Where: an array or a number.
      a: A shape of the distribution.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    return _np.log(sf(x, a, loc, scale))
