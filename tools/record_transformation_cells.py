#!/usr/bin/env python3
"""Runs the cells of examples/transformation_cells.h in JAX, and prints them as tests/seeds/data/transformations.txt has
them. pmaps inside each other take JAX 0.4, the last to have them:

    python3.11 -m venv jax && jax/bin/pip install 'jax[cpu]==0.4.38'
    jax/bin/python tools/record_transformation_cells.py > tests/seeds/data/transformations.txt
"""

import ast
import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"

CELLS = '''
import jax, jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from jax.experimental.shard_map import shard_map
jax.grad(lambda x: jnp.sum(x ** 3))(jnp.arange(4.0))
---
def slope(x):
    return x * x if x > 2 else x
print(jax.grad(slope)(3.0), jax.grad(slope)(1.0), jax.grad(jax.grad(lambda x: x ** 4))(2.0))
---
x = jnp.arange(16.0).reshape(8, 2) / 8
y = x @ jnp.array([1.0, -2.0]) + 0.5
def predict(p, x):
    return x @ p["w"] + p["b"]
def loss(p, x, y):
    return jnp.mean((predict(p, x) - y) ** 2)
p = {"w": jnp.zeros(2), "b": jnp.array(0.0)}
value, gradient = jax.value_and_grad(loss)(p, x, y)
print(value, gradient["w"], gradient["b"])
---
step = jax.jit(lambda p, x, y: jax.tree.map(lambda w, g: w - 0.25 * g, p, jax.grad(loss)(p, x, y)))
for _ in range(3):
    p = step(p, x, y)
print(loss(p, x, y), p["w"], p["b"])
---
jax.vmap(lambda a, b: jnp.dot(a, b))(x, 2 * x)
---
each = jax.vmap(jax.grad(loss), in_axes=(None, 0, 0))(p, x, y)
print(each["w"].shape, each["b"])
---
curved = lambda v: jnp.sum(v ** 3) + v[0] * v[1]
jax.vmap(lambda t: jax.jvp(jax.grad(curved), (jnp.arange(3.0),), (t,))[1])(jnp.eye(3))
---
mesh = Mesh(jax.devices(), ("x",))
rows = NamedSharding(mesh, P("x"))
sx, sy = jax.device_put(x, rows), jax.device_put(y, rows)
print(jax.jit(jax.grad(loss))(p, sx, sy)["w"], jax.jit(jax.grad(loss, argnums=1))(p, sx, sy).sharding.spec)
---
def share(x, y):
    return jax.lax.pmean(loss(p, x, y), "x")
whole = shard_map(share, mesh=mesh, in_specs=(P("x"), P("x")), out_specs=P())
print(whole(sx, sy), jax.grad(lambda v: whole(v, sy))(sx)[:2])
---
normalise = lambda x: x / jax.lax.psum(x, ("rows", "cols"))
nested = jax.pmap(jax.pmap(normalise, axis_name="cols"), axis_name="rows")
weights = jnp.arange(8.0).reshape(4, 2)
jax.grad(lambda v: jnp.sum(weights * nested(v)))(weights + 4.5)
---
def train(w, x, y):
    g = jax.grad(lambda w: jnp.mean((x @ w - y) ** 2))(w)
    return w - 0.25 * jax.lax.pmean(g, ("hosts", "devices"))
both = jax.pmap(jax.pmap(train, axis_name="devices", in_axes=(None, 0, 0)), axis_name="hosts", in_axes=(None, 0, 0))
w = both(jnp.zeros(2), x.reshape(4, 2, 1, 2), y.reshape(4, 2, 1))
print(w.shape, w[0, 0], bool((w == w[0, 0]).all()))
---
places = jax.pmap(jax.vmap(jax.grad(lambda v: jnp.sin(v) * jax.lax.psum(v, ("i", "j"))), axis_name="j"), axis_name="i")
places(jnp.arange(8.0).reshape(4, 2) / 4)
'''

names = {}
for number, source in enumerate(CELLS.split("---\n"), 1):
    source = source.strip()
    print(f"--- In [{number}]:\n{source}\n--- Out:")
    cell = ast.parse(source)
    last = cell.body.pop().value if isinstance(cell.body[-1], ast.Expr) else None
    exec(compile(cell, "cell", "exec"), names)
    if last is not None:
        value = eval(compile(ast.Expression(last), "cell", "eval"), names)
        if value is not None:
            print(repr(value))
