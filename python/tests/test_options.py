"""What the options of jax.config do."""

import inspect
import subprocess
import sys
import warnings

import numpy as np
import pytest

import shoal as jax
import shoal.numpy as jnp
from shoal.sharding import NamedSharding, PartitionSpec as P


@pytest.mark.parametrize(
    "compute",
    [
        lambda: jnp.array([0.0]) / jnp.array([0.0]),
        lambda: jnp.log(-1.0),
        lambda: jnp.sqrt(jnp.array([-1.0], "bfloat16")),
        lambda: jnp.array([jnp.nan + 0j]) * 2,
        lambda: jax.jit(lambda x: jnp.log(x))(jnp.array([-1.0])),
        lambda: jax.pmap(jnp.log)(jnp.arange(8.0) - 1),
    ],
)
def test_nans_are_found(compute):
    with jax.debug_nans(True), pytest.raises(FloatingPointError, match="has NaN"):
        compute()
    compute()


def test_nans_of_shards_are_found_and_nothing_else():
    mesh = jax.make_mesh((8,), ("x",))
    x = jax.device_put(jnp.arange(8.0) - 1, NamedSharding(mesh, P("x")))
    with jax.debug_nans(True):
        with pytest.raises(FloatingPointError, match="log: result 0 f32"):
            jnp.log(x)
        assert np.isinf(jnp.array([1.0]) / 0.0).all() and (jnp.arange(3) + 1)[2] == 3
        hidden = jax.jit(lambda x: jnp.where(jnp.isnan(jnp.log(x)), 0, x))(jnp.array([-1.0]))
        assert hidden[0] == 0
    with jax.debug_infs(True):
        with pytest.raises(FloatingPointError, match="infinity"):
            jnp.exp(jnp.array([1e3]))
        assert np.isnan(jnp.log(x - 0.5)[0])


def _line_of(f, text):
    lines, first = inspect.getsourcelines(f)
    return first + next(i for i, line in enumerate(lines) if text in line)


@pytest.mark.parametrize("transform", [lambda f: f, jax.jit, jax.checkpoint], ids=["eager", "jit", "checkpoint"])
def test_nans_of_derivatives_name_the_forward_line(transform):
    def loss(x):
        y = x * 2.0
        z = jnp.sqrt(y)
        return jnp.sum(z * 0.0)

    def same_elsewhere(x):  # The same program, which is compiled before.
        return jnp.sum(jnp.sqrt(x * 2.0) * 0.0)

    x = jnp.zeros(3)
    jax.grad(transform(same_elsewhere))(x)
    with jax.debug_nans(True), pytest.raises(FloatingPointError) as error:
        jax.grad(transform(loss))(x)
    line = _line_of(loss, "jnp.sqrt")
    assert f"in the derivative of test_options.py:{line}" in str(error.value)
    assert np.isnan(jax.grad(transform(loss))(x)).all()


def test_nans_in_jit_name_their_line():
    def f(x):
        y = jnp.log(x)
        return y + 1.0

    with jax.debug_nans(True):
        with pytest.raises(FloatingPointError, match=f"it comes of log at test_options.py:{_line_of(f, 'jnp.log')}"):
            jax.jit(f)(jnp.array([-1.0]))
        with pytest.raises(FloatingPointError, match="its argument 0 has it already"):
            with jax.debug_nans(False):
                x = jnp.array([jnp.nan])
            jax.jit(f)(x)


def test_nans_in_shard_map_name_their_line():
    def f(x):
        y = jnp.log(x - 4)
        return y * 0

    mapped = jax.shard_map(f, mesh=jax.make_mesh((8,), ("x",)), in_specs=P("x"), out_specs=P("x"))
    x, line = jnp.arange(8.0), _line_of(f, "jnp.log")
    with jax.debug_nans(True):
        with pytest.raises(FloatingPointError, match=f"it comes of log at test_options.py:{line}"):
            jax.jit(mapped)(x)
        with pytest.raises(FloatingPointError, match=rf"log: result 0 f32.*\n  at test_options.py:{line}"):
            mapped(x)
        with pytest.raises(FloatingPointError, match="comes of .* in the derivative of test_options.py"):
            jax.jit(jax.grad(lambda x: jnp.sum(jax.shard_map(
                lambda x: jnp.sqrt(x * 0), mesh=jax.make_mesh((8,), ("x",)), in_specs=P("x"), out_specs=P("x"))(x))))(x)
    assert np.isnan(jax.jit(mapped)(x)[0]) and np.isnan(mapped(x)[0])


# From JAX 0.12: which of these are refused while promotion is strict.
REFUSED = [
    lambda: jnp.arange(3) + jnp.ones(3),
    lambda: jnp.arange(3) + 1.5,
    lambda: jnp.ones(3, "bfloat16") + jnp.ones(3),
    lambda: jnp.array([True]) + jnp.array([1]),
    lambda: jnp.concatenate([jnp.arange(3), jnp.ones(3)]),
    lambda: jnp.where(jnp.array([True]), jnp.arange(1), 1.5),
    lambda: jnp.matmul(jnp.ones((2, 2)), jnp.ones((2, 2), int)),
    lambda: jnp.arange(3) == jnp.ones(3),
    lambda: jnp.ones(3).at[0].add(jnp.arange(3)[0]),
    lambda: jnp.promote_types("int32", "float32"),
    lambda: jnp.clip(jnp.arange(3), 0.5, 1),
    lambda: jnp.array([1, 2]) * True,
    lambda: jnp.einsum("i,i", jnp.ones(3), jnp.arange(3)),
]
TAKEN = [
    lambda: jnp.arange(3) + 1,
    lambda: jnp.ones(3) * 2,
    lambda: jnp.ones(3) + np.ones(3),
    lambda: jnp.sin(jnp.arange(3)),
    lambda: jnp.mean(jnp.arange(3)),
    lambda: jnp.divide(jnp.arange(3), 2),
    lambda: jnp.var(jnp.arange(3)),
    lambda: jnp.linspace(0, 1, 3),
    lambda: jax.nn.softmax(jnp.ones(3)),
    lambda: jnp.arange(3) + np.int64(1),
]


@pytest.mark.parametrize("compute", REFUSED)
def test_strict_promotion_refuses(compute):
    with jax.numpy_dtype_promotion("strict"), pytest.raises(ValueError, match="'strict'") as raised:
        compute()
    assert type(raised.value) is jax.errors.TypePromotionError
    compute()


@pytest.mark.parametrize("compute", TAKEN)
def test_strict_promotion_takes(compute):
    with jax.numpy_dtype_promotion("strict"):
        compute()


def test_an_option_that_asks_for_what_is_not_there_says_so():
    with pytest.warns(UserWarning, match="jax_enable_custom_prng=True has no effect"):
        with jax.enable_custom_prng():
            pass
    with pytest.warns(UserWarning, match="jax_threefry_partitionable=False has no effect"):
        with jax.threefry_partitionable(False):
            pass
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jax.config.update("jax_enable_custom_prng", False)
        jax.config.update("jax_threefry_partitionable", True)
        jax.config.update("jax_compilation_cache_dir", None)


@pytest.mark.parametrize(
    "name, value", [("jax_numpy_dtype_promotion", "lax"), ("jax_numpy_rank_promotion", 1), ("jax_transfer_guard", "on"),
                    ("jax_default_matmul_precision", "low"), ("jax_default_device", 3)],
)
def test_values_that_options_do_not_have(name, value):
    before = jax.config.read(name)
    with pytest.raises(ValueError):
        jax.config.update(name, value)
    assert jax.config.read(name) == before


def test_doubles_of_numpy_are_converted_on_the_way_in():
    x = np.linspace(-1, 1, 1 << 16)
    for given in (x, x[::2], x.reshape(256, 256).T, x.astype(">f8")):
        made = jnp.asarray(given)
        expected = given.astype(np.float32)
        given[...] = 0  # Nothing is read later.
        assert made.dtype == np.float32 and np.array_equal(made, expected)
        x = np.linspace(-1, 1, 1 << 16)
    assert np.array_equal(jax.jit(lambda: jnp.asarray(np.arange(3.0)) + 1)(), [1, 2, 3])


def test_jit_that_is_disabled_calls_the_function():
    calls = []

    @jax.jit
    def f(x):
        calls.append(x)
        return x + 1

    with jax.disable_jit():
        assert f(1.0) == 2 and f(1.0) == 2
    assert calls == [1.0, 1.0]
    f(1.0), f(1.0)
    assert len(calls) == 3


def test_transfers_that_the_guard_disallows_say_which():
    x, there = np.ones(3, np.float32), jax.device_put(np.ones(3, np.float32), jax.devices()[1])
    here = jnp.ones(3)
    split = jax.device_put(np.ones(8, np.float32), jax.NamedSharding(jax.make_mesh((8,), ("x",)), jax.P("x")))
    with jax.transfer_guard("disallow"):
        for transfer, text in [
            (lambda: jnp.sin(x), r"Disallowed host-to-device transfer of f32\[3\]: ask for it by device_put"),
            (lambda: here + 1, "Disallowed host-to-device transfer of <class 'int'>"),
            (lambda: jnp.ones(2), "Disallowed host-to-device transfer of ones"),
            (lambda: here + there, r"Disallowed device-to-device transfer of f32\[3\] from device 0 to device 1"),
            (lambda: np.asarray(split), r"Disallowed device-to-host transfer of f32\[8\]"),
        ]:
            with pytest.raises(jax.errors.JaxRuntimeError, match=text):
                transfer()
        assert np.array_equal(jax.device_get(split + split), 2 * np.ones(8))
    with jax.transfer_guard("disallow_explicit"):
        with pytest.raises(jax.errors.JaxRuntimeError, match="allows not even those that are asked for"):
            jax.device_put(x)


def test_the_transfer_guard_logs():
    told = []
    jax._core._set_log_sink(lambda level, text: told.append(text))
    try:
        with jax.transfer_guard("log"):
            jax.device_put(np.ones(3, np.float32))
            jnp.asarray(np.ones(3, np.float32))
    finally:
        jax._core._set_log_sink(None)
    assert len(told) == 1 and "host-to-device transfer of f32[3]" in told[0] and "test_options.py" in told[0]


def test_the_guard_of_a_config_option():
    jax.config.update("jax_transfer_guard", "disallow")
    try:
        with pytest.raises(jax.errors.JaxRuntimeError):
            jnp.ones(2)
        with jax.transfer_guard_host_to_device("allow"):
            jnp.ones(2)
        with pytest.raises(jax.errors.JaxRuntimeError):
            jnp.ones(2)
    finally:
        jax.config.update("jax_transfer_guard", "allow")
    jnp.ones(2)


def test_values_that_outlive_a_trace_are_told():
    kept = {}

    def keep(x):
        kept["it"] = x * 2
        return x + 1

    with jax.checking_leaks():
        with pytest.raises(Exception, match=r"Leaked trace: 'keep' is over.*1 of the values.*float32\[2\], kept under 'it'"):
            jax.jit(keep)(jnp.ones(2))
        assert jax.jit(lambda x: x + 1)(jnp.ones(())) == 2  # It is told once.
        with pytest.raises(Exception, match="Leaked trace: 'keep' is over"):
            jax.jit(jax.pmap(keep))(jnp.ones((8, 2)))
    jax.jit(lambda x: keep(x))(jnp.ones(2))


def test_layouts_that_arrays_cannot_have():
    from shoal.experimental.layout import Format, Layout, with_layout_constraint

    here = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    for ask in (
        lambda: jax.device_put(np.ones((2, 3)), Format(Layout((1, 0)), here)),
        lambda: jax.jit(lambda x: x, out_shardings=Format(Layout((0, 1), tiling=((8, 128),)), here))(np.ones((2, 3))),
        lambda: with_layout_constraint(jnp.ones((2, 3)), Layout((1, 0))),
    ):
        with pytest.raises(NotImplementedError, match="arrays on CPU devices are row-major"):
            ask()


def test_memories_that_are_none():
    with pytest.raises(ValueError, match='devices have no memory "any"'):
        jax.device_put(1.0, jax.memory.Space.Any)


@pytest.mark.parametrize(
    "arguments, printed",
    [
        (["--now", "--jax_enable_x64", "--jax_numpy_rank_promotion=warn", "rest"], "True warn"),
        (["--now"], "False allow"),
        (["--jax_enable_x64=true", "rest"], "True allow ['rest']"),
    ],
)
def test_options_are_flags_of_absl(tmp_path, arguments, printed):
    program = """
import sys
import shoal as jax
from absl import app
def say(*more):
    print(jax.config.jax_enable_x64, jax.config.jax_numpy_rank_promotion, *more)
if "--now" in sys.argv:
    jax.config.parse_flags_with_absl()
    say()
else:
    jax.config.config_with_absl()
    app.run(lambda argv: say(argv[1:]))
"""
    (tmp_path / "program.py").write_text(program)
    done = subprocess.run(
        [sys.executable, tmp_path / "program.py", *arguments], capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == (printed + "\n", "")
