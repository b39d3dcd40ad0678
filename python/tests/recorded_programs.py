"""The programs of recorded/: how they are read and run, under JAX and, with their imports changed, with Shoal."""

import ast
import contextlib
import dataclasses
import io
import pathlib
import re
import warnings

import numpy as np

FOLDER = pathlib.Path(__file__).parent / "recorded"

# The names that programs have.
PRELUDE = """
import collections, copy, dataclasses, functools, inspect, itertools, math, operator, pickle
from functools import partial
from typing import NamedTuple
import numpy as np
import jax
import jax.numpy as jnp
from jax import lax, nn, shard_map, debug, tree_util
from jax.sharding import Mesh, PartitionSpec as P, NamedSharding, SingleDeviceSharding, AxisType, AbstractMesh
from jax.experimental import multihost_utils, mesh_utils
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

def in_wide_types(f):
    jax.config.update("jax_enable_x64", True)
    for dtype in ("bool", "int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"):
        print(dtype, *(f"{x.dtype}{'~' * x.weak_type}" for x in f(jnp.ones(3, dtype))))
"""


@dataclasses.dataclass
class Recording:
    """A program, what it printed under JAX or the class of the exception that ended it, and what Shoal says then."""

    program: str
    printed: str
    error_text: str

    def __str__(self):
        said = [f"! {line}".rstrip() for line in self.error_text.splitlines()]
        return "\n".join([self.program, "----", self.printed, *said]).rstrip("\n")


def recordings(path):
    for block in path.read_text().rstrip("\n").split("\n\n"):
        program, _, expected = block.strip("\n").partition("\n----")
        printed, _, said = expected.partition("\n! ")
        yield Recording(program, printed.removeprefix("\n"), said.replace("\n! ", "\n"))


def write(path, blocks):
    path.write_text("\n\n".join(map(str, blocks)) + "\n")


def with_imports_changed(program):
    """A program of JAX as one of Shoal."""
    program = re.sub(r"\bimport jax\b(?!\.)", "import shoal as jax", program)
    return re.sub(r"\b(import|from) jax\b(?! as)", r"\1 shoal", program.replace("import shoal as jax", "\0")).replace(
        "\0", "import shoal as jax"
    )


def text_of(x, jax):
    """A value as recordings have it: with the types of arrays."""
    if isinstance(x, jax.Array):
        weak = "~" if jax.typeof(x).weak_type else ""
        return f"Array<{x.dtype}{list(x.shape)}{weak}> {np.asarray(x)}"
    if isinstance(x, np.ndarray):
        return f"np<{x.dtype}{list(x.shape)}> {x}"
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return f"{type(x).__name__}({', '.join(f'{k}={text_of(v, jax)}' for k, v in zip(x._fields, x))})"
    if isinstance(x, (list, tuple)):
        return f"{type(x).__name__}({', '.join(text_of(v, jax) for v in x)})"
    if isinstance(x, dict):
        return "{" + ", ".join(f"{k!r}: {text_of(v, jax)}" for k, v in x.items()) + "}"
    return f"{x:.5g}" if isinstance(x, float) else repr(x)


# What Python and nanobind say, in words of their version.
NOT_OURS = re.compile(
    r"\(\) (takes \d+ positional|missing|got an unexpected keyword)|incompatible function arguments|int\(\) argument"
    r"|unsupported operand type|unhashable type|object (is not callable|has no attribute)|tuple indices must"
    r"|can only concatenate|wrong number of positional|Replacement index"
)


def text_of_error(error):
    """What Shoal says; nothing where it is not Shoal who says it."""
    text = re.sub(r"0x[0-9a-f]+", "0x", str(error))
    return "" if NOT_OURS.search(text) else text


def run(program, jax):
    """What it prints, then the value of a last expression; and the exception that ends it. `jax` is the module JAX or
    Shoal."""
    changed = str if jax.__name__ == "jax" else with_imports_changed
    names = {"__name__": "__main__"}
    exec(changed(PRELUDE), names)
    tree = ast.parse(changed(program))
    last = tree.body.pop().value if isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with (
        np.printoptions(precision=4, suppress=True, linewidth=150, threshold=60),
        contextlib.redirect_stdout(printed),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        try:
            exec(compile(tree, "<program>", "exec"), names)
            if last is not None:
                value = eval(compile(ast.Expression(last), "<program>", "eval"), names)
                if value is not None:
                    print("=>", text_of(value, jax))
        except Exception as error:
            return printed.getvalue(), error
        finally:
            jax.config.update("jax_enable_x64", False)
    return printed.getvalue(), None
