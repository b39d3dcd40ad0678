"""Optimizers of the parameters of models, by the names and the formulas of Optax, and schedules of their rates.

    optimizer = optimizers.chain(optimizers.clip_by_global_norm(1), optimizers.adamw(1e-3))
    state = optimizer.init(params)
    updates, state = optimizer.update(gradients, state, params)
    params = optimizers.apply_updates(params, updates)

A rate, or a decay of weights, is a number, or a function of the count of updates before.
"""

from shoal._core.optimizers import *
