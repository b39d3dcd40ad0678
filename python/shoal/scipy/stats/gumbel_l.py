"""The left-skewed distribution of Gumbel."""

from shoal import numpy as _np
from shoal.scipy.stats._given import given as _given, standard as _standard


def _with_scale(scale, value):
    return _np.where(scale > 0, value, _np.nan)


def logpdf(x, loc=0, scale=1):
    """The logarithm of the density.

    Args:
      x: Where: an array or a number.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    z, scale = _standard(x, loc, scale)
    return _with_scale(scale, z - _np.exp(z) - _np.log(scale))


def pdf(x, loc=0, scale=1):
    """The density.

    Args:
      x: Where: an array or a number.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    return _np.exp(logpdf(x, loc, scale))


def logcdf(x, loc=0, scale=1):
    """The logarithm of the share below x.

    Args:
      x: Where: an array or a number.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    z, scale = _standard(x, loc, scale)
    return _with_scale(scale, _np.log(-_np.expm1(-_np.exp(z))))


def cdf(x, loc=0, scale=1):
    """The share below x.

    Args:
      x: Where: an array or a number.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    return _np.exp(logcdf(x, loc, scale))


def logsf(x, loc=0, scale=1):
    """The logarithm of the share above x.

    Args:
      x: Where: an array or a number.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    z, scale = _standard(x, loc, scale)
    return _with_scale(scale, -_np.exp(z))


def sf(x, loc=0, scale=1):
    """The share above x.

    Args:
      x: Where: an array or a number.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    return _np.exp(logsf(x, loc, scale))


def ppf(p, loc=0, scale=1):
    """The number below which a share p lies.

    Args:
      p: A probability.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    p, loc, scale = _given(p, loc, scale)
    return _np.where((p > 0) & (p < 1), loc + scale * _np.log(-_np.log1p(-p)), _np.nan)
