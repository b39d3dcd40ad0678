"""A language model on several hosts, from the first line to the last: what each process does by itself, what all do
together, and how they end at the same time.

    tools/data.sh                                        # puts a book into build/data
    SHOAL_NUM_CPU_DEVICES=4 python examples/multi_host.py
    shoal run -n 2 --devices-per-process 2 -- python examples/multi_host.py

The model predicts a byte from the ones before it: an embedding, one layer of attention, and one of hidden units. All
layouts of four devices print the same. examples/gpt.py has more layers, a loader and checkpoints.
"""

import argparse

import numpy as np

import shoal as jax
import shoal.numpy as jnp
from shoal import nn, optimizers, random
from shoal.data import KeyedPermutation
from shoal.experimental import multihost_utils
from shoal.nn import layers
from shoal.sharding import NamedSharding, PartitionSpec as P

BYTES, WIDTH, HEADS, LENGTH = 256, 64, 4, 64


def init(key):
    keys = random.split(key, 5)

    def normal(key, *shape):
        return random.normal(key, shape) * shape[0] ** -0.5

    return {
        "embed": 0.02 * random.normal(keys[0], (BYTES, WIDTH)),
        "qkv": normal(keys[1], WIDTH, 3, HEADS, WIDTH // HEADS),
        "out": normal(keys[2], WIDTH, WIDTH),
        "up": normal(keys[3], WIDTH, 4 * WIDTH),
        "down": normal(keys[4], 4 * WIDTH, WIDTH),
    }


def loss_of(params, tokens):
    """The mean over tokens [sequences, LENGTH + 1] of how surprising each byte was."""
    x = layers.embed(params["embed"], tokens[:, :-1])
    q, k, v = jnp.moveaxis(layers.dense(layers.rms_norm(x), params["qkv"]), 2, 0)
    q, k = (layers.rotary_embedding(a, jnp.arange(LENGTH)) for a in (q, k))
    x = x + nn.dot_product_attention(q, k, v, is_causal=True).reshape(x.shape) @ params["out"]
    x = x + nn.gelu(layers.rms_norm(x) @ params["up"]) @ params["down"]
    logits = layers.rms_norm(x) @ params["embed"].T
    return layers.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()


def main():
    parser = argparse.ArgumentParser(description="Trains a small language model on several hosts.")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=16, help="sequences of all hosts together")
    parser.add_argument("--data", default="build/data/jargon.txt")
    options = parser.parse_args()

    # 1. The processes find each other. Where a launcher started them (shoal run, mpirun, Slurm) there is nothing to say.
    jax.distributed.initialize()
    host, hosts = jax.process_index(), jax.process_count()
    mesh = jax.make_mesh((jax.device_count(),), ("data",))

    def say(text):
        if host == 0:
            print(text, flush=True)

    # 2. The first state is one process's: it may have read it from a file. All others get its bits.
    optimizer = optimizers.adamw(3e-3)
    params = init(random.key(0 if host == 0 else 1 + host))
    params = multihost_utils.broadcast_one_to_all(params)
    multihost_utils.assert_equal(params, "the first weights")
    everywhere = NamedSharding(mesh, P())
    params = jax.device_put(params, everywhere)
    state = jax.device_put(optimizer.init(params), everywhere)

    # 3. Each process reads its own part of each batch. What it has is a part of one array that lies over all devices.
    text = np.fromfile(options.data, np.uint8).astype(np.int32)
    mine = options.batch // hosts
    order = KeyedPermutation(seed=0, epoch=0, n=(len(text) - 1) // LENGTH)

    def batch_of(step):
        first = step * options.batch + host * mine
        sequences = np.array([order[i % len(order)] for i in range(first, first + mine)])
        local = text[sequences[:, None] * LENGTH + np.arange(LENGTH + 1)]
        return multihost_utils.host_local_array_to_global_array(local, mesh, P("data"))

    # 4. All processes call one program, in the same order and equally often.
    @jax.jit
    def train(params, state, tokens):
        loss, gradients = jax.value_and_grad(loss_of)(params, tokens)
        updates, state = optimizer.update(gradients, state, params)
        return optimizers.apply_updates(params, updates), state, loss

    for step in range(options.steps):
        params, state, loss = train(params, state, batch_of(step))
        if (step + 1) % max(options.steps // 5, 1) == 0:
            say(f"step {step + 1:4}  loss {float(loss):.4f}")

    # 5. What is spread over the hosts comes together in each of them: here the surprise at each of the last sequences.
    surprises = jax.jit(jax.vmap(lambda params, row: loss_of(params, row[None]), in_axes=(None, 0)))
    each = multihost_utils.process_allgather(surprises(params, batch_of(options.steps)), tiled=True)
    say(f"the next {len(each)} sequences: {each.mean():.4f} on the mean, {each.min():.4f} to {each.max():.4f}")
    weights = multihost_utils.process_allgather(params, tiled=True)
    bits = sum(int(np.asarray(w).view(np.uint32).sum(dtype=np.uint32)) for w in jax.tree.leaves(weights))
    say(f"sum of the bits of all weights {bits % 2**32}")

    # 6. Nobody leaves before all are done.
    multihost_utils.sync_global_devices("the end")
    jax.distributed.shutdown()


if __name__ == "__main__":
    main()
