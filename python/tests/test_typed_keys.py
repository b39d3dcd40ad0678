"""Keys with a dtype of their own: made, moved, and refused where something would be computed with them."""

import copy
import pickle

import numpy as np
import pytest
import shoal
import shoal.numpy as jnp
from shoal import lax, random


def words(keys):
    return np.asarray(random.key_data(keys)).tolist()


def test_a_key_has_a_dtype_of_its_own():
    key = random.key(42)
    assert key.shape == () and str(key.dtype) == "key<fry>" and key.dtype.itemsize == 8
    assert repr(key) == "Array((), dtype=key<fry>) overlaying:\n[ 0 42]"
    assert key.dtype == random.split(key).dtype and key.dtype != random.PRNGKey(42).dtype
    assert jnp.issubdtype(key.dtype, shoal.dtypes.prng_key)
    assert jnp.issubdtype(key.dtype, shoal.dtypes.extended)
    assert not jnp.issubdtype(key.dtype, np.number) and not jnp.issubdtype(jnp.float32, shoal.dtypes.prng_key)
    assert random.key_impl(key) == "threefry2x32"
    assert words(key) == [0, 42]
    assert words(random.wrap_key_data(random.key_data(key))) == [0, 42]


@pytest.mark.parametrize("draw", [
    lambda key: random.normal(key, (5,)),
    lambda key: random.bits(key, (3, 2)),
    lambda key: random.gamma(key, 2.0, (4,)),
    lambda key: random.poisson(key, 3.0, (4,)),
    lambda key: random.permutation(key, 10),
    lambda key: random.categorical(key, jnp.zeros((3, 4))),
    lambda key: random.multinomial(key, 5.0, jnp.array([0.5, 0.5])),
    lambda key: random.key_data(random.split(key, (2, 3))),
    lambda key: random.key_data(random.fold_in(key, 7)),
    lambda key: random.key_data(random.clone(key)),
], ids="normal bits gamma poisson permutation categorical multinomial split fold_in clone".split())
def test_draws_are_those_of_the_raw_key(draw):
    typed, raw = random.key(7), random.PRNGKey(7)
    np.testing.assert_array_equal(draw(typed), draw(raw))
    np.testing.assert_array_equal(shoal.jit(draw)(typed), draw(raw))


def test_keys_are_moved():
    keys = random.split(random.key(0), 6)
    raw = np.asarray(random.key_data(keys))
    grid = keys.reshape(2, 3)
    assert words(grid.T) == raw.reshape(2, 3, 2).transpose(1, 0, 2).tolist()
    assert words(jnp.concatenate([grid, grid])) == np.concatenate([raw.reshape(2, 3, 2)] * 2).tolist()
    assert words(jnp.stack([keys[0], keys[5]])) == raw[[0, 5]].tolist()
    assert words(keys[jnp.array([3, 1])]) == raw[[3, 1]].tolist()
    assert words(jnp.where(jnp.arange(6) < 3, keys, keys[::-1])) == np.where(
        np.arange(6)[:, None] < 3, raw, raw[::-1]).tolist()
    assert words(keys.at[2].set(keys[0])) == np.concatenate([raw[:2], raw[:1], raw[3:]]).tolist()
    assert np.asarray(keys == keys[0]).tolist() == [True] + [False] * 5
    first, second = random.split(keys[0])
    assert first.shape == second.shape == ()
    assert [words(key) for key in keys] == raw.tolist()


def test_keys_are_pickled_and_fetched():
    keys = random.split(random.key(3), (2, 3))
    for copied in (pickle.loads(pickle.dumps(keys)), copy.deepcopy(keys)):
        assert str(copied.dtype) == "key<fry>" and words(copied) == words(keys)
    fetched = shoal.device_get({"keys": keys, "numbers": jnp.arange(2)})
    assert isinstance(fetched["numbers"], np.ndarray) and words(fetched["keys"]) == words(keys)


def test_keys_go_through_transformations_and_loops():
    keys = random.split(random.key(1), 8)
    expected = np.stack([np.asarray(random.normal(key, (3,))) for key in keys])
    np.testing.assert_array_equal(shoal.vmap(lambda key: random.normal(key, (3,)))(keys), expected)
    np.testing.assert_array_equal(lax.map(lambda key: random.normal(key, (3,)), keys), expected)
    np.testing.assert_array_equal(shoal.pmap(lambda key: random.normal(key, (3,)))(keys), expected)

    def step(key, _):
        key, own = random.split(key)
        return key, random.uniform(own)

    last, drawn = shoal.jit(lambda key: lax.scan(step, key, length=5))(random.key(3))
    key = random.key(3)
    for value in np.asarray(drawn):
        key, own = random.split(key)
        assert value == random.uniform(own)
    assert words(last) == words(key)
    loss = lambda x, key: jnp.sum(x * random.normal(key, x.shape))
    np.testing.assert_array_equal(shoal.grad(loss)(jnp.ones(4), key), random.normal(key, (4,)))
    assert words(lax.cond(True, lambda k: random.fold_in(k, 1), lambda k: k, key)) == words(random.fold_in(key, 1))


def test_keys_lie_on_meshes():
    mesh = shoal.make_mesh((8,), ("x",))
    split = shoal.NamedSharding(mesh, shoal.P("x"))
    keys = shoal.device_put(random.split(random.key(0), 16), split)
    assert keys.sharding == split and str(keys.dtype) == "key<fry>"
    assert words(keys) == words(random.split(random.key(0), 16))
    draw = shoal.jit(shoal.vmap(lambda key: random.normal(key, (4,))), out_shardings=split)
    np.testing.assert_array_equal(draw(keys), shoal.vmap(lambda key: random.normal(key, (4,)))(keys))
    own = shoal.shard_map(lambda k: random.fold_in(k[0], lax.axis_index("x"))[None], mesh=mesh,
                          in_specs=shoal.P("x"), out_specs=shoal.P("x"))(keys[:8])
    assert words(own) == [words(random.fold_in(key, i)) for i, key in enumerate(keys[:8])]


@pytest.mark.parametrize("misuse", [
    lambda key: key + 1,
    lambda key: -key,
    lambda key: key + key,
    lambda key: key < key,
    lambda key: jnp.sum(key[None]),
    lambda key: jnp.sort(random.split(key)),
    lambda key: jnp.sin(key),
    lambda key: key.astype(jnp.float32),
    lambda key: jnp.ones(3).astype(key.dtype),
    lambda key: lax.bitcast_convert_type(key, jnp.uint32),
    lambda key: np.asarray(key),
    lambda key: float(key),
    lambda key: shoal.grad(lambda k: random.normal(k))(key),
    lambda key: random.wrap_key_data(key),
    lambda key: random.key(key),
    lambda key: random.normal(jnp.zeros(2)),
], ids=("add_one negative add less sum sort sin astype to_key bitcast asarray float grad wrap seed normal").split())
def test_nothing_is_computed_with_keys(misuse):
    with pytest.raises(TypeError):
        misuse(random.key(0))
    if misuse.__code__.co_names[:1] != ("np",):
        with pytest.raises(TypeError):
            shoal.jit(misuse)(random.key(0))


@pytest.mark.parametrize(
    "make, word",
    [
        (lambda k: jnp.empty_like(k), 0), (lambda k: jnp.zeros_like(k), 0), (lambda k: jnp.ones_like(k), 1),
        (lambda k: jnp.full_like(k, 7), 7), (lambda k: shoal.lax.full_like(k, 7), 7),
        (lambda k: jnp.zeros(3, k.dtype), 0), (lambda k: jnp.full(3, 5, k.dtype), 5),
    ],
)  # As JAX 0.12 does.
def test_keys_of_numbers(make, word):
    keys = random.split(random.key(0), 3)
    for made in (make(keys), shoal.jit(make)(keys)):
        assert made.dtype == keys.dtype and made.shape == (3,)
        np.testing.assert_array_equal(random.key_data(made), np.full((3, 2), word, np.uint32))


def test_a_function_takes_one_key():
    with pytest.raises(ValueError, match=r"normal: takes one key, but key<fry>\[3\] holds 3; vmap takes each"):
        random.normal(random.split(random.key(0), 3))
