"""Loops and branches, against Python's own, outside jit and inside, on one device and on eight."""

import subprocess
import sys

import numpy as np
import pytest

import shoal as jax
import shoal.numpy as jnp
from shoal import lax
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
