"""The beta distribution."""

from shoal import numpy as _np
from shoal.scipy import special as _special
from shoal.scipy.stats._given import standard as _standard


def logpdf(x, a, b, loc=0, scale=1):
    """The logarithm of the density.

    Args:
      x: Where: an array or a number.
      a: A shape of the distribution.
      b: A shape of the distribution.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    z, a, b, scale = _standard(x, a, b, loc, scale)
    inside = _special.xlogy(a - 1, z) + _special.xlog1py(b - 1, -z) - _special.betaln(a, b) - _np.log(scale)
    return _np.where((z < 0) | (z > 1), -_np.inf, inside)


def pdf(x, a, b, loc=0, scale=1):
    """The density.

    Args:
      x: Where: an array or a number.
      a: A shape of the distribution.
      b: A shape of the distribution.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    return _np.exp(logpdf(x, a, b, loc, scale))


def cdf(x, a, b, loc=0, scale=1):
    """The share below x.

    Args:
      x: Where: an array or a number.
      a: A shape of the distribution.
      b: A shape of the distribution.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    z, a, b, _ = _standard(x, a, b, loc, scale)
    return _special.betainc(a, b, _np.clip(z, 0, 1))


def logcdf(x, a, b, loc=0, scale=1):
    """The logarithm of the share below x.

    Args:
      x: Where: an array or a number.
      a: A shape of the distribution.
      b: A shape of the distribution.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    return _np.log(cdf(x, a, b, loc, scale))


def sf(x, a, b, loc=0, scale=1):
    """The share above x.

    Args:
      x: Where: an array or a number.
      a: A shape of the distribution.
      b: A shape of the distribution.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    z, a, b, _ = _standard(x, a, b, loc, scale)
    return _special.betainc(b, a, 1 - _np.clip(z, 0, 1))


def logsf(x, a, b, loc=0, scale=1):
    """The logarithm of the share above x.

    Args:
      x: Where: an array or a number.
      a: A shape of the distribution.
      b: A shape of the distribution.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    return _np.log(sf(x, a, b, loc, scale))
