#!/usr/bin/env python3
"""Records what NumPy and JAX do as tables for the tests of src/core: run it in the root of the repository.

Needs numpy, ml_dtypes and jax (0.12). Writes src/core/testdata/{promotion,rounding,format_cases}.inc.
"""

import warnings

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_enable_x64", True)
warnings.simplefilter("ignore")

SHORT = {
    "bool": "bool", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16",
    "uint32": "u32", "uint64": "u64", "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
    "complex64": "c64", "complex128": "c128",
}


def write(name, lines):
    with open(f"src/core/testdata/{name}.inc", "w", encoding="utf-8") as file:
        file.write("// Written by tools/record_core_cases.py. Do not edit.\n")
        file.writelines(line + "\n" for line in lines)


def with_weakness(array, weak):
    return jax._src.lax.lax._convert_element_type(array, array.dtype, weak_type=weak)


# ---- Promotion: one row and one column per type, weak ones marked by a star.


def kind_of(dtype):
    return "float" if dtype.name == "bfloat16" else {"i": "int", "u": "int", "f": "float", "c": "complex"}[dtype.kind]


def promote(a, b):
    """JAX's result type. A weak result of JAX has the width of Python's scalars; Shoal's that of its weak operand."""
    arrays = [with_weakness(jnp.zeros((), dtype), weak) for dtype, weak in (a, b)]
    dtype, weak = jax._src.dtypes.lattice_result_type(*arrays)
    if weak and not (a[1] and b[1]):
        for operand, operand_weak in (a, b):
            if operand_weak and kind_of(np.dtype(operand)) == kind_of(dtype):
                dtype = np.dtype(operand)
    return SHORT[dtype.name] + ("*" if weak else "")


def promotion():
    types = [(name, False) for name in SHORT]
    types += [(name, True) for name in ("int32", "float32", "complex64", "int64", "float64", "complex128", "int8", "bfloat16")]
    names = [SHORT[name] + ("*" if weak else "") for name, weak in types]
    yield 'R"('
    yield " ".join(f"{name:5}" for name in ["."] + names).rstrip()
    for name, a in zip(names, types):
        yield " ".join(f"{cell:5}" for cell in [name] + [promote(a, b) for b in types]).rstrip()
    yield ')"'


# ---- Rounding: the bits of an f32, of the f16 nearest to it and of the nearest bf16.


def rounding():
    halves = np.array([0, 1, 2, 3, 0x3FE, 0x3FF, 0x400, 0x401, 0x3BFF, 0x3C00, 0x3C01, 0x7BFE, 0x7BFF], np.uint16)
    brains = np.array([0, 1, 2, 0x7F, 0x80, 0x3F7F, 0x3F80, 0x3F81, 0x7F7E, 0x7F7F], np.uint16)
    with_next = lambda bits, dtype: np.stack([bits, bits + 1]).astype(np.uint16).view(dtype).astype(np.float64)
    ties = np.concatenate([with_next(halves, np.float16)[:, :-1].mean(0), with_next(brains, ml_dtypes.bfloat16)[:, :-1].mean(0)])
    ties = np.append(ties, [65520.0, 65504.0, 65519.996, 65536.0, 3.3961775e38, 3.4028235e38, np.inf]).astype(np.float32)
    near = np.concatenate([ties, np.nextafter(ties, np.float32(0)), np.nextafter(ties, np.float32(np.inf))])
    rng = np.random.default_rng(1)
    random = np.concatenate([
        rng.integers(0, 0x7F800000, 60, dtype=np.uint32).view(np.float32),
        (2.0 ** rng.uniform(-26, 17, 120)).astype(np.float32),
    ])
    values = np.unique(np.concatenate([near, random]))
    values = np.concatenate([values, -values])
    words = zip(values.view(np.uint32), values.astype(np.float16).view(np.uint16),
                values.astype(ml_dtypes.bfloat16).view(np.uint16))
    cells = [f"{{0x{a:08x}, 0x{b:04x}, 0x{c:04x}}}" for a, b, c in words]
    for i in range(0, len(cells), 4):
        yield ", ".join(cells[i:i + 4]) + ","


# ---- Printing.


def literal(text):
    """Adjacent string literals, one per line of the text."""
    escape = lambda line: line.replace("\\", "\\\\").replace('"', '\\"')
    lines = text.split("\n")
    return "\n     ".join(f'"{escape(line)}{end}"' for line, end in zip(lines, ["\\n"] * (len(lines) - 1) + [""]))


def data_text(array):
    """The bits of each element in hexadecimal, most significant digit first, or "iota" for 0, 1, 2, …"""
    if array.size > 4 and np.array_equal(array.ravel(), np.arange(array.size).astype(array.dtype)):
        return literal("iota")
    if not array.size:
        return '""'
    raw = array.ravel().view(np.uint8).reshape(array.size, -1)
    words = [bytes(word[::-1]).hex() for word in raw]
    per_line = max(1, 100 // (len(words[0]) + 1))
    return "\n     ".join(f'"{" ".join(words[i:i + per_line])} "' for i in range(0, len(words), per_line))


DEFAULTS = {"linewidth": 75, "threshold": 1000, "edgeitems": 3, "precision": 8, "suppress": False}


def case(name, values, dtype="float32", weak=False, **options):
    array = np.asarray(values).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    with np.printoptions(**{**DEFAULTS, **options}):
        text = str(array)
        representation = repr(with_weakness(jnp.asarray(array), weak))
    chosen = ", ".join(f".{key} = {str(value).lower()}" for key, value in options.items())
    shape = ", ".join(map(str, array.shape))
    yield f'{{"{name}", Dtype::k{SHORT[dtype].title() if dtype == "bool" else SHORT[dtype].upper()}, ' \
          f"{str(weak).lower()}, {{{shape}}},"
    yield f"     {data_text(array)},"
    yield f"     {{{chosen}}},"
    yield f"     {literal(text)},"
    yield f"     {literal(representation)}}},"


NAN, INF = np.nan, np.inf


def format_cases():
    rng = np.random.default_rng(7)
    for dtype in SHORT:
        yield from case(f"{dtype}_scalar", 1, dtype)
        yield from case(f"{dtype}_vector", np.arange(5), dtype)
        yield from case(f"{dtype}_empty", np.zeros((0, 3)), dtype)
        if dtype != "bool":
            yield from case(f"{dtype}_matrix", rng.integers(0, 120, (3, 4)), dtype)
    for dtype in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
        yield from case(f"{dtype}_extremes", np.array([np.iinfo(dtype).min, 0, np.iinfo(dtype).max], dtype), dtype)
    for dtype in ("int32", "float32", "complex64"):
        yield from case(f"{dtype}_weak_scalar", 2, dtype, weak=True)
        yield from case(f"{dtype}_weak_vector", [1, 2, 3], dtype, weak=True)

    yield from case("bool_all_true", [True, True], "bool")
    yield from case("bool_matrix", np.eye(3), "bool")
    yield from case("bool_false", False, "bool")
    yield from case("int_scalar", 496, "int32")
    yield from case("int_negative", [[-1, 20], [300, -4000]], "int32")
    yield from case("int_rank_3", np.arange(24).reshape(2, 3, 4), "int32")
    yield from case("int_rank_4", np.arange(16).reshape(2, 2, 2, 2), "int32")
    yield from case("int_wrap", np.arange(64), "int32")
    yield from case("int_wrap_rank_2", np.arange(60).reshape(2, 30), "int32")
    yield from case("int_summary", np.arange(2000), "int32")
    yield from case("int_at_threshold", np.arange(1000), "int32")
    yield from case("int_summary_rank_2", np.arange(1600).reshape(40, 40), "int32")
    yield from case("int_summary_rank_3", np.arange(3000).reshape(5, 100, 6), "int32")
    yield from case("int_one_dtype_apart", [11111111111111] * 4, "int64")

    yield from case("float_range", np.arange(8))
    yield from case("float_fractions", [0.5, 0.25, 0.125, 100.0625])
    yield from case("float_thirds", np.arange(8) / 28.0)
    yield from case("float_dtype_apart", np.full(5, 1 / 3))
    yield from case("float_wrap_rank_2", np.full((2, 9), 1 / 3))
    yield from case("float_negative", [-0.97606325, 0.19192469, -3.0])
    yield from case("float_zeros", [0.0, -0.0])
    yield from case("float_large", [1e6, 1.0])
    yield from case("float_below_large", [999999.0, 1000.5])
    yield from case("float_small", [1e-4, 1e-5])
    yield from case("float_ratio", [0.1, 100.2])
    yield from case("float_ratio_exact", [0.5, 500.0])
    yield from case("float_extremes", [3.4028235e38, 1.1754944e-38, 1e-45])
    yield from case("float_exact_fill", [0.1, 0.3, 12345678.0])
    yield from case("float_nan", [1.5, NAN, 2.0])
    yield from case("float_inf", [INF, -INF, 1.0])
    yield from case("float_only_nan", [NAN, NAN])
    yield from case("float_only_inf", [-INF, INF, NAN])
    yield from case("float_nan_with_exponent", [1e10, NAN, -INF])
    yield from case("float_summary", np.arange(2000))
    yield from case("float_summary_rank_2", np.arange(1600).reshape(40, 40))
    yield from case("float_rank_3", np.arange(12).reshape(2, 3, 2) / 8)
    yield from case("float_column", np.arange(4).reshape(4, 1))
    yield from case("float_random", rng.normal(size=(4, 6)))
    yield from case("float_random_wide", rng.normal(size=20) * 1e5)
    yield from case("float_single", [[[7.25]]])
    yield from case("float_empty_rank_1", np.zeros(0))
    yield from case("float_empty_inner", np.zeros((2, 0)))
    yield from case("float_long_summary", rng.normal(size=(7, 200)))

    yield from case("double_many_digits", [0.1, 1 / 3, 2 / 7], "float64")
    yield from case("double_large", [1e8, 1.0], "float64")
    yield from case("double_below_large", [99999999.0, 123456.0], "float64")
    yield from case("double_three_digit_exponents", [1e100, 2e-300, -1.5], "float64")
    yield from case("double_rounds_up", [1.99999999999, 2.5], "float64")
    yield from case("double_rounds_up_in_exponent", [1.999999999999e10, 1.0], "float64")
    yield from case("half_digits", [0.1, 0.3333, 999.5], "float16")
    yield from case("half_large", [1000.0, 1.0], "float16")
    yield from case("half_exact_fill", [0.1, 1234.0], "float16")
    yield from case("half_powers_of_two", 2.0 ** np.arange(-24, 16, 3), "float16")
    yield from case("half_special", [NAN, -INF, 65504.0, 6e-8], "float16")
    yield from case("brain_digits", [1, 1.5, 0.1, 1e-5, 1e20, -3, NAN, INF, -0.0], "bfloat16")
    yield from case("brain_rank_2", np.arange(40).reshape(4, 10), "bfloat16")
    yield from case("brain_summary", np.arange(1200), "bfloat16")

    for dtype in ("float16", "float32", "float64"):
        for value in (0.0, -0.0, 0.1, 1e-4, 9e-5, 999.0, 1e3, 999999.0, 1e6, 9.87e15, 1e16, -1.5e20, NAN, -INF):
            yield from case(f"{dtype}_scalar_{value}", value, dtype)
    for dtype in ("complex64", "complex128"):
        for value in (0, 1j, -1j, 1 + 2j, complex(-0.0, 1), complex(0, -0.0), 1e20 + 1e-5j, complex(NAN, INF),
                      complex(1, -INF), complex(0, NAN), 0.1 + 1e7j):
            yield from case(f"{dtype}_scalar_{value}", value, dtype)
        yield from case(f"{dtype}_mixed", [1 + 2j, -0.5j, 3.25], dtype)
        yield from case(f"{dtype}_exponents", [1e10 + 1j, -1e-10j], dtype)
        yield from case(f"{dtype}_special", [complex(NAN, 1), complex(1, NAN), complex(INF, -INF), 2.5 + 10.125j], dtype)
        yield from case(f"{dtype}_random", rng.normal(size=(3, 4)) + 1j * rng.normal(size=(3, 4)), dtype)
    yield from case("complex_summary", np.arange(1200) - 0.5j, "complex64")

    noisy = rng.normal(size=(6, 8))
    yield from case("narrow_lines", noisy, linewidth=40)
    yield from case("lines_narrower_than_elements", noisy[:2], linewidth=5)
    yield from case("wide_lines", noisy, linewidth=200)
    yield from case("low_threshold", noisy, threshold=10, edgeitems=2)
    yield from case("one_edge_item", noisy, threshold=10, edgeitems=1)
    yield from case("low_precision", noisy, precision=3)
    yield from case("no_precision", [2.5, 3.5, 0.5], precision=0)
    yield from case("no_precision_with_exponent", [2.5e10, 3.5], precision=0)
    yield from case("high_precision", noisy[0], "float64", precision=17)
    yield from case("suppressed", [1e-10, 9e-9, 1.0], suppress=True)
    yield from case("not_suppressed_when_large", [1e-10, 1e9], suppress=True)


write("promotion", promotion())
write("rounding", rounding())
write("format_cases", format_cases())
