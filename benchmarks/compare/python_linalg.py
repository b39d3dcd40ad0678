#!/usr/bin/env python3
"""Decompositions and systems of equations called from Python, jitted, of Shoal and of JAX, in turns: prints how much
faster Shoal is as a table.

    python_linalg.py --shoal PYTHON --jax PYTHON [--rounds N] [--only REGEX]

PYTHON is an interpreter that has the package. Each function runs on eight elements, on one matrix of 512 rows and on
batches of small ones, in f32 and f64. What the two compute is compared, but for the signs of vectors."""

import json
import re
import statistics

import python_sides

# Name, expression of x (matrices) and y (as many right sides as rows), what x is, and what is compared of the result r.
ROWS = [
    ("cholesky", "jnp.linalg.cholesky(x)", "definite", "r"),
    ("solve_triangular", "jax.scipy.linalg.solve_triangular(x, y, lower=True)", "definite", "r"),
    ("solve", "jnp.linalg.solve(x, y)", "definite", "r"),
    ("inv", "jnp.linalg.inv(x)", "definite", "r"),
    ("det", "jnp.linalg.det(x)", "orthogonal", "r"),
    ("lu", "jax.lax.linalg.lu(x)", "any", "r[0]"),
    ("qr", "jnp.linalg.qr(x)", "any", "r[1]"),
    ("eigh", "jnp.linalg.eigh(x)", "definite", "r[0]"),
    ("svd", "jnp.linalg.svd(x, full_matrices=False)", "any", "r[1]"),
    ("lstsq", "jax.vmap(lambda a, b: jnp.linalg.lstsq(a, b)[0])(x, y)", "definite", "r"),
]
SHAPES = [(2, 2, 2), (1, 512, 512), (10000, 4, 4), (1000, 16, 16)]

PROGRAM = python_sides.PER_CALL + r"""
import json, sys
import numpy as np
name, path, rows, shapes = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), json.loads(sys.argv[4])
if name == "shoal":
    import shoal as jax
    import shoal.numpy as jnp
    import shoal.scipy.linalg
else:
    import jax
    import jax.numpy as jnp
    import jax.scipy.linalg
jax.config.update("jax_enable_x64", True)


def matrices(kind, shape, dtype):
    random = np.random.default_rng(shape[0])
    x = random.normal(size=shape)
    n = shape[-1]
    if kind == "definite":
        x = (x + np.swapaxes(x, -1, -2)) / 2 + 3 * n * np.eye(n)
    elif kind == "orthogonal":
        x = np.linalg.qr(x)[0]
    return x.astype(dtype)


times, results = {}, {}
for title, expression, kind, compared in rows:
    f = jax.jit(eval("lambda x, y: " + expression, {"jnp": jnp, "jax": jax}))
    for dtype in ("float32", "float64"):
        for shape in shapes:
            x, y = (jnp.asarray(matrices(k, shape, dtype)) for k in (kind, "any"))
            key = f"{title}|{dtype}|{shape}"
            times[key] = per_call(lambda: f(x, y), first=1, least=1, seconds=0.02, runs=7)
            results[key] = np.asarray(eval(compared, {"r": f(x, y)}))
if name == "shoal":
    np.savez(path, **results)
else:
    ours = np.load(path)
    for key, b in results.items():
        a = ours[key]
        # Factors of one matrix of a batch that is nearly singular differ by more than rounding.
        allowed = (1e-2 if "float32" in key else 1e-6) * max(1, abs(b).max())
        far = np.abs(a - b) > allowed if a.shape == b.shape else np.ones(1, bool)
        if a.dtype != b.dtype or a.shape != b.shape or far.mean() > 1e-3:
            sys.exit(f"{key}: the results differ: {a.dtype}{a.shape} {a.ravel()[:4]}, {b.dtype}{b.shape} {b.ravel()[:4]}")
print(json.dumps(times))
"""


def main():
    parser = python_sides.parser_for(__doc__)
    parser.add_argument("--only", default="", help="the rows whose names match")
    options = parser.parse_args()
    rows = [row for row in ROWS if re.search(options.only, row[0])]
    times = python_sides.times_in_turns(options, PROGRAM, json.dumps(rows), json.dumps(SHAPES))
    heads = [f"{dtype} {'×'.join(map(str, shape))}" for dtype in ("f32", "f64") for shape in SHAPES]
    print("JAX / Shoal; in brackets, Shoal in µs\n")
    print("| function | " + " | ".join(heads) + " |\n" + "|---" * (len(heads) + 1) + "|")
    for title, *_ in rows:
        cells = []
        for dtype in ("float32", "float64"):
            for shape in SHAPES:
                key = f"{title}|{dtype}|{list(shape)}"
                ratio = statistics.median(t[key] / o[key] for o, t in zip(times["shoal"], times["jax"]))
                cells.append(f"{ratio:.2f} ({statistics.median(o[key] for o in times['shoal']) * 1e6:.3g})")
        print(f"| {title} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
