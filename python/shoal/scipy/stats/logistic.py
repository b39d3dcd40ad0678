"""The logistic distribution."""

from shoal import numpy as _np
from shoal.scipy import special as _special
from shoal.scipy.stats._given import given as _given, standard as _standard


def logpdf(x, loc=0, scale=1):
    """The logarithm of the density.

    Args:
      x: Where: an array or a number.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    z, scale = _standard(x, loc, scale)
    return -z - 2 * _np.logaddexp(0, -z) - _np.log(scale)


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
    return _special.expit(z)


def sf(x, loc=0, scale=1):
    """The share above x.

    Args:
      x: Where: an array or a number.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    z, _ = _standard(x, loc, scale)
    return _special.expit(-z)


def ppf(x, loc=0, scale=1):
    """The number below which a share lies.

    Args:
      x: Where: an array or a number.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    x, loc, scale = _given(x, loc, scale)
    return _special.logit(x) * scale + loc


def isf(x, loc=0, scale=1):
    """The number above which a share lies.

    Args:
      x: Where: an array or a number.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    x, loc, scale = _given(x, loc, scale)
    return -_special.logit(x) * scale + loc
