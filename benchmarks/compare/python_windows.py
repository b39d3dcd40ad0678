#!/usr/bin/env python3
"""Convolutions and reductions over windows called from Python, jitted, of Shoal and of JAX, in turns: prints both times
as tables, forward and with the gradient by all operands, on one device and with the batch split over eight.

    python_windows.py --shoal PYTHON --jax PYTHON [--rounds N] [--only REGEX]

PYTHON is an interpreter that has the package. What the two compute is compared."""

import json
import re

import python_sides

CONV = "lax.conv_general_dilated(x, w, "
NHWC = "dimension_numbers=('NHWC', 'HWIO', 'NHWC'))"
GREATEST = "lax.reduce_window(x, -jnp.inf, lax.max, "
SUM = "lax.reduce_window(x, 0.0, lax.add, "
IMAGES = (8, 64, 56, 56)
LAST = (8, 56, 56, 64)
# Name, expression of x and w, their shapes, and whether the first dimension of x is a batch.
ROWS = [
    ("conv 3×3, 64 → 64", CONV + "(1, 1), 'SAME')", IMAGES, (64, 64, 3, 3), True),
    ("conv 1×1, 64 → 64", CONV + "(1, 1), 'SAME')", IMAGES, (64, 64, 1, 1), True),
    ("conv 7×7, 3 → 64, strides 2", CONV + "(2, 2), 'SAME')", (8, 3, 224, 224), (64, 3, 7, 7), True),
    ("conv 3×3, 512 → 512", CONV + "(1, 1), 'SAME')", (8, 512, 7, 7), (512, 512, 3, 3), True),
    ("conv 3×3 depthwise, 64", CONV + "(1, 1), 'SAME', feature_group_count=64)", IMAGES, (64, 1, 3, 3), True),
    ("conv 3×3, 64 → 64, NHWC", CONV + "(1, 1), 'SAME', " + NHWC, LAST, (3, 3, 64, 64), True),
    ("conv 3×3 with gaps of 1", CONV + "(1, 1), 'SAME', rhs_dilation=(2, 2))", (8, 32, 56, 56), (32, 32, 3, 3), True),
    ("conv_transpose 4×4, 2", "lax.conv_transpose(x, w, (2, 2), 'SAME')", (8, 28, 28, 32), (4, 4, 32, 32), True),
    ("conv 3×3×3, 16 → 16", CONV + "(1, 1, 1), 'SAME')", (2, 16, 24, 24, 24), (16, 16, 3, 3, 3), False),
    ("conv 9, 16 → 32", CONV + "(1,), 'SAME')", (32, 16, 1024), (32, 16, 9), True),
    ("convolve 65536 by 64", "jnp.convolve(x, w)", (65536,), (64,), False),
    ("conv 15×15, 1 → 1, on 256²", CONV + "(1, 1), 'SAME')", (1, 1, 256, 256), (1, 1, 15, 15), False),
    ("max pool 3×3, strides 2", GREATEST + "(1, 1, 3, 3), (1, 1, 2, 2), 'SAME')", IMAGES, None, True),
    ("average pool 2×2", SUM + "(1, 1, 2, 2), (1, 1, 2, 2), 'VALID')", IMAGES, None, True),
    ("average pool 3×3, NHWC", SUM + "(1, 3, 3, 1), (1, 1, 1, 1), 'SAME')", LAST, None, True),
    ("sum of 31 of 2^20", SUM + "(31,), (1,), 'SAME')", (1 << 20,), None, False),
    ("greatest of 31×31 of 512²", GREATEST + "(31, 31), (1, 1), 'SAME')", (512, 512), None, False),
    ("conv of 8 elements", CONV + "(1,), 'SAME')", (1, 1, 8), (1, 1, 3), False),
]

PROGRAM = python_sides.MEASURED + r"""
rows, kind = json.loads(arguments[0]), arguments[1]
mesh = jax.make_mesh((8,), ("d",))
for title, expression, x_shape, w_shape, batch in rows:
    if kind == "split" and not batch:
        continue
    random = np.random.default_rng(len(title))
    operands = [jnp.asarray(random.normal(size=shape).astype(np.float32) / 8) for shape in (x_shape, w_shape) if shape]
    if kind == "split":
        specs = (P("d"), P())
        operands = [jax.device_put(o, NamedSharding(mesh, s)) for o, s in zip(operands, specs)]
    f = eval("lambda x, w=None: " + expression, {"jnp": jnp, "jax": jax, "lax": lax})
    if kind == "gradient":
        cotangent = jnp.asarray(random.normal(size=jax.eval_shape(f, *operands).shape).astype(np.float32) / 8)
        forward, count = f, len(operands)
        # The cotangent is an argument, as gradients of what is linear would be constants else.
        f = jax.grad(lambda c, *o: jnp.sum(forward(*o) * c), argnums=tuple(range(1, count + 1)))
        operands = [cotangent, *operands]
    measure(title, jax.jit(f), *operands)
"""


def main():
    parser = python_sides.parser_for(__doc__)
    parser.add_argument("--only", default="", help="the rows whose names match")
    options = parser.parse_args()
    rows = json.dumps([row for row in ROWS if re.search(options.only, row[0])])
    for kind, head in (
        ("forward", "Forward"),
        ("gradient", "Gradient by all operands"),
        ("split", "Forward, the batch split over 8 devices"),
    ):
        print(f"\n{head}\n")
        python_sides.print_head("ms")
        python_sides.print_rows(options, PROGRAM, rows, kind, scale=1e3)


if __name__ == "__main__":
    main()
