"""Handwritten digits, read by a small net that a grid of devices trains with two pmaps, one in the other.

    tools/data.sh                                        # puts the digits into build/data
    SHOAL_NUM_CPU_DEVICES=8 python examples/nested_pmap.py --grid 4,2
    shoal run -n 2 --devices-per-process 4 -- python examples/nested_pmap.py --grid 4,2

The outer pmap divides the images among the rows of the grid, the inner one the hidden units among its columns: a device
has some of the images, and some of the net. Collectives name the axis that they go along. What is printed is the same
for each grid, but for roundings.
"""

import argparse
from functools import partial

import numpy as np

import shoal as jax
import shoal.numpy as jnp
from shoal import lax, nn, optimizers, random
from shoal.data import KeyedPermutation
from shoal.nn import initializers, layers

HELD_OUT = 6  # Every sixth of the 1,797 digits is held out.
HIDDEN = 128


def init(key, columns):
    """A part of the hidden units for each column, in front. All of them have the bias of the digits."""
    keys = random.split(key, 2)
    inwards = initializers.he_normal()(keys[0], (64, HIDDEN)).reshape(64, columns, -1)
    outwards = initializers.he_normal()(keys[1], (HIDDEN, 10)).reshape(columns, -1, 10)
    return {
        "in": jnp.moveaxis(inwards, 1, 0), "in_bias": jnp.zeros((columns, HIDDEN // columns)), "out": outwards,
        "out_bias": jnp.zeros((columns, 10)),
    }


def logits_of(params, images):
    """What a device makes of the images of its row: its part of the units, added up along the row."""
    units = nn.relu(layers.dense(images, params["in"], params["in_bias"]))
    return lax.psum(units @ params["out"], "columns") + params["out_bias"]


def trainer(optimizer):
    # The axes of the inner pmap are those of what a row of devices has: parameters by columns, images that all share.
    @partial(jax.pmap, axis_name="rows", in_axes=(None, None, 0, 0, 0), out_axes=None)
    @partial(jax.pmap, axis_name="columns", in_axes=(0, 0, None, None, None), out_axes=(0, 0, None))
    def step(params, state, images, labels, mask):
        def loss_of(params):
            losses = layers.softmax_cross_entropy_with_integer_labels(logits_of(params, images), labels)
            total = lax.psum(jnp.where(mask, losses, 0).sum(), "rows")
            return total / lax.psum(mask.sum(), "rows")

        loss, gradients = jax.value_and_grad(loss_of)(params)
        # Each device differentiates the sum of what all see: the loss once for every row, whose mean undoes it, and once
        # for every column. A bias that each column has for itself is seen by this one alone.
        gradients = lax.pmean(gradients, "rows")
        columns = lax.axis_size("columns")
        gradients = {name: g if name == "out_bias" else g / columns for name, g in gradients.items()}
        updates, state = optimizer.update(gradients, state, params)
        return optimizers.apply_updates(params, updates), state, lax.pmean(loss, "columns")

    return step


@partial(jax.pmap, axis_name="rows", in_axes=(None, 0, 0, 0), out_axes=None)
@partial(jax.pmap, axis_name="columns", in_axes=(0, None, None, None), out_axes=None)
def accuracy_of(params, images, labels, mask):
    right = mask & (logits_of(params, images).argmax(-1) == labels)
    return lax.pmean(lax.psum(right.sum(), "rows") / lax.psum(mask.sum(), "rows"), "columns")


def by_rows(arrays, rows):
    """The part of each array [images, …] for each row of the grid, filled up, and which images count."""
    count = len(arrays[0])
    each = -(-count // rows)
    places = np.arange(rows * each).reshape(rows, each)
    # A process passes what its own rows of devices take.
    mine = np.split(places, jax.process_count())[jax.process_index()]
    return *(a[np.minimum(mine, count - 1)] for a in arrays), mine < count


def main():
    parser = argparse.ArgumentParser(description="Trains a small net to read digits by nested pmaps.")
    parser.add_argument("--grid", default="4,2", help="rows and columns of devices; columns divide 128")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch", type=int, default=128, help="images of all rows together")
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", default="build/data/digits.csv")
    options = parser.parse_args()
    rows, columns = map(int, options.grid.split(","))
    jax.distributed.initialize()
    speaks = jax.process_index() == 0

    table = np.loadtxt(options.data, delimiter=",", dtype=np.float32)
    images, labels = table[:, :-1] / 16, table[:, -1].astype(np.int32)
    is_held_out = np.arange(len(table)) % HELD_OUT == 0
    seen, unseen = (images[~is_held_out], labels[~is_held_out]), (images[is_held_out], labels[is_held_out])
    steps = -(-len(seen[0]) // options.batch)

    optimizer = optimizers.adamw(optimizers.cosine_decay_schedule(options.rate, options.epochs * steps), weight_decay=1e-3)
    params = init(random.key(options.seed), columns)
    # Each column has the state of an optimizer of its own; they count alike.
    state = jax.vmap(optimizer.init)(params)
    step = trainer(optimizer)
    for epoch in range(options.epochs):
        order = KeyedPermutation(options.seed, epoch, len(seen[0]))
        losses = []
        for i in range(steps):
            chosen = [order[j] for j in range(i * options.batch, min((i + 1) * options.batch, len(seen[0])))]
            params, state, loss = step(params, state, *by_rows([a[chosen] for a in seen], rows))
            losses.append(loss)
        if speaks and (epoch + 1) % max(options.epochs // 6, 1) == 0:
            print(f"epoch {epoch + 1:3}  loss {np.mean([float(x) for x in losses]):.6f}", flush=True)
    accuracy = float(accuracy_of(params, *by_rows(unseen, rows)))
    if speaks:
        print(f"of {len(unseen[0])} digits that they never saw {rows} x {columns} devices read {100 * accuracy:.2f}%")


if __name__ == "__main__":
    main()
