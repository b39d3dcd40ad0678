#!/usr/bin/env python3
"""Calls from Python, of Shoal and of JAX, in turns: prints the median of each in one table.

    python_calls.py --shoal PYTHON --jax PYTHON [--rounds N]

PYTHON is an interpreter that has the package. Results are checked against NumPy."""

import argparse
import json
import statistics
import subprocess
import sys

PROGRAM = r"""
import json, sys, time
name = sys.argv[1]
start = time.perf_counter()
if name == "shoal":
    import shoal as jax
    import shoal.numpy as jnp
    from shoal.sharding import NamedSharding, PartitionSpec as P
else:
    import jax
    import jax.numpy as jnp
    from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((8,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
s = NamedSharding(mesh, P("x"))
x8 = jax.device_put(jnp.arange(8.0), s)
f = jax.jit(lambda x: x + 1)
f(x8).block_until_ready()
rows = {"import and first result over 8 devices, without Python's own start, ms": (time.perf_counter() - start) * 1e3}
import numpy as np

x1 = jnp.arange(8.0)
assert np.array_equal(np.asarray(f(x1)), np.arange(1.0, 9.0)) and np.array_equal(np.asarray(f(x8)), np.arange(1.0, 9.0))


def per_call(call, n=20000):
    for _ in range(200):
        call()
    best = []
    for _ in range(5):
        t = time.perf_counter()
        for _ in range(n // 5):
            result = call()
        jax.block_until_ready(result)
        best.append((time.perf_counter() - t) / (n // 5) * 1e6)
    return sorted(best)[len(best) // 2]


rows["cached jit(x + 1), 8 elements, 1 device, us"] = per_call(lambda: f(x1))
rows["cached jit(x + 1), 8 elements, 8 devices, us"] = per_call(lambda: f(x8), 20000 if name == "shoal" else 2000)
rows["eager x + x, 8 elements, us"] = per_call(lambda: x1 + x1, 10000)
big = np.ones(1 << 22, np.float32)
there = jax.device_put(big)
rows["numpy.asarray of 16 MiB, us"] = per_call(lambda: np.asarray(there) is None or there, 500)


def layer(p, x):
    h = x - x.mean(-1, keepdims=True)
    return x + jax.nn.gelu(h @ p["w1"] + p["b1"]) @ p["w2"]


def network(p, x):
    for q in p:
        x = layer(q, x)
    return x


p = [dict(w1=jnp.ones((64, 256)), b1=jnp.ones(256), w2=jnp.ones((256, 64))) for _ in range(12)]
x = jnp.ones((8, 64))
times = []
for i in range(5):
    g = jax.jit(lambda p, x: network(p, x))
    t = time.perf_counter()
    g.lower(p, x)
    times.append((time.perf_counter() - t) * 1e3)
rows["tracing and lowering 12 layers, ms"] = min(times)
print(json.dumps(rows))
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shoal", default=sys.executable)
    parser.add_argument("--jax", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    results = {"shoal": [], "jax": []}
    environment = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "PATH": "/usr/bin:/bin", "HOME": "/tmp"}
    for _ in range(options.rounds):
        for name, python in (("shoal", options.shoal), ("jax", options.jax)):
            done = subprocess.run(
                [python, "-c", PROGRAM, name], env=environment, capture_output=True, text=True, check=True, timeout=300
            )
            results[name].append(json.loads(done.stdout.splitlines()[-1]))
    print("| work | Shoal | JAX | JAX / Shoal |\n|---|---|---|---|")
    for row in results["shoal"][0]:
        ours, theirs = (statistics.median(r[row] for r in results[name]) for name in ("shoal", "jax"))
        print(f"| {row} | {ours:.3g} | {theirs:.3g} | {theirs / ours:.3g} |")


if __name__ == "__main__":
    main()
