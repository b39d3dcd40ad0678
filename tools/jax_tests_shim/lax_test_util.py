"""Ops of jax.lax with the arguments that tests try, and ways to batch them."""

import collections
import itertools

import ml_dtypes
import numpy as np

from jax_tests_shim import PRIVATE, StandIn, test_util as jtu
from shoal import lax

float_dtypes = jtu.dtypes.all_floating
complex_elem_dtypes = jtu.dtypes.floating
complex_dtypes = jtu.dtypes.complex
inexact_dtypes = jtu.dtypes.all_inexact
int_dtypes = jtu.dtypes.all_integer
uint_dtypes = jtu.dtypes.all_unsigned
bool_dtypes = jtu.dtypes.boolean
default_dtypes = float_dtypes + int_dtypes
number_dtypes = default_dtypes + complex_dtypes + uint_dtypes
all_dtypes = number_dtypes + bool_dtypes
python_scalar_types = [bool, int, float, complex]
compatible_shapes = [[(3,)], [(3, 4), (3, 1), (1, 4)], [(2, 3, 4), (2, 1, 4)]]

OpRecord = collections.namedtuple("OpRecord", "op nargs dtypes rng_factory tol")
ReducerOpRecord = collections.namedtuple("ReducerOpRecord", "op reference_op init_val dtypes primitive")
NamedReducerOpRecord = collections.namedtuple("NamedReducerOpRecord", "op reference_op dtypes")

_FLOATS_AND_COMPLEX = float_dtypes + complex_dtypes
_WIDE_FLOATS = [dtype for dtype in float_dtypes if np.dtype(dtype).itemsize > 2]

# By names, dtypes and random numbers.
_OPS = [
    ("neg add:2 sub:2 mul:2", default_dtypes + complex_dtypes, jtu.rand_small),
    ("sign", default_dtypes + uint_dtypes, jtu.rand_small),
    ("floor ceil is_finite erf erfc erf_inv", float_dtypes, jtu.rand_small),
    ("round atan2:2 cbrt bessel_i0e bessel_i1e", float_dtypes, jtu.rand_default),
    ("nextafter:2", [d for d in float_dtypes if d is not ml_dtypes.bfloat16], jtu.rand_default),
    ("exp exp2 expm1 tanh asin acos atan atanh", _FLOATS_AND_COMPLEX, jtu.rand_small),
    ("log log1p reciprocal acosh pow:2", _FLOATS_AND_COMPLEX, jtu.rand_positive),
    ("logistic sin cos tan square asinh sinh cosh", _FLOATS_AND_COMPLEX, jtu.rand_default),
    ("sqrt rsqrt lgamma digamma", float_dtypes, jtu.rand_positive),
    ("sqrt rsqrt real imag", complex_dtypes, jtu.rand_default),
    ("betainc:3", float_dtypes, jtu.rand_uniform),
    ("igamma:2 igammac:2", _WIDE_FLOATS, jtu.rand_positive),
    ("complex:2", complex_elem_dtypes, jtu.rand_default),
    ("conj", complex_elem_dtypes + complex_dtypes, jtu.rand_default),
    ("abs", default_dtypes + complex_dtypes, jtu.rand_default),
    ("bitwise_and:2 bitwise_not bitwise_or:2 bitwise_xor:2", bool_dtypes, jtu.rand_small),
    ("population_count clz", int_dtypes + uint_dtypes, jtu.rand_int),
    ("mulhi:2", int_dtypes + uint_dtypes, jtu.rand_fullrange),
    ("div:2", default_dtypes + complex_dtypes, jtu.rand_nonzero),
    ("rem:2", default_dtypes, jtu.rand_nonzero),
    ("max:2 min:2 ne:2", all_dtypes, jtu.rand_small),
    ("eq:2", all_dtypes, jtu.rand_some_equal),
    ("ge:2 gt:2 le:2 lt:2", default_dtypes, jtu.rand_small),
]
# Where a relative error of a few ulp is not to be expected.
_TOLERANCES = {
    "nextafter": 0, "tan": {np.float32: 3e-5}, "asinh": {np.complex64: 1e-4}, "lgamma": {np.float32: 1e-5},
    "betainc": {np.float32: 2e-5},
}


def lax_ops():
    for words, dtypes, numbers in _OPS:
        for word in words.split():
            name, _, count = word.partition(":")
            yield OpRecord(name, int(count or 1), dtypes, numbers, _TOLERANCES.get(name))


def lax_out_dtype_ops():
    return [OpRecord("mul", 2, default_dtypes + complex_dtypes, jtu.rand_small, None)]


def _reducer(name, reference, start, dtypes):
    kind = {"add": "sum", "mul": "prod", "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor"}.get(name, name)
    return ReducerOpRecord(getattr(lax, name), reference, start, dtypes, StandIn(PRIVATE, f"lax.reduce_{kind}_p"))


def lax_reduce_ops():
    exact = int_dtypes + uint_dtypes + bool_dtypes
    return [
        _reducer("add", np.add, 0, default_dtypes), _reducer("mul", np.multiply, 1, default_dtypes),
        _reducer("max", np.maximum, 0, uint_dtypes + bool_dtypes), _reducer("max", np.maximum, -np.inf, float_dtypes),
        _reducer("max", np.maximum, np.iinfo(np.int32).min, [np.int32]), _reducer("min", np.minimum, np.inf, float_dtypes),
        _reducer("min", np.minimum, np.iinfo(np.int32).max, [np.int32]),
        _reducer("min", np.minimum, np.iinfo(np.uint32).max, [np.uint32]),
        _reducer("bitwise_and", np.bitwise_and, -1, exact), _reducer("bitwise_or", np.bitwise_or, 0, exact),
        _reducer("bitwise_xor", np.bitwise_xor, 0, exact),
    ]


def lax_named_reduce_ops():
    exact = bool_dtypes + int_dtypes + uint_dtypes
    rows = [("sum", np.sum, number_dtypes), ("prod", np.prod, number_dtypes), ("max", np.max, all_dtypes),
            ("min", np.min, all_dtypes), ("and", np.bitwise_and.reduce, exact), ("or", np.bitwise_or.reduce, exact),
            ("xor", np.bitwise_xor.reduce, exact)]
    return [NamedReducerOpRecord(getattr(lax, f"reduce_{name}"), reference, dtypes) for name, reference, dtypes in rows]


def all_bdims(*shapes):
    """Every way to batch arrays of these shapes: a dimension or None for each, not None for all."""
    ways = itertools.product(*[[None, *range(len(shape) + 1)] for shape in shapes])
    return (way for way in ways if any(dim is not None for dim in way))


def add_bdim(size, dim, shape):
    return tuple(shape) if dim is None else (*shape[:dim], size, *shape[dim:])


def args_slicer(args, dims):
    """The arguments of one element of the batch, by its number."""

    def slices(i):
        return [x if dim is None else lax.index_in_dim(x, i, dim, keepdims=False) for x, dim in zip(args, dims)]

    return slices
