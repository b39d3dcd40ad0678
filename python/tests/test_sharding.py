"""Devices, meshes, shardings, placement, shard_map and pmap."""

import copy
import pickle

import numpy as np
import pytest

import shoal as jax
import shoal.numpy as jnp
from shoal import lax
from shoal.sharding import AxisType, Mesh, NamedSharding, SingleDeviceSharding
from shoal.sharding import PartitionSpec as P


def test_devices():
    assert jax.device_count() == jax.local_device_count() == 8
    assert repr(jax.devices()[3]) == "CpuDevice(id=3)"
    assert (jax.process_index(), jax.process_count(), jax.default_backend()) == (0, 1, "cpu")
    assert [m.kind for m in jax.devices()[0].addressable_memories()] == ["device", "pinned_host", "unpinned_host"]
    with pytest.raises(RuntimeError, match="Unknown backend"):
        jax.devices("tpu")


def test_meshes():
    mesh = jax.make_mesh((2, 4), ("x", "y"))
    assert str(mesh) == "Mesh('x': 2, 'y': 4, axis_types=(Auto, Auto))"
    assert repr(mesh) == "Mesh(axis_sizes=(2, 4), axis_names=('x', 'y'), axis_types=(Auto, Auto))"
    assert mesh.axis_names == ("x", "y") and dict(mesh.shape) == {"x": 2, "y": 4} and mesh.devices.shape == (2, 4)
    assert Mesh(np.array(jax.devices()).reshape(2, 4), ("x", "y")) == mesh
    assert hash(Mesh(np.array(jax.devices()).reshape(2, 4), ("x", "y"))) == hash(mesh)
    assert repr(jax.make_mesh((8,), ("i",), axis_types=(AxisType.Explicit,)).axis_types) == "(Explicit,)"
    with pytest.raises(ValueError):
        jax.make_mesh((3, 4), ("x", "y"))
    with pytest.raises(TypeError):
        Mesh([1, 2], ("x",))


def test_speeds_of_meshes():
    usual = jax.make_mesh((2, 4), ("x", "y"))
    assert (usual.axis_speeds, usual.device_speed) == ((4e9, 4e9), 1e11)
    slow = jax.make_mesh((2, 4), ("x", "y"), axis_speeds=(1e9, 4e9), device_speed=1e12)
    assert (slow.axis_speeds, slow.device_speed) == ((1e9, 4e9), 1e12)
    assert slow != usual and slow == Mesh(slow.devices, ("x", "y"), axis_speeds=[1e9, 4e9], device_speed=10**12)
    assert repr(slow).endswith("axis_types=(Auto, Auto), axis_speeds=(1000000000.0, 4000000000.0), device_speed=1000000000000.0)")
    assert str(slow) == "Mesh('x': 2, 'y': 4, axis_types=(Auto, Auto), axis_speeds=(1e+09, 4e+09), device_speed=1e+12)"
    for mesh in (slow, slow.abstract_mesh):
        again = pickle.loads(pickle.dumps(mesh))
        assert again == mesh and again.axis_speeds == (1e9, 4e9) and copy.deepcopy(mesh) == mesh
        assert mesh.update(axis_names=("a", "b")).axis_speeds == (1e9, 4e9)
        assert mesh.update(axis_speeds=(1, 2)).device_speed == 1e12
    assert slow.abstract_mesh.update_axis_types({"x": AxisType.Explicit}).axis_speeds == (1e9, 4e9)
    with pytest.raises(ValueError, match=r"give one speed for each axis, or none at all"):
        jax.make_mesh((2, 4), ("x", "y"), axis_speeds=(1e9,))
    with pytest.raises(ValueError, match=r"the speed of axis 'y' is 0; it must be a positive number of bytes per second"):
        jax.make_mesh((2, 4), ("x", "y"), axis_speeds=(1e9, 0))
    for wrong in ("fast", 1e9, (1e9, "fast")):
        with pytest.raises(TypeError, match="make_mesh: axis_speeds must be"):
            jax.make_mesh((2, 4), ("x", "y"), axis_speeds=wrong)
    with pytest.raises(TypeError, match="device_speed must be numbers"):
        jax.make_mesh((2, 4), ("x", "y"), device_speed="fast")


def test_arrays_stay_split_along_slow_axes():
    def spec_of_sum(speeds):
        mesh = jax.make_mesh((2, 4), ("x", "y"), axis_speeds=speeds)
        a, b = (jax.device_put(jnp.ones((8, 8)), NamedSharding(mesh, P(axis))) for axis in ("x", "y"))
        return jax.jit(lambda a, b: a + b)(a, b).sharding.spec

    assert (spec_of_sum((1e8, 4e9)), spec_of_sum((4e9, 1e8))) == (P("x"), P("y"))


def test_explain_tells_what_was_measured(tmp_path):
    x = jax.device_put(jnp.ones((8, 8)), NamedSharding(jax.make_mesh((8,), ("x",)), P("x")))
    compiled = jax.jit(lambda x: jnp.sin(x).sum()).lower(x).compile()
    assert "computes 8 operations on each device" in compiled.explain() and "measured" not in compiled.explain()
    with jax.profiler.trace(tmp_path / "trace.json"):
        compiled(x).block_until_ready()
    assert "\nmeasured in 1 launch on this process: " in compiled.explain()


def test_specs():
    spec = P("x", None, ("y", "z"))
    assert repr(spec) == "P('x', None, ('y', 'z'))" and len(spec) == 3 and spec[2] == ("y", "z")
    assert tuple(spec) == ("x", None, ("y", "z")) and spec == P("x", None, ("y", "z")) and spec != P("x")
    assert P("x") + P("y") == P("x", "y")
    with pytest.raises(TypeError, match="entry"):
        P(3)


def test_shardings_are_values_and_pickle():
    mesh = jax.make_mesh((2, 4), ("x", "y"))
    for s in (NamedSharding(mesh, P("x", "y")), SingleDeviceSharding(jax.devices()[1], memory_kind="pinned_host")):
        again = pickle.loads(pickle.dumps(s))
        assert again == s and hash(again) == hash(s) and repr(again) == repr(s)
        assert isinstance(s, jax.sharding.Sharding)
    s = NamedSharding(mesh, P("x", "y"))
    assert s.shard_shape((4, 8)) == (2, 2)
    assert s.devices_indices_map((4, 8))[jax.devices()[5]] == (slice(2, 4), slice(2, 4))
    assert s.with_memory_kind("pinned_host").memory_kind == "pinned_host"
    with pytest.raises(ValueError, match="'z'"):
        NamedSharding(mesh, P("z"))
    with pytest.raises(jax.errors.DuplicateSpecError):
        NamedSharding(mesh, P("x", "x"))


def test_arrays_know_where_they_lie():
    mesh = jax.make_mesh((2, 4), ("x", "y"))
    a = jax.device_put(np.arange(32, dtype=np.float32).reshape(4, 8), NamedSharding(mesh, P("x", "y")))
    assert a.committed and not jnp.ones(2).committed
    shard = a.addressable_shards[5]
    assert shard.index == (slice(2, 4), slice(2, 4)) and shard.data.tolist() == [[18, 19], [26, 27]]
    assert np.array_equal(np.asarray(a), np.arange(32).reshape(4, 8))
    assert a.is_fully_addressable and not a.is_fully_replicated and len(a.devices()) == 8
    with pytest.raises(IndexError):
        a.addressable_data(8)


def test_device_put_of_trees_and_back():
    mesh = jax.make_mesh((8,), ("x",))
    s = NamedSharding(mesh, P("x"))
    tree = jax.device_put({"a": np.ones(8), "b": (np.zeros((8, 2)), 3.0)}, {"a": s, "b": None})
    assert tree["a"].sharding == s and tree["b"][1].shape == ()
    back = jax.device_get(tree)
    assert isinstance(back["a"], np.ndarray) and back["a"].dtype == np.float32
    with pytest.raises(TypeError):
        jax.device_put("text")
    with pytest.raises(TypeError, match="Sharding"):
        jax.device_put(1.0, "cpu")


def test_arrays_of_different_devices_do_not_mix():
    a = jax.device_put(1.0, jax.devices()[0])
    b = jax.device_put(1.0, jax.devices()[1])
    with pytest.raises(ValueError):
        a + b


def test_set_mesh_and_bare_specs():
    mesh = jax.make_mesh((8,), ("x",))
    with jax.set_mesh(mesh):
        a = jax.device_put(jnp.arange(8), P("x"))
        assert a.sharding == NamedSharding(mesh, P("x"))
        assert jax.sharding.get_abstract_mesh().axis_names == ("x",)
    assert jax.get_mesh().empty
    with pytest.raises(RuntimeError, match="set_mesh"):
        jax.device_put(jnp.arange(8), P("x"))


def test_explicit_axes_are_part_of_types():
    mesh = jax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
    a = jax.device_put(jnp.ones((4, 8)), NamedSharding(mesh, P("x", "y")))
    assert str(jax.typeof(a)) == "float32[4@x,8@y]"
    with pytest.raises(jax.errors.ShardingTypeError):
        jax.jit(lambda a, b: a @ b)(a, jax.device_put(jnp.ones((8, 4)), NamedSharding(mesh, P("y", None))))
    b = jax.sharding.reshard(a, NamedSharding(mesh, P(None, "y")))
    assert str(jax.typeof(b)) == "float32[4,8@y]"
    seen = []
    alike = jax.jit(lambda v: [jnp.full_like(v, 3), jnp.zeros_like(v), jnp.ones_like(v, dtype=int)])
    for made in [*alike(a), jnp.full_like(a, 3)]:
        assert made.sharding.spec == P("x", "y")
    jax.jit(lambda v: seen.append(jax.typeof(jnp.full_like(v, 3))))(a)
    assert str(seen[0]) == "float32[4@x,8@y]"


def test_shard_map():
    mesh = jax.make_mesh((2, 4), ("x", "y"))
    seen = []

    @jax.shard_map(mesh=mesh, in_specs=P("x", "y"), out_specs=P("x"))
    def row_sums(block):
        seen.append(block.shape)
        return lax.psum(block.sum(axis=1), "y")

    a = jnp.arange(32.0).reshape(4, 8)
    assert row_sums(a).tolist() == a.sum(axis=1).tolist()
    assert jax.jit(row_sums)(a).tolist() == a.sum(axis=1).tolist()
    assert seen[0] == (2, 2)
    with pytest.raises(ValueError, match="varies over"):
        jax.shard_map(lambda x: x, mesh=mesh, in_specs=P("x"), out_specs=P())(a)
    with pytest.raises(jax.errors.IndivisibleError):
        jax.shard_map(lambda x: x, mesh=mesh, in_specs=P("y"), out_specs=P("y"))(jnp.ones(6))
    with pytest.raises(ValueError):
        jax.shard_map(lambda x, y: x, mesh=mesh, in_specs=(P(),), out_specs=P())(1.0, 2.0)


def test_a_shard_can_be_looked_at_in_an_eager_shard_map():
    mesh = jax.make_mesh((8,), ("x",))
    values = []

    def f(x):
        total = lax.psum(x, "x")
        values.append(float(total[0]))
        return x

    jax.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=P("x"))(jnp.arange(8.0))
    assert values == [28.0]


def test_pmaps_nest():
    @jax.pmap
    def outer(x):
        return jax.pmap(lambda y: lax.psum(y, "j"), axis_name="j")(x)

    assert outer(jnp.arange(8.0).reshape(4, 2)).tolist() == [[1, 1], [5, 5], [9, 9], [13, 13]]
    with pytest.raises(ValueError, match="one size"):
        jax.pmap(lambda x, y: x + y)(jnp.ones(4), jnp.ones(8))
    with pytest.raises(ValueError, match="9 devices"):
        jax.pmap(lambda x: x)(jnp.ones(9))
    assert jax.pmap(lambda x, n: x * n, in_axes=(0, None), static_broadcasted_argnums=1)(jnp.ones(4), 3).tolist() == [3] * 4


def test_arrays_of_parts():
    s = NamedSharding(jax.make_mesh((8,), ("x",)), P("x"))
    a = jax.make_array_from_callback((16,), s, lambda index: np.arange(16.0)[index])
    assert a.tolist() == list(range(16)) and a.sharding == s
    b = jax.make_array_from_single_device_arrays((16,), s, [x.data for x in a.addressable_shards])
    assert b.tolist() == a.tolist()
    assert jax.make_array_from_process_local_data(s, np.ones(16, np.float32)).shape == (16,)


def test_constraints():
    mesh = jax.make_mesh((8,), ("x",))
    f = jax.jit(lambda x: lax.with_sharding_constraint(x * 2, NamedSharding(mesh, P("x"))))
    assert f(jnp.ones(8)).sharding == NamedSharding(mesh, P("x"))


def test_pictures(capsys):
    a = jax.device_put(jnp.ones((8, 8)), NamedSharding(jax.make_mesh((2, 4), ("x", "y")), P("x", "y")))
    jax.debug.visualize_array_sharding(a, use_color=False)
    text = capsys.readouterr().out
    assert "CPU 0" in text and "CPU 7" in text
    html = a._repr_html_()
    assert "CPU 5" in html and "1." in html
    assert jnp.ones(2)._repr_html_() is not None


def test_indices():
    a = jnp.arange(6).reshape(2, 3)
    assert a[None].shape == (1, 2, 3) and a[:, None, ..., 0].shape == (2, 1)
    assert a.at[None, 0].set(7)[0].tolist() == [7, 7, 7]
    assert a[a > 2].tolist() == [3, 4, 5]
    # What lies outside is read as the nearest element, and not written, unless a mode says otherwise.
    assert a[2].tolist() == a[jnp.array(2)].tolist() == [3, 4, 5] and a[-9].tolist() == [0, 1, 2]
    assert a.at[2, 0].set(9).tolist() == a.tolist()
    assert jnp.isnan(a.astype(float).at[2, 0].get(mode="fill"))
    assert a[[0, 1], :, None].shape == (2, 3, 1) and a[0, [2, 0]].tolist() == [2, 0]
    assert a.at[0].set([7, 8, 9])[0].tolist() == [7, 8, 9]
    with pytest.raises(TypeError, match="non-tuple sequence"):
        a[[0, 1]]
    with pytest.raises(TypeError, match="immutable"):
        a[0] = 1


def test_copies_and_pickles():
    a = jnp.arange(4, dtype=jnp.bfloat16)
    for b in (copy.copy(a), copy.deepcopy(a), pickle.loads(pickle.dumps(a))):
        assert b.dtype == a.dtype and b.tolist() == a.tolist()


def test_messages_of_multihost_utils_name_the_line_of_the_program():
    from shoal.experimental import multihost_utils

    mesh = jax.make_mesh((8,), ("x",))
    for convert in (multihost_utils.host_local_array_to_global_array, multihost_utils.global_array_to_host_local_array):
        with pytest.raises(ValueError, match=r"axis 'q' of spec P\('q',\)[^$]*at test_sharding.py"):
            convert(np.ones(8), mesh, jax.P("q"))


def test_arrays_of_one_device_each_come_in_a_list():
    sharding = jax.NamedSharding(jax.make_mesh((8,), ("x",)), jax.P("x"))
    with pytest.raises(TypeError, match="arrays must be a list or a tuple of arrays, got <class 'shoal.Array'>"):
        jax.make_array_from_single_device_arrays((8,), sharding, jax.numpy.ones(8))
    with pytest.raises(TypeError, match=r"arrays\[0\] must be an array that lies on a device, got <class 'numpy.ndarray'>"):
        jax.make_array_from_single_device_arrays((8,), sharding, [np.ones(1)] * 8)


@pytest.mark.parametrize("width", [24, 30, 40])
@pytest.mark.parametrize("rows", [40, 600])
def test_short_rows_that_are_split_unevenly(rows, width):
    mesh = jax.make_mesh((2,), ("y",), devices=jax.devices()[:2])
    values = np.random.default_rng(0).integers(-9, 9, (rows, width)).astype(np.float32)
    x = jax.device_put(values, NamedSharding(mesh, P(None, "y")))
    for part in (slice(1, None), slice(1, None, 2), slice(None, None, -2), slice(2, 7)):
        for f in (lambda x: x.sum(1), lambda x: x.max(1), lambda x: x - x.min(1, keepdims=True), lambda x: x.sum(0)):
            np.testing.assert_array_equal(jax.jit(lambda x: f(x[:, part]))(x), f(values[:, part]))
