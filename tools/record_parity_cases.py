#!/usr/bin/env python3
"""Records what JAX computes, or what is right to many digits, as cases for tests/parity: run it in the root of the
repository.

Needs numpy, ml_dtypes, mpmath and jax (0.12). Writes tests/parity/data/*.txt, or those that are
named as arguments.

A case is a graph of one op in the text form of the library, and a line for each input and each result:

    case add f32 within 0
    graph "case"(%0: f32[2], %1: f32[2]) {
      %2: f32[2] = add(%0, %1)
      return %2
    }
    in 1.5 nan
    in 2.0 1.0
    out 3.5 nan

"within" is the number of units in the last place that the library may be off. Functions that are not correctly rounded
anywhere are recorded from mpmath; data movement, integers and correctly rounded operations from JAX.
"""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import itertools
import sys
import warnings
from fractions import Fraction

import jax
import jax.numpy as jnp
import ml_dtypes
import mpmath
import numpy as np
from jax import lax
from jax.extend.random import threefry_2x32
from jax.sharding import Mesh, PartitionSpec

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_enable_x64", True)
warnings.simplefilter("ignore")
mpmath.mp.prec = 300

BOOL = ["bool"]
SIGNED = ["i8", "i16", "i32", "i64"]
INTEGERS = SIGNED + ["u8", "u16", "u32", "u64"]
FLOATS = ["f16", "bf16", "f32", "f64"]
COMPLEX = ["c64", "c128"]
NUMPY = {
    "bool": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u8": np.uint8,
    "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
    "f32": np.float32, "f64": np.float64, "c64": np.complex64, "c128": np.complex128,
}
SHORT = {np.dtype(value): key for key, value in NUMPY.items()}


# ---- Text.


def number(value):
    value = np.asarray(value)
    if value.dtype.kind in "biu":
        return str(int(value))
    if value.dtype.kind == "c":
        return f"{float(value.real)!r},{float(value.imag)!r}"
    return repr(float(value))


def numbers(array):
    return " ".join(number(value) for value in np.asarray(array).ravel())


def type_text(array):
    return f"{SHORT[array.dtype]}[{','.join(map(str, array.shape))}]"


def dims(values):
    return f"({', '.join(map(str, values))})"


def attrs_text(attrs):
    return " {" + ", ".join(f"{key} = {attrs[key]}" for key in sorted(attrs)) + "}" if attrs else ""


def case(op, inputs, output, within=0, attrs=None, keep=None):
    """The lines of a case of one op; a list of outputs is one of several results, of which `keep` numbers those that
    are compared."""
    outputs = [np.asarray(array) for array in (output if isinstance(output, list) else [output])]
    inputs = [np.asarray(array) for array in inputs]
    names = ", ".join(f"%{i}: {type_text(array)}" for i, array in enumerate(inputs))
    operands = ", ".join(f"%{i}" for i in range(len(inputs)))
    results = [f"%{len(inputs) + i}" for i in range(len(outputs))]
    typed = ", ".join(f"{result}: {type_text(array)}" for result, array in zip(results, outputs))
    yield f"case {op} {SHORT[(inputs or outputs)[0].dtype]} within {within}"
    yield f'graph "case"({names}) {{'
    yield f"  {typed} = {op}({operands}){attrs_text(attrs or {})}"
    kept = range(len(outputs)) if keep is None else keep
    yield f"  return {', '.join(results[i] for i in kept)}"
    yield "}"
    for array in inputs:
        yield "in " + numbers(array)
    for i in kept:
        yield "out " + numbers(outputs[i])


def write(name, cases):
    with open(f"tests/parity/data/{name}.txt", "w", encoding="utf-8") as file:
        file.write("# Written by tools/record_parity_cases.py. Do not edit.\n")
        for lines in cases:
            file.writelines(line + "\n" for line in lines)


# ---- Operands. No subnormal numbers: XLA takes them for zero.


def ints(short):
    info = np.iinfo(NUMPY[short])
    values = [0, 1, 2, 3, 7, 100, info.max, info.min] + ([-1, -2, -5, -100] if info.min < 0 else [200])
    return np.array(values, NUMPY[short])


def floats(short):
    values = [0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, 2, 3, -3.75, 10.25, 0.1, -0.3, 1e-3, 100, -7, 90, -90]
    return np.array(values + [np.inf, -np.inf, np.nan], NUMPY[short])


def complexes(short):
    values = [0, 1, -1, 1j, -2j, 1.5 - 2.5j, 3 + 4j, -0.1 + 0.3j, 100 - 7j, 1e-3 + 1e-3j]
    return np.array(values, NUMPY[short])


def values_of(short):
    if short == "bool":
        return np.array([False, True])
    return (ints if short in INTEGERS else floats if short in FLOATS else complexes)(short)


def pairs(values):
    columns = list(itertools.product(values, values))
    return (np.array([x for x, _ in columns], values.dtype), np.array([y for _, y in columns], values.dtype))


def few_values_of(short):
    """Those of which binary operations take all pairs."""
    if short in FLOATS:
        return np.array([0.0, -0.0, 1, -1.5, 2.5, -7, 0.1, np.inf, -np.inf, np.nan], NUMPY[short])
    if short in INTEGERS:
        info = np.iinfo(NUMPY[short])
        return np.array([0, 1, 2, 7, info.max, info.min] + ([-1, -5] if info.min < 0 else [200]), NUMPY[short])
    return values_of(short)[:7]


# ---- Elementwise.

UNARY = {
    "negative": INTEGERS + FLOATS + COMPLEX, "abs": INTEGERS + FLOATS, "sign": INTEGERS + FLOATS, "sqrt": FLOATS,
    "floor": FLOATS, "ceil": FLOATS, "round": FLOATS, "isnan": FLOATS, "isfinite": FLOATS,
    "bitwise_not": BOOL + INTEGERS, "real": COMPLEX, "imag": COMPLEX, "conj": COMPLEX, "square": INTEGERS + FLOATS,
    "reciprocal": FLOATS, "trunc": FLOATS, "isinf": FLOATS, "signbit": INTEGERS + FLOATS, "population_count": INTEGERS,
    "clz": INTEGERS,
}
BINARY = {
    "add": INTEGERS + FLOATS + COMPLEX, "subtract": INTEGERS + FLOATS + COMPLEX, "multiply": INTEGERS + FLOATS,
    "divide": FLOATS, "floor_divide": INTEGERS + FLOATS, "remainder": INTEGERS + FLOATS, "power": INTEGERS,
    "maximum": BOOL + INTEGERS + FLOATS, "minimum": BOOL + INTEGERS + FLOATS,
    "equal": BOOL + INTEGERS + FLOATS + COMPLEX, "not_equal": BOOL + INTEGERS + FLOATS + COMPLEX,
    "less": BOOL + INTEGERS + FLOATS + COMPLEX, "less_equal": BOOL + INTEGERS + FLOATS + COMPLEX,
    "greater": BOOL + INTEGERS + FLOATS + COMPLEX, "greater_equal": BOOL + INTEGERS + FLOATS + COMPLEX,
    "fmod": INTEGERS + FLOATS, "copysign": FLOATS, "nextafter": FLOATS, "heaviside": FLOATS, "gcd": INTEGERS,
    "lcm": INTEGERS, "fmax": FLOATS, "fmin": FLOATS, "left_shift": INTEGERS, "right_shift": INTEGERS,
    "shift_right_logical": INTEGERS, "bitwise_and": BOOL + INTEGERS, "bitwise_or": BOOL + INTEGERS,
    "bitwise_xor": BOOL + INTEGERS,
}
# The functions whose values are rounded from many digits.
PRECISE = {
    "exp": mpmath.exp, "expm1": mpmath.expm1, "log": mpmath.log, "log1p": mpmath.log1p,
    "rsqrt": lambda x: 1 / mpmath.sqrt(x), "sin": mpmath.sin, "cos": mpmath.cos, "tan": mpmath.tan,
    "tanh": mpmath.tanh, "logistic": lambda x: 1 / (1 + mpmath.exp(-x)), "erf": mpmath.erf,
    "exp2": lambda x: mpmath.mpf(2) ** x, "log2": lambda x: mpmath.log(x) / mpmath.log(2), "log10": mpmath.log10,
    "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)), "arcsin": mpmath.asin, "arccos": mpmath.acos,
    "arctan": mpmath.atan, "sinh": mpmath.sinh, "cosh": mpmath.cosh, "arcsinh": mpmath.asinh, "arccosh": mpmath.acosh,
    "arctanh": mpmath.atanh, "sinc": lambda x: mpmath.sincpi(x), "erfc": mpmath.erfc, "erf_inv": mpmath.erfinv,
    "lgamma": lambda x: mpmath.re(mpmath.loggamma(x)), "digamma": mpmath.digamma,
}
PRECISE_BINARY = {
    "arctan2": mpmath.atan2, "hypot": mpmath.hypot,
    "logaddexp": lambda x, y: mpmath.log(mpmath.exp(x) + mpmath.exp(y)),
    "logaddexp2": lambda x, y: mpmath.log(mpmath.mpf(2) ** x + mpmath.mpf(2) ** y) / mpmath.log(2),
    "xlogy": lambda x, y: x * mpmath.log(y) if x != 0 else mpmath.mpf(0),
    "xlog1py": lambda x, y: x * mpmath.log(1 + y) if x != 0 else mpmath.mpf(0),
}
# How many units in the last place those may be off that are not within one: of f32 and smaller ones, and of f64. Next to
# a zero of digamma only its absolute error is small.
LOOSE = {
    "arcsin": (3, 1), "arccos": (3, 1), "arctan": (3, 2), "sinh": (2, 2), "cosh": (2, 2), "tanh": (2, 3), "rsqrt": (2, 2),
    "logistic": (2, 2), "arccosh": (2, 2), "sinc": (4, 1), "erfc": (4, 4), "erf_inv": (4, 4), "lgamma": (8, 8), "digamma": (128, 128),
}


def erfc_inv(x):
    if x > 1:
        return -erfc_inv(2 - x)
    if x > 0.25:
        return mpmath.erfinv(1 - x)
    return mpmath.findroot(lambda y: mpmath.log(mpmath.erfc(y)) - mpmath.log(x), mpmath.sqrt(-mpmath.log(x)))


# Those of src/ops/special.def: a function, its arguments, and how far it may be off, in f32 and in f64.
SPECIAL = {
    "bessel_i0": (lambda x: mpmath.besseli(0, x), [[0, 0.5, -3, 7.5, 8, 9.25, -40]], (4, 4)),
    "bessel_i1": (lambda x: mpmath.besseli(1, x), [[0.5, -3, 7.5, 8, 9.25, -40]], (4, 4)),
    "bessel_i0e": (lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x)), [[0, 0.5, -3, 7.5, 8, 9.25, -400]], (4, 4)),
    "bessel_i1e": (lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x)), [[0.5, -3, 7.5, 8, 9.25, -400]], (4, 4)),
    "erfcx": (lambda x: mpmath.exp(x * x) * mpmath.erfc(x), [[0, 0.125, 1, 3.5, 20, -0.5, -2]], (4, 4)),
    "erfc_inv": (erfc_inv, [[0.0009765625, 0.0625, 0.5, 0.875, 1.5, 1.9375]], (4, 4)),
    "ndtr": (mpmath.ncdf, [[0, 0.5, -0.5, 2.25, -3, 1, -2.5]], (4, 4)),
    "log_ndtr": (lambda x: mpmath.log(mpmath.erfc(-x / mpmath.sqrt(2)) / 2), [[0, 0.5, -0.5, 2.25, -3, -20]], (4, 4)),
    "dawsn": (lambda x: mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(-x * x) * mpmath.erfi(x),
              [[0.25, 0.96875, -1.0625, 2.5, 3.25, 4.5, 5.5, -20]], (4, 4)),
    "expi": (mpmath.ei, [[0.125, 1, 5, 12.5, 40, 45, -0.5, -3]], (1, 8)),
    "spence": (lambda x: mpmath.re(mpmath.polylog(2, 1 - x)), [[0, 0.25, 0.5, 0.75, 1.5, 2, 10, 100]], (4, 4)),
    "expn": (mpmath.expint, [[0, 1, 1, 2, 3, 5, 10, 1], [2, 0.125, 3, 0.5, 1, 0.25, 6, 1]], (1, 16)),
    "zeta": (mpmath.zeta, [[2, 1.5, 3, 8, 2, 30, 4], [1, 0.25, 20, 2, 100, 14, 0.5]], (1, 8)),
    "igamma": (lambda a, x: mpmath.gammainc(a, 0, x, regularized=True),
               [[0.5, 2, 8, 0.25, 3, 10, 40], [0.25, 2.5, 3, 4, 3, 12, 36]], (1, 64)),
    "hyp1f1": (mpmath.hyp1f1, [[0.5, 2, -3, 1.25, 4, -2.5, 3], [0.25, 2.5, 1.5, 3, -1.5, 6, 1.25], [0.5, 3, 2.5, -8, 1, 4, 200]], (1, 512)),
    "hyp1f1_grad_a": (lambda a, b, x: mpmath.diff(lambda v: mpmath.hyp1f1(v, b, x), a),
                      [[0.5, 2, 1.25, 4], [0.25, 2.5, 3, -1.5], [0.5, 3, -8, 1]], (1, 64)),
    "hyp1f1_grad_b": (lambda a, b, x: mpmath.diff(lambda v: mpmath.hyp1f1(a, v, x), b),
                      [[0.5, 2, 1.25, 4], [0.25, 2.5, 3, -1.5], [0.5, 3, -8, 1]], (1, 64)),
    "hyp2f1": (mpmath.hyp2f1, [[0.5, 2, -3, 1.25, 4, -2.5, 3, 2], [0.25, 2.5, 1.5, 3, -1.5, 6, 1.25, 1], [1.5, 3, 2, 2.5, 3, 1.5, 0.75, 5],
                               [0.5, -0.75, 2.5, -8, 0.875, -0.5, 0.984375, 1]], (1, 64)),
    "hyp2f1_grad_a": (lambda a, b, c, x: mpmath.diff(lambda v: mpmath.hyp2f1(v, b, c, x), a),
                      [[0.5, 2, 1.25, 4, 3], [0.25, 2.5, 3, -1.5, 1.25], [1.5, 3, 2.5, 3, 0.75], [0.5, -0.75, -8, 0.875, 0.9375]], (1, 64)),
    "hyp2f1_grad_c": (lambda a, b, c, x: mpmath.diff(lambda v: mpmath.hyp2f1(a, b, v, x), c),
                      [[0.5, 2, 1.25, 4, 3], [0.25, 2.5, 3, -1.5, 1.25], [1.5, 3, 2.5, 3, 0.75], [0.5, -0.75, -8, 0.875, 0.9375]], (1, 64)),
    "igammac": (lambda a, x: mpmath.gammainc(a, x, mpmath.inf, regularized=True),
                [[0.5, 2, 8, 0.25, 3, 10, 40], [0.25, 2.5, 3, 4, 3, 12, 36]], (1, 64)),
    "igamma_grad_a": (lambda a, x: mpmath.diff(lambda b: mpmath.gammainc(b, 0, x, regularized=True), a),
                      [[0.5, 2, 8, 3, 10], [0.25, 2.5, 3, 3, 12]], (2, 64)),
    "betainc": (lambda a, b, x: mpmath.betainc(a, b, 0, x, regularized=True),
                [[0.5, 2, 8, 1, 3, 20], [0.5, 3, 2, 4, 0.25, 30], [0.25, 0.5, 0.875, 0.125, 0.75, 0.375]], (1, 256)),
}
PRECISE_COMPLEX = {
    "exp": mpmath.exp, "expm1": mpmath.expm1, "log": mpmath.log, "log1p": lambda z: mpmath.log(1 + z),
    "sqrt": mpmath.sqrt, "rsqrt": lambda z: 1 / mpmath.sqrt(z), "logistic": lambda z: 1 / (1 + mpmath.exp(-z)),
    "sin": mpmath.sin, "cos": mpmath.cos, "tan": mpmath.tan, "sinh": mpmath.sinh, "cosh": mpmath.cosh,
    "tanh": mpmath.tanh, "arcsin": mpmath.asin, "arccos": mpmath.acos, "arctan": mpmath.atan, "arcsinh": mpmath.asinh,
    "arccosh": mpmath.acosh, "arctanh": mpmath.atanh,
}


def rounded(value, short):
    """An exact or very precise real number, rounded to a dtype; results that leave its range become infinite."""
    return np.asarray(np.float64(float(value))).astype(NUMPY[short])


def precise_unary(function, short):
    """Operands and results of a function where it is defined and finite."""
    kept, results = [], []
    for x in floats(short):
        if not np.isfinite(x):
            continue
        try:
            result = function(mpmath.mpf(float(x)))
        except (ZeroDivisionError, ValueError):
            continue
        if isinstance(result, mpmath.mpc) or not mpmath.isfinite(result):
            continue
        value = rounded(result, short)
        smallest = float(ml_dtypes.finfo(NUMPY[short]).smallest_normal)
        if not np.isfinite(value) or (result != 0 and abs(float(value)) < smallest):
            continue
        kept.append(x)
        results.append(value)
    return np.array(kept, NUMPY[short]), np.array(results, NUMPY[short])


def precise_binary(function, short):
    kept, results = [], []
    for x, y in itertools.product([0.0, 0.5, -1.5, 2, 10.25, -0.1], [1.0, -2, 0.5, 3, 0.1, 7]):
        x, y = (float(NUMPY[short](value)) for value in (x, y))
        result = function(mpmath.mpf(x), mpmath.mpf(y))
        if isinstance(result, mpmath.mpc) or not mpmath.isfinite(result):
            continue
        kept.append((x, y))
        results.append(rounded(result, short))
    columns = np.array(kept).astype(NUMPY[short])
    return columns[:, 0], columns[:, 1], np.array(results, NUMPY[short])


def complex_function_cases():
    """Of points off the branch cuts."""
    for op, function in PRECISE_COMPLEX.items():
        for short in COMPLEX:
            z = np.array([0.5 + 0.25j, -1.5 - 2.5j, 3 + 4j, -0.125 + 0.375j, 1e-3 + 2e-3j, 10 - 7j, -2 + 0.5j],
                         NUMPY[short])
            values = [function(mpmath.mpc(float(v.real), float(v.imag))) for v in z]
            yield case(op, [z], np.array([complex(v) for v in values]).astype(NUMPY[short]), within=8)


def power_cases():
    for short in FLOATS:
        kept, results = [], []
        for x, y in itertools.product([0.5, 1.5, 2, 3, 10.25, 0.1, -2, -1.5], [0, 1, -1, 2, 3, 0.5, -2.5, 4]):
            if x < 0 and y != int(y):
                continue
            x, y = (float(NUMPY[short](value)) for value in (x, y))
            value = rounded(mpmath.power(x, y), short)
            if np.isfinite(value):
                kept.append((x, y))
                results.append(value)
        columns = np.array(kept).astype(NUMPY[short])
        yield case("power", [columns[:, 0], columns[:, 1]], np.array(results, NUMPY[short]), within=1)


def complex_cases():
    """Products, quotients and moduli of complex numbers, from exact arithmetic."""
    for short in COMPLEX:
        x, y = pairs(complexes(short))  # All of them: nothing else tests complex arithmetic.
        exact = lambda z: (Fraction(float(z.real)), Fraction(float(z.imag)))
        products, quotients, divisible = [], [], []
        for a, b in zip(x, y):
            (ar, ai), (br, bi) = exact(a), exact(b)
            products.append(complex(float(ar * br - ai * bi), float(ar * bi + ai * br)))
            norm = br * br + bi * bi
            if norm != 0:
                divisible.append((a, b))
                quotients.append(complex(float((ar * br + ai * bi) / norm), float((ai * br - ar * bi) / norm)))
        yield case("multiply", [x, y], np.array(products, NUMPY[short]), within=2)
        columns = np.array(divisible, NUMPY[short])
        yield case("divide", [columns[:, 0], columns[:, 1]], np.array(quotients, NUMPY[short]), within=4)
        z = complexes(short)
        modulus = [float(mpmath.sqrt(mpmath.mpf(float(v.real)) ** 2 + mpmath.mpf(float(v.imag)) ** 2)) for v in z]
        yield case("abs", [z], np.array(modulus, np.float32 if short == "c64" else np.float64), within=1)


def threefry_case():
    """Keys and counters as numbers of 64 bits, of which the lower half is the first word."""
    keys, counters = pairs(np.array([0, 1, 2**32 - 1, 2**32, 0x0123456789ABCDEF, 2**64 - 1], np.uint64))
    words = [[(pair & 0xFFFFFFFF).astype(np.uint32), (pair >> 32).astype(np.uint32)] for pair in (keys, counters)]
    blocks = [np.asarray(threefry_2x32(key, counter)).astype(np.uint64)
              for key, counter in zip(np.stack(words[0], -1), np.stack(words[1], -1))]
    return case("threefry2x32", [keys, counters], np.array([block[0] | block[1] << 32 for block in blocks]))


def philox_case():
    """Streams of XLA's generator, whose state is the key and the start of the counter, of 64 bits each."""
    firsts = np.array([0, 2**32 - 1, 0x0123456789ABCDEF, 2**64 - 1], np.uint64)
    keys, starts = pairs(firsts)
    positions = np.resize(np.array([0, 1, 2, 3, 6, 11], np.uint64), keys.shape)
    words = []
    for key, start, position in zip(keys, starts, positions):
        state = jnp.array([key, start], jnp.uint64)
        words.append(lax.rng_bit_generator(state, (12,), jnp.uint64, lax.RandomAlgorithm.RNG_PHILOX)[1][int(position)])
    return case("philox4x32", [keys, starts, positions], np.array(words, np.uint64))


def quick_erf_inv_cases():
    """JAX's own function, by the same polynomials; it is as exact as they are away from 1."""
    for short in FLOATS:
        x = np.array([0, 0.5, -0.5, 0.0625, -0.875, 0.9375, 0.99609375, -0.99609375], NUMPY[short])
        yield case("quick_erf_inv", [x], lax.erf_inv(x), within=4)
        x = np.array([1, -1, 1.5], NUMPY[short])
        yield case("quick_erf_inv", [x], lax.erf_inv(x))


def quick_function_cases():
    """JAX's own functions, which these are to the bit in f32; f64 is compared with other formulas."""
    numbers = {
        "log": [1, 0.5, 0.625, 0.7109375, 1.25, 3, 0.0625, 160],
        "log1p": [0, 0.5, -0.5, 0.4140625, -0.4140625, 0.0625, -0.9375, 0.00390625, 3],
        "erf": [0, 0.5, -0.5, 1.4140625, -2.5, 3.75, 4, -6, 0.00390625],
    }
    ends = {"log": [0, -1, np.inf, np.nan], "log1p": [-1, -2, np.inf, np.nan], "erf": [np.inf, -np.inf, np.nan]}
    for short, (name, values) in itertools.product(FLOATS, numbers.items()):
        x = np.array(values, NUMPY[short])
        yield case(f"quick_{name}", [x], getattr(lax, name)(x), within=0 if short == "f32" else 1)
        x = np.array(ends[name], NUMPY[short])
        yield case(f"quick_{name}", [x], getattr(lax, name)(x))


def conversion_cases():
    for source, target in itertools.product(BOOL + INTEGERS + FLOATS + COMPLEX, repeat=2):
        if source in COMPLEX and target not in COMPLEX:
            continue
        if source in FLOATS and target in INTEGERS:
            x = np.array([0, 1, 1.5, 2.75, 3, 100], NUMPY[source])  # Others leave the range of some integer.
        else:
            x = values_of(source)
        yield case("convert", [x], jnp.asarray(x).astype(NUMPY[target]), attrs={"dtype": target})


def elementwise():
    for op, dtypes in UNARY.items():
        for short in dtypes:
            x = values_of(short)
            yield case(op, [x], getattr(jnp, op, getattr(lax, op, None))(x))
    for op, dtypes in BINARY.items():
        for short in dtypes:
            values = few_values_of(short)
            if op in ("maximum", "minimum", "fmax", "fmin") and short in FLOATS:
                values = np.delete(values, 1)  # XLA may give either zero for -0 and 0.
            if op == "power":
                values = values[values < 100]
            x, y = pairs(values)
            if op == "power":
                keep = y >= 0
                x, y = x[keep], y[keep]
            if op in ("gcd", "lcm"):
                keep = (x != np.iinfo(x.dtype).min) & (y != np.iinfo(x.dtype).min)
                x, y = x[keep], y[keep]
            # XLA takes subnormal numbers for zero, and NumPy does not.
            functions = {"nextafter": lambda x, y: np.where(x == y, y, np.nextafter(x, y)), "shift_right_logical": lax.shift_right_logical}
            yield case(op, [x, y], functions.get(op, getattr(jnp, op, None))(x, y))
    for op, function in PRECISE.items():
        for short in FLOATS:
            x, result = precise_unary(function, short)
            yield case(op, [x], result, within=LOOSE.get(op, (1, 1))[short == "f64"])
    for op, (function, columns, within) in SPECIAL.items():
        for short in FLOATS:
            arguments = [np.array(column, NUMPY[short]) for column in columns]
            rows = zip(*([mpmath.mpf(float(x)) for x in column] for column in arguments))
            results = np.array([rounded(function(*row), short) for row in rows], NUMPY[short])
            keep = np.isfinite(results)
            yield case(op, [column[keep] for column in arguments], results[keep], within=within[short == "f64"])
    for op, function in PRECISE_BINARY.items():
        for short in FLOATS:
            x, y, result = precise_binary(function, short)
            yield case(op, [x, y], result, within=8 if op.startswith("logaddexp") else 2)
    yield from complex_function_cases()
    for short, parts in (("c64", np.float32), ("c128", np.float64)):
        x, y = pairs(np.array([0.0, -0.0, 1.5, -2, np.inf, np.nan], parts))
        yield case("complex", [x, y], lax.complex(x, y))
    yield from power_cases()
    yield from complex_cases()
    yield threefry_case()
    yield philox_case()
    yield from quick_erf_inv_cases()
    yield from quick_function_cases()
    for short in BOOL + INTEGERS + FLOATS + COMPLEX:
        x = values_of(short)
        condition = np.arange(x.size) % 3 == 1
        yield case("select", [condition, x, x[::-1].copy()], jnp.where(condition, x, x[::-1]))
    yield from conversion_cases()


# ---- Reductions and contractions.


def exact(value):
    return Fraction(float(value))


def random(rng, shape, short):
    if short == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if short in INTEGERS:
        info = np.iinfo(NUMPY[short])
        return rng.integers(info.min, info.max, shape, dtype=NUMPY[short], endpoint=True)
    if short in COMPLEX:
        return (rng.uniform(-2, 2, shape) + 1j * rng.uniform(-2, 2, shape)).astype(NUMPY[short])
    return rng.uniform(-2, 2, shape).astype(NUMPY[short])


def exact_reduction(x, axes, kind):
    """Sums and products of floats, in exact arithmetic."""
    kept = [d for d in range(x.ndim) if d not in axes]
    shape = [x.shape[d] for d in kept]
    moved = np.transpose(x, kept + list(axes)).reshape(shape + [-1])
    out = np.empty(shape, x.dtype)
    for index in np.ndindex(*shape):
        total = Fraction(0 if kind == "sum" else 1)
        for value in moved[index]:
            total = total + exact(value) if kind == "sum" else total * exact(value)
        out[index] = rounded(total, SHORT[x.dtype])
    return out


def exact_complex_sum(x, axes):
    parts = [exact_reduction(part, axes, "sum") for part in (x.real.astype(np.float64), x.imag.astype(np.float64))]
    return (parts[0] + 1j * parts[1]).astype(x.dtype)


def reduction_cases(rng):
    for axes in [(0,), (1,), (0, 1), (0, 2), (0, 1, 2), ()]:
        for short in BOOL + INTEGERS + FLOATS + COMPLEX:
            x = random(rng, (3, 4, 2), short)
            within = 4 if short in ("f64", "c64", "c128") else 1
            attrs = {"axes": dims(axes)}
            if short in FLOATS:
                for kind in ("sum", "prod"):
                    # Of numbers of one sign: a difference of nearly equal sums has few correct digits.
                    yield case(f"reduce_{kind}", [abs(x)], exact_reduction(abs(x), axes, kind), within, attrs)
            elif short in COMPLEX:
                yield case("reduce_sum", [x], exact_complex_sum(x, axes), within * 4, attrs)
            elif short in INTEGERS:
                for kind in ("sum", "prod"):
                    result = getattr(jnp, kind)(x, axis=axes, dtype=x.dtype)
                    yield case(f"reduce_{kind}", [x], result, 0, attrs)
            if short not in COMPLEX:
                if short in FLOATS and axes == (1,):
                    x[0, 1, 0], x[1, 2, 1], x[2, 3, 0] = np.nan, np.inf, -np.inf
                for kind in ("max", "min"):
                    yield case(f"reduce_{kind}", [x], getattr(jnp, kind)(x, axis=axes), 0, attrs)
            if short in BOOL + INTEGERS:
                for kind, function in (("and", np.bitwise_and), ("or", np.bitwise_or)):
                    yield case(f"reduce_{kind}", [x], function.reduce(x, axis=axes), 0, attrs)


def exact_dot(x, y, numbers):
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = numbers
    lhs_free = [d for d in range(x.ndim) if d not in lhs_contract and d not in lhs_batch]
    rhs_free = [d for d in range(y.ndim) if d not in rhs_contract and d not in rhs_batch]
    a = np.transpose(x, list(lhs_batch) + lhs_free + list(lhs_contract))
    b = np.transpose(y, list(rhs_batch) + rhs_free + list(rhs_contract))
    batch = [x.shape[d] for d in lhs_batch]
    rows = [x.shape[d] for d in lhs_free]
    columns = [y.shape[d] for d in rhs_free]
    out = np.empty(batch + rows + columns, x.dtype)
    for index in np.ndindex(*out.shape):
        g, i, j = index[: len(batch)], index[len(batch) : len(batch) + len(rows)], index[len(batch) + len(rows) :]
        terms = zip(a[g + i].ravel(), b[g + j].ravel())
        out[index] = rounded(sum(exact(p) * exact(q) for p, q in terms), SHORT[x.dtype])
    return out


def dot_cases(rng):
    forms = [
        ((2, 3), (3, 4), (((1,), (0,)), ((), ()))),
        ((3, 2), (4, 3), (((0,), (1,)), ((), ()))),
        ((2, 3, 4), (4, 2, 5), (((2,), (0,)), ((0,), (1,)))),
        ((2, 3, 4), (4, 3, 2), (((1, 2), (1, 0)), ((), ()))),
        ((3,), (3,), (((0,), (0,)), ((), ()))),
        ((2,), (3,), (((), ()), ((), ()))),
        ((2, 3), (3, 2), (((), ()), ((0, 1), (1, 0)))),
    ]
    for left, right, form in forms:
        (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = form
        attrs = {
            "lhs_contract": dims(lhs_contract), "rhs_contract": dims(rhs_contract), "lhs_batch": dims(lhs_batch),
            "rhs_batch": dims(rhs_batch),
        }
        for short in INTEGERS + FLOATS:
            x, y = random(rng, left, short), random(rng, right, short)
            if short in FLOATS:
                x, y = abs(x), abs(y)
                yield case("dot_general", [x, y], exact_dot(x, y, form), 4 if short == "f64" else 1, attrs)
            else:
                result = lax.dot_general(x, y, form, preferred_element_type=x.dtype)
                yield case("dot_general", [x, y], result, 0, attrs)


def reductions():
    rng = np.random.default_rng(7)
    yield from reduction_cases(rng)
    yield from dot_cases(rng)


# ---- Movement and creation.


def window_cases(short, some):
    x = some((2, 3, 4))
    for dim, others in [(0, [(1, 3, 4)]), (1, [(2, 2, 4), (2, 0, 4)]), (2, [(2, 3, 1), (2, 3, 4)]), (1, [])]:
        parts = [x] + [some(shape) for shape in others]
        yield case("concatenate", parts, lax.concatenate(parts, dim), attrs={"dim": dim})
    value = some(())
    for config in [((1, 2, 0), (0, 0, 0), (0, 3, 0)), ((0, 0, 2), (1, -1, 1), (-2, 1, 0)), ((2, -1, 3), (-2, -1, 0), (0, 0, 0)),
                   ((1, 0, 0), (-1, 1, 2), (-3, -2, 1))]:
        low, high, interior = zip(*config)
        yield case("pad", [x, value], lax.pad(x, value, config),
                   attrs={"low": dims(low), "high": dims(high), "interior": dims(interior)})
    for reversed_dims in [(), (0,), (2, 1), (0, 1, 2)]:
        yield case("reverse", [x], lax.rev(x, reversed_dims), attrs={"dims": dims(reversed_dims)})
    for shifts in [(0, 0, 0), (1, 0, 2), (0, 2, 0)]:
        rolled = jnp.roll(x, shifts, axis=(0, 1, 2))
        yield case("roll", [x], rolled, attrs={"shifts": dims([s % n for s, n in zip(shifts, x.shape)])})
    for starts, sizes in [((0, 0, 0), (2, 3, 4)), ((1, 1, 2), (1, 2, 1)), ((1, 7, 3), (2, 1, 3)), ((0, 1, 0), (2, 0, 4))]:
        indices = [np.array(start, np.int32) for start in starts]
        yield case("dynamic_slice", [x] + indices, lax.dynamic_slice(x, starts, sizes), attrs={"sizes": dims(sizes)})
        update = some(sizes)
        yield case("dynamic_update_slice", [x, update] + indices, lax.dynamic_update_slice(x, update, starts))
    same = lambda target: short == target or short not in BOOL + COMPLEX and target not in BOOL + COMPLEX
    for target in filter(same, NUMPY):
        ratio = np.dtype(NUMPY[target]).itemsize // np.dtype(NUMPY[short]).itemsize
        y = some((3, ratio) if ratio > 1 else (3, 2))
        result = lax.bitcast_convert_type(y, NUMPY[target])
        # A NaN's text does not tell which one it is.
        if not (target in FLOATS and np.isnan(np.asarray(result).astype(np.float64)).any()):
            yield case("bitcast", [y], result, attrs={"dtype": target})


def movement():
    for short in BOOL + INTEGERS + FLOATS + COMPLEX:
        rng = np.random.default_rng(3)
        some = lambda shape: random(rng, shape, "i16" if short not in BOOL + INTEGERS else short).astype(NUMPY[short])
        x = some((2, 3, 4))
        for perm in itertools.permutations(range(3)):
            yield case("transpose", [x], lax.transpose(x, perm), attrs={"perm": dims(perm)})
        for shape in [(6, 4), (24,), (4, 3, 2), (2, 1, 12), (2, 3, 2, 2)]:
            yield case("reshape", [x], lax.reshape(x, shape), attrs={"shape": dims(shape)})
        for starts, limits, strides in [((0, 0, 0), (2, 3, 4), (1, 1, 1)), ((1, 0, 1), (2, 3, 4), (1, 2, 2)),
                                        ((0, 1, 0), (2, 1, 4), (1, 1, 3))]:
            yield case("slice", [x], lax.slice(x, starts, limits, strides),
                       attrs={"starts": dims(starts), "limits": dims(limits), "strides": dims(strides)})
        for source, shape, at in [((2, 3), (4, 2, 3), (1, 2)), ((2, 3), (2, 5, 3), (0, 2)), ((1, 3), (4, 3), (0, 1)),
                                  ((), (2, 2), ()), ((2, 3), (2, 3), (0, 1))]:
            y = some(source)
            yield case("broadcast_in_dim", [y], lax.broadcast_in_dim(y, shape, at),
                       attrs={"shape": dims(shape), "dims": dims(at)})
        if short != "bool":
            for dim in (0, 1):
                result = lax.broadcasted_iota(NUMPY[short], (3, 4), dim)
                yield case("iota", [], result, attrs={"shape": "(3, 4)", "dtype": short, "dim": dim})
        value = random(rng, (), short)
        text = ("true" if value else "false") if short == "bool" else number(value).replace(",", ", ")
        if short not in FLOATS + COMPLEX:
            yield case("full", [], lax.full((2, 3), value), attrs={"shape": "(2, 3)", "value": f"{short}({text})"})
        yield from window_cases(short, some)


# ---- Items by index.


def form(at, array_batch=(), index_batch=(), **more):
    return {"dims": dims(at), "array_batch": dims(array_batch), "index_batch": dims(index_batch), **more}


def items():
    rng = np.random.default_rng(5)
    one = np.array([2, 0, 3, 4, -7], np.int32)  # 4 and -7 are outside.
    two = np.array([[1, 0], [3, 1]], np.int8)
    lines = np.array([[1, 0], [2, 2], [0, 5], [1, 1]], np.int64)
    for short in BOOL + INTEGERS + FLOATS + COMPLEX:
        some = lambda shape: random(rng, shape, "i8" if short not in BOOL else short).astype(NUMPY[short])
        zero = np.array(complex(-0.0, -0.0) if short in COMPLEX else -0.0 if short in FLOATS else 0).astype(NUMPY[short])[()]
        inexact = short in FLOATS + COMPLEX
        hole = np.array(np.nan if inexact else 0).astype(NUMPY[short])[()]  # JAX makes 0 of a -0 to fill with.
        filled = lambda result: np.where(np.isnan(result), zero, result) if inexact else result
        get = lambda x, at: filled(np.asarray(x.at[at].get(mode="fill", fill_value=hole)))
        x, y = jnp.asarray(some((4, 3))), jnp.asarray(some((4, 2, 3)))
        yield case("gather", [x, one], get(x, one), attrs=form((0,)))
        yield case("gather", [y, one, one], get(y, (one, slice(None), one)), attrs=form((0, 2)))
        yield case("gather", [y, two], np.transpose(get(y, (slice(None), two)), (1, 2, 0, 3)), attrs=form((1,)))
        along = filled(np.asarray(jnp.take_along_axis(x, lines, 1, mode="fill", fill_value=hole)))
        yield case("gather", [x, lines], along, attrs=form((1,), (0,), (0,)))
        # An index twice: numpy keeps the last update, as this library does.
        at = np.array([1, 3, 1], np.int32)
        updates, replaced = some((3, 2, 3)), np.array(y)
        replaced[at] = updates
        yield case("scatter", [y, updates, at], replaced, attrs=form((0,)))
        updates = some((5, 3))
        yield case("scatter", [x, updates, one], x.at[one].set(updates, mode="drop"), attrs=form((0,)))
        updates = some((2, 2, 4))
        moved = np.transpose(updates, (2, 0, 1))
        unique = np.array([[0, 1], [2, 5]], np.uint8)
        yield case("scatter", [x, updates, unique], x.at[:, unique].set(moved, mode="drop"), attrs=form((1,)))
        for kind, method, neutral in (("sum", "add", zero), ("prod", "multiply", 1), ("max", "max", None),
                                      ("min", "min", None)):
            if kind in ("max", "min") and short in COMPLEX:
                continue
            if neutral is None:
                limits = (False, True) if short in BOOL else (
                    (np.iinfo(NUMPY[short]).min, np.iinfo(NUMPY[short]).max) if short in INTEGERS else (-np.inf, np.inf))
                neutral = limits[kind == "min"]
            start = jnp.full((4, 3), neutral, NUMPY[short])
            updates = some((5, 3))
            if short not in BOOL:
                updates = (updates.real % 4).astype(NUMPY[short])
            at = np.array([1, 1, 3, 1, 4], np.int32)
            if short in BOOL and kind in ("sum", "prod"):
                method = {"sum": "max", "prod": "min"}[kind]
            result = getattr(start.at[at], method)(updates, mode="drop")
            yield case("scatter_reduce", [updates, at], result, attrs=form((0,), shape="(4, 3)", kind=f'"{kind}"'))


# ---- Order.


def cumulative_of(x, dim, kind, reverse):
    """Sums and products of floats, in exact arithmetic."""
    moved = np.moveaxis(np.flip(x, dim) if reverse else x, dim, -1)
    out = np.empty(moved.shape, x.dtype)
    for index in np.ndindex(*moved.shape[:-1]):
        total = Fraction(0 if kind == "cumsum" else 1)
        for i, value in enumerate(moved[index]):
            total = total + exact(value) if kind == "cumsum" else total * exact(value)
            out[index + (i,)] = rounded(total, SHORT[x.dtype])
    out = np.moveaxis(out, -1, dim)
    return np.flip(out, dim) if reverse else out


def log_cumulative_of(x, dim, reverse):
    moved = np.moveaxis(np.flip(x, dim) if reverse else x, dim, -1)
    out = np.empty(moved.shape, x.dtype)
    for index in np.ndindex(*moved.shape[:-1]):
        total = mpmath.mpf(0)
        for i, value in enumerate(moved[index]):
            total += mpmath.exp(mpmath.mpf(float(value)))
            out[index + (i,)] = rounded(mpmath.log(total), SHORT[x.dtype])
    out = np.moveaxis(out, -1, dim)
    return np.flip(out, dim) if reverse else out


def order():
    rng = np.random.default_rng(6)
    flag = lambda value: "true" if value else "false"
    for short in BOOL + INTEGERS + FLOATS + COMPLEX:
        x = random(rng, (4, 6), short)
        if short not in BOOL + COMPLEX:
            x[:, 3:] = x[:, :3]  # Equal elements.
        if short in FLOATS:
            x[1, 2], x[2, 0], x[3, 5], x[3, 0] = np.nan, np.inf, -np.inf, np.nan
        if short in COMPLEX:
            x[0] = np.array([1 + 2j, 1 - 1j, complex(np.nan, 1), complex(0, np.nan), 0, 1 - 1j])
        where = np.broadcast_to(np.arange(6, dtype=np.int32), x.shape).copy()
        down = np.broadcast_to(np.arange(4, dtype=np.int32)[:, None], x.shape).copy()
        for dim, places in ((0, down), (1, where)):
            attrs = {"dim": dim, "num_keys": 1, "descending": "false"}
            yield case("sort", [x, places], list(lax.sort((x, places), dimension=dim, num_keys=1)), attrs=attrs)
        second = rng.integers(0, 3, x.shape).astype(np.int8)
        yield case("sort", [second, x, where], list(lax.sort((second, x, where), dimension=1, num_keys=2)),
                   attrs={"dim": 1, "num_keys": 2, "descending": "false"})
        if short not in COMPLEX:
            descending = jnp.argsort(x, axis=1, descending=True).astype(np.int32)
            yield case("sort", [x, where], [np.take_along_axis(x, np.asarray(descending), 1), descending],
                       attrs={"dim": 1, "num_keys": 1, "descending": "true"})
            for dim, k in ((1, 4), (0, 2), (1, 0)):
                places = descending if dim == 1 else jnp.argsort(x, axis=0, descending=True).astype(np.int32)
                places = np.asarray(places)[:, :k] if dim == 1 else np.asarray(places)[:k]
                yield case("top_k", [x], [np.take_along_axis(x, places, dim), places], attrs={"dim": dim, "k": k})
        for dim, reverse in ((0, False), (1, False), (1, True)):
            attrs = {"dim": dim, "reverse": flag(reverse)}
            if short not in COMPLEX:
                for op in ("cummax", "cummin"):
                    function = getattr(lax, op)
                    same = x.astype(np.int8) if short in BOOL else x
                    yield case(op, [x], np.asarray(function(same, dim, reverse)).astype(x.dtype), attrs=attrs)
            y = random(rng, (3, 5), short)
            if short in FLOATS:
                within = 4 if short == "f64" else 1
                for op in ("cumsum", "cumprod"):
                    yield case(op, [abs(y)], cumulative_of(abs(y), dim, op, reverse), within, attrs)
                yield case("cumlogsumexp", [y], log_cumulative_of(y, dim, reverse), within, attrs)
            elif short in INTEGERS:
                for op in ("cumsum", "cumprod"):
                    yield case(op, [y], getattr(lax, op)(y, dim, reverse), attrs=attrs)


# ---- Matrices. Computed in 64 bits and rounded; what is not unique is left out.

WIDE = {"f32": np.float64, "f64": np.float64, "c64": np.complex128, "c128": np.complex128}


def linalg():
    rng = np.random.default_rng(7)
    flag = lambda value: "true" if value else "false"
    for short in ("f32", "f64", "c64", "c128"):
        within = 2000  # Beside elements that are small by cancellation.
        wide = lambda x: jnp.asarray(np.asarray(x).astype(WIDE[short]))
        some = lambda *shape: (rng.integers(-40, 40, shape) / 8 + (
            1j * rng.integers(-40, 40, shape) / 8 if short in COMPLEX else 0)).astype(NUMPY[short])
        # Where a dtype is real, as for singular values, that of the operand's parts.
        narrow = lambda x: np.asarray(x) if np.asarray(x).dtype.kind == "i" else np.asarray(x).astype(
            NUMPY[short] if np.asarray(x).dtype.kind == "c" or short in FLOATS else NUMPY[short](0).real.dtype)
        results = lambda values: [narrow(value) for value in values]
        for n in (0, 1, 3, 5):
            a = some(2, n, n)
            definite = narrow(wide(a) @ wide(a).conj().mT + 4 * np.eye(n))
            yield case("cholesky", [definite], narrow(lax.linalg.cholesky(wide(definite), symmetrize_input=False)), within)
            hermitian = narrow(wide(a) + wide(a).conj().mT)
            vectors, values = lax.linalg.eigh(wide(hermitian), symmetrize_input=False)
            yield case("eigh", [hermitian], results([values, vectors.astype(WIDE[short])]), within, keep=[0])
            for lower, unit in itertools.product((False, True), repeat=2):
                triangle = (a + 8 * np.eye(n)).astype(NUMPY[short]) if not unit else a / 16
                sides = some(2, n, 3)
                solution = lax.linalg.triangular_solve(wide(triangle), wide(sides), left_side=True, lower=lower,
                                                       unit_diagonal=unit)
                yield case("triangular_solve", [triangle, sides], narrow(solution), within,
                           {"lower": flag(lower), "unit_diagonal": flag(unit)})
        indefinite = np.array([[1, 2], [2, 1]], NUMPY[short])
        nan = complex(np.nan, np.nan) if short in COMPLEX else np.nan
        yield case("cholesky", [indefinite], np.array([[nan, 0], [nan, nan]], NUMPY[short]))
        for m, n in ((1, 1), (4, 4), (5, 3), (3, 5), (3, 0), (0, 2)):
            a = some(2, m, n)
            yield case("lu", [a], results(lax.linalg.lu(wide(a))), within)
            for full in (False, True):
                attrs = {"full": flag(full)}
                yield case("qr", [a], results(lax.linalg.qr(wide(a), full_matrices=full)), within, attrs)
                u, s, vh = jnp.linalg.svd(wide(a), full_matrices=full)
                yield case("svd", [a], results([u, s, vh]), within, attrs, keep=[1])


# ---- Windows.


def moves(strides, padding, base_dilation, window_dilation, **more):
    low, high = zip(*padding) if padding else ((), ())
    return {"strides": dims(strides), "low": dims(low), "high": dims(high), "base_dilation": dims(base_dilation),
            "window_dilation": dims(window_dilation), **more}


CONVOLUTIONS = [  # Shapes of the operands, groups, strides, padding, dilation of the left operand and of the window.
    ((2, 4), (3, 4), 1, (), (), (), ()),
    ((2, 3, 7), (4, 3, 3), 1, (1,), ((0, 0),), (1,), (1,)),
    ((2, 3, 7), (4, 3, 3), 1, (2,), ((1, 2),), (1,), (2,)),
    ((1, 2, 5), (2, 2, 2), 1, (1,), ((2, -1),), (3,), (1,)),
    ((2, 4, 5), (6, 2, 3), 2, (1,), ((1, 1),), (1,), (1,)),
    ((2, 3, 5), (6, 1, 2), 3, (1,), ((1, 0),), (1,), (1,)),
    ((2, 2, 5, 4), (3, 2, 3, 2), 1, (1, 2), ((1, 1), (0, 1)), (1, 1), (1, 1)),
    ((1, 2, 3, 4), (2, 2, 1, 3), 1, (1, 1), ((0, 0), (2, 2)), (2, 1), (1, 2)),
    ((1, 2, 3, 2, 3), (2, 1, 2, 2, 2), 2, (1, 1, 1), ((0, 0), (1, 0), (0, 1)), (1, 1, 1), (1, 1, 1)),
    ((2, 3, 2), (4, 3, 5), 1, (1,), ((0, 0),), (1,), (1,)),
]
WINDOWS = [  # Shape, window, strides, padding, dilations.
    ((3, 7), (1, 3), (1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1)),
    ((3, 7), (2, 3), (1, 2), ((1, 0), (2, 2)), (1, 1), (1, 1)),
    ((2, 5, 6), (1, 2, 2), (1, 2, 2), ((0, 0), (0, 1), (0, 0)), (1, 1, 1), (1, 1, 1)),
    ((8,), (3,), (2,), ((1, 3),), (2,), (2,)),
    ((3,), (5,), (1,), ((0, 0),), (1,), (1,)),
]


def convolution():
    rng = np.random.default_rng(8)
    for short in INTEGERS + FLOATS + COMPLEX:
        # Small integers, whose sums every dtype holds.
        some = lambda *shape: (rng.integers(0 if short[0] == "u" else -3, 4, shape) + (
            1j * rng.integers(-3, 4, shape) if short in COMPLEX else 0)).astype(NUMPY[short])
        for left, right, groups, strides, padding, base, window in CONVOLUTIONS:
            x, y = some(*left), some(*right)
            result = lax.conv_general_dilated(x, y, strides, padding, base, window, feature_group_count=groups)
            yield case("convolution", [x, y], np.asarray(result), attrs=moves(strides, padding, base, window))
        functions = {"sum": (0, lax.add), "prod": (1, lax.mul)}
        if short not in COMPLEX:
            limits = (-np.inf, np.inf) if short in FLOATS else (np.iinfo(NUMPY[short]).min, np.iinfo(NUMPY[short]).max)
            functions |= {"max": (limits[0], lax.max), "min": (limits[1], lax.min)}
        for shape, window, strides, padding, base, dilation in WINDOWS:
            for kind, (init, function) in functions.items():
                x = some(*shape)
                result = lax.reduce_window(x, NUMPY[short](init), function, window, strides, padding, base, dilation)
                yield case("reduce_window", [x], np.asarray(result),
                           attrs=moves(strides, padding, base, dilation, window=dims(window), kind=f'"{kind}"'))


# ---- Collectives, on 2 x 4 devices.

MESH = Mesh(np.array(jax.devices()).reshape(2, 4), ("x", "y"))
MESH_TEXT = 'mesh("x"=2, "y"=4; devices 0..7)'


def region(op, attrs, x, in_axes, function, out_axes, local, varying):
    """A shard_map over both axes of one collective; the axes name what splits each dimension."""
    spec = lambda axes: PartitionSpec(*[tuple(a) if len(a) > 1 else (a or None) for a in axes])
    text = lambda axes: "P(" + ", ".join(
        "_" if not a else f'"{a}"' if len(a) == 1 else "(" + ", ".join(f'"{n}"' for n in a) + ")" for a in axes) + ")"
    mapped = jax.shard_map(function, mesh=MESH, in_specs=spec(in_axes) if x is not None else (),
                           out_specs=spec(out_axes), check_vma=False)
    out = np.asarray(mapped(x) if x is not None else mapped())
    vary = lambda axes: "{V:" + ",".join(sorted(axes)) + "}" if axes else ""
    sizes = {"x": 2, "y": 4}
    piece = lambda shape, axes, short: f"{short}[{','.join(str(n // int(np.prod([sizes[a] for a in names]))) for n, names in zip(shape, axes))}]"
    short = SHORT[out.dtype]
    inputs = [] if x is None else [x]
    yield f"case {op} {short} within 0"
    yield f'graph "case"({", ".join(f"%{i}: {type_text(a)}" for i, a in enumerate(inputs))}) {{'
    head = f'  %1: {type_text(out)} = shard_map({"%0" if inputs else ""}) {{axes = ["x", "y"], body = graph "body" over("x"=2, "y"=4)'
    operand = f'%0: {piece(x.shape, in_axes, short)}{vary("".join(in_axes))}' if inputs else ""
    yield head + f"({operand}) {{"
    yield f"      %1: {local(piece, out, out_axes)}{vary(varying)} = {op}({'%0' if inputs else ''}){attrs_text(attrs)}"
    result = "%1"
    if not local(piece, out, out_axes).endswith(piece(out.shape, out_axes, short)):
        yield f'      %2: {piece(out.shape, out_axes, short)}{vary(varying)} = broadcast_in_dim(%1) {{dims = (), shape = (1)}}'
        result = "%2"
    yield f"      return {result}"
    in_specs = f"specs({text(in_axes)})" if inputs else "specs()"
    yield f"    }}, in_specs = {in_specs}, mesh = {MESH_TEXT}, out_specs = specs({text(out_axes)})}}"
    yield "  return %1"
    yield "}"
    for array in inputs:
        yield "in " + numbers(array)
    yield "out " + numbers(out)


def collectives():
    x = np.arange(8 * 16, dtype=np.int32).reshape(8, 16) * 37 % 101
    whole = lambda piece, out, axes: piece(out.shape, axes, SHORT[out.dtype])
    names = lambda axes: "[" + ", ".join(f'"{a}"' for a in axes) + "]"
    groups = ["x", "y", "xy", "yx"]
    rest = lambda axes: "".join(a for a in "xy" if a not in axes)
    for axes in groups:
        for kind, function in (("sum", lax.psum), ("max", lax.pmax), ("min", lax.pmin)):
            left = rest(axes)
            yield region("all_reduce", {"axes": names(axes), "kind": f'"{kind}"'}, x, ["x", "y"],
                         lambda a, f=function: f(a, tuple(axes)), [left, ""], whole, left)
        for dim in (0, 1):
            yield region("all_gather", {"axes": names(axes), "dim": dim}, x, ["x", "y"],
                         lambda a, d=dim: lax.all_gather(a, tuple(axes), axis=d, tiled=True), ["x", "y"], whole, "xy")
        yield region("reduce_scatter", {"axes": names(axes), "dim": 0, "kind": '"sum"'}, x, ["", "xy"],
                     lambda a: lax.psum_scatter(a, tuple(axes), scatter_dimension=0, tiled=True), ["xy", ""], whole, "xy")
        for split, concat in ((0, 1), (0, 0)):
            yield region("all_to_all", {"axes": names(axes), "split_dim": split, "concat_dim": concat}, x, ["", "xy"],
                         lambda a, s=split, c=concat: lax.all_to_all(a, tuple(axes), s, c, tiled=True), ["yx", ""],
                         whole, "xy")
        # JAX's ppermute counts devices in mesh order however the axes are listed, unlike its axis_index, all_gather and
        # all_to_all, which here all follow the list; so only lists in mesh order are recorded.
        size = {"x": 2, "y": 4, "xy": 8, "yx": 0}[axes]
        rings = ([list(range(size)), [(i + 1) % size for i in range(size)]], [[0], [size - 1]]) if size else ()
        for sources, targets in rings:
            yield region("collective_permute", {"axes": names(axes), "sources": dims(sources), "targets": dims(targets)},
                         x, ["x", "y"],
                         lambda a, s=sources, t=targets: lax.ppermute(a, tuple(axes), list(zip(s, t))), ["x", "y"],
                         whole, "xy")
        # XLA's pbroadcast runs on accelerators only; this is what it stands for.
        yield region("pbroadcast", {"axes": names(axes), "source": 1}, x, ["x", "y"],
                     lambda a: lax.psum(jnp.where(lax.axis_index(tuple(axes)) == 1, a, 0), tuple(axes)),
                     [rest(axes), ""], whole, rest(axes))
        yield region("axis_index", {"axes": names(axes)}, None, [],
                     lambda: lax.axis_index(tuple(axes)).astype(np.int32)[None], ["xy"],
                     lambda piece, out, _: "i32[]", "".join(sorted(axes)))
    # Groups of the positions along one axis.
    for groups in ([[0, 1], [2, 3]], [[3, 0], [1, 2]]):
        attrs = {"axes": names("y"), "groups": dims(sum(groups, [])), "group_sizes": dims(map(len, groups))}
        for kind, function in (("sum", lax.psum), ("max", lax.pmax), ("min", lax.pmin)):
            yield region("all_reduce", {**attrs, "kind": f'"{kind}"'}, x, ["x", "y"],
                         lambda a, f=function: f(a, "y", axis_index_groups=groups), ["x", "y"], whole, "xy")
        yield region("all_gather", {**attrs, "dim": 1}, x, ["x", "y"],
                     lambda a: lax.all_gather(a, "y", axis=1, tiled=True, axis_index_groups=groups), ["x", "y"], whole,
                     "xy")
        yield region("reduce_scatter", {**attrs, "dim": 0, "kind": '"sum"'}, x, ["x", "y"],
                     lambda a: lax.psum_scatter(a, "y", scatter_dimension=0, tiled=True, axis_index_groups=groups),
                     ["x", "y"], whole, "xy")
        yield region("all_to_all", {**attrs, "split_dim": 0, "concat_dim": 1}, x, ["x", "y"],
                     lambda a: lax.all_to_all(a, "y", 0, 1, tiled=True, axis_index_groups=groups), ["x", "y"], whole,
                     "xy")
    uneven = [[0, 1, 3], [2]]
    yield region("all_reduce", {"axes": names("y"), "groups": dims(sum(uneven, [])), "group_sizes": "(3, 1)",
                                "kind": '"sum"'}, x, ["x", "y"],
                 lambda a: lax.psum(a, "y", axis_index_groups=uneven), ["x", "y"], whole, "xy")
    yield ragged_case(1)
    yield ragged_case(2)


def ragged_case(slices):
    """Rows sent between four devices. XLA has no such exchange on CPUs, so the results are those of plain loops that
    follow the definition."""
    rng = np.random.default_rng(0)
    count = 4 * slices
    send = rng.integers(0, 4, (4, count))
    operand = np.arange(4 * 32, dtype=np.int32).reshape(4, 32) + 100
    output = -np.arange(4 * 32, dtype=np.int32).reshape(4, 32)
    input_offsets = np.cumsum(send, axis=1) - send
    received = send.reshape(4, 4, slices).transpose(1, 0, 2).reshape(4, count)
    starts = np.cumsum(received, axis=1) - received
    output_offsets = starts.reshape(4, 4, slices).transpose(1, 0, 2).reshape(4, count)
    result = output.copy()
    for sender, target, k in itertools.product(range(4), range(4), range(slices)):
        i = target * slices + k
        start, size, to = input_offsets[sender, i], send[sender, i], output_offsets[sender, i]
        result[target, to:to + size] = operand[sender, start:start + size]
    arrays = [operand, output] + [np.asarray(a, np.int32) for a in (input_offsets, send, output_offsets, received)]
    flat = [array.reshape(-1) for array in arrays]
    local = lambda array: f"i32[{array.shape[1]}]{{V:y}}"
    yield "case ragged_all_to_all i32 within 0"
    yield f'graph "case"({", ".join(f"%{i}: {type_text(a)}" for i, a in enumerate(flat))}) {{'
    yield (f'  %6: {type_text(flat[1])} = shard_map({", ".join(f"%{i}" for i in range(6))}) {{axes = ["y"], '
           'body = graph "body" over("y"=4)'
           f'({", ".join(f"%{i}: {local(a)}" for i, a in enumerate(arrays))}) {{')
    yield f'      %6: {local(output)} = ragged_all_to_all({", ".join(f"%{i}" for i in range(6))}) {{axes = ["y"]}}'
    yield "      return %6"
    yield ("    }, in_specs = specs(" + ", ".join(['P("y")'] * 6) + '), mesh = mesh("y"=4; devices 0..3), '
           'out_specs = specs(P("y"))}')
    yield "  return %6"
    yield "}"
    for array in flat:
        yield "in " + numbers(array)
    yield "out " + numbers(result)


# ---- Fourier transforms.


def fft():
    rng = np.random.default_rng(9)
    for short in ("c64", "c128"):
        real, close = ("f32", 64) if short == "c64" else ("f64", 256)
        # Sums of small integers, of which none is much smaller than the others.
        some = lambda shape: rng.integers(1, 9, shape)
        for shape, axes in (((1,), (0,)), ((2,), (0,)), ((7,), (0,)), ((8,), (0,)), ((2, 12), (1,)), ((3, 5), (0,)),
                            ((4, 6), (0, 1)), ((4, 3, 5), (2, 0)), ((101,), (0,)), ((2, 3, 4), (0, 1, 2))):
            attrs = lambda kind: {"transform": f'"{kind}"', "dims": dims(axes), "lengths": dims(shape[axis] for axis in axes)}
            lengths = [shape[axis] for axis in axes]
            within = close if lengths[0] < 100 else 16 * close  # Some sums are much smaller than what is summed.
            x = (some(shape) + 1j * some(shape)).astype(NUMPY[short])
            for kind in ("fft", "ifft"):
                result = getattr(jnp.fft, kind + "n")(x.astype(np.complex128), lengths, axes)
                yield case("fft", [x], np.asarray(result).astype(NUMPY[short]), within, attrs(kind))
            x = some(shape).astype(NUMPY[real])
            half = np.asarray(jnp.fft.rfftn(x.astype(np.float64), lengths, axes)).astype(NUMPY[short])
            yield case("fft", [x], half, within, attrs("rfft"))
            result = jnp.fft.irfftn(half.astype(np.complex128), lengths, axes)
            yield case("fft", [half], np.asarray(result).astype(NUMPY[real]), within, attrs("irfft"))


# ---- Attention: by jax.nn.dot_product_attention in f64, and its vjp. It has the softmax in f32 nevertheless, so that
# cases of f64 would show nothing. Cases of smaller floats are rounded from these too: JAX rounds their weights on the
# way. The operands are numbers that every dtype has.


def attention():
    rng = np.random.default_rng(10)
    flag = lambda value: "true" if value else "false"
    forms = itertools.product(("f32", "f16", "bf16"), ((2, 3, 4, 1, 2, 3), (1, 3, 5, 2, 1, 2), (1, 20, 18, 1, 1, 1)),
                              (False, True), ("", "bias", "mask", "bias mask"))
    for dtype, (b, t, s, k, g, h), causal, others in forms:
        some = lambda *shape: (rng.integers(-16, 17, shape) / 8).astype(NUMPY[dtype])
        query, key, value, cotangent = some(b, t, k, g, h), some(b, s, k, h), some(b, s, k, h), some(b, t, k, g, h)
        bias, mask = some(1, k, g, t, s), rng.random((b, 1, 1, t, s)) < 0.7
        wide = lambda x: jnp.asarray(x.astype(np.float64))
        joined = lambda x: x.reshape(x.shape[0], x.shape[1] * x.shape[2], t, s)

        def attend(q, x, y):
            made = jax.nn.dot_product_attention(
                q.reshape(b, t, k * g, h), x, y, wide(joined(bias)) if "bias" in others else None,
                joined(mask) if "mask" in others else None, scale=0.5, is_causal=causal)
            return made.reshape(b, t, k, g, h)

        result, pull = jax.vjp(attend, wide(query), wide(key), wide(value))
        attrs = {"scale": "f64(0.5)", "causal": flag(causal), "biased": flag("bias" in others),
                 "masked": flag("mask" in others)}
        given = [query, key, value] + [bias] * ("bias" in others) + [mask] * ("mask" in others)
        narrow = lambda x: np.asarray(x).astype(NUMPY[dtype])
        bound, bound_of_gradient = (500, 20000) if dtype == "f32" else (2, 4)  # Small ones by cancellation.
        yield case("attention", given, narrow(result), bound, attrs)
        gradients = [narrow(x) for x in pull(wide(cotangent))]
        yield case("attention_gradient", [cotangent] + given, gradients, bound_of_gradient, attrs)


FILES = {
    "elementwise": elementwise, "reductions": reductions, "movement": movement, "collectives": collectives,
    "items": items, "order": order, "linalg": linalg, "convolution": convolution,
    "fft": fft, "attention": attention,
}
for name in sys.argv[1:] or FILES:
    write(name, FILES[name]())
