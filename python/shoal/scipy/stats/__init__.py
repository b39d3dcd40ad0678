"""Distributions, and what describes samples."""

from shoal import numpy as _numpy
from shoal._core.stats import mode, rankdata
from shoal.scipy.stats import (
    bernoulli,
    beta,
    betabinom,
    binom,
    cauchy,
    chi2,
    dirichlet,
    expon,
    gamma,
    gennorm,
    geom,
    gumbel_l,
    gumbel_r,
    laplace,
    logistic,
    multinomial,
    multivariate_normal,
    nbinom,
    norm,
    pareto,
    poisson,
    t,
    truncnorm,
    uniform,
    vonmises,
    wrapcauchy,
)
from shoal.scipy.stats._kde import gaussian_kde


def sem(a, axis=0, ddof=1, nan_policy="propagate", *, keepdims=False):
    """The standard error of the mean: the standard deviation over the root of the number of samples.

    Args:
      a: The samples.
      axis: The dimension of the samples, from the end if negative; None: all.
      ddof: The sum of squares is divided by the number of samples less this.
      nan_policy: "propagate": NaN gives NaN; "omit": it does not count.
      keepdims: Whether the dimension stays, with extent 1.
    """
    if nan_policy not in ("propagate", "omit"):
        raise ValueError(f"sem: nan_policy must be 'propagate' or 'omit', not {nan_policy!r}")
    a = _numpy.asarray(a)
    if axis is None:
        a, axis = _numpy.ravel(a), 0
    if nan_policy == "propagate":
        deviation = _numpy.std(a, axis=axis, ddof=ddof, keepdims=keepdims)
        return deviation / _numpy.sqrt(_numpy.asarray(a.shape[axis], deviation.dtype))
    deviation = _numpy.nanstd(a, axis=axis, ddof=ddof, keepdims=keepdims)
    count = _numpy.sum(~_numpy.isnan(a), axis=axis, keepdims=keepdims)
    return deviation / _numpy.sqrt(count.astype(deviation.dtype))

