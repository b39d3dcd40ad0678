"""The functions of scipy.special."""

import math as _math

from shoal._core import nn as _nn, numpy as _numpy
from shoal._core.numpy.special import (
    _sph_harm_y,
    bessel_jn,
    beta,
    betainc,
    betaln,
    boxcox,
    boxcox1p,
    comb,
    dawsn,
    digamma,
    entr,
    erf,
    erfc,
    erfcinv,
    erfcx,
    erfinv,
    exp1,
    expi,
    expit,
    expn,
    factorial,
    fresnel,
    gamma,
    gammainc,
    gammaincc,
    gammaln,
    gammasgn,
    hyp1f1,
    hyp2f1,
    i0,
    i0e,
    i1,
    i1e,
    kl_div,
    log_ndtr,
    loggamma,
    logit,
    logsumexp,
    lpmn,
    lpmn_values,
    multigammaln,
    ndtr,
    ndtri,
    owens_t,
    poch,
    polygamma,
    psi,
    rel_entr,
    sici,
    spence,
    wofz,
    xlog1py,
    xlogy,
    zeta,
)


def bernoulli(n):
    """The numbers of Bernoulli, from the 0th to the n-th.

    Args:
      n: How many numbers.
    """
    # By the values of the zeta function at even numbers.
    numbers = [1.0, -0.5]
    for k in range(2, n + 1):
        even = 2 * _math.factorial(k) / (2 * _math.pi) ** k * (1 if k % 4 else -1) * float(zeta(float(k), 1.0))
        numbers.append(0.0 if k % 2 else even)
    return _numpy.array(numbers[: n + 1])


def softmax(x, /, *, axis=None):
    """exp(x), divided by its sum over dimensions, by default all.

    Args:
      x: An array or a number.
      axis: The dimensions, from the end if negative.
    """
    return _nn.softmax(x, axis=axis)


def log_softmax(x, /, *, axis=None):
    """log(softmax(x)), without underflow on the way.

    Args:
      x: An array or a number.
      axis: The dimensions, from the end if negative.
    """
    return _nn.log_softmax(x, axis=axis)


def sph_harm_y(n, m, theta, phi, diff_n=None, n_max=None):
    """The spherical harmonics of degree n and order m at the polar angle theta and the azimuth phi. n_max is the greatest
    degree, which must be given where n is traced.

    Args:
      n: Degrees.
      m: Orders.
      theta: Polar angles, 0 to pi.
      phi: Azimuths, 0 to 2 pi.
      diff_n: Must be None.
      n_max: The greatest degree that there may be.
    """
    if diff_n is not None:
        raise NotImplementedError("sph_harm_y: diff_n is not there")
    if _numpy.isscalar(theta):
        theta = _numpy.array([theta])
    return _sph_harm_y(n, m, theta, phi, int(_numpy.max(n)) if n_max is None else n_max)
