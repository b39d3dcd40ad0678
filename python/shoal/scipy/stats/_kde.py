"""Densities that are estimated from samples."""

import math

from shoal import numpy as _np, random as _random, tree_util as _tree_util
from shoal._core import linalg as _linalg
from shoal._core.lax import linalg as _factors
from shoal.scipy import special as _special


class gaussian_kde:
    """The density that samples come from: the mean of normal ones around each of them. `dataset` is (n,), or (d, n) for n
    samples of d components; `weights` says how much each counts. `bw_method`, "scott", "silverman", a number, or a function
    of this object, gives the factor between the deviations of samples and those of the normal densities. By Scott 1992,
    "Multivariate density estimation"."""

    def __init__(self, dataset, bw_method=None, weights=None):
        dataset = _np.atleast_2d(_np.asarray(dataset))
        if _np.issubdtype(dataset.dtype, _np.complexfloating):
            raise NotImplementedError("gaussian_kde: samples are real numbers, not complex ones")
        if dataset.size <= 1:
            raise ValueError(f"gaussian_kde: dataset must have several elements, and has {dataset.size}")
        d, n = dataset.shape
        if weights is None:
            dataset = _floating(dataset)
            weights = _np.full(n, 1 / n, dtype=dataset.dtype)
        else:
            weights = _np.atleast_1d(_np.asarray(weights))
            dtype = _floating(_np.zeros((), _np.result_type(dataset, weights))).dtype
            dataset, weights = dataset.astype(dtype), weights.astype(dtype)
            if weights.shape != (n,):
                raise ValueError(f"gaussian_kde: weights must be a vector of {n}, and have shape {weights.shape}")
            weights = weights / _np.sum(weights)
        self.dataset, self.weights = dataset, weights
        self.neff = 1 / _np.sum(weights**2)
        if bw_method is None or bw_method == "scott":
            factor = self.neff ** (-1 / (d + 4))
        elif bw_method == "silverman":
            factor = (self.neff * (d + 2) / 4) ** (-1 / (d + 4))
        elif callable(bw_method):
            factor = bw_method(self)
        elif isinstance(bw_method, str) or not _np.isscalar(bw_method):
            raise ValueError(
                f"gaussian_kde: bw_method must be 'scott', 'silverman', a number or a function, not {bw_method!r}"
            )
        else:
            factor = bw_method
        covariance = _np.atleast_2d(_np.cov(dataset, rowvar=True, bias=False, aweights=weights))
        self.covariance = covariance * factor**2
        self.inv_cov = _linalg.inv(covariance) / factor**2

    @property
    def d(self):
        """The number of components."""
        return self.dataset.shape[0]

    @property
    def n(self):
        """The number of samples."""
        return self.dataset.shape[1]

    def evaluate(self, points):
        """The density at points: (m,), or (d, m)."""
        return _np.exp(-self._distances(points) + self._log_norm()) @ self.weights

    __call__ = pdf = evaluate

    def logpdf(self, x):
        """The logarithm of the density."""
        return _special.logsumexp(_np.log(self.weights) - self._distances(x), axis=-1) + self._log_norm()

    def integrate_gaussian(self, mean, cov):
        """The integral of the product with a normal density."""
        mean, cov = _np.atleast_1d(_np.squeeze(_np.asarray(mean))), _np.atleast_2d(_np.asarray(cov))
        if mean.shape != (self.d,) or cov.shape != (self.d, self.d):
            raise ValueError(
                f"gaussian_kde: samples have {self.d} components, but mean has shape {mean.shape} and cov {cov.shape}"
            )
        return _products(self.covariance + cov, self.dataset, mean[:, None])[0] @ self.weights

    def integrate_box_1d(self, low, high):
        """The share between two numbers, of samples of one component."""
        if self.d != 1:
            raise ValueError(f"gaussian_kde.integrate_box_1d: samples must have one component, not {self.d}")
        if _np.ndim(low) != 0 or _np.ndim(high) != 0:
            raise ValueError("gaussian_kde.integrate_box_1d: low and high must be scalars")
        deviation = _np.sqrt(self.covariance[0, 0])
        share = lambda x: _special.ndtr((x - self.dataset[0]) / deviation)
        return _np.sum(self.weights * (share(high) - share(low)))

    def integrate_kde(self, other):
        """The integral of the product of two such densities."""
        if other.d != self.d:
            raise ValueError(f"gaussian_kde.integrate_kde: samples have {self.d} and {other.d} components")
        products = _products(self.covariance + other.covariance, self.dataset, other.dataset)
        return _np.sum((products @ self.weights) * other.weights)

    def resample(self, key, shape=()):
        """Samples of the density, of shape (d,) + shape."""
        which, how_far = _random.split(key)
        chosen = _random.choice(which, self.n, shape=shape, p=self.weights)
        zero = _np.zeros(self.d, self.covariance.dtype)
        far = _random.multivariate_normal(how_far, zero, self.covariance, shape=shape, dtype=self.dataset.dtype)
        return self.dataset[:, chosen] + far.T

    def integrate_box(self, low_bounds, high_bounds, maxpts=None):
        """There is integrate_box_1d alone."""
        raise NotImplementedError("gaussian_kde.integrate_box: integrate_box_1d is of one component")

    def set_bandwidth(self, bw_method=None):
        """Objects do not change: make another one."""
        raise NotImplementedError("gaussian_kde.set_bandwidth: make another gaussian_kde with this bw_method")

    def _distances(self, points):
        """Half the squared distance of each point from each sample, in deviations."""
        points = _np.atleast_2d(_np.asarray(points))
        if _np.issubdtype(points.dtype, _np.complexfloating):
            raise NotImplementedError("gaussian_kde: points are real numbers, not complex ones")
        if points.shape[0] != self.d:
            if points.shape != (1, self.d):
                raise ValueError(f"gaussian_kde: points have {points.shape[0]} components, and samples have {self.d}")
            points = points.reshape(self.d, 1)
        whitening = _factors.cholesky(self.inv_cov)
        from_samples = whitening.T @ self.dataset
        from_points = whitening.T @ points
        # Component by component, so that nothing cancels and no array of all three dimensions is made.
        return sum((from_points[i][:, None] - from_samples[i][None, :]) ** 2 for i in range(self.d)) / 2

    def _log_norm(self):
        diagonal = _np.diagonal(_factors.cholesky(self.inv_cov))
        return _np.sum(_np.log(diagonal)) - self.d / 2 * math.log(2 * math.pi)


def _floating(x):
    return x if _np.issubdtype(x.dtype, _np.floating) else x.astype(_np.result_type(x.dtype, float))


def _products(covariance, samples, means):
    """Normal densities of this covariance, of the differences of samples from means: a row for each mean."""
    factor = _factors.cholesky(covariance)
    whiten = lambda x: _factors.triangular_solve(factor, x, left_side=True, lower=True)
    first, second = whiten(samples), whiten(means)
    squares = sum((second[i][:, None] - first[i][None, :]) ** 2 for i in range(len(covariance)))
    norm = (2 * math.pi) ** (len(covariance) / 2) * _np.prod(_np.diagonal(factor))
    return _np.exp(-squares / 2) / norm


_FIELDS = "neff dataset weights covariance inv_cov".split()


def _of_parts(_, parts):
    made = object.__new__(gaussian_kde)
    for name, part in zip(_FIELDS, parts):
        setattr(made, name, part)
    return made


_tree_util.register_pytree_node(gaussian_kde, lambda kde: (tuple(getattr(kde, f) for f in _FIELDS), None), _of_parts)
