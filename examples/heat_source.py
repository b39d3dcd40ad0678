"""Finds where a plate was heated, from how warm it is in the end: heat.py differentiated.

Sources heat a plate while 500 steps run, which also radiates, more the warmer it is. Only the final plate is known.
Gradient descent looks for the sources that would have led there, and its gradient goes back through all steps, for which
it needs the plate at each. The program keeps a few of these, and computes those between them again (Griewank and Walther
2000, "revolve").

    SHOAL_NUM_CPU_DEVICES=8 python examples/heat_source.py
    shoal run -n 2 --devices-per-process 4 -- python examples/heat_source.py --points 256 --checkpoints 20

Every layout of devices gives the same bits, but for the sums over the plate.
"""

import argparse
import time

import shoal as jax
import shoal.numpy as jnp
from shoal import lax, optimizers
from shoal.run_log import RunLog, progress_bar
from shoal.sharding import NamedSharding

from heat import TILES, mesh_of_all_devices, step

# What is to be found: where sources are, as parts of the sides, how wide, and how strong.
SOURCES = [(0.3, 0.6, 0.06, 1.0), (0.7, 0.25, 0.09, 0.6)]


RADIATION = 0.05  # What a plate of warmth 1 loses in a step.


def sources(points):
    place = (jnp.arange(points) + 1).astype(jnp.float32) / (points + 1)
    plate = jnp.zeros((points, points))
    for down, across, width, strength in SOURCES:
        bells = [jnp.exp(-jnp.square((place - middle) / width)) for middle in (down, across)]
        plate = plate + strength * jnp.outer(*bells)
    return plate


def heated(mesh, steps, checkpoints):
    """The final plate for given sources. It begins cold, and a step brings each point its share of their heat."""

    def of_tile(source):
        def warmer(_, tile):
            return step(tile) - RADIATION * jnp.square(jnp.square(tile)) + source / steps

        return lax.fori_loop(0, steps, warmer, jnp.zeros_like(source), max_checkpoints=checkpoints or None)

    return jax.shard_map(of_tile, mesh=mesh, in_specs=TILES, out_specs=TILES)


def main():
    parser = argparse.ArgumentParser(description="Finds the sources of a plate's heat by gradient descent.")
    parser.add_argument("--points", type=int, default=128, help="along each side; rows and columns of devices divide it")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--checkpoints", type=int, default=30, help="plates that are kept; 0: those of all steps")
    parser.add_argument("--iterations", type=int, default=200, help="of gradient descent")
    parser.add_argument("--out", default="", help="writes OUT.csv, OUT.svg and OUT.html")
    options = parser.parse_args()
    jax.distributed.initialize()
    mesh = mesh_of_all_devices()
    tiles = NamedSharding(mesh, TILES)
    heat = heated(mesh, options.steps, options.checkpoints)
    true = jax.jit(lambda: sources(options.points), out_shardings=tiles)()
    seen = jax.jit(heat)(true)

    def loss_of(source):
        return jnp.square(heat(source) - seen).mean() / jnp.square(seen).mean()

    optimizer = optimizers.adam(optimizers.cosine_decay_schedule(0.2, options.iterations))
    found = jnp.zeros_like(true)
    state = optimizer.init(found)

    @jax.jit
    def descend(found, state):
        loss, slope = jax.value_and_grad(loss_of)(found)
        updates, state = optimizer.update(slope, state, found)
        return optimizers.apply_updates(found, updates), state, loss

    descend = descend.lower(found, state).compile()
    speaks = jax.process_index() == 0
    if speaks:
        print(f"{options.steps} steps of {options.points} x {options.points} points on {mesh}; "
              f"{descend.memory_analysis().temp_size_in_bytes / 1e6:.1f} MB of each device hold what is kept on the way")
    log = RunLog("The source of a plate's heat")
    begin = time.perf_counter()
    for i in range(options.iterations):
        found, state, loss = descend(found, state)
        if (i + 1) % max(options.iterations // 50, 1) == 0:
            value = float(loss)
            log.add(i + 1, loss=value)
            if speaks:
                seconds = (time.perf_counter() - begin) / (i + 1)
                bar = progress_bar((i + 1) / options.iterations)
                print(f"\r{bar} iteration {i + 1:4}  misfit {value:.3e}  {seconds:.4f} s each", end="", flush=True)
    error = jnp.sqrt(jnp.square(found - true).mean() / jnp.square(true).mean())
    row, column = (int(i) for i in jnp.unravel_index(jnp.argmax(found), found.shape))
    middle = [(i + 1) / (options.points + 1) for i in (row, column)]
    if speaks:
        print(f"\nthe strongest source is at {middle[0]:.2f}, {middle[1]:.2f}; sources are found to {100 * error:.1f}%")
        if options.out:
            for ending in ("csv", "svg", "html"):
                log.save(f"{options.out}.{ending}")


if __name__ == "__main__":
    main()
