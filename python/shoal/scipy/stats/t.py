"""The distribution of Student."""

import math as _math

from shoal import numpy as _np
from shoal.scipy import special as _special
from shoal.scipy.stats._given import standard as _standard


def logpdf(x, df, loc=0, scale=1):
    """The logarithm of the density.

    Args:
      x: Where: an array or a number.
      df: The number of degrees of freedom.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    z, df, scale = _standard(x, df, loc, scale)
    width = _np.log(scale) + (_np.log(df) + _math.log(_math.pi)) / 2
    constant = _special.gammaln((df + 1) / 2) - _special.gammaln(df / 2) - width
    return constant - (df + 1) / 2 * _np.log1p(z * z / df)


def pdf(x, df, loc=0, scale=1):
    """The density.

    Args:
      x: Where: an array or a number.
      df: The number of degrees of freedom.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    return _np.exp(logpdf(x, df, loc, scale))
