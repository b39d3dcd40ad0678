"""Keys of rbg and unsafe_rbg. Numbers are those of JAX 0.12 on CPUs (jax.random, by the same calls)."""

import copy
import pickle

import numpy as np
import pytest
import shoal
import shoal.numpy as jnp
from shoal import lax, random

IMPLEMENTATIONS = ("threefry2x32", "rbg", "unsafe_rbg")
PHILOX = IMPLEMENTATIONS[1:]


def words(keys):
    return np.asarray(random.key_data(keys)).tolist()


def test_a_dtype_for_each():
    for impl, name, size in zip(IMPLEMENTATIONS, ("key<fry>", "key<rbg>", "key<urbg>"), (8, 16, 16)):
        key = random.key(42, impl=impl)
        assert str(key.dtype) == name and key.dtype.itemsize == size and random.key_impl(key) == impl
        assert key.dtype is random.key_dtype(impl) and jnp.issubdtype(key.dtype, shoal.dtypes.prng_key)
        assert words(key) == words(random.key(42, dtype=key.dtype)) == [0, 42] * (size // 8)
        assert random.PRNGKey(42, impl=impl).tolist() == words(key)
        copied = random.wrap_key_data(random.key_data(key), impl=impl)
        assert copied.dtype is key.dtype and words(copied) == words(key)
        for moved in (pickle.loads(pickle.dumps(key)), copy.deepcopy(key), random.clone(key)):
            assert moved.dtype is key.dtype and words(moved) == words(key)
        assert pickle.loads(pickle.dumps(key.dtype)) is key.dtype
    assert repr(random.key(1, impl="rbg")) == "Array((), dtype=key<rbg>) overlaying:\n[0 1 0 1]"


def test_numbers_are_those_of_jax():
    rbg, unsafe = (random.key(42, impl=impl) for impl in PHILOX)
    assert random.bits(rbg, (4,)).tolist() == [2620864722, 2991908441, 282133475, 2589630650]
    assert words(random.split(rbg, 2)) == [
        [1832780943, 270669613, 1832780943, 270669613], [64467757, 2916123636, 64467757, 2916123636]]
    assert words(random.split(unsafe, 2)) == [
        [2620864722, 2991908441, 282133475, 2589630650], [4105776319, 298289174, 864345282, 274752888]]
    assert words(random.fold_in(rbg, 7)) == [2547012911, 1371500959, 2547012911, 1371500959]
    assert words(random.fold_in(unsafe, 7)) == [2104303640, 250182049, 1106406590, 1983638428]
    near = random.wrap_key_data(jnp.array([1, 2, 3, 4], jnp.uint32), impl="rbg")
    assert random.bits(near, (13,), jnp.uint8).tolist() == [100, 215, 190, 1, 123, 150, 116, 239, 183, 64, 16, 41, 91]


@pytest.mark.parametrize("impl", PHILOX)
def test_keys_are_moved(impl):
    keys = random.split(random.key(0, impl=impl), 6)
    raw = np.asarray(random.key_data(keys))
    grid = keys.reshape(2, 3)
    assert words(grid.T) == raw.reshape(2, 3, 4).transpose(1, 0, 2).tolist()
    assert words(jnp.concatenate([grid, grid])) == np.concatenate([raw.reshape(2, 3, 4)] * 2).tolist()
    assert words(keys[jnp.array([3, 1])]) == raw[[3, 1]].tolist()
    assert words(jnp.where(jnp.arange(6) < 3, keys, keys[::-1])) == np.where(
        np.arange(6)[:, None] < 3, raw, raw[::-1]).tolist()
    assert words(keys.at[2].set(keys[0])) == np.concatenate([raw[:2], raw[:1], raw[3:]]).tolist()
    assert np.asarray(keys == keys[0]).tolist() == [True] + [False] * 5
    assert np.asarray(keys != keys[0]).tolist() == [False] + [True] * 5
    assert words(shoal.jit(lambda k, i: k[i])(keys, 4)) == raw[4].tolist()
    halves = random.wrap_key_data(jnp.array([[1, 2, 3, 4], [1, 2, 3, 5]], jnp.uint32), impl=impl)
    assert not bool(halves[0] == halves[1]) and bool(halves[0] != halves[1])


@pytest.mark.parametrize("impl", PHILOX)
def test_words_that_are_no_numbers_stay(impl):
    """Of floats with these bits some are NaN, infinite or -0."""
    special = [0x7FF00000, 0x7FF80000, 0xFFF00001, 0x80000000, 0, 1, 0xFFFFFFFF]
    given = np.array(np.meshgrid(special, special, special[:3], [0, 5])).T.reshape(-1, 4)[:288].astype(np.uint32)
    keys = random.wrap_key_data(jnp.asarray(given), impl=impl)
    assert words(keys) == given.tolist()
    assert words(keys[::-1].reshape(2, 144).T.reshape(-1)) == given[::-1].reshape(2, 144, 4).transpose(1, 0, 2).reshape(-1, 4).tolist()
    assert np.asarray(keys == keys).all()
    split = shoal.device_put(keys, shoal.NamedSharding(shoal.make_mesh((8,), ("x",)), shoal.P("x")))
    pick = shoal.jit(lambda k, i: (k[i], jnp.roll(k, 3), jnp.where(k[::-1] == k, k, k[i])))
    one, rolled, chosen = pick(split, 100)
    assert words(one) == given[100].tolist() and words(rolled) == np.roll(given, 3, 0).tolist()
    assert words(chosen) == np.where((given == given[::-1]).all(1)[:, None], given, given[100]).tolist()


@pytest.mark.parametrize("impl", PHILOX)
def test_keys_of_numbers(impl):
    """As in JAX each word is the number."""
    keys = random.split(random.key(0, impl=impl), 3)
    for make, word in ((jnp.zeros_like, 0), (jnp.ones_like, 1), (lambda k: jnp.full_like(k, 7), 7)):
        for f in (make, shoal.jit(make)):
            assert f(keys).dtype is keys.dtype and words(f(keys)) == [[word] * 4] * 3


@pytest.mark.parametrize("impl", PHILOX)
def test_keys_go_through_transformations_and_loops(impl):
    keys = random.split(random.key(1, impl=impl), 8)
    draw = lambda key: random.normal(key, (3,))
    expected = np.stack([np.asarray(draw(key)) for key in keys])
    for mapped in (shoal.vmap(draw), lambda keys: lax.map(draw, keys), shoal.pmap(draw), shoal.jit(shoal.vmap(draw))):
        np.testing.assert_array_equal(mapped(keys), expected)

    def step(key, _):
        key, own = random.split(key)
        return key, random.uniform(own)

    last, drawn = shoal.jit(lambda key: lax.scan(step, key, length=5))(keys[3])
    key = keys[3]
    for value in np.asarray(drawn):
        key, own = random.split(key)
        assert value == random.uniform(own)
    assert words(last) == words(key)
    assert words(lax.cond(True, lambda k: random.fold_in(k, 1), lambda k: k, key)) == words(random.fold_in(key, 1))
    until = lambda key: lax.while_loop(lambda k: random.uniform(k) < 0.9, lambda k: random.split(k)[0], key)
    assert [words(k) for k in shoal.vmap(until)(keys)] == [words(until(k)) for k in keys]
    loss = lambda x, key: jnp.sum(x * random.normal(key, x.shape))
    np.testing.assert_array_equal(shoal.grad(loss)(jnp.ones(4), key), random.normal(key, (4,)))


@pytest.mark.parametrize("impl", PHILOX)
def test_numbers_do_not_depend_on_the_sharding(impl):
    mesh = shoal.make_mesh((2, 4), ("x", "y"), axis_types=(shoal.sharding.AxisType.Auto,) * 2)
    key = random.key(5, impl=impl)
    for dtype in (jnp.uint8, jnp.uint16, jnp.uint32):
        whole = random.bits(key, (6, 24), dtype)
        for spec in (shoal.P("x", "y"), shoal.P("x"), shoal.P(None, ("x", "y"))):
            draw = shoal.jit(lambda k: random.bits(k, (6, 24), dtype), out_shardings=shoal.NamedSharding(mesh, spec))
            np.testing.assert_array_equal(draw(key), whole)
    lowered = shoal.jit(lambda k: random.normal(k, (16, 8)), out_shardings=shoal.NamedSharding(mesh, shoal.P("x", "y")))
    np.testing.assert_array_equal(lowered(key), random.normal(key, (16, 8)))
    keys = shoal.device_put(random.split(key, 16), shoal.NamedSharding(mesh, shoal.P(("x", "y"))))
    assert keys.sharding.spec == shoal.P(("x", "y")) and words(keys) == words(random.split(key, 16))
    own = shoal.shard_map(lambda k: random.fold_in(k[0], lax.axis_index("x"))[None], mesh=mesh,
                          in_specs=shoal.P("x"), out_specs=shoal.P("x"))(keys[:2])
    assert words(own) == [words(random.fold_in(keys[i], i)) for i in range(2)]


@pytest.mark.parametrize("impl", PHILOX)
def test_the_default(impl):
    with shoal.default_prng_impl(impl):
        assert random.key_impl(random.key(3)) == impl == random.key_impl(random.PRNGKey(3))
        raw, typed = random.PRNGKey(3), random.key(3)
        assert raw.shape == (4,)
        np.testing.assert_array_equal(random.normal(raw, (5,)), random.normal(typed, (5,)))
        assert random.split(raw, 3).tolist() == words(random.split(typed, 3))
        assert random.fold_in(raw, 9).tolist() == words(random.fold_in(typed, 9))
        with pytest.raises(TypeError, match=rf"raw ones of the default implementation '{impl}', uint32\[4\]"):
            random.normal(random.PRNGKey(3, impl="threefry2x32"))
    assert random.key_impl(random.key(3)) == "threefry2x32"
    made = shoal.jit(lambda seed: random.key(seed))
    assert str(made(1).dtype) == "key<fry>"
    with shoal.default_prng_impl(impl):
        assert random.key_impl(made(1)) == impl
    assert str(made(1).dtype) == "key<fry>"
    with pytest.raises(ValueError, match="jax_default_prng_impl must be in"):
        shoal.config.update("jax_default_prng_impl", "mersenne")


@pytest.mark.parametrize("misuse, text", [
    (lambda a, b: jnp.concatenate([a[None], b[None]]), "key<rbg> and key<urbg> have no dtype in common"),
    (lambda a, b: jnp.where(True, a, b), "key<rbg> and key<urbg> have no dtype in common"),
    (lambda a, b: a == b, "key<rbg> and key<urbg> have no dtype in common"),
    (lambda a, b: a + 1, "nothing is computed with keys"),
    (lambda a, b: lax.cond(True, lambda: a, lambda: b), r"returns the result as key<urbg>\[\], but .* as key<rbg>\[\]"),
    (lambda a, b: random.wrap_key_data(jnp.zeros(2, jnp.uint32), impl="rbg"),
     r"wrap_key_data: the words are uint32\[2\]; keys of 'rbg' are made of uint32\[..., 4\]"),
    (lambda a, b: random.key(0, impl="rbg", dtype=a.dtype), "key: Cannot specify both `impl` and `dtype`"),
    (lambda a, b: random.key(0, impl=3), "key: impl must be the name of an implementation, or the dtype of its keys"),
    (lambda a, b: random.normal(random.key_data(a)), "wrap_key_data makes keys of the words of others"),
], ids="concatenate where equal add cond wrap both impl raw".split())
def test_implementations_are_not_mixed(misuse, text):
    with pytest.raises(ValueError if "both" in text else TypeError, match=text):
        misuse(random.key(0, impl="rbg"), random.key(0, impl="unsafe_rbg"))
