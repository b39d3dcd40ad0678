#!/usr/bin/env python3
"""Functions called from Python, jitted, of Shoal and of JAX, in turns: prints how much faster Shoal is as a table.

    python_functions.py --shoal PYTHON --jax PYTHON [--rounds N] [--only REGEX]

PYTHON is an interpreter that has the package. Each function runs on eight elements and on about a million, on one device
and on eight among which they are divided. What the two compute is compared."""

import json
import re
import statistics

import python_sides

# Name, expression of x and y, dtypes of x and y.
ROWS = [
    ("integers divided", "jnp.divide(x, y)", "int32", "int32"),
    ("integers divided by /", "x / y", "int16", "int16"),
    ("int32 / float32", "x / y", "int32", "float32"),
    ("sqrt of int32", "jnp.sqrt(x)", "int32", None),
    ("exp of int8", "jnp.exp(x)", "int8", None),
    ("log1p of int32", "jnp.log1p(x)", "int32", None),
    ("sin of int32", "jnp.sin(x)", "int32", None),
    ("arctan2 of int32", "jnp.arctan2(x, y)", "int32", "int32"),
    ("hypot of int32", "jnp.hypot(x, y)", "int32", "int32"),
    ("logaddexp of int32", "jnp.logaddexp(x, y)", "int32", "int32"),
    ("mean of int32", "jnp.mean(x)", "int32", None),
    ("var of int32", "jnp.var(x)", "int32", None),
    ("std of float32", "jnp.std(x)", "float32", None),
    ("average of float32", "jnp.average(x, weights=y)", "float32", "float32"),
    ("nanmean of float32", "jnp.nanmean(x)", "float32", None),
    ("softmax of int32", "jax.nn.softmax(x)", "int32", None),
    ("logsumexp of int32", "jax.nn.logsumexp(x)", "int32", None),
    ("gelu of float32", "jax.nn.gelu(x)", "float32", None),
    ("expit of int32", "jax.scipy.special.expit(x)", "int32", None),
    ("polyval of float32", "jnp.polyval(jnp.array([1.0, 2.0, 3.0]), x)", "float32", None),
    ("uint8 product", "x.reshape(-1, 8) @ (y.reshape(-1, 8)[:8]).T if x.size > 8 else x @ y", "uint8", "uint8"),
    ("concatenate", "jnp.concatenate([x, y, x])", "float32", "float32"),
    ("transpose", "jnp.transpose(x.reshape(-1, 4))", "float32", None),
    ("flip", "jnp.flip(x)", "float32", None),
    ("pad", "jnp.pad(x, 3)", "float32", None),
    ("strided slice", "x[::2]", "float32", None),
    ("delete by a mask", "jnp.delete(x, np.arange(x.size) % 3 == 0)", "float32", None),
    ("window of a constant set", "x.at[2:6].set(1.0)", "float32", None),
    ("every other element set", "x.at[::2].set(1.0)", "float32", None),
    ("rows set", "x.reshape(-1, 4).at[-2:, 1:3].set(y[:2])", "float32", "float32"),
    ("nextafter", "jnp.nextafter(x, y)", "float32", "float32"),
    ("broadcast", "jnp.broadcast_to(x, (4, x.size))", "float32", None),
]
# Functions with arguments from a domain of their own: name, expression, lowest and highest x, and y. exp1 and expn are
# left out, of which JAX computes a million in seconds, as it does of those below in f64.
SLOW_IN_F64 = ("gammainc", "gammaincc")
DOMAINS = [
    ("arctan", "jnp.arctan(x)", (-5, 5)), ("arctan2", "jnp.arctan2(x, y)", (-5, 5), (-5, 5)),
    ("arcsin", "jnp.arcsin(x)", (-1, 1)), ("arccos", "jnp.arccos(x)", (-1, 1)), ("arcsinh", "jnp.arcsinh(x)", (-5, 5)),
    ("arccosh", "jnp.arccosh(x)", (1, 9)), ("arctanh", "jnp.arctanh(x)", (-0.99, 0.99)),
    ("sinh", "jnp.sinh(x)", (-5, 5)), ("cosh", "jnp.cosh(x)", (-5, 5)), ("tanh", "jnp.tanh(x)", (-5, 5)),
    ("hypot", "jnp.hypot(x, y)", (-5, 5), (-5, 5)), ("power", "jnp.power(x, y)", (0.5, 5), (-3, 3)),
    ("erf", "sp.erf(x)", (-3, 3)), ("erfc", "sp.erfc(x)", (-3, 5)), ("erfcx", "sp.erfcx(x)", (-2, 9)),
    ("erfinv", "sp.erfinv(x)", (-0.99, 0.99)), ("erfcinv", "sp.erfcinv(x)", (0.01, 1.9)),
    ("ndtr", "sp.ndtr(x)", (-5, 5)), ("ndtri", "sp.ndtri(x)", (0.001, 0.999)), ("log_ndtr", "sp.log_ndtr(x)", (-9, 9)),
    ("dawsn", "sp.dawsn(x)", (-5, 5)), ("gammaln", "sp.gammaln(x)", (0.5, 5)), ("gamma", "sp.gamma(x)", (0.5, 5)),
    ("digamma", "sp.digamma(x)", (0.5, 5)), ("polygamma", "sp.polygamma(1, x)", (0.5, 5)),
    ("zeta", "sp.zeta(x, y)", (1.5, 6), (0.5, 5)), ("gammainc", "sp.gammainc(x, y)", (0.5, 5), (0.5, 5)),
    ("gammaincc", "sp.gammaincc(x, y)", (0.5, 5), (0.5, 5)), ("betainc", "sp.betainc(x, y, x / 9)", (0.5, 5), (0.5, 5)),
    ("betaln", "sp.betaln(x, y)", (0.5, 5), (0.5, 5)), ("i0", "sp.i0(x)", (-9, 9)), ("i1", "sp.i1(x)", (-9, 9)),
    ("i0e", "sp.i0e(x)", (-9, 9)), ("i1e", "sp.i1e(x)", (-9, 9)),
    ("expi", "sp.expi(x)", (0.1, 5)), ("spence", "sp.spence(x)", (0.1, 5)),
    ("multigammaln", "sp.multigammaln(x, 3)", (3, 8)),
]
for name, expression, *domains in DOMAINS:
    for dtype in ("float32",) if name in SLOW_IN_F64 else ("float32", "float64"):
        ROWS.append((f"{name} of {dtype}", expression, *((dtype, *domain) for domain in domains)))

PROGRAM = python_sides.PER_CALL + r"""
import json, sys
import numpy as np
name, path, rows = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
if name == "shoal":
    import shoal as jax
    import shoal.numpy as jnp
    import shoal.scipy.special as sp
    from shoal.sharding import NamedSharding, PartitionSpec as P
else:
    import jax
    import jax.numpy as jnp
    import jax.scipy.special as sp
    from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((8,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
split = NamedSharding(mesh, P("x"))
random = np.random.default_rng(0)
LARGE = 1 << 20


# Random numbers from 1 to 51 of a dtype, or of a dtype between two bounds.
def array_of(kind, size):
    dtype, low, high = (kind, 1, 51) if isinstance(kind, str) else kind
    return random.uniform(low, high, size).astype(dtype)


times, results = {}, {}
for title, expression, *dtypes in rows:
    f = jax.jit(eval("lambda x, y=None: " + expression, {"jnp": jnp, "jax": jax, "sp": sp, "np": np}))
    jax.config.update("jax_enable_x64", any(type(t) is list and t[0] == "float64" for t in dtypes))
    for size in (8, LARGE):
        made = [array_of(t, size) for t in dtypes if t]
        for devices in (1, 8):
            arguments = [jax.device_put(a, split) if devices == 8 else jnp.asarray(a) for a in made]
            times[f"{title}|{size}|{devices}"] = per_call(lambda: f(*arguments))
            results[f"{title}|{size}|{devices}"] = np.asarray(f(*arguments))
if name == "shoal":
    np.savez(path, **results)
else:
    ours = np.load(path)
    for key, b in results.items():
        a = ours[key]
        if a.dtype != b.dtype or a.shape != b.shape or not np.allclose(a, b, rtol=2e-5, atol=2e-5):
            sys.exit(f"{key}: the results differ: {a.dtype}{a.shape} {a.ravel()[:4]}, {b.dtype}{b.shape} {b.ravel()[:4]}")
print(json.dumps(times))
"""


def main():
    parser = python_sides.parser_for(__doc__)
    parser.add_argument("--only", default="", help="the rows whose names match")
    options = parser.parse_args()
    rows = [row for row in ROWS if re.search(options.only, row[0])]
    times = python_sides.times_in_turns(options, PROGRAM, json.dumps(rows))
    print("JAX / Shoal; in brackets, Shoal in µs\n")
    print("| function | 8, 1 device | 8, 8 devices | 2^20, 1 device | 2^20, 8 devices |\n|---|---|---|---|---|")
    for title, *_ in rows:
        cells = []
        for size in (8, 1 << 20):
            for devices in (1, 8):
                key = f"{title}|{size}|{devices}"
                ratio = statistics.median(t[key] / o[key] for o, t in zip(times["shoal"], times["jax"]))
                cells.append(f"{ratio:.2f} ({statistics.median(o[key] for o in times['shoal']) * 1e6:.3g})")
        print(f"| {title} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
