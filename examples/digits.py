"""Handwritten digits, read by two small nets that all devices train together, in three ways that give one loss.

    tools/data.sh                                        # puts the digits into build/data
    SHOAL_NUM_CPU_DEVICES=8 python examples/digits.py
    SHOAL_NUM_CPU_DEVICES=8 python examples/digits.py --model conv --strategy shard_map --out /tmp/digits
    shoal run -n 2 --devices-per-process 4 -- python examples/digits.py --strategy jit
"""

import argparse
import time

import numpy as np

import shoal as jax
import shoal.numpy as jnp
from shoal import lax, nn, optimizers, random
from shoal.data import DataLoader
from shoal.experimental.multihost_utils import global_array_to_host_local_array
from shoal.nn import initializers, layers
from shoal.run_log import RunLog, progress_bar
from shoal.sharding import NamedSharding, PartitionSpec as P

HELD_OUT = 6  # Every sixth of the 1,797 digits is held out.


# ---- Two models: a tree of parameters, and a function from images [rows, 8, 8, 1] to logits [rows, 10].


def linear(key, inputs, outputs):
    return {"kernel": initializers.he_normal()(key, (inputs, outputs)), "bias": jnp.zeros(outputs)}


def init_mlp(key):
    keys = random.split(key, 2)
    return {"hidden": linear(keys[0], 64, 128), "out": linear(keys[1], 128, 10)}


def mlp(params, images):
    x = images.reshape(len(images), -1)
    return layers.dense(nn.relu(layers.dense(x, **params["hidden"])), **params["out"])


def init_conv(key):
    keys = random.split(key, 3)
    window = initializers.he_normal(in_axis=-2, out_axis=-1)
    return {
        "conv1": {"kernel": window(keys[0], (3, 3, 1, 16)), "bias": jnp.zeros(16)},
        "conv2": {"kernel": window(keys[1], (3, 3, 16, 32)), "bias": jnp.zeros(32)},
        "out": linear(keys[2], 2 * 2 * 32, 10),
    }


def conv(params, images):
    x = images
    for name in ("conv1", "conv2"):
        x = layers.max_pool(nn.relu(layers.conv(x, **params[name])), (2, 2), strides=(2, 2))
    return layers.dense(x.reshape(len(x), -1), **params["out"])


MODELS = {"mlp": (init_mlp, mlp), "conv": (init_conv, conv)}


# ---- Three ways to train with the rows of a batch on all devices. `mask` says which rows count: the last batch of an
# epoch is filled up.


def losses_of(model, params, batch):
    return layers.softmax_cross_entropy_with_integer_labels(model(params, batch["image"]), batch["label"])


def by_jit(model, optimizer, mesh):
    """The program of one device, on arrays that are split: the compiler adds the sum over devices."""

    def step(params, state, batch, mask):
        def loss_of(p):
            return layers.masked_mean(losses_of(model, p, batch), mask)

        loss, gradients = jax.value_and_grad(loss_of)(params)
        updates, state = optimizer.update(gradients, state, params)
        return optimizers.apply_updates(params, updates), state, loss

    return jax.jit(step, donate_argnums=(0, 1))


def shared_loss(model, params, batch, mask):
    """The mean over the rows of all devices, seen by one of them."""
    total = jnp.sum(jnp.where(mask, losses_of(model, params, batch), 0))
    return lax.psum(total, "data") / lax.psum(jnp.sum(mask), "data")


def by_shard_map(model, optimizer, mesh):
    """The program of each device, with its sums written down. Gradients of what all devices share are summed."""

    def step(params, state, batch, mask):
        loss, gradients = jax.value_and_grad(lambda p: shared_loss(model, p, batch, mask))(params)
        updates, state = optimizer.update(gradients, state, params)
        return optimizers.apply_updates(params, updates), state, loss

    rows = P("data")
    mapped = jax.shard_map(step, mesh=mesh, in_specs=(P(), P(), rows, rows), out_specs=(P(), P(), P()))
    return jax.jit(mapped, donate_argnums=(0, 1))


def by_pmap(model, optimizer, mesh):
    """The same by pmap, whose devices each differentiate a sum that all share: the mean of that is the gradient. A process
    passes the rows of its own devices."""
    devices = jax.local_device_count()

    def step(params, state, batch, mask):
        loss, gradients = jax.value_and_grad(lambda p: shared_loss(model, p, batch, mask))(params)
        updates, state = optimizer.update(lax.pmean(gradients, "data"), state, params)
        return optimizers.apply_updates(params, updates), state, loss

    mapped = jax.pmap(step, axis_name="data", in_axes=(None, None, 0, 0), out_axes=None)

    def call(params, state, batch, mask):
        batch, mask = global_array_to_host_local_array((batch, mask), mesh, P("data"))
        batch, mask = jax.tree.map(lambda x: x.reshape(devices, -1, *x.shape[1:]), (batch, mask))
        return mapped(params, state, batch, mask)

    return call


STRATEGIES = {"jit": by_jit, "shard_map": by_shard_map, "pmap": by_pmap}


# ---- The program.


def read_digits(path):
    """Those to learn, and those to be examined with."""
    table = np.loadtxt(path, delimiter=",", dtype=np.float32)
    images, labels = table[:, :-1].reshape(-1, 8, 8, 1) / 16, table[:, -1].astype(np.int32)
    is_held_out = np.arange(len(table)) % HELD_OUT == 0
    return (images[~is_held_out], labels[~is_held_out]), (images[is_held_out], labels[is_held_out])


def train(options, strategy, seen, unseen, mesh, log):
    init, model = MODELS[options.model]
    rows = NamedSharding(mesh, P("data"))
    images, labels = seen
    count = len(images)
    loader = DataLoader(
        count, options.batch, lambda examples: {"image": images[examples], "label": labels[examples]}, rows,
        seed=options.seed)
    steps = options.epochs * loader.batches_per_epoch
    optimizer = optimizers.adamw(optimizers.cosine_decay_schedule(options.rate, steps), weight_decay=1e-3)
    everywhere = NamedSharding(mesh, P())
    params = jax.device_put(init(random.key(options.seed)), everywhere)
    state = jax.device_put(optimizer.init(params), everywhere)
    step = STRATEGIES[strategy](model, optimizer, mesh)
    speaks = jax.process_index() == 0
    begin = time.perf_counter()
    for epoch in range(options.epochs):
        of_epoch = []
        for _ in range(loader.batches_per_epoch):
            batch = next(loader)
            params, state, loss = step(params, state, batch.data, batch.mask)
            of_epoch.append(loss)
        mean = sum(float(loss) for loss in of_epoch) / len(of_epoch)
        seconds = time.perf_counter() - begin
        log.add(epoch + 1, **{f"loss_{strategy}": mean})
        if speaks:
            bar = progress_bar((epoch + 1) / options.epochs)
            rate = count * (epoch + 1) / seconds
            print(f"\r{strategy:9} {bar} epoch {epoch + 1:3}  loss {mean:.6f}  {rate:8.0f} digits/s", end="", flush=True)
    right = jax.jit(lambda p, x, y: jnp.mean(jnp.argmax(model(p, x), -1) == y))
    accuracy = float(right(params, *unseen))
    if speaks:
        print(f"\n{'':9} of {len(unseen[0])} digits that it never saw it reads {accuracy:.2%}")
    return mean, accuracy


def main():
    parser = argparse.ArgumentParser(description="Trains a small net to read digits, on all devices.")
    parser.add_argument("--model", choices=MODELS, default="mlp")
    parser.add_argument("--strategy", choices=[*STRATEGIES, "all"], default="all")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch", type=int, default=128, help="rows of all devices together")
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", default="build/data/digits.csv")
    parser.add_argument("--out", default="", help="writes OUT.csv, OUT.svg and OUT.html")
    options = parser.parse_args()
    jax.distributed.initialize()
    mesh = jax.make_mesh((jax.device_count(),), ("data",))
    seen, unseen = read_digits(options.data)
    log = RunLog(f"digits, {options.model}")
    strategies = STRATEGIES if options.strategy == "all" else [options.strategy]
    results = {name: train(options, name, seen, unseen, mesh, log) for name in strategies}
    losses = [loss for loss, _ in results.values()]
    if jax.process_index() == 0:
        if len(losses) > 1:
            print(f"the last losses differ by {max(losses) - min(losses):.1e}")
        for ending in ("csv", "svg", "html") if options.out else ():
            log.save(f"{options.out}.{ending}")


if __name__ == "__main__":
    main()
