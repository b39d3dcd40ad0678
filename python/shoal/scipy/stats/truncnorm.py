"""The normal distribution between two bounds."""

import math as _math

from shoal import numpy as _np
from shoal.scipy import special as _special
from shoal.scipy.stats._given import standard as _standard


def _log_difference(x, y):
    """log(exp(x) - exp(y)) for x >= y."""
    return x + _np.log(-_np.expm1(y - x))


def _log_mass(a, b):
    """The logarithm of the normal distribution's share from a to b; where both are right of 0, of its mirror image."""
    is_right = a > 0
    low, high = _np.where(is_right, -b, a), _np.where(is_right, -a, b)
    one_side = _log_difference(_special.log_ndtr(high), _special.log_ndtr(low))
    both_sides = _np.log1p(-_special.ndtr(low) - _special.ndtr(-high))
    return _np.where(high <= 0, one_side, both_sides)


def _log_share(part, rest):
    """log(exp(part)), where exp(part) + exp(rest) = 1: by the rest where almost nothing is left of it."""
    return _np.where(part > -0.1, _np.log1p(-_np.exp(rest)), part)


def logpdf(x, a, b, loc=0, scale=1):
    """The logarithm of the density; a and b are bounds of (x - loc) / scale.

    Args:
      x: Where: an array or a number.
      a: The least number, before it is multiplied and moved.
      b: The greatest number, before it is multiplied and moved.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    z, a, b, scale = _standard(x, a, b, loc, scale)
    value = -(z * z + _math.log(2 * _math.pi)) / 2 - _log_mass(a, b) - _np.log(scale)
    return _np.where(a < b, _np.where((z < a) | (z > b), -_np.inf, value), _np.nan)


def pdf(x, a, b, loc=0, scale=1):
    """The density.

    Args:
      x: Where: an array or a number.
      a: The least number, before it is multiplied and moved.
      b: The greatest number, before it is multiplied and moved.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    return _np.exp(logpdf(x, a, b, loc, scale))


def logcdf(x, a, b, loc=0, scale=1):
    """The logarithm of the share below x.

    Args:
      x: Where: an array or a number.
      a: The least number, before it is multiplied and moved.
      b: The greatest number, before it is multiplied and moved.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    z, a, b, _ = _standard(x, a, b, loc, scale)
    z = _np.clip(z, a, b)
    whole = _log_mass(a, b)
    value = _log_share(_log_mass(a, z) - whole, _log_mass(z, b) - whole)
    value = _np.where(z <= a, -_np.inf, _np.where(z >= b, 0, value))
    return _np.where(a < b, value, _np.nan)


def cdf(x, a, b, loc=0, scale=1):
    """The share below x.

    Args:
      x: Where: an array or a number.
      a: The least number, before it is multiplied and moved.
      b: The greatest number, before it is multiplied and moved.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    return _np.exp(logcdf(x, a, b, loc, scale))


def logsf(x, a, b, loc=0, scale=1):
    """The logarithm of the share above x.

    Args:
      x: Where: an array or a number.
      a: The least number, before it is multiplied and moved.
      b: The greatest number, before it is multiplied and moved.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    z, a, b, _ = _standard(x, a, b, loc, scale)
    z = _np.clip(z, a, b)
    whole = _log_mass(a, b)
    value = _log_share(_log_mass(z, b) - whole, _log_mass(a, z) - whole)
    value = _np.where(z <= a, 0, _np.where(z >= b, -_np.inf, value))
    return _np.where(a < b, value, _np.nan)


def sf(x, a, b, loc=0, scale=1):
    """The share above x.

    Args:
      x: Where: an array or a number.
      a: The least number, before it is multiplied and moved.
      b: The greatest number, before it is multiplied and moved.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    return _np.exp(logsf(x, a, b, loc, scale))
