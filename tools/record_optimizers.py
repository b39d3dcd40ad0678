#!/usr/bin/env python3
"""Records what Optax's optimizers and schedules give, for src/frontend/training/optimizers_test.cc.

Run it with an interpreter that has JAX and Optax 0.2.8. It writes src/frontend/testdata/optimizers.inc and
schedules.inc: for each optimizer the parameters after each of 20 steps, for each schedule its values.
"""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import optax

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
    head = "// Written by tools/record_optimizers.py. Do not edit.\n"
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


if __name__ == "__main__":
    main()
