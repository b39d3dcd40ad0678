"""shoal.numpy against NumPy: values, shapes and dtypes, eager and under jit; and what misuse says."""

import math

import numpy as np
import pytest

import shoal as jax
import shoal.numpy as jnp

R = np.random.RandomState(0)
F = R.randn(4, 6).astype(np.float32)
G = R.randn(4, 6).astype(np.float32)
P = (np.abs(F) + 0.1).astype(np.float32)
U = R.uniform(-0.9, 0.9, (4, 6)).astype(np.float32)
I = R.randint(-5, 6, (4, 6)).astype(np.int32)
J = R.randint(1, 5, (4, 6)).astype(np.int32)
B = F > 0
C = (F + 1j * G).astype(np.complex64)
V = R.randn(7).astype(np.float32)
W = R.randn(5).astype(np.float32)
S = np.sort(V)
T = R.randn(2, 3, 4).astype(np.float32)
K = R.randint(0, 4, (9,)).astype(np.int32)
N = F.copy()
N[0, 0] = N[2, 3] = np.nan
X = F.copy()
X[1, 1], X[2, 2], X[3, 3] = np.inf, -np.inf, np.nan
M = R.randn(4, 4).astype(np.float32)

# Those that map number to number; of floats and, where NumPy has them, of integers.
UNARY = [
    (F, "negative abs absolute fabs sign square reciprocal exp exp2 expm1 sin cos tan sinh cosh tanh arcsinh asinh "
     "arctan atan sinc floor ceil trunc fix rint cbrt isnan isfinite isinf isposinf isneginf signbit deg2rad rad2deg "
     "degrees radians isreal iscomplex logical_not positive conj conjugate real imag angle nan_to_num spacing"),
    (P, "log log2 log10 log1p sqrt"),
    (U, "arcsin asin arccos acos arctanh atanh"),
    (P + 1, "arccosh acosh"),
    (C, "exp sin cos sqrt abs conj real imag angle square sign isreal iscomplex log"),
    (np.abs(I), "negative abs sign square exp sin floor ceil isfinite isnan bitwise_not invert bitwise_invert "
     "logical_not sqrt bitwise_count real imag"),
    (B, "logical_not invert"),
]
BINARY = [
    (F, G, "add subtract multiply divide true_divide floor_divide remainder mod fmod arctan2 atan2 hypot logaddexp "
     "logaddexp2 copysign nextafter heaviside maximum minimum fmax fmin equal not_equal less less_equal greater "
     "greater_equal logical_and logical_or logical_xor isclose divmod"),
    (P, G, "power pow float_power"),
    (I, J, "add subtract multiply divide floor_divide remainder gcd lcm maximum minimum equal less bitwise_and "
     "bitwise_or bitwise_xor left_shift right_shift bitwise_left_shift bitwise_right_shift power divmod fmod ldexp"),
    (F, V[:6], "add multiply maximum"),
    (F, J, "add multiply ldexp divide"),
    (B, B.T.copy().reshape(4, 6), "logical_and logical_or logical_xor bitwise_and bitwise_or equal add multiply"),
    (C, C[::-1].copy(), "add subtract multiply divide equal"),
    (X, N, "maximum minimum fmax fmin equal isclose add"),
]
CASES = []


def case(name, *args, jit=True, **kwargs):
    CASES.append((name, args, kwargs, jit))


for x, names in UNARY:
    for name in names.split():
        case(name, x)
for x, y, names in BINARY:
    for name in names.split():
        case(name, x, y)

# Reductions.
for axis in (None, 0, -1, (0, 1)):
    for name in "sum prod max min mean std var any all ptp amax amin median".split():
        case(name, F, axis=axis)
    for name in "sum max mean".split():
        case(name, I, axis=axis, keepdims=True)
for name in "nansum nanprod nanmax nanmin nanmean nanstd nanvar nanmedian".split():
    case(name, N, axis=1)
    case(name, N)
for name in "argmax argmin nanargmax nanargmin".split():
    case(name, F, axis=0)
    case(name, F)
    case(name, F, axis=1, keepdims=True)
case("sum", B)
case("sum", B, axis=0)
case("sum", I.astype(np.int8))
case("sum", I.astype(np.uint8), axis=0)
case("sum", I, dtype=np.float32)
case("sum", F, where=B, initial=2.0)
case("max", F, where=B, initial=-1.0)
case("mean", F, where=B)
case("var", F, ddof=1)
case("std", F, axis=0, ddof=1, keepdims=True)
case("mean", I, dtype=np.float32, axis=0)
case("count_nonzero", I)
case("count_nonzero", I, axis=0)
case("average", F, weights=P)
case("average", F, axis=1, weights=P[0])
case("cumsum", F)
case("cumsum", F, axis=1)
case("cumsum", B, axis=0)
case("cumprod", F, axis=0)
case("nancumsum", N, axis=1)
case("nancumprod", N)
case("cumulative_sum", F, axis=1)
case("cumulative_sum", V, include_initial=True)
case("cumulative_prod", F, axis=0, include_initial=True)
case("quantile", F, 0.3)
case("quantile", F, np.array([0.1, 0.5], np.float32), axis=0)
case("quantile", F, 0.3, axis=1, method="lower")
case("percentile", F, 30.0, axis=1, keepdims=True)
case("nanquantile", N, 0.4, axis=1)
case("nanpercentile", N, 40.0)
case("trace", M)
case("trace", T, offset=1, axis1=1, axis2=2)

# Shapes.
case("reshape", F, (3, 8))
case("reshape", F, -1)
case("reshape", F, (8, 3), order="F")
case("ravel", F)
case("ravel", F, order="F")
case("transpose", T)
case("transpose", T, (1, 0, 2))
case("permute_dims", T, (2, 0, 1))
case("matrix_transpose", T)
case("swapaxes", T, 0, 2)
case("moveaxis", T, 0, -1)
case("moveaxis", T, (0, 1), (1, 2))
case("rollaxis", T, 2)
case("rollaxis", T, 0, 3)
case("expand_dims", F, 1)
case("expand_dims", F, (0, 3))
case("squeeze", F[None, :, None])
case("squeeze", F[None], 0)
case("broadcast_to", V, (3, 7))
case("atleast_1d", np.float32(3))
case("atleast_2d", V)
case("atleast_3d", V)
case("atleast_3d", F)
case("split", F, 2)
case("split", F, [1, 3], axis=1)
case("array_split", V, 3)
case("hsplit", F, 2)
case("vsplit", F, 2)
case("dsplit", T, 2)
case("hsplit", V[:6], 3)
case("unstack", F)
case("unstack", F, axis=1)
case("tile", F, 2)
case("tile", V, (2, 3))
case("repeat", F, 2)
case("repeat", F, 3, axis=1)
case("repeat", V, np.array([0, 1, 2, 0, 3, 1, 1], np.int32), jit=False)
case("roll", F, 2)
case("roll", F, (1, 2), (0, 1))
case("roll", F, -1, axis=1)
case("rot90", F)
case("rot90", F, 3)
case("rot90", F, 2)
case("flip", F)
case("flip", F, 1)
case("flipud", F)
case("fliplr", F)
case("tril", F)
case("triu", F, 1)
case("diag", M)
case("diag", V, 1)
case("diag", M, -1)
case("diagflat", F)
case("diagonal", T)
case("diagonal", T, 1, 0, 2)
case("diagonal", M, -2)
case("resize", V, (3, 4))
case("pad", F, 1)
case("pad", F, ((1, 2), (0, 3)), constant_values=7)
case("pad", F, ((1, 2), (0, 3)), constant_values=((1, 2), (3, 4)))
case("pad", V, (2, 1), mode="edge")
case("pad", F, 2, mode="reflect")
case("pad", F, ((1, 0), (2, 2)), mode="symmetric")
case("pad", V, 3, mode="wrap")
case("trim_zeros", np.array([0, 0, 1, 0, 2, 0], np.float32), jit=False)

# Products.
case("dot", F, G.T.copy())
case("dot", V, V)
case("dot", T, F[:, :5].copy())
case("matmul", F, G.T.copy())
case("matmul", T, M)
case("inner", F, G)
case("vdot", C, C[::-1].copy())
case("vecdot", C, C[::-1].copy())
case("matvec", M, W[:4].copy())
case("vecmat", W[:4].copy(), M)
case("outer", V, W)
case("tensordot", T, T, axes=([0, 1], [0, 1]))
case("tensordot", F, G.T.copy(), axes=1)
case("tensordot", F, G, axes=(0, 0))
case("kron", M[:2, :2].copy(), F[:2])
case("cross", M[:, :3].copy(), M[:, 1:].copy())
case("cross", M[:3].copy(), M[1:].copy(), axis=0)

# Order.
case("sort", F)
case("sort", F, axis=0)
case("sort", N, axis=None)
case("argsort", F)
case("argsort", V)
case("sort_complex", np.array([3 + 1j, 1 + 2j, 1 + 1j], np.complex64))
case("searchsorted", S, W)
case("searchsorted", S, F, side="right")
case("searchsorted", V, W, sorter=np.argsort(V).astype(np.int32))
case("digitize", F, np.array([-1, 0, 1], np.float32))
case("digitize", F, np.array([-1, 0, 1], np.float32), right=True)
case("unique", K, jit=False)
case("unique", K, return_index=True, return_inverse=True, return_counts=True, jit=False)
case("union1d", K, K + 2, jit=False)
case("intersect1d", K, K + 2, jit=False)
case("intersect1d", K, K + 2, return_indices=True, jit=False)
case("setdiff1d", K, K + 2, jit=False)
case("setxor1d", K, K + 2, jit=False)
case("isin", I, K)
case("isin", I, K, invert=True)

# Positions.
case("where", B, F, G)
case("where", B, jit=False)
case("where", B, F, 0.0)
case("nonzero", I, jit=False)
case("flatnonzero", I, jit=False)
case("argwhere", I, jit=False)
case("take", F, np.array([1, 0, 3]), axis=0)
case("take", F, np.array([1, 0, 13]))
case("take", F, np.array([1, 9]), axis=1, mode="clip")
case("take", F, np.array([1, 9]), axis=1, mode="wrap")
case("take_along_axis", F, np.argsort(F, 1), axis=1)
case("take_along_axis", F, np.array([3, 5, 7]), axis=None)
case("compress", np.array([True, False, True, True]), F, axis=0, jit=False)
case("extract", B, F, jit=False)
case("choose", np.array([0, 2, 1, 0]), [np.arange(4), np.arange(4) * 10, np.arange(4) * 100], jit=False)
case("choose", np.array([0, 5, -1, 0]), [np.arange(4), np.arange(4) * 10], mode="clip")
case("choose", np.array([0, 5, -1, 0]), [np.arange(4), np.arange(4) * 10], mode="wrap")
case("select", [F > 0, F > -0.5], [F, G], 9.0)
case("delete", F, 1, axis=0)
case("delete", V, [1, 3])
case("delete", F, slice(1, 3), axis=1)
case("insert", F, 1, 9.0, axis=0)
case("insert", F, 1, V[:6], axis=0)
case("insert", F, -1, V[:4], axis=1)
case("insert", V, [1, 3, 3], np.array([7, 8, 9], np.float32))
case("insert", F, [1], np.ones((4, 1), np.float32), axis=1)
case("unwrap", np.array([0, 3, 6, 1, 2, 7], np.int32), period=3)
case("unwrap", np.array([0, 3, 6, 1, 2, 7], np.int32), period=5)
case("insert", V, slice(1, 3), np.array([7, 8], np.float32))
case("packbits", I)
case("packbits", B, axis=1, bitorder="little")
case("unpackbits", np.arange(6, dtype=np.uint8).reshape(2, 3))
case("unpackbits", np.arange(6, dtype=np.uint8).reshape(2, 3), axis=0, count=12)
case("ix_", np.array([0, 2]), np.array([1, 3, 4]))
case("unravel_index", np.array([0, 5, 23]), (4, 6))
case("ravel_multi_index", (np.array([0, 1, 3]), np.array([5, 0, 2])), (4, 6), jit=False)
case("ravel_multi_index", (np.array([0, 1, 3]), np.array([5, 0, 2])), (4, 6), order="F", jit=False)
case("ravel_multi_index", (np.array([0, 9, -3]), np.array([5, 0, 2])), (4, 6), mode="clip")
case("diag_indices_from", M)
case("tril_indices_from", M)
case("triu_indices_from", M, 1)

# Statistics and the like.
case("bincount", K, jit=False)
case("bincount", K, minlength=9, jit=False)
case("histogram", V)
case("histogram", V, 4, (-1.0, 1.0))
case("histogram", V, density=True)
case("histogram_bin_edges", V, 3)
case("histogram2d", V, V[::-1].copy(), 3)
case("cov", F)
case("cov", F, rowvar=False, bias=True)
case("corrcoef", F)
case("convolve", V, W)
case("convolve", V, W, "same")
case("correlate", V, W, "full")
case("correlate", V, W)
case("diff", F)
case("diff", F, n=2, axis=0)
case("diff", V, prepend=0.0)
case("ediff1d", V)
case("gradient", F)
case("gradient", V, 2.0)
case("gradient", F, axis=1)
case("trapezoid", F)
case("trapezoid", V, dx=0.5)
case("interp", W, S, V)
case("interp", W, S, V, left=-1.0, right=1.0)
case("unwrap", np.cumsum(P, 1) * 3)
case("polyval", W, V)
case("polyadd", V, W)
case("polysub", V, W)
case("polymul", V, W)
case("polyder", V)
case("polyder", V, 2)
case("polyint", V)
case("polyint", V, 2)
case("poly", W)
case("polyfit", V, np.sin(V), 3)
case("vander", W)
case("vander", W, 3, True)
case("modf", F)
case("frexp", F)
case("clip", F, -0.5, 0.5)
case("clip", F, None, 0.5)
case("round", F)
case("round", F, 2)
case("round", F * 1000, -2)
case("array_equal", F, F)
case("array_equal", F, G)
case("array_equiv", F, F[0])
case("allclose", F, F + 1e-9)
case("nan_to_num", X)
case("nan_to_num", X, nan=1.0, posinf=2.0, neginf=3.0)

# Without arrays.
PLAIN = [
    ("arange", (5,), {}),
    ("arange", (1, 10, 2), {}),
    ("arange", (5.0,), {}),
    ("arange", (0, 1, 0.25), {}),
    ("arange", (10, 0, -3), {}),
    ("arange", (4,), dict(dtype=np.float32)),
    ("linspace", (0, 1), {}),
    ("linspace", (0, 1, 5), dict(endpoint=False)),
    ("linspace", (0, 10, 5), dict(dtype=np.int32)),
    ("linspace", (0, 1, 5), dict(retstep=True)),
    ("linspace", (np.array([0, 1.0]), np.array([2, 3.0]), 4), dict(axis=1)),
    ("logspace", (0, 2, 5), {}),
    ("logspace", (0, 2, 5), dict(base=2.0)),
    ("geomspace", (1, 256, 9), {}),
    ("geomspace", (-1, -1000, 4), {}),
    ("geomspace", (1, 100, 4), dict(endpoint=False)),
    ("eye", (3,), {}),
    ("eye", (3, 4, 1), {}),
    ("eye", (3,), dict(dtype=np.int32, k=-1)),
    ("identity", (3,), {}),
    ("tri", (3, 4, 1), {}),
    ("zeros", ((2, 3),), {}),
    ("ones", (4,), dict(dtype=np.int32)),
    ("full", ((2, 2), 7), {}),
    ("full", ((2, 2), 7.5), {}),
    ("full", ((2,), True), {}),
    ("full", ((2, 3), np.arange(3)), {}),
    ("indices", ((2, 3),), {}),
    ("indices", ((2, 3),), dict(sparse=True)),
    ("meshgrid", (V, W), {}),
    ("meshgrid", (V, W), dict(indexing="ij", sparse=True)),
    ("fromfunction", (lambda i, j: i + 2 * j, (3, 2)), {}),
    ("frombuffer", (F.tobytes(),), dict(dtype=np.float32)),
    ("fromiter", ([1, 2, 3], np.int32), {}),
    ("fromstring", ("1 2 3",), dict(dtype=np.float32, sep=" ")),
    ("diag_indices", (3,), {}),
    ("tril_indices", (4,), {}),
    ("triu_indices", (4, 1, 5), {}),
    ("mask_indices", (3, np.triu), {}),
    ("bartlett", (6,), {}),
    ("blackman", (6,), {}),
    ("hamming", (6,), {}),
    ("hanning", (6,), {}),
    ("broadcast_shapes", ((2, 1), (3,)), {}),
    ("zeros_like", (I,), {}),
    ("ones_like", (F,), dict(dtype=np.int32)),
    ("full_like", (F, 3), {}),
    ("full_like", (F, 3), dict(shape=(2,))),
    ("concatenate", ([F, G],), {}),
    ("concatenate", ([F, G],), dict(axis=1)),
    ("concatenate", ([F, I],), dict(axis=None)),
    ("concat", ([F, G],), dict(axis=1)),
    ("append", (F, G), {}),
    ("append", (F, G), dict(axis=0)),
    ("stack", ([F, G],), dict(axis=1)),
    ("vstack", ([V, V],), {}),
    ("hstack", ([F, G],), {}),
    ("dstack", ([F, G],), {}),
    ("column_stack", ([V, V],), {}),
    ("block", ([[F, G], [G, F]],), {}),
    ("block", ([V, V],), {}),
    ("broadcast_arrays", (F, V[:6]), {}),
    ("lexsort", ([V, -V],), {}),
    ("einsum", ("ij,kj->ik", F, G), {}),
    ("einsum", ("ij->", F), {}),
    ("einsum", ("...ij->...ji", T), {}),
    ("einsum", (F, [0, 1], G, [2, 1], [0, 2]), {}),
    ("einsum", (F, [0, 1], G, [2, 1]), {}),
    ("ndim", (F,), {}),
    ("shape", (F,), {}),
    ("size", (F,), {}),
    ("iscomplexobj", (C,), {}),
    ("isrealobj", (F,), {}),
    ("isscalar", (3,), {}),
]


def canonical(dtype):
    narrow = {"float64": "float32", "int64": "int32", "uint64": "uint32", "complex128": "complex64"}
    return narrow.get(dtype.name, dtype.name)


def leaves(x):
    return [leaf for item in x for leaf in leaves(item)] if isinstance(x, (tuple, list)) else [x]


def check(got, expected, dtypes=True):
    got, expected = leaves(got), leaves(expected)
    assert len(got) == len(expected)
    for g, e in zip(got, expected):
        e = np.asarray(e)
        assert np.shape(g) == e.shape
        if dtypes:
            assert np.asarray(g).dtype.name == canonical(e.dtype) or not isinstance(g, jax.Array)
        if e.dtype.kind in "fc":
            np.testing.assert_allclose(np.asarray(g), e, rtol=2e-4, atol=2e-5)
        else:
            np.testing.assert_array_equal(np.asarray(g), e)


# Where JAX gives other dtypes than NumPy: i32 where that gives floats or none.
OTHER_DTYPES = set("histogram histogram2d floor ceil bitwise_count full fromfunction ldexp spacing".split())


def converted(x):
    if isinstance(x, list) and isinstance(x[0], np.ndarray):
        return [converted(item) for item in x]
    return jnp.asarray(x) if isinstance(x, np.ndarray) else x


def names_of(cases):
    return [f"{i}-{c[0]}" for i, c in enumerate(cases)]


def expected_of(name, args, kwargs):
    with np.errstate(all="ignore"):
        return getattr(np, name)(*args, **kwargs)


@pytest.mark.parametrize("name, args, kwargs, jit", CASES, ids=names_of(CASES))
def test_against_numpy(name, args, kwargs, jit):
    expected = expected_of(name, args, kwargs)
    function = getattr(jnp, name)
    arguments = [converted(x) for x in args]
    keywords = {key: converted(x) for key, x in kwargs.items()}
    dtypes = name not in OTHER_DTYPES
    check(function(*arguments, **keywords), expected, dtypes)
    # Arrays of NumPy do as well.
    check(function(*args, **kwargs), expected, dtypes)
    if jit:
        arrays = [i for i, x in enumerate(arguments) if isinstance(x, jax.Array)]

        @jax.jit
        def traced(*given):
            full = list(arguments)
            for i, x in zip(arrays, given):
                full[i] = x
            return function(*full, **keywords)

        check(traced(*(arguments[i] for i in arrays)), expected, dtypes)


@pytest.mark.parametrize("name, args, kwargs", PLAIN, ids=names_of(PLAIN))
def test_made_like_numpy(name, args, kwargs):
    check(getattr(jnp, name)(*args, **kwargs), expected_of(name, args, kwargs), name not in OTHER_DTYPES)


LINALG = [
    ("det", (M,), {}),
    ("slogdet", (M,), {}),
    ("inv", (M,), {}),
    ("solve", (M, M[0]), {}),
    ("solve", (M, M.T), {}),
    ("cholesky", (M @ M.T + np.eye(4, dtype=np.float32),), {}),
    ("eigvalsh", (M + M.T,), {}),
    ("svdvals", (F,), {}),
    ("norm", (F,), {}),
    ("norm", (F,), dict(ord=1)),
    ("norm", (F,), dict(ord=np.inf)),
    ("norm", (F,), dict(ord="fro", keepdims=True)),
    ("norm", (F,), dict(ord="nuc")),
    ("norm", (F,), dict(axis=1)),
    ("norm", (V,), dict(ord=3)),
    ("vector_norm", (T,), {}),
    ("vector_norm", (T,), dict(axis=(0, 2))),
    ("vector_norm", (T,), dict(axis=1, keepdims=True)),
    ("matrix_norm", (T,), {}),
    ("matrix_rank", (M,), {}),
    ("matrix_power", (M, 3), {}),
    ("pinv", (F,), {}),
    ("pinv", (np.stack([M, M.T]), np.array([1e-3, 1e-4], np.float32)), {}),
    ("cond", (M,), {}),
    ("tensorinv", (R.randn(4, 6, 8, 3).astype(np.float32),), {}),
    ("tensorsolve", (R.randn(2, 3, 6).astype(np.float32), R.randn(2, 3).astype(np.float32)), {}),
    ("matmul", (M, M), {}),
    ("outer", (V, W), {}),
]


@pytest.mark.parametrize("name, args, kwargs", LINALG, ids=names_of(LINALG))
def test_linalg(name, args, kwargs):
    expected = getattr(np.linalg, name)(*args, **kwargs)
    function = getattr(jnp.linalg, name)
    for run in (function, jax.jit(lambda *a: function(*a, **kwargs))):
        given = [jnp.asarray(x) if isinstance(x, np.ndarray) else x for x in args]
        got = function(*given, **kwargs) if run is function or name == "matrix_power" else run(*given)
        for g, e in zip(leaves(got), leaves(expected)):
            np.testing.assert_allclose(np.asarray(g), e, rtol=2e-3, atol=2e-4)


def test_decompositions():
    a = jnp.asarray(F)
    u, s, vh = jnp.linalg.svd(a, full_matrices=False)
    np.testing.assert_allclose(u * s @ vh, F, atol=1e-5)
    q, r = jnp.linalg.qr(a)
    np.testing.assert_allclose(q @ r, F, atol=1e-5)
    values, vectors = jnp.linalg.eigh(jnp.asarray(M + M.T))
    np.testing.assert_allclose(vectors * values @ vectors.T, M + M.T, atol=1e-4)
    x, residuals, rank, _ = jnp.linalg.lstsq(jnp.asarray(F.T.copy()), jnp.asarray(W[:1].repeat(6)))
    assert rank == 4 and x.shape == (4,) and residuals.shape == (1,)
    assert type(jnp.linalg.svd(a)).__name__ == "SVDResult" and jnp.linalg.slogdet(jnp.asarray(M)).sign.shape == ()


def test_scipy_linalg():
    from shoal.scipy import linalg

    a = jnp.asarray(M)
    spd = a @ a.T + jnp.eye(4)
    p, l, u = linalg.lu(a)
    np.testing.assert_allclose(p @ l @ u, M, atol=1e-5)
    for trans, matrix in ((0, M), (1, M.T)):
        got = linalg.lu_solve(linalg.lu_factor(a), a[0], trans)
        np.testing.assert_allclose(got, np.linalg.solve(matrix, M[0]), rtol=1e-3, atol=1e-5)
    expected = np.linalg.solve(spd, M[0])
    np.testing.assert_allclose(linalg.cho_solve(linalg.cho_factor(spd), a[0]), expected, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(linalg.cholesky(spd).T, np.linalg.cholesky(spd), rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(linalg.solve(spd, a[0], assume_a="pos"), expected, rtol=1e-3, atol=1e-4)
    triangular = linalg.solve_triangular(jnp.tril(a), a[0], lower=True)
    np.testing.assert_allclose(triangular, np.linalg.solve(np.tril(M), M[0]), rtol=1e-3, atol=1e-5)
    np.testing.assert_array_equal(linalg.block_diag(jnp.ones((1, 2)), 3.0), [[1, 1, 0], [0, 0, 3]])
    assert len(linalg.qr(a)) == 2 and linalg.eigh(a + a.T, eigvals_only=True).shape == (4,)


def test_special():
    from shoal.scipy import special

    x = jnp.asarray([0.5, 1.5, 3.0])
    np.testing.assert_allclose(special.gammaln(x), [math.lgamma(v) for v in (0.5, 1.5, 3.0)], rtol=1e-5, atol=1e-6)
    points = [0.5, -0.5, -1.5]
    np.testing.assert_allclose(special.gamma(jnp.asarray(points)), [math.gamma(v) for v in points], rtol=1e-5)
    np.testing.assert_allclose(special.erf(x), [math.erf(v) for v in (0.5, 1.5, 3.0)], rtol=1e-6)
    np.testing.assert_allclose(special.erfinv(special.erf(x)), x, rtol=1e-2)
    np.testing.assert_allclose(special.factorial(jnp.asarray([0, 1, 5])), [1, 1, 120], rtol=1e-5)
    np.testing.assert_allclose(special.logit(special.expit(x)), x, rtol=1e-5)
    np.testing.assert_allclose(special.ndtri(special.ndtr(x)), x, rtol=1e-3)
    np.testing.assert_allclose(special.logsumexp(x), np.log(np.exp([0.5, 1.5, 3.0]).sum()), rtol=1e-6)
    weighted = special.logsumexp(x, b=jnp.asarray([1, 2, 0]))
    np.testing.assert_allclose(weighted, np.log(np.exp(0.5) + 2 * np.exp(1.5)), rtol=1e-6)
    value, sign = special.logsumexp(x, b=jnp.asarray([-1, -1, 0]), return_sign=True)
    np.testing.assert_allclose(value, np.log(np.exp(0.5) + np.exp(1.5)), rtol=1e-6)
    assert sign == -1
    np.testing.assert_allclose(special.entr(jnp.asarray([0, 0.5, -1])), [0, -0.5 * np.log(0.5), -np.inf], rtol=1e-6)
    np.testing.assert_allclose(special.kl_div(0.5, 0.25), 0.5 * np.log(2) - 0.25, rtol=1e-5)
    np.testing.assert_allclose(special.beta(2.0, 3.0), 1 / 12, rtol=1e-5)
    np.testing.assert_allclose(special.xlogy(0.0, 0.0), 0)


def test_segments():
    from shoal import ops

    data, ids = jnp.arange(5.0), jnp.asarray([0, 0, 1, 1, 3])
    np.testing.assert_array_equal(ops.segment_sum(data, ids), [1, 5, 0, 4])
    np.testing.assert_array_equal(ops.segment_max(data, ids, num_segments=2), [1, 3])
    np.testing.assert_array_equal(ops.segment_prod(data, ids, num_segments=2), [0, 6])
    np.testing.assert_array_equal(jax.jit(lambda d, i: ops.segment_min(d, i, 2))(data, ids), [0, 2])


METHODS = [
    ("sum", (), {}),
    ("sum", (1,), {}),
    ("prod", (), dict(axis=0)),
    ("mean", (), {}),
    ("max", (), {}),
    ("min", (1,), {}),
    ("any", (), {}),
    ("all", (), {}),
    ("std", (), {}),
    ("var", (), dict(ddof=1)),
    ("argmax", (), {}),
    ("argmin", (1,), {}),
    ("argsort", (), {}),
    ("cumsum", (), {}),
    ("cumprod", (1,), {}),
    ("reshape", (-1,), {}),
    ("reshape", (3, 8), {}),
    ("reshape", ((8, 3),), dict(order="F")),
    ("ravel", (), {}),
    ("flatten", (), dict(order="F")),
    ("transpose", (), {}),
    ("transpose", (1, 0), {}),
    ("transpose", ((1, 0),), {}),
    ("swapaxes", (0, 1), {}),
    ("squeeze", (), {}),
    ("repeat", (2,), {}),
    ("round", (1,), {}),
    ("clip", (-0.5, 0.5), {}),
    ("conj", (), {}),
    ("conjugate", (), {}),
    ("take", ([0, 2],), dict(axis=1)),
    ("trace", (), {}),
    ("diagonal", (1,), {}),
    ("nonzero", (), {}),
    ("astype", (np.int32,), {}),
    ("dot", (G.T,), {}),
    ("copy", (), {}),
    ("view", (np.int32,), {}),
    ("view", (np.int16,), {}),
    ("view", (np.complex64,), {}),
    ("byteswap", (), {}),
    ("compress", ([True, False, True],), dict(axis=0)),
]


@pytest.mark.parametrize("name, args, kwargs", METHODS, ids=names_of(METHODS))
def test_methods(name, args, kwargs):
    given = [jnp.asarray(x) if isinstance(x, list) or isinstance(x, np.ndarray) else x for x in args]
    check(getattr(jnp.asarray(F), name)(*given, **kwargs), getattr(F, name)(*args, **kwargs))


def test_properties():
    x = jnp.asarray(C)
    np.testing.assert_array_equal(x.real, C.real)
    np.testing.assert_array_equal(x.imag, C.imag)
    np.testing.assert_array_equal(x.T, C.T)
    np.testing.assert_array_equal(jnp.asarray(T).mT, T.swapaxes(1, 2))
    assert x.view(jnp.float32).shape == (4, 12)
    assert 3 in jnp.arange(5) and 7 not in jnp.arange(5)
    assert x.__array_namespace__() is jnp and x.__array_priority__ == 100
    assert jnp.searchsorted(jnp.arange(5), 2) == jnp.arange(5).searchsorted(2)
    assert round(jnp.asarray(1.26), 1) == jnp.asarray(1.3)
    assert x.to_device(jax.devices()[1]).devices() == {jax.devices()[1]}


def test_dtypes():
    assert jnp.result_type(jnp.int8(1), 2) == np.int8
    assert jnp.result_type(1, 2.0) == np.float32
    assert jnp.result_type(jnp.float16, np.int32) == np.float16
    assert jnp.result_type(jnp.bfloat16, jnp.float16) == np.float32
    assert jnp.promote_types("int32", "uint32") == np.int32
    assert jnp.promote_types(np.float32, jnp.bfloat16) == np.float32
    assert jnp.issubdtype(jnp.bfloat16, jnp.floating) and not jnp.issubdtype(jnp.int32, jnp.floating)
    assert jnp.issubdtype(jnp.ones(2).dtype, np.inexact)
    assert jnp.isdtype(jnp.float32, "real floating") and not jnp.isdtype("int8", ("bool", "complex floating"))
    assert jnp.finfo(jnp.bfloat16).bits == 16 and jnp.iinfo("int8").max == 127
    assert jnp.astype(jnp.arange(3), jnp.float32).dtype == jnp.float32
    assert jnp.zeros(3, int).dtype == jnp.int32 and jnp.ones(3, "bfloat16").dtype == jnp.bfloat16
    info = jnp.__array_namespace_info__()
    assert info.default_dtypes()["real floating"] == np.float32 and "int8" in info.dtypes(kind="integral")
    assert jnp.full(2, 1.0).weak_type and not jnp.full(2, 1.0, jnp.float32).weak_type
    assert (jnp.ones(2, jnp.bfloat16) * jnp.full(2, 2.0)).dtype == jnp.bfloat16
    half = jnp.ones((2, 2), jnp.bfloat16)
    assert jnp.matmul(half, half, preferred_element_type=jnp.float32).dtype == jnp.float32


def test_wide_types():
    jax.config.update("jax_enable_x64", True)
    try:
        assert jnp.arange(3).dtype == np.int64 and jnp.zeros(2).dtype == np.float64
        assert jnp.sum(jnp.asarray([1, 2], jnp.int32)).dtype == np.int64
        assert jnp.sin(jnp.arange(3)).dtype == np.float64 and jnp.mean(jnp.arange(3)).dtype == np.float64
        assert jnp.divide(jnp.arange(3), 2).dtype == np.float64
        assert jnp.divide(jnp.arange(3, dtype=np.int32), 2).dtype == np.float32
        assert jnp.argmax(jnp.arange(3)).dtype == np.int64 and jnp.nonzero(jnp.arange(3))[0].dtype == np.int64
        assert jnp.linspace(0, 1, 3).dtype == np.float64 and jnp.linalg.inv(jnp.eye(2)).dtype == np.float64
        assert jnp.sum(jnp.ones(2, jnp.float32)).dtype == np.float32
    finally:
        jax.config.update("jax_enable_x64", False)


def test_indices():
    np.testing.assert_array_equal(jnp.mgrid[0:2, 0:3], np.mgrid[0:2, 0:3])
    np.testing.assert_allclose(jnp.mgrid[-1:1:5j], np.mgrid[-1:1:5j])
    for g, e in zip(jnp.ogrid[0:2, 0:3], np.ogrid[0:2, 0:3]):
        np.testing.assert_array_equal(g, e)
    np.testing.assert_array_equal(jnp.r_[0:3, 5, jnp.arange(2)], np.r_[0:3, 5, np.arange(2)])
    np.testing.assert_array_equal(jnp.c_[jnp.arange(3), jnp.arange(3)], np.c_[np.arange(3), np.arange(3)])
    assert jnp.s_[1:2] == slice(1, 2) and jnp.index_exp[1:2] == (slice(1, 2),)


def test_bools_without_dimensions_as_indices():
    for index in (True, False, np.True_, np.array(False), (True, 1), (1, True), (slice(1, 3), False), (..., True, 2), (True, True)):
        np.testing.assert_array_equal(jnp.asarray(F)[index], F[index])
    np.testing.assert_array_equal(jnp.asarray(F)[jnp.array(True)], F[True])
    np.testing.assert_array_equal(jnp.asarray(F).at[True].set(2), np.full_like(F, 2))
    np.testing.assert_array_equal(jnp.asarray(F).at[1, False].add(2), F)
    assert jnp.int32(5)[jnp.array(True)].shape == (1,)
    assert jax.jit(lambda x, m: x.at[m].set(1))(jnp.float32(5), True) == 1


@pytest.mark.parametrize("true", [1, np.True_, np.int8(1), "yes"])
def test_flags_are_what_python_takes_for_true(true):
    assert jnp.linalg.norm(F, keepdims=true).shape == (1, 1)
    assert jnp.linspace(0, 1, 3, endpoint=true)[2] == 1
    assert jnp.allclose(N, N, equal_nan=true)
    assert jnp.sum(F, axis=0, keepdims=true).shape == (1, 6)
    assert jnp.unique(V, return_counts=true)[1].shape == (7,)
    assert jnp.median(F, axis=1, keepdims=true).shape == (4, 1)
    assert jnp.vander(V, increasing=true)[0, 0] == 1
    assert jax.scipy.linalg.cholesky(M @ M.T + 9 * np.eye(4, dtype=np.float32), lower=true)[0, 1] == 0


def test_static_sizes():
    x = jnp.asarray([0, 3, 0, 4, 4])
    nonzero = jax.jit(lambda a: jnp.nonzero(a, size=4, fill_value=9)[0])
    np.testing.assert_array_equal(nonzero(x), [1, 3, 4, 9])
    np.testing.assert_array_equal(jax.jit(lambda a: jnp.unique(a, size=4, fill_value=7))(x), [0, 3, 4, 7])
    np.testing.assert_array_equal(jax.jit(lambda a: jnp.where(a > 0, size=2)[0])(x), [1, 3])
    np.testing.assert_array_equal(jax.jit(lambda a: jnp.bincount(a, length=5))(x), [2, 0, 0, 1, 2])
    repeat = jax.jit(lambda a, n: jnp.repeat(a, n, total_repeat_length=6))
    np.testing.assert_array_equal(repeat(jnp.asarray([5, 6, 7]), jnp.asarray([1, 2, 1])), [5, 6, 6, 7, 7, 7])
    np.testing.assert_array_equal(jax.jit(lambda a, s: jnp.roll(a, s))(jnp.arange(4), 1), [3, 0, 1, 2])
    compress = jax.jit(lambda c, a: jnp.compress(c, a, size=3))
    np.testing.assert_array_equal(compress(jnp.asarray([False, True, True]), x[:3]), [3, 0, 0])
    np.testing.assert_array_equal(jnp.union1d(x, x, size=4, fill_value=8), [0, 3, 4, 8])


def test_polydiv():
    quotient, rest = jnp.polydiv(jnp.asarray(V), jnp.asarray(W))
    np.testing.assert_allclose(jnp.polyadd(jnp.polymul(quotient, jnp.asarray(W)), rest), V, rtol=1e-3, atol=1e-4)


def test_copies_with_changes():
    x = jnp.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(jnp.put(x, jnp.asarray([1, -1]), 9.0, inplace=False), [[0, 9, 2], [3, 4, 9]])
    np.testing.assert_array_equal(jnp.place(x, x > 2, jnp.asarray([7.0, 8.0]), inplace=False), [[0, 1, 2], [7, 8, 7]])
    np.testing.assert_array_equal(jnp.fill_diagonal(x, 5, inplace=False), [[5, 1, 2], [3, 5, 5]])
    got = jnp.put_along_axis(x, jnp.asarray([[1], [0]]), 9, axis=1, inplace=False)
    np.testing.assert_array_equal(got, [[0, 9, 2], [9, 4, 5]])
    np.testing.assert_array_equal(jnp.piecewise(x, [x < 1, x > 3], [-1, lambda v: v * 2]), [[-1, 0, 0], [0, 8, 10]])
    np.testing.assert_array_equal(jnp.apply_along_axis(jnp.sum, 1, x), [3, 12])
    np.testing.assert_array_equal(jnp.apply_over_axes(jnp.sum, x, [0, 1]), [[15]])


MISUSE = [
    (lambda x: jnp.sum([1, 2]), TypeError, "sum requires ndarray or scalar arguments, got <class 'list'>"),
    (lambda x: jnp.add(x, "a"), TypeError, "add requires ndarray or scalar arguments, got <class 'str'>"),
    (lambda x: jnp.sin(None), TypeError, "NoneType"),
    (lambda x: jnp.sum(x, axs=1), TypeError, "sum"),
    (lambda x: jnp.sum(x, axis=5), (ValueError, IndexError), "axis 5 is out of"),
    (lambda x: jnp.sum(x, axis="a"), TypeError, "axis"),
    (lambda x: jnp.sum(x, out=x), NotImplementedError, "The 'out' argument to jnp.sum is not supported"),
    (lambda x: jnp.sum(x, dtype="nonsense"), TypeError, "nonsense"),
    (lambda x: jnp.array([[1, 2], [3]]), ValueError, "inhomogeneous shape"),
    (lambda x: jnp.array([1, object()]), TypeError, "is not a valid JAX array type"),
    (lambda x: jnp.array(np.array([None, 1])), TypeError, "object is not a valid JAX array type"),
    (lambda x: jnp.array(["a"]), TypeError, "not a valid JAX array type"),
    (lambda x: x.reshape(5), TypeError, r"cannot reshape array of shape \(2, 3\) \(size 6\) into shape \(5,\)"),
    (lambda x: x.reshape(4, -1), TypeError, "does not evenly divide 6"),
    (lambda x: x.reshape(-1, -1), TypeError, "can only specify one unknown axis size"),
    (lambda x: x.reshape(3, 2, order="Q"), ValueError, "order"),
    (lambda x: jnp.concatenate([]), ValueError, "Need at least one array to concatenate"),
    (lambda x: jnp.concatenate([x, x[:, :2]]), ValueError, "concatenate"),
    (lambda x: jnp.concatenate(3), TypeError, "sequence of arrays"),
    (lambda x: jnp.stack([x, x[0]]), ValueError, "stack"),
    (lambda x: x + jnp.ones(4), (ValueError, TypeError), "shape"),
    (lambda x: jnp.dot(x, x), (ValueError, TypeError), "dot"),
    (lambda x: jnp.einsum("ij,jk", x, x), ValueError, "einsum"),
    (lambda x: jnp.where(x > 0, x), ValueError, "Either both or neither"),
    (lambda x: jnp.arange(x), TypeError, "scalar"),
    (lambda x: jnp.zeros("ab"), TypeError, "Shapes must be 1D sequences of concrete values of integer type"),
    (lambda x: jnp.ones((2.0,)), TypeError, "Shapes must be 1D sequences of concrete values of integer type"),
    (lambda x: jax.jit(lambda n: jnp.zeros(n))(3), TypeError, "try using `static_argnums`"),
    (lambda x: jax.jit(lambda n: x.reshape(n, 2))(3), TypeError, "try using `static_argnums`"),
    (lambda x: jnp.clip(1j, 0, 1), ValueError, "complex"),
    (lambda x: jnp.split(x, 4), ValueError, "split"),
    (lambda x: jnp.sort(x, kind="quick"), (NotImplementedError, TypeError), "kind"),
    (lambda x: jnp.put(x, 0, 1), ValueError, "inplace=False"),
    (lambda x: jnp.pad(x, 1, mode="mirror"), NotImplementedError, "mirror"),
    (lambda x: jnp.pad(x, 1, mode=5), TypeError, "mode must be a str or a function"),
    (lambda x: jnp.pad(x, 1, mode="reflect", reflect_type="up"), ValueError, "'even' or 'odd'"),
    (lambda x: jnp.pad(x, 1, mode="mean", stat_length=-1), ValueError, "stat_length .* must be positive"),
    (lambda x: jnp.add.reduceat(x, [0.5]), TypeError, "requires ndarray"),
    (lambda x: jnp.add.reduceat(x, jnp.array([0.5])), TypeError, "indices must be integers"),
    (lambda x: jnp.add.at(x, 0, inplace=False), TypeError, "takes 2 arrays"),
    (lambda x: jnp.frompyfunc(5, 1, 1), TypeError, "must be a function"),
    (lambda x: jnp.frompyfunc(lambda a: a, 0, 1), ValueError, "at least 1"),
    (lambda x: jnp.frompyfunc(lambda a: a.sum(keepdims=True), 1, 1)(x), TypeError, "from those at its place"),
    (lambda x: jnp.frompyfunc(lambda a: a, 1, 2)(x), TypeError, "tuple of 2 arrays"),
    (lambda x: jnp.pad(x, 1, value=3), ValueError, "value"),
    (lambda x: jnp.linalg.inv(x), ValueError, "inv"),
    (lambda x: jnp.linalg.qr(x, mode="foo"), ValueError, "foo"),
    (lambda x: jax.jit(lambda a: jnp.nonzero(a))(x), Exception, "size"),
    (lambda x: jax.jit(lambda a: jnp.unique(a))(x), Exception, "size"),
    (lambda x: jax.jit(lambda n: jnp.arange(n))(3), Exception, "trace"),
    (lambda x: jnp.nonsense, AttributeError, "has no attribute 'nonsense'"),
]


@pytest.mark.parametrize("call, kind, text", MISUSE, ids=[str(i) for i in range(len(MISUSE))])
def test_misuse(call, kind, text):
    with pytest.raises(kind, match=text):
        call(jnp.arange(6.0).reshape(2, 3))


def test_errors_name_the_line():
    with pytest.raises(ValueError, match=r"test_numpy\.py:\d+"):
        jnp.stack([jnp.ones(2), jnp.ones(3)])


def test_arange_in_programs_of_64_bits():
    with jax.enable_x64(True):
        for arguments in ((6,), (0, 6), (0, 6, 3), (0, 6.0, 3), (0.5, 3)):
            made = jax.jit(lambda: jnp.arange(*arguments))()
            np.testing.assert_array_equal(made, np.arange(*arguments))
            assert made.dtype == np.arange(*arguments).dtype
        assert jax.jit(lambda: jnp.arange(6, dtype=jnp.int32))().dtype == np.int32
