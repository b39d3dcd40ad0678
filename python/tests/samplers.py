"""The samplers of jax.random, as test_samples.py draws from them and tools/record_samples.py records what JAX draws.

Each is a function of the module of random numbers, a key and a dtype, and gives 2^14 numbers, or rows of them, whose
parameters go through their ranges. Samples are compared by their kind: to the bit, within 4 units in the last place, as
numbers drawn by rejection or as counts, or within a difference where they are the rest of greater terms."""

import numpy as np

COUNT = 1 << 14
SHAPE = (COUNT,)
SEED = 7
# How many numbers of each are kept beside their sums.
KEPT = {"float32": 256, "float64": 32, "bfloat16": 32}


def along(low, high, dtype):
    return np.linspace(low, high, COUNT).astype(dtype)


def logits(rows, dtype):
    return np.sin(np.arange(rows * 64)).astype(dtype).reshape(rows, 64)


EXACT, CLOSE, DRAWN, COUNTED, NEAR = "to the bit", "in ulps", "by rejection", "as counts", "by a difference"
FLOATS = ("float32", "float64", "bfloat16")
WIDE = ("float32", "float64")

# name: (kind, dtypes, sampler)
SAMPLERS = {
    "uniform": (EXACT, FLOATS, lambda r, k, d: r.uniform(k, SHAPE, d)),
    "uniform between": (EXACT, FLOATS, lambda r, k, d: r.uniform(k, SHAPE, d, -1, 3)),
    "triangular": (EXACT, WIDE, lambda r, k, d: r.triangular(k, -1.0, 0.5, 2.0, SHAPE, d)),
    "rademacher": (EXACT, FLOATS, lambda r, k, d: r.rademacher(k, SHAPE, d)),
    "normal": (CLOSE, FLOATS, lambda r, k, d: r.normal(k, SHAPE, d)),
    "truncated_normal": (CLOSE, FLOATS, lambda r, k, d: r.truncated_normal(k, -2.0, 1.5, SHAPE, d)),
    "truncated_normal, tail": (CLOSE, FLOATS, lambda r, k, d: r.truncated_normal(k, 2.5, 6.0, SHAPE, d)),
    "exponential": (CLOSE, FLOATS, lambda r, k, d: r.exponential(k, SHAPE, d)),
    "laplace": (CLOSE, FLOATS, lambda r, k, d: r.laplace(k, SHAPE, d)),
    "logistic": (CLOSE, FLOATS, lambda r, k, d: r.logistic(k, SHAPE, d)),
    "gumbel": (CLOSE, FLOATS, lambda r, k, d: r.gumbel(k, SHAPE, d)),
    "gumbel, high": (CLOSE, FLOATS, lambda r, k, d: r.gumbel(k, SHAPE, d, mode="high")),
    "cauchy": (CLOSE, FLOATS, lambda r, k, d: r.cauchy(k, SHAPE, d)),
    "pareto": (CLOSE, WIDE, lambda r, k, d: r.pareto(k, along(0.5, 9, d), SHAPE, d)),
    "weibull_min": (CLOSE, WIDE, lambda r, k, d: r.weibull_min(k, 1.5, along(0.5, 9, d), SHAPE, d)),
    "rayleigh": (CLOSE, FLOATS, lambda r, k, d: r.rayleigh(k, along(0.5, 9, d), SHAPE, d)),
    "maxwell": (CLOSE, FLOATS, lambda r, k, d: r.maxwell(k, SHAPE, d)),
    "double_sided_maxwell": (CLOSE, WIDE, lambda r, k, d: r.double_sided_maxwell(k, 0.5, 1.5, SHAPE, d)),
    "wald": (CLOSE, WIDE, lambda r, k, d: r.wald(k, along(0.5, 9, d), SHAPE, d)),
    "lognormal": (CLOSE, FLOATS, lambda r, k, d: r.lognormal(k, 0.75, SHAPE, d)),
    "gamma": (DRAWN, WIDE, lambda r, k, d: r.gamma(k, along(0.5, 9, d), SHAPE, d)),
    "loggamma": (DRAWN, WIDE, lambda r, k, d: r.loggamma(k, along(0.5, 9, d), SHAPE, d)),
    "chisquare": (DRAWN, WIDE, lambda r, k, d: r.chisquare(k, along(1, 9, d), SHAPE, d)),
    "beta": (DRAWN, WIDE, lambda r, k, d: r.beta(k, along(0.5, 9, d), 2.5, SHAPE, d)),
    "t": (DRAWN, WIDE, lambda r, k, d: r.t(k, along(1, 9, d), SHAPE, d)),
    "f": (DRAWN, WIDE, lambda r, k, d: r.f(k, along(1, 9, d), 3.5, SHAPE, d)),
    "dirichlet": (DRAWN, WIDE, lambda r, k, d: r.dirichlet(k, np.array([0.5, 1, 4, 2.5], d), (COUNT // 4,), d)),
    "generalized_normal": (DRAWN, WIDE, lambda r, k, d: r.generalized_normal(k, 1.7, SHAPE, d)),
    "ball": (NEAR, WIDE, lambda r, k, d: r.ball(k, 4, 2.0, (COUNT // 4,), d)),
    "multivariate_normal": (
        NEAR,
        WIDE,
        lambda r, k, d: r.multivariate_normal(
            k, np.array([1, -1], d), np.array([[2, 0.3], [0.3, 1]], d), (COUNT // 2,), d
        ),
    ),
    "orthogonal": (NEAR, WIDE, lambda r, k, d: r.orthogonal(k, 4, (COUNT // 16,), d)),
    "bits": (COUNTED, ("float32",), lambda r, k, d: r.bits(k, SHAPE, np.uint8)),
    "randint": (COUNTED, ("float32",), lambda r, k, d: r.randint(k, SHAPE, 3, 200)),
    "permutation": (COUNTED, ("float32",), lambda r, k, d: r.permutation(k, COUNT) % 256),
    "bernoulli": (COUNTED, ("float32",), lambda r, k, d: r.bernoulli(k, along(0, 1, d), SHAPE)),
    "geometric": (COUNTED, ("float32",), lambda r, k, d: r.geometric(k, 0.3, SHAPE)),
    "poisson": (COUNTED, ("float32",), lambda r, k, d: r.poisson(k, along(0.1, 30, d), SHAPE)),
    "binomial": (COUNTED, ("float32",), lambda r, k, d: r.binomial(k, 40.0, along(0.01, 0.95, d), SHAPE, d)),
    "multinomial": (
        COUNTED, ("float32",), lambda r, k, d: r.multinomial(k, 53.0, np.array([0.125, 0.25, 0.5, 0.125], d), shape=(COUNT // 4,)),
    ),
    "categorical": (COUNTED, ("float32",), lambda r, k, d: r.categorical(k, logits(1, d)[0], shape=SHAPE)),
    "categorical, rows": (COUNTED, ("float32",), lambda r, k, d: r.categorical(k, logits(COUNT, d))),
    "categorical, once": (
        COUNTED, ("float32",), lambda r, k, d: r.categorical(k, logits(COUNT // 4, d), replace=False, shape=(4, COUNT // 4)),
    ),
    "choice": (COUNTED, ("float32",), lambda r, k, d: r.choice(k, 64, SHAPE, p=(np.arange(64) / 2016).astype(d))),
    "choice, once": (
        COUNTED, ("float32",), lambda r, k, d: r.choice(k, COUNT, (COUNT // 2,), replace=False, p=along(0.1, 1, d) / COUNT * 2) % 256,
    ),
}  # fmt: skip


def cases():
    for name, (kind, dtypes, sampler) in SAMPLERS.items():
        for dtype in dtypes:
            yield name, dtype, kind, sampler


def draw(jax, sampler, dtype):
    """The numbers as an array of NumPy, with 64-bit types if they are asked for."""
    jax.config.update("jax_enable_x64", dtype == "float64")
    try:
        made = np.asarray(sampler(jax.random, jax.random.key(SEED), np.dtype(jax.numpy.dtype(dtype)))).ravel()
    finally:
        jax.config.update("jax_enable_x64", False)
    return made


def kept_of(values, dtype):
    return values[:: max(len(values) // KEPT[dtype], 1)]
