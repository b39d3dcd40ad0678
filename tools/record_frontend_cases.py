#!/usr/bin/env python3
"""Records what NumPy and JAX do as tables for the tests of src/frontend: run it in the root of the repository.

Needs numpy and jax (0.10). Writes src/frontend/testdata/{binary,unary,reductions,indexing,products}.inc.
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
    """Complex numbers have no order and no powers in Shoal, and powers of numbers are weak there as all else is."""
    if op == "power" and {left, right} & set(SCALARS):
        return False
    return op not in ("<", "maximum", "power") or not {left, right} & {"complex64", "i"}


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


for table in (binary, unary, reductions, indexing, products):
    write(table.__name__, table())
