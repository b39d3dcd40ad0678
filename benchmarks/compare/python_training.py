#!/usr/bin/env python3
"""The training step of a GPT from Python, in Shoal and in JAX, in turns: how long it takes to compile and to run, and the
greatest memory of a process that does nothing else. Prints the median of each in one table.

    python_training.py --shoal PYTHON --jax PYTHON [--rounds N]

PYTHON is an interpreter that has the package. The losses after three steps are compared."""

import python_sides

PROGRAM = python_sides.MEASURED + r"""
layout, layers, work = arguments[0], int(arguments[1]), arguments[2]
count = {"one": 1, "2x4": 8, "2x4x512": 4096}[layout]
if name == "shoal":
    jax.config.update("jax_num_cpu_devices", count)
WIDTH, HEADS, VOCABULARY, SEQUENCE, BATCH = 256, 4, 1000, 128, 8
random = np.random.default_rng(0)


def normal(*shape):
    return (random.standard_normal(shape) * 0.02).astype(np.float32)


def ones(n):
    return np.ones(n, np.float32)


def zeros(n):
    return np.zeros(n, np.float32)


def layer():
    return {"ln1": ones(WIDTH), "b1": zeros(WIDTH), "wqkv": normal(WIDTH, 3, WIDTH), "wo": normal(WIDTH, WIDTH),
            "ln2": ones(WIDTH), "b2": zeros(WIDTH), "w1": normal(WIDTH, 4 * WIDTH), "bb1": zeros(4 * WIDTH),
            "w2": normal(4 * WIDTH, WIDTH), "bb2": zeros(WIDTH)}


SPECS = {"wqkv": P(None, None, "model"), "wo": P("model", None), "w1": P(None, "model"), "bb1": P("model"),
         "w2": P("model", None)}
weights = {"wte": normal(VOCABULARY, WIDTH), "wpe": normal(SEQUENCE, WIDTH), "lnf": ones(WIDTH), "lnfb": zeros(WIDTH),
           "layers": [layer() for _ in range(layers)]}
specs = {"wte": P(), "wpe": P(), "lnf": P(), "lnfb": P(),
         "layers": [{key: SPECS.get(key, P()) for key in one} for one in weights["layers"]]}
tokens, targets = (random.integers(0, VOCABULARY, (BATCH, SEQUENCE)).astype(np.int32) for _ in range(2))


def norm(x, scale, bias):
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5) * scale + bias


def forward(weights, tokens):
    x = weights["wte"][tokens] + weights["wpe"]
    mask = jnp.tril(jnp.ones((SEQUENCE, SEQUENCE), bool))
    for layer in weights["layers"]:
        qkv = jnp.einsum("bsd,dke->kbse", norm(x, layer["ln1"], layer["b1"]), layer["wqkv"])
        q, k, v = (part.reshape(*part.shape[:2], HEADS, WIDTH // HEADS) for part in qkv)
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(WIDTH // HEADS).astype(np.float32)
        attention = jax.nn.softmax(jnp.where(mask, scores, -1e9), -1)
        x = x + jnp.einsum("bhqk,bkhd->bqhd", attention, v).reshape(x.shape) @ layer["wo"]
        h = norm(x, layer["ln2"], layer["b2"])
        x = x + jax.nn.gelu(h @ layer["w1"] + layer["bb1"]) @ layer["w2"] + layer["bb2"]
    return norm(x, weights["lnf"], weights["lnfb"]) @ weights["wte"].T


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
    on = lambda spec: NamedSharding(mesh, spec)
    shardings = jax.tree.map(on, specs, is_leaf=lambda leaf: isinstance(leaf, P))
    weights = jax.device_put(weights, shardings)
    tokens, targets = jax.device_put((tokens, targets), on(P("data")))
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
        python_sides.print_rows(options, PROGRAM, layout, str(layers), "compile")
    for layout in ("one", "2x4"):
        python_sides.print_rows(options, PROGRAM, layout, "12", "step")
    print()
    python_sides.print_head("GiB")
    for layout in ("one", "2x4"):
        python_sides.print_rows(options, PROGRAM, layout, "12", "memory")
