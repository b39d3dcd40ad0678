"""Collectives inside shard_map and pmap, against formulas of NumPy: eager and jitted."""

import numpy as np
import pytest

import shoal as jax
from shoal import lax
from shoal.sharding import AxisType, PartitionSpec as P

N = 8
X = np.random.RandomState(0).randn(N, 3).astype(np.float32)
WIDE = np.random.RandomState(1).randn(N * N, 2).astype(np.float32)
INTS = np.arange(N, dtype=np.int32)
BLOCKS = WIDE.reshape(N, N, 2)  # The rows of each device.
PAIRS = [[0, 1, 2, 3], [4, 5, 6, 7]]
STRIDED = [[0, 2, 4, 6], [1, 3, 5, 7]]


@pytest.fixture(scope="module")
def mesh():
    return jax.make_mesh((N,), ("i",), axis_types=(AxisType.Auto,))


@pytest.fixture(scope="module")
def grid():
    return jax.make_mesh((4, 2), ("i", "j"), axis_types=(AxisType.Auto,) * 2)


def run(f, x, mesh, in_specs, out_specs):
    """f on the shards of x, eager and jitted, which must agree."""
    mapped = jax.shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs)
    eager = np.asarray(mapped(x))
    np.testing.assert_array_equal(np.asarray(jax.jit(mapped)(x)), eager)
    return eager


def close(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


REDUCTIONS = [
    (lax.psum, np.sum),
    (lax.pmean, np.mean),
    (lax.pmax, np.max),
    (lax.pmin, np.min),
]


@pytest.mark.parametrize("collective, formula", REDUCTIONS)
def test_reductions(mesh, grid, collective, formula):
    close(run(lambda x: collective(x, "i"), X, mesh, P("i"), P()), formula(X, axis=0, keepdims=True))
    both = run(lambda x: collective(x, ("i", "j")), X, grid, P(("i", "j")), P())
    close(both, formula(X, axis=0, keepdims=True))
    one = run(lambda x: collective(x, "j"), X, grid, P(("i", "j")), P("i"))
    close(one, formula(X.reshape(4, 2, 3), axis=1))
    close(jax.pmap(lambda x: collective(x, "i"), axis_name="i")(X), np.tile(formula(X, axis=0), (N, 1)))


@pytest.mark.parametrize("collective, formula", REDUCTIONS)
def test_reductions_of_groups(collective, formula):
    for groups in (PAIRS, STRIDED, [[0, 1, 2, 3, 4, 5], [6, 7]]):
        result = jax.pmap(lambda x: collective(x, "i", axis_index_groups=groups), axis_name="i")(X)
        expected = np.empty_like(X)
        for group in groups:
            expected[group] = formula(X[group], axis=0)
        close(result, expected)


@pytest.mark.parametrize("collective, formula", REDUCTIONS)
def test_reductions_of_trees(mesh, collective, formula):
    def f(x):
        return collective({"a": x, "b": [2 * x, None]}, "i")

    result = jax.shard_map(f, mesh=mesh, in_specs=P("i"), out_specs=P())(X)
    assert result["b"][1] is None
    close(result["a"], formula(X, axis=0, keepdims=True))
    close(result["b"][0], formula(2 * X, axis=0, keepdims=True))


def test_dtypes_of_reductions(mesh):
    def total(x):
        return jax.shard_map(lambda x: lax.psum(x, "i"), mesh=mesh, in_specs=P("i"), out_specs=P())(x)

    assert total(INTS).dtype == np.int32 and int(total(INTS)[0]) == 28
    assert total(INTS % 3 == 0).dtype == np.int32 and int(total(INTS % 3 == 0)[0]) == 3
    mean = jax.shard_map(lambda x: lax.pmean(x, "i"), mesh=mesh, in_specs=P("i"), out_specs=P())(INTS)
    assert mean.dtype == np.float32 and float(mean[0]) == 3.5


def test_numbers_stay_numbers(mesh, grid):
    seen = []

    def f(x):
        seen.append((lax.psum(1, "i"), lax.psum(2.5, "i"), lax.pmean(3, "i"), lax.psum({"n": 2}, "i")))
        seen.append(lax.axis_size("i"))
        return sum(x * k for k in range(lax.psum(1, "i")))

    close(run(f, X, mesh, P("i"), P("i")), X * 28)
    assert seen[0] == (8, 20.0, 3.0, {"n": 16})
    assert type(seen[0][0]) is int and type(seen[1]) is int and seen[1] == 8
    close(run(lambda x: x * lax.psum(1, ("i", "j")) + lax.psum(1, "j"), X, grid, P("i"), P("i")), X * 8 + 2)
    close(run(lambda x: x * lax.axis_size(("i", "j")), X, grid, P("i"), P("i")), X * 8)
    grouped = jax.pmap(lambda x: x * lax.psum(1, "i", axis_index_groups=PAIRS), axis_name="i")(X)
    close(grouped, X * 4)


def test_no_axes_give_the_operand(mesh):
    for collective, _ in REDUCTIONS:
        close(run(lambda x: collective(x, ()), X, mesh, P("i"), P("i")), X)
    close(run(lambda x: lax.all_gather(x, ()), X, mesh, P("i"), P("i")), X)


def test_constants_count_once_for_each_device(mesh):
    constant = np.ones(3, np.float32)
    close(run(lambda x: x + lax.psum(constant, "i"), X, mesh, P("i"), P("i")), X + 8)
    close(run(lambda x: x + lax.psum(np.float32(2), "i"), X, mesh, P("i"), P("i")), X + 16)


def test_all_gather(mesh, grid):
    stacked = run(lambda x: lax.all_gather(x, "i"), X, mesh, P("i"), P("i"))
    close(stacked, np.tile(X[:, None], (N, 1, 1)))
    tiled = run(lambda x: lax.all_gather(x, "i", tiled=True), X, mesh, P("i"), P("i"))
    close(tiled, np.tile(X, (N, 1)))
    for true in (1, np.bool_(True)):
        close(run(lambda x: lax.all_gather(x, "i", tiled=true), X, mesh, P("i"), P("i")), tiled)
    second = run(lambda x: lax.all_gather(x, "i", axis=1, tiled=True), X, mesh, P("i"), P("i"))
    close(second, np.tile(X.reshape(1, -1), (N, 1)))
    last = run(lambda x: lax.all_gather(x, "i", axis=-1), X, mesh, P("i"), P("i"))
    close(last, np.tile(X.T[None], (N, 1, 1)))
    one = run(lambda x: lax.all_gather(x, "j", tiled=True), X, grid, P(("i", "j")), P(("i", "j")))
    close(one, np.repeat(X.reshape(4, 2, 3), 2, axis=0).reshape(16, 3))
    both = run(lambda x: lax.all_gather(x, ("i", "j"), tiled=True), X, grid, P(("i", "j")), P(("i", "j")))
    close(both, np.tile(X, (N, 1)))
    close(jax.pmap(lambda x: lax.all_gather(x, "i"), axis_name="i")(X), np.tile(X[None], (N, 1, 1)))
    grouped = jax.pmap(lambda x: lax.all_gather(x, "i", axis_index_groups=STRIDED), axis_name="i")(X)
    close(grouped, np.stack([X[STRIDED[d % 2]] for d in range(N)]))


def test_all_gather_that_does_not_vary(mesh):
    close(run(lambda x: lax.all_gather(x, "i", tiled=True, to="invarying"), X, mesh, P("i"), P()), X)
    close(run(lambda x: lax.all_gather_invariant(x, "i", tiled=True), X, mesh, P("i"), P()), X)
    close(run(lambda x: lax.all_gather_invariant(x, "i"), X, mesh, P("i"), P()), X[:, None])


def test_psum_scatter(mesh, grid):
    totals = BLOCKS.sum(axis=0)
    tiled = run(lambda x: lax.psum_scatter(x, "i", tiled=True), WIDE, mesh, P("i"), P("i"))
    close(tiled, totals)
    plain = run(lambda x: lax.psum_scatter(x, "i"), WIDE, mesh, P("i"), P("i"))
    close(plain, totals.reshape(-1))
    square = WIDE.reshape(16, 8)
    columns = lambda x: lax.psum_scatter(x, "i", scatter_dimension=1, tiled=True)
    second = run(columns, square, mesh, P("i"), P(None, "i"))
    close(second, square.reshape(8, 2, 8).sum(axis=0))
    one = run(lambda x: lax.psum_scatter(x, "j", tiled=True), WIDE, grid, P(("i", "j")), P(("i", "j")))
    close(one, BLOCKS.reshape(4, 2, 8, 2).sum(axis=1).reshape(32, 2))
    grouped = jax.pmap(lambda x: lax.psum_scatter(x, "i", tiled=True, axis_index_groups=PAIRS), axis_name="i")(BLOCKS)
    close(grouped, np.concatenate([BLOCKS[g].sum(axis=0).reshape(4, 2, 2) for g in PAIRS]))


def test_all_to_all(mesh):
    swapped = BLOCKS.swapaxes(0, 1)
    tiled = run(lambda x: lax.all_to_all(x, "i", 0, 0, tiled=True), WIDE, mesh, P("i"), P("i"))
    close(tiled, swapped.reshape(N * N, 2))
    plain = run(lambda x: lax.all_to_all(x, "i", 0, 0), WIDE, mesh, P("i"), P("i"))
    close(plain, swapped.reshape(N * N, 2))
    moved = run(lambda x: lax.all_to_all(x, "i", split_axis=0, concat_axis=1, tiled=True), WIDE, mesh, P("i"), P("i"))
    close(moved, swapped.reshape(N, N * 2))
    stacked = run(lambda x: lax.all_to_all(x, "i", 0, 1), WIDE, mesh, P("i"), P("i"))
    close(stacked, swapped.swapaxes(1, 2).reshape(N * 2, N))
    back = run(
        lambda x: lax.all_to_all(lax.all_to_all(x, "i", 0, 1, tiled=True), "i", 1, 0, tiled=True),
        WIDE, mesh, P("i"), P("i"),
    )
    close(back, WIDE)
    four = WIDE.reshape(N, 4, 4)
    grouped = jax.pmap(lambda x: lax.all_to_all(x, "i", 0, 0, axis_index_groups=PAIRS), axis_name="i")(four)
    close(grouped, np.concatenate([four[g].swapaxes(0, 1) for g in PAIRS]))


def test_ppermute(mesh, grid):
    ring = [(k, (k + 1) % N) for k in range(N)]
    close(run(lambda x: lax.ppermute(x, "i", ring), X, mesh, P("i"), P("i")), np.roll(X, 1, axis=0))
    some = np.zeros_like(X)
    some[3], some[1] = X[0], X[2]
    close(run(lambda x: lax.ppermute(x, "i", perm=((0, 3), (2, 1))), X, mesh, P("i"), P("i")), some)
    numbers = [tuple(pair) for pair in np.array(ring)]
    close(run(lambda x: lax.ppermute(x, "i", numbers), X, mesh, P("i"), P("i")), np.roll(X, 1, axis=0))
    both = run(lambda x: lax.ppermute(x, ("i", "j"), ring), X, grid, P(("i", "j")), P(("i", "j")))
    close(both, np.roll(X, 1, axis=0))
    one = run(lambda x: lax.ppermute(x, "j", [(0, 1)]), X, grid, P(("i", "j")), P(("i", "j")))
    expected = np.zeros_like(X)
    expected[1::2] = X[0::2]
    close(one, expected)
    tree = jax.pmap(lambda x: lax.ppermute([x, x + 1], "i", ring), axis_name="i")(X)
    close(tree[1], np.roll(X + 1, 1, axis=0))


def test_pshuffle_pswapaxes_pbroadcast(mesh):
    perm = [3, 1, 0, 2, 7, 6, 5, 4]
    close(run(lambda x: lax.pshuffle(x, "i", perm), X, mesh, P("i"), P("i")), X[perm])
    close(jax.pmap(lambda x: lax.pswapaxes(x, "i", 0), axis_name="i")(BLOCKS), BLOCKS.swapaxes(0, 1))
    close(run(lambda x: lax.pbroadcast(x, "i", 3), X, mesh, P("i"), P()), X[3:4])


def test_axis_index(mesh, grid):
    first = run(lambda x: x * 0 + lax.axis_index("i"), X, mesh, P("i"), P("i"))
    close(first, np.tile(np.arange(N)[:, None], 3))
    places = lambda x: x * 0 + 10 * lax.axis_index(("i", "j")) + lax.axis_index("j")
    both = run(places, X, grid, P(("i", "j")), P(("i", "j")))
    close(both[:, 0], 10 * np.arange(N) + np.arange(N) % 2)
    reverse = run(lambda x: x * 0 + lax.axis_index(("j", "i")), X, grid, P(("i", "j")), P(("i", "j")))
    close(reverse[:, 0], [0, 4, 1, 5, 2, 6, 3, 7])
    seen = []
    jax.shard_map(lambda x: seen.append(lax.axis_index("i")) or x, mesh=mesh, in_specs=P("i"), out_specs=P("i"))(X)
    assert seen[0].dtype == np.int32 and seen[0].shape == ()


def test_types_of_values_that_vary(mesh):
    close(run(lambda x: x + lax.pcast(np.float32(3), "i", to="varying"), X, mesh, P("i"), P("i")), X + 3)
    close(run(lambda x: x + lax.pvary(np.float32(3), ("i",)), X, mesh, P("i"), P("i")), X + 3)

    def again(x):
        return lax.pcast(x, "i", to="varying")

    with pytest.raises(ValueError, match="varies over 'i' already"):
        jax.shard_map(again, mesh=mesh, in_specs=P("i"), out_specs=P("i"))(X)


def test_ragged_all_to_all(mesh):
    # Device d sends one row to each device, which puts it at row d.
    def f(x):
        steps = np.arange(N, dtype=np.int32)
        ones = np.ones(N, np.int32)
        here = lax.broadcast(lax.axis_index("i"), (N,))
        return lax.ragged_all_to_all(x, x * 0, steps, ones, here, ones, axis_name="i")

    close(run(f, WIDE, mesh, P("i"), P("i")), BLOCKS.swapaxes(0, 1).reshape(N * N, 2))


def mapped(f, x=X, mesh_shape=(N,)):
    names = ("i", "j")[: len(mesh_shape)]
    mesh = jax.make_mesh(mesh_shape, names, axis_types=(AxisType.Auto,) * len(names))
    return jax.shard_map(f, mesh=mesh, in_specs=P("i"), out_specs=P("i"))(x)


@pytest.mark.parametrize(
    "name, arguments",
    [
        ("psum", ()), ("pmean", ()), ("pmax", ()), ("pmin", ()), ("all_gather", ()), ("psum_scatter", ()),
        ("all_to_all", (0, 0)), ("ppermute", ([(0, 1)],)), ("pshuffle", ([0],)), ("pswapaxes", (0,)),
        ("pbroadcast", (0,)), ("pvary", ()),
    ],
)
def test_unbound_axis(name, arguments):
    collective = getattr(lax, name)
    with pytest.raises(NameError, match=f"{name}: axis 'k' is not bound here: the axes bound here are"):
        mapped(lambda x: collective(x, "k", *arguments))
    with pytest.raises(NameError, match=f"{name}: axis 'k' is not bound here: call it inside shard_map"):
        collective(X, "k", *arguments)


def test_unbound_axis_of_numbers():
    for f in (lambda: lax.psum(1, "k"), lambda: lax.axis_index("k"), lambda: lax.axis_size("k")):
        with pytest.raises(NameError, match="axis 'k' is not bound here"):
            f()


@pytest.mark.parametrize(
    "f, x, error, text",
    [
        (lambda x: lax.psum(x, 0), X, TypeError, "psum: axis_name must be a name or a sequence of names"),
        (lambda x: lax.psum(x, ("i", "i")), X, ValueError, "psum: axis 'i' is named twice"),
        (lambda x: lax.psum(x, "i", axis_index_groups=[[0, 1]]), X, ValueError, "exactly once"),
        (lambda x: lax.psum(x, "i", axis_index_groups=3), X, TypeError, "must be a list of lists"),
        (lambda x: lax.psum(x, "i", axis_index_groups=[]), X, ValueError, "it is empty"),
        (lambda x: lax.psum("a", "i"), X, TypeError, "psum: a leaf must be an array or a number"),
        (lambda x: lax.psum(x), X, TypeError, "axis_name"),
        (lambda x: lax.all_gather(x, "i", tilded=True), X, TypeError, "tilded"),
        (lambda x: lax.pmax(x * 1j, "i"), X, TypeError, "complex numbers have no order"),
        (lambda x: lax.all_gather(x, "i", axis=5), X, ValueError, "axis 5 is out of range"),
        (lambda x: lax.all_gather(x, "i", to="x"), X, ValueError, "to must be 'varying', 'invarying' or 'reduced'"),
        (lambda x: lax.psum(lax.all_gather(x, "i", to="reduced"), "i"), X, ValueError, "which is reduced over"),
        (lambda x: lax.pcast(x, "i", to="reduced"), X, ValueError, "cannot be taken as reduced"),
        (lambda x: lax.psum_scatter(x, "i", tiled=True), X, ValueError, "must be a multiple of the 8 devices"),
        (lambda x: lax.all_to_all(x, "i", 0, 0), X, ValueError, "must equal the 8 devices"),
        (lambda x: lax.all_to_all(x, "i", 0, 0, tiled=True), X, ValueError, "must be a multiple of the 8 devices"),
        (lambda x: lax.all_to_all(x, "i", 3, 0, tiled=True), WIDE, ValueError, "axis 3 is out of range"),
        (lambda x: lax.all_to_all(x, "i", 0), X, TypeError, "concat_axis"),
        (lambda x: lax.ppermute(x, "i", [(0, 3), (0, 1)]), X, ValueError, "must each be distinct"),
        (lambda x: lax.ppermute(x, "i", [(0, 9)]), X, IndexError, "a position outside 0..7"),
        (lambda x: lax.ppermute(x, "i", {0: 1}), X, TypeError, "perm must be a list or a tuple"),
        (lambda x: lax.ppermute(x, "i", [(0, 1, 2)]), X, ValueError, "must consist of pairs"),
        (lambda x: lax.ppermute(x, "i", [(0, 1.5)]), X, TypeError, "must be an integer"),
        (lambda x: lax.pshuffle(x, "i", [0, 1, 2, 3, 4, 5, 6, 6]), X, ValueError, "is no permutation"),
        (lambda x: lax.pbroadcast(x, "i", 8), X, IndexError, "the positions along"),
        (lambda x: lax.pcast(x, "i", to="replicated"), X, ValueError, "must be 'varying'"),
    ],
)
def test_misuse(f, x, error, text):
    with pytest.raises(error, match=text):
        mapped(f, x)
