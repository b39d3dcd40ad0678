"""Derivatives against finite differences: what passes, and that what is wrong does not."""

import numpy as np
import pytest

import shoal as jax
import shoal.numpy as jnp
from shoal import lax
from shoal.test_util import check_grads, check_jvp, check_vjp


@jax.custom_jvp
def doubled(x):
    return jnp.sin(x)


doubled.defjvp(lambda primals, tangents: (jnp.sin(primals[0]), 2.0 * jnp.cos(primals[0]) * tangents[0]))


@jax.custom_jvp
def second_is_wrong(x):
    return jnp.sin(x)


# The derivative is right, and what is computed from it is not.
second_is_wrong.defjvp(lambda p, t: (jnp.sin(p[0]), (jnp.cos(lax.stop_gradient(p[0]))) * t[0]))


@pytest.mark.parametrize("modes", [("fwd",), ("rev",), ("lin",), ("fwd", "rev", "lin")])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_right_derivatives(modes, order):
    x = np.linspace(0.1, 1.2, 6, dtype=np.float32).reshape(2, 3)
    check_grads(lambda x, y: {"a": jnp.sin(x) * y, "b": (x @ x.T).sum()}, (x, x + 1), order, modes)


def test_numbers_complex_numbers_and_double_precision():
    check_grads(jnp.sin, (0.5,), 2, atol=1e-2, rtol=1e-2)
    check_grads(lambda z: z * z, (np.array([1 + 2j, 0.5j], np.complex64),), 1, atol=1e-2, rtol=1e-2)
    with jax.enable_x64(True):
        check_grads(jnp.exp, (np.linspace(0, 1, 5),), 2)
    check_grads(jnp.exp, (np.linspace(0, 1, 5),), 2)  # Which is computed in float32.
    check_grads(jnp.sin, (jnp.ones(3, jnp.bfloat16),), 1, atol={jnp.bfloat16: 0.3}, rtol=0.3, eps=0.1)


@pytest.mark.parametrize("mode, what", [("fwd", "JVP tangent"), ("rev", "VJP cotangent projection"), ("lin", "LIN tangent")])
def test_wrong_derivatives(mode, what):
    with pytest.raises(AssertionError, match=what):
        check_grads(doubled, (np.float32(0.5),), 1, (mode,))


@pytest.mark.parametrize("mode", ["fwd", "rev", "lin"])
def test_the_second_order_is_checked_only_where_it_is_asked_for(mode):
    check_grads(second_is_wrong, (np.float32(0.5),), 1, (mode,))
    with pytest.raises(AssertionError, match="of"):
        check_grads(second_is_wrong, (np.float32(0.5),), 2, (mode,))


def test_one_function_alone():
    x = np.linspace(0.1, 1, 4, dtype=np.float32)
    check_jvp(jnp.sin, lambda p, t: (jnp.sin(p[0]), jnp.cos(p[0]) * t[0]), (x,))
    check_vjp(jnp.sin, lambda x: (jnp.sin(x), lambda ct: (ct * jnp.cos(x),)), (x,))
    with pytest.raises(AssertionError, match="primal"):
        check_jvp(jnp.sin, lambda p, t: (jnp.cos(p[0]), jnp.cos(p[0]) * t[0]), (x,))
    with pytest.raises(AssertionError, match="the dtypes float16 and float32 differ"):
        check_jvp(jnp.sin, lambda p, t: (jnp.sin(p[0]), t[0].astype(jnp.float16)), (x,))
    with pytest.raises(AssertionError, match="cotangent projection"):
        check_vjp(jnp.sin, lambda x: (jnp.sin(x), lambda ct: (ct,)), (x,))


def test_integers_have_no_derivative():
    with pytest.raises(TypeError, match="derivatives are checked of floating-point arguments, got int32"):
        check_grads(lambda x: x, (np.arange(3, dtype=np.int32),), 1)
