"""What functions and classes say about themselves, and what is said of names that are not there yet."""

import importlib
import inspect

import pytest

import shoal as jax
import shoal.numpy as jnp
from shoal.sharding import Mesh, NamedSharding, PartitionSpec


def test_jit_shows_the_functions_own_signature():
    @jax.jit
    def scaled(x, factor=2, *, offset: int = 0):
        """x, scaled."""
        return x * factor + offset

    assert str(inspect.signature(scaled)) == "(x, factor=2, *, offset: int = 0)"
    assert (scaled.__name__, scaled.__doc__, scaled.__module__) == ("scaled", "x, scaled.", __name__)
    assert "static_argnums=None" in str(inspect.signature(jax.jit))


@pytest.mark.parametrize(
    "thing, module",
    [
        (jax.jit, "shoal"), (jax.pmap, "shoal"), (jax.Array, "shoal"), (jax.Device, "shoal"),
        (jax.stages.Compiled, "shoal.stages"), (jax.tree_util.PyTreeDef, "shoal.tree_util"),
        (Mesh, "shoal.sharding"), (NamedSharding, "shoal.sharding"), (PartitionSpec, "shoal.sharding"),
        (jax.ShapeDtypeStruct, "shoal"),
    ],
)
def test_modules(thing, module):
    assert thing.__module__ == module
    assert getattr(importlib.import_module(module), thing.__name__) is thing


@pytest.mark.parametrize(
    "module, name, reason",
    [
        ("shoal", "grad", "this transformation is not there yet"),
        ("shoal", "vmap", "this transformation is not there yet"),
        ("shoal", "random", "it is not there yet"),
        ("shoal.lax", "scan", "this transformation is not there yet"),
        ("shoal.lax", "cond", "this transformation is not there yet"),
        ("shoal.lax", "igamma", "it is not there yet"),
        ("shoal.numpy", "fft", "it is not there yet"),
        ("shoal.numpy.linalg", "eig", "it is not there yet"),
        ("shoal.scipy.linalg", "expm", "it is not there yet"),
        ("shoal.scipy", "stats", "it is not there yet"),
        ("shoal.nn.initializers", "normal", "it needs random numbers"),
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
