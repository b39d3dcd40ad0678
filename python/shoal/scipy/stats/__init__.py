"""Distributions, and what describes samples."""

from shoal._later import YET as _YET, later as _later
from shoal.scipy.stats import beta, cauchy, chi2, expon, gamma, laplace, logistic, norm, poisson, t, uniform

__getattr__ = _later(
    __name__,
    {
        _YET: "bernoulli betabinom binom dirichlet gaussian_kde gennorm geom gumbel_l gumbel_r mode multinomial "
        "multivariate_normal nbinom pareto rankdata sem truncnorm vonmises wrapcauchy"
    },
)
