"""Numbers that a derivative is taken by, or that vmap goes over: what gives a number of Python, and what takes arrays."""

import math

import numpy as np
import pytest
import shoal as jax
import shoal.numpy as jnp
from shoal import nn, optimizers, random
from shoal.nn import layers


def test_values_are_there():
    """What asks for a decision or for an integer gets the value, as in JAX."""
    def f(x):
        assert x > 1 and bool(x) and int(x) == 1 and x.item() == 1.5 and round(x) == 2
        assert float(x > 1) == 1.0 and float(x.astype(int)) == 1.0
        assert float(jax.lax.stop_gradient(x)) == 1.5
        assert "1.5" in f"{x} {x!r} {x:.3f}"
        return x * x.item()

    assert jax.grad(f)(1.5) == 1.5
    assert jax.jvp(f, (1.5,), (1.0,))[1] == 1.5
    assert jax.grad(lambda x: jax.grad(f)(x))(1.5) == 0.0
    assert jax.vmap(lambda y: f(jnp.float32(1.5)) * y)(jnp.ones(2)).tolist() == [2.25, 2.25]


TRANSFORMATIONS = {
    "grad": lambda f: jax.grad(f)(1.5),
    "jvp": lambda f: jax.jvp(f, (1.5,), (1.0,)),
    "linearize": lambda f: jax.linearize(f, 1.5),
    "vmap": lambda f: jax.vmap(f)(jnp.ones(2)),
    "jit": lambda f: jax.jit(f)(1.5),
}


@pytest.mark.parametrize("number", [float, complex, math.sin, math.floor, lambda x: math.pow(x, 2.0)],
                         ids="float complex sin floor pow".split())
@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
def test_derivatives_are_not_lost(transformation, number):
    with pytest.raises(jax.errors.ConcretizationTypeError) as error:
        TRANSFORMATIONS[transformation](lambda x: x * number(x).real)
    text = str(error.value)
    assert "test_differentiated_numbers.py:" in text and "compute with it" in text
    if transformation in ("grad", "jvp", "linearize"):
        assert f"is differentiated in '{transformation}', and its derivative would be lost here" in text
        assert "stop_gradient" in text


def test_numbers_alone_are_refused():
    """Where JAX takes a number of Python alone the argument is named."""
    q = jnp.ones((1, 2, 1, 4))
    with pytest.raises(jax.errors.ConcretizationTypeError, match="rotary_embedding: base: .* its derivative would be lost"):
        jax.grad(lambda x: layers.rotary_embedding(q, jnp.arange(2), x).sum())(100.0)
    with pytest.raises(TypeError):
        jax.grad(lambda x: jax.scipy.signal.convolve2d(q[0, :, 0], q[0, :, 0], fillvalue=x).sum())(0.5)


V = jnp.array([0.3, -1.25, 2.0])
M = jnp.array([[2.0, 0.25, 0.125], [0.25, 1.0, 0.5], [0.125, 0.5, 3.0]])
KEY = random.key(0)


def moved(optimizer):
    state = optimizer.init({"v": V, "m": M})
    for scale in (2.0, 1.5):
        updates, state = optimizer.update({"v": V * scale, "m": M / scale}, state, {"v": V, "m": M})
    return (updates["v"] * V).sum() + updates["m"].sum()


def rates(schedule):
    return sum(schedule(count) for count in (0, 2, 7))


NUMBERS = {
    "sgd": (0.5, lambda x: moved(optimizers.sgd(x, momentum=x))),
    "adam": (0.25, lambda x: moved(optimizers.adam(x, b1=x, b2=x * 2, eps=x, eps_root=x))),
    "adamw": (0.25, lambda x: moved(optimizers.adamw(0.1, b2=x * 2, eps=x, weight_decay=x))),
    "lion": (0.25, lambda x: moved(optimizers.lion(x, b1=x, b2=x, weight_decay=x))),
    "lamb": (0.25, lambda x: moved(optimizers.lamb(x, eps=x, weight_decay=x))),
    "rmsprop": (0.25, lambda x: moved(optimizers.rmsprop(x, decay=x, eps=x, initial_scale=x, momentum=x))),
    "adagrad": (0.25, lambda x: moved(optimizers.adagrad(x, x, x))),
    "adafactor": (0.5, lambda x: moved(optimizers.adafactor(x, decay_rate=x, clipping_threshold=x, momentum=x))),
    "muon": (0.5, lambda x: moved(optimizers.muon(x, beta=x, eps=x, consistent_rms=x, adam_b1=x))),
    "trace": (0.5, lambda x: moved(optimizers.chain(optimizers.trace(x), optimizers.ema(x), optimizers.scale(x)))),
    "clip": (0.5, lambda x: moved(optimizers.chain(optimizers.clip(x), optimizers.clip_by_global_norm(x)))),
    "agc": (0.5, lambda x: moved(optimizers.adaptive_grad_clip(x, x))),
    "average": (0.5, lambda x: optimizers.incremental_update(V, 2 * V, x).sum()),
    "constant": (0.5, lambda x: rates(optimizers.constant_schedule(x))),
    "polynomial": (1.5, lambda x: rates(optimizers.polynomial_schedule(x, 2 * x, x, 10))),
    "linear": (0.5, lambda x: rates(optimizers.linear_schedule(x, x * x, 10))),
    "pieces": (0.5, lambda x: rates(optimizers.piecewise_constant_schedule(x, {1: x, 5: x}))),
    "exponential": (0.5, lambda x: rates(optimizers.exponential_decay(x, 10, x, end_value=x / 8))),
    "cosine": (0.5, lambda x: rates(optimizers.cosine_decay_schedule(x, 10, x, x + 1))),
    "warmup": (0.5, lambda x: rates(optimizers.warmup_cosine_decay_schedule(x, 2 * x, 4, 10, x))),
    "huber_loss": (0.75, lambda x: layers.huber_loss(V, 0.1, x).sum()),
    "smooth_labels": (0.25, lambda x: (layers.smooth_labels(M, x) * M).sum()),
    "layer_norm": (0.25, lambda x: (layers.layer_norm(M, epsilon=x) * M).sum()),
    "rms_norm": (0.25, lambda x: (layers.rms_norm(M, epsilon=x) * M).sum()),
    "group_norm": (0.25, lambda x: (layers.group_norm(M, 1, epsilon=x) * M).sum()),
    "dropout": (0.25, lambda x: layers.dropout(KEY, M, x).sum()),
    "attention": (0.5, lambda x: jnp.sin(nn.dot_product_attention(*(M.reshape(1, 3, 1, 3),) * 3, scale=x)).sum()),
    "variance_scaling": (0.5, lambda x: nn.initializers.variance_scaling(x, "fan_in", "normal")(KEY, (3, 3)).sum()),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_arrays_are_taken(name):
    at, f = NUMBERS[name]
    step = 1e-4
    with jax.enable_x64(True):
        x = jnp.float64(at)
        value = np.asarray(f(x))
        np.testing.assert_allclose(value, f(at), rtol=1e-5, atol=1e-6)
        slope = jax.grad(f)(x)
        if name != "dropout":  # The elements that it takes depend on the rate.
            np.testing.assert_allclose(slope, (f(x + step) - f(x - step)) / (2 * step), rtol=2e-2, atol=2e-2)
        np.testing.assert_allclose(jax.jit(jax.grad(f))(x), slope, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(jax.jvp(f, (x,), (1.0,))[1], slope, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(jax.vmap(f)(jnp.stack([x, x * 1.125])), [value, f(x * 1.125)], rtol=1e-5, atol=1e-6)


def test_dropout_at_its_ends():
    for rate, kept in ((0.0, 1.0), (1.0, 0.0)):
        np.testing.assert_array_equal(jax.jit(lambda x: layers.dropout(KEY, M, x))(rate), M * kept)
        np.testing.assert_array_equal(jax.jit(jax.grad(lambda m: layers.dropout(KEY, m, jnp.float32(rate)).sum()))(M),
                                      np.full((3, 3), kept))
    with pytest.raises(ValueError, match="the rate is 1.5, and should be from 0 to 1"):
        layers.dropout(KEY, M, 1.5)
