"""Loops and branches, against Python's own, outside jit and inside, on one device and on eight."""

import subprocess
import sys

import numpy as np
import pytest

import shoal as jax
import shoal.numpy as jnp
from shoal import lax
from shoal.experimental import io_callback
from shoal.sharding import NamedSharding, PartitionSpec as P


def both(f):
    """The function called at once, and jitted."""
    return [f, jax.jit(f)]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("unroll", [1, 2, True])
def test_scan(reverse, unroll):
    def f(init, xs):
        return lax.scan(
            lambda c, x: ({"a": c["a"] * 0.5 + x["v"], "n": c["n"] + 1}, (c["a"], x["w"].sum())),
            init, xs, reverse=reverse, unroll=unroll,
        )

    init = {"a": jnp.ones(3), "n": 0}
    xs = {"v": jnp.arange(15.0).reshape(5, 3), "w": jnp.arange(10).reshape(5, 2)}
    for call in both(f):
        last, (ys, sums) = call(init, xs)
        a, want = np.ones(3, np.float32), [None] * 5
        for t in reversed(range(5)) if reverse else range(5):
            want[t] = a
            a = a * np.float32(0.5) + np.asarray(xs["v"])[t]
        np.testing.assert_array_equal(last["a"], a)
        np.testing.assert_array_equal(ys, np.stack(want))
        np.testing.assert_array_equal(sums, np.asarray(xs["w"]).sum(1))
        assert last["n"] == 5 and last["n"].dtype == jnp.int32


def test_scan_without_xs_or_ys():
    carry, ys = lax.scan(lambda c, _: (c * 2, None), 1, None, length=10)
    assert carry == 1024 and ys is None
    carry, ys = lax.scan(lambda c, _: (c, c), jnp.ones(2), length=0)
    assert ys.shape == (0, 2)


def test_while_and_fori():
    def collatz(n):
        return lax.while_loop(
            lambda s: s[0] != 1,
            lambda s: (jnp.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1),
            (n, 0),
        )[1]

    for call in both(collatz):
        assert call(27) == 111 and call(1) == 0
    for call in both(lambda n: lax.fori_loop(0, n, lambda i, x: x + i, jnp.zeros(3))):
        np.testing.assert_array_equal(call(5), [10, 10, 10])
    assert lax.fori_loop(2, 6, lambda i, x: x + i, 0) == 14
    assert lax.fori_loop(6, 2, lambda i, x: x + i, 0) == 0
    assert lax.fori_loop(0, 7, lambda i, x: x * 2 + i, 1, unroll=3) == lax.fori_loop(0, 7, lambda i, x: x * 2 + i, 1)


def test_branches():
    for call in both(lambda p, x: lax.cond(p, lambda a: a + 1, lambda a: a * 10, x)):
        np.testing.assert_array_equal(call(True, jnp.arange(3.0)), [1, 2, 3])
        np.testing.assert_array_equal(call(False, jnp.arange(3.0)), [0, 10, 20])
        np.testing.assert_array_equal(call(2, jnp.arange(3.0)), [1, 2, 3])
    for call in both(lambda i, x: lax.switch(i, [lambda a: a, lambda a: a * a, lambda a: -a], x)):
        assert [int(call(i, 3)) for i in (-4, 0, 1, 2, 9)] == [3, 3, 9, -3, -3]


def test_map_and_associative_scan():
    x = jnp.arange(12.0).reshape(4, 3)
    np.testing.assert_array_equal(lax.map(lambda row: row[::-1] * 2, x), np.asarray(x)[:, ::-1] * 2)
    for size in (1, 2, 3, 4, 9):
        blocks = lax.map(lambda row: (row[::-1] * 2, row.sum()), x, batch_size=size)
        np.testing.assert_array_equal(blocks[0], np.asarray(x)[:, ::-1] * 2)
        np.testing.assert_array_equal(blocks[1], np.asarray(x).sum(1))
    with pytest.raises(ValueError, match="batch_size is -1; it must be at least 1"):
        lax.map(lambda row: row, x, batch_size=-1)
    for n in (1, 2, 5, 8):
        v = jnp.arange(1.0, n + 1)
        np.testing.assert_array_equal(lax.associative_scan(lambda a, b: a * b, v), np.cumprod(np.arange(1.0, n + 1)))
        np.testing.assert_array_equal(
            lax.associative_scan(lambda a, b: {"s": a["s"] + b["s"]}, {"s": v}, reverse=True)["s"],
            np.cumsum(np.arange(1.0, n + 1)[::-1])[::-1],
        )


def test_split_over_devices():
    mesh = jax.make_mesh((8,), ("x",))
    xs = np.arange(6 * 8 * 4, dtype=np.float32).reshape(6, 8, 4) / 100
    w = np.arange(16, dtype=np.float32).reshape(4, 4) / 10

    def rnn(h, xs, w):
        return lax.scan(lambda h, x: (jnp.tanh(h @ w + x), h.sum()), h, xs)

    want = rnn(jnp.zeros((8, 4)), xs, w)
    split = jax.device_put(xs, NamedSharding(mesh, P(None, "x")))
    got = jax.jit(rnn)(jnp.zeros((8, 4)), split, w)
    for a, b in zip(got, want):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_in_shard_map():
    mesh = jax.make_mesh((8,), ("x",))

    def f(x):
        return lax.fori_loop(0, 3, lambda _, c: c + lax.ppermute(c, "x", [(0, 1), (1, 0)]), x)

    mapped = jax.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    want = np.arange(8.0)
    for _ in range(3):
        want[:2] = want[0] + want[1]
    for call in both(mapped):
        np.testing.assert_array_equal(call(jnp.arange(8.0)), want)


def test_what_bad_input_raises():
    xs = jnp.arange(6.0).reshape(3, 2)
    with pytest.raises(TypeError, match=r"scan: the body returns the carry as float32\[2\], but it came as float32\[\]"):
        lax.scan(lambda c, x: (c + x, None), jnp.float32(0), xs)
    with pytest.raises(TypeError, match=r"scan: the body returns a carry of the structure tuple"):
        lax.scan(lambda c, x: ((c, c), None), jnp.float32(0), xs)
    with pytest.raises(ValueError, match="there are no xs, and no length"):
        lax.scan(lambda c, x: (c, None), 0)
    with pytest.raises(ValueError, match=r"xs \[1\] float32\[2\] has 2 slices.*but xs \[0\] is for 3"):
        lax.scan(lambda c, x: (c, None), 0, (xs, jnp.ones(2)))
    with pytest.raises(ValueError, match="length is for 4"):
        lax.scan(lambda c, x: (c, None), 0, xs, length=4)
    with pytest.raises(TypeError, match=r"the condition returns float32\[\], and should return a bool scalar"):
        lax.while_loop(lambda x: x, lambda x: x, 1.0)
    with pytest.raises(TypeError, match=r"the predicate is bool\[3\]"):
        lax.cond(jnp.ones(3, bool), lambda x: x, lambda x: x, 1)
    with pytest.raises(TypeError, match=r"the function for false returns the result as .*\[2\]"):
        lax.cond(True, lambda x: x, lambda x: jnp.stack([x, x]), 1.0)
    with pytest.raises(TypeError, match="the index is float32"):
        lax.switch(1.0, [lambda x: x], 1)
    leaked = []
    lax.scan(lambda c, x: (leaked.append(c) or c, None), 0.0, xs)
    with pytest.raises(Exception, match="scan"):
        leaked[0] + 1


def test_predicates_that_differ_between_devices_that_communicate():
    mesh = jax.make_mesh((8,), ("x",))

    def f(x):
        return lax.while_loop(lambda c: c.sum() < 10, lambda c: c + lax.psum(c, "x"), x)

    with pytest.raises(ValueError, match="differs between the devices along 'x'.*psum"):
        jax.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=P("x"))(jnp.arange(8.0))


@pytest.mark.parametrize(
    "loop",
    [
        "lax.scan(lambda c, _: (c * 0.999 + 1, None), x, length=2**40)[0]",
        "lax.while_loop(lambda c: c > -1, lambda c: c * 0.5 + 1, x)",
        "lax.while_loop(lambda c: c[0] > -1, lambda c: jnp.sort(c * 0.5 + 1), jnp.ones(8))[0]",
        "lax.scan(lambda c, _: (lax.cond(c > 0, jnp.sin, jnp.cos, c), None), x, length=2**40)[0]",
        "lax.fori_loop(0, 3, lambda i, s: lax.while_loop(lambda c: c > -1, lambda c: c * 0.5 + i, s), x)",
    ],
)
def test_an_interrupt_ends_a_loop(loop):
    program = f"""
import os, signal, threading, time
import shoal, shoal.numpy as jnp
from shoal import lax
from shoal.experimental import io_callback

f = shoal.jit(lambda x: {loop}).lower(jnp.float32(1)).compile()  # So that the interrupt finds the loop at work.
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
started = time.monotonic()
try:
    y = f(jnp.float32(1))
    shoal.block_until_ready(y)
except KeyboardInterrupt:
    print("interrupted")
print(jnp.sum(jnp.ones(3)))  # Others are computed as ever.
try:
    print(y)
except RuntimeError as error:
    print(error)
assert time.monotonic() - started < 2.3
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=20)
    assert ended.returncode == 0 and ended.stdout.startswith("interrupted\n3.0\n"), ended
    assert "the loop was given up: its user was interrupted" in ended.stdout


def test_bounds_and_predicates_at_their_edges():
    nan = jnp.float32(np.nan)
    count = lambda i, c: c + 1
    assert lax.fori_loop(5, 2, count, 0) == 0
    assert jax.jit(lambda a, b: lax.fori_loop(a, b, count, 0))(5, 2) == 0
    assert jax.jit(lambda a, b: lax.fori_loop(a, b, count, 0))(-(2**31), -(2**31) + 3) == 3
    for values in (nan, jnp.full(3, nan)):
        below = lambda c: jnp.all(c < 1)
        assert jnp.isnan(jax.jit(lambda x: lax.while_loop(below, jnp.zeros_like, x))(values)).all()
    assert lax.cond(nan, lambda: 1, lambda: 2) == 1  # It is not zero.
    carry, ys = lax.scan(lambda c, x: (c + x, c), jnp.ones(2), jnp.zeros((0, 2)))
    assert (carry == 1).all() and ys.shape == (0, 2)


def test_operands_of_branches_may_be_callable():
    @jax.tree_util.register_pytree_node_class
    class Callable:
        def __init__(self, x):
            self.x = x

        def __call__(self):
            raise AssertionError("an operand is called")

        def tree_flatten(self):
            return (self.x,), None

        @classmethod
        def tree_unflatten(cls, _, leaves):
            return cls(*leaves)

    assert lax.cond(True, lambda a, b: a + b.x, lambda a, b: a - b.x, 3, Callable(4)) == 7
    assert lax.cond(False, lambda a, b: a.x + b, lambda a, b: a.x - b, Callable(3), 4) == -1


def test_a_weak_carry_is_not_rounded():
    body = lambda carry, x: ((carry * 2).astype(jnp.int32), carry)
    with pytest.raises(TypeError, match="a carry keeps its type"):
        lax.scan(body, 1.5, jnp.arange(3))
    with pytest.raises(TypeError, match="a carry keeps its type"):
        lax.fori_loop(0, 3, lambda i, carry: (carry * 2).astype(jnp.int32), 1.5)


def test_callbacks_where_devices_go_different_ways():
    """As in JAX 0.12: the program is called for the devices that come there."""
    mesh = jax.make_mesh((8,), ("x",))
    mapped = lambda f: jax.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    for ordered in (False, True):
        for wrap in (lambda f: f, jax.jit):
            told = []

            def branch(a):
                jax.debug.callback(lambda v: told.append(float(v[0])), a, ordered=ordered)
                return a

            @wrap
            @mapped
            def f(x):
                x = lax.cond(x[0] > 5, branch, lambda a: -a, x)
                return lax.while_loop(lambda c: c[0] > 6, lambda c: branch(c) - 0.5, x)

            np.testing.assert_array_equal(f(jnp.arange(8.0)), [0, -1, -2, -3, -4, -5, 6, 6])
            jax.effects_barrier()
            assert told == [6, 7, 7, 6.5]

            asked = []

            def ask(a):
                def host(v):
                    asked.append(float(v[0]))
                    return v * 2

                return io_callback(host, jax.ShapeDtypeStruct((1,), jnp.float32), a, ordered=ordered)

            g = wrap(mapped(lambda x: lax.cond(x[0] > 5, ask, lambda a: -a, x)))
            np.testing.assert_array_equal(g(jnp.arange(8.0)), [0, -1, -2, -3, -4, -5, 12, 14])
            assert asked == [6, 7]


def _misuses():
    """Each with JAX's type of error, and a text that names the op, the argument and what was given."""
    x = jnp.arange(3.0)
    second = lambda c, x: (c, x)
    keep = lambda c: c
    less = lambda c: c < 3
    text = "is of type <class 'str'>, which is not a valid JAX type; it must be an array or a number"
    gives = "returned a value of type <class 'str'>.*, which is not a valid JAX type; it may return trees of arrays"
    return [
        # What is called.
        (TypeError, "scan: f must be a function, got <class 'int'>", lambda: lax.scan(3, x, x)),
        (TypeError, "scan: f must be a function, got <class 'NoneType'>", lambda: lax.scan(None, x, x)),
        (TypeError, "while_loop: cond_fun must be a function, got <class 'int'>", lambda: lax.while_loop(3, keep, 0)),
        (TypeError, "while_loop: body_fun must be a function, got <class 'NoneType'>", lambda: lax.while_loop(less, None, 0)),
        (TypeError, "fori_loop: body_fun must be a function, got <class 'NoneType'>", lambda: lax.fori_loop(0, 3, None, 0)),
        (TypeError, "true_fun and false_fun arguments should be callable", lambda: lax.cond(True, None, keep, 1)),
        (TypeError, "switch: branches must be a sequence of functions, got <class 'int'>", lambda: lax.switch(0, 3)),
        (TypeError, "switch: branches must be a sequence of functions, got <class 'NoneType'>", lambda: lax.switch(0, None)),
        (TypeError, "switch: branches must be a sequence of functions, got <class 'function'>", lambda: lax.switch(0, keep, 1)),
        (TypeError, r"switch: branches\[1\] must be a function, got <class 'int'>", lambda: lax.switch(0, [keep, 3], 1)),
        (ValueError, "switch: there are no branches", lambda: lax.switch(0, [])),
        (TypeError, "map: f must be a function, got <class 'int'>", lambda: lax.map(3, x)),
        (TypeError, "associative_scan: fn must be a function, got <class 'int'>", lambda: lax.associative_scan(3, x)),
        (TypeError, "associative_scan: fn must be a function, got <class 'NoneType'>", lambda: lax.associative_scan(None, x)),
        (TypeError, "reduce: computation must be a function, got <class 'NoneType'>", lambda: lax.reduce(x, 0.0, None, (0,))),
        (TypeError, "reduce_window: computation must be a function, got <class 'int'>",
         lambda: lax.reduce_window(x, 0.0, 3, (2,), (1,), "VALID")),
        # Leaves that are no arrays.
        (TypeError, f"scan: init {text}", lambda: lax.scan(second, "a", x)),
        (TypeError, rf"scan: xs\['k'\] {text}", lambda: lax.scan(second, 0.0, {"k": "a"})),
        (TypeError, "scan: xs is of type <class 'object'>", lambda: lax.scan(second, 0.0, object())),
        (TypeError, f"while_loop: init_val {text}", lambda: lax.while_loop(less, keep, "a")),
        (TypeError, rf"fori_loop: init_val\[1\] {text}", lambda: lax.fori_loop(0, 3, lambda i, c: c, (0, "a"))),
        (TypeError, rf"cond: operands\[1\] {text}", lambda: lax.cond(True, second, second, 1, "a")),
        (TypeError, f"switch: operands {text}", lambda: lax.switch(0, [keep, keep], "a")),
        (TypeError, f"map: xs {text}", lambda: lax.map(keep, "a")),
        (TypeError, "associative_scan: elems: a leaf must be an array or a number, got <class 'str'>",
         lambda: lax.associative_scan(jnp.add, "a")),
        (TypeError, f"reduce: operands {text}", lambda: lax.reduce("a", 0.0, lax.add, (0,))),
        (TypeError, f"reduce: init_values {text}", lambda: lax.reduce(x, "a", lax.add, (0,))),
        (TypeError, f"reduce_window: init_value {text}", lambda: lax.reduce_window(x, "a", lax.add, (2,), (1,), "VALID")),
        # What is returned.
        (TypeError, rf"function f of scan {gives}", lambda: lax.scan(lambda c, x: (c, "a"), 0.0, x)),
        (TypeError, rf"function cond_fun of while_loop {gives}", lambda: lax.while_loop(lambda c: "a", keep, 0)),
        (TypeError, rf"function body_fun of while_loop {gives}", lambda: lax.while_loop(less, lambda c: "a", 0)),
        (TypeError, rf"function body_fun of fori_loop {gives}", lambda: lax.fori_loop(0, 3, lambda i, c: "a", 0)),
        (TypeError, rf"function true_fun of cond {gives}", lambda: lax.cond(True, lambda a: "a", keep, 1)),
        (TypeError, rf"function branches\[1\] of switch {gives}", lambda: lax.switch(0, [keep, lambda a: "a"], 1)),
        (TypeError, rf"function f of map {gives}", lambda: lax.map(lambda a: "a", x)),
        (TypeError, "associative_scan: the result of fn: a leaf must be an array or a number, got <class 'str'>",
         lambda: lax.associative_scan(lambda a, b: "a", x)),
        (TypeError, r"associative_scan: fn returns tuple\(", lambda: lax.associative_scan(lambda a, b: (a, b), x)),
        (TypeError, "scan: the body returns an array, and should return a pair of carry and y",
         lambda: lax.scan(lambda c, x: c, 0.0, x)),
        (TypeError, "should return a pair of carry and y", lambda: lax.scan(lambda c, x: None, 0.0, x)),
        (TypeError, r"while_loop: the condition returns tuple\(\[0\]: leaf\), and should return a bool scalar",
         lambda: lax.while_loop(lambda c: (True,), keep, 0)),
        (TypeError, r"while_loop: the condition returns bool\[1\]", lambda: lax.while_loop(lambda c: jnp.array([True]), keep, 0)),
        (TypeError, r"while_loop: the body returns a carry of the structure None\(\)", lambda: lax.while_loop(less, lambda c: None, 0)),
        (TypeError, r"fori_loop: the body returns the carry as float32\[2\]",
         lambda: lax.fori_loop(0, 3, lambda i, c: c + jnp.ones(2), 0.0)),
        (TypeError, r"fori_loop: the body returns a carry that is an array, but it came as tuple\(",
         lambda: lax.fori_loop(0, 3, lambda i, c: c[0], (x, x))),
        (TypeError, r"cond: .* false returns tuple\(.*, but the function for true returns an array: both",
         lambda: lax.cond(True, keep, lambda a: (a, a), 1)),
        (TypeError, r"cond: the function for false returns None\(\)", lambda: lax.cond(True, keep, lambda a: None, 1)),
        (TypeError, r"switch: branch 0 returns the result as int32\[\], but branch 1 as float32\[\].*astype",
         lambda: lax.switch(0, [keep, lambda a: a * 1.5], 1)),
        # Scalars, numbers of trips, and other options.
        (TypeError, r"cond: the predicate is float32\[3\], and should be a scalar", lambda: lax.cond(x, keep, keep, 1)),
        (TypeError, "cond predicate is None", lambda: lax.cond(None, keep, keep, 1)),
        (TypeError, r"switch: the index is float32\[3\], and should be a scalar", lambda: lax.switch(x, [keep, keep], 1)),
        (TypeError, r"switch: the index is bool\[\], and should be an integer", lambda: lax.switch(True, [keep, keep], 1)),
        (TypeError, "for argument 'index'", lambda: lax.switch(None, [keep, keep], 1)),
        (TypeError, r"fori_loop: a bound is int32\[1\], and should be an integer scalar",
         lambda: lax.fori_loop(0, jnp.array([3]), lambda i, c: c, 0.0)),
        (TypeError, "must have equal types, got int32 and bool", lambda: lax.fori_loop(0, True, lambda i, c: c, 0.0)),
        (TypeError, "for argument 'lower'", lambda: lax.fori_loop(None, 3, lambda i, c: c, 0.0)),
        (OverflowError, "fori_loop: the integer 1099511627776 does not fit dtype int32",
         lambda: lax.fori_loop(0, 2**40, lambda i, c: c, 0.0)),
        (ValueError, "scan: length is -1; it must be at least 0", lambda: lax.scan(second, 0.0, x, length=-1)),
        (TypeError, "scan: length must be an integer, got <class 'shoal.Array'>", lambda: lax.scan(second, 0.0, None, length=x)),
        (jax.errors.ConcretizationTypeError, "scan: length must be known when the function is traced.*lax.fori_loop",
         lambda: jax.jit(lambda n: lax.scan(second, 0.0, None, length=n))(3)),
        (ValueError, r"scan: the xs is the scalar float32\[\]", lambda: lax.scan(second, 0.0, 3.0)),
        (ValueError, "map: there are no xs", lambda: lax.map(keep, None)),
        (ValueError, "scan: unroll must not be negative, got -1", lambda: lax.scan(second, 0.0, x, unroll=-1)),
        (TypeError, "scan: unroll must be an integer, got <class 'str'>", lambda: lax.scan(second, 0.0, x, unroll="a")),
        (ValueError, "fori_loop: unroll must not be negative, got -2", lambda: lax.fori_loop(0, 3, lambda i, c: c, 0.0, unroll=-2)),
        (TypeError, "map: batch_size must be an integer, got <class 'str'>", lambda: lax.map(keep, x, batch_size="a")),
        (ValueError, "associative_scan: axis 1 is out of range for an array with 1 dimensions",
         lambda: lax.associative_scan(jnp.add, x, axis=1)),
        (TypeError, "associative_scan: axis must be an integer, got <class 'NoneType'>",
         lambda: lax.associative_scan(jnp.add, x, axis=None)),
        (ValueError, r"element \[1\] is float32\[2\], but element \[0\] is float32\[3\]",
         lambda: lax.associative_scan(lambda a, b: a, (x, jnp.ones(2)))),
        (ValueError, "reduce: operands must have the same tree structure as init_values", lambda: lax.reduce(x, None, lax.add, (0,))),
        (ValueError, r"reduce: axes \(1,\) contains out-of-bounds indices", lambda: lax.reduce(x, 0.0, lax.add, (1,))),
        (TypeError, "reduce: axes must be a sequence of integers, got <class 'NoneType'>", lambda: lax.reduce(x, 0.0, lax.add, None)),
        (RuntimeError, "reduce_window: Unrecognized padding type: .*, got FOO",
         lambda: lax.reduce_window(x, 0.0, lax.add, (2,), (1,), "FOO")),
        (TypeError, "reduce_window: padding must be 'VALID', 'SAME', 'SAME_LOWER' or a sequence of pairs .*, got <class 'int'>",
         lambda: lax.reduce_window(x, 0.0, lax.add, (2,), (1,), 3)),
        (ValueError, "reduce_window: padding must have a pair for each of 1 dimensions, got 2",
         lambda: lax.reduce_window(x, 0.0, lax.add, (2,), (1,), [(0, 0), (0, 0)])),
        (TypeError, "reduce_window: window_dimensions must be a sequence of integers, got <class 'NoneType'>",
         lambda: lax.reduce_window(x, 0.0, lax.add, None, (1,), "VALID")),
        (TypeError, r"reduce_window: window_strides \(0,\) must have an entry", lambda: lax.reduce_window(x, 0.0, lax.add, (2,), (0,), "VALID")),
    ]


@pytest.mark.parametrize("number", range(len(_misuses())))
def test_misuse(number):
    kind, text, call = _misuses()[number]
    with pytest.raises(kind, match=text):
        call()


@pytest.mark.parametrize(
    "loop",
    [
        lambda keep: lax.scan(lambda c, x: (keep(c), x), 0.0, jnp.ones(3)),
        lambda keep: lax.while_loop(lambda c: c < 3, lambda c: keep(c) + 1, 0),
        lambda keep: lax.fori_loop(0, 3, lambda i, c: keep(c) + i, 0),
        lambda keep: lax.map(keep, jnp.ones(3)),
        lambda keep: jax.jit(lambda p: lax.cond(p, keep, lambda a: a, 1))(True),
        lambda keep: jax.jit(lambda i: lax.switch(i, [keep, lambda a: a], 1))(0),
        lambda keep: jax.jit(lambda x: lax.associative_scan(lambda a, b: keep(a) + b, x))(jnp.ones(3)),
        lambda keep: lax.reduce(jnp.ones(3), 0.0, lambda a, b: keep(a) * 2 + b, (0,)),
    ],
)
def test_a_value_of_a_body_does_not_leave_it(loop):
    leaked = []
    loop(lambda a: leaked.append(a) or a)
    with pytest.raises(jax.errors.UnexpectedTracerError, match="is used outside the call that made it"):
        leaked[-1] + 1
