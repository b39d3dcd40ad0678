"""Some functions of jax.lax by NumPy, in the plainest way."""

import itertools

import ml_dtypes
import numpy as np

from jax_tests_shim import PRIVATE, NotThere


def _scipy(name):
    def called(*args):
        import scipy.special

        wide = [x.astype(np.float64) if x.dtype.kind in "fV" else x for x in map(np.asarray, args)]
        return np.asarray(getattr(scipy.special, name)(*wide)).astype(np.asarray(args[0]).dtype)

    return called


def _numpy(function):
    """A function of NumPy that keeps the dtype of its first argument."""

    def called(*args, out_dtype=None):
        if out_dtype is not None:
            return np.asarray(function(*[np.asarray(x).astype(out_dtype) for x in args]))
        first = np.asarray(args[0])
        if first.dtype == ml_dtypes.bfloat16:
            return np.asarray(function(*[np.asarray(x).astype(np.float32) for x in args])).astype(first.dtype)
        return np.asarray(function(*args)).astype(first.dtype)

    return called


neg, sign, floor, ceil = map(_numpy, (np.negative, np.sign, np.floor, np.ceil))
exp, exp2, expm1, log, log1p = map(_numpy, (np.exp, np.exp2, np.expm1, np.log, np.log1p))
sin, cos, tan, asin, acos, atan = map(_numpy, (np.sin, np.cos, np.tan, np.arcsin, np.arccos, np.arctan))
sinh, cosh, tanh, asinh, acosh, atanh = map(_numpy, (np.sinh, np.cosh, np.tanh, np.arcsinh, np.arccosh, np.arctanh))
atan2, sqrt, cbrt, square, nextafter = map(_numpy, (np.arctan2, np.sqrt, np.cbrt, np.square, np.nextafter))
add, sub, mul, max, min = map(_numpy, (np.add, np.subtract, np.multiply, np.maximum, np.minimum))
bitwise_not, bitwise_and, bitwise_or, bitwise_xor = map(
    _numpy, (np.bitwise_not, np.bitwise_and, np.bitwise_or, np.bitwise_xor)
)
shift_left = _numpy(np.left_shift)
rsqrt = _numpy(lambda x: 1 / np.sqrt(x))
reciprocal = _numpy(lambda x: 1 / x)
logistic = _numpy(lambda x: 1 / (1 + np.exp(-x)))
eq, ne, ge, gt, le, lt = np.equal, np.not_equal, np.greater_equal, np.greater, np.less_equal, np.less
abs, real, imag, is_finite = np.absolute, np.real, np.imag, np.isfinite
lgamma, digamma, betainc, igamma, igammac, erf, erfc, erf_inv, bessel_i0e, bessel_i1e = map(
    _scipy, "gammaln digamma betainc gammainc gammaincc erf erfc erfinv i0e i1e".split()
)
shift_right_arithmetic = _numpy(np.right_shift)


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    raise NotThere(PRIVATE, f"lax_reference.{name}")


def complex(x, y):
    return x + np.complex64(1j) * y


def conj(x):
    return np.conj(x) + np.complex64(0)


def pow(x, y):
    return _numpy(np.power)(x, y)


def round(x):
    return np.trunc(x + np.copysign(np.asarray(0.5, x.dtype), x)).astype(x.dtype)


def div(x, y):
    if np.asarray(x).dtype.kind in "iu":
        quotient = np.floor_divide(np.abs(x), np.abs(y))
        return np.where(np.sign(x) == np.sign(y), quotient, -quotient).astype(np.asarray(x).dtype)
    return _numpy(np.divide)(x, y)


def rem(x, y):
    return _numpy(np.fmod)(x, y)


def shift_right_logical(x, y):
    unsigned = np.dtype(f"uint{8 * x.dtype.itemsize}")
    return np.right_shift(x.view(unsigned), y.astype(unsigned)).view(x.dtype)


def population_count(x):
    return np.bitwise_count(x.view(f"uint{8 * x.dtype.itemsize}")).astype(x.dtype)


def clz(x):
    bits = 8 * x.dtype.itemsize
    return np.vectorize(lambda v: bits - int(v).bit_length(), otypes=[x.dtype])(x.view(f"uint{bits}"))


def mulhi(x, y):
    bits = 8 * x.dtype.itemsize
    high = np.vectorize(lambda a, b: (int(a) * int(b)) >> bits, otypes=[object])(x, y)
    return np.array(high, dtype=x.dtype)


def clamp(low, x, high):
    return np.clip(x, low, high).astype(x.dtype)


def concatenate(operands, dimension):
    return np.concatenate(operands, axis=dimension)


def broadcast(operand, sizes):
    return np.broadcast_to(operand, (*sizes, *np.shape(operand)))


def broadcast_in_dim(operand, shape, broadcast_dimensions):
    inner = [1] * len(shape)
    for dim, size in zip(broadcast_dimensions, np.shape(operand)):
        inner[dim] = size
    return np.broadcast_to(np.reshape(operand, inner), shape)


def squeeze(array, dimensions):
    return np.squeeze(array, tuple(dimensions))


def reshape(operand, new_sizes, dimensions=None):
    return np.reshape(operand if dimensions is None else np.transpose(operand, dimensions), new_sizes)


def transpose(operand, permutation):
    return np.transpose(operand, permutation)


def select(predicate, on_true, on_false):
    return np.where(predicate, on_true, on_false)


def slice(operand, start_indices, limit_indices, strides=None):
    strides = strides or [1] * len(start_indices)
    return operand[tuple(map(np.s_.__getitem__, map(_range, start_indices, limit_indices, strides)))]


def _range(start, stop, step):
    import builtins

    return builtins.slice(start, stop, step)


def _clamped(start, sizes, shape):
    return [int(np.clip(int(s), 0, extent - size)) for s, size, extent in zip(start, sizes, shape)]


def dynamic_slice(operand, start_indices, slice_sizes):
    start = _clamped(start_indices, slice_sizes, operand.shape)
    return operand[tuple(_range(s, s + n, 1) for s, n in zip(start, slice_sizes))]


def dynamic_update_slice(operand, update, start_indices):
    start = _clamped(start_indices, update.shape, operand.shape)
    result = np.array(operand)
    result[tuple(_range(s, s + n, 1) for s, n in zip(start, update.shape))] = update
    return result


def pad(operand, padding_value, padding_config):
    sizes = [lo + hi + n + inner * (n - 1 if n else 0) for n, (lo, hi, inner) in zip(operand.shape, padding_config)]
    result = np.full([s if s > 0 else 0 for s in sizes], padding_value, operand.dtype)
    for at in np.ndindex(*operand.shape):
        to = [lo + i * (inner + 1) for i, (lo, _, inner) in zip(at, padding_config)]
        if all(0 <= t < s for t, s in zip(to, sizes)):
            result[tuple(to)] = operand[at]
    return result


def convert_element_type(operand, dtype):
    return np.asarray(operand).astype(dtype)


def bitcast_convert_type(operand, dtype):
    return np.asarray(operand).view(dtype)


def sort(operand, dimension=-1, kind="stable"):
    return np.sort(operand, axis=dimension, kind=kind)


def sort_key_val(keys, values, dimension=-1):
    order = np.argsort(keys, axis=dimension, kind="stable")
    return np.take_along_axis(keys, order, dimension), np.take_along_axis(values, order, dimension)


def top_k(operand, k, axis=-1, is_stable=True):
    order = np.argsort(-operand.astype(np.float64), axis=axis, kind="stable")
    order = np.take(order, np.arange(k), axis=axis)
    return np.take_along_axis(operand, order, axis), order.astype(np.int32)


def dot(lhs, rhs):
    return _numpy(np.dot)(lhs, rhs)


def dot_general(lhs, rhs, dimension_numbers):
    (contract_l, contract_r), (batch_l, batch_r) = dimension_numbers
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    left = [next(letters) for _ in np.shape(lhs)]
    right = [next(letters) for _ in np.shape(rhs)]
    for i, j in [*zip(contract_l, contract_r), *zip(batch_l, batch_r)]:
        right[j] = left[i]
    batch = [left[i] for i in batch_l]
    free_l = [c for i, c in enumerate(left) if i not in (*contract_l, *batch_l)]
    free_r = [c for i, c in enumerate(right) if i not in (*contract_r, *batch_r)]
    formula = f"{''.join(left)},{''.join(right)}->{''.join(batch + free_l + free_r)}"
    return _numpy(lambda x, y: np.einsum(formula, x, y))(lhs, rhs)


def reduce_window(operand, init_value, computation, window_dimensions, window_strides, padding, base_dilation=None):
    if isinstance(padding, str):
        padding = _same_padding(operand.shape, window_dimensions, window_strides) if padding == "SAME" else [
            (0, 0)] * operand.ndim
    inner = [d - 1 for d in base_dilation or [1] * operand.ndim]
    padded = pad(operand, init_value, [(lo, hi, i) for (lo, hi), i in zip(padding, inner)])
    counts = [(n - w) // s + 1 for n, w, s in zip(padded.shape, window_dimensions, window_strides)]
    result = np.full([c if c > 0 else 0 for c in counts], init_value, operand.dtype)
    for offset in itertools.product(*map(range, window_dimensions)):
        part = padded[tuple(_range(o, o + (c - 1) * s + 1, s) for o, c, s in zip(offset, counts, window_strides))]
        result = np.asarray(computation(result, part)).astype(operand.dtype)
    return result


def _same_padding(shape, window, strides):
    padding = []
    for n, w, s in zip(shape, window, strides):
        total = (-(-n // s) - 1) * s + w - n
        total = total if total > 0 else 0
        padding.append((total // 2, total - total // 2))
    return padding


def reduce(operand, init_value, computation, dimensions):
    result = np.moveaxis(operand, dimensions, range(len(dimensions)))
    result = result.reshape(-1, *result.shape[len(dimensions):])
    total = np.full(result.shape[1:], init_value, operand.dtype)
    for row in result:
        total = np.asarray(computation(total, row)).astype(operand.dtype)
    return total
