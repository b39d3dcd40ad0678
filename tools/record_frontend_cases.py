#!/usr/bin/env python3
"""Records what NumPy and JAX do as tables for the tests of src/frontend: run it in the root of the repository.

Needs numpy and jax (0.10). Writes src/frontend/testdata/{binary,unary,reductions,indexing,products,einsum,functions}.inc.
"""

import itertools
import re
import warnings

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_platforms", "cpu")
warnings.simplefilter("ignore")

# 64-bit types are left out: JAX has them only in a mode in which Python's numbers are 64-bit, too.
DTYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "float16", "bfloat16", "float32", "complex64"]
SOME_DTYPES = ["bool", "int8", "uint8", "int32", "float16", "bfloat16", "float32", "complex64"]
SCALARS = {"true": True, "2": 2, "2.5": 2.5, "i": 1j}


def write(name, lines):
    with open(f"src/frontend/testdata/{name}.inc", "w", encoding="utf-8") as file:
        file.write("// Written by tools/record_frontend_cases.py. Do not edit.\n")
        file.writelines(line + "\n" for line in lines)


def text(value):
    return '"' + repr(value).replace("\n", "\\n") + '"'


def outcome(function, *operands):
    try:
        return text(function(*operands))
    except (TypeError, ValueError):
        return '"TypeError"'


def ints(values):
    return "{" + ", ".join(str(value) for value in values) + "}"


# ---- Operators on every pair of types: {op, left, right, repr of the result}.

OPERATORS = {
    "+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: x * y, "/": lambda x, y: x / y,
    "%": lambda x, y: x % y, "&": lambda x, y: x & y, "<": lambda x, y: x < y, "power": jnp.power,
    "maximum": jnp.maximum,
}


def operand(name):
    return SCALARS[name] if name in SCALARS else jnp.array([1, 2, 4]).astype(name)


def offered(op, left, right):
    """Complex numbers have no maximum in Shoal, and powers of numbers are weak there as all else is."""
    if op == "power" and {left, right} & set(SCALARS):
        return False
    # Powers of complex numbers are not exact; those of floats happen to be, here.
    return op not in ("maximum", "power") or not {left, right} & {"complex64", "i"}


def binary():
    for op, function in OPERATORS.items():
        for left, right in itertools.product(SOME_DTYPES + list(SCALARS), repeat=2):
            if left in SCALARS and right in SCALARS or not offered(op, left, right):
                continue
            result = outcome(function, operand(left), operand(right))
            if op == "<":
                result = result.replace(", weak_type=True", "")  # In Shoal bool is never weak.
            yield f'{{"{op}", "{left}", "{right}", {result}}},'


# ---- Functions of one operand: {function, operand, repr of the result}.

FUNCTIONS = {
    "negative": DTYPES + ["2", "2.5"], "abs": DTYPES + ["2", "2.5"], "sign": DTYPES + ["2", "2.5"],
    "sqrt": DTYPES[:-1] + ["2", "2.5"], "floor": DTYPES[1:-1] + ["2", "2.5"], "round": DTYPES[1:-1] + ["2", "2.5"],
    "isnan": DTYPES[:-1], "isfinite": DTYPES[:-1], "bitwise_not": DTYPES + ["true", "2", "2.5"],
    "square": DTYPES + ["true", "2", "2.5"], "reciprocal": DTYPES + ["2", "2.5"], "trunc": DTYPES[1:-1] + ["2", "2.5"],
    "isinf": DTYPES[:-1], "signbit": DTYPES[1:-1], "logical_not": DTYPES, "isposinf": DTYPES[:-1],
    "isneginf": DTYPES[:-1], "rint": DTYPES[:-1] + ["2.5"], "isreal": DTYPES, "iscomplex": DTYPES,
    "nan_to_num": DTYPES, "count_nonzero": DTYPES,
    "real": DTYPES[1:] + ["2.5", "i"], "imag": DTYPES[1:] + ["2.5", "i"], "conj": DTYPES[1:] + ["2.5", "i"],
}


def unary():
    for name, operands in FUNCTIONS.items():
        for dtype in operands:
            value = operand(dtype)
            yield f'{{"{name}", "{dtype}", {outcome(getattr(jnp, name), value)}}},'


# ---- Reductions of an array of shape (2, 4, 2): {function, dtype, axes, keepdims, repr of the result}.


def reductions():
    values = jnp.array([0, 1, 2, 1, 0, 1, 2, 2, 1, 0, 0, 2, 1, 1, 1, 1]).reshape(2, 4, 2)
    for name in ["sum", "prod", "max", "min", "mean", "any", "all"]:
        for dtype in DTYPES:
            if dtype == "complex64" and name in ("max", "min"):
                continue
            for axes in [None, (0,), (-1,), (0, 2), ()]:
                for keepdims in [False, True]:
                    result = getattr(jnp, name)(values.astype(dtype), axis=axes, keepdims=keepdims)
                    listed = "none" if axes is None else f"Dims{ints(axes)}"
                    yield f'{{"{name}", "{dtype}", {listed}, {"true" if keepdims else "false"}, {text(result)}}},'


# ---- Basic indexing of arange(24) in shape (2, 3, 4): {index in Python, index in C++, repr of the result}.

INDICES = """
0 | -1 | 1, 2 | 1, -1, 0 | : | ..., | ..., 0 | 0, ... | ..., 1:3 | 0, ..., 0 | 0, 1, 2, ... | None, | ..., None
None, 0, None, 1:2 | 1: | :1 | 0:2, 1:3, 2:4 | :, ::2 | :, :, ::3 | :, :, 1::2 | -1: | :, -2: | :, :-1 | :, -3:-1
5: | 2:1 | :, 1:1 | :, 0:100 | :, -100:2 | 0, 1: , ... | :, 0 | :, :, 0 | 1:2, 0, None, ::2 | :, 2:0
"""


def cpp_index(index):
    entries = []
    for entry in (part.strip() for part in index.split(",")):
        if not entry:
            continue
        if entry == "...":
            entries.append("ellipsis")
        elif entry == "None":
            entries.append("newaxis")
        elif ":" in entry:
            bounds = entry.split(":")
            args = [bound.strip() or "{}" for bound in bounds]
            entries.append(f"range({', '.join(args)})")
        else:
            entries.append(entry)
    return "{" + ", ".join(entries) + "}"


def indexing():
    array = jnp.arange(24, dtype=jnp.int32).reshape(2, 3, 4)
    for index in re.split(r"[|\n]", INDICES.strip()):
        result = eval(f"array[{index.strip()}]")
        yield f'{{"{index.strip()}", {cpp_index(index)}, {text(result)}}},'


# ---- Products of arange(1, …) arrays of all ranks: {function, left shape, right shape, repr of the result}.

SHAPES = [
    ((3,), (3,)), ((3,), (3, 2)), ((2, 3), (3,)), ((2, 3), (3, 2)), ((3,), (2, 3, 2)), ((2, 2, 3), (3,)),
    ((2, 2, 3), (3, 2)), ((2, 3), (2, 3, 2)), ((2, 2, 3), (2, 3, 1)), ((1, 2, 3), (2, 3, 1)), ((2, 1, 2, 3), (2, 3, 1)),
    ((2, 1, 3), (3, 1, 3, 2)), ((0,), (0,)), ((2, 0), (0, 3)), ((0, 2), (2, 3)),
]


def products():
    count = lambda shape: jnp.arange(1, 1 + np.prod(shape), dtype=jnp.int32).reshape(shape)
    for name in ["matmul", "dot"]:
        shapes = SHAPES + ([((), (3,)), ((2, 2), ()), ((), ())] if name == "dot" else [])
        for left, right in shapes:
            try:
                result = getattr(jnp, name)(count(left), count(right))
            except (TypeError, ValueError):
                continue
            yield f'{{"{name}", {ints(left)}, {ints(right)}, {text(result)}}},'


# ---- einsum: {subscripts, shapes of the operands, repr of the result}. Elements are 0, 1, … in i32, modulo 7.

EXPRESSIONS = [
    ("ij,jk->ik", (2, 3), (3, 4)), ("ij,jk", (2, 3), (3, 4)), ("ij,kj->ki", (2, 3), (4, 3)), ("i,i", (3,), (3,)),
    ("i,j", (2,), (3,)), ("i,i->i", (3,), (3,)), ("ij->ji", (2, 3)), ("ba", (2, 3)), ("ij->", (2, 3)), ("ij->j", (2, 3)),
    ("ii", (3, 3)), ("ii->i", (3, 3)), ("iij->ji", (3, 3, 2)), ("iii->i", (2, 2, 2)), ("aba,b->b", (2, 3, 2), (3,)),
    ("bij,bjk->bik", (2, 2, 3), (2, 3, 2)), ("bij,bjk->ikb", (2, 2, 3), (2, 3, 2)), ("bij,bij->b", (2, 2, 3), (2, 2, 3)),
    ("bij,bjk->ik", (2, 2, 3), (2, 3, 2)), ("ij,k->", (2, 3), (2,)), ("...ij,...jk", (2, 2, 3), (3, 2)),
    ("...ij,...jk->...ik", (2, 1, 2, 3), (4, 3, 2)), ("i...,i...->...", (3, 2), (3, 2)), ("...,...", (2, 3), (3,)),
    ("...->...", (2, 3)), ("i...->...", (2, 3)), ("...i->i", (2, 3)), ("a...b->b...a", (2, 3, 4)), ("ij,jk->ik", (2, 1), (3, 4)),
    (",", (), ()), ("->", ()), (",ij->ji", (), (2, 3)), ("i j , j k -> i k", (2, 3), (3, 2)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)), ("ij,jk,kl,lm->im", (2, 3), (3, 2), (2, 4), (4, 3)),
    ("i,j,k->kji", (2,), (3,), (2,)), ("ab,bc,ca->", (2, 3), (3, 4), (4, 2)), ("ij,ij,ij->i", (2, 3), (2, 3), (2, 3)),
    ("bqhd,bkhd->bhqk", (2, 3, 2, 2), (2, 4, 2, 2)), ("ea,fb,abcd,gc,hd->efgh", (2, 3), (2, 2), (3, 2, 2, 3), (2, 2), (3, 3)),
    ("a,b,c,d,e,f,g,h,i,a->bci", (2,), (2,), (2,), (1,), (2,), (1,), (2,), (1,), (2,), (2,)), ("ij,jk->ik", (0, 3), (3, 2)),
    ("ij,jk->ik", (2, 0), (0, 2)), ("ABc,cB->Ac", (2, 3, 2), (2, 3)),
]


def einsum():
    for subscripts, *shapes in EXPRESSIONS:
        operands = [jnp.arange(np.prod(shape), dtype=jnp.int32).reshape(shape) % 7 for shape in shapes]
        result = jnp.einsum(subscripts, *operands)
        yield f'{{"{subscripts}", {{{", ".join(ints(shape) for shape in shapes)}}}, {text(result)}}},'


# ---- Functions of floats, in f64: {name, elements of the result} for the operand VALUES, and, where they take two,
# VALUES in reverse.

VALUES = [-7.5, -3, -1.25, -1, -0.625, -0.1, 0, 0.1, 0.5, 0.75, 1, 1.5, 2.25, 3, 6.5, 20]


def attention(q, k, v, scale=2**-0.5, bias=0, mask=True):
    """jax.nn.dot_product_attention, which itself takes the softmax in f32."""
    logits = jnp.einsum("bthd,bshd->bhts", q, k) * scale + bias
    return jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(jnp.where(mask, logits, -jnp.inf)), v)


def clipped(x):
    return jnp.clip(abs(x) / 8, 0.01, 0.99)


FUNCTIONS_OF_FLOATS = {
    **{name: getattr(jax.nn, name) for name in (
        "sigmoid", "relu", "relu6", "leaky_relu", "elu", "selu", "celu", "silu", "mish", "softplus", "squareplus",
        "sparse_plus", "sparse_sigmoid", "log_sigmoid", "soft_sign", "hard_tanh", "hard_sigmoid", "hard_silu", "softmax",
        "log_softmax", "logsumexp", "logmeanexp", "glu", "standardize")},
    "leaky_relu 0.3": lambda x: jax.nn.leaky_relu(x, 0.3), "elu 0.7": lambda x: jax.nn.elu(x, 0.7),
    "celu 0.7": lambda x: jax.nn.celu(x, 0.7), "gelu": jax.nn.gelu, "squareplus 1": lambda x: jax.nn.squareplus(x, 1),
    "gelu exact": lambda x: jax.nn.gelu(x, approximate=False),
    "log1mexp": lambda x: jax.nn.log1mexp(abs(x) + 0.25),
    "softmax 0": lambda x: jax.nn.softmax(x, axis=0), "softmax all": lambda x: jax.nn.softmax(x, axis=(0, 1)),
    "log_softmax 0": lambda x: jax.nn.log_softmax(x, axis=0), "glu 0": lambda x: jax.nn.glu(x, axis=0),
    "logsumexp 0": lambda x: jax.nn.logsumexp(x, axis=0),
    "logsumexp keepdims": lambda x: jax.nn.logsumexp(x, axis=1, keepdims=True),
    "logmeanexp 1": lambda x: jax.nn.logmeanexp(x, axis=1), "standardize 0": lambda x: jax.nn.standardize(x, axis=0),
    "sigmoid_binary_cross_entropy": lambda x: -clipped(x[::-1, ::-1]) * jax.nn.log_sigmoid(x)
    - (1 - clipped(x[::-1, ::-1])) * jax.nn.log_sigmoid(-x),
    "softmax_cross_entropy": lambda x: -jnp.sum(clipped(x[::-1, ::-1]) * jax.nn.log_softmax(x), axis=-1),
    "attention": lambda x: attention(
        x.reshape(1, 4, 2, 2), x[::-1, ::-1].reshape(1, 4, 2, 2), x.reshape(1, 4, 2, 2)),
    "attention causal": lambda x: attention(
        *[x.reshape(1, 4, 2, 2) / 4] * 3, scale=0.5, mask=jnp.tril(jnp.ones((4, 4), bool))),
    "attention grouped": lambda x: attention(
        x.reshape(1, 4, 2, 2), *[x[:2].reshape(1, 4, 1, 2).repeat(2, axis=2)] * 2, bias=x,
        mask=~jnp.eye(4, dtype=bool))[0],
    "mean": jnp.mean, "mean 0": lambda x: jnp.mean(x, axis=0), "var": jnp.var, "var 1": lambda x: jnp.var(x, axis=1),
    "var ddof": lambda x: jnp.var(x, axis=0, ddof=1, keepdims=True), "std": jnp.std,
    "std 0": lambda x: jnp.std(x, axis=0), "ptp 1": lambda x: jnp.ptp(x, axis=1),
    "average": jnp.average, "average weights": lambda x: jnp.average(x, weights=clipped(x[::-1, ::-1])),
    "average axis": lambda x: jnp.average(x, weights=jnp.array([1.0, 2, 3, 4]), axis=0),
    "trace": jnp.trace, "trace 1": lambda x: jnp.trace(x, offset=1), "trace -2": lambda x: jnp.trace(x, offset=-2),
    "deg2rad": jnp.deg2rad, "rad2deg": jnp.rad2deg, "float_power": lambda x: jnp.float_power(abs(x), x[::-1, ::-1]),
    "divmod 0": lambda x: jnp.divmod(x, clipped(x))[0], "divmod 1": lambda x: jnp.divmod(x, clipped(x))[1],
    "clip": lambda x: jnp.clip(x, -1, 2), "angle": lambda x: jnp.angle(x + 1j * x[::-1, ::-1]),
    "norm": jnp.linalg.norm, "norm 1": lambda x: jnp.linalg.norm(x, ord=1), "norm fro": lambda x: jnp.linalg.norm(x, "fro"),
    "norm inf": lambda x: jnp.linalg.norm(x, ord=jnp.inf), "norm -1": lambda x: jnp.linalg.norm(x, ord=-1),
    "norm -inf": lambda x: jnp.linalg.norm(x, ord=-jnp.inf),
    "vector norm 0": lambda x: jnp.linalg.norm(x, ord=0, axis=1), "vector norm 1": lambda x: jnp.linalg.norm(x, ord=1, axis=1),
    "vector norm 2": lambda x: jnp.linalg.norm(x, axis=0), "vector norm 3": lambda x: jnp.linalg.norm(x, ord=3, axis=1),
    "vector norm inf": lambda x: jnp.linalg.norm(x, ord=jnp.inf, axis=0, keepdims=True),
    "vector norm -inf": lambda x: jnp.linalg.norm(x, ord=-jnp.inf, axis=0),
    "inner": lambda x: jnp.inner(x, x[::-1, ::-1]), "outer": lambda x: jnp.outer(x, x[0]),
    "vdot": lambda x: jnp.vdot(x, x[::-1, ::-1]), "vecdot": lambda x: jnp.vecdot(x, x[::-1, ::-1]),
    "vecdot 0": lambda x: jnp.vecdot(x, x[::-1, ::-1], axis=0), "tensordot 1": lambda x: jnp.tensordot(x, x, 1),
    "tensordot": lambda x: jnp.tensordot(x, x[::-1, ::-1]), "tensordot 0": lambda x: jnp.tensordot(x[0], x, 0),
    "tensordot axes": lambda x: jnp.tensordot(x, x[::-1, ::-1], ((0, 1), (1, 0))), "kron": lambda x: jnp.kron(x[:2], x[0]),
}


def functions():
    jax.config.update("jax_enable_x64", True)
    x = jnp.array(VALUES).reshape(4, 4)
    for name, function in FUNCTIONS_OF_FLOATS.items():
        result = np.asarray(function(x))
        elements = ", ".join(repr(float(value)) for value in result.ravel())
        yield f'{{"{name}", {ints(result.shape)}, {{{elements}}}}},'
    jax.config.update("jax_enable_x64", False)


for table in (binary, unary, reductions, indexing, products, einsum, functions):
    write(table.__name__, table())
