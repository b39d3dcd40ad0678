"""shoal.lax against NumPy, eager and jitted, and what it refuses."""

import math

import numpy as np
import pytest

import shoal as jax
import shoal.numpy as jnp
from shoal import lax
from shoal.sharding import AxisType, PartitionSpec as P

rng = np.random.RandomState(0)
F = rng.randn(4, 6).astype(np.float32)
G = rng.randn(4, 6).astype(np.float32)
POSITIVE = np.abs(F) + np.float32(0.1)
UNIT = np.tanh(F)
I = rng.randint(-50, 50, (4, 6)).astype(np.int32)
J = rng.randint(1, 9, (4, 6)).astype(np.int32)
U = rng.randint(0, 256, (4, 6)).astype(np.uint8)
B = F > 0
C = (F + 1j * G).astype(np.complex64)
CUBE = rng.randn(2, 4, 6).astype(np.float32)


def same(result, expected, exact=False):
    expected = np.asarray(expected)
    result = np.asarray(result)
    assert result.shape == expected.shape
    assert result.dtype == expected.dtype
    if exact or expected.dtype.kind in "iub":
        np.testing.assert_array_equal(result, expected)
    else:
        np.testing.assert_allclose(result, expected, rtol=2e-5, atol=2e-6)


def both_ways(f, arrays, expected):
    """f(*arrays), eager and jitted."""
    same(f(*[jnp.asarray(x) for x in arrays]), expected)
    same(jax.jit(f)(*arrays), expected)


UNARY = {
    "neg": (F, np.negative), "abs": (F, np.abs), "sign": (F, np.sign), "square": (F, np.square),
    "reciprocal": (POSITIVE, np.reciprocal), "exp": (F, np.exp), "exp2": (F, np.exp2), "expm1": (F, np.expm1),
    "log": (POSITIVE, np.log), "log1p": (POSITIVE, np.log1p), "sqrt": (POSITIVE, np.sqrt),
    "rsqrt": (POSITIVE, lambda x: 1 / np.sqrt(x)), "cbrt": (F, np.cbrt), "sin": (F, np.sin), "cos": (F, np.cos),
    "tan": (F, np.tan), "asin": (UNIT, np.arcsin), "acos": (UNIT, np.arccos), "atan": (F, np.arctan),
    "sinh": (F, np.sinh), "cosh": (F, np.cosh), "tanh": (F, np.tanh), "asinh": (F, np.arcsinh),
    "acosh": (POSITIVE + 1, np.arccosh), "atanh": (UNIT, np.arctanh), "floor": (F, np.floor), "ceil": (F, np.ceil),
    "is_finite": (F, np.isfinite), "bitwise_not": (I, np.invert),
    "logistic": (F, lambda x: (1 / (1 + np.exp(-x.astype(np.float64)))).astype(np.float32)),
    "erf": (F, lambda x: np.vectorize(math.erf)(x).astype(np.float32)),
    "erfc": (F, lambda x: np.vectorize(math.erfc)(x).astype(np.float32)),
    "lgamma": (POSITIVE, lambda x: np.vectorize(math.lgamma)(x).astype(np.float32)),
    "population_count": (U, lambda x: np.vectorize(lambda n: bin(n).count("1"))(x).astype(np.uint8)),
    "clz": (U, lambda x: np.vectorize(lambda n: 8 - int(n).bit_length())(x).astype(np.uint8)),
    "real": (C, np.real), "imag": (C, np.imag), "conj": (C, np.conj),
    "round": (F, lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x)),
}


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    x, formula = UNARY[name]
    both_ways(getattr(lax, name), [x], formula(x))


BINARY = {
    "add": (F, G, np.add), "sub": (F, G, np.subtract), "mul": (F, G, np.multiply), "div": (F, G, np.divide),
    "rem": (F, G, np.fmod), "max": (F, G, np.maximum), "min": (F, G, np.minimum), "pow": (POSITIVE, G, np.power),
    "atan2": (F, G, np.arctan2), "nextafter": (F, G, np.nextafter), "bitwise_and": (I, J, np.bitwise_and),
    "bitwise_or": (I, J, np.bitwise_or), "bitwise_xor": (B, ~B, np.logical_xor), "shift_left": (I, J, np.left_shift),
    "shift_right_arithmetic": (I, J, np.right_shift), "eq": (I, J, np.equal), "ne": (I, J, np.not_equal),
    "lt": (F, G, np.less), "le": (F, G, np.less_equal), "gt": (F, G, np.greater), "ge": (F, G, np.greater_equal),
    "shift_right_logical": (I, J, lambda x, y: (x.view(np.uint32) >> y.astype(np.uint32)).view(np.int32)),
    "complex": (F, G, lambda x, y: (x + 1j * y).astype(np.complex64)),
    "mulhi": (I * 10**7, J * 10**7, lambda x, y: ((x.astype(np.int64) * y) >> 32).astype(np.int32)),
}


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    x, y, formula = BINARY[name]
    both_ways(getattr(lax, name), [x, y], formula(x, y))


def test_integers_are_divided_towards_zero():
    x = np.array([-7, 7, -7, 7, 6], np.int32)
    y = np.array([2, -2, -2, 2, 3], np.int32)
    both_ways(lax.div, [x, y], np.array([-3, -3, 3, 3, 2], np.int32))
    both_ways(lax.rem, [x, y], np.array([-1, 1, -1, 1, 0], np.int32))
    assert lax.div(-7, 2) == -3


def test_powers():
    both_ways(lambda x: lax.integer_pow(x, 3), [F], F**3)
    both_ways(lambda x: lax.integer_pow(x, -2), [POSITIVE], POSITIVE**-2)
    both_ways(lambda x: lax.integer_pow(x, 3), [I], I**3)
    both_ways(lax.pow, [POSITIVE, J], POSITIVE ** J.astype(np.float32))
    same(lax.pow(jnp.asarray(F), 2), F**2)
    with pytest.raises(TypeError, match="Integers cannot be raised to negative powers"):
        lax.integer_pow(I, -1)
    with pytest.raises(TypeError, match="pow does not accept dtype int32 at position 0"):
        lax.pow(I, 2)


def test_rounding():
    x = np.array([0.5, 1.5, 2.5, -0.5, 0.49999997, -2.4, np.inf], np.float32)
    same(lax.round(x), np.array([1, 2, 3, -1, 0, -2, np.inf], np.float32))
    even = lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)
    same(even, np.array([0, 2, 2, -0.0, 0, -2, np.inf], np.float32))


def test_unsigned_arithmetic_shift():
    both_ways(lax.shift_right_arithmetic, [U, np.ones_like(U)], (U.view(np.int8) >> 1).view(np.uint8))


def test_scalars_and_extents_of_one_broadcast():
    same(lax.add(jnp.asarray(F), 1.0), F + 1)
    same(lax.add(jnp.asarray(F), np.float32(1)), F + 1)
    same(lax.add(jnp.asarray(F), np.float64(1)), F + 1)
    same(lax.mul(jnp.asarray(F), jnp.asarray(G[:1])), F * G[:1])
    assert lax.add(1, 2).weak_type and lax.add(1, 2).dtype == np.int32
    assert not lax.add(jnp.asarray(F), 1.0).weak_type


def test_dtypes_are_not_promoted():
    for x, y in ((F, I), (I, 1.5), (1, 1.0), (F, 2)):
        with pytest.raises(TypeError, match=r"lax.add requires arguments to have the same dtypes, got .*jnp.add"):
            lax.add(x, y)
    with pytest.raises(TypeError, match="lax.select requires arguments to have the same dtypes"):
        lax.select(B, F, I)
    with pytest.raises(TypeError, match="lax.concatenate requires .* the same dtypes, got float32, int32"):
        lax.concatenate([F, I], 0)
    with pytest.raises(TypeError, match="lax.clamp requires"):
        lax.clamp(0, F, 1)
    with pytest.raises(TypeError, match="lax.pad requires"):
        lax.pad(F, 0, [(1, 1, 0), (0, 0, 0)])
    with pytest.raises(TypeError, match="lax.dynamic_update_slice requires"):
        lax.dynamic_update_slice(F, I[:1, :1], (0, 0))


@pytest.mark.parametrize(
    "f, text",
    [
        (lambda: lax.exp(I), "exp does not accept dtype int32. Accepted dtypes are subtypes of floating, complex"),
        (lambda: lax.neg(B), "neg does not accept dtype bool"),
        (lambda: lax.add(B, B), "add does not accept dtype bool at position 0"),
        (lambda: lax.bitwise_and(F, F), "bitwise_and does not accept dtype float32 at position 0"),
        (lambda: lax.real(F), "real does not accept dtype float32"),
        (lambda: lax.lt(C, C), "lt does not accept dtype complex64"),
        (lambda: lax.floor(I), "floor does not accept dtype int32"),
        (lambda: lax.cumsum(B), "cumsum does not accept dtype bool"),
        (lambda: lax.reduce_sum(B, (0,)), "reduce_sum does not accept dtype bool"),
        (lambda: lax.add(F, [1, 2]), "add requires ndarray or scalar arguments, got <class 'list'>"),
        (lambda: lax.exp(None), "exp requires ndarray or scalar arguments, got <class 'NoneType'>"),
        (lambda: lax.add(F, F[0]), "add: arrays must have the same number of dimensions"),
        (lambda: lax.add(F[0], F[0, :5]), r"add got incompatible shapes for broadcasting: \(6,\), \(5,\)"),
        (lambda: lax.add(F), "incompatible function arguments"),
    ],
)
def test_operands_that_are_refused(f, text):
    with pytest.raises(TypeError, match=text):
        f()


def test_choices():
    both_ways(lax.select, [B, F, G], np.where(B, F, G))
    both_ways(lax.select_n, [B, F, G], np.where(B, G, F))
    which = J % 3
    both_ways(lax.select_n, [which, F, G, F + G], np.choose(which, [F, G, F + G]))
    same(lax.select(True, jnp.asarray(F), jnp.asarray(G)), F)
    both_ways(lambda x: lax.clamp(-0.5, x, 0.5), [F], np.clip(F, -0.5, 0.5))
    with pytest.raises(TypeError, match="select cases must have the same shapes"):
        lax.select(B, F, 1.0)
    with pytest.raises(TypeError, match="must be boolean or integer type, got float32"):
        lax.select_n(F, F, F)
    with pytest.raises(TypeError, match="clamp requires min.shape == operand.shape"):
        lax.clamp(F[0], F, 1.0)


def test_conversions():
    assert lax.dtype(F) == np.float32 and lax.dtype(1) == np.int32 and lax.dtype(True) == bool
    both_ways(lambda x: lax.convert_element_type(x, "int32"), [F], F.astype(np.int32))
    same(lax.convert_element_type(1.5, int), np.int32(1))
    both_ways(lambda x: lax.bitcast_convert_type(x, np.int32), [F], F.view(np.int32))
    both_ways(lambda x: lax.bitcast_convert_type(x, np.int8), [F], F[..., None].view(np.int8))
    with pytest.raises(TypeError, match="bool and complex numbers"):
        lax.bitcast_convert_type(B, np.int8)
    with pytest.raises(ValueError, match="dtype must be specified"):
        lax.convert_element_type(F, None)
    half = np.array([1e10, -1e10, 1e-10, np.nan, np.inf, 1.0001, 0.1, -0.0], np.float32)
    with np.errstate(over="ignore"):
        same(lax.reduce_precision(half, 5, 10), half.astype(np.float16).astype(np.float32))
    rounded = np.array(jnp.asarray(half).astype("bfloat16").astype("float32"))
    both_ways(lambda x: lax.reduce_precision(x, exponent_bits=8, mantissa_bits=7), [half], rounded)
    # Of tangents and cotangents it is the same.
    fine = np.float32([1.1, 2.2])
    coarse = fine.astype(np.float16).astype(np.float32)

    def half_of(x):
        return lax.reduce_precision(x, 5, 10)

    both_ways(lambda x, t: jax.jvp(half_of, (x,), (t,))[1], [F[0, :2], fine], coarse)
    both_ways(lambda x, t: jax.vjp(half_of, x)[1](t)[0], [F[0, :2], fine], coarse)
    both_ways(lambda x, t: jax.vmap(jax.grad(lambda v, t: half_of(v) * t))(x, t), [F[0, :2], fine], coarse)


def test_creation():
    same(lax.full((2, 3), 3), np.full((2, 3), 3, np.int32))
    assert lax.full((2,), 3.0).weak_type and not lax.full((2,), 3.0, np.float32).weak_type
    same(lax.full_like(F, 2), np.full_like(F, 2))
    same(lax.full_like(F, 2, dtype=np.int32, shape=(2,)), np.full(2, 2, np.int32))
    same(lax.full_like(jax.ShapeDtypeStruct((3,), np.int32), 1), np.ones(3, np.int32))
    same(lax.iota(np.int32, 4), np.arange(4, dtype=np.int32))
    same(lax.iota(float, 4), np.arange(4, dtype=np.float32))
    same(lax.broadcasted_iota(np.int32, (2, 3), 1), np.tile(np.arange(3, dtype=np.int32), (2, 1)))
    mesh = jax.make_mesh((8,), ("x",), axis_types=(AxisType.Explicit,))
    with jax.set_mesh(mesh):
        rows = lax.broadcasted_iota(np.int32, (8, 2), 0, out_sharding=P("x"))
        assert rows.sharding.spec == P("x", None) or rows.sharding.spec == P("x")
        same(rows, np.tile(np.arange(8, dtype=np.int32)[:, None], (1, 2)))
        assert lax.broadcast(F[0], (8,), out_sharding=P("x", None)).sharding.shard_shape((8, 6)) == (1, 6)
    with pytest.raises(TypeError, match="full must be called with scalar fill_value"):
        lax.full_like(F, F)
    with pytest.raises(ValueError, match="iota dimension must be between 0 and len"):
        lax.broadcasted_iota(np.int32, (2, 3), 2)


def test_shapes():
    both_ways(lambda x: lax.broadcast(x, (2, 3)), [F], np.tile(F, (2, 3, 1, 1)))
    both_ways(lambda x: lax.broadcast_in_dim(x, (4, 2, 6), (0, 2)), [F], np.tile(F[:, None], (1, 2, 1)))
    both_ways(lambda x: lax.broadcast_to_rank(x, 4), [F], F[None, None])
    both_ways(lax.broadcast_like, [F[:1], G], np.tile(F[:1], (4, 1)))
    assert lax.broadcast_shapes((1, 3), (2, 1)) == (2, 3)
    both_ways(lambda x: lax.reshape(x, (8, 3)), [F], F.reshape(8, 3))
    both_ways(lambda x: lax.reshape(x, (8, 3), dimensions=(1, 0)), [F], F.T.reshape(8, 3))
    both_ways(lambda x: lax.transpose(x, (2, 0, 1)), [CUBE], CUBE.transpose(2, 0, 1))
    both_ways(lambda x: lax.squeeze(x, (0,)), [F[:1]], F[0])
    both_ways(lambda x: lax.expand_dims(x, (0, -1)), [F], F[None, :, :, None])
    both_ways(lambda x: lax.collapse(x, 0, 2), [CUBE], CUBE.reshape(8, 6))
    both_ways(lambda x: lax.collapse(x, 1), [CUBE], CUBE.reshape(2, 24))
    both_ways(lambda x, y: lax.concatenate([x, y], 1), [F, G], np.concatenate([F, G], 1))
    both_ways(lambda x, y: lax.stack([x, y], 1), [F, G], np.stack([F, G], 1))
    both_ways(lambda x: lax.tile(x, (2, 1)), [F], np.tile(F, (2, 1)))
    both_ways(lambda x: lax.rev(x, (0, 1)), [F], F[::-1, ::-1])
    padded = np.full((7, 7), 5, np.float32)
    padded[0:7:2, 0:5] = F[:, 1:]
    padded[:, 5:] = 5
    both_ways(lambda x: lax.pad(x, 5.0, [(0, 0, 1), (-1, 2, 0)]), [F], padded)
    parts = lax.split(jnp.asarray(F), (1, 2, 3), axis=1)
    assert type(parts) is list
    for part, expected in zip(parts, np.split(F, [1, 3], axis=1)):
        same(part, expected)
    rows = lax.unstack(jnp.asarray(F))
    assert type(rows) is tuple and len(rows) == 4
    same(rows[1], F[1])


@pytest.mark.parametrize(
    "f, error, text",
    [
        (lambda: lax.reshape(F, (5, 5)), TypeError, "reshape"),
        (lambda: lax.reshape(F, (-1,)), TypeError, "reshape"),
        (lambda: lax.transpose(F, (1, 1)), TypeError, "transpose"),
        (lambda: lax.squeeze(F, (0,)), ValueError, "squeeze"),
        (lambda: lax.expand_dims(F, 0), TypeError, "must be a sequence of integers"),
        (lambda: lax.broadcast_in_dim(F, (6, 4), (0, 1)), TypeError, "broadcast_in_dim"),
        (lambda: lax.broadcast_shapes((3,), (2,)), ValueError, "broadcast_shapes"),
        (lambda: lax.concatenate([], 0), ValueError, "requires a non-empty sequence"),
        (lambda: lax.concatenate([F, F], 2), TypeError, "dimension out of bounds"),
        (lambda: lax.concatenate([F, F[:, :2]], 0), TypeError, "concatenate"),
        (lambda: lax.pad(F, 0.0, [(1, 1)]), ValueError, "low, high, interior"),
        (lambda: lax.pad(F, 0.0, [(0, 0, -1), (0, 0, 0)]), ValueError, "pad"),
        (lambda: lax.split(F, (1, 1)), ValueError, "Sum of sizes 2 must be equal to dimension 0"),
        (lambda: lax.tile(F, (2,)), TypeError, "reps length must be equal to the ndim"),
        (lambda: lax.rev(F, (0, 0)), TypeError, "rev"),
        (lambda: lax.slice(F, (2, 0), (1, 6)), TypeError, "slice"),
        (lambda: lax.index_in_dim(F, 6, 1), IndexError, "index 6 is out of bounds for axis 1 with size 6"),
        (lambda: lax.dynamic_slice(F, (0, 0), (1, 9)), TypeError, "dynamic_slice"),
        (lambda: lax.dynamic_slice(F, (0, 1.5), (1, 2)), TypeError, "must be integers"),
        (lambda: lax.dynamic_update_slice(F, F[0], (0, 0)), TypeError, "dynamic_update_slice"),
    ],
)
def test_shapes_that_do_not_fit(f, error, text):
    with pytest.raises(error, match=text):
        f()


def test_slices():
    both_ways(lambda x: lax.slice(x, (1, 0), (4, 6), (2, 3)), [F], F[1:4:2, 0:6:3])
    both_ways(lambda x: lax.slice_in_dim(x, 1, None, 2, axis=1), [F], F[:, 1::2])
    both_ways(lambda x: lax.slice_in_dim(x, -2, None), [F], F[-2:])
    both_ways(lambda x: lax.index_in_dim(x, -1, 1), [F], F[:, -1:])
    both_ways(lambda x: lax.index_in_dim(x, 1, keepdims=False), [F], F[1])
    at = np.int32(3)
    both_ways(lambda x, i: lax.dynamic_slice(x, (i, i), (2, 2)), [F, at], F[2:4, 3:5])
    both_ways(lambda x, i: lax.dynamic_slice_in_dim(x, i, 2, axis=1), [F, at], F[:, 3:5])
    both_ways(lambda x, i: lax.dynamic_index_in_dim(x, i, 1, keepdims=False), [F, at], F[:, 3])
    updated = F.copy()
    updated[1:3, 3:5] = G[:2, :2]
    both_ways(lambda x, y: lax.dynamic_update_slice(x, y, (1, 3)), [F, G[:2, :2]], updated)
    both_ways(lambda x, y: lax.dynamic_update_slice(x, y, jnp.array([1, 3])), [F, G[:2, :2]], updated)
    updated = F.copy()
    updated[:, 2] = G[:, 0]
    both_ways(lambda x, y, i: lax.dynamic_update_index_in_dim(x, y, i, 1), [F, G[:, 0], np.int32(2)], updated)
    both_ways(lambda x, y, i: lax.dynamic_update_slice_in_dim(x, y, i, axis=1), [F, G[:, :1], np.int32(2)], updated)


def test_gather_and_scatter():
    vector = np.arange(10, dtype=np.float32)
    places = np.array([[1], [20]], np.int32)
    items = lax.GatherDimensionNumbers(offset_dims=(), collapsed_slice_dims=(0,), start_index_map=(0,))

    def gathered(**options):
        return lambda x, i: lax.gather(x, i, items, slice_sizes=(1,), **options)

    both_ways(gathered(), [vector, places], np.array([1, 9], np.float32))
    both_ways(gathered(mode="clip"), [vector, places], np.array([1, 9], np.float32))
    both_ways(gathered(mode=lax.GatherScatterMode.FILL_OR_DROP), [vector, places], np.array([1, np.nan], np.float32))
    both_ways(gathered(mode="fill", fill_value=5), [vector, places], np.array([1, 5], np.float32))
    rows = lax.GatherDimensionNumbers((1,), (0,), (0, 1))
    starts = np.array([[1, 2], [3, 0]], np.int32)
    both_ways(lambda x, i: lax.gather(x, i, rows, (1, 3)), [F, starts], np.stack([F[1, 2:5], F[3, 0:3]]))

    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    zeros = np.zeros(4, np.float32)
    values = np.array([3.0, 4.0], np.float32)
    twice = np.array([[1], [1]], np.int32)
    outside = np.array([[1], [7]], np.int32)
    both_ways(lambda x, i, v: lax.scatter_add(x, i, v, numbers), [zeros, twice, values], np.float32([0, 7, 0, 0]))
    both_ways(lambda x, i, v: lax.scatter_sub(x, i, v, numbers), [zeros, twice, values], np.float32([0, -7, 0, 0]))
    both_ways(lambda x, i, v: lax.scatter_mul(x + 1, i, v, numbers), [zeros, twice, values], np.float32([1, 12, 1, 1]))
    both_ways(lambda x, i, v: lax.scatter_max(x, i, v, numbers), [zeros, twice, values], np.float32([0, 4, 0, 0]))
    both_ways(lambda x, i, v: lax.scatter_min(x, i, -v, numbers), [zeros, twice, values], np.float32([0, -4, 0, 0]))
    both_ways(lambda x, i, v: lax.scatter(x, i, v, numbers), [zeros, outside, values], np.float32([0, 3, 0, 0]))
    both_ways(
        lambda x, i, v: lax.scatter(x, i, v, numbers, mode="clip", unique_indices=True),
        [zeros, outside, values], np.float32([0, 3, 0, 4]),
    )
    with pytest.raises(ValueError, match='Unknown gather mode "sideways"'):
        lax.gather(vector, places, items, (1,), mode="sideways")
    with pytest.raises(TypeError, match="dimension_numbers must be of its own class"):
        lax.gather(vector, places, ((), (0,), (0,)), (1,))
    with pytest.raises(TypeError, match="lax.scatter_add requires"):
        lax.scatter_add(zeros, twice, np.array([1, 2], np.int32), numbers)
    assert lax.GatherScatterMode.from_any("drop") is lax.GatherScatterMode.FILL_OR_DROP


def test_contractions():
    both_ways(lambda x, y: lax.dot(x, y), [F, G.T], F @ G.T)
    both_ways(lambda x, y: lax.dot(x, y, precision=lax.Precision.HIGHEST), [F, G[0]], F @ G[0])
    both_ways(lambda x, y: lax.dot(x, y, dimension_numbers=(((1,), (1,)), ((), ()))), [F, G], F @ G.T)
    batched = (((2,), (2,)), ((0,), (0,)))
    both_ways(lambda x: lax.dot_general(x, x, batched), [CUBE], np.einsum("bik,bjk->bij", CUBE, CUBE))
    both_ways(lambda x: lax.batch_matmul(x, jnp.swapaxes(x, 1, 2)), [CUBE], np.einsum("bik,bjk->bij", CUBE, CUBE))
    same(lax.dot_general(F, J, (((0, 1), (0, 1)), ((), ()))), np.float32((F * J).sum()))
    wide = U.astype(np.int32)
    both_ways(lambda x: lax.dot(x, x.T, preferred_element_type=np.int32), [U], wide @ wide.T)
    assert lax.dot(F, F.T, preferred_element_type=jnp.bfloat16).dtype == jnp.bfloat16
    bf = jnp.ones(3, jnp.bfloat16)
    assert lax.dot(bf, bf, preferred_element_type=jnp.float32).dtype == np.float32
    with pytest.raises(ValueError, match="dimension_numbers must be specified"):
        lax.dot(F, F)
    with pytest.raises(TypeError, match="dot_general"):
        lax.dot_general(F, F, (((1,), (0,)), ((), ())))
    with pytest.raises(TypeError, match="axis 5 is out of range"):
        lax.dot_general(F, F, (((5,), (0,)), ((), ())))
    with pytest.raises(ValueError, match="a pair of sequences of dimensions"):
        lax.dot_general(F, F, ((1,), (1,)))
    with pytest.raises(ValueError, match="precision must be"):
        lax.dot(F, G.T, precision="best")


def convolved(x, w, strides=(1, 1), pads=((0, 0), (0, 0))):
    """NCHW with OIHW, by its definition."""
    x = np.pad(x, ((0, 0), (0, 0), *pads))
    h = (x.shape[2] - w.shape[2]) // strides[0] + 1
    v = (x.shape[3] - w.shape[3]) // strides[1] + 1
    out = np.zeros((x.shape[0], w.shape[0], h, v), np.float32)
    for i in range(h):
        for j in range(v):
            top, left = i * strides[0], j * strides[1]
            window = x[:, :, top : top + w.shape[2], left : left + w.shape[3]]
            out[:, :, i, j] = np.einsum("nchw,ochw->no", window, w)
    return out


def test_convolutions():
    x = rng.randn(2, 3, 5, 6).astype(np.float32)
    w = rng.randn(4, 3, 2, 3).astype(np.float32)
    both_ways(lambda x, w: lax.conv(x, w, (1, 1), "VALID"), [x, w], convolved(x, w))
    same_pads = lax.padtype_to_pads((5, 6), (2, 3), (2, 1), "SAME")
    assert same_pads == [(0, 1), (1, 1)]
    both_ways(lambda x, w: lax.conv(x, w, (2, 1), "same"), [x, w], convolved(x, w, (2, 1), same_pads))
    letters = ("NHWC", "HWIO", "NHWC")
    channels_last = convolved(x, w, pads=((1, 0), (0, 2))).transpose(0, 2, 3, 1)
    for numbers in (letters, lax.conv_dimension_numbers((2, 5, 6, 3), (2, 3, 3, 4), letters)):
        both_ways(
            lambda x, w: lax.conv_general_dilated(x, w, (1, 1), ((1, 0), (0, 2)), dimension_numbers=numbers),
            [x.transpose(0, 2, 3, 1), w.transpose(2, 3, 1, 0)], channels_last,
        )
    spread = np.zeros((4, 3, 3, 5), np.float32)
    spread[:, :, ::2, ::2] = w
    both_ways(
        lambda x, w: lax.conv_with_general_padding(x, w, (1, 1), "VALID", None, (2, 2)), [x, w], convolved(x, spread)
    )
    assert repr(lax.conv_dimension_numbers((1, 3, 3, 1), (2, 2, 1, 1), letters)) == (
        "ConvDimensionNumbers(lhs_spec=(0, 3, 1, 2), rhs_spec=(3, 2, 0, 1), out_spec=(0, 3, 1, 2))"
    )
    assert lax.conv_transpose(x.transpose(0, 2, 3, 1), w.transpose(2, 3, 1, 0), (2, 2), "SAME").shape == (2, 10, 12, 4)
    with pytest.raises(ValueError, match="conv_general_dilated"):
        lax.conv_general_dilated(F, F, (1,), "SAME")
    with pytest.raises(TypeError, match="dimension_numbers must be a ConvDimensionNumbers"):
        lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers="NHWC")


def test_patches():
    x = rng.randn(2, 3, 5, 6).astype(np.float32)
    expected = np.stack(
        [x[:, c, i : i + 4, j : j + 4] for c in range(3) for i in range(2) for j in range(3)], axis=1
    )
    both_ways(lambda x: lax.conv_general_dilated_patches(x, (2, 3), (1, 1), "VALID"), [x], expected)
    letters = ("NHWC", "HWIO", "NHWC")
    both_ways(
        lambda x: lax.conv_general_dilated_patches(x, (2, 3), (1, 1), "VALID", dimension_numbers=letters),
        [x.transpose(0, 2, 3, 1)], expected.transpose(0, 2, 3, 1),
    )
    with pytest.raises(TypeError, match="filter_shape"):
        lax.conv_general_dilated_patches(x, (2,), (1,), "VALID")


def test_ragged_dot():
    matrices = rng.randn(3, 6, 2).astype(np.float32)
    for sizes in ([1, 2, 1], [0, 4, 0], [2, 0, 1]):
        expected = np.zeros((4, 2), np.float32)
        for row, group in enumerate(np.repeat(np.arange(3), sizes)):
            expected[row] = F[row] @ matrices[group]
        both_ways(lax.ragged_dot, [F, matrices, np.array(sizes, np.int32)], expected)
    with pytest.raises(TypeError, match=r"must have shapes \(m, k\), \(g, k, n\) and \(g,\)"):
        lax.ragged_dot(F, matrices, np.array([4], np.int32))
    with pytest.raises(TypeError, match="ragged_dot does not accept dtype float32"):
        lax.ragged_dot(F, matrices, np.ones(3, np.float32))


def test_reductions():
    both_ways(lambda x: lax.reduce_sum(x, (0,)), [F], F.sum(0))
    both_ways(lambda x: lax.reduce_prod(x, (0, 1)), [F], F.prod())
    both_ways(lambda x: lax.reduce_max(x, axes=(1,)), [F], F.max(1))
    both_ways(lambda x: lax.reduce_min(x, (0, 2)), [CUBE], CUBE.min((0, 2)))
    both_ways(lambda x: lax.reduce_sum(x, (0,)), [U], U.sum(0, dtype=np.uint8))
    both_ways(lambda x: lax.reduce_and(x, (0,)), [B], B.all(0))
    both_ways(lambda x: lax.reduce_or(x, (1,)), [B], B.any(1))
    both_ways(lambda x: lax.reduce_xor(x, (0, 1)), [B], np.logical_xor.reduce(B, axis=None))
    for name, function in (("and", np.bitwise_and), ("or", np.bitwise_or), ("xor", np.bitwise_xor)):
        for axis in (0, 1):
            both_ways(lambda x: getattr(lax, "reduce_" + name)(x, (axis,)), [I], function.reduce(I, axis=axis))
    same(lax.reduce_max(np.ones((0, 2), np.float32), (0,)), np.float32([-np.inf, -np.inf]))
    same(lax.reduce_min(np.ones((0, 2), np.uint8), (0,)), np.uint8([255, 255]))
    with pytest.raises(ValueError, match="contains out-of-bounds indices"):
        lax.reduce_sum(F, (2,))
    with pytest.raises(ValueError, match="duplicate value in axes"):
        lax.reduce_sum(F, (0, 0))
    with pytest.raises(TypeError, match="axes must be a sequence of integers"):
        lax.reduce_sum(F, 0)


def first_of_greatest(x, y):
    """Of pairs of a value and its position."""
    first = lax.ge(x[0], y[0])
    return lax.select(first, x[0], y[0]), lax.select(first, x[1], y[1])


def test_reduce_by_functions():
    for function in (lax.add, jnp.add, lambda x, y: x + y):
        both_ways(lambda x: lax.reduce(x, 1.0, function, (0,)), [F], F.sum(0) + 1)
    both_ways(lambda x: lax.reduce(x, -np.inf, lax.max, (1,)), [F], F.max(1))
    both_ways(lambda x: lax.reduce(x, -np.inf, lambda x, y: jnp.maximum(x, y), (0, 2)), [CUBE], CUBE.max((0, 2)))
    both_ways(lambda x: lax.reduce(x, 0, lax.bitwise_xor, (1,)), [I], np.bitwise_xor.reduce(I, axis=1))

    for x in (F, F[:3], F[:1]):  # Any number of rows.
        places = np.tile(np.arange(len(x), dtype=np.int32)[:, None], (1, 6))
        best, place = jax.jit(lambda x, p: lax.reduce((x, p), (-np.inf, 0), first_of_greatest, (0,)))(x, places)
        same(best, x.max(0))
        same(place, x.argmax(0).astype(np.int32))
    same(lax.reduce(np.ones((0, 2), np.float32), 3.0, lambda x, y: x * y, (0,)), np.float32([3, 3]))
    larger = lambda x, y: lax.cond(abs(x) > abs(y), lambda: x, lambda: y)
    both_ways(lambda x: lax.reduce(x, 0.0, larger, (0,)), [F - 9], (F - 9)[np.abs(F - 9).argmax(0), np.arange(6)])
    with pytest.raises(NotImplementedError, match="computation has multiply, but is done to many elements at once"):
        lax.reduce(F, 0.0, lambda x, y: (F * x).sum() + y, (0,))
    with pytest.raises(TypeError, match="reduce: computation must be a function, got <class 'int'>"):
        lax.reduce(F, 0.0, 3, (0,))
    with pytest.raises(TypeError, match="it must keep the type of its arguments"):
        lax.reduce(F, 0.0, lambda x, y: x < y, (0,))
    with pytest.raises(ValueError, match="same tree structure as init_values"):
        lax.reduce((F, F), 0.0, lax.add, (0,))
    with pytest.raises(TypeError, match="initial values must be scalars"):
        lax.reduce(F, F, lax.add, (0,))


def test_reduce_by_functions_over_devices():
    mesh = jax.make_mesh((8,), ("x",))
    x = np.random.default_rng(0).permutation(16 * 24).reshape(16, 24).astype(np.float32)
    places = np.arange(x.size, dtype=np.int32).reshape(x.shape)
    for spec in (jax.P("x"), jax.P(None, "x")):
        split = [jax.device_put(a, jax.sharding.NamedSharding(mesh, spec)) for a in (x, places)]
        for axis in (0, 1):
            best = jax.jit(lambda x, p: lax.reduce((x, p), (-np.inf, 0), first_of_greatest, (axis,)))
            same(best(*split)[0], x.max(axis))
            same(best(*split)[1], np.take_along_axis(places, np.expand_dims(x.argmax(axis), axis), axis).squeeze(axis))
        larger = lambda x, y: jnp.maximum(abs(x), abs(y))
        windows = jax.jit(lambda x: lax.reduce_window(x, 0.0, larger, (3, 3), (1, 1), "SAME"))
        same(windows(split[0]), lax.reduce_window(x, -np.inf, lax.max, (3, 3), (1, 1), "SAME"))
    mapped = jax.shard_map(lambda x: lax.reduce(x, 0.0, larger, (1,)), mesh=mesh, in_specs=jax.P("x"),
                           out_specs=jax.P("x"))
    same(mapped(x), x.max(1))


def test_windows():
    x = np.arange(5, dtype=np.float32)
    both_ways(lambda x: lax.reduce_window(x, 0.0, lax.add, (2,), (2,), "VALID"), [x], np.float32([1, 5]))
    both_ways(lambda x: lax.reduce_window(x, -np.inf, lax.max, (2,), padding="SAME"), [x], np.float32([1, 2, 3, 4, 4]))
    both_ways(lambda x: lax.reduce_window(x, 1.0, jnp.multiply, (2,)), [x], np.float32([0, 2, 6, 12]))
    pairs = lax.reduce_window(jnp.asarray(F), 0.0, lax.add, (2, 1), (1, 1), ((1, 0), (0, 0)))
    same(pairs, F + np.vstack([np.zeros((1, 6), np.float32), F[:-1]]))
    for window, options in (((2, 3), {}), ((3, 2), {"padding": "SAME"}), ((2, 2), {"window_dilation": (2, 1)}),
                            ((2, 2), {"padding": ((0, 1), (1, 0)), "window_strides": (1, 2)}),
                            ((2, 2), {"base_dilation": (1, 2)}), ((5, 2), {})):
        expected = lax.reduce_window(F, -np.inf, lax.max, window, **options)
        greater = lambda x, y: jnp.maximum(x, y)
        both_ways(lambda x: lax.reduce_window(x, -np.inf, greater, window, **options), [F], expected)
    with pytest.raises(TypeError, match="must have an entry for each dimension"):
        lax.reduce_window(F, 0.0, lambda x, y: x + y, (2,))
    best, place = lax.reduce_window((x, np.arange(5)), (-np.inf, -1), first_of_greatest, (2,))
    same(best, x[1:])
    same(place, np.arange(1, 5, dtype=np.int32))
    same(lax.reduce_window(x, 0, lax.add, (2,)), x[1:] + x[:-1])
    with pytest.raises(TypeError, match="initial values must have the dtypes of the operands"):
        lax.reduce_window(I[0], 0.5, lax.add, (2,))


def test_positions_and_cumulative_reductions():
    both_ways(lambda x: lax.argmax(x, 1, np.int32), [F], F.argmax(1).astype(np.int32))
    both_ways(lambda x: lax.argmin(x, axis=0, index_dtype=np.uint8), [F], F.argmin(0).astype(np.uint8))
    both_ways(lambda x: lax.cumsum(x, 1), [F], F.cumsum(1))
    both_ways(lambda x: lax.cumsum(x, 1, reverse=True), [F], F[:, ::-1].cumsum(1)[:, ::-1])
    both_ways(lax.cumprod, [F], F.cumprod(0))
    both_ways(lax.cummax, [F], np.maximum.accumulate(F))
    both_ways(lambda x: lax.cummin(x, axis=1), [F], np.minimum.accumulate(F, 1))
    both_ways(lax.cumlogsumexp, [F], np.logaddexp.accumulate(F))
    for f in (lax.cumsum, lambda x, axis: lax.argmax(x, axis, np.int32)):
        for axis in (-1, 2):
            with pytest.raises(ValueError, match="out of bounds"):
                f(F, axis)
    with pytest.raises(TypeError, match="index_dtype must be an integer type, but got float32"):
        lax.argmax(F, 0, np.float32)


def test_order():
    both_ways(lax.sort, [F], np.sort(F, 1))
    both_ways(lambda x: lax.sort(x, dimension=0), [F], np.sort(F, 0))
    keys = np.array([3, 1, 3, 2], np.int32)
    values = np.array([1, 2, 0, 3], np.int32)
    sorted_keys, sorted_values = jax.jit(lambda k, v: lax.sort((k, v)))(keys, values)
    same(sorted_keys, np.sort(keys))
    same(sorted_values, values[np.argsort(keys, kind="stable")])
    same(lax.sort((keys, values), num_keys=2)[1], values[np.lexsort((values, keys))])
    same(lax.sort_key_val(keys, values)[1], values[np.argsort(keys, kind="stable")])
    values, places = lax.top_k(F, 2)
    same(values, -np.sort(-F, 1)[:, :2])
    same(places, np.argsort(-F, 1)[:, :2].astype(np.int32))
    same(lax.top_k(F, 1, axis=0)[0], F.max(0, keepdims=True))
    same(lax.approx_max_k(F, 2)[0], -np.sort(-F, 1)[:, :2])
    same(lax.approx_min_k(F, 2)[0], np.sort(F, 1)[:, :2])
    for f, error, text in (
        (lambda: lax.sort(()), TypeError, "at least one operand"),
        (lambda: lax.sort((F, F[0])), TypeError, "must have equal shapes"),
        (lambda: lax.sort((F, F), num_keys=3), ValueError, "num_keys"),
        (lambda: lax.top_k(F, 9), ValueError, "top_k"),
        (lambda: lax.top_k(F, -1), ValueError, "nonnegative"),
    ):
        with pytest.raises(error, match=text):
            f()


def test_linalg():
    square = (F @ F.T + np.eye(4, dtype=np.float32)).astype(np.float32)
    lower = np.linalg.cholesky(square)
    both_ways(lax.linalg.cholesky, [square], lower)
    vectors, values = jax.jit(lax.linalg.eigh)(square)
    same(values, np.linalg.eigvalsh(square))
    np.testing.assert_allclose(np.asarray(vectors * values) @ np.asarray(vectors).T, square, atol=1e-4)
    q, r = lax.linalg.qr(F, full_matrices=False)
    np.testing.assert_allclose(np.asarray(q) @ np.asarray(r), F, atol=1e-5)
    packed, pivots, permutation = lax.linalg.lu(square)
    factors = np.tril(packed, -1) + np.eye(4, dtype=np.float32), np.triu(packed)
    np.testing.assert_allclose(factors[0] @ factors[1], square[np.asarray(permutation)], atol=1e-4)
    assert pivots.dtype == np.int32
    same(lax.linalg.svd(F, compute_uv=False), np.linalg.svd(F, compute_uv=False))
    u, s, vh = lax.linalg.svd(F, full_matrices=False)
    np.testing.assert_allclose(np.asarray(u * s) @ np.asarray(vh), F, atol=1e-5)
    solved = lax.linalg.triangular_solve(lower, F, left_side=True, lower=True)
    np.testing.assert_allclose(lower @ np.asarray(solved), F, atol=1e-4)
    both_ways(
        lambda a, c: lax.linalg.symmetric_product(a, c, alpha=2.0, beta=3.0), [F, square], 2 * F @ F.T + 3 * square
    )
    with pytest.raises(TypeError, match="cholesky does not accept dtype int32"):
        lax.linalg.cholesky(I)
    with pytest.raises(ValueError, match="cholesky"):
        lax.linalg.cholesky(F)
    with pytest.raises(TypeError, match="triangular_solve requires"):
        lax.linalg.triangular_solve(square, C[:, :4])
    with pytest.raises(NotImplementedError, match="pivoting"):
        lax.linalg.qr(F, pivoting=True)


def test_identities():
    tree = {"a": F, "b": (1, None)}
    same(lax.stop_gradient(tree)["a"], F)
    assert lax.stop_gradient(tree)["b"] == (1, None)
    assert lax.platform_dependent(3, cpu=lambda x: x + 1, tpu=lambda x: x) == 4
    result = lax.optimization_barrier(tree)
    same(result["a"], F)
    assert result["b"][1] is None and int(result["b"][0]) == 1


def test_what_lies_behind_a_barrier_is_computed_again():
    same_twice = jax.jit(lambda x: (jnp.sin(x), jnp.sin(x)))
    apart = jax.jit(lambda x: (jnp.sin(x), jnp.sin(lax.optimization_barrier(x))))
    for f, sines in ((same_twice, 1), (apart, 2)):
        assert f.lower(1.0).compile().as_text().count("sin(") == sines
    values = apart(1.0)
    assert values[0] == values[1] == jnp.sin(1.0)


def test_names_of_precision():
    assert lax.Precision("highest") is lax.Precision.HIGHEST and lax.Precision(None) is lax.Precision.DEFAULT
    assert repr(lax.Precision.HIGH) == "Precision.HIGH" and str(lax.Precision.HIGH) == "HIGH"
    with pytest.raises(ValueError):
        lax.Precision("best")


def test_names_that_are_not_there_yet():
    with pytest.raises(AttributeError, match="'composite': this transformation is not there yet"):
        lax.composite
    with pytest.raises(AttributeError, match="module 'shoal.lax' has no attribute 'sacn'$"):
        lax.sacn


def test_the_line_of_the_user_is_told():
    with pytest.raises(TypeError, match=r"at test_lax.py:\d+"):
        lax.add(F, I)


def test_64_bits():
    with jax.enable_x64(True):
        x = jnp.asarray(F.astype(np.float64))
        assert lax.add(x, 1.0).dtype == np.float64
        assert lax.iota(int, 3).dtype == np.int64
        assert lax.full((2,), 1).dtype == np.int64
        same(lax.reduce_precision(x, 8, 23), F.astype(np.float64))
        assert lax.psum(3, ()) == 3
