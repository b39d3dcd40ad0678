#!/usr/bin/env python3
"""Loops and branches from Python, jitted, of Shoal and of JAX, in turns: prints the median of each in one table.

    python_loops.py --shoal PYTHON --jax PYTHON [--rounds N]

PYTHON is an interpreter that has the package. What the two compute is compared."""

import python_sides

PROGRAM = python_sides.MEASURED + r"""
random = np.random.default_rng(0)


def measure_compiling(title, f, *arguments):
    start = time.perf_counter()
    compiled = jax.jit(lambda *a: f(*a)).lower(*arguments).compile()
    times[title] = time.perf_counter() - start
    results[title] = np.asarray(compiled(*arguments))


def newton(a):
    def step(s):
        y = 0.5 * (s[0] + a / s[0])
        return y, jnp.max(jnp.abs(y - s[0]))

    return lax.while_loop(lambda s: s[1] > 1e-6, step, (a, jnp.float32(1)))[0]


def rnn(h, xs, w):
    return lax.scan(lambda h, x: (jnp.tanh(h @ w + x), None), h, xs)[0]


def rows(x):
    return lax.fori_loop(0, 1000, lambda i, c: c.at[i].set(c[i] * 2 + i), x)


def greater_one(a, b):
    first = a[0] >= b[0]
    return jnp.where(first, a[0], b[0]), jnp.where(first, a[1], b[1])


def size(a, b):
    return jnp.maximum(jnp.abs(a), jnp.abs(b))


def floats(*shape):
    return random.random(shape, dtype=np.float32)


def layer(x, w):
    scores = jnp.exp(((x @ w["q"]) @ (x @ w["k"]).T) * 0.06)
    x = x + ((scores / scores.sum(-1, keepdims=True)) @ (x @ w["v"])) @ w["o"]
    return x + jnp.tanh(x @ w["up"]) @ w["down"]


def layers(count):
    shapes = {"q": (256, 256), "k": (256, 256), "v": (256, 256), "o": (256, 256), "up": (256, 1024), "down": (1024, 256)}
    return {name: jnp.asarray((floats(count, *shape) - 0.5) * 0.05) for name, shape in shapes.items()}


def scanned(w, x):
    return lax.scan(lambda x, w: (layer(x, w), None), x, w)[0]


def unrolled(w, x):
    for i in range(w["q"].shape[0]):
        x = layer(x, {name: of_all[i] for name, of_all in w.items()})
    return x


def filled(x):
    def step(i, carry):
        s, x = carry
        s = s * 1664525 + 1013904223
        return s, x.at[i].set(s)

    return lax.fori_loop(0, x.shape[0], step, (jnp.uint32(1), x))[1]


def sieve(x):
    def strike(i, x):
        multiples = lambda x: lax.fori_loop(i, (x.shape[0] + i - 1) // i, lambda j, x: x.at[i * j].set(False), x)
        return lax.cond(x[i], multiples, lambda x: x, x)

    return lax.fori_loop(2, 32, strike, x)


def longest(most):
    def length(i, most):
        step = lambda s: (lax.cond(s[0] % 2 == 0, lambda n: n // 2, lambda n: 3 * n + 1, s[0]), s[1] + 1)
        return jnp.maximum(most, lax.while_loop(lambda s: s[0] != 1, step, (i + 1, 0))[1])

    return lax.fori_loop(0, 1000, length, most)


measure("fori_loop of 100,000 scalar steps", jax.jit(lambda x: lax.fori_loop(0, 100000, lambda i, c: c * 0.999 + 1, x)), 1.0)
xs, w = floats(256, 64, 256) - 0.5, (floats(256, 256) - 0.5) * 0.1
measure("RNN, 256 steps of 64 x 256 by 256 x 256", jax.jit(rnn), jnp.zeros((64, 256)), jnp.asarray(xs), jnp.asarray(w))
mesh = jax.make_mesh((8,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
split = jax.device_put(xs, NamedSharding(mesh, P(None, "x")))
measure("the same over 8 devices", jax.jit(rnn), jnp.zeros((64, 256)), split, jnp.asarray(w))
a = jnp.asarray(floats(1 << 18) + 1)
measure("Newton by while_loop on 2^18", jax.jit(newton), a)
measure("map of a sort over 1,024 rows of 256", jax.jit(lambda m: lax.map(jnp.sort, m)), jnp.asarray(floats(1024, 256)))
measure("associative_scan of 2^18", jax.jit(lambda v: lax.associative_scan(jnp.maximum, v)), a)
measure("1,000 rows of 4096 x 1024 replaced", jax.jit(rows), jnp.ones((4096, 1024)))
small = jnp.ones(8)
large, tiny = jnp.ones((4096, 1024)), jnp.ones((8, 8))
for what, change in [("row", lambda c, i: c.at[i].add(1.0)), ("element", lambda c, i: c.at[i, 3].add(1.0)),
                     ("greater row", lambda c, i: c.at[i].max(1.5)), ("3 rows", lambda c, i: c.at[2:5].add(1.0 * i))]:
    loop = jax.jit(lambda x, change=change: lax.fori_loop(0, 1000, lambda i, c: change(c, i), x))
    measure(f"1,000 times .at[] of 4096 x 1024: {what}", loop, large)
for what, change in [("set of rows", lambda c: c.at[2:5].set(1.0)), ("add of an element", lambda c: c.at[2, 3].add(1.0)),
                     ("add of every other element", lambda c: c.at[1:, ::2].add(2.0))]:
    measure(f".at[] of 4096 x 1024: {what}", jax.jit(change), large)
    measure(f".at[] of 8 x 8: {what}", jax.jit(change), tiny)
values, places = jnp.asarray(floats(1024, 1024)), jnp.arange(1 << 20, dtype=jnp.int32).reshape(1024, 1024)
reduced = lambda dim: jax.jit(lambda v, p: lax.reduce((v, p), (-jnp.inf, -1), greater_one, (dim,))[1])
measure("reduce of 1024 x 1024 pairs to the greatest of columns", reduced(0), values, places)
measure("the same of rows", reduced(1), values, places)
measure("reduce of 8 by a function", jax.jit(lambda x: lax.reduce(x, 0.0, size, (0,))), small)
windows = lambda *moves: jax.jit(lambda x: lax.reduce_window(x, 0.0, size, *moves))
measure("reduce_window of 1024 x 1024 by 3 x 3 and a function", windows((3, 3), (1, 1), "SAME"), values)
measure("the same by 2 x 2 in steps of 2", windows((2, 2), (2, 2), "VALID"), values)
measure("reduce_window of 8 by a function", windows((3,), (1,), "VALID"), small)
measure("10,000 trips of cumsum, sort and a product of 8",
        jax.jit(lambda x: lax.fori_loop(0, 10000, lambda i, c: jnp.sort(jnp.cumsum(c)) * 0.2, x)), small)
ring = [(i, (i + 1) % 8) for i in range(8)]
body = lambda i, c: c + 0.5 * lax.ppermute(c, "x", ring)
manual = jax.shard_map(lambda x: lax.fori_loop(0, 20, body, x), mesh=mesh, in_specs=P("x"), out_specs=P("x"))
measure("20 trips of a ppermute over 8 devices", jax.jit(manual), jnp.ones(64))
x = jnp.asarray(floats(64, 256))
measure("12 transformer layers by scan", jax.jit(scanned), layers(12), x)
measure("the same unrolled", jax.jit(unrolled), layers(12), x)
for count in (12, 96):
    measure_compiling(f"compiling {count} layers by scan", scanned, layers(count), x)
for count in (12, 48):
    measure_compiling(f"compiling {count} layers unrolled", unrolled, layers(count), x)
number = jnp.int32(100000)
measure("fori_loop of as many as an array says", jax.jit(lambda n, x: lax.fori_loop(0, n, lambda i, c: c * 0.999 + i, x)), number, 1.0)
measure("scan of 100,000 numbers", jax.jit(lambda c, xs: lax.scan(lambda c, x: (c * 0.99 + x, c), c, xs)[1]), 1.0, jnp.ones(100000))
s = jnp.float32(3)
measure("100,000 trips with a cond of scalars",
        jax.jit(lambda s: lax.fori_loop(0, 100000, lambda i, s: lax.cond(s > 0, lambda s: s - 1, lambda s: s + 2, s), s)), s)
ways = [lambda s: s + 1, lambda s: s * 2, lambda s: s - 3, lambda s: s // 2]
measure("100,000 trips with a switch of 4",
        jax.jit(lambda s: lax.fori_loop(0, 100000, lambda i, s: lax.switch(i % 4, ways, s), s)), jnp.int32(1))
table = jnp.arange(1000, dtype=jnp.float32)
measure("1,000 trips that read x[i]", jax.jit(lambda s, x: lax.fori_loop(0, 1000, lambda i, s: s + x[i], s)), s, table)
measure("100,000 trips that read x[i % 1000]",
        jax.jit(lambda s, x: lax.fori_loop(0, 100000, lambda i, s: s + x[i % 1000], s)), s, table)
measure("scan of 2^16 numbers, a running sum",
        jax.jit(lambda x: lax.scan(lambda c, x: (c + x, c + x), 0.0, x)[1]), jnp.ones(1 << 16))
measure("1,000 trips that fill a table, an LCG", jax.jit(filled), jnp.zeros(1000, jnp.uint32))
measure("sieve of Eratosthenes of 1,000, loop in branch in loop", jax.jit(sieve), jnp.ones(1000, bool))
measure("1,000 Collatz sequences, loop in loop", jax.jit(longest), jnp.int32(0))
measure("1,000 trips over 512 elements", jax.jit(lambda x: lax.fori_loop(0, 1000, lambda i, c: c * 0.99 + i, x)), jnp.ones(512))
exchange = lambda i, c: lax.pcast(lax.psum(c, "x") * 0.125, "x", to="varying")
manual = jax.shard_map(lambda x: lax.fori_loop(0, 1000, exchange, x), mesh=mesh, in_specs=P("x"), out_specs=P("x"))
measure("1,000 trips of a psum of 4 KiB over 8 devices", jax.jit(manual), jnp.ones(8192))
number_of = jax.ShapeDtypeStruct((), jnp.float32)
call = lambda shape: jax.jit(lambda x: jax.pure_callback(np.asarray, jax.ShapeDtypeStruct(shape, jnp.float32), x))
many, eight = jnp.ones(1 << 20), NamedSharding(mesh, P("x"))
measure("pure_callback of 8", call((8,)), small)
measure("pure_callback of 8 over 8 devices", call((8,)), jax.device_put(small, eight))
measure("pure_callback of 2^20", call((1 << 20,)), many)
measure("pure_callback of 2^20 over 8 devices", call((1 << 20,)), jax.device_put(many, eight))
measure("100 trips with a pure_callback", jax.jit(lambda x: lax.fori_loop(0, 100, lambda i, c: jax.pure_callback(np.asarray, number_of, c) + 1, x)), jnp.float32(0))
measure("cond of 8", jax.jit(lambda p, x: lax.cond(p, lambda a: a + 1, lambda a: a * 2, x)), True, small)
measure("scan of 8 outside jit, again", lambda: lax.scan(lambda c, x: (c + x, c), jnp.float32(0), small)[1])
"""


if __name__ == "__main__":
    python_sides.print_table(__doc__, PROGRAM)
