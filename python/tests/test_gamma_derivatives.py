"""Derivatives of samples by the shapes of their distributions. Numbers are those of JAX 0.12 in f64: jax.jacrev of the
same call with the key PRNGKey(42), and of the diagonal that is not zero."""

import numpy as np
import pytest
import shoal as jax
import shoal.numpy as jnp
from shoal import lax, random

A = [0.3, 1.0, 4.5, 50.0]
B = [2.0, 0.7, 3.0, 9.0]
SAMPLES = {
    "gamma": (lambda key, a, b: random.gamma(key, a, dtype=a.dtype),
              [0.427441827005, 0.821779856993, 1.4160679576, 1.02651086054]),
    "loggamma": (lambda key, a, b: random.loggamma(key, a, dtype=a.dtype),
                 [10.5165640858, 1.59201740444, 0.162942384774, 0.0196104032443]),
    "beta by a": (lambda key, a, b: random.beta(key, a, b, dtype=a.dtype),
                  [0.123023055066, 0.56283697204, 0.0949896447117, 0.00274358130985]),
    "beta by b": (lambda key, a, b: random.beta(key, b, a, dtype=a.dtype),
                  [-0.503089151313, -0.60365962557, -0.0214532529562, -0.00217305410715]),
    "chisquare": (lambda key, a, b: random.chisquare(key, a, dtype=a.dtype),
                  [0.0432184232413, 0.125286522244, 1.61047898119, 1.0376272397]),
    "t": (lambda key, a, b: random.t(key, a, dtype=a.dtype),
          [9.74248924925, 0.735748700516, -0.0650389692891, 7.75909554179e-05]),
    "f by dfnum": (lambda key, a, b: random.f(key, a, b, dtype=a.dtype),
                   [1.40938234138, 57.4205074086, 0.0308336921454, 0.00119384632309]),
    "f by dfden": (lambda key, a, b: random.f(key, b, a, dtype=a.dtype),
                   [-8401.86584763, -13.0085768869, -4.02531458531, -0.00188739226185]),
    "generalized_normal": (lambda key, a, b: random.generalized_normal(key, a, a.shape, dtype=a.dtype),
                           [1189.90314357, 0.131604224885, 0.00283885926488, 0.000110318242348]),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_derivatives_are_those_of_jax(name):
    sample, expected = SAMPLES[name]
    with jax.enable_x64(True):
        key, a, b = random.PRNGKey(42), jnp.array(A), jnp.array(B)
        f = lambda x: sample(key, x, b)
        _, forward = jax.jvp(f, (a,), (jnp.ones_like(a),))
        backward = jax.grad(lambda x: jnp.sum(f(x)))(a)
        mapped = jax.jit(jax.jacrev(f))(a)
    np.testing.assert_allclose(forward, expected, rtol=1e-8)
    np.testing.assert_allclose(backward, expected, rtol=1e-8)
    np.testing.assert_allclose(np.diagonal(mapped), expected, rtol=1e-8)
    few = jnp.float32(A[:3])
    narrow = jax.grad(lambda x: jnp.sum(sample(random.PRNGKey(42), x, jnp.float32(B[:3]))))(few)
    assert narrow.dtype == jnp.float32 and np.isfinite(narrow).all()


def test_dirichlet():
    with jax.enable_x64(True):
        loss = lambda x: jnp.sum(random.dirichlet(random.PRNGKey(42), x) * jnp.arange(4.0))
        gradient = jax.grad(loss)(jnp.array(A))
    np.testing.assert_allclose(gradient, [-0.0197101996014, -0.0245517442345, -0.0193160189906, 0.0026638982067], rtol=1e-8)


def test_samples_do_not_change():
    key, a = random.key(0), jnp.float32(A)
    value, _ = jax.value_and_grad(lambda x: random.gamma(key, x)[1])(a)
    assert value == random.gamma(key, a)[1]


def test_samples_that_are_rounded_to_0():
    """They do not change; their logarithms do."""
    key, a = random.key(3), jnp.full(50, 1e-3)
    assert (random.gamma(key, a) == 0).any()
    for sample in (random.gamma, random.loggamma):
        gradient = np.asarray(jax.grad(lambda x: jnp.sum(sample(key, x)))(a))
        assert np.isfinite(gradient).all() and (gradient[random.gamma(key, a) == 0] == 0).all() == (sample is random.gamma)


def test_mean_of_derivatives():
    """The mean of a sample is its shape, so that the mean of derivatives is 1."""
    for a in (0.2, 1.0, 7.0):
        shapes = jnp.full(4000, a)
        gradient = jax.grad(lambda x: jnp.sum(random.gamma(random.key(1), x)))(shapes)
        assert abs(np.mean(gradient) - 1) < 5 * np.std(gradient) / np.sqrt(4000)


def test_in_vmap_and_over_devices():
    keys, a = random.split(random.key(2), 8), jnp.linspace(0.5, 4, 8)
    each = jax.vmap(jax.grad(lambda x, key: random.gamma(key, x)))
    expected = [jax.grad(lambda x: random.gamma(key, x))(v) for v, key in zip(a, keys)]
    np.testing.assert_allclose(each(a, keys), expected, rtol=1e-6)
    mesh = jax.make_mesh((8,), ("x",))
    split = jax.device_put(a, jax.NamedSharding(mesh, jax.P("x")))
    whole = jax.jit(jax.grad(lambda x: jnp.sum(random.gamma(random.key(0), x) ** 2)))
    np.testing.assert_allclose(whole(split), whole(a), rtol=1e-6)


def test_of_given_samples():
    a = jnp.array([0.5, 3, 3, 100, 1e-3, 1, -1, 1, 2, 0], jnp.float32)
    x = jnp.array([0.2, 2, 9, 95, 1e-5, 0, 1, -1, np.inf, 1], jnp.float32)
    expected = [0.7940505663, 0.8565714221, 1.7397554121, 0.9761983112, 0.1093747278, 0, np.nan, np.nan, np.nan, np.nan]
    np.testing.assert_allclose(lax.random_gamma_grad(a, x), expected, rtol=2e-6)
    with pytest.raises(TypeError):
        lax.random_gamma_grad(1, 2)
