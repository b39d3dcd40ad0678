"""Programs that Shoal and JAX run in turns, each in Python processes of its own."""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile


def parser_for(doc):
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shoal", default=sys.executable)
    parser.add_argument("--jax", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", metavar="TEXT", help="measure what has this in its title, and nothing else")
    return parser


def times_in_turns(options, program, *arguments):
    """What each side prints in its last line, as JSON, in each round. The program gets the side's name, a file for what
    it computed, which Shoal writes and JAX compares, and the arguments."""
    environment = {
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
        "JAX_PLATFORMS": "cpu",
        "PATH": "/usr/bin:/bin",
        "HOME": "/tmp",
        "SHOAL_ONLY": getattr(options, "only", ""),
    }
    times = {"shoal": [], "jax": []}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.rounds):
            for name, python in (("shoal", options.shoal), ("jax", options.jax)):
                command = [python, "-c", program, name, f"{folder}/results.npz", *arguments]
                done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
                if done.returncode != 0:
                    sys.exit(done.stderr)
                times[name].append(json.loads(done.stdout.splitlines()[-1]))
    return times


# For programs that time many short calls: per_call(call) gives the third best time of a call, in runs of so many as take
# `seconds`.
PER_CALL = r"""
import time


def per_call(call, *, first=3, least=3, seconds=0.01, runs=5):
    for _ in range(first):
        jax.block_until_ready(call())
    t = time.perf_counter()
    jax.block_until_ready(call())
    n = max(least, min(2000, int(seconds / max(time.perf_counter() - t, 1e-7))))
    taken = []
    for _ in range(runs):
        t = time.perf_counter()
        for _ in range(n):
            result = call()
        jax.block_until_ready(result)
        taken.append((time.perf_counter() - t) / n)
    return sorted(taken)[2]
"""

# The beginning of programs: jax is what the side's name says, and measure(title, f, *arguments) fills `times` and
# `results`.
MEASURED = r"""
import json, os, sys, time
import numpy as np
name, path, *arguments = sys.argv[1:]
if name == "shoal":
    import shoal as jax
    import shoal.numpy as jnp
    from shoal import lax
    from shoal.sharding import NamedSharding, PartitionSpec as P
else:
    import jax
    import jax.numpy as jnp
    from jax import lax
    from jax.sharding import NamedSharding, PartitionSpec as P
times, results = {}, {}
only = os.environ["SHOAL_ONLY"]


def flat(result):
    return np.concatenate([np.ravel(np.asarray(leaf)) for leaf in jax.tree.leaves(result)])


def measure(title, f, *arguments):
    if only not in title:
        return
    for _ in range(2):
        result = jax.block_until_ready(f(*arguments))
    taken = []
    while len(taken) < 3 or (len(taken) < 9 and sum(taken) < 10):
        start = time.perf_counter()
        jax.block_until_ready(f(*arguments))
        taken.append(time.perf_counter() - start)
    times[title] = sorted(taken)[len(taken) // 2]
    results[title] = flat(result)
"""

# The end of programs that have filled `times` and `results`, arrays by title: Shoal's are kept, and JAX's compared.
COMPARED = r"""
if name == "shoal":
    np.savez(path, **results)
else:
    ours = np.load(path)
    for key, b in results.items():
        if ours[key].shape != b.shape or not np.allclose(ours[key], b, rtol=1e-4, atol=1e-4):
            sys.exit(f"{key}: the results differ: {ours[key].ravel()[:4]}, {b.ravel()[:4]}")
print(json.dumps(times))
"""


def print_table(doc, program):
    """Runs a program that ends as COMPARED says, which is left out of it, and prints the median of each title."""
    print_medians(parser_for(doc).parse_args(), program)


def print_medians(options, program, *arguments):
    """The same with options that are parsed; the program gets the arguments."""
    print_head("ms")
    print_rows(options, program, *arguments, scale=1e3)


def print_head(unit):
    print(f"| work | Shoal, {unit} | JAX, {unit} | JAX / Shoal |\n|---|---|---|---|")


def print_rows(options, program, *arguments, scale=1):
    """The rows of a run: medians, of numbers that are multiplied by `scale`."""
    times = times_in_turns(options, program + COMPARED, *arguments)
    for title in times["shoal"][0]:
        ours, theirs = (statistics.median(t[title] for t in times[name]) * scale for name in ("shoal", "jax"))
        ratio = statistics.median(t[title] / o[title] for o, t in zip(times["shoal"], times["jax"]))
        print(f"| {title} | {ours:.3g} | {theirs:.3g} | {ratio:.3g} |", flush=True)
