"""One row for each public function of numerics: what is timed, or why nothing is.

A row is an expression of `x`, `y`, `z`, whose inputs are written `domain:shape`. Domains say what the elements are drawn
from, shapes how many there are, both from fixed lists (DOMAINS, and shape_of). All sizes follow from the number of
elements of the sweep, so that nobody chooses those that suit.
"""

import dataclasses
import math

import numpy as np

DOMAINS = {
    "any": lambda r, s: r.standard_normal(s).astype(np.float32),
    "pos": lambda r, s: r.uniform(0.5, 5, s).astype(np.float32),
    "unit": lambda r, s: r.uniform(-0.95, 0.95, s).astype(np.float32),
    "prob": lambda r, s: r.uniform(0.02, 0.98, s).astype(np.float32),
    "above": lambda r, s: r.uniform(1.1, 6, s).astype(np.float32),
    "angle": lambda r, s: r.uniform(-100, 100, s).astype(np.float32),
    "complex": lambda r, s: (r.standard_normal(s) + 1j * r.standard_normal(s)).astype(np.complex64),
    "ints": lambda r, s: r.integers(-1000, 1000, s).astype(np.int32),
    "counts": lambda r, s: r.integers(0, 8, s).astype(np.int32),
    "small": lambda r, s: r.integers(1, 30, s).astype(np.int32),
    "places": lambda r, s: r.integers(0, max(1, s[0]), s).astype(np.int32),
    "bools": lambda r, s: r.random(s) < 0.5,
    "bytes": lambda r, s: r.integers(0, 256, s).astype(np.uint8),
    "sorted": lambda r, s: np.sort(r.standard_normal(s)).astype(np.float32),
    "definite": lambda r, s: _definite(r, s),
}


def _definite(r, s):
    a = r.standard_normal(s)
    return (a @ np.swapaxes(a, -1, -2) / s[-1] + 2 * np.eye(s[-1])).astype(np.float32)


def shape_of(code, elements):
    """n: a vector; m: a matrix; s: a square matrix of a cubic algorithm; b: a batch of matrices of four rows; k: a short
    vector; q: about a square root of them; t: a vector of a quadratic algorithm."""
    bits = int(math.log2(elements))
    side = {3: 2, 17: 256, 24: 1024}.get(bits, 1 << (bits // 2))
    return {
        "n": (elements,),
        "m": (1 << (bits // 2), 1 << (bits - bits // 2)),
        "s": (side, side),
        "v": (side,),
        "b": (max(1, elements // 16), 4, 4),
        "k": (min(elements, 64),),
        "q": (1 << (bits // 2),),
        "t": (min(elements, 1 << 11),),
    }[code]


@dataclasses.dataclass(frozen=True)
class Row:
    """`tolerance` is of results beside JAX's, relative to the greatest; nothing for what is not comparable, as signs of
    vectors. `gradient` says whether it has one."""

    name: str
    expression: str
    inputs: tuple = ("any:n",)
    tolerance: float | None = 1e-4
    gradient: bool = False


def _rows():
    def one(module, names, inputs="any:n", *, call="{f}({args})", gradient=False, tolerance=1e-4):
        inputs = tuple(inputs.split())
        arguments = ", ".join("xyz"[: len(inputs)])
        prefix = {"numpy": "jnp.", "lax": "lax.", "nn": "jax.nn.", "scipy.special": "special.", "numpy.linalg": "jnp.linalg.",
                  "scipy.linalg": "slinalg.", "ops": "jax.ops.", "lax.linalg": "lax.linalg."}.get(module, f"jax.{module}.")
        for name in names.split():
            yield Row(f"{module}.{name}", call.format(f=prefix + name, args=arguments), inputs, tolerance, gradient)

    # ---- Element by element.
    yield from one("numpy", "abs cbrt exp exp2 expm1 negative positive reciprocal square sign sinc", gradient=True)
    yield from one("numpy", "arctan arcsinh tanh sinh cosh", gradient=True)
    yield from one("numpy", "sin cos tan", "angle:n", gradient=True)
    yield from one("numpy", "arccos arcsin arctanh", "unit:n", gradient=True)
    yield from one("numpy", "arccosh", "above:n", gradient=True)
    yield from one("numpy", "log log10 log1p log2 sqrt", "pos:n", gradient=True)
    yield from one("numpy", "ceil floor rint round trunc isfinite isinf isnan isneginf isposinf signbit spacing frexp modf "
                            "nan_to_num deg2rad rad2deg i0 unwrap")
    yield from one("numpy", "add subtract multiply divide maximum minimum hypot arctan2 logaddexp logaddexp2", "any:n any:n",
                   gradient=True)
    yield from one("numpy", "copysign fmax fmin heaviside nextafter equal not_equal less less_equal greater greater_equal isclose",
                   "any:n any:n")
    yield from one("numpy", "power float_power", "pos:n any:n", gradient=True)
    yield from one("numpy", "fmod remainder floor_divide divmod", "any:n pos:n")
    yield from one("numpy", "bitwise_and bitwise_or bitwise_xor gcd lcm", "ints:n ints:n")
    yield from one("numpy", "bitwise_invert bitwise_count", "ints:n")
    yield from one("numpy", "left_shift right_shift", "ints:n counts:n")
    yield from one("numpy", "ldexp", "any:n counts:n")
    yield from one("numpy", "logical_and logical_or logical_xor", "bools:n bools:n")
    yield from one("numpy", "logical_not", "bools:n")
    yield from one("numpy", "angle conj real imag", "complex:n")
    yield from one("numpy", "clip", call="jnp.clip(x, -1.0, 1.0)")
    yield from one("numpy", "where", "bools:n any:n any:n", gradient=False)
    yield from one("numpy", "select", call="jnp.select([x > 1, x < -1], [x, -x], 0.0)")
    yield from one("numpy", "piecewise", call="jnp.piecewise(x, [x < 0, x >= 0], [lambda v: -v, lambda v: v * 2])")
    yield from one("numpy", "polyval", "any:k unit:n")
    yield from one("nn", "celu elu gelu glu hard_sigmoid hard_silu hard_tanh leaky_relu log_sigmoid mish relu relu6 selu sigmoid "
                         "silu soft_sign softplus sparse_plus sparse_sigmoid squareplus", gradient=True)
    yield from one("nn", "log1mexp", "pos:n", gradient=True)
    yield from one("nn", "softmax log_softmax standardize logsumexp logmeanexp", "any:m", gradient=True)
    yield from one("nn", "one_hot", "counts:n", call="jax.nn.one_hot(x, 8)")
    yield from one("lax", "rsqrt logistic", "pos:n", gradient=True)
    yield from one("lax", "integer_pow", call="lax.integer_pow(x, 5)", gradient=True)
    yield from one("lax", "polynomial", call="lax.polynomial(x, (1.0, 0.5, 0.25))", gradient=True)
    yield from one("lax", "clz population_count", "ints:n")
    yield from one("lax", "reduce_precision", call="lax.reduce_precision(x, 5, 10)")
    yield from one("lax", "bitcast_convert_type", call="lax.bitcast_convert_type(x, jnp.int32)")
    yield from one("lax", "convert_element_type", call="lax.convert_element_type(x, jnp.bfloat16)")

    # ---- Special functions.
    yield from one("scipy.special", "erf erfc dawsn expit erfcx ndtr log_ndtr i0 i0e i1 i1e", gradient=True)
    yield from one("scipy.special", "entr", "pos:n", gradient=True)
    yield from one("scipy.special", "digamma gammaln gamma loggamma exp1 expi spence", "pos:n", gradient=True)
    yield from one("scipy.special", "erfinv", "unit:n", gradient=True)
    yield from one("scipy.special", "erfcinv ndtri logit", "prob:n", gradient=True)
    yield from one("scipy.special", "factorial gammasgn", "pos:n")
    yield from one("scipy.special", "beta betaln gammainc gammaincc poch", "pos:n pos:n")
    yield from one("scipy.special", "hyp1f1", "pos:n pos:n any:n")
    yield from one("scipy.special", "hyp2f1", "pos:n pos:n unit:n", call="special.hyp2f1(x, y, 2.5, z)")
    yield from one("scipy.special", "betainc", "pos:n pos:n prob:n")
    yield from one("lax", "igamma_grad_a", "pos:n pos:n")
    yield from one("scipy.special", "zeta", "above:n pos:n")
    yield from one("scipy.special", "xlogy xlog1py kl_div rel_entr", "pos:n pos:n", gradient=True)
    yield from one("scipy.special", "boxcox boxcox1p", "pos:n unit:n")
    yield from one("scipy.special", "polygamma", "small:n pos:n", call="special.polygamma(x, y)")
    yield from one("scipy.special", "multigammaln", "above:n", call="special.multigammaln(x, 2)")

    # ---- Reductions and scans.
    yield from one("numpy", "sum mean var std max min prod ptp", gradient=True)
    for name in "sum mean var max argmax".split():
        for axis in (0, 1):
            yield Row(f"numpy.{name} axis {axis}", f"jnp.{name}(x, axis={axis})", ("any:m",))
    yield from one("numpy", "argmax argmin all any count_nonzero nansum nanmean nanmax nanmin nanprod nanvar nanstd nanargmax nanargmin")
    yield from one("numpy", "cumsum cumprod nancumsum nancumprod diff ediff1d trapezoid", "any:n", gradient=False)
    yield from one("numpy", "cumulative_sum cumulative_prod")
    for name in "cumsum cummax cumlogsumexp".split():
        for axis in (0, 1):
            yield Row(f"lax.{name} axis {axis}", f"lax.{name}(x, axis={axis})", ("any:m",))
    yield from one("numpy", "average", "any:n pos:n", call="jnp.average(x, weights=y)")
    yield from one("numpy", "median")
    yield from one("numpy", "percentile quantile nanpercentile nanquantile", call="{f}(x, 0.3, axis=-1)")
    yield from one("numpy", "nanmedian")
    yield from one("numpy", "gradient")
    yield from one("lax", "associative_scan", call="lax.associative_scan(jnp.maximum, x)")
    yield from one("lax", "reduce_and reduce_or", "bools:n", call="{f}(x, axes=(0,))")
    yield from one("lax", "reduce_window", "any:m", call="lax.reduce_window(x, -jnp.inf, lax.max, (3, 3), (2, 2), 'SAME')",
                   gradient=False)
    yield Row("lax.reduce_window sum of 31", "lax.reduce_window(x, 0.0, lax.add, (31,), (1,), 'SAME')")

    # ---- What moves.
    yield from one("numpy", "transpose flip fliplr flipud rot90 tril triu matrix_transpose", "any:m")
    yield from one("numpy", "roll", call="jnp.roll(x, 3)")
    yield from one("numpy", "repeat", call="jnp.repeat(x, 3)")
    yield from one("numpy", "tile", call="jnp.tile(x, 3)")
    yield from one("numpy", "concatenate hstack vstack stack dstack column_stack", call="{f}([x, x])")
    yield from one("numpy", "append", "any:n any:n")
    yield from one("numpy", "split array_split", "any:n", call="{f}(x, 4)")
    for mode in "constant edge reflect symmetric wrap linear_ramp mean".split():
        yield Row(f"numpy.pad {mode}", f"jnp.pad(x, 1, mode='{mode}')", ("any:m",))
    yield from one("numpy", "diag diagonal trace", "any:m")
    yield from one("numpy", "diagflat vander", "any:q")
    yield from one("numpy", "eye identity tri", "any:q", call="{f}(x.shape[0])")
    for call in ("arange(x.size)", "zeros(x.shape)", "ones(x.shape)", "full(x.shape, 2.0)", "linspace(1.0, 2.0, x.size)",
                 "logspace(1.0, 2.0, x.size)", "geomspace(1.0, 2.0, x.size)"):
        yield Row("numpy." + call[: call.index("(")], "jnp." + call)
    yield from one("numpy", "zeros_like ones_like")
    yield from one("numpy", "full_like", call="jnp.full_like(x, 2.0)")
    yield from one("numpy", "meshgrid", "any:q any:q")
    yield from one("numpy", "indices", "any:q", call="jnp.indices((x.shape[0], x.shape[0]))")
    yield from one("numpy", "broadcast_to", "any:q", call="jnp.broadcast_to(x, (x.shape[0], x.shape[0]))")
    yield from one("lax", "dynamic_slice", "any:m", call="lax.dynamic_slice(x, (1, 1), (x.shape[0] // 2, x.shape[1] // 2))")
    yield from one("lax", "dynamic_update_slice", "any:m", call="lax.dynamic_update_slice(x, x[:1] * 2, (1, 0))")
    yield from one("lax", "rev", call="lax.rev(x, (0,))")

    # ---- Items by their places.
    yield Row("x[i] of elements", "x[y]", ("any:n", "places:n"))
    yield Row("x[i] of rows", "x[y]", ("any:m", "places:q"))
    yield Row("x[:, i] of columns", "x[:, y]", ("any:m", "places:q"))
    yield Row("x.at[i].set of elements", "x.at[y].set(z)", ("any:n", "places:n", "any:n"), tolerance=None)
    yield Row("x.at[i].add of elements", "x.at[y].add(z)", ("any:n", "places:n", "any:n"))
    yield Row("x.at[i].add of rows", "x.at[y].add(x)", ("any:m", "places:q"))
    yield Row("x.at[i].max of elements", "x.at[y].max(z)", ("any:n", "places:n", "any:n"))
    yield from one("numpy", "take", "any:n places:n")
    yield from one("numpy", "take_along_axis", "any:m", call="jnp.take_along_axis(x, jnp.argsort(x, axis=1), axis=1)")
    yield from one("numpy", "bincount", "counts:n", call="jnp.bincount(x, length=8)")
    yield from one("ops", "segment_sum segment_max segment_min segment_prod", "any:n counts:n", call="{f}(x, y, 8)")
    yield from one("numpy", "searchsorted", "sorted:n any:n")
    yield from one("numpy", "digitize", "any:n sorted:k")
    yield from one("numpy", "interp", "any:n sorted:k any:k")
    yield from one("numpy", "histogram", call="jnp.histogram(x, 32)[0]", tolerance=None)
    yield from one("numpy", "choose", "counts:n any:n any:n", call="jnp.choose(x % 2, [y, z], mode='clip')")
    yield from one("numpy", "unravel_index", "places:n", call="jnp.unravel_index(x, (x.size // 4, 4))")
    yield from one("numpy", "packbits", "bools:n")
    yield from one("numpy", "unpackbits", "bytes:n")
    yield from one("numpy", "isin", "ints:n ints:k")

    # ---- Order.
    yield from one("numpy", "sort argsort")
    for axis in (0, 1):
        yield Row(f"numpy.sort axis {axis}", f"jnp.sort(x, axis={axis})", ("any:m",))
    yield from one("numpy", "partition argpartition", call="{f}(x, x.size // 2)", tolerance=None)
    yield from one("numpy", "lexsort", "ints:n any:n", call="jnp.lexsort((y, x))")
    yield from one("lax", "top_k", "any:m", call="lax.top_k(x, 2)")
    yield from one("lax", "sort_key_val", "any:n ints:n")
    yield from one("numpy", "unique", "ints:n", call="jnp.unique(x, size=2000, fill_value=0)")

    # ---- Products.
    yield from one("numpy", "matmul dot", "any:s any:s", gradient=True)
    yield from one("numpy", "inner", "any:s any:s")
    yield from one("numpy", "vdot", "any:n any:n")
    yield from one("numpy", "outer", "any:q any:q")
    yield from one("numpy", "kron", "any:k any:k")
    yield from one("numpy", "tensordot", "any:s any:s", call="jnp.tensordot(x, y, 1)")
    yield from one("numpy", "einsum", "any:b any:b", call="jnp.einsum('bij,bjk->bik', x, y)", gradient=True)
    yield from one("numpy", "vecdot", "any:m any:m")
    yield from one("numpy", "matvec", "any:s any:v")
    yield from one("numpy", "vecmat", "any:v any:s")
    yield from one("numpy", "cross", "any:n", call="jnp.cross(*[jnp.stack([x, x * 2, x + 1], -1), jnp.stack([x, x, x * 3], -1)])")
    yield from one("numpy", "cov corrcoef", "any:s")
    yield from one("numpy", "convolve correlate", "any:n any:k")
    yield from one("lax", "conv_general_dilated", "any:m any:k",
                   call="lax.conv_general_dilated(x[None, None], y[:4].reshape(1, 1, 2, 2), (1, 1), 'SAME')", gradient=False)
    yield from one("nn", "dot_product_attention", "any:s",
                   call="jax.nn.dot_product_attention(*[x.reshape(1, x.shape[0], -1, min(64, x.shape[1]))] * 3)",
                   gradient=True)

    # ---- Fourier transforms.
    yield from one("lax", "fft", "complex:m", call="lax.fft(x, 'FFT', (x.shape[1],))")
    for name in "fft ifft fft2 fftn hfft".split():
        yield Row(f"numpy.fft.{name}", f"jnp.fft.{name}(x)", ("complex:m",))
    for name in "rfft rfft2".split():
        yield Row(f"numpy.fft.{name}", f"jnp.fft.{name}(x)", ("any:m",), gradient=False)
    yield Row("numpy.fft.irfft", "jnp.fft.irfft(x)", ("complex:m",))
    yield Row("numpy.fft.fft of one line", "jnp.fft.fft(x)", ("complex:n",))

    # ---- Linear algebra.
    yield from one("numpy.linalg", "cholesky inv det slogdet", "definite:s")
    yield from one("numpy.linalg", "eigvalsh svdvals cond matrix_rank pinv", "definite:s")
    yield from one("numpy.linalg", "norm", "any:m")
    yield from one("numpy.linalg", "solve", "definite:s any:v")
    yield from one("numpy.linalg", "lstsq", "any:s any:v", call="jnp.linalg.lstsq(x, y)[0]", tolerance=None)
    yield from one("numpy.linalg", "eigh qr svd", "definite:s", tolerance=None)
    yield from one("numpy.linalg", "matrix_power", "definite:s", call="jnp.linalg.matrix_power(x, 3)")
    yield from one("scipy.linalg", "solve_triangular", "definite:s any:v", call="slinalg.solve_triangular(x, y, lower=True)")
    yield from one("scipy.linalg", "lu_factor lu", "definite:s", tolerance=None)
    yield from one("scipy.linalg", "toeplitz circulant hankel", "any:q")
    yield from one("numpy.linalg", "eig", "any:s", call="jnp.linalg.eig(x)", tolerance=None, gradient=False)
    yield from one("numpy.linalg", "eigvals", "any:s", call="jnp.sort(jnp.abs(jnp.linalg.eigvals(x)))")
    yield from one("lax.linalg", "hessenberg", "any:s", tolerance=None, gradient=False)
    yield from one("lax.linalg", "householder_product", "any:s", call="lax.linalg.householder_product(x, x[0, :-1])", gradient=False)
    yield from one("lax.linalg", "qdwh", "definite:s", call="lax.linalg.qdwh(x)[:2]", gradient=False)
    yield from one("lax.linalg", "cholesky_update", "definite:s", call="lax.linalg.cholesky_update(jnp.triu(x), x[0])", gradient=False)
    yield from one("lax.linalg", "tridiagonal_solve", "any:n",
                   call="lax.linalg.tridiagonal_solve(x, x + 4, x, x[:, None])")
    yield from one("scipy.linalg", "schur", "any:s", tolerance=None, gradient=False)
    yield from one("scipy.linalg", "expm", "any:s", call="slinalg.expm(0.1 * x)")
    yield from one("scipy.linalg", "sqrtm", "definite:s", gradient=False)
    yield from one("scipy.linalg", "polar", "definite:s", gradient=False)
    yield from one("scipy.linalg", "eigh_tridiagonal", "any:q", call="slinalg.eigh_tridiagonal(x, x[1:], eigvals_only=True)",
                   gradient=False)
    for name in "cholesky inv det".split():
        yield Row(f"numpy.linalg.{name} of many", f"jnp.linalg.{name}(x)", ("definite:b",))
    for name in "eigh qr svd".split():
        yield Row(f"numpy.linalg.{name} of many", f"jnp.linalg.{name}(x)", ("definite:b",), tolerance=None)

    # ---- More of each kind.
    yield from one("numpy", "minmax sort_complex")
    yield from one("numpy", "allclose array_equal", "any:n any:n")
    yield from one("numpy", "insert", call="jnp.insert(x, 1, 2.0)")
    yield from one("numpy", "delete", call="jnp.delete(x, 1)")
    yield from one("numpy", "block", "any:m", call="jnp.block([[x, x], [x, x]])")
    yield from one("numpy", "trim_zeros", call="jnp.concatenate([x[:1], x])", tolerance=None)
    yield from one("numpy", "mod", "any:n pos:n")
    yield from one("numpy", "bartlett blackman hamming hanning", call="{f}(x.size)")
    yield from one("numpy", "kaiser", call="jnp.kaiser(x.size, 8.0)")
    yield from one("numpy", "histogram2d", "any:n any:n", call="jnp.histogram2d(x, y, 8)[0]", tolerance=None)
    yield from one("numpy", "histogram_bin_edges", call="jnp.histogram_bin_edges(x, 8)")
    yield from one("numpy", "put_along_axis", "any:m",
                   call="jnp.put_along_axis(x, jnp.zeros((x.shape[0], 1), jnp.int32), 1.0, axis=1, inplace=False)")
    yield from one("numpy", "fill_diagonal", "any:m", call="jnp.fill_diagonal(x, 1.0, inplace=False)")
    yield from one("numpy", "place", "any:n bools:n", call="jnp.place(x, y, jnp.array([1.0, 2.0]), inplace=False)")
    yield from one("numpy", "put", "any:n", call="jnp.put(x, jnp.arange(4), 1.0, inplace=False)")
    yield from one("numpy", "polyadd polysub", "any:n any:k")
    yield from one("numpy", "polymul", "any:n any:k", tolerance=None)
    yield from one("numpy", "polyder polyint")
    yield from one("numpy", "polyfit", "any:n any:n", call="jnp.polyfit(x, y, 1)", tolerance=1e-2)
    yield from one("numpy", "compress", "bools:n any:n", call="jnp.compress(x, y, size=8)")
    yield from one("numpy", "extract", "bools:n any:n", call="jnp.extract(x, y, size=8, fill_value=0)")
    yield from one("numpy", "nonzero flatnonzero argwhere", "bools:n", call="{f}(x, size=8, fill_value=0)")
    yield from one("numpy", "union1d setdiff1d intersect1d", "counts:n counts:n", call="{f}(x, y, size=8, fill_value=0)")
    yield from one("numpy", "tril_indices triu_indices", "any:q", call="{f}(x.shape[0])")
    yield from one("numpy", "ravel_multi_index", "places:n", call="jnp.ravel_multi_index((x, x), (x.size, x.size), mode='clip')",
                   tolerance=None)
    yield from one("numpy", "resize", call="jnp.resize(x, (x.size * 2,))")
    yield from one("lax", "approx_max_k approx_min_k", "any:m", call="{f}(x, 2)")
    yield from one("lax", "batch_matmul", "any:b any:b")
    yield from one("lax", "mulhi", "ints:n ints:n")
    yield from one("lax", "complex", "any:n any:n")
    yield from one("lax", "conv_transpose", "any:m any:k",
                   call="lax.conv_transpose(x[None, :, :, None], y[:4].reshape(2, 2, 1, 1), (2, 2), 'SAME')")
    yield from one("lax", "conv_general_dilated_patches", "any:m",
                   call="lax.conv_general_dilated_patches(x[None, None], (2, 2), (1, 1), 'SAME')")
    yield from one("lax", "reduce", "any:m", call="lax.reduce(x, 0.0, lambda a, b: jnp.maximum(a, b), (1,))")
    yield from one("lax", "pad", call="lax.pad(x, 0.0, ((1, 1, 1),))")
    yield from one("lax", "map", "any:m", call="lax.map(lambda row: row.sum(), x)")
    yield from one("lax", "ragged_dot", "any:s any:s",
                   call="lax.ragged_dot(x, jnp.stack([y, y]), jnp.array([1, x.shape[0] - 1]))")
    yield from one("lax.linalg", "symmetric_product", "any:s any:s")
    yield from one("lax.linalg", "triangular_solve", "definite:s any:s",
                   call="lax.linalg.triangular_solve(x, y, left_side=True, lower=True)")
    yield from one("scipy.special", "expn", "small:n pos:n")
    yield from one("scipy.special", "comb", "above:n pos:n")
    yield from one("scipy.linalg", "cho_solve", "definite:s any:v", call="slinalg.cho_solve((x, True), y)")
    yield from one("scipy.linalg", "lu_solve", "definite:s any:v", call="slinalg.lu_solve(slinalg.lu_factor(x), y)")
    yield from one("scipy.linalg", "dft hadamard hilbert pascal", "any:v", call="{f}(x.size)", tolerance=None)
    yield from one("scipy.linalg", "companion fiedler", "pos:v")
    yield from one("scipy.linalg", "block_diag", "any:q any:q")
    yield from one("numpy.linalg", "multi_dot", "any:s any:s", call="jnp.linalg.multi_dot([x, y, x])", tolerance=1e-3)
    yield from one("numpy.linalg", "vector_norm", "any:n")

    # ---- Images and signals.
    for method in "nearest linear cubic lanczos3 area".split():
        yield Row(f"image.resize {method} larger", f"jax.image.resize(x, (x.shape[0] * 2, x.shape[1] * 2), '{method}')", ("any:m",))
        yield Row(f"image.resize {method} smaller", f"jax.image.resize(x, (x.shape[0] // 2, x.shape[1] // 2), '{method}')",
                  ("any:m",))
    yield from one("image", "scale_and_translate", "any:m",
                   call="{f}(x, x.shape, (0, 1), jnp.array([1.5, 1.2]), jnp.array([0.3, -1.0]), 'linear')")
    yield from one("scipy.signal", "convolve correlate fftconvolve", "any:n any:k")
    yield from one("scipy.signal", "convolve2d correlate2d", "any:m any:k", call="{f}(x, y[:4].reshape(2, 2))")
    yield from one("scipy.signal", "detrend", "any:m")
    yield from one("scipy.signal", "welch stft", call="{f}(x, nperseg=min(256, x.size))", tolerance=1e-3)
    yield from one("scipy.signal", "csd", "any:n any:n", call="{f}(x, y, nperseg=min(256, x.size))", tolerance=1e-3)
    yield from one("scipy.signal", "istft", "complex:m", tolerance=1e-3)
    yield from one("scipy.fft", "dct idct dctn idctn", "any:m", tolerance=1e-3)
    yield from one("scipy.ndimage", "map_coordinates", "any:m places:n places:n", call="{f}(x, [y * 0.5, z * 0.3], 1, mode='nearest')")
    yield from one("scipy.stats", "rankdata mode")
    yield from one("scipy.special", "sici fresnel", "angle:n")
    yield from one("scipy.special", "owens_t", "any:n any:n")
    yield from one("scipy.special", "wofz", "complex:n")
    yield from one("scipy.special", "bessel_jn", "pos:n", call="special.bessel_jn(x, v=3)")
    yield from one("scipy.special", "lpmn_values", "unit:n", call="special.lpmn_values(3, 3, x, True)")
    yield from one("scipy.special", "lpmn", "unit:n", call="special.lpmn(3, 3, x)")
    yield from one("scipy.special", "sph_harm_y", "counts:n pos:n pos:n", call="special.sph_harm_y(x, x // 2, y, z, n_max=8)")

    # ---- Random numbers: x tells how many.
    for call in ("bits(key, x.shape)", "uniform(key, x.shape)", "normal(key, x.shape)", "randint(key, x.shape, 0, 100)",
                 "bernoulli(key, 0.3, x.shape)", "exponential(key, x.shape)", "gumbel(key, x.shape)",
                 "truncated_normal(key, -1, 1, x.shape)", "cauchy(key, x.shape)", "laplace(key, x.shape)",
                 "logistic(key, x.shape)", "rademacher(key, x.shape)", "permutation(key, x)", "gamma(key, 2.0, x.shape)",
                 "beta(key, 2.0, 3.0, x.shape)", "binomial(key, 10, 0.3, x.shape)", "chisquare(key, 3.0, shape=x.shape)",
                 "choice(key, x)", "dirichlet(key, jnp.ones(4), (x.size // 4,))", "double_sided_maxwell(key, 0.0, 1.0, x.shape)",
                 "f(key, 3.0, 4.0, shape=x.shape)", "generalized_normal(key, 2.0, x.shape)", "geometric(key, 0.3, x.shape)",
                 "lognormal(key, shape=x.shape)", "maxwell(key, x.shape)", "pareto(key, 2.0, x.shape)",
                 "rayleigh(key, 1.0, x.shape)", "t(key, 3.0, x.shape)", "triangular(key, 0.0, 0.5, 1.0, x.shape)",
                 "wald(key, 1.0, x.shape)", "weibull_min(key, 1.0, 2.0, x.shape)", "loggamma(key, 2.0, x.shape)",
                 "ball(key, 2, shape=x.shape)", "poisson(key, 3.0, x.shape)", "categorical(key, x)"):
        yield Row("random." + call[: call.index("(")], "jax.random." + call.replace("key", "jax.random.key(1)", 1), tolerance=None)


    for name in ("split(key, 4)", "fold_in(key, 7)"):
        call = name.replace("key", "jax.random.key(1)")
        yield Row("random." + name[: name.index("(")], f"jax.random.key_data(jax.random.{call})", tolerance=None)


ROWS = list(_rows())

# Why other public functions have no row.
WITHOUT = {
    "another name, or the operator, of one that has a row": """
        numpy: absolute acos acosh amax amin asin asinh atan atan2 atanh bitwise_left_shift bitwise_not bitwise_right_shift
            concat conjugate degrees fabs invert permute_dims pow radians rollaxis top_k true_divide
            tril_indices_from triu_indices_from diag_indices diag_indices_from dsplit hsplit vsplit unstack
            iscomplex isreal array_equiv histogramdd array asarray copy astype apply_along_axis apply_over_axes
            vectorize fromfunction frompyfunc
        lax: abs acos acosh add argmax argmin asin asinh atan atan2 atanh bessel_i0e bessel_i1e betainc bitwise_and bitwise_not
            bitwise_or bitwise_xor cbrt ceil clamp concatenate conj conv conv_with_general_padding cos cosh cummin cumprod
            digamma div dot dot_general dynamic_index_in_dim dynamic_slice_in_dim dynamic_update_index_in_dim
            dynamic_update_slice_in_dim empty eq erf erf_inv erfc exp exp2 expm1 floor full full_like gather ge gt igamma
            igammac imag index_in_dim iota broadcasted_iota is_finite le lgamma log log1p log2 lt max min mul ne neg nextafter
            one_minus_square polygamma pow random_gamma_grad real reciprocal reduce_max reduce_min reduce_prod reduce_sum
            reduce_xor rem round scatter scatter_add scatter_max scatter_min scatter_mul scatter_sub select select_n
            shift_left shift_right_arithmetic shift_right_logical sign sin sinh sort split sqrt square stack sub tan tanh
            tile transpose unstack zeta
        lax.linalg: cholesky eigh lu qr svd
        nn: hard_swish swish tanh
        scipy.special: log_softmax logsumexp psi softmax
        scipy.linalg: cho_factor cholesky det eigh inv qr solve svd
        numpy.linalg: cross diagonal matmul matrix_norm matrix_transpose outer tensordot trace vecdot
        random: PRNGKey""",
    "a view of its operand, which copies nothing in a larger program": """
        numpy: atleast_1d atleast_2d atleast_3d broadcast_arrays expand_dims moveaxis ravel reshape squeeze swapaxes
        lax: broadcast broadcast_in_dim broadcast_like broadcast_to_rank collapse expand_dims reshape slice slice_in_dim squeeze
        nn: identity""",
    "tells of arrays, or makes one on the host": """
        numpy: array_repr array_str broadcast_shapes can_cast einsum_path finfo iinfo get_printoptions iscomplexobj isdtype
            isrealobj isscalar issubdtype iterable ndim printoptions promote_types result_type set_printoptions shape size
            from_dlpack frombuffer fromfile fromiter fromstring load save savez ix_ mask_indices around empty empty_like
        lax: broadcast_shapes conv_dimension_numbers dtype padtype_to_pads
        scipy.linalg: helmert invhilbert invpascal leslie convolution_matrix
        scipy.special: bernoulli
        random: clone key key_data key_dtype key_impl wrap_key_data""",
    "of small operands, by functions that have rows": """
        numpy: poly polydiv setxor1d unique_all unique_counts unique_inverse unique_values
        numpy.linalg: tensorinv tensorsolve
        numpy: roots
        lax.linalg: eig lu_pivots_to_permutation ormqr schur tridiagonal
        scipy.linalg: expm_frechet fiedler_companion funm hessenberg qr_multiply rsf2csf solve_sylvester
        random: multinomial multivariate_normal orthogonal""",
    "JAX 0.12 has none": """
        numpy: fix""",
    "has its rows in another benchmark": """
        lax: all_gather all_gather_invariant all_to_all axis_index axis_size cond custom_linear_solve custom_root fori_loop
            optimization_barrier pbroadcast pcast platform_dependent pmax pmean pmin ppermute pshuffle psum psum_scatter
            pswapaxes pvary ragged_all_to_all scan stop_gradient switch while_loop with_sharding_constraint""",
}


def without_row():
    """The names of WITHOUT with their reasons."""
    found = {}
    for reason, text in WITHOUT.items():
        module = ""
        for word in text.split():
            if word.endswith(":"):
                module = word[:-1]
            else:
                found[f"{module}.{word}"] = reason
    return found
