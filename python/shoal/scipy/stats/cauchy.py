"""The distribution of Cauchy."""

import math as _math

from shoal import numpy as _np
from shoal.scipy.stats._given import given as _given, standard as _standard


def logpdf(x, loc=0, scale=1):
    """The logarithm of the density.

    Args:
      x: Where: an array or a number.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    z, scale = _standard(x, loc, scale)
    return -_math.log(_math.pi) - _np.log(scale) - _np.log1p(z * z)


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
    return 0.5 + _np.arctan(z) / _math.pi


def sf(x, loc=0, scale=1):
    """The share above x.

    Args:
      x: Where: an array or a number.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    z, _ = _standard(x, loc, scale)
    return 0.5 - _np.arctan(z) / _math.pi


def logcdf(x, loc=0, scale=1):
    """The logarithm of the share below x.

    Args:
      x: Where: an array or a number.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    return _np.log(cdf(x, loc, scale))


def logsf(x, loc=0, scale=1):
    """The logarithm of the share above x.

    Args:
      x: Where: an array or a number.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    return _np.log(sf(x, loc, scale))


def ppf(q, loc=0, scale=1):
    """The number below which a share lies.

    Args:
      q: Shares between 0 and 1.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    q, loc, scale = _given(q, loc, scale)
    return _np.tan(_math.pi * (q - 0.5)) * scale + loc


def isf(q, loc=0, scale=1):
    """The number above which a share lies.

    Args:
      q: Shares between 0 and 1.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    q, loc, scale = _given(q, loc, scale)
    return _np.tan(_math.pi * (0.5 - q)) * scale + loc
