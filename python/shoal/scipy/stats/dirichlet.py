"""The distribution of Dirichlet."""

from shoal import numpy as _np
from shoal.scipy import special as _special
from shoal.scipy.stats._given import given as _given


def logpdf(x, alpha):
    """The logarithm of the density; x has shares in its first dimension, of which the last may be left out.

    Args:
      x: Where: an array or a number.
      alpha: The concentrations, along the first dimension.
    """
    x, alpha = _given(x, alpha)
    if alpha.ndim != 1:
        raise ValueError(f"dirichlet.logpdf: alpha must have one dimension, not the shape {alpha.shape}")
    if x.ndim == 0 or x.shape[0] not in (alpha.shape[0], alpha.shape[0] - 1):
        raise ValueError(
            f"dirichlet.logpdf: x of shape {x.shape} must have as many entries as alpha, {alpha.shape[0]}, or one fewer"
        )
    if x.shape[0] != alpha.shape[0]:
        x = _np.concatenate([x, 1 - _np.sum(x, axis=0, keepdims=True)], axis=0)
    constant = _np.sum(_special.gammaln(alpha)) - _special.gammaln(_np.sum(alpha))
    powers = _np.reshape(alpha - 1, alpha.shape + (1,) * (x.ndim - 1))
    value = _np.sum(_special.xlogy(powers, x), axis=0) - constant
    is_inside = _np.all(x > 0, axis=0) & (_np.abs(_np.sum(x, axis=0) - 1) < 1e-6)
    return _np.where(is_inside, value, -_np.inf)


def pdf(x, alpha):
    """The density.

    Args:
      x: Where: an array or a number.
      alpha: The concentrations, along the first dimension.
    """
    return _np.exp(logpdf(x, alpha))
