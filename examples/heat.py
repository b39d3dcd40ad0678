"""The heat equation on a square plate whose edge is kept at zero, with a tile of it on each device: heat.cc in Python.

Steps run in blocks: a block is one compiled program, a loop in which devices exchange the rows and columns where their
tiles meet. Between blocks the program looks at the plate.

    SHOAL_NUM_CPU_DEVICES=8 python examples/heat.py
    shoal run -n 2 --devices-per-process 4 -- python examples/heat.py 4096 20 50 plate.pgm

The arguments are the points along each side, the blocks, the steps of a block, and the file for the final picture.
Every layout of devices and processes gives the same bits.
"""

import math
import sys
import time
from functools import partial

import shoal as jax
import shoal.numpy as jnp
from shoal import lax
from shoal.experimental import multihost_utils
from shoal.sharding import NamedSharding, PartitionSpec as P

RATE = 0.2  # Of heat that goes to each neighbour in a step; stable up to 0.25.
ROWS_SHOWN, COLUMNS_SHOWN = 32, 64  # In the terminal, where characters are twice as high as they are wide.
TILES = P("row", "column")

# ---- The program of the devices.


def from_before(x, axis):
    """The x of the device before this one along an axis. The first device gets zeros: the edge of the plate."""
    return lax.ppermute(x, axis, [(i, i + 1) for i in range(lax.axis_size(axis) - 1)])


def from_after(x, axis):
    """The same of the device after this one; the last device gets zeros."""
    return lax.ppermute(x, axis, [(i + 1, i) for i in range(lax.axis_size(axis) - 1)])


def step(tile):
    """One step of a tile. A device sends one message to each neighbour, and gets one from it."""
    above = from_before(tile[-1:, :], "row")
    below = from_after(tile[:1, :], "row")
    left = from_before(tile[:, -1:], "column")
    right = from_after(tile[:, :1], "column")
    # The tile in a frame of what came. These updates write in place, since nobody else holds the framed tile; so all the
    # memory of the loop is this one copy.
    framed = jnp.pad(tile, 1)
    framed = lax.dynamic_update_slice(framed, above, (0, 1))
    framed = lax.dynamic_update_slice(framed, below, (-1, 1))
    framed = lax.dynamic_update_slice(framed, left, (1, 0))
    framed = lax.dynamic_update_slice(framed, right, (1, -1))
    # The slices are not copied: one loop over the tile reads the five points, and writes where the tile was.
    here = framed[1:-1, 1:-1]
    around = framed[:-2, 1:-1] + framed[2:, 1:-1] + framed[1:-1, :-2] + framed[1:-1, 2:]
    return here + RATE * (around - 4 * here)


def block_of_steps(mesh, steps):
    """The function that runs `steps` steps of the whole plate. The plate is donated, so that it exists once."""

    @partial(jax.jit, donate_argnums=0)
    @partial(jax.shard_map, mesh=mesh, in_specs=TILES, out_specs=TILES)
    def block(tile):
        return lax.fori_loop(0, steps, lambda _, before: step(before), tile)

    return block


def mesh_of_all_devices():
    """As many rows as columns of devices, or as near as that."""
    count = jax.device_count()
    rows = max(i for i in range(1, math.isqrt(count) + 1) if count % i == 0)
    return jax.make_mesh((rows, count // rows), ("row", "column"))


# ---- What is known without it.

# Standing waves: half waves along each side, and the height. A step multiplies all points of one by one number.
WAVES = [(1, 1, 1.0), (2, 3, 0.7), (5, 4, 0.5)]


def exact(points, steps):
    """The exact plate after a number of steps, which begins as the sum of the waves."""
    angle = math.pi / (points + 1)

    def sines(half_waves):
        return jnp.sin(jnp.arange(1, points + 1).astype(jnp.float32) * (half_waves * angle))

    plate = jnp.zeros((points, points))
    for down, across, height in WAVES:
        change = math.sin(down * angle / 2) ** 2 + math.sin(across * angle / 2) ** 2
        left = (1 - 4 * RATE * change) ** steps
        plate = plate + height * left * jnp.outer(sines(down), sines(across))
    return plate


# ---- What the user sees.


def show_progress(done, blocks, steps, seconds):
    """On a terminal the bar is drawn over itself; in a log each one has its line."""
    width = 40
    full = width * done // blocks
    start, end = ("\r", "" if done < blocks else "\n") if sys.stderr.isatty() else ("", "\n")
    bar = "#" * full + "." * (width - full)
    text = f"{start}[{bar}] {done * steps} steps, {1e6 * seconds / steps:.6g} us a step   "
    print(text, end=end, file=sys.stderr, flush=True)


@partial(jax.jit, static_argnums=1)
def scaled(plate, white):
    low, high = plate.min(), plate.max()
    return ((plate - low) * (white + 0.5) / (high - low)).astype(jnp.uint8)


def brightness(plate, white):
    """The plate as brightness from 0 to `white`, on the host. It is computed where the plate is; only bytes travel."""
    return multihost_utils.process_allgather(scaled(plate, white), tiled=True)


def print_picture(plate):
    shades = " .:-=+*#%@"
    rows, columns = plate.shape[0] // ROWS_SHOWN, plate.shape[1] // COLUMNS_SHOWN
    means = jax.jit(lambda x: x.reshape(ROWS_SHOWN, rows, COLUMNS_SHOWN, columns).mean(axis=(1, 3)))(plate)
    picture = brightness(means, len(shades) - 1)
    if jax.process_index() == 0:
        print("\n".join("".join(shades[shade] for shade in row) for row in picture))


def write_picture(plate, path):
    """A portable graymap: a line of text, and a byte for each point."""
    pixels = brightness(plate, 255)
    if jax.process_index() == 0:
        with open(path, "wb") as file:
            file.write(b"P5 %d %d 255\n" % plate.shape[::-1] + pixels.tobytes())


def main(points=512, blocks=20, steps=200, path="heat.pgm"):
    if points < 1 or points % COLUMNS_SHOWN != 0 or blocks < 1 or steps < 1:
        usage = "heat.py [points [blocks [steps of a block [file]]]]"
        sys.exit(f"usage: {usage}, points being a multiple of {COLUMNS_SHOWN}")
    jax.distributed.initialize()
    mesh = mesh_of_all_devices()

    def exact_after(count):  # Each device computes its own tile.
        return jax.jit(lambda: exact(points, count), out_shardings=NamedSharding(mesh, TILES))()

    plate = exact_after(0)
    block = block_of_steps(mesh, steps).lower(plate).compile()

    speaks = jax.process_index() == 0
    memory = block.memory_analysis()
    if speaks:
        print(f"{points} x {points} points on {mesh}")
        tile, more = memory.argument_size_in_bytes, memory.temp_size_in_bytes
        print(f"each device: a tile of {tile} bytes, {more} bytes more while a block runs", flush=True)
    for done in range(1, blocks + 1):
        start = time.perf_counter()
        plate = block(plate)
        plate.block_until_ready()
        if speaks:
            show_progress(done, blocks, steps, time.perf_counter() - start)

    print_picture(plate)
    write_picture(plate, path)
    error = jnp.abs(plate - exact_after(blocks * steps)).max()
    bits = lax.bitcast_convert_type(plate, jnp.uint32).sum()  # Modulo 2^32, so in any order.
    if speaks:
        print(f"largest error {error}\nsum of all bits {bits}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]), *sys.argv[4:5])
