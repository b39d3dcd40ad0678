"""shoal.export: functions that are traced, stored, and called by others. What it gives and refuses is what JAX 0.12 does,
where no comment says otherwise."""

import collections
import subprocess
import sys

import numpy as np
import pytest

import shoal as jax
import shoal.numpy as jnp
from shoal import export, lax
from shoal.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P

X = np.arange(4, dtype=np.float32)


def both(exported, **options):
    """The exported function, and as it is loaded."""
    return [exported, export.deserialize(exported.serialize(**options))]


def test_what_an_exported_function_says_of_itself():
    f = jax.jit(lambda x, *, k: {"a": x * 2 + k, "b": (x.sum(),)})
    for exported in both(export.export(f)(X, k=np.float32(3))):
        assert exported.fun_name == "<lambda>" and str(exported) == "Exported(fun_name=<lambda>, ...)"
        assert exported.in_tree == jax.tree_util.tree_structure(((0,), {"k": 0}))
        assert exported.out_tree == jax.tree_util.tree_structure({"a": 0, "b": (0,)})
        assert repr(exported.in_avals) == "(ShapedArray(float32[4]), ShapedArray(float32[]))"
        assert repr(exported.out_avals) == "(ShapedArray(float32[4]), ShapedArray(float32[]))"
        assert exported.nr_devices == 1 and exported.platforms == ("cpu",) == (export.default_export_platform(),)
        assert exported.ordered_effects == exported.unordered_effects == exported.disabled_safety_checks == ()
        assert exported.module_kept_var_idx == (0, 1) and exported.uses_global_constants is False
        assert exported._in_named_shardings == exported._out_named_shardings == (None, None)
        assert exported.has_vjp()
        assert "dot_general" not in exported.mlir_module() and "multiply" in exported.mlir_module()
        assert exported.calling_convention_version == export.maximum_supported_calling_convention_version
        given = exported.call(X, k=1.0)
        np.testing.assert_array_equal(given["a"], X * 2 + 1)
        assert given["b"][0] == 6
        np.testing.assert_array_equal(jax.jit(exported.call)(X, k=1.0)["a"], X * 2 + 1)
    assert type(exported.serialize()) is bytearray
    weak = export.export(jax.jit(lambda x: x))(1.0)
    assert repr(weak.in_avals) == "(ShapedArray(float32[], weak_type=True),)"


def test_types_may_stand_for_arrays():
    exported = export.export(jax.jit(jnp.sin))(jax.ShapeDtypeStruct((4,), np.float32))
    np.testing.assert_array_equal(exported.call(X), jnp.sin(X))


def test_is_differentiated_and_mapped():
    f = jax.jit(lambda x: (jnp.sin(x) * x).sum())
    for exported in both(export.export(f)(X)):
        np.testing.assert_array_equal(jax.grad(exported.call)(X), jax.grad(f)(X))
        np.testing.assert_array_equal(jax.hessian(exported.call)(X), jax.hessian(f)(X))  # JAX: up to vjp_order.
        many = np.stack([X, X + 1])  # JAX refuses.
        np.testing.assert_array_equal(jax.vmap(exported.call)(many), jax.vmap(f)(many))
        (given,) = exported.vjp().call(X, np.float32(2))
        np.testing.assert_array_equal(given, 2 * jax.grad(f)(X))


def test_the_vjp():
    f = jax.jit(lambda x, i: (x * i, i + 1))
    v = export.export(f)(X, 3).vjp()
    assert v.in_tree == jax.tree_util.tree_structure(((0, 0, 0, 0), {}))
    assert [a.shape for a in v.in_avals] == [(4,), (), (4,), ()] and [a.shape for a in v.out_avals] == [(4,), ()]
    given = v.call(X, 3, X, np.zeros((), bool))
    np.testing.assert_array_equal(given[0], 3 * X)
    assert given[1].dtype == bool and not given[1]


def test_derivatives_of_their_own():
    @jax.custom_vjp
    def doubled(x):
        return jnp.sin(x)

    doubled.defvjp(lambda x: (jnp.sin(x), x), lambda x, ct: (2 * ct,))
    exported = export.export(jax.jit(lambda x: doubled(x).sum()))(X)
    np.testing.assert_array_equal(jax.grad(exported.call)(X), [2, 2, 2, 2])
    np.testing.assert_array_equal(jax.grad(export.deserialize(exported.serialize(vjp_order=1)).call)(X), [2, 2, 2, 2])
    loaded = export.deserialize(exported.serialize())
    assert not loaded.has_vjp() and loaded.call(X) == exported.call(X)
    with pytest.raises(ValueError, match="was stored without its vjp; store it with serialize\\(vjp_order=1\\)"):
        jax.grad(loaded.call)(X)
    with pytest.raises(ValueError, match="without its vjp"):
        loaded.vjp()
    with pytest.raises(ValueError, match="without its vjp"):
        loaded.serialize(vjp_order=1)
    again = export.deserialize(export.deserialize(exported.serialize(vjp_order=1)).serialize(vjp_order=1))
    np.testing.assert_array_equal(jax.grad(again.call)(X), [2, 2, 2, 2])


def test_over_a_mesh():
    mesh = jax.make_mesh((8,), ("a",))
    f = jax.jit(lambda x: x * 2, in_shardings=NamedSharding(mesh, P("a")))
    x = np.arange(8, dtype=np.float32)
    for exported in both(export.export(f)(x)):
        assert exported.nr_devices == 8
        assert exported.in_shardings_jax()[0].mesh == mesh.abstract_mesh and exported.in_shardings_jax()[0].spec == P("a")
        assert exported.in_shardings_jax(mesh) == (NamedSharding(mesh, P("a")),) and exported.out_shardings_jax() == (None,)
        reversed_mesh = Mesh(np.array(jax.devices()[::-1]), ("a",))
        for on in (mesh, reversed_mesh):
            for spec in (P("a"), P()):
                given = exported.call(jax.device_put(x, NamedSharding(on, spec)))
                np.testing.assert_array_equal(given, x * 2)
                assert given.sharding.device_set == set(on.devices.flat)
        some = Mesh(np.array(jax.devices()[:4]), ("a",))
        with pytest.raises(ValueError, match="stands for 8 devices, but this is to run on"):
            exported.call(jax.device_put(x, NamedSharding(some, P("a"))))
        with pytest.raises(ValueError, match="has no devices"):
            exported.call(x)
    anywhere = export.export(jax.jit(jnp.sin))(x)
    split = NamedSharding(mesh, P("a"))
    assert anywhere.call(jax.device_put(x, split)).sharding == split
    inside = jax.shard_map(
        lambda v: export.export(jax.jit(jnp.sin))(jax.ShapeDtypeStruct((1,), np.float32)).call(v),
        mesh=mesh, in_specs=P("a"), out_specs=P("a"),
    )
    np.testing.assert_array_equal(inside(x), jnp.sin(x))


def test_over_explicit_axes():
    mesh = jax.make_mesh((8,), ("a",), axis_types=(AxisType.Explicit,))
    x = jax.device_put(np.arange(16, dtype=np.float32).reshape(8, 2), NamedSharding(mesh, P("a")))
    for exported in both(export.export(jax.jit(lambda v: jnp.sin(v).T))(x)):
        assert exported.out_avals[0].sharding.spec == P(None, "a")
        given = exported.call(x)
        np.testing.assert_array_equal(given, jnp.sin(x).T)
        assert given.sharding.spec == P(None, "a")


def test_captured_arrays_and_loops():
    table = jnp.arange(6.0).reshape(3, 2)
    f = jax.jit(lambda x: lax.scan(lambda c, row: (c + row.sum(), c * row), x, table))
    for exported in both(export.export(f)(2.0)):
        for given, want in zip(exported.call(2.0), f(2.0)):
            np.testing.assert_array_equal(given, want)
    keys = export.export(jax.jit(lambda k: jax.random.uniform(k, (2,))))(jax.random.key(0))
    np.testing.assert_array_equal(
        export.deserialize(keys.serialize()).call(jax.random.key(7)), jax.random.uniform(jax.random.key(7), (2,))
    )


Pair = collections.namedtuple("Pair", "x y")
Other = collections.namedtuple("Other", "x y")


class Box:
    def __init__(self, a, name):
        self.a, self.name = a, name


jax.tree_util.register_pytree_node(Box, lambda b: ((b.a,), b.name), lambda name, c: Box(*c, name))


def test_trees():
    f = jax.jit(lambda t: {"same": t, "list": [t[0], None, ()]})
    tree = (1.0, [2.0], None, {"a": 3.0, "b": (4.0,)}, collections.OrderedDict(z=5.0, y=6.0))
    loaded = export.deserialize(export.export(f)(tree).serialize())
    given = loaded.call(tree)
    assert jax.tree_util.tree_structure(given) == loaded.out_tree == jax.tree_util.tree_structure(f(tree))
    assert jax.tree_util.tree_leaves(given) == jax.tree_util.tree_leaves(f(tree))

    pairs = export.export(jax.jit(lambda p: Pair(p.y, p.x)))(Pair(1.0, 2.0))
    with pytest.raises(ValueError, match="has nodes of <class '.*Pair'>.*register_namedtuple_serialization"):
        pairs.serialize()
    assert export.register_namedtuple_serialization(Pair, serialized_name="Pair") is Pair
    assert export.deserialize(pairs.serialize()).call(Pair(1.0, 2.0)) == Pair(2.0, 1.0)
    export.register_pytree_node_serialization(
        Box, serialized_name="Box", serialize_auxdata=str.encode, deserialize_auxdata=bytes.decode
    )
    boxes = export.deserialize(export.export(jax.jit(lambda b: Box(b.a * 2, b.name)))(Box(1.0, "n")).serialize())
    assert (boxes.call(Box(1.0, "n")).a, boxes.call(Box(1.0, "n")).name) == (2, "n")
    with pytest.raises(ValueError, match="exported for arguments of the structure"):
        boxes.call(Box(1.0, "other"))

    with pytest.raises(ValueError, match="Pair'> is registered already, as 'Pair'"):
        export.register_namedtuple_serialization(Pair, serialized_name="Pair2")
    with pytest.raises(ValueError, match="the name 'Pair' is that of <class '.*Pair'>"):
        export.register_namedtuple_serialization(Other, serialized_name="Pair")
    with pytest.raises(ValueError, match="Box'> is no named tuple"):
        export.register_namedtuple_serialization(Box, serialized_name="Box2")
    with pytest.raises(ValueError, match="<class 'int'> is no node of trees"):
        export.register_pytree_node_serialization(
            int, serialized_name="int", serialize_auxdata=str, deserialize_auxdata=str
        )
    with pytest.raises(TypeError, match="the keys of a dict in a tree must be str to be stored, got 1"):
        export.export(jax.jit(lambda d: d[1]))({1: 2.0}).serialize()


def test_what_bad_input_raises():
    exported = export.export(jax.jit(lambda x, *, k: x * k))(X, k=np.float32(2))
    with pytest.raises(ValueError, match=r"argument .*is float32\[5\], but the function was exported for float32\[4\]"):
        exported.call(np.zeros(5, np.float32), k=1.0)
    with pytest.raises(ValueError, match=r"is int32\[4\], but the function was exported for float32\[4\]"):
        exported.call(np.arange(4), k=1.0)
    with pytest.raises(ValueError, match="exported for arguments of the structure .*'k'.*, but is called with"):
        exported.call(X)
    with pytest.raises(ValueError, match="export: the function must be the result of `jit`, got <function"):
        export.export(lambda x: x)
    with pytest.raises(ValueError, match="must be the result of `jit`"):
        export.export(jax.pmap(lambda x: x))
    with pytest.raises(RuntimeError, match="Unknown backend: 'tpu'"):  # JAX exports for what it cannot run on.
        export.export(jax.jit(jnp.sin), platforms=["tpu"])
    with pytest.raises(TypeError, match="disabled_checks must be of DisabledSafetyCheck"):
        export.export(jax.jit(jnp.sin), disabled_checks=["platform"])
    for call in (
        lambda x: jax.debug.print("{}", x),
        lambda x: jax.pure_callback(np.sin, jax.ShapeDtypeStruct((), np.float32), x),
    ):
        with pytest.raises(NotImplementedError, match="calls a function of this process at test_export.py"):
            export.export(jax.jit(call))(np.float32(1))

    stored = exported.serialize()
    with pytest.raises(ValueError, match="no exported function that serialize"):
        export.deserialize(b"abc")
    with pytest.raises(ValueError, match="damaged or cut off"):
        export.deserialize(stored[:-40])
    with pytest.raises(TypeError, match="deserialize: needs bytes, got <class 'str'>"):
        export.deserialize("abc")
    bad = bytearray(stored)
    bad[len(bad) // 2] ^= 1
    with pytest.raises(ValueError, match="checksum"):
        export.deserialize(bad)


def test_disabled_checks():
    checks = [export.DisabledSafetyCheck.platform(), export.DisabledSafetyCheck.custom_call("x")]
    assert [str(check) for check in checks] == ["platform", "custom_call:x"]
    assert [check.is_custom_call() for check in checks] == [None, "x"]
    for exported in both(export.export(jax.jit(jnp.sin), disabled_checks=checks)(X)):
        assert list(exported.disabled_safety_checks) == checks


def test_shapes_with_variables_are_refused_with_the_reason():
    assert export.symbolic_shape("2, 3") == (2, 3) and export.symbolic_shape("_, ...", like=(4, 5, 6)) == (4, 5, 6)
    for spec in ("a,b", "2*n"):
        with pytest.raises(NotImplementedError, match="symbolic_shape: '.*' is no number: shapes are numbers here"):
            export.symbolic_shape(spec)
    with pytest.raises(ValueError, match="leaves extents to `like`"):
        export.symbolic_shape("_, 3")
    with pytest.raises(ValueError, match="is not the shape"):
        export.symbolic_shape("2, 3", like=(2, 4))
    with pytest.raises(NotImplementedError, match="SymbolicScope"):
        export.SymbolicScope(["a > 2"])
    assert not export.is_symbolic_dim(3) and export.symbolic_dim_bounds(3) == (3, 3)
    specs = export.symbolic_args_specs((np.ones((2, 3), np.float32), {"k": 1.0}), ("2,3", None))
    assert specs == (jax.ShapeDtypeStruct((2, 3), np.float32), {"k": jax.ShapeDtypeStruct((), np.float32)})


def test_another_process_calls_it(tmp_path):
    mesh = jax.make_mesh((8,), ("a",))
    f = jax.jit(lambda x: jax.shard_map(lambda v: lax.psum(v, "a"), mesh=mesh, in_specs=P("a"), out_specs=P())(x) * 2)
    x = jax.device_put(np.arange(8, dtype=np.float32), NamedSharding(mesh, P("a")))
    (tmp_path / "f").write_bytes(export.export(f)(x).serialize())
    program = f"""
import numpy as np, shoal as jax
from shoal.sharding import NamedSharding, PartitionSpec as P
f = jax.export.deserialize(open({str(tmp_path / "f")!r}, "rb").read())
mesh = jax.make_mesh((8,), ("other",))
print(f.call(jax.device_put(np.arange(8, dtype=np.float32), NamedSharding(mesh, P("other")))))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60,
        env={"SHOAL_NUM_CPU_DEVICES": "8", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
    )
    assert done.stdout == f"{np.asarray(f(x))}\n", done.stderr
