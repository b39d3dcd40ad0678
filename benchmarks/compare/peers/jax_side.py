"""JAX's side of the comparison."""

import json
import os
import pathlib
import time

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={os.environ.get('COMPARE_DEVICES', 8)}"

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

import gpt_jax
import gpt_layout
from serve import measure, measure_together, memory, numbers, reset_peak, sample, serve

FUNCTIONS = {
    "sigmoid": lambda x: 0.5 * (jnp.tanh(0.5 * x) + 1),
    "axpb": lambda x: 2.5 * x + 1.25,
    "sin": lambda x: 2 * jnp.sin(x) + 1,
    "sum": jnp.sum,
    "softmax": lambda x: jax.nn.softmax(x, -1),
    "layer_norm": lambda x: jax.nn.standardize(x, -1),
}


def mesh_of(*extents):
    names = ("x",) if len(extents) == 1 else ("data", "model")
    return jax.make_mesh(extents, names, axis_types=(AxisType.Auto,) * len(extents))


def put(x, request, *spec):
    sharded = request.get("devices", 1) > 1
    return jax.device_put(x, NamedSharding(mesh_of(8), P(*spec)) if sharded else jax.devices()[0])


def measure_calls(request, f, x):
    batch = 1000 if request.get("devices", 1) == 1 else 100
    result = {"sample": sample(f(x))}

    def calls():
        y = x
        for _ in range(batch):
            y = f(y)
        y.block_until_ready()

    return result | measure(request, calls, batch)


def call(request):
    return measure_calls(request, jax.jit(lambda x: x + 1), put(numbers(8), request, "x"))


def call_psum(request):
    body = lambda x: jax.lax.psum(x, "x") * 0.125 + 0 * x
    f = jax.jit(jax.shard_map(body, mesh=mesh_of(8), in_specs=P("x"), out_specs=P("x")))
    return measure_calls(request, f, put(numbers(8), request, "x"))


def eager(request):
    return measure_calls(request, lambda x: x + 1, put(numbers(8), request, "x"))


extent = 8


def eager_new_shape(request):
    global extent
    times = []
    for _ in range(20):
        extent += 1
        x = jax.block_until_ready(put(numbers(extent), request))
        begin = time.perf_counter()
        (x + 1).block_until_ready()
        times.append(time.perf_counter() - begin)
    return {"seconds": float(np.median(times))}


def measure_function(request, f, *arguments):
    result = {"sample": sample(f(*arguments).astype(jnp.float32))}
    return result | measure(request, lambda: f(*arguments).block_until_ready())


def elementwise(request):
    x = numbers(request["mib"] << 18)
    if "columns" in request:
        x = x.reshape(-1, request["columns"])
    x = put(x, request, "x")
    if not request.get("donated"):
        return measure_function(request, jax.jit(FUNCTIONS[request["function"]]), x)
    f = jax.jit(FUNCTIONS[request["function"]], donate_argnums=0)
    x = f(x)
    result = {"sample": sample(x)}

    def again():
        nonlocal x
        x = f(x)
        x.block_until_ready()

    return result | measure(request, again)


def matmul(request):
    n, split = request["n"], request.get("split", "none")
    dtype = jnp.bfloat16 if request.get("dtype") == "bf16" else jnp.float32
    elements = numbers(n * n).reshape(n, n)
    a = put(elements, request, *((None, "x") if split == "contraction" else ("x",))).astype(dtype)
    b = put(elements, request, *(("x",) if split == "contraction" else ())).astype(dtype)
    return measure_function(request, jax.jit(lambda a, b: a @ b), a, b)


COLLECTIVES = {
    "psum": lambda x: jax.lax.psum(x, "x"),
    "all_gather": lambda x: jax.lax.all_gather(x, "x", tiled=True),
    "psum_scatter": lambda x: jax.lax.psum_scatter(x, "x", tiled=True),
    "all_to_all": lambda x: jax.lax.all_to_all(x, "x", 0, 0, tiled=True),
    "ppermute": lambda x: jax.lax.ppermute(x, "x", [(i, (i + 1) % 8) for i in range(8)]),
}


def collective(request):
    kind = request["kind"]
    out = P() if kind in ("psum", "all_gather") else P("x")
    body = jax.shard_map(COLLECTIVES[kind], mesh=mesh_of(8), in_specs=P("x"), out_specs=out, check_vma=False)
    x = jax.device_put(numbers(8 * (request["bytes"] // 4)), NamedSharding(mesh_of(8), P("x")))
    return measure_function(request, jax.jit(body), x)


def replicate(request):
    elements = numbers(1 << 26)
    everywhere = NamedSharding(mesh_of(8), P())
    jax.block_until_ready(jax.device_put(np.zeros(64, np.float32), everywhere))
    if request.get("from_device"):
        elements = jax.block_until_ready(jax.device_put(elements, jax.devices()[0]))
    before = memory()[0]
    reset_peak()
    begin = time.perf_counter()
    y = jax.block_until_ready(jax.device_put(elements, everywhere))
    seconds = time.perf_counter() - begin
    return {"seconds": seconds, "mib": memory()[1] - before, "sample": sample(y)}


def first_result(request):
    return {"sample": sample(jax.jit(lambda x: x * 2 + 1)(put(numbers(64), request, "x")))}


def model_of(request):
    weights, tokens = gpt_layout.read(request["file"])
    if "mesh" not in request:
        return jax.device_put((weights, tokens), jax.devices()[0])
    mesh = mesh_of(*request["mesh"])
    placed = jax.tree.map(lambda x, split: jax.device_put(x, NamedSharding(mesh, P(*split))), weights,
                          gpt_layout.splits(), is_leaf=lambda x: isinstance(x, np.ndarray))
    return placed, jax.device_put(tokens, NamedSharding(mesh, P("data")))


def gpt(request):
    jax.devices()
    before = memory()[0]
    reset_peak()
    result = measure_function(request, jax.jit(gpt_jax.forward), *model_of(request))
    return result | {"mib": memory()[1] - before}


def write_gpt(request):
    """Writes the weights, and what XLA is given: the program, and its arguments in their order."""
    file = pathlib.Path(request["file"])
    gpt_layout.write(file)
    model = gpt_layout.read(file)
    leaves = jax.tree.leaves(model)
    file.with_suffix(".json").write_text(json.dumps([{"dtype": str(x.dtype), "shape": x.shape} for x in leaves]))
    file.with_suffix(".arguments").write_bytes(b"".join(x.tobytes() for x in leaves))
    file.with_suffix(".mlir").write_text(jax.jit(gpt_jax.forward).lower(*model).as_text())
    return {}


def compile_(request):
    if request["function"] == "gpt":
        f, arguments = jax.jit(gpt_jax.forward), model_of(request)
    else:
        f, arguments = jax.jit(FUNCTIONS[request["function"]]), (put(numbers(1024), request, "x"),)
    jax.block_until_ready(arguments)
    begin = time.perf_counter()
    y = f(*arguments).block_until_ready()
    first = time.perf_counter() - begin
    result = {"sample": sample(y), "seconds": first}
    if "trace" in request:  # all of the first call but running the program
        result["seconds"] = first - measure(request, lambda: f(*arguments).block_until_ready())["seconds"]
    return result


# ---- Several processes (sides.JaxSide starts them), with a request each. The first one answers.


def in_job(work):
    def run(request):
        from jax.experimental import multihost_utils

        begin = time.perf_counter()
        jax.distributed.initialize(os.environ["COMPARE_COORDINATOR"], int(os.environ["COMPARE_PROCESSES"]),
                                   int(os.environ["COMPARE_PROCESS"]))
        seconds = time.perf_counter() - begin
        agree = lambda goes_on: bool(multihost_utils.broadcast_one_to_all(np.float32(goes_on)))
        result = work(request, seconds, lambda calls: measure_together(request, calls, agree))
        answers = jax.process_index() == 0
        jax.distributed.shutdown()
        return result if answers else None

    return run


def put_over_job(mesh, count):
    return jax.device_put(numbers(count), NamedSharding(mesh, P("x")))


def local_sample(x):
    return sample(np.asarray(x.addressable_shards[0].data))


def job_barrier(request, seconds, measured):
    from jax.experimental import multihost_utils

    return measured(lambda: multihost_utils.sync_global_devices("barrier"))


def job_psum(request, seconds, measured):
    devices = jax.device_count()
    mesh = mesh_of(devices)
    body = lambda x: jax.lax.psum(x, "x") * np.float32(1 / devices)
    f = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False))
    y = x = put_over_job(mesh, devices * (request["bytes"] // 4))
    result = {"sample": local_sample(f(x))}

    def again():
        nonlocal y
        y = f(y)
        y.block_until_ready()

    return result | measured(again)


def job_collective(request, seconds, measured):
    mesh, kind = mesh_of(jax.device_count()), request["kind"]
    out = P() if kind in ("psum", "all_gather") else P("x")
    f = jax.jit(jax.shard_map(COLLECTIVES[kind], mesh=mesh, in_specs=P("x"), out_specs=out, check_vma=False))
    x = put_over_job(mesh, jax.device_count() * (request["bytes"] // 4))
    return {"sample": local_sample(f(x))} | measured(lambda: f(x).block_until_ready())


def job_gpt(request, seconds, measured):
    f, model = jax.jit(gpt_jax.forward), model_of(request)
    return {"sample": local_sample(f(*model))} | measured(lambda: f(*model).block_until_ready())


if __name__ == "__main__":
    serve({
        "job_start": in_job(lambda request, seconds, measured: {"seconds": seconds}),
        "job_barrier": in_job(job_barrier), "job_psum": in_job(job_psum), "job_collective": in_job(job_collective),
        "job_gpt": in_job(job_gpt),
        "first_result": first_result, "call": call, "call_psum": call_psum, "eager": eager,
        "eager_new_shape": eager_new_shape, "elementwise": elementwise, "matmul": matmul, "collective": collective,
        "replicate": replicate, "gpt": gpt, "write_gpt": write_gpt, "compile": compile_,
    })
