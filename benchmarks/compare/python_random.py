#!/usr/bin/env python3
"""Random numbers from Python, of Shoal and of JAX, in turns: prints the median of each in one table.

    python_random.py --shoal PYTHON --jax PYTHON [--rounds N] [--divide N]

PYTHON is an interpreter that has the package. What the two compute is compared: integers bit for bit. --divide makes the
large samples smaller by a factor, to try it."""

import python_sides

PROGRAM = python_sides.MEASURED + r"""
random = jax.random


def flat(result):
    array = np.ravel(np.asarray(result))
    return array.view(np.uint8) if array.dtype.kind in "iu" else array  # Tolerances are below 1 then.


def large(n):
    return max(n // int(arguments[0]), 8)


key = random.PRNGKey(42)
mesh = jax.make_mesh((8,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
big, huge, rows = large(2**22), large(2**26), large(4096)
side = max(2048 // int(arguments[0]), 8)
logits = jnp.asarray(np.random.default_rng(0).standard_normal((rows, 512), dtype=np.float32))
shapes = jnp.asarray(np.random.default_rng(1).uniform(0.3, 5, large(2**16)).astype(np.float32))
work = {
    f"bits, {huge}": lambda k: random.bits(k, (huge,)),
    f"uniform, {huge}": lambda k: random.uniform(k, (huge,)),
    f"normal, {huge}": lambda k: random.normal(k, (huge,)),
    f"bits, {big}": lambda k: random.bits(k, (big,)),
    f"uniform, {big}": lambda k: random.uniform(k, (big,)),
    f"normal, {big}": lambda k: random.normal(k, (big,)),
    f"permutation, {large(2**18)}": lambda k: random.permutation(k, large(2**18)),
    f"categorical, {rows} x 512": lambda k: random.categorical(k, logits),
    f"gamma, {large(2**16)}": lambda k: random.gamma(k, shapes),
    "bits, 8": lambda k: random.bits(k, (8,)),
    "uniform, 8": lambda k: random.uniform(k, (8,)),
    "normal, 8": lambda k: random.normal(k, (8,)),
}


def measure_both(title, f, *operands):
    measure(f"{title}, jitted", jax.jit(f), *operands)
    measure(f"{title}, jitted, over 8 devices", jax.jit(f, out_shardings=NamedSharding(mesh, P("x"))), *operands)


def dropout(k, x):
    return jnp.where(random.bernoulli(k, 0.9, x.shape), x / 0.9, 0.0)


dropped = jnp.asarray(np.random.default_rng(2).standard_normal((side, side), dtype=np.float32))
by_rows = jax.device_put(dropped, NamedSharding(mesh, P("x")))
slope = jax.grad(lambda x, k: jnp.sum(dropout(k, x) ** 2))
for where, x in (("", dropped), (", over 8 devices", by_rows)):
    measure(f"dropout, {side} x {side}, jitted{where}", jax.jit(dropout), key, x)
    measure(f"gradient through dropout, {side} x {side}, jitted{where}", jax.jit(slope), x, key)


def slopes(a):
    return jax.grad(lambda x: jnp.sum(random.gamma(key, x)))(a)


for title, f in work.items():
    measure_both(title, f, key)
some = large(2**14)
for impl in ("rbg", "unsafe_rbg"):
    other = random.key(42, impl=impl)
    for n in (big, 8):
        measure_both(f"bits of {impl}, {n}", lambda k: random.bits(k, (n,)), other)
        measure_both(f"uniform of {impl}, {n}", lambda k: random.uniform(k, (n,)), other)
    for n in (some, 8):
        measure_both(f"split of {impl}, {n}", lambda k: random.key_data(random.split(k, n)), other)
    measure(f"fold_in of {impl}, outside jit", lambda: random.key_data(random.fold_in(other, 3)))
    measure(f"normal(3) of {impl}, outside jit", lambda: random.normal(other, (3,)))
for n in (large(2**12), 8):
    measure_both(f"grad of gamma, {n}", slopes, shapes[:n])
    samples = random.gamma(key, shapes[:n])
    measure_both(f"random_gamma_grad, {n}", lax.random_gamma_grad, shapes[:n], samples)
typed = random.key(42)
with jax.debug_key_reuse(True):
    measure("clone and normal(3), outside jit, reuse looked for", lambda: random.normal(random.clone(typed), (3,)))
measure("PRNGKey, outside jit", lambda: random.PRNGKey(0))
measure("split, outside jit", lambda: random.split(key))
measure("fold_in, outside jit", lambda: random.fold_in(key, 3))
measure("normal(3), outside jit", lambda: random.normal(key, (3,)))
measure("split and normal(3), outside jit", lambda: random.normal(random.split(key)[1], (3,)))
each = jax.jit(jax.vmap(lambda k: random.normal(k, (3,))))
typed = random.split(random.key(0), large(2**17))
for count in (8, len(typed)):
    measure(f"zeros_like of {count} typed keys, jitted", jax.jit(lambda k: random.key_data(jnp.zeros_like(k))), typed[:count])
    measure(f"zeros_like of {count} typed keys, jitted, over 8 devices", jax.jit(lambda k: random.key_data(jnp.zeros_like(k))), jax.device_put(typed[:count], NamedSharding(mesh, P("x"))))
measure("vmap of normal(3) over 1,024 keys, jitted", each, random.split(key, 1024))
"""


if __name__ == "__main__":
    parser = python_sides.parser_for(__doc__)
    parser.add_argument("--divide", type=int, default=1)
    options = parser.parse_args()
    python_sides.print_medians(options, PROGRAM, str(options.divide))
