"""The functions of scipy.special."""

from shoal._core import nn as _nn
from shoal._later import YET as _YET, later as _later
from shoal._core.numpy.special import (
    beta,
    betaln,
    digamma,
    entr,
    erf,
    erfc,
    erfinv,
    expit,
    factorial,
    gamma,
    gammaln,
    gammasgn,
    kl_div,
    loggamma,
    logit,
    logsumexp,
    ndtr,
    ndtri,
    psi,
    rel_entr,
    xlog1py,
    xlogy,
)

def softmax(x, /, *, axis=None):
    """exp(x), divided by its sum over dimensions, by default all."""
    return _nn.softmax(x, axis=axis)


def log_softmax(x, /, *, axis=None):
    """log(softmax(x)), without underflow on the way."""
    return _nn.log_softmax(x, axis=axis)


__getattr__ = _later(
    __name__,
    {
        _YET: "bernoulli bessel_jn betainc boxcox boxcox1p comb dawsn ellipe ellipk erfcx exp1 expi expn fresnel gammainc "
        "gammaincc hyp1f1 hyp2f1 i0 i0e i1 i1e log_ndtr lpmn lpmn_values multigammaln owens_t poch polygamma sici "
        "spence sph_harm_y wofz zeta"
    },
)
