#!/usr/bin/env python3
"""Records what NumPy and JAX do as tables for the tests of src/frontend: run it in the root of the repository.

Needs numpy and jax (0.12). Writes src/frontend/testdata/{binary,unary,reductions,indexing,products,movement,items,einsum,
functions,linalg,convolution,statistics,calculus}.inc, or those that are named as arguments.
"""

import itertools
import re
import sys
import warnings

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

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
            yield f'{{"{op}", "{left}", "{right}", {outcome(function, operand(left), operand(right))}}},'


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
                    listed = "none" if axes is None else f"RecordedAxes{ints(axes)}"
                    yield f'{{"{name}", "{dtype}", {listed}, {"true" if keepdims else "false"}, {text(result)}}},'


# ---- Basic indexing of arange(24) in shape (2, 3, 4): {index in Python, index in C++, repr of the result}.

INDICES = """
0 | -1 | 1, 2 | 1, -1, 0 | : | ..., | ..., 0 | 0, ... | ..., 1:3 | 0, ..., 0 | 0, 1, 2, ... | None, | ..., None
None, 0, None, 1:2 | 1: | :1 | 0:2, 1:3, 2:4 | :, ::2 | :, :, ::3 | :, :, 1::2 | -1: | :, -2: | :, :-1 | :, -3:-1
5: | 2:1 | :, 1:1 | :, 0:100 | :, -100:2 | 0, 1: , ... | :, 0 | :, :, 0 | 1:2, 0, None, ::2 | :, 2:0
::-1 | ..., ::-1 | ..., 3:0:-1 | ..., 3:0:-2 | ..., ::-2 | :, 1::-1, ::-3 | ..., :1:-1 | ..., 1:3:-1 | ..., 100:-100:-1
..., -100:100:-1 | ..., -1:-3:-1 | 1, ::-1, 0 | ::-5 | None, ::-1, ..., 2:0:-1 | ..., ::100 | ..., 1::-100
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


# ---- Functions that move elements: {Python, function of x in C++, repr of the result}. x is arange(24) in shape
# (2, 3, 4). The two are the same expression but for what Python and C++ write in different ways.

MOVEMENT = """
concatenate([x, x[:1]]) | concatenate({x, x[range(0, 1)]})
concatenate([x, x + 100, x], axis=1) | concatenate({x, x + 100, x}, 1)
concatenate([x[..., :1], x * 0.5], axis=-1) | concatenate({x[{ellipsis, range(0, 1)}], x * 0.5}, -1)
concatenate([x]) | concatenate({x})
concatenate([x[:, :0], x], axis=1) | concatenate({x[{range(), range(0, 0)}], x}, 1)
stack([x, x]) | stack({x, x})
stack([x[0, 0], x[1, 1] * 1.5], axis=1) | stack({x[{0, 0}], x[{1, 1}] * 1.5}, 1)
stack([x[0], x[1]], axis=-1) | stack({x[0], x[1]}, -1)
stack([1, 2.5]) | stack({1, 2.5})
hstack([x, x[:, :1]]) | hstack({x, x[{range(), range(0, 1)}]})
hstack([x[0, 0], x[1, 0]]) | hstack({x[{0, 0}], x[{1, 0}]})
hstack([1, 2]) | hstack({1, 2})
vstack([x[0, 0], x[0]]) | vstack({x[{0, 0}], x[0]})
vstack([1, 2]) | vstack({1, 2})
split(x, 2)[1] | split(x, 2)[1]
split(x, 3, axis=1)[2] | split(x, 3, 1)[2]
split(x, [1, 1, 3], axis=-1)[0] | split(x, {1, 1, 3}, -1)[0]
split(x, [1, 1, 3], axis=-1)[1] | split(x, {1, 1, 3}, -1)[1]
split(x, [1, 1, 3], axis=-1)[2] | split(x, {1, 1, 3}, -1)[2]
split(x, [1, 1, 3], axis=-1)[3] | split(x, {1, 1, 3}, -1)[3]
split(x, [1])[1] | split(x, {1})[1]
array_split(x, 3, axis=2)[0] | array_split(x, 3, 2)[0]
array_split(x, 3, axis=2)[2] | array_split(x, 3, 2)[2]
array_split(x, 3)[2] | array_split(x, 3)[2]
tile(x[0], 2) | tile(x[0], 2)
tile(x, (2, 1, 1)) | tile(x, {2, 1, 1})
tile(x[0], (2, 1, 2)) | tile(x[0], {2, 1, 2})
tile(x, (3, 1)) | tile(x, {3, 1})
tile(x, 0) | tile(x, 0)
tile(5, (2, 2)) | tile(5, {2, 2})
repeat(x, 2) | repeat(x, 2)
repeat(x, 2, axis=1) | repeat(x, 2, 1)
repeat(x, 3, axis=-1) | repeat(x, 3, -1)
repeat(x, 0, axis=0) | repeat(x, 0, 0)
repeat(7, 3) | repeat(7, 3)
roll(x, 1) | roll(x, 1)
roll(x, -5) | roll(x, -5)
roll(x, 1, axis=2) | roll(x, 1, 2)
roll(x, -9, axis=1) | roll(x, -9, 1)
roll(x, 3, axis=1) | roll(x, 3, 1)
roll(x, (1, 2), axis=(0, -1)) | roll(x, {1, 2}, {0, -1})
roll(x, 1, axis=(1, 2)) | roll(x, 1, {1, 2})
roll(x, (1, 2), axis=2) | roll(x, {1, 2}, 2)
roll(x, (1, 1), axis=(2, 2)) | roll(x, {1, 1}, {2, 2})
roll(x[:0], 1, axis=0) | roll(x[range(0, 0)], 1, 0)
flip(x) | flip(x)
flip(x, 1) | flip(x, 1)
flip(x, (0, -1)) | flip(x, {0, -1})
swapaxes(x, 0, -1) | swapaxes(x, 0, -1)
swapaxes(x, 1, 1) | swapaxes(x, 1, 1)
moveaxis(x, 0, -1) | moveaxis(x, 0, -1)
moveaxis(x, -1, 0) | moveaxis(x, -1, 0)
moveaxis(x, (0, 1), (-1, 0)) | moveaxis(x, {0, 1}, {-1, 0})
moveaxis(x, (2, 0), (0, 1)) | moveaxis(x, {2, 0}, {0, 1})
expand_dims(x, 1) | expand_dims(x, 1)
expand_dims(x, (0, -1)) | expand_dims(x, {0, -1})
squeeze(x[:1], 0) | squeeze(x[range(0, 1)], 0)
ravel(x) | ravel(x)
broadcast_arrays(x[0], x[1, :, :1])[1] | broadcast_arrays({x[0], x[{1, range(), range(0, 1)}]})[1]
broadcast_arrays(2.5, x[0, 0])[0] | broadcast_arrays({2.5, x[{0, 0}]})[0]
tril(x) | tril(x)
tril(x, 1) | tril(x, 1)
tril(x, -1) | tril(x, -1)
tril(x, 100) | tril(x, 100)
triu(x) | triu(x)
triu(x, 2) | triu(x, 2)
triu(x, -1) | triu(x, -1)
triu(x, -100) | triu(x, -100)
triu(x == x) | triu(x == x)
diag(x[0]) | diag(x[0])
diag(x[0], 2) | diag(x[0], 2)
diag(x[0], -1) | diag(x[0], -1)
diag(x[0], 4) | diag(x[0], 4)
diag(x[0], -7) | diag(x[0], -7)
diag(x[0].T, 1) | diag(x[0].T(), 1)
diag(x[0] * 0.0 - 0.0) | diag(x[0] * 0.0 - 0.0)
diag(-x[0] * 0.5) | diag(-x[0] * 0.5)
diag(x[0] > 0) | diag(x[0] > 0)
diag(x[0] * 1j) | diag(x[0] * std::complex<double>(0, 1))
diag(x[0, 0]) | diag(x[{0, 0}])
diag(x[0, 0, 1:3], 1) | diag(x[{0, 0, range(1, 3)}], 1)
diag(x[0, 0, 1:3] * 1.5, -2) | diag(x[{0, 0, range(1, 3)}] * 1.5, -2)
diag(x[0, :0]) | diag(x[{0, range(0, 0)}])
pad(x[0], 1) | pad(x[0], 1)
pad(x[0], ((1, 2), (0, 1))) | pad(x[0], {{1, 2}, {0, 1}})
pad(x[0, 0], (1, 2), constant_values=1.7) | pad(x[{0, 0}], {{1, 2}}, {.constant_values = 1.7})
pad(x[0] * 0.5, 1, constant_values=x[0, 0, 1]) | pad(x[0] * 0.5, 1, {.constant_values = x[{0, 0, 1}]})
pad(x[0], ((2, 1), (0, 3)), mode="edge") | pad(x[0], {{2, 1}, {0, 3}}, {.mode = "edge"})
pad(x[0], ((2, 1), (1, 3)), mode="reflect") | pad(x[0], {{2, 1}, {1, 3}}, {.mode = "reflect"})
pad(x[0, 0, :3], 5, mode="reflect") | pad(x[{0, 0, range(0, 3)}], 5, {.mode = "reflect"})
pad(x[0, 0, 1:2], 3, mode="reflect") | pad(x[{0, 0, range(1, 2)}], 3, {.mode = "reflect"})
pad(x[0, 0, :3], 7, mode="symmetric") | pad(x[{0, 0, range(0, 3)}], 7, {.mode = "symmetric"})
pad(x[0], ((1, 1), (0, 2)), mode="wrap") | pad(x[0], {{1, 1}, {0, 2}}, {.mode = "wrap"})
pad(x[0, 0, :3], 7, mode="wrap") | pad(x[{0, 0, range(0, 3)}], 7, {.mode = "wrap"})
pad(x, 0, mode="wrap") | pad(x, 0, {.mode = "wrap"})
zeros_like(x) | zeros_like(x)
zeros_like(x, dtype="float16") | zeros_like(x, {.dtype = float16})
ones_like(x * 0.5) | ones_like(x * 0.5)
ones_like(x > 0) | ones_like(x > 0)
full_like(x[0, 0], 2.5) | full_like(x[{0, 0}], 2.5)
full_like(x[0, 0], 2.5, dtype="float32") | full_like(x[{0, 0}], 2.5, {.dtype = float32})
zeros_like(2.5) | zeros_like(2.5)
meshgrid(x[0, 0, :2], x[0, 0])[0] | meshgrid({x[{0, 0, range(0, 2)}], x[{0, 0}]})[0]
meshgrid(x[0, 0, :2], x[0, 0])[1] | meshgrid({x[{0, 0, range(0, 2)}], x[{0, 0}]})[1]
meshgrid(x[0, 0, :2], x[0, 0], x[0, :, 0])[2] | meshgrid({x[{0, 0, range(0, 2)}], x[{0, 0}], x[{0, range(), 0}]})[2]
meshgrid(x[0, 0, :2], x[0, 0], indexing="ij")[0] | meshgrid({x[{0, 0, range(0, 2)}], x[{0, 0}]}, {.indexing = "ij"})[0]
meshgrid(x[0, 0, :2], x[0, 0], sparse=True)[1] | meshgrid({x[{0, 0, range(0, 2)}], x[{0, 0}]}, {.sparse = true})[1]
meshgrid(x[0, 0])[0] | meshgrid({x[{0, 0}]})[0]
linspace(0, 1, 5) | linspace(0, 1, 5)
linspace(0, 10, 4, dtype="int32") | linspace(0, 10, 4, {.dtype = int32})
linspace(0, -1, 3, dtype="int32") | linspace(0, -1, 3, {.dtype = int32})
linspace(0, 10, 4, endpoint=False) | linspace(0, 10, 4, {.endpoint = false})
linspace(0.5, 10, 1) | linspace(0.5, 10, 1)
linspace(0, 10, 0) | linspace(0, 10, 0)
linspace(x[0, 0], 10, 3, axis=1) | linspace(x[{0, 0}], 10, 3, {.axis = 1})
linspace(x[0, 0], x[1], 3, axis=-1) | linspace(x[{0, 0}], x[1], 3, {.axis = -1})
eye(3) | eye(3)
eye(2, 4, 1, dtype="int8") | eye(2, {.m = 4, .k = 1, .dtype = int8})
eye(4, 2, -1) | eye(4, {.m = 2, .k = -1})
eye(0, 2) | eye(0, {.m = 2})
identity(2, dtype="bool") | identity(2, {.dtype = bool_})
nn.one_hot(x[0, 0, ::2], 3) | nn::one_hot(x[{0, 0, range(none, none, 2)}], 3)
nn.one_hot(x[0, :, :2] - 1, 3, axis=0, dtype="int32") | nn::one_hot(x[{0, range(), range(0, 2)}] - 1, 3, {.dtype = int32, .axis = 0})
nn.one_hot(x[0, 0] * 0.5, 2) | nn::one_hot(x[{0, 0}] * 0.5, 2)
nn.one_hot(x[0, 0].astype("uint8"), 3) | nn::one_hot(x[{0, 0}].astype(uint8), 3)
lax.slice(x, (0, 1, 1), (2, 3, 4), (1, 2, 2)) | lax::slice(x, {0, 1, 1}, {2, 3, 4}, Dims{1, 2, 2})
lax.slice(x, (0, 1, 1), (1, 1, 4)) | lax::slice(x, {0, 1, 1}, {1, 1, 4})
lax.slice_in_dim(x, 1, None, axis=1) | lax::slice_in_dim(x, 1, none, 1, 1)
lax.slice_in_dim(x, -3, -1, stride=2, axis=-1) | lax::slice_in_dim(x, -3, -1, 2, -1)
lax.dynamic_slice(x, (1, 0, 2), (1, 3, 2)) | lax::dynamic_slice(x, {1, 0, 2}, {1, 3, 2})
lax.dynamic_slice(x, (-1, 100, -100), (1, 2, 3)) | lax::dynamic_slice(x, {-1, 100, -100}, {1, 2, 3})
lax.dynamic_slice(x, tuple(x[0, 0, 1:]), (1, 2, 3)) | lax::dynamic_slice(x, {x[{0, 0, 1}], x[{0, 0, 2}], x[{0, 0, 3}]}, {1, 2, 3})
lax.dynamic_slice_in_dim(x, -x[0, 0, 2], 2, axis=2) | lax::dynamic_slice_in_dim(x, -x[{0, 0, 2}], 2, 2)
lax.dynamic_slice_in_dim(x, x[0, 0, 1].astype("uint8"), 2, axis=2) | lax::dynamic_slice_in_dim(x, x[{0, 0, 1}].astype(uint8), 2, 2)
lax.dynamic_slice_in_dim(x, (-x[0, 0, 1]).astype("int8"), 1, axis=1) | lax::dynamic_slice_in_dim(x, (-x[{0, 0, 1}]).astype(int8), 1, 1)
lax.dynamic_index_in_dim(x, 1, axis=1) | lax::dynamic_index_in_dim(x, 1, 1)
lax.dynamic_index_in_dim(x, -1, axis=-1, keepdims=False) | lax::dynamic_index_in_dim(x, -1, -1, false)
lax.dynamic_update_slice(x, -x[:1, :2, :3], (1, 1, 2)) | lax::dynamic_update_slice(x, -x[{range(0, 1), range(0, 2), range(0, 3)}], {1, 1, 2})
lax.dynamic_update_slice_in_dim(x, -x[:, :1], x[0, 0, 1], axis=1) | lax::dynamic_update_slice_in_dim(x, -x[{range(), range(0, 1)}], x[{0, 0, 1}], 1)
lax.dynamic_update_index_in_dim(x, -x[0], -1, axis=0) | lax::dynamic_update_index_in_dim(x, -x[0], -1, 0)
lax.pad(x[0], 9, [(1, 0, 2), (0, 2, 0)]) | lax::pad(x[0], 9, {{1, 0, 2}, {0, 2}})
lax.pad(x[0], 9, [(-1, 1, 0), (0, -2, 1)]) | lax::pad(x[0], 9, {{-1, 1, 0}, {0, -2, 1}})
lax.pad(x[0] * 0.5, 2.5, [(0, 0, 0), (2, 1, 0)]) | lax::pad(x[0] * 0.5, 2.5, {{}, {2, 1, 0}})
lax.rev(x, (0, 2)) | lax::rev(x, {0, 2})
lax.concatenate([x, x[:, :1]], 1) | lax::concatenate({x, x[{range(), range(0, 1)}]}, 1)
lax.iota("int8", 5) | lax::iota(int8, 5)
lax.broadcasted_iota("float32", (2, 3), 1) | lax::broadcasted_iota(float32, {2, 3}, 1)
lax.broadcast_in_dim(x[0], (3, 2, 4), (0, 2)) | lax::broadcast_in_dim(x[0], {3, 2, 4}, {0, 2})
lax.reshape(x, (4, 6)) | lax::reshape(x, {4, 6})
lax.transpose(x, (2, 0, 1)) | lax::transpose(x, {2, 0, 1})
lax.bitcast_convert_type(x[0] * 0.5, "int32") | lax::bitcast_convert_type(x[0] * 0.5, int32)
lax.bitcast_convert_type(x[0, 0], "uint8") | lax::bitcast_convert_type(x[{0, 0}], uint8)
lax.bitcast_convert_type(x[0, :, ::2].astype("int16"), "int32") | lax::bitcast_convert_type(x[{0, range(), range(none, none, 2)}].astype(int16), int32)
"""


def movement():
    scope = {name: getattr(jnp, name) for name in dir(jnp)} | {"lax": jax.lax, "nn": jax.nn}
    scope["x"] = jnp.arange(24, dtype=jnp.int32).reshape(2, 3, 4)
    for line in MOVEMENT.strip().split("\n"):
        python, cpp = (part.strip() for part in line.split(" | "))
        result = eval(python, scope)
        quoted = python.replace('"', "'")
        yield f'{{"{quoted}", MOVED({cpp}), {text(result)}}},'


# ---- Items and order: {expression in Python, the same in C++ as a function, repr of the result}.

X = jnp.arange(60, dtype=jnp.int32).reshape(3, 4, 5)
A = jnp.array([0, 2, -1])
B = jnp.array([[1], [3]])
C = jnp.array([0, 2])
FAR = jnp.array([0, -1, -6, 7])
Y = jnp.array([1, jnp.nan, 0, 2, -jnp.inf, 2, jnp.nan, -3], jnp.float32)
Z = jnp.array([[3, 1, 3, 2], [0, 5, 5, -1]], jnp.int32)
NAMES = {"X": X, "A": A, "B": B, "C": C, "FAR": FAR, "Y": Y, "Z": Z, "V": jnp.arange(5, dtype=jnp.float32)}

ADVANCED = """
A | :, A | ..., A | A, A | A, :, A | :, A, B | A, :, B | 0, :, A | :, 1, A | :, A, 0 | None, A, :, None, B | A, None, A
A, 1:3 | 1:, A | 1:, A, ::2 | ::2, :, B | 1:2, B, 1:3 | B, B, B | B, ..., A | A[0] | A[0], A | :, A[1], 2 | X > 30
:, X[0] > 7 | X[:, 0, 0] > 10 | X[:, 0, 0] > 10, 1 | X[:, 0, 0] >= 0, :, A | A > 0, :, B | X[:, :, 0] > 30, 1:3
"""


def cpp_entry(entry):
    if entry in ("...", "None") or ":" in entry and ">" not in entry:
        return cpp_index(entry)[1:-1]
    entry = entry.replace("[:, 0, 0]", "[{range(), 0, 0}]").replace("[:, :, 0]", "[{range(), range(), 0}]")
    return entry


def entries_of(index):
    """The entries of an index, split at the commas outside brackets."""
    return [part.strip() for part in re.split(r",(?![^\[]*\])", index)]


def cpp_list(index):
    return ", ".join(cpp_entry(entry) for entry in entries_of(index))


UPDATES = [
    ("1", "7"), (":, 2", "7"), ("1:3", "7"), (":, ::2, 1:3", "7"), ("...", "7"), ("A", "7"), ("C", "X[:2]"),
    (":, C", "X[:, :2]"), ("..., A", "A"), ("A, A", "X[0, :3]"), ("A, :, A", "X[0, :3, :4]"), (":, A, B", "B"),
    ("1:, A, ::2", "X[1, 1, :3]"), ("None, 1, ::3", "X[:1, :2]"), ("X > 30", "7"), ("X[:, 0, 0] > 10", "X[0]"),
    ("FAR, 0", "7"), (":, FAR", "7"), ("1:1", "7"), ("0, 1, 2", "7"), ("A[0], 1", "7"),
]
METHODS = ["set", "add", "subtract", "multiply", "min", "max"]

EXPRESSIONS = [
    ("Y.at[A].divide(2)", "Y.at(A).divide(2)"), ("Y.at[A].power(3)", "Y.at(A).power(3)"),
    ("V.at[jnp.array([1, 1, 2])].add(1)", "V.at(array({1, 1, 2})).add(1)"),
    ("V.at[jnp.array([1, 1, 2])].multiply(3)", "V.at(array({1, 1, 2})).multiply(3)"),
    ("V.at[jnp.array([1, 1, 2])].divide(2)", "V.at(array({1, 1, 2})).divide(2)"),
    ("V.at[jnp.array([1, 1, 2])].max(jnp.array([5., 9., 0.]))", "V.at(array({1, 1, 2})).max(array({5., 9., 0.}))"),
    ("V.at[1:3].apply(jnp.sqrt)", "V.at(range(1, 3)).apply([](const Array& v) { return sqrt(v); })"),
    ("V.at[FAR].get()", "V.at(FAR).get()"), ("V[FAR]", "V[FAR]"),
    ("V.at[FAR].get(mode='fill')", "V.at(FAR).get({.mode = IndexMode::kFill})"),
    ("V.at[FAR].get(mode='fill', fill_value=9)", "V.at(FAR).get({.mode = IndexMode::kFill, .fill_value = 9})"),
    ("X.at[FAR, 0].get(mode='fill')", "X.at(FAR, 0).get({.mode = IndexMode::kFill})"),
    ("V.at[FAR].set(9)", "V.at(FAR).set(9)"), ("V.at[FAR].set(9, mode='clip')", "V.at(FAR).set(9, {.mode = IndexMode::kClip})"),
    ("V.at[FAR].add(9, mode='clip')", "V.at(FAR).add(9, {.mode = IndexMode::kClip})"),
    ("jnp.take(V, FAR)", "take(V, FAR)"), ("jnp.take(V, FAR, mode='clip')", "take(V, FAR, {.mode = IndexMode::kClip})"),
    ("jnp.take(V, FAR, mode='wrap')", "take(V, FAR, {.mode = IndexMode::kWrap})"),
    ("jnp.take(X, FAR, axis=1)", "take(X, FAR, {.axis = 1})"), ("jnp.take(X, B, axis=-1)", "take(X, B, {.axis = -1})"),
    ("jnp.take(X, B)", "take(X, B)"), ("jnp.take(X, 2, axis=0)", "take(X, 2, {.axis = 0})"),
    ("jnp.take(V.astype(jnp.uint8), FAR)", "take(V.astype(uint8), FAR)"), ("jnp.take(V > 2, FAR)", "take(V > 2, FAR)"),
    ("jnp.take_along_axis(Z, jnp.array([[0, 3], [1, -2]]), 1)", "take_along_axis(Z, array({{0, 3}, {1, -2}}), 1)"),
    ("jnp.take_along_axis(Z, jnp.array([[0, 1, 1, 0]]), 0)", "take_along_axis(Z, array({{0, 1, 1, 0}}), 0)"),
    ("jnp.take_along_axis(V, FAR, 0)", "take_along_axis(V, FAR, 0)"),
    ("jnp.take_along_axis(Z, jnp.array([[2, 9]]), -1)", "take_along_axis(Z, array({{2, 9}}), -1)"),
    ("jnp.put_along_axis(Z, jnp.array([[0, 3], [1, -2]]), 9, 1, inplace=False)",
     "put_along_axis(Z, array({{0, 3}, {1, -2}}), 9, 1)"),
    ("jnp.put_along_axis(Z, jnp.array([[1, 7]]), jnp.array([8, 9]), 1, inplace=False)",
     "put_along_axis(Z, array({{1, 7}}), array({8, 9}), 1)"),
    ("jnp.sort(Y)", "sort(Y)"), ("jnp.sort(Y, descending=True)", "sort(Y, {.descending = true})"),
    ("jnp.argsort(Y)", "argsort(Y)"), ("jnp.argsort(Y, descending=True)", "argsort(Y, {.descending = true})"),
    ("jnp.sort(Z)", "sort(Z)"), ("jnp.sort(Z, axis=0)", "sort(Z, {.axis = 0})"),
    ("jnp.sort(Z, axis=None)", "sort(Z, {.axis = {}})"), ("jnp.argsort(Z)", "argsort(Z)"),
    ("jnp.argsort(Z, axis=0)", "argsort(Z, {.axis = 0})"), ("jnp.argsort(Z, axis=None)", "argsort(Z, {.axis = {}})"),
    ("jnp.lexsort((Z[1], Z[0]))", "lexsort({Z[1], Z[0]})"), ("jnp.lexsort((Z,), axis=0)", "lexsort({Z}, 0)"),
    ("lax.sort((Z[1], Z[0]), num_keys=2)[1]", "lax::sort({Z[1], Z[0]}, {.num_keys = 2})[1]"),
    ("lax.sort((Z, -Z), dimension=0)[1]", "lax::sort({Z, -Z}, {.dimension = 0})[1]"),
    ("lax.top_k(Y, 4)[0]", "lax::top_k(Y, 4).first"), ("lax.top_k(Y, 4)[1]", "lax::top_k(Y, 4).second"),
    ("lax.top_k(Z, 2)[1]", "lax::top_k(Z, 2).second"), ("lax.top_k(Z, 1, axis=0)[0]", "lax::top_k(Z, 1, 0).first"),
    ("jnp.argmax(Y)", "argmax(Y)"), ("jnp.argmin(Y)", "argmin(Y)"), ("jnp.argmax(Z)", "argmax(Z)"),
    ("jnp.argmin(Z)", "argmin(Z)"), ("jnp.argmax(Z, axis=0)", "argmax(Z, {.axis = 0})"),
    ("jnp.argmax(Z, axis=-1, keepdims=True)", "argmax(Z, {.axis = -1, .keepdims = true})"),
    ("jnp.argmin(Z, axis=1)", "argmin(Z, {.axis = 1})"), ("jnp.argmax(Z, keepdims=True)", "argmax(Z, {.keepdims = true})"),
    ("jnp.argmax(Z > 2, axis=1)", "argmax(Z > 2, {.axis = 1})"), ("jnp.argmin(Y[2:6])", "argmin(Y[range(2, 6)])"),
    ("jnp.searchsorted(jnp.array([1, 2, 2, 3]), Z)", "searchsorted(array({1, 2, 2, 3}), Z)"),
    ("jnp.searchsorted(jnp.array([1, 2, 2, 3]), Z, side='right')",
     "searchsorted(array({1, 2, 2, 3}), Z, {.side = Side::kRight})"),
    ("jnp.searchsorted(jnp.sort(Y), Y)", "searchsorted(sort(Y), Y)"),
    ("jnp.searchsorted(jnp.sort(Y), Y, side='right')", "searchsorted(sort(Y), Y, {.side = Side::kRight})"),
    ("jnp.searchsorted(V, 2.5)", "searchsorted(V, 2.5)"), ("jnp.searchsorted(V[:0], V)", "searchsorted(V[range(0, 0)], V)"),
    ("jnp.nonzero(Z > 1)[0]", "nonzero(Z > 1)[0]"), ("jnp.nonzero(Z)[1]", "nonzero(Z)[1]"),
    ("jnp.nonzero(Z, size=9, fill_value=-1)[1]", "nonzero(Z, {.size = 9, .fill_value = -1})[1]"),
    ("jnp.nonzero(Z > 1, size=2)[0]", "nonzero(Z > 1, {.size = 2})[0]"), ("jnp.flatnonzero(Y > 0)", "flatnonzero(Y > 0)"),
    ("jnp.flatnonzero(Z, size=3)", "flatnonzero(Z, {.size = 3})"),
    ("jnp.bincount(jnp.array([0, 1, 1, 5]))", "bincount(array({0, 1, 1, 5}))"),
    ("jnp.bincount(jnp.array([0, 1, 1, 5, -1]), length=3)", "bincount(array({0, 1, 1, 5, -1}), {.length = 3})"),
    ("jnp.bincount(jnp.array([0, 1, 1]), weights=V[:3])", "bincount(array({0, 1, 1}), {.weights = V[range(0, 3)]})"),
    ("jnp.bincount(jnp.array([0]), minlength=3)", "bincount(array({0}), {.minlength = 3})"),
    ("jax.ops.segment_sum(V, jnp.array([0, 0, 2, 2, 9]), 4)", "ops::segment_sum(V, array({0, 0, 2, 2, 9}), 4)"),
    ("jax.ops.segment_sum(V, jnp.array([0, 0, 2, 2, -1]))", "ops::segment_sum(V, array({0, 0, 2, 2, -1}))"),
    ("jax.ops.segment_prod(X, jnp.array([1, 1, 0]), 3)", "ops::segment_prod(X, array({1, 1, 0}), 3)"),
    ("jax.ops.segment_max(V, jnp.array([0, 0, 2, 2, 9]), 3)", "ops::segment_max(V, array({0, 0, 2, 2, 9}), 3)"),
    ("jax.ops.segment_min(X, jnp.array([1, 1, 0]), 3)", "ops::segment_min(X, array({1, 1, 0}), 3)"),
    ("jnp.cumsum(Z)", "cumsum(Z)"), ("jnp.cumsum(Z, axis=1)", "cumsum(Z, {.axis = 1})"),
    ("jnp.cumsum(Z > 2, axis=0)", "cumsum(Z > 2, {.axis = 0})"),
    ("jnp.cumsum(Z, axis=0, dtype=jnp.float32)", "cumsum(Z, {.axis = 0, .dtype = float32})"),
    ("jnp.cumprod(Z, axis=-1)", "cumprod(Z, {.axis = -1})"), ("jnp.cumsum(Z.astype(jnp.int8))", "cumsum(Z.astype(int8))"),
    ("lax.cumsum(Z, 1, reverse=True)", "lax::cumsum(Z, 1, true)"), ("lax.cumprod(Z, 0)", "lax::cumprod(Z, 0)"),
    ("lax.cummax(Y)", "lax::cummax(Y)"), ("lax.cummin(Z, 1)", "lax::cummin(Z, 1)"),
    ("lax.cummax(Z, 1, reverse=True)", "lax::cummax(Z, 1, true)"),
]


GATHERS = [  # Numbers, slice sizes and indices of gathers from X; the others are scatters to it of a part of X.
    (dict(offset_dims=(1, 2), collapsed_slice_dims=(0,), start_index_map=(0,)), (1, 4, 5), [[0], [2], [5], [-1]]),
    (dict(offset_dims=(0, 2, 3), collapsed_slice_dims=(), start_index_map=(1, 2)), (3, 2, 3),
     [[0, 0], [2, 1], [3, 0], [-1, 2]]),
    (dict(offset_dims=(1,), collapsed_slice_dims=(0, 1), start_index_map=(1, 0)), (1, 1, 2), [[0, 0], [3, 2], [1, 7]]),
    (dict(offset_dims=(1,), collapsed_slice_dims=(1,), start_index_map=(1,), operand_batching_dims=(0,),
          start_indices_batching_dims=(0,)), (1, 1, 5), [[1], [9], [3]]),
]
SCATTERS = [
    (dict(update_window_dims=(1, 2), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,)), [[0], [2], [5]],
     "X[:, :, :]", "X"),
    (dict(update_window_dims=(0, 2, 3), inserted_window_dims=(), scatter_dims_to_operand_dims=(1, 2)),
     [[0, 0], [2, 1], [3, 0], [-1, 2]], "jnp.ones((3, 4, 2, 3), int)", "ones({3, 4, 2, 3}, {.dtype = int32})"),
    (dict(update_window_dims=(1,), inserted_window_dims=(1,), scatter_dims_to_operand_dims=(1,),
          operand_batching_dims=(0,), scatter_indices_batching_dims=(0,)), [[1], [9], [3]], "X[0, :3]",
     "X[{0, range({}, 3)}]"),
]


def cpp_numbers(numbers):
    return "{" + ", ".join(f".{key} = {ints(value)}" for key, value in numbers.items()) + "}"


def cpp_rows(rows):
    return f"array({ints(value for row in rows for value in row)}).reshape({len(rows)}, {len(rows[0])})"


def windows():
    for numbers, sizes, indices in GATHERS:
        for mode in ("clip", "fill"):
            yield (f"lax.gather(X, jnp.array({indices}), lax.GatherDimensionNumbers(**{numbers}), {sizes}, mode='{mode}')",
                   f"lax::gather(X, {cpp_rows(indices)}, {cpp_numbers(numbers)}, {ints(sizes)}, "
                   f"{{.mode = IndexMode::k{mode.capitalize()}}})")
    for numbers, indices, updates, cpp_updates in SCATTERS:
        for method, mode in itertools.product(["", "_add", "_mul", "_min", "_max"], ["clip", "drop"]):
            if method == "" and mode == "clip" and "(0, 2, 3)" in str(numbers):
                continue  # Windows that overlap replace each other in no certain order.
            yield (f"lax.scatter{method}(X, jnp.array({indices}), {updates}, lax.ScatterDimensionNumbers(**{numbers}), "
                   f"mode='{mode}')",
                   f"lax::scatter{method}(X, {cpp_rows(indices)}, {cpp_updates}, {cpp_numbers(numbers)}, "
                   f"{{.mode = IndexMode::k{mode.capitalize()}}})")


def items():
    indices = [index.strip() for index in re.split(r"[|\n]", ADVANCED.strip())]
    rows = [(f"X[{index}]", f"X[{{{cpp_list(index)}}}]") for index in indices]
    for index, value in UPDATES:
        values = re.sub(r"\[(.*)\]", lambda match: f"[{{{cpp_list(match[1])}}}]", value)
        at = cpp_list(index)
        rows += [(f"X.at[{index}].{method}({value})", f"X.at({at}).{method}({values})") for method in METHODS]
    for python, cpp in rows + EXPRESSIONS + list(windows()):
        result = eval(python, {"jnp": jnp, "jax": jax, "lax": lax, **NAMES})
        yield f'{{"{python}", [] {{ return {cpp}; }}, {text(result)}}},'


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


# ---- Numbers in f64: {expression in Python, function in C++, "dtype shape: elements"}. Where nothing follows a "|",
# Python's text becomes that of C++ by a few rules.


def M(shape, seed=0):
    """As src/frontend/recorded_numbers.h."""
    return jnp.asarray(((np.arange(np.prod(shape, dtype=int)) * 37 + seed * 11) % 23 - 11) / 4).reshape(shape)


def C(shape, seed=0):
    return M(shape, seed) + 1j * M(shape, seed + 1)


def cpp_text(python):
    text = re.sub(r"(?<![\w.])(lax\.linalg|linalg|lax)\.", lambda match: match[1].replace(".", "::") + "::", python)
    text = re.sub(r"\((\d[\d, ]*?),?\)(?=[,)])", r"{\1}", text)
    text = re.sub(r"\.T\b", ".T()", text).replace("jnp.", "").replace("[0]", ".first").replace("[1]", ".second")
    return text.replace("False", "false").replace("True", "true").replace("'", '"')


def element_text(value):
    if np.iscomplexobj(value):
        return f"{float(value.real)!r},{float(value.imag)!r}"
    return repr(float(value))


def numbers(expressions):
    jax.config.update("jax_enable_x64", True)
    scope = {name: getattr(jnp, name) for name in dir(jnp)}
    scope |= {"jnp": jnp, "lax": lax, "linalg": jnp.linalg, "scipy": jax.scipy.linalg, "M": M, "C": C, "np": np}
    for line in expressions.strip().split("\n"):
        python, _, cpp = (part.strip() for part in line.partition(" | "))
        result = np.asarray(eval(python, scope))
        dtype = {"int64": "int32"}.get(str(result.dtype), str(result.dtype))  # Shoal counts in i32.
        elements = " ".join(element_text(value) for value in result.ravel())
        quoted = python.replace('"', "'")
        yield f'{{"{quoted}", [] {{ return Array({cpp or cpp_text(python)}); }}, "{dtype} {result.shape}: {elements}"}},'
    jax.config.update("jax_enable_x64", False)


LINALG = """
linalg.cholesky(M((4, 4)) @ M((4, 4)).T + 3 * eye(4)) | linalg::cholesky(matmul(M({4, 4}), M({4, 4}).T()) + 3 * eye(4))
linalg.cholesky(C((3, 3)) @ C((3, 3)).conj().T + 3 * eye(3), upper=True) | linalg::cholesky(matmul(C({3, 3}), conj(C({3, 3})).T()) + 3 * eye(3), {.upper = true})
linalg.cholesky(M((3, 3)) + 9 * eye(3)) | linalg::cholesky(M({3, 3}) + 9 * eye(3))
lax.linalg.cholesky(M((3, 3)) + 9 * eye(3), symmetrize_input=False) | lax::linalg::cholesky(M({3, 3}) + 9 * eye(3), false)
linalg.cholesky(M((2, 2)) - 5 * eye(2)) | linalg::cholesky(M({2, 2}) - 5 * eye(2))
linalg.cholesky(eye(0)) | linalg::cholesky(eye(0).astype(float64))
lax.linalg.triangular_solve(M((2, 3, 3)), M((2, 4, 3), 1)) | lax::linalg::triangular_solve(M({2, 3, 3}), M({2, 4, 3}, 1))
lax.linalg.triangular_solve(M((3, 3)), M((3, 2), 1), left_side=True, lower=True) | lax::linalg::triangular_solve(M({3, 3}), M({3, 2}, 1), {.left_side = true, .lower = true})
lax.linalg.triangular_solve(C((3, 3)), C((3, 2), 1), left_side=True, lower=True, transpose_a=True) | lax::linalg::triangular_solve(C({3, 3}), C({3, 2}, 1), {.left_side = true, .lower = true, .transpose_a = true})
lax.linalg.triangular_solve(C((3, 3)), C((3, 2), 1), left_side=True, transpose_a=True, conjugate_a=True) | lax::linalg::triangular_solve(C({3, 3}), C({3, 2}, 1), {.left_side = true, .transpose_a = true, .conjugate_a = true})
lax.linalg.triangular_solve(C((3, 3)), C((2, 3), 1), transpose_a=True, conjugate_a=True) | lax::linalg::triangular_solve(C({3, 3}), C({2, 3}, 1), {.transpose_a = true, .conjugate_a = true})
lax.linalg.triangular_solve(C((3, 3)), C((2, 3), 1), conjugate_a=True, lower=True) | lax::linalg::triangular_solve(C({3, 3}), C({2, 3}, 1), {.lower = true, .conjugate_a = true})
lax.linalg.triangular_solve(M((3, 3)), M((2, 3), 1), unit_diagonal=True) | lax::linalg::triangular_solve(M({3, 3}), M({2, 3}, 1), {.unit_diagonal = true})
lax.linalg.triangular_solve(M((2, 3, 3)), M((2, 3), 1)) | lax::linalg::triangular_solve(M({2, 3, 3}), M({2, 3}, 1))
lax.linalg.triangular_solve(M((2, 3, 3)), M((2, 3), 1), left_side=True) | lax::linalg::triangular_solve(M({2, 3, 3}), M({2, 3}, 1), {.left_side = true})
lax.linalg.lu(M((4, 3)))[0] | lax::linalg::lu(M({4, 3})).lu
lax.linalg.lu(C((2, 3, 3)))[1] | lax::linalg::lu(C({2, 3, 3})).pivots
lax.linalg.lu(M((3, 4)))[2] | lax::linalg::lu(M({3, 4})).permutation
lax.linalg.qr(M((4, 3)))[0]
lax.linalg.qr(M((4, 3)))[1]
lax.linalg.qr(M((3, 4)), full_matrices=False)[1] | lax::linalg::qr(M({3, 4}), false).second
linalg.qr(C((2, 4, 3))).Q
linalg.qr(C((2, 4, 3))).R
linalg.qr(M((4, 3)), "complete").Q
linalg.qr(M((4, 3)), "complete").R
linalg.qr(np.array([[1, 2], [3, 4]])).R.astype("float32") | linalg::qr(array({{1, 2}, {3, 4}})).R
abs(lax.linalg.eigh(M((3, 3)))[0]) | abs(lax::linalg::eigh(M({3, 3})).first)
lax.linalg.eigh(M((4, 4)))[1]
lax.linalg.eigh(M((4, 4)), symmetrize_input=False)[1] | lax::linalg::eigh(M({4, 4}), {.symmetrize_input = false}).second
lax.linalg.eigh(M((4, 4)), lower=False, symmetrize_input=False)[1] | lax::linalg::eigh(M({4, 4}), {.lower = false, .symmetrize_input = false}).second
linalg.eigh(C((2, 3, 3))).eigenvalues
abs(linalg.eigh(C((2, 3, 3))).eigenvectors)
linalg.eigh(M((3, 3)), UPLO="U", symmetrize_input=False).eigenvalues | linalg::eigh(M({3, 3}), {.UPLO = "U", .symmetrize_input = false}).eigenvalues
linalg.eigvalsh(M((2, 4, 4)))
linalg.eigvalsh(M((3, 3)), UPLO="U", symmetrize_input=False) | linalg::eigvalsh(M({3, 3}), {.UPLO = "U", .symmetrize_input = false})
abs(linalg.svd(M((4, 3)), False).U)
linalg.svd(M((2, 4, 3))).S
abs(linalg.svd(C((3, 4)), False).Vh)
abs(linalg.svd(M((3, 4)), False).U)
linalg.svdvals(C((3, 5)))
linalg.solve(M((4, 4)), M((4,), 1))
linalg.solve(M((4, 4)), M((4, 2), 1))
linalg.solve(M((2, 3, 3)), M((3,), 1))
linalg.solve(M((3, 3)), M((2, 3, 2), 1))
linalg.solve(C((2, 1, 3, 3)), M((4, 3, 2), 1))
linalg.solve(np.array([[1, 2], [3, 4]]), np.array([1, 1])).astype("float32") | linalg::solve(array({{1, 2}, {3, 4}}), array({1, 1}))
linalg.inv(M((2, 3, 3)))
linalg.inv(C((3, 3)))
linalg.inv(M((0, 0))) | linalg::inv(M({0, 0}))
linalg.pinv(M((4, 3)))
linalg.pinv(C((2, 3, 4)))
linalg.pinv(outer(M((3,)), M((4,), 1)))
linalg.pinv(M((4, 3)), 0.5)
linalg.lstsq(M((5, 3)), M((5,), 1))[0] | linalg::lstsq(M({5, 3}), M({5}, 1)).x
linalg.lstsq(M((5, 3)), M((5,), 1))[1] | linalg::lstsq(M({5, 3}), M({5}, 1)).residuals.reshape(1)
linalg.lstsq(C((5, 3)), M((5, 2), 1))[0] | linalg::lstsq(C({5, 3}), M({5, 2}, 1)).x
linalg.lstsq(C((5, 3)), M((5, 2), 1))[1] | linalg::lstsq(C({5, 3}), M({5, 2}, 1)).residuals
linalg.lstsq(M((3, 5)), M((3, 2), 1))[0] | linalg::lstsq(M({3, 5}), M({3, 2}, 1)).x
linalg.lstsq(outer(M((4,)), M((3,), 1)), M((4,), 2))[0] | linalg::lstsq(outer(M({4}), M({3}, 1)), M({4}, 2)).x
linalg.lstsq(outer(M((4,)), M((3,), 1)), M((4,), 2))[2] | linalg::lstsq(outer(M({4}), M({3}, 1)), M({4}, 2)).rank
linalg.lstsq(M((5, 3)), M((5,), 1))[3] | linalg::lstsq(M({5, 3}), M({5}, 1)).s
scipy.cho_solve(scipy.cho_factor(M((3, 3)) @ M((3, 3)).T + eye(3)), M((3, 2))) | linalg::cho_solve(linalg::cho_factor(matmul(M({3, 3}), M({3, 3}).T()) + eye(3)), M({3, 2}))
scipy.cho_solve(scipy.cho_factor(C((3, 3)) @ C((3, 3)).conj().T + eye(3), lower=True), C((3,))) | linalg::cho_solve(linalg::cho_factor(matmul(C({3, 3}), conj(C({3, 3})).T()) + eye(3), true), C({3}))
scipy.lu_solve(scipy.lu_factor(C((3, 3))), C((3, 2), 3)) | linalg::lu_solve(linalg::lu_factor(C({3, 3})), C({3, 2}, 3))
scipy.lu_solve(scipy.lu_factor(C((3, 3))), C((3, 2), 3), trans=1) | linalg::lu_solve(linalg::lu_factor(C({3, 3})), C({3, 2}, 3), 1)
scipy.lu_solve(scipy.lu_factor(C((3, 3))), C((3,), 3), trans=2) | linalg::lu_solve(linalg::lu_factor(C({3, 3})), C({3}, 3), 2)
scipy.solve_triangular(M((3, 3)), M((3,), 1)) | linalg::solve_triangular(M({3, 3}), M({3}, 1))
scipy.solve_triangular(C((3, 3)), C((3, 2), 1), lower=True, trans=2) | linalg::solve_triangular(C({3, 3}), C({3, 2}, 1), {.lower = true, .trans = 2})
scipy.solve_triangular(M((3, 3)), M((3,), 1), trans=1, unit_diagonal=True) | linalg::solve_triangular(M({3, 3}), M({3}, 1), {.trans = 1, .unit_diagonal = true})
linalg.det(M((4, 4)))
linalg.det(C((2, 3, 3)))
linalg.det(M((2, 0, 0))) | linalg::det(M({2, 0, 0}))
linalg.det(outer(M((3,)), M((3,))))
linalg.slogdet(M((2, 4, 4))).sign
linalg.slogdet(M((2, 4, 4))).logabsdet
linalg.slogdet(C((3, 3))).sign
linalg.slogdet(C((3, 3))).logabsdet
linalg.slogdet(zeros((3, 3))).logabsdet | linalg::slogdet(zeros({3, 3}, {.dtype = float64})).logabsdet
linalg.slogdet(zeros((3, 3))).sign | linalg::slogdet(zeros({3, 3}, {.dtype = float64})).sign
linalg.matrix_rank(M((2, 4, 3)))
linalg.matrix_rank(outer(M((4,)), M((3,))))
linalg.matrix_rank(M((4, 3)), 3.0)
linalg.matrix_rank(M((4,)))
linalg.cond(M((2, 3, 3)))
linalg.cond(M((3, 3)), 1)
linalg.cond(M((3, 3)), "fro")
linalg.cond(M((3, 4)), -2)
linalg.cond(zeros((2, 2)), 1) | linalg::cond(zeros({2, 2}, {.dtype = float64}), 1)
linalg.norm(M((3, 4)), 2) | linalg::norm(M({3, 4}), {.ord = 2})
linalg.norm(C((3, 4)), -2) | linalg::norm(C({3, 4}), {.ord = -2})
linalg.norm(M((2, 3, 4)), "nuc", axis=(0, 2)) | linalg::norm(M({2, 3, 4}), {.ord = "nuc", .axis = {0, 2}})
linalg.norm(M((2, 3, 4)), 2, axis=(2, 0), keepdims=True) | linalg::norm(M({2, 3, 4}), {.ord = 2, .axis = {2, 0}, .keepdims = true})
linalg.matrix_power(M((2, 3, 3)), 5)
linalg.matrix_power(M((3, 3)), -3)
linalg.matrix_power(M((2, 2, 2)), 0)
linalg.matrix_power(M((2, 2)), 1)
linalg.multi_dot([M((3,)), M((3, 4)), M((4, 2)), M((2,))]) | linalg::multi_dot({M({3}), M({3, 4}), M({4, 2}), M({2})})
linalg.multi_dot([M((2, 3)), M((3, 4)), M((4, 2))]) | linalg::multi_dot({M({2, 3}), M({3, 4}), M({4, 2})})
linalg.multi_dot([M((2, 3)), M((3,))]) | linalg::multi_dot({M({2, 3}), M({3})})
linalg.matrix_transpose(M((2, 3, 4)))
"""

CONVOLUTIONS = """
lax.conv(M((2, 3, 5, 4)), M((2, 3, 3, 2), 1), (2, 1), "SAME") | lax::conv(M({2, 3, 5, 4}), M({2, 3, 3, 2}, 1), {2, 1}, "SAME")
lax.conv(M((2, 3, 5, 4)), M((2, 3, 3, 2), 1), (1, 2), "VALID") | lax::conv(M({2, 3, 5, 4}), M({2, 3, 3, 2}, 1), {1, 2}, "VALID")
lax.conv(M((2, 3, 6)), M((4, 3, 4), 1), (2,), "SAME_LOWER") | lax::conv(M({2, 3, 6}), M({4, 3, 4}, 1), {2}, "SAME_LOWER")
lax.conv(C((2, 3)), C((4, 3), 1), (), "VALID") | lax::conv(C({2, 3}), C({4, 3}, 1), {}, "VALID")
lax.conv_with_general_padding(M((1, 2, 5)), M((3, 2, 2), 1), (2,), [(1, 3)], (2,), (3,)) | lax::conv_with_general_padding(M({1, 2, 5}), M({3, 2, 2}, 1), {2}, {{1, 3}}, {2}, {3})
lax.conv_with_general_padding(M((1, 2, 5)), M((3, 2, 2), 1), (2,), "SAME", (1,), (2,)) | lax::conv_with_general_padding(M({1, 2, 5}), M({3, 2, 2}, 1), {2}, "SAME", {1}, {2})
lax.conv_general_dilated(M((2, 5, 4, 3)), M((3, 2, 3, 4), 1), (1, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")) | lax::conv_general_dilated(M({2, 5, 4, 3}), M({3, 2, 3, 4}, 1), {1, 2}, "SAME", {.dimension_numbers = lax::ConvDimensionNumbers{"NHWC", "HWIO", "NHWC"}})
lax.conv_general_dilated(M((3, 5, 4, 2)), M((3, 2, 3, 4), 1), (1, 2), ((1, 0), (0, 1)), dimension_numbers=("CHWN", "HWIO", "NCWH")) | lax::conv_general_dilated(M({3, 5, 4, 2}), M({3, 2, 3, 4}, 1), {1, 2}, {{1, 0}, {0, 1}}, {.dimension_numbers = lax::ConvDimensionNumbers{"CHWN", "HWIO", "NCWH"}})
lax.conv_general_dilated(M((2, 6, 4)), M((4, 3, 2), 1), (1,), "VALID", feature_group_count=2) | lax::conv_general_dilated(M({2, 6, 4}), M({4, 3, 2}, 1), {1}, "VALID", {.feature_group_count = 2})
lax.conv_general_dilated(M((6, 2, 4)), M((3, 2, 2), 1), (1,), "VALID", batch_group_count=3) | lax::conv_general_dilated(M({6, 2, 4}), M({3, 2, 2}, 1), {1}, "VALID", {.batch_group_count = 3})
lax.conv_general_dilated(M((4, 2, 4)), M((6, 2, 3), 1), (1,), [(1, 1)], batch_group_count=2) | lax::conv_general_dilated(M({4, 2, 4}), M({6, 2, 3}, 1), {1}, {{1, 1}}, {.batch_group_count = 2})
lax.conv_general_dilated(M((2, 2, 4)).astype("float32"), M((3, 2, 2), 1).astype("float32"), (1,), "VALID", preferred_element_type="float64") | lax::conv_general_dilated(M({2, 2, 4}).astype(float32), M({3, 2, 2}, 1).astype(float32), {1}, "VALID", {.preferred_element_type = float64})
lax.conv_transpose(M((2, 4, 3)), M((3, 3, 2), 1), (2,), "SAME") | lax::conv_transpose(M({2, 4, 3}), M({3, 3, 2}, 1), {2}, "SAME")
lax.conv_transpose(M((2, 4, 3)), M((3, 3, 2), 1), (2,), "VALID") | lax::conv_transpose(M({2, 4, 3}), M({3, 3, 2}, 1), {2}, "VALID")
lax.conv_transpose(M((2, 4, 3)), M((2, 3, 2), 1), (3,), "SAME") | lax::conv_transpose(M({2, 4, 3}), M({2, 3, 2}, 1), {3}, "SAME")
lax.conv_transpose(M((2, 4, 3)), M((2, 3, 2), 1), (3,), "VALID", rhs_dilation=(2,)) | lax::conv_transpose(M({2, 4, 3}), M({2, 3, 2}, 1), {3}, "VALID", {.rhs_dilation = {2}})
lax.conv_transpose(M((1, 3, 2, 3)), M((2, 3, 2, 3), 1), (1, 2), "SAME", transpose_kernel=True) | lax::conv_transpose(M({1, 3, 2, 3}), M({2, 3, 2, 3}, 1), {1, 2}, "SAME", {.transpose_kernel = true})
lax.conv_transpose(M((1, 3, 4)), M((2, 3, 3), 1), (2,), [(1, 2)], dimension_numbers=("NCH", "OIH", "NCH")) | lax::conv_transpose(M({1, 3, 4}), M({2, 3, 3}, 1), {2}, {{1, 2}}, {.dimension_numbers = lax::ConvDimensionNumbers{"NCH", "OIH", "NCH"}})
lax.reduce_window(M((4, 6)), -inf, lax.max, (2, 3), (2, 1), "SAME") | lax::reduce_window(M({4, 6}), -std::numeric_limits<double>::infinity(), maximum, {2, 3}, {.window_strides = {2, 1}, .padding = "SAME"})
lax.reduce_window(M((4, 6)), 0.0, lax.add, (2, 3), (2, 3), "VALID") | lax::reduce_window(M({4, 6}), 0.0, add, {2, 3}, {.window_strides = {2, 3}})
lax.reduce_window(M((4, 6)), inf, lax.min, (1, 3), (1, 2), ((0, 0), (1, 1)), (1, 2), (1, 2)) | lax::reduce_window(M({4, 6}), std::numeric_limits<double>::infinity(), minimum, {1, 3}, {.window_strides = {1, 2}, .padding = {{0, 0}, {1, 1}}, .base_dilation = {1, 2}, .window_dilation = {1, 2}})
lax.reduce_window(M((5,)), 1.0, lax.mul, (3,), (1,), "SAME_LOWER") | lax::reduce_window(M({5}), 1.0, multiply, {3}, {.padding = "SAME_LOWER"})
convolve(M((5,)), M((3,), 1)) | convolve(M({5}), M({3}, 1))
convolve(M((3,)), M((5,), 1), "same") | convolve(M({3}), M({5}, 1), "same")
convolve(M((6,)), M((4,), 1), "same") | convolve(M({6}), M({4}, 1), "same")
convolve(C((3,)), M((5,), 1), "valid") | convolve(C({3}), M({5}, 1), "valid")
correlate(M((5,)), M((3,), 1)) | correlate(M({5}), M({3}, 1))
correlate(M((3,)), M((5,), 1), "full") | correlate(M({3}), M({5}, 1), "full")
correlate(C((3,)), C((6,), 1), "same") | correlate(C({3}), C({6}, 1), "same")
correlate(C((5,)), C((2,), 1), "same") | correlate(C({5}), C({2}, 1), "same")
"""


STATISTICS = """
quantile(M((7,)), 0.3)
quantile(M((3, 4)), np.array([0.0, 0.25, 1.0])) | quantile(M({3, 4}), array({0.0, 0.25, 1.0}).astype(float64))
quantile(M((2, 5, 3)), np.array([0.1, 0.7]), axis=1) | quantile(M({2, 5, 3}), array(std::vector<double>{0.1, 0.7}), {.axis = 1})
quantile(M((2, 5, 3)), np.array([0.1, 0.7]), axis=(0, 2), keepdims=True) | quantile(M({2, 5, 3}), array(std::vector<double>{0.1, 0.7}), {.axis = {0, 2}, .keepdims = true})
quantile(M((2, 5, 3)), 0.6, axis=(1, 0)) | quantile(M({2, 5, 3}), 0.6, {.axis = {1, 0}})
quantile(M((2, 3)), 0.6, keepdims=True) | quantile(M({2, 3}), 0.6, {.keepdims = true})
quantile(M((6,)), 0.3, method="lower") | quantile(M({6}), 0.3, {.method = "lower"})
quantile(M((6,)), 0.3, method="higher") | quantile(M({6}), 0.3, {.method = "higher"})
quantile(M((6,)), 0.7, method="nearest") | quantile(M({6}), 0.7, {.method = "nearest"})
quantile(M((6,)), 0.3, method="midpoint") | quantile(M({6}), 0.3, {.method = "midpoint"})
quantile(where(M((3, 4)) > 2.4, nan, M((3, 4))), 0.5, axis=1) | quantile(where(M({3, 4}) > 2.4, NAN, M({3, 4})), 0.5, {.axis = 1})
percentile(M((3, 5)), 30.0, axis=0) | percentile(M({3, 5}), 30.0, {.axis = 0})
percentile(np.arange(5), np.array([20.0, 50])) | percentile(arange(5), array(std::vector<double>{20, 50})).astype(float64)
median(M((7,)))
median(M((4, 3)), axis=0) | median(M({4, 3}), {.axis = 0})
median(M((4, 3)), axis=(0, 1), keepdims=True) | median(M({4, 3}), {.axis = {0, 1}, .keepdims = true})
nanquantile(where(M((3, 4)) > 1, nan, M((3, 4))), np.array([0.2, 0.9]), axis=1) | nanquantile(where(M({3, 4}) > 1, NAN, M({3, 4})), array(std::vector<double>{0.2, 0.9}), {.axis = 1})
nanpercentile(where(M((3, 4)) > 1, nan, M((3, 4))), 40, axis=0) | nanpercentile(where(M({3, 4}) > 1, NAN, M({3, 4})), 40, {.axis = 0})
nanmedian(where(M((3, 4)) > -5, nan, M((3, 4))), axis=0) | nanmedian(where(M({3, 4}) > -5, NAN, M({3, 4})), {.axis = 0})
nanmedian(where(M((3, 4)) > 1, nan, M((3, 4)))) | nanmedian(where(M({3, 4}) > 1, NAN, M({3, 4})))
nanvar(where(M((3, 4)) > 1, nan, M((3, 4))), axis=1) | nanvar(where(M({3, 4}) > 1, NAN, M({3, 4})), {.axis = 1})
nanstd(where(M((3, 4)) > 1, nan, M((3, 4))), ddof=1) | nanstd(where(M({3, 4}) > 1, NAN, M({3, 4})), {.ddof = 1})
nanstd(M((3, 4)), axis=0, where=M((3, 4)) > -1) | nanstd(M({3, 4}), {.axis = 0, .where = M({3, 4}) > -1})
histogram(M((20,)), 5)[0] | histogram(M({20}), 5).counts
histogram(M((20,)), 5)[1] | histogram(M({20}), 5).edges
histogram(M((4, 5)), 4, range=(-1, 2))[0] | histogram(M({4, 5}), 4, {.range = std::pair(-1.0, 2.0)}).counts
histogram(M((20,)), 4, density=True)[0] | histogram(M({20}), 4, {.density = true}).counts
histogram(M((20,)), 4, weights=M((20,), 1))[0] | histogram(M({20}), 4, {.weights = M({20}, 1)}).counts
histogram(M((20,)), np.array([-2, 0, 0.5, 2.5]))[0] | histogram(M({20}), array({-2.0, 0.0, 0.5, 2.5})).counts
histogram(np.array([1.5, 1.5]), 2)[1] | histogram(array(std::vector<double>{1.5, 1.5}), 2).edges
histogram_bin_edges(M((5,)), 3)
histogram_bin_edges(np.arange(5), 2, range=(0, 8)) | histogram_bin_edges(arange(5), 2, {.range = std::pair(0.0, 8.0)}).astype(float64)
digitize(M((2, 5)), np.array([-2.0, -0.5, 1, 1.75])) | digitize(M({2, 5}), array({-2.0, -0.5, 1.0, 1.75}))
digitize(M((9,)), np.array([1.75, 1.0, -0.5]), right=True) | digitize(M({9}), array({1.75, 1.0, -0.5}), true)
cov(M((3, 6)))
cov(M((6,)))
cov(M((6, 3)), rowvar=False, ddof=0) | cov(M({6, 3}), {.rowvar = false, .ddof = 0})
cov(M((2, 6)), M((6,), 1), bias=True) | cov(M({2, 6}), {.y = M({6}, 1), .bias = true})
cov(C((2, 5)))
cov(M((2, 4)), fweights=np.array([1, 3, 2, 1])) | cov(M({2, 4}), {.fweights = array({1, 3, 2, 1})})
cov(M((2, 4)), aweights=abs(M((4,), 1))) | cov(M({2, 4}), {.aweights = abs(M({4}, 1))})
cov(M((2, 4)), fweights=np.array([1, 3, 2, 1]), aweights=abs(M((4,), 1))) | cov(M({2, 4}), {.fweights = array({1, 3, 2, 1}), .aweights = abs(M({4}, 1))})
corrcoef(M((3, 6)))
corrcoef(C((2, 5)))
corrcoef(M((6,)))
corrcoef(M((6,)), M((6,), 1)) | corrcoef(M({6}), {.y = M({6}, 1)})
"""

CALCULUS = """
diff(M((5,)))
diff(M((3, 4)), n=2) | diff(M({3, 4}), {.n = 2})
diff(M((3, 4)), axis=0, prepend=1.0, append=M((2, 4), 1)) | diff(M({3, 4}), {.axis = 0, .prepend = Array(1.0), .append = M({2, 4}, 1)})
diff(M((4,)) > 0).astype(float) | diff(M({4}) > 0).astype(float64)
diff(M((2,)), n=3) | diff(M({2}), {.n = 3})
ediff1d(M((2, 3)))
ediff1d(M((4,)), to_end=np.array([1.0, 2]), to_begin=np.array(-9.0)) | ediff1d(M({4}), {.to_end = array({1.0, 2.0}), .to_begin = Array(-9.0)})
gradient(M((6,))) | gradient(M({6}))[0]
gradient(M((6,)), 0.5) | gradient(M({6}), {.spacing = {0.5}})[0]
gradient(M((6,)), cumsum(abs(M((6,), 1)) + 1)) | gradient(M({6}), {.spacing = {cumsum(abs(M({6}, 1)) + 1)}})[0]
gradient(M((3, 4)))[1] | gradient(M({3, 4}))[1]
gradient(M((3, 4)), 2.0, 0.5)[0] | gradient(M({3, 4}), {.spacing = {2.0, 0.5}})[0]
gradient(M((2, 4)), axis=0) | gradient(M({2, 4}), {.axis = 0})[0]
trapezoid(M((5,)))
trapezoid(M((3, 4)), dx=0.5, axis=0) | trapezoid(M({3, 4}), {.dx = 0.5, .axis = 0})
trapezoid(M((3, 4)), cumsum(abs(M((4,), 1)))) | trapezoid(M({3, 4}), {.x = cumsum(abs(M({4}, 1)))})
trapezoid(M((3, 4)), M((3, 4), 1), axis=0) | trapezoid(M({3, 4}), {.x = M({3, 4}, 1), .axis = 0})
trapezoid(M((1,)))
interp(M((3, 4)), np.array([-2.0, -1, 1, 1.5]), M((4,), 1)) | interp(M({3, 4}), array({-2.0, -1.0, 1.0, 1.5}), M({4}, 1))
interp(M((9,)), np.array([-1.0, 1, 1, 2]), M((4,), 1), left=-7.0, right=9.0) | interp(M({9}), array({-1.0, 1.0, 1.0, 2.0}), M({4}, 1), {.left = -7.0, .right = 9.0})
interp(M((9,)), np.array([-1.0, 1, 2]), M((3,), 1), left="extrapolate", right="extrapolate") | interp(M({9}), array({-1.0, 1.0, 2.0}), M({3}, 1), {.extrapolate_left = true, .extrapolate_right = true})
interp(M((9,)), np.array([2.0, 0.25, -1]), M((3,), 1), period=1.5) | interp(M({9}), array({2.0, 0.25, -1.0}), M({3}, 1), {.period = 1.5})
interp(0.25, np.array([0, 1]), np.array([1.0, 3])) | interp(Array(0.25).astype(float64), array({0, 1}), array({1.0, 3.0}))
polyval(M((4,)), M((2, 3), 1))
polyval(M((3, 2)), M((4, 1), 1))
polyval(M((0,)), M((3,), 1)) | polyval(M({0}), M({3}, 1))
vander(M((4,)))
vander(M((3,)), 5, increasing=True) | vander(M({3}), {.N = 5, .increasing = true})
cross(M((4, 3)), M((3,), 1))
cross(M((2, 4)), M((4, 3), 1), axisa=0) | cross(M({2, 4}), M({4, 3}, 1), {.axisa = 0})
cross(M((4, 2)), M((4, 2), 1))
cross(M((3, 4)), M((3, 4), 1), axis=0) | cross(M({3, 4}), M({3, 4}, 1), {.axisa = 0, .axisb = 0, .axisc = 0})
modf(M((7,)))[0] | modf(M({7})).first
modf(M((7,)))[1] | modf(M({7})).second
frexp(M((7,)) * 1e-200)[0] | frexp(M({7}) * 1e-200).first
frexp(M((7,)) * 1e-200)[1] | frexp(M({7}) * 1e-200).second
ldexp(M((6,)), np.array([0, 3, -70, 900, -900, 2])) | ldexp(M({6}), array({0, 3, -70, 900, -900, 2}))
unique(array([3, 1, 3, 2, 1])).astype(float) | unique(array({3, 1, 3, 2, 1})).astype(float64)
unique(array([nan, 1.5, nan, -inf, 1.5])) | unique(array(std::vector<double>{NAN, 1.5, NAN, -INFINITY, 1.5}))
unique_all(array([[3, 1], [3, 2]])).indices | unique_all(array({{3, 1}, {3, 2}})).indices
unique_all(array([[3, 1], [3, 2]])).inverse_indices | unique_all(array({{3, 1}, {3, 2}})).inverse_indices
unique_all(array([[3, 1], [3, 2]])).counts | unique_all(array({{3, 1}, {3, 2}})).counts
unique(array([3, 1, 3, 2, 1]), size=5) | unique(array({3, 1, 3, 2, 1}), {.size = 5})
unique(array([3, 1, 3, 2, 1]), size=2) | unique(array({3, 1, 3, 2, 1}), {.size = 2})
unique(array([3, 1, 3, 2, 1]), size=4, fill_value=-1) | unique(array({3, 1, 3, 2, 1}), {.size = 4, .fill_value = -1})
unique(array([True, False, True])) | unique(array({true, false, true}))
unique(M((0,))) | unique(M({0}))
union1d(array([3, 1]), array([2, 3])) | union1d(array({3, 1}), array({2, 3}))
intersect1d(array([3, 1, 1, 4]), array([1, 3, 5])) | intersect1d(array({3, 1, 1, 4}), array({1, 3, 5}))
setdiff1d(array([3, 1, 1, 4]), array([1, 5])) | setdiff1d(array({3, 1, 1, 4}), array({1, 5}))
setxor1d(array([3, 1, 4]), array([1, 5])) | setxor1d(array({3, 1, 4}), array({1, 5}))
isin(M((2, 3)), np.array([0.25, 2.75, -1.5])) | isin(M({2, 3}), array({0.25, 2.75, -1.5}))
isin(array([1, 2, 7]), array([2, 1]), invert=True) | isin(array({1, 2, 7}), array({2, 1}), true)
isin(array([1, 2]), array([], int)) | isin(array({1, 2}), zeros({0}, {.dtype = int32}))
"""


def linalg():
    return numbers(LINALG)


def convolution():
    return numbers(CONVOLUTIONS)


def statistics():
    return numbers(STATISTICS)


def calculus():
    return numbers(CALCULUS)


for table in (binary, unary, reductions, indexing, products, movement, items, einsum, functions, linalg, convolution,
              statistics, calculus):
    if not sys.argv[1:] or table.__name__ in sys.argv[1:]:
        write(table.__name__, table())
