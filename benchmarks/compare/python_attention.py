#!/usr/bin/env python3
"""Attention from Python, of Shoal and of JAX, in turns: prints the median of each in one table.

    python_attention.py --shoal PYTHON --jax PYTHON [--rounds N] [--only TEXT]

PYTHON is an interpreter that has the package. What the two compute is compared. With 4,096 tokens JAX takes minutes,
and 14 GiB for the gradient of a batch of 8."""

import python_sides

PROGRAM = python_sides.MEASURED + r"""
mesh = jax.make_mesh((8,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
random = np.random.default_rng(0)


def operands(batch, tokens, spec):
    arrays = [jnp.asarray(random.standard_normal((batch, tokens, 8, 64), dtype=np.float32)) for _ in range(4)]
    return arrays if spec is None else [jax.device_put(x, NamedSharding(mesh, spec)) for x in arrays]


def rows(batch, tokens, is_causal, spec=None, where=""):
    title = f"{batch} × {tokens:,} tokens" + (", causal" if is_causal else "") + where
    if only not in title and only not in "gradient, " + title:
        return
    *qkv, weights = operands(batch, tokens, spec)
    attend = lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=is_causal)
    measure(title, jax.jit(attend), *qkv)
    measure("gradient, " + title, jax.jit(lambda c, *x: jax.vjp(attend, *x)[1](c)), weights, *qkv)


for tokens in (512, 4096):
    for batch in (1, 8):
        for is_causal in (False, True):
            rows(batch, tokens, is_causal)
    for is_causal in (False, True):
        rows(1, tokens, is_causal, spec=P(None, None, "x"), where=", heads over 8 devices")
    rows(8, tokens, True, spec=P("x"), where=", batch over 8 devices")
"""


if __name__ == "__main__":
    python_sides.print_table(__doc__, PROGRAM)
