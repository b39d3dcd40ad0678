"""jit: tracing by calling, static and donated arguments, trees, lowering, and what goes wrong."""

import dataclasses
from collections import OrderedDict, defaultdict, namedtuple
from functools import partial

import numpy as np
import pytest

import shoal as jax
import shoal.numpy as jnp
from shoal.sharding import NamedSharding
from shoal.sharding import PartitionSpec as P


def mesh8():
    return jax.make_mesh((8,), ("x",))


def test_a_function_is_traced_once_for_each_kind_of_arguments():
    traces = []

    @jax.jit
    def f(x, y):
        traces.append(x.shape)
        return x + y

    assert f(jnp.ones(3), 2.0).tolist() == [3, 3, 3]
    assert f(jnp.zeros(3), 5.0).tolist() == [5, 5, 5]
    assert traces == [(3,)]
    assert f(jnp.ones((2, 2)), 1).shape == (2, 2)
    assert f(jnp.ones(3), jnp.float32(1)).dtype == jnp.float32  # Not weak: another kind.
    assert len(traces) == 3


def test_names_and_documentation_are_those_of_the_function():
    @jax.jit
    def scaled(x, *, by=2):
        """Scales."""
        return x * by

    assert (scaled.__name__, scaled.__doc__) == ("scaled", "Scales.")
    assert scaled(jnp.arange(3)).tolist() == [0, 2, 4]
    assert scaled(jnp.arange(3), by=3).tolist() == [0, 3, 6]


@pytest.mark.parametrize("how", [{"static_argnums": 1}, {"static_argnames": "n"}, {"static_argnums": (-1,)}])
def test_static_arguments(how):
    traces = []

    @partial(jax.jit, **how)
    def power(x, n):
        traces.append(n)
        return x**n if n else jnp.ones_like(x)

    x = jnp.array([1.0, 2.0, 3.0])
    assert power(x, 2).tolist() == [1, 4, 9]
    assert power(x, 2).tolist() == [1, 4, 9]
    assert power(x, 0).tolist() == [1, 1, 1]
    assert power(x, n=3).tolist() == [1, 8, 27]
    assert traces == [2, 0, 3]


def test_static_arguments_must_be_hashable():
    f = jax.jit(lambda x, n: x, static_argnums=1)
    with pytest.raises(ValueError, match="Non-hashable static arguments"):
        f(1.0, [1, 2])
    with pytest.raises(ValueError, match="only accepts 2 positional"):
        jax.jit(lambda x, n: x, static_argnums=5)
    with pytest.raises(ValueError, match="invalid argnames"):
        jax.jit(lambda x: x, static_argnames="m")


def test_values_of_static_arguments_of_other_types_are_others():
    seen = []

    @partial(jax.jit, static_argnums=0)
    def f(n, x):
        seen.append(n)
        return x

    f(1, 2.0), f(True, 2.0), f(1.0, 2.0)
    assert [type(n) for n in seen] == [int, bool, float]


Point = namedtuple("Point", "x y")


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Layer:
    w: object
    b: object
    name: str = dataclasses.field(default="", metadata={"static": True})


def test_trees_go_in_and_come_out():
    @jax.jit
    def f(tree):
        return jax.tree.map(lambda x: x + 1, tree)

    tree = {
        "list": [jnp.zeros(2), 1.0],
        "tuple": (jnp.ones(1),),
        "none": None,
        "named": Point(1, jnp.zeros(())),
        "layer": Layer(jnp.ones(2), jnp.zeros(2), "first"),
        "ordered": OrderedDict(z=1, a=2),
        "default": defaultdict(list, k=3),
        "empty": {},
    }
    result = f(tree)
    assert jax.tree.structure(result) == jax.tree.structure(tree)
    assert isinstance(result["named"], Point) and result["named"].x.tolist() == 2
    assert result["layer"].name == "first" and result["layer"].w.tolist() == [2, 2]
    assert list(result["ordered"]) == ["z", "a"]
    assert result["none"] is None


def test_another_structure_is_another_program():
    @jax.jit
    def f(tree):
        return sorted(tree) if isinstance(tree, dict) and False else tree

    assert f({"a": 1, "b": 2}).keys() == {"a", "b"}
    assert f({"a": 1, "c": 2}).keys() == {"a", "c"}
    assert type(f([1, 2])) is list and type(f((1, 2))) is tuple
    assert isinstance(f(Point(1, 2)), Point)
    one, two = Layer(1.0, 2.0, "one"), Layer(1.0, 2.0, "two")
    assert (f(one).name, f(two).name) == ("one", "two")


def test_a_name_that_is_not_sorted_keeps_its_value():
    assert jax.jit(lambda *, b, a: a - b)(b=1.0, a=5.0).tolist() == 4


def test_closures_are_arguments_that_nobody_sees():
    captured = jax.device_put(jnp.arange(8.0), NamedSharding(mesh8(), P("x")))
    f = jax.jit(lambda x: x + captured)
    assert f(1.0).tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert f(1.0).sharding == captured.sharding


def test_methods():
    class Model:
        def __init__(self, scale):
            self.scale = scale

        @partial(jax.jit, static_argnums=0)
        def apply(self, x):
            return x * self.scale

    assert Model(3.0).apply(jnp.ones(2)).tolist() == [3, 3]


def test_donated_arguments_are_gone():
    f = jax.jit(lambda x, y: (x + 1, y), donate_argnums=0)
    x, y = jnp.ones(1024), jnp.ones(2)
    f(x, y)
    assert x.is_deleted() and not y.is_deleted()
    with pytest.raises(RuntimeError, match="donated"):
        x + 1
    with pytest.raises(ValueError, match="cannot intersect"):
        jax.jit(lambda x: x, static_argnums=0, donate_argnums=0)


def test_pmap_takes_donated_arguments():
    split = jax.pmap(lambda x: x)
    x, y = split(np.arange(8.0, dtype=np.float32)), split(np.ones(8, np.float32))
    assert jax.pmap(lambda x, y: x + y, donate_argnums=0)(x, y).tolist() == list(range(1, 9))
    assert x.is_deleted() and not y.is_deleted()
    for use in (lambda: x + 1, lambda: np.asarray(x), lambda: jax.pmap(lambda x: x)(x)):
        with pytest.raises(RuntimeError, match="donated to 'pmap'"):
            use()
    scaled = jax.pmap(lambda n, y: n * y, static_broadcasted_argnums=0, donate_argnums=-1)
    assert scaled(3, y).tolist() == [3] * 8 and y.is_deleted()
    # What has to be moved to the devices is kept, and of it only a copy given away.
    here = jnp.arange(8.0)
    assert jax.pmap(lambda x: x, donate_argnums=0)(here).shape == (8,) and not here.is_deleted()


def test_pmap_refuses_what_cannot_be_donated():
    with pytest.raises(ValueError, match=r"cannot intersect, static_argnums=\(1,\) and donate_argnums=\(0, 1\)"):
        jax.pmap(lambda x, n: x, static_broadcasted_argnums=1, donate_argnums=(0, 1))
    with pytest.raises(ValueError, match=r"donate_argnums=\(5,\), but only accepts 1"):
        jax.pmap(lambda x: x, donate_argnums=5)
    with pytest.raises(TypeError, match="donate_argnums must be an int or a sequence of ints, got 'x'"):
        jax.pmap(lambda x: x, donate_argnums="x")
    with pytest.raises(RuntimeError, match="'tpu' requested.*Platforms present are: cpu"):
        jax.pmap(lambda x: x, backend="tpu")


def test_backend():
    far = jax.device_put(1.0, jax.devices()[3])
    with pytest.warns(DeprecationWarning, match="backend and device argument on jit is deprecated"):
        on_platform = jax.jit(lambda x: x + 1, backend="cpu")
    assert on_platform(far).devices() == {jax.devices()[0]} and on_platform(far).committed
    with pytest.warns(DeprecationWarning):
        on_device = jax.jit(lambda x: x + 1, device=jax.devices()[2])
    assert on_device(far).devices() == {jax.devices()[2]}
    with pytest.warns(DeprecationWarning):
        named = jax.jit(lambda x, n, *, scale: x["a"] * len(n) * scale, backend="cpu", static_argnums=1)
    assert named({"a": far}, "abc", scale=jax.device_put(2.0, jax.devices()[5])) == 6.0
    assert named.lower({"a": far}, "ab", scale=1.0).compile()({"a": 3.0}, scale=1.0) == 6.0
    assert named.eval_shape({"a": far}, "ab", scale=1.0).shape == () and named._cache_size() == 1


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    "options, error, text",
    [
        ({"backend": "gpu"}, RuntimeError, "Unknown backend: 'gpu' requested.*Platforms present are: cpu"),
        ({"backend": "cpu", "device": 0}, ValueError, "can't specify both a device and a backend for jit"),
        ({"backend": "cpu", "in_shardings": P()}, ValueError, "in_shardings should not be specified"),
        ({"inline": "early"}, ValueError, "Invalid inline option: 'early'; it is True, False or one of .*JAX_EARLY"),
        ({"inline": 1}, ValueError, "Invalid inline option: 1"),
        ({"compiler_options": {"xla_fast": 1}}, RuntimeError, "no such compiler_options: {'xla_fast': 1}; there are none"),
        ({"compiler_options": "xla_fast"}, TypeError, "compiler_options must be a dict or None, got <class 'str'>"),
    ],
)
def test_options_that_are_not_there_are_refused(options, error, text):
    with pytest.raises(error, match=text):
        jax.jit(lambda x: x, **options)


def test_options_without_effect_on_results():
    for options in ({"inline": True}, {"inline": jax.Inline.JAX_EARLY}, {"compiler_options": {}}, {"keep_unused": True}):
        assert jax.jit(lambda x, y: x * 2, **options)(3.0, 1) == 6.0
    lowered = jax.jit(lambda x: x).lower(1.0)
    with pytest.raises(RuntimeError, match="compile: no such compiler_options: {'xla_fast': 1}"):
        lowered.compile({"xla_fast": 1})
    assert lowered.compile({})(2.0) == 2.0
    with pytest.raises(RuntimeError, match="'gpu' requested"):
        jax.jit(lambda x: x).trace(1.0).lower(lowering_platforms=("gpu",))


def test_clear_caches():
    traces = []

    def traced(x):
        traces.append(x)
        return x + 1

    split = NamedSharding(mesh8(), P("x"))
    with jax.set_mesh(mesh8()):
        bare = jax.jit(traced, in_shardings=P("x"))
        calls = [
            (jax.jit(traced), jnp.ones(8)),
            (bare, jax.device_put(jnp.ones(8), split)),
            (jax.pmap(traced), jnp.ones(8)),
        ]
        for function, x in calls:
            traces.clear()
            function(x), function(x)
            once = len(traces)
            assert once >= 1
            jax.clear_caches()
            function(x), function(x)
            assert len(traces) == 2 * once
            function.clear_cache()
            assert function._cache_size() == 0
            function(x), function(x)
            assert len(traces) == 3 * once and function._cache_size() == 1
        jax.clear_caches()
        assert bare._cache_size() == 0


def test_shardings_of_arguments_and_results():
    s = NamedSharding(mesh8(), P("x"))
    f = jax.jit(lambda x, y: (x + y, y), in_shardings=(s, None), out_shardings=(None, s))
    a, b = f(np.arange(8.0, dtype=np.float32), jnp.ones(8))
    assert a.sharding.is_equivalent_to(s, 1) and b.sharding == s
    with pytest.raises(ValueError, match="in_shardings"):
        jax.jit(lambda x: x, in_shardings=(s, s))(jnp.ones(8))
    with pytest.raises(jax.errors.IndivisibleError):
        jax.jit(lambda x: x, in_shardings=s)(jnp.ones(7))


def test_ahead_of_time():
    f = jax.jit(lambda x, n: {"y": x @ x.T, "n": n}, static_argnums=1)
    lowered = f.lower(jax.ShapeDtypeStruct((4, 8), jnp.float32), 3)
    assert "dot" in lowered.as_text()
    compiled = lowered.compile()
    assert compiled(jnp.ones((4, 8)))["y"].tolist() == [[8] * 4] * 4
    assert compiled.cost_analysis()["flops"] >= 2 * 4 * 4 * 8
    assert compiled.memory_analysis().argument_size_in_bytes == 4 * 4 * 8
    assert compiled.output_shardings["y"].memory_kind == "device"
    assert lowered.out_info["y"] == jax.ShapeDtypeStruct((4, 4), jnp.float32)
    with pytest.raises(TypeError):
        compiled(jnp.ones((4, 8), jnp.int32))


def test_eval_shape_computes_nothing():
    shape = jax.eval_shape(lambda x: {"a": jnp.dot(x, x)}, jax.ShapeDtypeStruct((10000, 10000), jnp.bfloat16))
    assert shape == {"a": jax.ShapeDtypeStruct((10000, 10000), jnp.bfloat16)}


def test_control_flow_on_tracers_is_an_error_that_names_the_line():
    @jax.jit
    def f(x):
        if x > 0:
            return x
        return -x

    with pytest.raises(jax.errors.TracerBoolConversionError, match=r"test_jit.py:\d+"):
        f(1.0)
    with pytest.raises(jax.errors.TracerArrayConversionError):
        jax.jit(lambda x: np.asarray(x))(jnp.ones(2))
    with pytest.raises(jax.errors.TracerIntegerConversionError):
        jax.jit(lambda x: [1, 2, 3][x])(1)
    with pytest.raises(jax.errors.ConcretizationTypeError):
        jax.jit(lambda x: float(x))(1.0)


def test_leaked_tracers():
    leaked = []
    jax.jit(lambda x: leaked.append(x) or x)(1.0)
    with pytest.raises(jax.errors.UnexpectedTracerError, match="outside the call"):
        leaked[0] + 1


def test_arguments_and_results_that_are_no_arrays():
    with pytest.raises(TypeError, match="argument \\[0\\]"):
        jax.jit(lambda x: x)("text")
    with pytest.raises(TypeError, match="not a valid JAX type"):
        jax.jit(lambda x: "text")(1.0)
    with pytest.raises(TypeError, match="callable"):
        jax.jit(3)


def test_errors_of_the_function_pass_through():
    class Mine(Exception):
        pass

    @jax.jit
    def f(x):
        raise Mine("here")

    with pytest.raises(Mine, match="here"):
        f(1.0)
    assert jax.jit(lambda x: x + 1)(1.0).tolist() == 2  # No trace is left open.


def test_nested_jits():
    inner = jax.jit(lambda x: x * 2)
    assert jax.jit(lambda x: inner(inner(x)) + 1)(jnp.ones(2)).tolist() == [5, 5]


def test_debug_callbacks_and_prints(capsys):
    seen = []

    @jax.jit
    def f(x):
        jax.debug.callback(lambda v, name: seen.append((name, v.tolist())), x, name=7.0)
        jax.debug.print("x is {} and {y}", x, y=x * 2)
        return x + 1

    f(jnp.float32(3)).block_until_ready()
    jax.effects_barrier()
    assert [v for _, v in seen] == [3.0]
    assert capsys.readouterr().out == "x is 3.0 and 6.0\n"
    with pytest.raises(ValueError, match="Unused arguments"):
        jax.debug.print("nothing", 1.0)


def test_a_callback_may_compute():
    results = []
    f = jax.jit(lambda x: jax.debug.callback(lambda v: results.append((v + 1).tolist()), x) or x)
    f(jnp.ones(2)).block_until_ready()
    jax.effects_barrier()
    assert results == [[2, 2]]


def test_what_a_callback_raises_is_raised_where_a_result_is_read():
    def broken(v):
        raise RuntimeError("in the callback")

    f = jax.jit(lambda x: jax.debug.callback(broken, x) or x + 1)
    for size in (2, 1 << 20):
        result = f(jnp.ones(size))
        for read in (result.block_until_ready, result.block_until_ready, lambda: result[0].item(), lambda: memoryview(result)):
            with pytest.raises(RuntimeError, match="in the callback"):
                read()


def test_callbacks_with_results():
    from shoal.experimental import io_callback

    shape = jax.ShapeDtypeStruct((3,), jnp.float32)
    x = jnp.arange(3.0)
    # As NumPy gives them, of 64 bits.
    f = lambda x: jax.pure_callback(lambda v, *, by: np.asarray(v, np.float64) * by, shape, x, by=3)
    assert f(x).tolist() == jax.jit(f)(x).tolist() == [0, 3, 6]
    seen = []
    tree = jax.jit(lambda x: jax.pure_callback(lambda d: {"b": [d["a"], 7]}, {"b": [shape, jax.ShapeDtypeStruct((), jnp.int32)]}, {"a": x}))(x)
    assert tree["b"][0].tolist() == [0, 1, 2] and tree["b"][1].item() == 7

    @jax.jit
    def counts(x):
        def body(i, total):
            return total + io_callback(lambda i: seen.append(int(i)) or np.float32(len(seen)), jax.ShapeDtypeStruct((), jnp.float32), i, ordered=True)

        io_callback(lambda: None, None)
        return jax.lax.fori_loop(0, 4, body, x)

    assert counts(jnp.float32(0.5)).item() == 10.5
    assert seen == [0, 1, 2, 3]


def test_results_of_callbacks_are_those_that_were_promised():
    def call(given, promised=jax.ShapeDtypeStruct((2,), jnp.float32)):
        return jax.jit(lambda x: jax.pure_callback(lambda x: given, promised, x))(1.0)

    with pytest.raises(TypeError, match=r"the function gives float32\[3\] for result 0, but float32\[2\] is promised"):
        call(np.zeros(3)).block_until_ready()
    with pytest.raises(TypeError, match=r"the function gives int32\[2\] for result 0"):
        call(np.zeros(2, np.int32)).block_until_ready()
    with pytest.raises(TypeError, match="the function gives 2 arrays, but 1 are promised"):
        call((np.zeros(2), 3)).block_until_ready()
    with pytest.raises(ValueError, match="float64, a 64-bit type"):
        call(None, np.zeros(2))
    with pytest.raises(ValueError, match="vmap_method must be one of"):
        jax.pure_callback(abs, jnp.ones(2), jnp.ones(2), vmap_method="fast")
    with pytest.raises(NotImplementedError, match="names the device that makes the call"):
        mesh = jax.make_mesh((2,), ("x",))
        jax.pure_callback(abs, jnp.ones(2), jnp.ones(2), sharding=jax.NamedSharding(mesh, jax.P("x")))
    with pytest.raises(ZeroDivisionError):
        jax.jit(lambda x: jax.pure_callback(lambda x: 1 // 0, jnp.ones(2), x))(1.0).block_until_ready()


def test_threads_may_call_one_function():
    import threading

    f = jax.jit(lambda x: (x @ x).sum())
    x = jnp.ones((64, 64))
    results = []

    def work():
        for _ in range(50):
            results.append(float(f(x)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert results == [64.0 * 64 * 64] * 200


@pytest.mark.parametrize("wrap", [
    jax.jit,
    jax.pmap,
    lambda f: jax.shard_map(f, mesh=mesh8(), in_specs=P("x"), out_specs=P("x")),
])
def test_functions_that_refer_to_themselves_are_collected(wrap):
    import gc
    import weakref

    class Model:
        pass

    def make():
        model = Model()
        model.f = wrap(lambda x: x if model is None else x + 1)
        model.f(jnp.ones(8))
        return weakref.ref(model)

    model = make()
    gc.collect()
    assert model() is None
