"""shoal.nn against formulas, eager and jitted, and what it refuses."""

import math

import numpy as np
import pytest

import shoal as jax
import shoal.numpy as jnp
from shoal import lax, nn
from shoal.sharding import AxisType, PartitionSpec as P

rng = np.random.RandomState(0)
X = (2 * rng.randn(4, 6)).astype(np.float32)
I = rng.randint(-5, 5, (4, 6)).astype(np.int32)
MASK = np.arange(24).reshape(4, 6) % 3 != 0


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.logaddexp(x, 0)


def elu(x, alpha=1.0):
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def same(result, expected):
    expected = np.asarray(expected)
    result = np.asarray(result)
    assert result.shape == expected.shape
    np.testing.assert_allclose(result, expected, rtol=2e-5, atol=2e-6)


def both_ways(f, x, expected):
    same(f(x), expected)
    same(jax.jit(f)(x), expected)


POINTWISE = {
    "identity": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "sigmoid": sigmoid,
    "silu": lambda x: x * sigmoid(x),
    "swish": lambda x: x * sigmoid(x),
    "mish": lambda x: x * np.tanh(softplus(x)),
    "softplus": softplus,
    "sparse_plus": lambda x: np.where(x <= -1, 0, np.where(x >= 1, x, (x + 1) ** 2 / 4)),
    "sparse_sigmoid": lambda x: np.clip((x + 1) / 2, 0, 1),
    "log_sigmoid": lambda x: -softplus(-x),
    "soft_sign": lambda x: x / (np.abs(x) + 1),
    "hard_tanh": lambda x: np.clip(x, -1, 1),
    "hard_sigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "hard_silu": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "hard_swish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "tanh": np.tanh,
    "selu": lambda x: 1.0507009873554805 * elu(x, 1.6732632423543772),
    "elu": elu,
    "celu": elu,
    "leaky_relu": lambda x: np.where(x >= 0, x, 0.01 * x),
    "squareplus": lambda x: (x + np.sqrt(x * x + 4)) / 2,
    "gelu": lambda x: x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
}


@pytest.mark.parametrize("name", POINTWISE)
def test_pointwise(name):
    both_ways(getattr(nn, name), X, POINTWISE[name](X.astype(np.float64)))
    half = getattr(nn, name)(jnp.asarray(X).astype(jnp.bfloat16))
    assert half.dtype == jnp.bfloat16


def test_log1mexp():
    x = np.abs(X) + np.float32(0.1)
    both_ways(nn.log1mexp, x, np.log1p(-np.exp(-x.astype(np.float64))))


def test_parameters():
    both_ways(lambda x: nn.leaky_relu(x, 0.2), X, np.where(X >= 0, X, 0.2 * X))
    both_ways(lambda x: nn.leaky_relu(x, negative_slope=jnp.asarray(0.2)), X, np.where(X >= 0, X, 0.2 * X))
    both_ways(lambda x: nn.elu(x, 2), X, elu(X, 2))
    both_ways(lambda x: nn.elu(x, alpha=np.float32(2)), X, elu(X, 2))
    both_ways(lambda x: nn.celu(x, 2.0), X, np.where(X > 0, X, 2 * np.expm1(np.minimum(X, 0) / 2)))
    both_ways(lambda x: nn.celu(x, x[0] * 0 + 2), X, np.where(X > 0, X, 2 * np.expm1(np.minimum(X, 0) / 2)))
    both_ways(lambda x: nn.squareplus(x, b=1), X, (X + np.sqrt(X * X + 1)) / 2)
    exact = X / 2 * (1 + np.vectorize(math.erf)(X / np.sqrt(2)))
    both_ways(lambda x: nn.gelu(x, approximate=False), X, exact)


def test_integers():
    for name in ("relu", "hard_tanh"):
        result = getattr(nn, name)(I)
        assert result.dtype == np.int32
        same(result, POINTWISE[name](I))
    assert nn.gelu(I).dtype == np.float32
    same(nn.softmax(I), softmax(I.astype(np.float32)))


def test_softmax():
    both_ways(nn.softmax, X, softmax(X))
    both_ways(lambda x: nn.softmax(x, axis=0), X, softmax(X, 0))
    both_ways(lambda x: nn.softmax(x, axis=(0, 1)), X, softmax(X, (0, 1)))
    both_ways(lambda x: nn.softmax(x, axis=None), X, softmax(X, (0, 1)))
    both_ways(lambda x: nn.log_softmax(x, 0), X, np.log(softmax(X.astype(np.float64), 0)))
    masked = softmax(np.where(MASK, X, -np.inf))
    both_ways(lambda x: nn.softmax(x, where=MASK), X, masked)
    with np.errstate(divide="ignore"):
        both_ways(lambda x: nn.log_softmax(x, where=MASK), X, np.log(masked))
    same(nn.softmax(X, where=np.zeros_like(MASK)), np.zeros_like(X))
    assert nn.softmax(jnp.asarray(X).astype(jnp.float16), where=MASK).dtype == np.float16


def test_logsumexp():
    total = np.exp(X.astype(np.float64))
    both_ways(nn.logsumexp, X, np.log(total.sum()))
    both_ways(lambda x: nn.logsumexp(x, axis=1, keepdims=True), X, np.log(total.sum(1, keepdims=True)))
    with np.errstate(divide="ignore"):  # Two columns have nothing that counts.
        both_ways(lambda x: nn.logsumexp(x, 0, where=MASK), X, np.log(np.where(MASK, total, 0).sum(0)))
    weighted = (total * X).sum(1)
    result, sign = jax.jit(lambda x: nn.logsumexp(x, 1, b=x, return_sign=True))(X)
    same(result, np.log(np.abs(weighted)))
    same(sign, np.sign(weighted))
    both_ways(lambda x: nn.logsumexp(x, 1, b=2), X, np.log(2 * total.sum(1)))
    assert np.isnan(np.asarray(nn.logsumexp(X, b=-1.0)))
    same(nn.logsumexp(np.float32([1e4, 1e4]), b=np.float32([1, 0])), 1e4)
    kept = nn.logsumexp(X[:, None], axis=(1, 2), b=X[:, None], return_sign=True, keepdims=True)
    assert kept[0].shape == kept[1].shape == (4, 1, 1)
    both_ways(nn.logmeanexp, X, np.log(total.mean()))
    both_ways(lambda x: nn.logmeanexp(x, 1, where=MASK), X, np.log(np.where(MASK, total, 0).sum(1) / MASK.sum(1)))


def test_standardize():
    def formula(mean, variance):
        return (X - mean) / np.sqrt(variance + 1e-5)

    both_ways(nn.standardize, X, formula(X.mean(-1, keepdims=True), X.var(-1, keepdims=True)))
    both_ways(lambda x: nn.standardize(x, axis=(0, 1), algorithm="stable"), X, formula(X.mean(), X.var()))
    both_ways(lambda x: nn.standardize(x, mean=1.0, variance=np.float32(4)), X, formula(1, 4))
    mean = np.where(MASK, X, 0).sum(-1, keepdims=True) / MASK.sum(-1, keepdims=True)
    variance = np.where(MASK, (X - mean) ** 2, 0).sum(-1, keepdims=True) / MASK.sum(-1, keepdims=True)
    both_ways(lambda x: nn.standardize(x, where=MASK), X, formula(mean, variance))
    both_ways(lambda x: nn.standardize(x, mean=0, variance=0, epsilon=1), X, X)
    with pytest.raises(ValueError, match="algorithm must be 'fast' or 'stable'"):
        nn.standardize(X, algorithm="slow")


def test_glu():
    both_ways(nn.glu, X, X[:, :3] * sigmoid(X[:, 3:]))
    both_ways(lambda x: nn.glu(x, axis=0), X, X[:2] * sigmoid(X[2:]))
    with pytest.raises(ValueError, match="must be even"):
        nn.glu(X[:, :3])


def test_one_hot():
    codes = np.array([0, 2, 5], np.int32)
    both_ways(lambda x: nn.one_hot(x, 3), codes, (codes[:, None] == np.arange(3)).astype(np.float32))
    assert nn.one_hot(codes, 3).dtype == np.float32
    ints = nn.one_hot(codes, 3, dtype=int, axis=0)
    assert ints.dtype == np.int32
    same(ints, codes == np.arange(3)[:, None])
    same(nn.one_hot([0, 1], 3), np.eye(3)[:2])
    same(nn.one_hot(2, 3), [0, 0, 1])
    mesh = jax.make_mesh((8,), ("i",), axis_types=(AxisType.Auto,))
    along = jax.shard_map(lambda x: nn.one_hot(x, 8, axis="i"), mesh=mesh, in_specs=P(), out_specs=P("i"))
    same(along(codes), (np.arange(8)[:, None] == codes).reshape(-1))
    with pytest.raises(NameError, match="axis 'i' is not bound"):
        nn.one_hot(codes, 8, axis="i")
    with pytest.raises(TypeError, match="num_classes"):
        nn.one_hot(codes, 3.5)


Q = rng.randn(2, 3, 4, 8).astype(np.float32)
K = rng.randn(2, 5, 2, 8).astype(np.float32)
V = rng.randn(2, 5, 2, 8).astype(np.float32)


def attention(visible=None, bias=0.0, scale=8**-0.5):
    """visible: broadcasts to (batch, heads, queries, keys)."""
    keys, values = np.repeat(K, 2, axis=2), np.repeat(V, 2, axis=2)
    logits = np.einsum("btnh,bsnh->bnts", Q, keys) * scale + bias
    if visible is not None:
        logits = np.where(visible, logits, -1e30)
    return np.einsum("bnts,bsnh->btnh", softmax(logits), values)


def test_attention():
    query, key = np.arange(3)[:, None], np.arange(5)
    cases = [
        ({}, attention()),
        ({"is_causal": True, "scale": 0.5}, attention(key <= query, scale=0.5)),
        ({"local_window_size": (1, 0)}, attention((query <= key + 1) & (query >= key))),
        ({"local_window_size": 1}, attention(np.abs(query - key) <= 1)),
        ({"key_value_seq_lengths": np.int32([4, 1])}, attention(key < np.reshape([4, 1], (2, 1, 1, 1)))),
    ]
    for options, expected in cases:
        both_ways(lambda q: nn.dot_product_attention(q, K, V, **options), Q, expected)
    mask = rng.rand(2, 1, 3, 5) > 0.3
    mask[..., 0] = True
    bias = rng.randn(1, 4, 3, 5).astype(np.float32)
    both_ways(lambda q: nn.dot_product_attention(q, K, V, bias, mask), Q, attention(mask, bias))
    both_ways(lambda q: nn.dot_product_attention(q, K[0], V[0]), Q[0], attention()[0])
    lengths = np.int32([2, 3])
    padded = attention() * (np.arange(3) < lengths[:, None])[:, :, None, None]
    both_ways(lambda q: nn.dot_product_attention(q, K, V, query_seq_lengths=lengths), Q, padded)


def test_attention_that_is_refused():
    for options, error, text in (
        ({"mask": np.ones((1, 1, 3, 5), np.float32)}, ValueError, "mask dtype should be bool"),
        ({"implementation": "cudnn"}, ValueError, "implementation must be None or 'xla'"),
        ({"return_residual": True}, NotImplementedError, "return_residual"),
        ({"local_window_size": (1, 2, 3)}, ValueError, "local_window_size"),
        ({"mask": np.ones((7, 1, 3, 5), bool)}, ValueError, "dot_product_attention"),
    ):
        with pytest.raises(error, match=text):
            nn.dot_product_attention(Q, K, V, **options)
    with pytest.raises(ValueError, match="dot_product_attention: queries, keys and values of shapes"):
        nn.dot_product_attention(Q, K, V[:, :2])


def test_initializers():
    same(nn.initializers.zeros(None, (2, 3)), np.zeros((2, 3)))
    ones = nn.initializers.ones(None, (2,), jnp.bfloat16)
    assert ones.dtype == jnp.bfloat16
    three = nn.initializers.constant(3, dtype=np.int32)
    same(three(None, (2,)), [3, 3])
    assert three(None, (2,)).dtype == np.int32 and three(None, (2,), np.float32).dtype == np.float32
    drawn = nn.initializers.he_normal(in_axis=0, out_axis=1, dtype=jnp.float16)(jax.random.key(0), (64, 64))
    assert drawn.dtype == jnp.float16 and abs(float((drawn.astype(float) ** 2).mean()) - 2 / 64) < 2e-3
    with pytest.raises(ValueError, match="variance_scaling: distribution 'cauchy' does not exist"):
        nn.initializers.variance_scaling(1, "fan_in", "cauchy")(jax.random.key(0), (2, 2))
    with jax.set_mesh(jax.make_mesh((2,), ("x",), axis_types=(jax.sharding.AxisType.Explicit,))):
        split = nn.initializers.glorot_uniform()(jax.random.key(0), (4, 2), out_sharding=jax.P("x"))
        assert str(jax.typeof(split)) == "float32[4@x,2]"


@pytest.mark.parametrize("operand", [[1.0, 2.0], None, "a"])
def test_operands_that_are_refused(operand):
    for f in (nn.relu, nn.gelu, nn.softmax, nn.glu, nn.leaky_relu):
        with pytest.raises(TypeError, match="requires ndarray or scalar arguments, got"):
            f(operand)


def test_names_that_are_not_there_yet():
    with pytest.raises(AttributeError, match="'scaled_matmul': it is not there yet"):
        nn.scaled_matmul
    with pytest.raises(AttributeError, match="module 'shoal.nn' has no attribute 'rleu'$"):
        nn.rleu


def test_sharded_operands_give_the_same():
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    x = jax.device_put(X, jax.NamedSharding(mesh, P("x", "y")))
    same(jax.jit(nn.softmax)(x), softmax(X))
    same(nn.softmax(x, where=MASK), softmax(np.where(MASK, X, -np.inf)))
    same(lax.add(x, x), 2 * X)
