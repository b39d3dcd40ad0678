"""One side of the sweep: times the rows that it reads, and prints what it found, both as JSON.

    PYTHON side.py shoal|jax < rows > times

Each entry is timed after it was compiled, with three inputs in turn. Of what it computes some elements are printed, for
the comparison of the sides.
"""

import json
import sys
import time

import numpy as np
import rows as table

SECONDS = 0.02  # Of one measurement,
MEASUREMENTS = 5  # of which the median counts.
TOO_LONG = 5.0
SAMPLES = 64


def modules(side):
    if side == "shoal":
        import shoal as jax
        import shoal.numpy as jnp
        import shoal.scipy.linalg as slinalg
        import shoal.scipy.special as special
        from shoal import lax
    else:
        import jax
        import jax.numpy as jnp
        import jax.scipy.linalg as slinalg
        import jax.scipy.special as special
        from jax import lax
    return {"jax": jax, "jnp": jnp, "lax": lax, "special": special, "slinalg": slinalg, "np": np}


def function_of(names, entry):
    """The entry's expression, or the gradient of the sum of what it gives."""
    f = eval("lambda x, y=None, z=None: " + entry["expression"], names)  # The expressions are those of rows.py.
    if not entry["gradient"]:
        return f
    jax, jnp = names["jax"], names["jnp"]
    return jax.grad(lambda *a: sum(jnp.sum(leaf) for leaf in jax.tree_util.tree_leaves(f(*a))))


def inputs_of(names, entry, seed):
    random = np.random.default_rng(seed)
    arrays = []
    for text in entry["inputs"]:
        domain, shape = text.split(":")
        arrays.append(table.DOMAINS[domain](random, table.shape_of(shape, entry["elements"])))
    if entry["devices"] == 1:
        return [names["jnp"].asarray(a) for a in arrays]
    jax = names["jax"]
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("d",))
    split = lambda a: jax.sharding.PartitionSpec(*(["d"] if a.shape[0] % entry["devices"] == 0 else []))
    return [jax.device_put(a, jax.sharding.NamedSharding(mesh, split(a))) for a in arrays]


def seconds_of(jax, call):
    for _ in range(2):
        begin = time.perf_counter()
        jax.block_until_ready(call(0))
        once = time.perf_counter() - begin
        if once > TOO_LONG:
            return once
    count = max(3, min(3000, int(SECONDS / max(once, 1e-7))))
    taken = []
    for _ in range(MEASUREMENTS):
        begin = time.perf_counter()
        for i in range(count):
            result = call(i % 3)
        jax.block_until_ready(result)
        taken.append((time.perf_counter() - begin) / count)
    return sorted(taken)[MEASUREMENTS // 2]


def samples_of(jax, result):
    samples = []
    for leaf in jax.tree_util.tree_leaves(result):
        flat = np.asarray(leaf).reshape(-1)
        flat = np.concatenate([flat.real, flat.imag]) if np.iscomplexobj(flat) else flat.astype(np.float64)
        chosen = np.random.default_rng(0).integers(0, max(1, flat.size), SAMPLES) if flat.size > SAMPLES else slice(None)
        samples.append([float(v) if np.isfinite(v) else str(v) for v in flat[chosen]])
    return samples


def main():
    names = modules(sys.argv[1])
    jax = names["jax"]
    for line in sys.stdin:
        entry = json.loads(line)
        try:
            inputs = [inputs_of(names, entry, seed) for seed in range(3)]
            f = jax.jit(function_of(names, entry))
            begin = time.perf_counter()
            result = jax.block_until_ready(f(*inputs[0]))
            first = time.perf_counter() - begin
            found = {"samples": samples_of(jax, result), "first": first}
            found["seconds"] = first if first > TOO_LONG else seconds_of(jax, lambda i: f(*inputs[i]))
        except Exception as error:  # What a side cannot do is a result of the sweep, too.
            found = {"error": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
