"""What needs a process of its own: signals, the end of the interpreter, options that are read at the start."""

import os
import signal
import socket
import subprocess
import sys
import time

import pytest


def environment(**more):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SHOAL_", "XLA_", "JAX_"))}
    return {**kept, **more}


def run(text, **more):
    done = subprocess.run(
        [sys.executable, "-c", text], env=environment(**more), capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.strip()


@pytest.mark.parametrize(
    "variables",
    [
        {"XLA_FLAGS": "--xla_force_host_platform_device_count=3"},
        {"JAX_NUM_CPU_DEVICES": "3"},
        {"SHOAL_NUM_CPU_DEVICES": "3"},
        {"JAX_NUM_CPU_DEVICES": "3", "XLA_FLAGS": "--xla_force_host_platform_device_count=5"},
    ],
)
def test_number_of_devices(variables):
    assert run("import shoal as jax; print(jax.device_count())", **variables) == "3"


def test_platforms():
    assert run("import shoal as jax; print(jax.default_backend())", JAX_PLATFORMS="cpu") == "cpu"
    done = subprocess.run(
        [sys.executable, "-c", "import shoal"], env=environment(JAX_PLATFORMS="tpu"), capture_output=True, text=True
    )
    assert "Unknown backend" in done.stderr


def test_64_bit_types():
    text = "import shoal.numpy as jnp; print(jnp.arange(3).dtype, jnp.ones(2).dtype, (jnp.ones(2) * 2.5).dtype)"
    assert run(text) == "int32 float32 float32"
    assert run(text, JAX_ENABLE_X64="1") == "int64 float64 float64"


def test_numpy_is_imported_when_it_is_needed():
    text = "import shoal as jax, shoal.numpy as jnp, sys; jax.jit(lambda x: x + 1)(jnp.ones(3)); print('numpy' in sys.modules)"
    assert run(text) == "False"


# Takes minutes, in steps of less than a second.
LONG = """
import shoal as jax, shoal.numpy as jnp
x = jnp.ones((2048, 2048)) / 2048
@jax.jit
def f(x):
    for _ in range(600):
        x = x @ x
    return x
f(x[:8, :8])
y = f(x)
print("launched", flush=True)
"""


@pytest.fixture
def launched():
    """Starts a program, and waits until it has launched what takes long."""
    processes = []

    def start(text):
        process = subprocess.Popen(
            [sys.executable, "-c", LONG + text],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        processes.append(process)
        assert process.stdout.readline() == "launched\n"
        time.sleep(0.3)
        return process

    yield start
    for process in processes:
        process.kill()
        process.wait()


@pytest.mark.parametrize("wait", ["y.block_until_ready()", "float(y[0, 0])", "jax.effects_barrier()", "jax.device_get(y)"])
def test_ctrl_c_ends_a_wait(launched, wait):
    process = launched(f"""
try:
    {wait}
except KeyboardInterrupt:
    print("interrupted", flush=True)
""")
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "interrupted\n"
    assert time.monotonic() - begin < 2


def test_after_ctrl_c_the_process_ends_between_two_steps(launched):
    process = launched("y.block_until_ready()")
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=20) == -signal.SIGINT


def test_ctrl_c_ends_the_wait_at_the_end_of_the_interpreter(launched):
    process = launched("")
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=20) == 0


def test_callbacks_are_called_before_the_interpreter_ends():
    text = """
import shoal as jax, shoal.numpy as jnp
def f(x):
    jax.debug.callback(lambda v: print("called"), x)
    return x @ x
jax.jit(f)(jnp.ones((1024, 1024)))
"""
    assert run(text) == "called"


def test_misuse_of_initialize():
    text = """
import shoal as jax
jax.devices()
try:
    jax.distributed.initialize("localhost:1", 2, 0)
except RuntimeError as error:
    print("devices" in str(error))
try:
    jax.config.update("jax_no_such_option", 1)
except AttributeError as error:
    print(error)
"""
    assert run(text) == "True\nUnrecognized config option: jax_no_such_option"


CALLS = """
import sys
import numpy as np
import shoal as jax, shoal.numpy as jnp
from shoal import lax
from shoal.experimental import io_callback
from shoal.sharding import NamedSharding, PartitionSpec as P

jax.distributed.initialize(sys.argv[1], 2, int(sys.argv[2]))
mesh = jax.make_mesh((4,), ("x",))
split = NamedSharding(mesh, P("x"))
x = jax.make_array_from_callback((4,), split, lambda index: np.arange(4, dtype=np.float32)[index])


def calls(ordered):
    def show(a):
        jax.debug.print("{}", a[0], ordered=ordered)
        return a - 1

    return lambda x: lax.while_loop(lambda a: a[0] > 1, show, x)


f = jax.jit(jax.shard_map(calls(False), mesh=mesh, in_specs=P("x"), out_specs=P("x")))
f(x).block_until_ready()
jax.effects_barrier()
for make in (
    calls(True),
    lambda x: io_callback(lambda v: v, jax.ShapeDtypeStruct((1,), np.float32), x, ordered=True),
):
    try:
        jax.jit(jax.shard_map(make, mesh=mesh, in_specs=P("x"), out_specs=P("x")))(x)
    except ValueError as error:
        print(str(error).split(",")[0])
jax.jit(lambda x: jax.debug.print("whole {}", x, ordered=True))(x)
jax.effects_barrier()
"""


def test_calls_of_devices_of_several_processes():
    """Those that come there make calls, each in its process. They have no order between processes, as in JAX."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    started = [
        subprocess.Popen(
            [sys.executable, "-c", CALLS, address, str(i)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=environment(SHOAL_NUM_CPU_DEVICES="2", SHOAL_INSECURE="1"),
        )
        for i in range(2)
    ]
    outputs = [process.communicate(timeout=100) for process in started]
    refused = "debug.print: ordered=True\nio_callback: ordered=True\n"
    assert [process.returncode for process in started] == [0, 0], outputs
    assert outputs[0][0] == refused + "whole [0. 1. 2. 3.]\n"
    assert outputs[1][0] == "2.0\n3.0\n2.0\n" + refused
