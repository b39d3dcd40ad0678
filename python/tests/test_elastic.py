"""Jobs that go on without a process that died: what the C++ tests of tests/multiprocess/elastic_test.cc do, from Python."""

import os
import signal
import socket
import subprocess
import sys

import pytest

import shoal as jax
import shoal.numpy as jnp
from shoal import elastic
from shoal.sharding import NamedSharding, PartitionSpec as P

PROGRAM = """
import os, signal, sys
import shoal as jax, shoal.numpy as jnp
from shoal import data, distributed, elastic
from shoal.experimental import multihost_utils
from shoal.sharding import NamedSharding, PartitionSpec as P

dies = int(sys.argv[1])

def read(examples):
    return jnp.sin(jnp.outer(jnp.asarray(examples, jnp.float32), jnp.arange(1.0, 9.0)))

def make(world):
    print("generation", world.generation, "of", len(world.processes), dict(world.mesh.shape), flush=True)
    batches = data.DataLoader(60, 12, read, NamedSharding(world.mesh, P("data")), seed=1)

    @jax.jit
    def update(state, batch):
        gradient = jax.grad(lambda w: ((batch @ w - 1) ** 2).mean())(state["w"])
        momentum = 0.9 * state["m"] + gradient
        return {"w": state["w"] - 0.1 * momentum, "m": momentum}

    def step(state, i):
        if i == 13 and jax.process_index() == dies and world.generation == 0:
            jax.block_until_ready(state)
            os.kill(os.getpid(), signal.SIGKILL)
        batches.seek(divmod(i, batches.batches_per_epoch))
        return update(state, batches.next().data)

    split = NamedSharding(world.mesh, P("data"))
    return {"w": jax.device_put(jnp.zeros(8), split), "m": jax.device_put(jnp.zeros(8), split)}, step

state = elastic.run(make, steps=30, mesh_shape=(int(sys.argv[2]), 2), axis_names=("data", "model"), copy_every=5)
print("result", " ".join(f"{x:.5f}" for x in multihost_utils.process_allgather(state["w"], tiled=True)), flush=True)
if distributed.is_initialized():
    distributed.shutdown()
"""


def job(processes, dies):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SHOAL_", "JAX_"))}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(dies), str(processes)],
            env={**kept, "SHOAL_NUM_CPU_DEVICES": "2", "SHOAL_NUM_THREADS": "1", "SHOAL_NUM_PROCESSES": str(processes),
                 "SHOAL_PROCESS_ID": str(i), "SHOAL_COORDINATOR_ADDRESS": f"127.0.0.1:{port}",
                 "SHOAL_SECRET": "known to the processes of tests"},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for i in range(processes)
    ]
    try:
        return [(process.communicate(timeout=60)[0], process.returncode) for process in started]
    finally:
        for process in started:
            process.kill()


def result(output):
    lines = [line for line in output.splitlines() if line.startswith("result ")]
    assert len(lines) == 1, output
    return [float(x) for x in lines[0].split()[1:]]


@pytest.mark.parametrize("dies", [0, 1])
def test_goes_on_without_a_process(dies):
    outputs = job(2, dies)
    assert outputs[dies][1] == -signal.SIGKILL
    output, code = outputs[1 - dies]
    assert code == 0, output
    assert "generation 0 of 2 {'data': 2, 'model': 2}" in output
    assert "generation 1 of 1 {'data': 1, 'model': 2}" in output
    ((alone, code),) = job(1, -1)
    assert code == 0, alone
    assert result(output) == pytest.approx(result(alone), abs=2e-5)


def one(world):
    return jax.device_put(jnp.zeros(2), NamedSharding(world.mesh, P())), lambda state, i: state + i


def test_a_process_that_is_alone():
    assert elastic.run(one, steps=4, mesh_shape=(1,), axis_names=("data",)).tolist() == [6.0, 6.0]


def test_misuse():
    with pytest.raises(ValueError, match="data_axes has \"batch\"; axes are data"):
        elastic.run(one, steps=1, mesh_shape=(1,), axis_names=("data",), data_axes=("batch",))
    with pytest.raises(ValueError, match="checkpoint_every is 5, and checkpoints names no folder"):
        elastic.run(one, steps=1, checkpoint_every=5)
    with pytest.raises(ValueError, match="steps is -1; it must not be negative"):
        elastic.run(one, steps=-1)
    with pytest.raises(TypeError, match="make must return a state and a function"):
        elastic.run(lambda world: jnp.zeros(1), steps=1)
    with pytest.raises(TypeError, match="step must return a state like the one that it is given"):
        elastic.run(lambda world: (jnp.zeros(1), lambda state, i: (state, state)), steps=1)


def test_what_a_step_raises():
    def step(state, i):
        raise RuntimeError("out of luck")

    with pytest.raises(RuntimeError, match="out of luck"):
        elastic.run(lambda world: (jnp.zeros(1), step), steps=1)
