"""What functions and classes say about themselves, and what is said of names that are not there yet."""

import functools
import importlib
import inspect

import numpy as np
import pytest

import shoal as jax
import shoal.numpy as jnp
from shoal import lax
from shoal.sharding import Mesh, NamedSharding, PartitionSpec


@pytest.mark.parametrize(
    "function, text",
    [
        (jnp.sum, "(a, axis=None, dtype=None, out=None, keepdims=False, initial=None, where=None, promote_integers=True)"),
        (jax.device_put, "(x, device=None, *, src=None, donate=False, may_alias=None)"),
        (jnp.sin, "(x, /)"),
        (jnp.arctan2, "(x1, x2, /)"),
        (jnp.add, "(*args, out=None, where=None)"),
        (jnp.ones(3).astype, "(dtype, copy=False, device=None)"),
        (lax.psum, "(x, axis_name, *, axis_index_groups=None)"),
        (jnp.broadcast_arrays, "(*args)"),
        (jax.Array.astype, "(self, dtype, copy=False, device=None)"),
    ],
)
def test_signatures(function, text):
    signature = inspect.signature(function)
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    assert str(inspect.Signature(bare)) == text
    assert signature.parameters


def test_jit_shows_the_functions_own_signature():
    @jax.jit
    def scaled(x, factor=2, *, offset: int = 0):
        """x, scaled."""
        return x * factor + offset

    assert str(inspect.signature(scaled)) == "(x, factor=2, *, offset: int = 0)"
    assert (scaled.__name__, scaled.__doc__, scaled.__module__) == ("scaled", "x, scaled.", __name__)
    assert "static_argnums=None" in str(inspect.signature(jax.jit))


def test_wraps():
    @functools.wraps(jnp.cumsum)
    def counted(*args, **kwargs):
        return jnp.cumsum(*args, **kwargs)

    assert counted.__name__ == "cumsum" and "axis" in inspect.signature(counted).parameters


@pytest.mark.parametrize(
    "thing, module",
    [
        (jax.jit, "shoal"), (jax.pmap, "shoal"), (jax.Array, "shoal"), (jax.Device, "shoal"),
        (jax.stages.Compiled, "shoal.stages"), (jax.tree_util.PyTreeDef, "shoal.tree_util"),
        (Mesh, "shoal.sharding"), (NamedSharding, "shoal.sharding"), (PartitionSpec, "shoal.sharding"),
        (jax.ShapeDtypeStruct, "shoal"), (jax.stages.Traced, "shoal.stages"), (jax.device_put, "shoal"),
        (jnp.sin, "shoal.numpy"), (jnp.piecewise, "shoal.numpy"), (jnp.issubdtype, "shoal.numpy"),
        (jax.lax.psum, "shoal.lax"), (jax.nn.relu, "shoal.nn"), (jax.random.normal, "shoal.random"),
        (jnp.linalg.norm, "shoal.numpy.linalg"), (jnp.fft.rfft, "shoal.numpy.fft"),
        (jax.scipy.special.erf, "shoal.scipy.special"), (jnp.ufunc, "shoal.numpy"),
        (jax.export.export, "shoal.export"), (jax.export.Exported, "shoal.export"),
    ],
)
def test_modules(thing, module):
    assert thing.__module__ == module
    assert getattr(importlib.import_module(module), thing.__name__) is thing


@pytest.mark.parametrize(
    "module, name, reason",
    [
        ("shoal", "fwd_and_bwd", "this transformation is not there yet"),
        ("shoal.random", "Key", "annotations of keys are not there yet"),
        ("shoal", "new_ref", "arrays never change in place here.*at"),
        ("shoal", "freeze", "arrays never change in place here"),
        ("shoal.experimental", "checkify", "raise in a function that debug.callback calls"),
        ("shoal.lax", "composite", "this transformation is not there yet"),
        ("shoal.lax", "index_take", "it is not there yet"),
        ("shoal.sharding", "PositionalSharding", "use NamedSharding"),
    ],
)
def test_names_that_are_not_there_yet(module, name, reason):
    found = importlib.import_module(module)
    assert not hasattr(found, name)
    with pytest.raises(AttributeError, match=f"module '{module}' has no attribute '{name}': .*{reason}"):
        getattr(found, name)
    # Python makes an ImportError of what is said on the way.
    with pytest.raises(ImportError, match=f"module '{module}' has no attribute '{name}': .*{reason}"):
        exec(f"from {module} import {name}", {})
    with pytest.raises(ImportError, match=reason):
        importlib.import_module(f"{module}.{name}")


def test_names_that_nobody_has():
    with pytest.raises(AttributeError, match="module 'shoal' has no attribute 'gard'$"):
        jax.gard
    with pytest.raises(ImportError):
        exec("from shoal import gard", {})


def test_options_for_a_block():
    with jax.debug_nans(True), jax.numpy_rank_promotion("raise"):
        assert jax.config.jax_debug_nans is True and jax.config.jax_numpy_rank_promotion == "raise"
    assert jax.config.jax_debug_nans is False and jax.config.jax_numpy_rank_promotion == "allow"


def test_types_of_arrays():
    x = jnp.ones((2, 3))
    assert str(x.aval) == str(jax.typeof(x)) == "float32[2,3]"
    assert repr(x.aval) == "ShapedArray(float32[2,3])" and x.aval.shape == (2, 3) and not x.aval.weak_type
    assert repr(jax.typeof(1.0)) == "ShapedArray(float32[], weak_type=True)"


def test_the_path_of_einsum():
    path, text = jnp.einsum_path("ij,jk,kl", jnp.ones((2, 3)), jnp.ones((3, 2)), jnp.ones((2, 2)))
    assert path == [(0, 1), (0, 1)] and "Complete contraction" in text


def test_printing_follows_the_options_of_numpy():
    x = jnp.array([1 / 3, 1e-9, 1000.0])
    with np.printoptions(precision=2, suppress=True):
        assert str(x) == str(np.asarray(x)) == "[   0.33    0.   1000.  ]"
        assert repr(x) == "Array([   0.33,    0.  , 1000.  ], dtype=float32)"
    with np.printoptions(threshold=4, edgeitems=1):
        assert str(jnp.arange(9)) == str(np.arange(9)) == "[0 ... 8]"
    assert str(jnp.arange(9)) == "[0 1 2 3 4 5 6 7 8]"
