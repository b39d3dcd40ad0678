#!/usr/bin/env python3
"""Records what Optax and JAX give, for the tests in src/frontend/models.

Run it with an interpreter that has JAX and Optax 0.2.8. It writes src/frontend/testdata/{optimizers,schedules,layers}.inc:
for each optimizer the parameters after each of 20 steps, for each schedule its values, for each layer its result.
"""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

STEPS = 20
COUNTS = [0, 1, 2, 5, 9, 10, 11, 19, 20, 35, 1000]

# Optax's expression, and the same in C++.
OPTIMIZERS = [
    ("sgd(0.1)", "sgd(0.1)"),
    ("sgd(0.1, momentum=0.9)", "sgd(0.1, {.momentum = 0.9})"),
    ("sgd(0.1, momentum=0.9, nesterov=True)", "sgd(0.1, {.momentum = 0.9, .nesterov = true})"),
    ("adam(0.1)", "adam(0.1)"),
    ("adam(0.1, b1=0.8, b2=0.9, eps=1e-3, eps_root=1e-3)",
     "adam(0.1, {.b1 = 0.8, .b2 = 0.9, .eps = 1e-3, .eps_root = 1e-3})"),
    ("adam(0.1, nesterov=True)", "adam(0.1, {.nesterov = true})"),
    ("adam(0.1, mu_dtype=jnp.bfloat16)", "adam(0.1, {.mu_dtype = bfloat16})"),
    ("adam(cosine_decay_schedule(0.1, 15))", "adam(cosine_decay_schedule(0.1, 15))"),
    ("adamw(0.1)", "adamw(0.1)"),
    ("adamw(0.1, weight_decay=0.1, mask=lambda p: jax.tree.map(lambda x: x.ndim > 1, p))",
     "adamw(0.1, {.weight_decay = 0.1, .mask = is_matrix})"),
    ("adamw(0.1, weight_decay=linear_schedule(0.1, 0.0, 10))",
     "adamw(0.1, {.weight_decay = linear_schedule(0.1, 0, 10)})"),
    ("lion(0.01)", "lion(0.01)"),
    ("lamb(0.1, weight_decay=0.01)", "lamb(0.1, {.weight_decay = 0.01})"),
    ("adagrad(0.1)", "adagrad(0.1)"),
    ("rmsprop(0.1)", "rmsprop(0.1)"),
    ("rmsprop(0.1, decay=0.8, eps_in_sqrt=False, momentum=0.9, bias_correction=True)",
     "rmsprop(0.1, {.decay = 0.8, .eps_in_sqrt = false, .momentum = 0.9, .bias_correction = true})"),
    ("adafactor(0.1)", "adafactor(0.1)"),
    ("adafactor(0.1, min_dim_size_to_factor=2, momentum=0.9, weight_decay_rate=1e-3)",
     "adafactor(0.1, {.min_dim_size_to_factor = 2, .momentum = 0.9, .weight_decay_rate = 1e-3})"),
    ("adafactor(0.1, multiply_by_parameter_scale=False, clipping_threshold=None)",
     "adafactor(0.1, {.multiply_by_parameter_scale = false, .clipping_threshold = {}})"),
    ("contrib.muon(0.1)", "muon(0.1)"),
    ("contrib.muon(0.1, weight_decay=0.1, adaptive=True, nesterov=False, consistent_rms=0.2)",
     "muon(0.1, {.muon = {.nesterov = false, .adaptive = true}, .weight_decay = 0.1, .consistent_rms = 0.2})"),
    ("chain(clip_by_global_norm(0.5), adam(0.1))", "chain({clip_by_global_norm(0.5), adam(0.1)})"),
    ("chain(clip(0.3), sgd(0.1))", "chain({clip(0.3), sgd(0.1)})"),
    ("chain(clip_by_block_rms(0.2), sgd(0.1))", "chain({clip_by_block_rms(0.2), sgd(0.1)})"),
    ("chain(adaptive_grad_clip(0.01), sgd(0.1))", "chain({adaptive_grad_clip(0.01), sgd(0.1)})"),
    ("chain(ema(0.9), sgd(0.1))", "chain({ema(0.9), sgd(0.1)})"),
    ("chain(ema(0.9, debias=False), sgd(0.1))", "chain({ema(0.9, {.debias = false}), sgd(0.1)})"),
    ("chain(scale_by_trust_ratio(0.1, 0.5, 0.01), sgd(0.1))",
     "chain({scale_by_trust_ratio({.min_norm = 0.1, .trust_coefficient = 0.5, .eps = 0.01}), sgd(0.1)})"),
    ("MultiSteps(adam(0.1), 4)", "multi_steps(adam(0.1), 4)"),
    ("MultiSteps(adam(0.1), 5, use_grad_mean=False)", "multi_steps(adam(0.1), 5, {.use_grad_mean = false})"),
    ("chain(masked(trace(0.9), lambda p: jax.tree.map(lambda x: x.ndim > 1, p)), sgd(0.1))",
     "chain({masked(trace(0.9), is_matrix), sgd(0.1)})"),
    ("partition({'m': sgd(0.1), 'v': adam(0.05)}, lambda p: jax.tree.map(lambda x: 'm' if x.ndim > 1 else 'v', p))",
     'partition({{"m", sgd(0.1)}, {"v", adam(0.05)}}, label_of)'),
]

SCHEDULES = [
    ("constant_schedule(0.3)", "constant_schedule(0.3)"),
    ("linear_schedule(0.1, 1.0, 10)", "linear_schedule(0.1, 1.0, 10)"),
    ("polynomial_schedule(1.0, 0.1, 2.5, 15, 4)", "polynomial_schedule(1.0, 0.1, 2.5, 15, 4)"),
    ("piecewise_constant_schedule(0.5, {5: 0.1, 11: 3.0})",
     "piecewise_constant_schedule(0.5, {{5, 0.1}, {11, 3.0}})"),
    ("exponential_decay(0.5, 10, 0.8)", "exponential_decay(0.5, 10, 0.8)"),
    ("exponential_decay(0.5, 10, 0.8, 3, True, 0.4)",
     "exponential_decay(0.5, 10, 0.8, {.transition_begin = 3, .staircase = true, .end_value = 0.4})"),
    ("cosine_decay_schedule(0.5, 20, 0.1, 1.5)", "cosine_decay_schedule(0.5, 20, 0.1, 1.5)"),
    ("warmup_cosine_decay_schedule(0.0, 0.5, 5, 20, 0.05)", "warmup_cosine_decay_schedule(0.0, 0.5, 5, 20, 0.05)"),
    ("warmup_exponential_decay_schedule(0.0, 0.5, 5, 10, 0.7)",
     "warmup_exponential_decay_schedule(0.0, 0.5, 5, 10, 0.7)"),
    ("join_schedules([constant_schedule(0.1), linear_schedule(0.2, 0.4, 5)], [9])",
     "join_schedules({constant_schedule(0.1), linear_schedule(0.2, 0.4, 5)}, {9})"),
]


# What layers compute, as JAX's functions and Optax's losses do, and the same in C++.
LAYERS = """
M((2, 3)) @ M((3, 4), 1) + M((4,), 2) | dense(M({2, 3}), M({3, 4}, 1), M({4}, 2))
jnp.tensordot(M((2, 3)), M((3, 2, 4), 1), 1) | dense(M({2, 3}), M({3, 2, 4}, 1))
M((5, 3))[jnp.array([[0, 4], [2, 2]])] | embed(M({5, 3}), array({{0, 4}, {2, 2}}))
jax.nn.standardize(M((2, 5)), epsilon=1e-6) * M((5,), 1) + M((5,), 2) | layer_norm(M({2, 5}), {.scale = M({5}, 1), .bias = M({5}, 2)})
jax.nn.standardize(M((2, 3, 4)), axis=(1, 2), epsilon=0.1) | layer_norm(M({2, 3, 4}), {.axis = {1, 2}, .epsilon = 0.1})
M((2, 5)) / jnp.sqrt(jnp.mean(M((2, 5)) ** 2, -1, keepdims=True) + 1e-6) * M((5,), 1) | rms_norm(M({2, 5}), {.scale = M({5}, 1)})
jax.nn.standardize(M((2, 3, 2, 3)), axis=(1, 3), epsilon=1e-6).reshape(2, 3, 6) * M((6,), 1) | group_norm(M({2, 3, 6}), 2, {.scale = M({6}, 1)})
lax.conv_general_dilated(M((2, 5, 6, 3)), M((3, 3, 3, 4), 1), (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")) + M((4,), 2) | nn::conv(M({2, 5, 6, 3}), M({3, 3, 3, 4}, 1), M({4}, 2))
lax.conv_general_dilated(M((2, 7, 4)), M((3, 2, 4), 1), (2,), [(1, 0)], rhs_dilation=(2,), feature_group_count=2, dimension_numbers=("NWC", "WIO", "NWC")) | nn::conv(M({2, 7, 4}), M({3, 2, 4}, 1), {}, {.strides = {2}, .padding = {{1, 0}}, .dilation = {2}, .feature_group_count = 2})
lax.reduce_window(M((1, 5, 6, 2)), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") | max_pool(M({1, 5, 6, 2}), {2, 2}, {.strides = {2, 2}})
lax.reduce_window(M((2, 5, 2)), -jnp.inf, lax.max, (1, 3, 1), (1, 1, 1), [(0, 0), (1, 1), (0, 0)]) | max_pool(M({2, 5, 2}), {3}, {.padding = {{1, 1}}})
lax.reduce_window(M((1, 4, 4, 2)), 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4 | avg_pool(M({1, 4, 4, 2}), {2, 2}, {.strides = {2, 2}})
lax.reduce_window(M((2, 5, 2)), 0.0, lax.add, (1, 3, 1), (1, 1, 1), "SAME") / jnp.array([2, 3, 3, 3, 2.0])[:, None] | avg_pool(M({2, 5, 2}), {3}, {.padding = "SAME"})
rotary(M((2, 3, 2, 4)), jnp.arange(3)) | rotary_embedding(M({2, 3, 2, 4}), arange(3))
rotary(M((2, 3, 2, 4)), jnp.array([[0, 1, 2], [5, 6, 7]])) | rotary_embedding(M({2, 3, 2, 4}), array({{0, 1, 2}, {5, 6, 7}}))
losses.softmax_cross_entropy_with_integer_labels(M((2, 3, 5)), jnp.array([[0, 4, 2], [1, 1, 3]])) | softmax_cross_entropy_with_integer_labels(M({2, 3, 5}), array({{0, 4, 2}, {1, 1, 3}}))
losses.squared_error(M((2, 3)), M((2, 3), 1)) | squared_error(M({2, 3}), M({2, 3}, 1))
losses.l2_loss(M((2, 3))) | l2_loss(M({2, 3}))
losses.huber_loss(M((2, 6)), M((2, 6), 1), delta=1.5) | huber_loss(M({2, 6}), M({2, 6}, 1), 1.5)
losses.log_cosh(M((2, 6)), M((2, 6), 1)) | log_cosh(M({2, 6}), M({2, 6}, 1))
losses.hinge_loss(M((6,)), jnp.array([1.0, -1, 1, 1, -1, -1])) | hinge_loss(M({6}), array({1.0, -1.0, 1.0, 1.0, -1.0, -1.0}))
losses.kl_divergence(jax.nn.log_softmax(M((2, 4))), jnp.array([[0.5, 0, 0.25, 0.25], [1, 0, 0, 0]])) | kl_divergence(log_softmax(M({2, 4})), array({{0.5, 0.0, 0.25, 0.25}, {1.0, 0.0, 0.0, 0.0}}))
losses.smooth_labels(jnp.eye(4), 0.1) | smooth_labels(eye(4, {.dtype = float64}), 0.1)
"""


def M(shape, seed=0):
    """As src/frontend/recorded_numbers.h."""
    return jnp.asarray(((np.arange(np.prod(shape, dtype=int)) * 37 + seed * 11) % 23 - 11) / 4).reshape(shape)


def rotary(x, positions):
    """By complex numbers: each pair is one, and is turned by an angle."""
    half = x.shape[-1] // 2
    angle = positions[..., None, None] * 10000.0 ** (-jnp.arange(half) / half)
    turned = lax.complex(x[..., :half], x[..., half:]) * jnp.exp(1j * angle)
    return jnp.concatenate([turned.real, turned.imag], -1)


def first(shape):
    n = int(np.prod(shape))
    return jnp.asarray([((i * 5 + 3) % 11 - 5) / 8 for i in range(n)], jnp.float32).reshape(shape)


def gradient(p, t):
    """Depends on the parameters, so that a fault does not go away, and is made of few roundings."""
    n = p.size
    wave = jnp.asarray([((i * 7 + t * 5) % 13 - 6) / 8 for i in range(n)], jnp.float32).reshape(p.shape)
    return wave + p * 0.25


def run(optimizer):
    params = {"b": first((3,)), "w": first((4, 3))}
    state = optimizer.init(params)
    steps = []
    for t in range(STEPS):
        gradients = jax.tree.map(lambda p: gradient(p, t), params)
        updates, state = optimizer.update(gradients, state, params)
        params = optax.apply_updates(params, updates)
        steps.append([str(x) for x in np.concatenate([params["b"].ravel(), params["w"].ravel()])])
    return steps


def main():
    names = vars(optax) | {"jax": jax, "jnp": jnp}
    folder = pathlib.Path(__file__).parent.parent / "src/frontend/testdata"
    head = "// Written by tools/record_training.py. Do not edit.\n"
    with open(folder / "optimizers.inc", "w") as out:
        out.write(head)
        for python, cpp in OPTIMIZERS:
            rows = ", ".join("{" + ", ".join(step) + "}" for step in run(eval(python, names)))
            out.write(f'{{"{python}", [] {{ return {cpp}; }}, {{{rows}}}}},\n')
    with open(folder / "schedules.inc", "w") as out:
        out.write(head)
        for python, cpp in SCHEDULES:
            schedule = eval(python, names)
            values = ", ".join(str(np.float32(schedule(jnp.asarray(c, jnp.int32)))) for c in COUNTS)
            out.write(f'{{"{python}", [] {{ return {cpp}; }}, {{{values}}}}},\n')
    with jax.enable_x64(True), open(folder / "layers.inc", "w") as out:
        out.write(head)
        names = {"jax": jax, "jnp": jnp, "lax": lax, "losses": optax.losses, "M": M, "rotary": rotary}
        for line in LAYERS.strip().splitlines():
            python, cpp = line.split(" | ")
            result = eval(python, names)
            numbers = " ".join(str(x) for x in np.asarray(result).ravel())
            quoted = python.replace('"', "'")
            out.write(f'{{"{quoted}", [] {{ return Array({cpp}); }}, "{result.dtype} {result.shape}: {numbers}"}},\n')


if __name__ == "__main__":
    main()
