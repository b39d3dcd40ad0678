"""Rules of the user's own: what they are told of keys and integers, and what the functions around them forward."""

from functools import partial

import numpy as np
import pytest
import shoal as jax
import shoal.numpy as jnp
from shoal import random
from shoal.custom_batching import custom_vmap
from shoal.custom_derivatives import SymbolicZero


def scaled(nondiff):
    @partial(jax.custom_vjp, nondiff_argnums=nondiff)
    def f(x, y):
        return (x[0] if isinstance(x, tuple) else x) * y

    f.defvjp(lambda x, y: (f(x, y), jnp.cos(y)), lambda x, cos, g: (cos * g,))
    return f


@pytest.mark.parametrize("wrapped", [lambda x: x, lambda x: (x,)], ids=["array", "tuple"])
def test_tracers_are_differentiated_arguments(wrapped):
    f = scaled((0,))
    g = jax.jit(lambda x, y: f(wrapped(x), y))
    for call in (lambda: g(2.0, 3.0), lambda: jax.grad(g, 1)(2.0, 3.0), lambda: jax.vmap(g, (0, None))(jnp.ones(2), 3.0),
                 lambda: jax.vmap(lambda x: f(wrapped(x), 3.0))(jnp.ones(2))):
        with pytest.raises(jax.errors.UnexpectedTracerError,
                           match="custom_vjp: argument 0 of f is float32.*pass arrays as arguments like others"):
            call()
    with pytest.raises(jax.errors.UnexpectedTracerError, match="uses an array from outside that is differentiated"):
        jax.grad(lambda x: f(wrapped(x), 3.0))(2.0)
    np.testing.assert_allclose(jax.grad(lambda y: f(wrapped(2.0), y))(3.0), np.cos(3.0), rtol=1e-6)
    np.testing.assert_allclose(jax.grad(lambda y: f(wrapped(jnp.float32(2.0)), y))(3.0), np.cos(3.0), rtol=1e-6)


def test_rules_of_what_is_wrapped():
    @jax.custom_vjp
    @custom_vmap
    def f(x, y):
        return jnp.sin(x) * y

    @f.def_vmap
    def mapped(size, is_mapped, xs, ys):
        return jnp.cos(xs) * ys, True

    f.defvjp(lambda x, y: (f(x, y), (x, y)), lambda kept, g: (jnp.cos(kept[0]) * g * kept[1], jnp.sin(kept[0]) * g))
    xs = jnp.linspace(0.0, 1.0, 5)
    np.testing.assert_allclose(jax.vmap(f)(xs, xs), jnp.cos(xs) * xs, rtol=1e-6)
    np.testing.assert_allclose(jax.grad(f)(0.5, 2.0), 2 * np.cos(0.5), rtol=1e-6)

    @custom_vmap
    @jax.custom_jvp
    def g(x):
        return 2.0 * x

    g.def_vmap(lambda size, is_mapped, xs: (3.0 * xs, True))
    g.defjvp(lambda primals, tangents: (g(*primals), 5.0 * tangents[0]))
    assert jax.vmap(g)(jnp.ones(2)).tolist() == [3.0, 3.0]
    with pytest.raises(AttributeError, match="'custom_jvp' object has no attribute 'defvjp'"):
        g.defvjp(None, None)
    with pytest.raises(AttributeError, match="'custom_vmap' object has no attribute 'defjvp'"):
        custom_vmap(lambda x: x).defjvp(None)


def test_keys_have_no_tangents():
    seen = []

    @jax.custom_jvp
    def noisy(x, key):
        return x * random.normal(key)

    @noisy.defjvp
    def rule(primals, tangents):
        seen.append(tangents[1].dtype)
        noise = random.normal(primals[1])
        return primals[0] * noise, tangents[0] * noise

    key = random.key(0)
    assert jax.grad(noisy)(0.5, key) == random.normal(key)
    assert seen == [jax.dtypes.float0]
    _, pull_back = jax.vjp(lambda k, x: x * random.normal(k), key, 2.0)
    of_key, of_x = pull_back(1.0)
    assert of_key.dtype == jax.dtypes.float0 and of_key.shape == () and of_x == random.normal(key)
    _, change = jax.jvp(lambda k, x: (k, x), (key, 2.0), (np.zeros((), jax.dtypes.float0), 1.0))
    assert change[0].dtype == jax.dtypes.float0 and change[1] == 1.0


@pytest.mark.parametrize("symbolic", [False, True])
def test_cotangents_of_keys(symbolic):
    seen = []

    @jax.custom_vjp
    def second(_, state):
        return state

    def forward(_, state):
        return (jax.tree.map(lambda x: x.value, state) if symbolic else state), None

    def backward(_, cotangents):
        seen.append(cotangents[1])
        return cotangents[0], cotangents

    second.defvjp(forward, backward, symbolic_zeros=symbolic)
    state = (8.0, random.split(random.key(1), 3))
    assert jax.grad(lambda x: second(x, state)[0])(3.0) == 1.0
    assert seen[0].dtype == jax.dtypes.float0 and seen[0].shape == (3,)
    assert isinstance(seen[0], SymbolicZero) == symbolic
