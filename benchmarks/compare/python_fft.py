#!/usr/bin/env python3
"""Fourier transforms called from Python, jitted, of Shoal and of JAX, in turns: prints how much faster Shoal is as a
table.

    python_fft.py --shoal PYTHON --jax PYTHON [--rounds N] [--only REGEX]

PYTHON is an interpreter that has the package. What the two compute is compared."""

import json
import re

import python_sides

# Title, expression of x, shape and dtype of x, and over how many devices its first dimension is split.
ROWS = [
    ("fft of 2^20, c64", "jnp.fft.fft(x)", (1 << 20,), "complex64", 1),
    ("the same, c128", "jnp.fft.fft(x)", (1 << 20,), "complex128", 1),
    ("fft of 1024 lines of 1024, c64", "jnp.fft.fft(x)", (1024, 1024), "complex64", 1),
    ("the same lines, c128", "jnp.fft.fft(x)", (1024, 1024), "complex128", 1),
    ("the same along axis 0, c64", "jnp.fft.fft(x, axis=0)", (1024, 1024), "complex64", 1),
    ("fft2 of 1024 × 1024, c64", "jnp.fft.fft2(x)", (1024, 1024), "complex64", 1),
    ("ifft2 of 1024 × 1024, c64", "jnp.fft.ifft2(x)", (1024, 1024), "complex64", 1),
    ("fftn of 128 × 128 × 128, c64", "jnp.fft.fftn(x)", (128, 128, 128), "complex64", 1),
    ("rfft of 2^20, f32", "jnp.fft.rfft(x)", (1 << 20,), "float32", 1),
    ("irfft to 2^20, f32", "jnp.fft.irfft(x)", ((1 << 19) + 1,), "complex64", 1),
    ("rfft2 of 1024 × 1024, f32", "jnp.fft.rfft2(x)", (1024, 1024), "float32", 1),
    ("rfft of 256 lines of 1155, f32", "jnp.fft.rfft(x)", (256, 1155), "float32", 1),
    ("fft of 1000, c64", "jnp.fft.fft(x)", (1000,), "complex64", 1),
    ("1000 of 1000, c64", "jnp.fft.fft(x)", (1000, 1000), "complex64", 1),
    ("fft of 1009, c64", "jnp.fft.fft(x)", (1009,), "complex64", 1),
    ("256 of 1009, c64", "jnp.fft.fft(x)", (256, 1009), "complex64", 1),
    ("1155 of 1155, c64", "jnp.fft.fft(x)", (1155, 1155), "complex64", 1),
    ("64 of 15015, c64", "jnp.fft.fft(x)", (64, 15015), "complex64", 1),
    ("fft of 2^20 + 7, a prime, c64", "jnp.fft.fft(x)", ((1 << 20) + 7,), "complex64", 1),
    ("fft of 8, c64", "jnp.fft.fft(x)", (8,), "complex64", 1),
    ("fft of 65,536 lines of 8, c64", "jnp.fft.fft(x)", (65536, 8), "complex64", 1),
    ("fft of 1024 lines of 1024 over 8 devices, c64", "jnp.fft.fft(x)", (1024, 1024), "complex64", 8),
    ("gradient through fft2 of 512 × 512, f32",
     "jax.grad(lambda y: jnp.sum(jnp.abs(jnp.fft.fft2(y)) ** 2))(x)", (512, 512), "float32", 1),
]

PROGRAM = python_sides.MEASURED + python_sides.PER_CALL + r"""
jax.config.update("jax_enable_x64", True)
for title, expression, shape, dtype, devices in json.loads(arguments[0]):
    random = np.random.default_rng(shape[0])
    x = random.normal(size=shape)
    if dtype.startswith("complex"):
        x = x + 1j * random.normal(size=shape)
    # Of so many numbers that results are about 1.
    x = jnp.asarray((x / np.sqrt(np.prod(shape))).astype(dtype))
    if devices > 1:
        mesh = jax.make_mesh((devices,), ("x",))
        x = jax.device_put(x, NamedSharding(mesh, P("x")))
    f = jax.jit(eval("lambda x: " + expression, {"jnp": jnp, "jax": jax}))
    times[title] = per_call(lambda: f(x), seconds=0.05)
    results[title] = flat(f(x))
"""


def main():
    parser = python_sides.parser_for(__doc__)
    parser.add_argument("--only", default="", help="the rows whose titles match")
    options = parser.parse_args()
    rows = [row for row in ROWS if re.search(options.only, row[0])]
    python_sides.print_head("ms")
    python_sides.print_rows(options, PROGRAM, json.dumps(rows), scale=1e3)


if __name__ == "__main__":
    main()
