#!/usr/bin/env python3
"""Derivatives from Python, of Shoal and of JAX, in turns: prints the median of each in one table.

    python_derivatives.py --shoal PYTHON --jax PYTHON [--rounds N]

PYTHON is an interpreter that has the package. What the two compute is compared."""

import python_sides

PROGRAM = python_sides.MEASURED + r"""
import functools, importlib
from functools import partial
if name == "shoal":
    from shoal.experimental.ode import odeint
    from shoal.scipy.optimize import minimize
    from shoal.scipy.sparse import linalg as solvers
else:
    from jax.experimental.ode import odeint
    from jax.scipy.optimize import minimize
    from jax.scipy.sparse import linalg as solvers
random = np.random.default_rng(0)


def numbers(*shape):
    return jnp.asarray(random.standard_normal(shape, dtype=np.float32) * 0.05)


def mlp(p, x, y):
    h = jax.nn.relu(x @ p["w1"] + p["b1"])
    return jnp.mean((h @ p["w2"] + p["b2"] - y) ** 2)


def attention(q, k, v):
    return jnp.sum(jax.nn.softmax(q @ jnp.swapaxes(k, -1, -2) / 8.0) @ v)


def norm(x, scale):
    mean = jnp.mean(x, -1, keepdims=True)
    return jnp.sum(jnp.sin((x - mean) * jax.lax.rsqrt(jnp.var(x, -1, keepdims=True) + 1e-5) * scale))


def entropy(logits, labels):
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1))


def fifty(x):
    for _ in range(12):
        x = jnp.sin(x) * jnp.cos(x) + x * 0.5
    return jnp.sum(x)


params = {"w1": numbers(512, 1024), "b1": numbers(1024), "w2": numbers(1024, 512), "b2": numbers(512)}
x, y = numbers(256, 512), numbers(256, 512)
measure("gradient of an MLP 512 x 1024 x 512, batch 256, jitted", jax.jit(jax.grad(mlp)), params, x, y)
measure("the same outside jit", jax.grad(mlp), params, x, y)
measure("the same forward", jax.jit(mlp), params, x, y)
mesh = jax.make_mesh((8,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
split = lambda a, *spec: jax.device_put(a, NamedSharding(mesh, P(*spec)))
whole = {name: split(p) for name, p in params.items()}
measure("the gradient over 8 devices, batch split", jax.jit(jax.grad(mlp)), whole, split(x, "x"), split(y, "x"))
q, k, v = (numbers(8, 256, 64) for _ in range(3))
measure("gradient of attention, 8 heads of 256 x 64", jax.jit(jax.grad(attention, argnums=(0, 1, 2))), q, k, v)
measure("attention forward", jax.jit(attention), q, k, v)
attend = lambda q, k, v: jnp.sum(jax.nn.dot_product_attention(q, k, v, is_causal=True))
for tokens in (256, 4096):
    q, k, v = (numbers(1, tokens, 8, 64) for _ in range(3))
    measure(f"gradient of dot_product_attention, causal, 8 heads of {tokens} x 64",
            jax.jit(jax.grad(attend, argnums=(0, 1, 2))), q, k, v)
    measure(f"dot_product_attention of {tokens} forward", jax.jit(attend), q, k, v)
rows, scale = numbers(2048, 1024), numbers(1024)
measure("gradient of a layer norm, 2048 x 1024", jax.jit(jax.grad(norm, argnums=(0, 1))), rows, scale)
measure("the same forward ", jax.jit(norm), rows, scale)
logits, labels = numbers(2048, 1024), jnp.asarray(random.integers(0, 1024, 2048))
measure("gradient of softmax with cross entropy, 2048 x 1024", jax.jit(jax.grad(entropy)), logits, labels)
measure("softmax with cross entropy forward", jax.jit(entropy), logits, labels)
left, right = numbers(1024, 1024), numbers(1024, 1024)
product = lambda a, b: jnp.sum(jnp.sin(a @ b))
measure("gradient of a product, 1024 x 1024 x 1024", jax.jit(jax.grad(product, argnums=(0, 1))), left, right)
measure("the product forward", jax.jit(product), left, right)
batches = numbers(32, 128, 128)
measure("gradient of 32 products of 128 x 128", jax.jit(jax.grad(product, argnums=(0, 1))), batches, batches + 0.01)
measure("the 32 products forward", jax.jit(product), batches, batches + 0.01)
small = numbers(8)
measure("gradient of 8 numbers, jitted", jax.jit(jax.grad(lambda x: jnp.sum(jnp.sin(x) * x))), small)
measure("gradient of 8 numbers by 61 operations outside jit, again", jax.grad(fifty), small)
measure("jvp of 8 numbers by 61 operations outside jit, again", lambda x: jax.jvp(fifty, (x,), (x,)), small)


def recurrent(w, h, xs):
    def step(h, x):
        h = jnp.tanh(h @ w + x)
        return h, jnp.sum(h)
    return jnp.sum(jax.lax.scan(step, h, xs)[1])


def layers(weights, h):
    return jnp.sum(jax.lax.scan(lambda h, w: (jnp.tanh(h @ w), None), h, weights)[0])


def curved(x):
    return jnp.sum(jnp.sin(x) ** 2) * jnp.sum(x[:-1] * x[1:])


def predict(p, x):
    return jax.nn.relu(x @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"]


def of_one(p, x, y):
    return jnp.mean((predict(p, x) - y) ** 2)


w, h, xs = numbers(128, 128), numbers(32, 128), numbers(128, 32, 128)
measure("gradient of a scan, 128 steps of 32 x 128", jax.jit(jax.grad(recurrent, argnums=(0, 1, 2))), w, h, xs)
measure("the scan forward", jax.jit(recurrent), w, h, xs)
measure("gradient of a scan over 12 layers of 256 x 256, batch 256", jax.jit(jax.grad(layers)), numbers(12, 256, 256), numbers(256, 256))
measure("the same of 8 numbers, 8 steps", jax.jit(jax.grad(recurrent)), numbers(1, 1), numbers(8, 1), numbers(8, 8, 1))
branched = jax.grad(lambda x: jnp.sum(jax.lax.cond(jnp.sum(x) > 0, jnp.sin, jnp.cos, x)))
measure("gradient of a cond of 8 numbers", jax.jit(branched), small)
collected = jax.shard_map(lambda x: jax.lax.psum(jnp.sin(x), "x"), mesh=mesh, in_specs=P("x"), out_specs=P())
measure("gradient of a psum in shard_map, 8 devices, 8 numbers", jax.jit(jax.grad(lambda x: jnp.sum(collected(x)))), split(small, "x"))
measure("the same, 2^20 numbers", jax.jit(jax.grad(lambda x: jnp.sum(collected(x)))), split(numbers(2**20), "x"))
shares = jax.pmap(lambda x: x / jax.lax.psum(x, "i"), axis_name="i")
measure("gradient of a pmap with psum, 8 devices, 8 x 1024, jitted", jax.jit(jax.grad(lambda x: jnp.sum(shares(x) ** 2))), numbers(8, 1024) + 1)
measure("Hessian of 64 numbers", jax.jit(jax.hessian(curved)), numbers(64))
measure("Jacobian in reverse, 64 by 64", jax.jit(jax.jacrev(lambda x: jnp.sin(x) * jnp.sum(x))), numbers(64))
tiny = {"w1": numbers(64, 128), "b1": numbers(128), "w2": numbers(128, 16), "b2": numbers(16)}
many, wanted = numbers(1024, 64), numbers(1024, 16)
measure("vmap of an MLP 64 x 128 x 16 over 1,024", jax.jit(jax.vmap(predict, in_axes=(None, 0))), tiny, many)
measure("vmap of its gradient over 1,024", jax.jit(jax.vmap(jax.grad(of_one), in_axes=(None, 0, 0))), tiny, many, wanted)
measure("vmap of it outside jit, again", jax.vmap(predict, in_axes=(None, 0)), tiny, many)
measure("vmap of 8 numbers by 61 operations outside jit, again", jax.vmap(fifty), numbers(8, 1))
measure("vmap over 8 devices of an MLP over 1,024", jax.jit(jax.vmap(predict, in_axes=(None, 0))), {k: split(p) for k, p in tiny.items()}, split(many, "x"))
measure("vmap of rows taken by index, 1,024 of 64", jax.jit(jax.vmap(lambda x, i: x[i])), numbers(1024, 64, 8), jnp.asarray(random.integers(0, 64, 1024)))
measure("vmap of a while_loop over 1,024", jax.jit(jax.vmap(lambda x: jax.lax.while_loop(lambda c: c < 1, lambda c: c * 1.1 + 0.01, x))), jnp.abs(numbers(1024)))


@jax.custom_vjp
def clipped(x):
    return x


clipped.defvjp(lambda x: (x, None), lambda _, g: (jnp.clip(g, -1.0, 1.0),))


def stiff(v):
    return 2.5 * v - jnp.pad(v[1:], (0, 1)) - jnp.pad(v[:-1], (1, 0))


def valley(x):
    return jnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


measure("gradient of 8 numbers by a custom_vjp outside jit, again", jax.grad(lambda x: jnp.sum(clipped(jnp.sin(x)) * x)), small)
for count in (8, 2**17):
    right = numbers(count)
    for solver, solve in (("cg", solvers.cg), ("bicgstab", solvers.bicgstab), ("gmres", partial(solvers.gmres, restart=8))):
        measure(f"{solver} of {count:,} numbers, jitted", jax.jit(lambda b: solve(stiff, b, tol=1e-4)[0]), right)
    measure(f"gradient of cg of {count:,} numbers, jitted", jax.jit(jax.grad(lambda b: jnp.sum(solvers.cg(stiff, b, tol=1e-4)[0] ** 2))), right)
    measure(f"cg of {count:,} numbers over 8 devices, jitted", jax.jit(lambda b: solvers.cg(stiff, b, tol=1e-4)[0]), split(right, "x"))
matrix = numbers(512, 512)
definite = matrix @ matrix.T + jnp.eye(512)
measure("cg with a matrix of 512 x 512, jitted", jax.jit(lambda a, b: solvers.cg(a, b, tol=1e-4)[0]), definite, numbers(512))
measure("cg of 8 numbers outside jit, again", lambda b: solvers.cg(stiff, b, tol=1e-4)[0], small)
measure("BFGS of 8 numbers, jitted", jax.jit(lambda x: minimize(valley, x, method="BFGS").fun), jnp.zeros(8))


def pendulum(y, t, g):
    return jnp.stack([y[1], -g * jnp.sin(y[0]) - 0.25 * y[1]])


def swings(y, t, g):
    return odeint(pendulum, y, t, g, rtol=1e-5, atol=1e-5)


def swung(y, t, g):
    return jnp.sum(swings(y, t, g) ** 2)


at, gravity = jnp.linspace(0.0, 2.0, 5), jnp.float32(4.9)
for count in (4, 2**15):
    starts = jnp.stack([jnp.linspace(0.5, 2.5, count), jnp.zeros(count)])
    measure(f"odeint of {count:,} pendulums, jitted", jax.jit(swings), starts, at, gravity)
    measure(f"gradient of odeint of {count:,} pendulums, jitted", jax.jit(jax.grad(swung, argnums=(0, 2))), starts, at, gravity)
    over = split(starts, None, "x") if count > 8 else split(jnp.tile(starts, (1, 2)), None, "x")
    measure(f"odeint of {count:,} pendulums over 8 devices, jitted", jax.jit(swings), over, at, gravity)
measure("odeint of 4 pendulums outside jit, again", lambda y: swings(y, at, gravity), jnp.stack([jnp.linspace(0.5, 2.5, 4), jnp.zeros(4)]))
own = lambda **options: options if name == "shoal" else {}  # Options that JAX has not, which change no result here.
root = lambda x: jnp.sum(jnp.where(x > 0, jnp.sqrt(x) * jnp.log1p(x), 0.0))
for count in (8, 2**20):
    positive = jnp.abs(numbers(count)) + 0.01
    strong = jax.jit(jax.grad(root, **own(strong_zeros=True)))
    measure(f"gradient of a where of {count:,} numbers with strong_zeros, jitted", strong, positive)
    measure(f"the same over 8 devices, {count:,} numbers", strong, split(positive, "x"))
    counted = lambda x: jnp.sum(lax.fori_loop(0, 64, lambda i, c: jnp.sin(c) * 1.01 + 0.1, x, **own(max_checkpoints=8)))
    measure(f"gradient of 64 trips on {count:,} numbers with max_checkpoints=8, jitted", jax.jit(jax.grad(counted)), positive)
    measure(f"the same loop over 8 devices, {count:,} numbers", jax.jit(jax.grad(counted)), split(positive, "x"))


def deep(w, x):
    h = x
    for _ in range(16):
        h = jnp.tanh(h @ w) + x
    return jnp.sum(h * h)


for rows, columns, bytes in ((8, 1, 2**14), (1024, 32, 2**20)):
    w, x = numbers(columns, columns), numbers(rows, columns)
    lean = jax.jit(jax.grad(deep), **own(memory_budget=bytes))
    measure(f"gradient of 16 layers of {rows} x {columns} with memory_budget={bytes:,}", lean, w, x)
    measure(f"the same layers over 8 devices, {rows} x {columns}", lean, split(w), split(x, "x"))
ad, policies = importlib.import_module(jax.__name__ + ".ad_checkpoint"), jax.checkpoint_policies


def block(w, h):
    return jnp.sin(ad.checkpoint_name(jnp.tanh(h @ w), "h") @ w)


def blocks(policy):
    kept = jax.checkpoint(block, policy=policy)
    return jax.grad(lambda weights, h: jnp.sum(kept(weights[1], kept(weights[0], h))))


def loop(policy):
    f = lambda weights, h: jnp.sum(jax.lax.scan(lambda h, w: (block(w, h), None), h, weights)[0])
    return jax.grad(jax.checkpoint(f, policy=policy))


by_name = policies.save_only_these_names("h")
elsewhere = policies.save_and_offload_only_these_names(
    names_which_can_be_saved=[], names_which_can_be_offloaded=["h"], offload_src="device", offload_dst="pinned_host")
two, batch = numbers(2, 256, 256), numbers(256, 256)
measure("gradient of two checkpoints of 256 x 256, batch 256", jax.jit(blocks(None)), two, batch)
measure("the same that keep a name", jax.jit(blocks(by_name)), two, batch)
measure("the same that keep it in host memory", jax.jit(blocks(elsewhere)), two, batch)
measure("the same over 8 devices, by name, batch split", jax.jit(blocks(by_name)), split(two), split(batch, "x"))
measure("gradient of a checkpointed scan over 4 layers of 256 x 256, by name", jax.jit(loop(by_name)), numbers(4, 256, 256), batch)
measure("gradient of two checkpoints of 8 numbers, by name", jax.jit(blocks(by_name)), numbers(2, 1, 1), numbers(8, 1))
measure("the same outside jit, again", blocks(by_name), numbers(2, 1, 1), numbers(8, 1))
start = time.perf_counter()
jax.jit(jax.grad(mlp)).lower(params, numbers(128, 512), numbers(128, 512)).compile()
times["compiling the gradient of the MLP"] = time.perf_counter() - start
results["compiling the gradient of the MLP"] = np.zeros(1)
"""


if __name__ == "__main__":
    python_sides.print_table(__doc__, PROGRAM)
