#!/usr/bin/env python3
"""Training with an optimizer from Python, in Shoal and in JAX with Optax, in turns: an epoch of small nets on digits, and
steps of optimizers on many weights. Prints the median of each in one table.

    python_optimizers.py --shoal PYTHON --jax PYTHON [--rounds N] [--only TEXT]

PYTHON is an interpreter that has the package. Losses and weights are compared."""

import python_sides

PROGRAM = python_sides.MEASURED + r"""
devices = int(arguments[0])
if name == "shoal":
    jax.config.update("jax_num_cpu_devices", 8)
    from shoal import nn, optimizers
else:
    import optax as optimizers
    from jax import nn
mesh = jax.make_mesh((devices,), ("d",), devices=jax.devices()[:devices])
rows, everywhere = NamedSharding(mesh, P("d")), NamedSharding(mesh, P())
of = f", {devices} devices" if devices > 1 else ""
random = np.random.default_rng(0)


def weights(*shape):
    return jnp.asarray((random.normal(size=shape) * np.sqrt(2 / np.prod(shape[:-1]))).astype(np.float32))


def mlp(p, x):
    x = x.reshape(len(x), 64)
    return nn.relu(x @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"]


def conv(p, x):
    for w, b in (("k1", "b1"), ("k2", "b2")):
        x = lax.conv_general_dilated(x, p[w], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")) + p[b]
        x = lax.reduce_window(nn.relu(x), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return x.reshape(len(x), -1) @ p["w"] + p["b"]


MODELS = {
    "MLP 64 × 128 × 10": (mlp, lambda: {
        "w1": weights(64, 128), "b1": jnp.zeros(128), "w2": weights(128, 10), "b2": jnp.zeros(10)}),
    "convolutions 16, 32": (conv, lambda: {
        "k1": weights(3, 3, 1, 16), "b1": jnp.zeros(16), "k2": weights(3, 3, 16, 32), "b2": jnp.zeros(32),
        "w": weights(128, 10), "b": jnp.zeros(10)}),
}
images = random.random((12 * 128, 8, 8, 1)).astype(np.float32)
labels = random.integers(0, 10, 12 * 128).astype(np.int32)
batches = [jax.device_put((images[i : i + 128], labels[i : i + 128]), rows) for i in range(0, 12 * 128, 128)]
for title, (model, init) in MODELS.items():
    optimizer = optimizers.adamw(1e-3)
    params = jax.device_put(init(), everywhere)
    state = optimizer.init(params)

    @jax.jit
    def step(params, state, x, y):
        def loss(p):
            return -jnp.take_along_axis(nn.log_softmax(model(p, x)), y[:, None], -1).mean()

        value, gradient = jax.value_and_grad(loss)(params)
        updates, state = optimizer.update(gradient, state, params)
        return optimizers.apply_updates(params, updates), state, value

    def epoch():
        p, s = params, state
        for x, y in batches:
            p, s, value = step(p, s, x, y)
        return value

    measure(f"epoch of 1,536 digits, {title}{of}", epoch)

params = jax.device_put({k: weights(2048, 2048) for k in "abc"} | {"bias": jnp.zeros(2048)}, rows)
gradients = jax.tree.map(lambda p: p * 0.5, params)
for title, optimizer in {
    "sgd with momentum": optimizers.sgd(0.1, momentum=0.9),
    "adamw": optimizers.adamw(1e-3),
    "adamw, clipped by norm": optimizers.chain(optimizers.clip_by_global_norm(1.0), optimizers.adamw(1e-3)),
    "lion": optimizers.lion(1e-3),
    "adafactor": optimizers.adafactor(1e-3),
}.items():
    state = jax.jit(optimizer.init)(params)

    @jax.jit
    def update(params, gradients, state):
        updates, state = optimizer.update(gradients, state, params)
        return optimizers.apply_updates(params, updates), state

    measure(f"{title}, 12.6 million weights{of}", lambda: update(params, gradients, state)[0])

small = jax.device_put({"w": weights(2, 4), "b": jnp.zeros(4)}, everywhere)
optimizer = optimizers.adamw(1e-3)
state = optimizer.init(small)
update = jax.jit(optimizer.update)
measure(f"adamw, 12 weights{of}", lambda: update(small, state, small)[0])
"""

if __name__ == "__main__":
    options = python_sides.parser_for(__doc__).parse_args()
    python_sides.print_head("ms")
    for devices in ("1", "8"):
        python_sides.print_rows(options, PROGRAM, devices, scale=1e3)
