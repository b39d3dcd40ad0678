"""A covariance-like matrix that no device holds: factored, solved with, inverted and diagonalised by all devices together.

    SHOAL_NUM_CPU_DEVICES=8 python examples/solve.py
    shoal run -n 2 --devices-per-process 4 -- python examples/solve.py 4096 16

The arguments are the rows of the matrix and the number of right sides. Every layout of devices and processes gives the
same bits. On a terminal a bar tells how far each solver is.
"""

import sys
import time

import shoal as jax
import shoal.numpy as jnp
from shoal import linalg
from shoal.experimental import multihost_utils
from shoal.sharding import NamedSharding, PartitionSpec as P


def grid():
    """All devices as a mesh, as square as it can be."""
    devices = jax.device_count()
    rows = max(r for r in range(1, devices + 1) if devices % r == 0 and r * r <= devices)
    return jax.make_mesh((rows, devices // rows), ("row", "column"))


def covariance(n):
    """What points on a line that are near each other have in common, and some noise of their own: positive definite."""
    place = jnp.arange(n) / 64
    distance = place[:, None] - place[None, :]
    return jnp.exp(-distance * distance) + 0.1 * jnp.eye(n, dtype=jnp.float64)


def timed(work):
    begin = time.perf_counter()
    result = jax.block_until_ready(work())
    return result, time.perf_counter() - begin


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 2048
    sides = int(sys.argv[2]) if len(sys.argv) > 2 else 16
    mesh = grid()
    tiles = NamedSharding(mesh, P("row", "column"))
    rows = NamedSharding(mesh, P("row"))
    a = jax.jit(covariance, static_argnums=0, out_shardings=tiles)(n)
    wanted = jax.jit(lambda: jnp.cos(jnp.arange(n * sides, dtype=jnp.float64)).reshape(n, sides), out_shardings=rows)()
    b = jax.jit(jnp.matmul, out_shardings=rows)(a, wanted)

    if jax.process_index() == 0 and sys.stderr.isatty():
        linalg.on_progress(linalg.progress_bar)
    solve = jax.jit(lambda a, b: linalg.potrs(a, b, return_status=True, return_logdet=True))
    invert = jax.jit(lambda a: linalg.potri(a, return_status=True))
    diagonalise = jax.jit(lambda a: linalg.syevd(a, return_status=True))
    (x, status, logdet), seconds = timed(lambda: solve(a, b))
    (inverse, _), more = timed(lambda: invert(a))
    (w, v, _), most = timed(lambda: diagonalise(a))
    error = jax.jit(lambda a, x, b: jnp.abs(a @ x - b).max())(a, x, b)
    left = jax.jit(lambda a, y: jnp.abs(a @ y - jnp.eye(n, dtype=y.dtype)).max())(a, inverse)
    missed = jax.jit(lambda a, v, w: jnp.abs(a @ v - v * w).max())(a, v, w)
    share = a.addressable_shards[0].data.shape
    if jax.process_index() == 0:
        print(f"{n} x {n} on {jax.device_count()} devices of {jax.process_count()} processes, each with {share}")
        print(f"potrs   {seconds:7.3f} s   {n**3 / 3 / seconds / 1e9:6.1f} GF/s   status {status}   residual {error:.1e}")
        print(f"potri   {more:7.3f} s   {n**3 / more / 1e9:6.1f} GF/s   |a inv(a) - 1| {left:.1e}")
        print(f"syevd   {most:7.3f} s   {14 / 3 * n**3 / most / 1e9:6.1f} GF/s   |a v - v w| {missed:.1e}")
        print(f"log of the determinant: {logdet:.6f}")
    multihost_utils.sync_global_devices("solved")


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    jax.distributed.initialize()
    main()
