"""Gradients that JAX has not: of loops of unknown length, with strong zeros, and within a budget of memory."""

import numpy as np
import pytest
import shoal as jax
import shoal.numpy as jnp
from shoal import lax


def newton(a, max_checkpoints=None):
    """The square root, by as many steps as it takes."""
    def step(x):
        return 0.5 * (x + a / x)

    return lax.while_loop(lambda x: jnp.abs(x * x - a) > 1e-3 * a, step, a, max_checkpoints=max_checkpoints)


def test_while_loop_has_a_gradient_with_checkpoints():
    with pytest.raises(ValueError, match="or max_checkpoints"):
        jax.grad(newton)(2.0)
    for most in (1, 2, 10):
        slope = jax.grad(lambda a: newton(a, most))(2.0)
        np.testing.assert_allclose(slope, 0.5 / np.sqrt(2.0), rtol=1e-3)
        np.testing.assert_array_equal(jax.jit(jax.grad(lambda a: newton(a, most)))(2.0), slope)
    with pytest.raises(ValueError, match="max_checkpoints is 0; it must be at least 1"):
        newton(2.0, 0)


def test_fori_loop_with_traced_bounds():
    def power(n, x, most=3):
        return lax.fori_loop(0, n, lambda i, y: y * x + i * 0.0, 1.0, max_checkpoints=most)

    for n in (0, 1, 7, 40):
        slope = jax.jit(jax.grad(power, argnums=1))(n, 1.125)
        np.testing.assert_allclose(slope, n * 1.125 ** (n - 1), rtol=1e-5)
    np.testing.assert_allclose(jax.vmap(jax.grad(lambda x: power(5, x)))(jnp.array([0.5, 2.0])), [0.3125, 80.0])


def test_strong_zeros():
    def safe(x):
        return jnp.sum(jnp.where(x > 0, jnp.sqrt(x), 0.0))

    x = jnp.array([0.0, 4.0])
    assert np.isnan(jax.grad(safe)(x)[0])
    np.testing.assert_array_equal(jax.grad(safe, strong_zeros=True)(x), [0.0, 0.25])
    value, slope = jax.jit(jax.value_and_grad(safe, strong_zeros=True))(x)
    np.testing.assert_array_equal(value, 2.0)
    np.testing.assert_array_equal(slope, [0.0, 0.25])


def test_strong_zeros_of_other_derivatives():
    def safe(x):
        return jnp.where(x > 0, jnp.sqrt(x), 0.0)

    x, one, change = jnp.array([0.0, 4.0]), jnp.ones(2), jnp.array([0.0, 1.0])
    assert np.isnan(jax.vjp(safe, x)[1](one)[0][0])
    same = np.testing.assert_array_equal
    same(jax.vjp(safe, x, strong_zeros=True)[1](one)[0], [0, 0.25])
    assert np.isnan(jax.jvp(jnp.sqrt, (x,), (change,))[1][0])
    same(jax.jvp(jnp.sqrt, (x,), (change,), strong_zeros=True)[1], [0, 0.25])
    same(jax.linearize(jnp.sqrt, x, strong_zeros=True)[1](change), [0, 0.25])
    for jacobian in (jax.jacfwd, jax.jacrev, jax.jacobian):
        same(jax.jit(jacobian(safe, strong_zeros=True))(x), [[0, 0], [0, 0.25]])
        same(jacobian(jnp.sqrt, strong_zeros=True)(x), [[np.inf, 0], [0, 0.25]])
    second = jax.hessian(lambda v: jnp.sum(safe(v)), strong_zeros=True)
    same(second(x), [[0, 0], [0, -1 / 32]])
    same(jax.jit(second)(x), second(x))
    # A pullback that went through jit is still the same function.
    pull_back = jax.jit(lambda v: jax.vjp(safe, v, strong_zeros=True)[1])(x)
    same(pull_back(one)[0], [0, 0.25])


def test_memory_budget():
    def loss(w, x):
        h = x
        for _ in range(16):
            h = jnp.tanh(h @ w) + x
        return jnp.sum(h * h)

    w, x = jnp.arange(1024.0).reshape(32, 32) / 4000 - 0.1, jnp.arange(32768.0).reshape(1024, 32) / 40000
    free = jax.jit(jax.grad(loss))
    lean = jax.jit(jax.grad(loss), memory_budget=1 << 20)
    np.testing.assert_array_equal(lean(w, x), free(w, x))
    with pytest.raises(MemoryError, match="memory_budget is 1000 bytes, and the least that a call was found to take"):
        jax.jit(jax.grad(loss), memory_budget=1000)(w, x)
    with pytest.raises(TypeError, match="memory_budget"):
        jax.jit(loss, memory_budget="much")
