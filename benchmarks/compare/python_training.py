#!/usr/bin/env python3
"""The training step of a GPT from Python, in Shoal and in JAX, in turns: how long it takes to compile and to run, and the
greatest memory of a process that does nothing else. Prints the median of each in one table.

    python_training.py --shoal PYTHON --jax PYTHON [--rounds N]

PYTHON is an interpreter that has the package. The losses after three steps are compared."""

import pathlib

import python_sides

PEERS = str(pathlib.Path(__file__).resolve().parent / "peers")

PROGRAM = python_sides.MEASURED + r"""
layout, layers, work, peers = arguments
count = {"one": 1, "2x4": 8, "2x4x512": 4096}[layout]
if name == "shoal":
    jax.config.update("jax_num_cpu_devices", count)
    sys.modules["jax"], sys.modules["jax.numpy"] = jax, jnp
sys.path.insert(0, peers)
import gpt_layout
from gpt_jax import forward

gpt_layout.LAYERS = int(layers)
random = np.random.default_rng(0)


def make(shape, constant, split):
    drawn = random.standard_normal(shape) * 0.02 if constant is None else np.full(shape, constant)
    return drawn.astype(np.float32)


weights = gpt_layout.build(make)
batch = (gpt_layout.BATCH, gpt_layout.SEQUENCE)
tokens, targets = (random.integers(0, gpt_layout.VOCABULARY, batch).astype(np.int32) for _ in range(2))


def loss(weights, tokens, targets):
    logits = jax.nn.log_softmax(forward(weights, tokens))
    return -jnp.take_along_axis(logits, targets[..., None], -1).mean()


def step(weights, tokens, targets):
    value, gradient = jax.value_and_grad(loss)(weights, tokens, targets)
    return jax.tree.map(lambda w, g: w - 1e-2 * g, weights, gradient), value


if layout == "one":
    train = jax.jit(step)
else:
    shape = tuple(int(extent) for extent in layout.split("x"))
    names = ("data", "model", "rest")[: len(shape)]
    mesh = jax.make_mesh(shape, names, axis_types=(jax.sharding.AxisType.Auto,) * len(shape))
    shardings = gpt_layout.build(lambda shape, constant, split: NamedSharding(mesh, P(*split)))
    weights = jax.device_put(weights, shardings)
    tokens, targets = jax.device_put((tokens, targets), NamedSharding(mesh, P("data")))
    train = jax.jit(step, out_shardings=(shardings, None))
weights, tokens, targets = jax.device_put((weights, tokens, targets))

title = f"{layers} layers" + ("" if layout == "one" else f" over {layout.replace('x', ' x ')} devices")
start = time.perf_counter()
compiled = train.lower(weights, tokens, targets).compile()
if work == "compile":
    times["compile the step, " + title] = time.perf_counter() - start
else:
    start = time.perf_counter()
    trained, value = jax.block_until_ready(compiled(weights, tokens, targets))
    if work == "step":
        times["first step, " + title] = time.perf_counter() - start
    for _ in range(2):
        trained, value = compiled(trained, tokens, targets)
    results[f"loss, {title}"] = np.asarray(value).reshape(1)
    taken = []
    for _ in range(5):
        start = time.perf_counter()
        trained, value = jax.block_until_ready(compiled(trained, tokens, targets))
        taken.append(time.perf_counter() - start)
    if work == "step":
        times["step, " + title] = sorted(taken)[2]
    else:
        status = dict(line.split(":", 1) for line in open("/proc/self/status"))
        times["greatest memory of the process, " + title] = int(status["VmHWM"].split()[0]) / 2**20
"""

if __name__ == "__main__":
    options = python_sides.parser_for(__doc__).parse_args()
    python_sides.print_head("s")
    for layout, layers in (("one", 12), ("2x4", 12), ("one", 48)):
        python_sides.print_rows(options, PROGRAM, layout, str(layers), "compile", PEERS)
    for layout in ("one", "2x4"):
        python_sides.print_rows(options, PROGRAM, layout, "12", "step", PEERS)
    print()
    python_sides.print_head("GiB")
    for layout in ("one", "2x4"):
        python_sides.print_rows(options, PROGRAM, layout, "12", "memory", PEERS)
