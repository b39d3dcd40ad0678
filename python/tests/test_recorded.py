"""Short programs of JAX, run with the imports changed, against what they printed under JAX 0.12 (recorded/README.md)."""

import ast
import contextlib
import io
import math
import pathlib
import re
import warnings

import numpy as np
import pytest

import shoal as jax

RECORDED = pathlib.Path(__file__).parent / "recorded"

PRELUDE = """
import collections, copy, dataclasses, functools, inspect, itertools, math, operator, pickle
from functools import partial
from typing import NamedTuple
import numpy as np
import shoal as jax, shoal.numpy as jnp
from shoal import lax, nn, shard_map, debug, tree_util
from shoal.sharding import Mesh, PartitionSpec as P, NamedSharding, SingleDeviceSharding, AxisType, AbstractMesh
from shoal.experimental import multihost_utils, mesh_utils
A = AxisType.Auto
E = AxisType.Explicit
mesh1 = jax.make_mesh((8,), ("x",), axis_types=(A,))
mesh2 = jax.make_mesh((4, 2), ("x", "y"), axis_types=(A, A))
emesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(E, E))
emesh1 = jax.make_mesh((8,), ("x",), axis_types=(E,))

def raises(f, *a, **k):
    try:
        f(*a, **k)
    except Exception as e:
        return type(e).__name__
"""


def text_of(x):
    """A value as the recording has it: with the types of arrays."""
    if isinstance(x, jax.Array):
        weak = "~" if jax.typeof(x).weak_type else ""
        return f"Array<{x.dtype}{list(x.shape)}{weak}> {np.asarray(x)}"
    if isinstance(x, np.ndarray):
        return f"np<{x.dtype}{list(x.shape)}> {x}"
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return f"{type(x).__name__}({', '.join(f'{k}={text_of(v)}' for k, v in zip(x._fields, x))})"
    if isinstance(x, (list, tuple)):
        return f"{type(x).__name__}({', '.join(map(text_of, x))})"
    if isinstance(x, dict):
        return "{" + ", ".join(f"{k!r}: {text_of(v)}" for k, v in x.items()) + "}"
    return f"{x:.5g}" if isinstance(x, float) else repr(x)


def of_shoal(program):
    """The program with its imports changed."""
    program = re.sub(r"\bimport jax\b(?!\.)", "import shoal as jax", program)
    return re.sub(r"\b(import|from) jax\b(?! as)", r"\1 shoal", program.replace("import shoal as jax", "\0")).replace(
        "\0", "import shoal as jax"
    )


def run(program):
    """What it prints, then the value of a last expression; and the exception that ends it."""
    names = {"__name__": "__main__"}
    exec(PRELUDE, names)
    tree = ast.parse(of_shoal(program))
    last = tree.body.pop().value if isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(compile(tree, "<program>", "exec"), names)
            if last is not None:
                value = eval(compile(ast.Expression(last), "<program>", "eval"), names)
                if value is not None:
                    print("=>", text_of(value))
        except Exception as error:
            return printed.getvalue(), error
    return printed.getvalue(), None


NUMBER = re.compile(r"-?\d+\.?\d*(?:e[+-]?\d+)?")


def same(first, second):
    """Equal texts but for spaces, the module's name, addresses, and the last digits of numbers."""
    # An AbstractMesh of JAX also says for which devices it is.
    ours = ", device_kind=cpu, num_cores=None, platform=cpu"
    words = [
        re.sub(r"0x[0-9a-f]+", "0x", text.replace("shoal.", "jax.").replace(ours, "")) for text in (first, second)
    ]
    shapes = ["".join(NUMBER.sub("#", text).split()) for text in words]
    if shapes[0] != shapes[1]:
        return False
    numbers = [map(float, NUMBER.findall(text)) for text in words]
    return all(math.isclose(a, b, rel_tol=1e-3, abs_tol=1e-3) for a, b in zip(*numbers))


def cases():
    for path in sorted(RECORDED.glob("*.txt")):
        for number, block in enumerate(path.read_text().split("\n\n")):
            program, _, expected = block.strip("\n").partition("\n----\n")
            yield pytest.param(program, expected, id=f"{path.stem}-{number}")


@pytest.fixture(autouse=True)
def as_at_first():
    with np.printoptions(precision=4, suppress=True, linewidth=150, threshold=60):
        yield
    jax.config.update("jax_enable_x64", False)


@pytest.mark.parametrize("program, expected", list(cases()))
def test_as_recorded(program, expected):
    printed, error = run(program)
    if expected.startswith("!! "):
        classes = [base.__name__ for base in type(error).__mro__]
        assert expected[3:] in classes, f"{printed}{error!r}"
        assert len(str(error)) > 10
    else:
        assert error is None, repr(error)
        assert same(printed, expected), f"{printed}\nis not what JAX prints:\n{expected}"
