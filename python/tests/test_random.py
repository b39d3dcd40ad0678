"""shoal.random: how its functions go with jit, vmap, grad and devices, and what they refuse. That samples are those of JAX
is shown by recorded/random.txt."""

import importlib

import numpy as np
import pytest

import shoal as jax
import shoal.numpy as jnp
from shoal import lax, random
from shoal.sharding import AxisType, NamedSharding, PartitionSpec as P

KEY = random.PRNGKey(7)
A = np.linspace(0.5, 6, 16).astype(np.float32)

SAMPLERS = {
    "bits": lambda k: random.bits(k, (16,)),
    "bits of 8": lambda k: random.bits(k, (16,), np.uint8),
    "uniform": lambda k: random.uniform(k, (16,), minval=-1, maxval=A),
    "randint": lambda k: random.randint(k, (16, 2), -5, 100),
    "bernoulli": lambda k: random.bernoulli(k, 0.3, (16,)),
    "rademacher": lambda k: random.rademacher(k, (16,)),
    "normal": lambda k: random.normal(k, (16, 3)),
    "truncated_normal": lambda k: random.truncated_normal(k, -1, A),
    "laplace": lambda k: random.laplace(k, (16,)),
    "gumbel": lambda k: random.gumbel(k, (16,), mode="high"),
    "permutation": lambda k: random.permutation(k, 16),
    "choice": lambda k: random.choice(k, A, (16,), replace=False),
    "categorical": lambda k: random.categorical(k, A.reshape(4, 4), shape=(16, 4)),
    "gamma": lambda k: random.gamma(k, A),
    "beta": lambda k: random.beta(k, A, 2.0),
    "dirichlet": lambda k: random.dirichlet(k, A[:4], (16,)),
    "poisson": lambda k: random.poisson(k, 4 * A),
    "binomial": lambda k: random.binomial(k, 30, A / 7),
    "split": lambda k: random.split(k, 16),
}


def same(a, b):
    a, b = np.asarray(a), np.asarray(b)
    assert a.dtype == b.dtype and a.shape == b.shape
    if np.issubdtype(a.dtype, np.floating):  # Programs fuse.
        np.testing.assert_allclose(a, b, rtol=2e-6, atol=1e-6)
    else:
        np.testing.assert_array_equal(a, b)


def bits_of(x):
    return np.asarray(x).view(np.uint8)


@pytest.mark.parametrize("name", SAMPLERS)
def test_jit_and_vmap(name):
    f = SAMPLERS[name]
    same(jax.jit(f)(KEY), f(KEY))
    keys = random.split(KEY, 3)
    mapped = jax.vmap(f)(keys)
    for i in range(3):
        same(mapped[i], f(keys[i]))
    same(lax.map(f, keys), mapped)


@pytest.mark.parametrize("name", SAMPLERS)
def test_the_same_bits_on_any_sharding(name):
    f = SAMPLERS[name]
    whole = jax.jit(f)(KEY)
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    for spec in (P("x"), P(("y", "x"))):
        split = jax.jit(f, out_shardings=NamedSharding(mesh, spec))(KEY)
        assert len({s.device for s in split.addressable_shards}) == 8 and split.sharding.spec == spec
        assert (bits_of(split) == bits_of(whole)).all()


def test_out_sharding():
    mesh = jax.make_mesh((8,), ("x",), axis_types=(AxisType.Explicit,))
    with jax.set_mesh(mesh):
        x = random.normal(KEY, (16,), out_sharding=P("x"))
        y = jax.jit(lambda k: random.gamma(k, A, out_sharding=P("x")))(KEY)
    assert str(jax.typeof(x)) == "float32[16@x]" == str(jax.typeof(y))
    same(x, random.normal(KEY, (16,)))
    same(y, random.gamma(KEY, A))


def test_keys_of_devices():
    mesh = jax.make_mesh((8,), ("x",), axis_types=(AxisType.Auto,))
    keys = random.split(KEY, 8)
    mapped = jax.shard_map(lambda k: random.normal(k[0], (2,)), mesh=mesh, in_specs=P("x"), out_specs=P("x"))(keys)
    same(mapped.reshape(8, 2), jax.vmap(lambda k: random.normal(k, (2,)))(keys))
    folded = jax.shard_map(lambda: random.bits(random.fold_in(KEY, lax.axis_index("x")), (1,)), mesh=mesh, in_specs=(),
                           out_specs=P("x"))()
    same(folded, [random.bits(random.fold_in(KEY, i)) for i in range(8)])
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    partly = jax.shard_map(lambda k: random.normal(k[0], (2,)), mesh=mesh, in_specs=P("x"), out_specs=P("x"),
                           axis_names={"x"})
    same(jax.jit(partly)(keys[:4]).reshape(4, 2), mapped.reshape(8, 2)[:4])
    each = jax.pmap(lambda k: random.uniform(k, (3,)))(keys)
    same(each, jax.vmap(lambda k: random.uniform(k, (3,)))(keys))


def test_derivatives_by_parameters():
    noise = np.asarray(random.normal(KEY, (16,)))

    def loss(mean, scale):
        return jnp.sum((mean + scale * random.normal(KEY, (16,))) ** 2)

    for grad in (jax.grad(loss, (0, 1)), jax.jit(jax.grad(loss, (0, 1)))):
        mean, scale = grad(0.5, 2.0)
        x = 0.5 + 2 * noise
        np.testing.assert_allclose(mean, 2 * x.sum(), rtol=1e-5)
        np.testing.assert_allclose(scale, 2 * (x * noise).sum(), rtol=1e-5)
    u = np.asarray(random.uniform(KEY, (16,)))
    high = jax.grad(lambda b: jnp.sum(random.uniform(KEY, (16,), maxval=b)))(3.0)
    np.testing.assert_allclose(high, u.sum(), rtol=1e-5)


def test_dropout_never_writes_its_bits():
    def dropout(x, key, rate=0.1):
        return jnp.where(random.bernoulli(key, 1 - rate, x.shape), x / (1 - rate), 0.0)

    x = jnp.ones((256, 1024))
    bytes = x.size * 4
    for f in (dropout, jax.grad(lambda x, key: jnp.sum(dropout(x, key) ** 2))):
        compiled = jax.jit(f).lower(x, KEY).compile()
        memory = compiled.memory_analysis()
        assert memory.output_size_in_bytes == bytes
        assert memory.temp_size_in_bytes < x.size / 8, "no mask"
    kept = np.asarray(jax.jit(dropout)(x, KEY)) != 0
    assert abs(kept.mean() - 0.9) < 0.01
    same(jax.jit(jax.grad(lambda x: jnp.sum(dropout(x, KEY))))(x), np.where(kept, np.float32(1) / np.float32(0.9), 0))


def test_in_loops():
    def step(key, _):
        key, of_step = random.split(key)
        return key, random.uniform(of_step)

    values = lax.scan(step, KEY, length=4)[1]
    key = KEY
    for value in values:
        key, of_step = random.split(key)
        same(value, random.uniform(of_step))


def test_moments():
    x = np.asarray(random.normal(KEY, 20000))
    assert abs(x.mean()) < 0.03 and abs(x.var() - 1) < 0.04
    counts = np.bincount(np.asarray(random.categorical(KEY, np.log([0.1, 0.2, 0.7]), shape=(20000,))), minlength=3)
    np.testing.assert_allclose(counts / 20000, [0.1, 0.2, 0.7], atol=0.015)
    same(np.sort(random.permutation(KEY, 1000)), np.arange(1000, dtype=np.int32))


def test_the_module():
    assert importlib.import_module("shoal.random") is random is jax.random
    assert random.key_impl(KEY) == "threefry2x32"
    assert (random.key_data(KEY) == KEY).all()
    for f in (random.key, random.PRNGKey):
        with pytest.raises(ValueError, match="impl 'philox' does not exist; there are 'threefry2x32', 'rbg' and 'unsafe_rbg'"):
            f(0, impl="philox")


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda: random.normal("key"), TypeError, r"normal requires .*, got <class 'str'> for argument 'key'"),
        (lambda: random.gamma(KEY, [1.0]), TypeError, r"gamma requires .*, got <class 'list'> for argument 'a'"),
        (lambda: random.beta(KEY, 1.0, None), TypeError, r"beta requires .*, got <class 'NoneType'> for argument 'b'"),
        (lambda: random.normal(KEY[:1]), TypeError, r"normal: the key is uint32\[1\]; keys are made by key, split and fold_in"),
        (lambda: random.bits(random.split(KEY)), ValueError, r"bits: takes one key, but uint32\[2,2\] holds 2"),
        (lambda: random.uniform(KEY, "ab"), TypeError, r"uniform: Shapes must be 1D sequences .*, got 'ab'"),
        (lambda: random.uniform(KEY, (-1,)), ValueError, r"uniform: shape \(-1,\) has a negative extent"),
        (lambda: random.uniform(KEY, 3, int), ValueError, r"uniform: dtype is int32; samples are float16"),
        (lambda: random.gumbel(KEY, mode=1), TypeError, r"gumbel: mode must be a string, got <class 'int'>"),
        (lambda: random.split(KEY, "2"), TypeError, r"split: num must be an integer or a sequence of integers"),
        (lambda: random.ball(KEY, 2.5), TypeError, r"ball: d must be an integer, got <class 'float'>"),
        (lambda: random.fold_in(KEY, 2**32), OverflowError, r"fold_in: data is 4294967296; it must fit dtype uint32"),
        (lambda: random.choice(KEY, 5, 3), TypeError, r"choice: shape must be a sequence, got 3"),
        (lambda: jax.jit(lambda n: random.normal(KEY, (n,)))(3), TypeError, "normal: Shapes must be"),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_signs_while_64_bit_types_are_on():
    """By numbers of 64 bits whatever the dtype: what JAX 0.12 draws."""
    with jax.enable_x64(True):
        key = random.key(7)
        for dtype in ("int32", "float32", "float64"):
            assert random.rademacher(key, (6,), dtype).tolist() == [-1, 1, 1, 1, 1, -1]
        np.testing.assert_allclose(
            random.generalized_normal(key, 1.5, (6,), "float32"),
            [0.11314882, 0.78606486, -0.05867381, -0.3168769, 0.22589615, 1.4831246], rtol=1e-5)
        np.testing.assert_allclose(
            random.double_sided_maxwell(key, 0.5, 1.5, (6,), "float32"),
            [2.3578932, 4.377579, -1.5702584, -3.154307, 2.4277096, 2.1382694], rtol=1e-5)
        np.testing.assert_allclose(
            random.ball(key, 3, 2, (2,), "float32"),
            [[-0.36388415, 0.3945854, 0.1197582], [-0.48726168, 0.1332288, -0.14461814]], rtol=1e-4)


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg", "unsafe_rbg"])
def test_keys_out_of_bounds(impl):
    """A key that is filled in has the greatest words, as in JAX."""
    keys = random.split(random.key(0, impl=impl), 4)
    filled = jax.jit(lambda x: x.at[jnp.array([100, 1])].get(mode="fill"))(keys)
    words = np.asarray(random.key_data(filled))
    assert (words[0] == np.iinfo(np.uint32).max).all()
    np.testing.assert_array_equal(words[1], random.key_data(keys)[1])
