"""The programs of the documents that Shoal was started from, with only their imports changed, give what JAX gives.

What counts as the same is the list of normalisations below, each with its reason."""

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "seeds"
PROGRAMS = FOLDER / "programs"

# (pattern, replacement, reason)
NORMALISATIONS = [
    (r"^(\[Gloo\]|.*Rank \d+ is connected to).*\n", "", "lines of Gloo"),
    (r"^===== process.*\n", "", "lines of the launcher that recorded the outputs"),
    (r"id=(2048|4096|6144)", lambda m: f"id={int(m[1]) // 2048 * 131072}", "device ids 2048 p are 131072 p here"),
    (r"id=(204[9]|205[0-1])", lambda m: f"id={131072 + int(m[1]) - 2048}", "the same of process 1"),
    (r"id=(4097|6145)", lambda m: f"id={int(m[1]) // 2048 * 131072 + 1}", "the same of processes 2 and 3"),
    (r"(?<![\d.])(204[89]|205[01]|409[67]|614[45])(?=[,│\])])",
     lambda m: str(int(m[1]) // 2048 * 131072 + int(m[1]) % 2048), "the same as numbers in lists"),
    (r"<class '(jaxlib\._jax\.ArrayImpl|jaxlib\.xla_extension\.ArrayImpl|shoal\.Array)'>", "<class Array>",
     "names of types"),
    (r"PmapSharding\(.*?device_shape=\(8,\)\)", "<pmap>", "pmap's sharding is a NamedSharding"),
    (r"NamedSharding\(mesh=Mesh\('(_internal_pmap_axis_name|pmap_axis_0)': 8[^\n]*?memory_kind=device\)", "<pmap>",
     "the name of an axis that has none"),
    (r"EXC \S*?(IndivisibleError|builtins\.ValueError):[^\n]*(\n(?!---|\[).*)*", "EXC ValueError",
     "texts of errors are Shoal's own; IndivisibleError is a ValueError"),
    (r"^<cell>:\d+ \(<module>\)\n", "", "where JAX says the line that Shoal puts into the text"),
    (r"EXC (?:builtins\.)?(\w+): [^\n]*(\n(?!---|\[|DONE).*)*", r"EXC \1", "texts of errors are Shoal's own"),
    (r"^(import|from) .*\n", "", "import lines"),
    (r"^Array\(\[\[1\., 0\.[^)]*dtype=float32\)\n(?:\[\[1\. 0\.(?:.*\n){8})(?=\[\[1\.)",
     "Array(shape=(8, 8), dtype=float32)\n" * 2, "an array of which a process has all is printed whole"),
    (r"\s*\n\s*", "\n", "where lines break in printed grids of devices, as ids have more digits"),
    (r" +", " ", "the width of numbers"),
    (r" (?=[,│\]])|(?<=│) ", "", "the width of numbers, and of boxes with longer ids"),
    (r"─+", "─", "the same"),
]


def normalised(text):
    for pattern, replacement, _ in NORMALISATIONS:
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    # Sets have no order.
    return re.sub(r"\{(Cpu[^{}]*)\}", lambda m: "{" + ", ".join(sorted(m[1].split(", "))) + "}", text).strip()


NUMBER = re.compile(r"(?<![\w.])-?\d+\.\d*(?:e[+-]?\d+)?")


def assert_same(given, expected):
    """Equal texts, but for the last digit of floats, which is rounding."""
    given, expected = normalised(given), normalised(expected)
    assert NUMBER.sub("#", given) == NUMBER.sub("#", expected)
    for a, b in zip(NUMBER.findall(given), NUMBER.findall(expected)):
        assert float(a) == pytest.approx(float(b), rel=3e-7, abs=1e-9)


def environment(**more):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SHOAL_", "XLA_", "JAX_"))}
    return {**kept, **more}


def run(program, *arguments, **more):
    done = subprocess.run(
        [sys.executable, program, *arguments], cwd=PROGRAMS, env=environment(**more), capture_output=True, text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout


def cells(text):
    parts = re.split(r"^--- In \[(\d+)\]:\n", text, flags=re.MULTILINE)[1:]
    return dict(zip(map(int, parts[::2]), parts[1::2]))


def expected_cells(name):
    return cells((FOLDER / "expected" / name).read_text())


# Nested pmap works here, as it did in 0.4.38.
NESTED = (4, 5, 6)


def test_seed001():
    new, old = expected_cells("seed001_auto.txt"), expected_cells("seed001_old.txt")
    given = cells(run("seed001.py"))
    assert given.keys() == new.keys()
    for number, text in given.items():
        assert_same(text, (old if number in NESTED else new)[number])


def test_seed004():
    expected = expected_cells("seed004_auto.txt")
    given = cells(run("seed004_auto.py"))
    assert given.keys() == expected.keys()
    for number, text in given.items():
        assert_same(text, expected[number])


# ---- Several processes.


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return str(s.getsockname()[1])


def by_hand(program, processes, devices):
    port = free_port()
    env = environment(XLA_FLAGS=f"--xla_force_host_platform_device_count={devices}")
    running = [
        subprocess.Popen(
            [sys.executable, program, str(i), str(processes), port], cwd=PROGRAMS, env=env, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True,
        )
        for i in range(processes)
    ]
    outputs = [p.communicate(timeout=200)[0] for p in running]
    assert [p.returncode for p in running] == [0] * processes, outputs
    return outputs


def expected_outputs(name):
    text = (FOLDER / "expected" / name).read_text()
    return re.split(r"^===== process \d+.*\n", text, flags=re.MULTILINE)[1:]


@pytest.mark.parametrize(
    "program, recorded, processes, devices",
    [
        ("seed002.py", "seed002_n2.txt", 2, 4),
        ("seed002.py", "seed002_n4x2.txt", 4, 2),
        ("seed003.py", "seed003.txt", 2, 4),
        ("seed003.py", "seed003_n4x2.txt", 4, 2),
    ],
)
def test_several_processes_by_hand(program, recorded, processes, devices):
    for given, expected in zip(by_hand(program, processes, devices), expected_outputs(recorded), strict=True):
        assert_same(given, expected)


# Launchers tell what seed 003 takes from its command line.
LAUNCHED = """
import shoal as jax
jax.distributed.initialize()
import sys
sys.argv = ["seed003.py", str(jax.process_index()), str(jax.process_count())]
jax.distributed.initialize = lambda *args: None
text = open("seed003.py").read()
import io, contextlib
out = io.StringIO()
with contextlib.redirect_stdout(out):
    exec(compile(text, "seed003.py", "exec"))
open(f"@FOLDER@/{jax.process_index()}.txt", "w").write(out.getvalue())
"""


def tool():
    import shoal

    beside = Path(shoal.__file__).parent / "bin" / "shoal"
    return str(beside) if beside.exists() else os.environ["SHOAL_TOOL"]


@pytest.mark.parametrize("launcher", ["shoal run", "mpirun"])
def test_launchers(launcher, tmp_path):
    if launcher == "mpirun" and shutil.which("mpirun") is None:
        pytest.skip("mpirun is not installed")
    script = tmp_path / "program.py"
    script.write_text(LAUNCHED.replace("@FOLDER@", str(tmp_path)))
    before = {
        "shoal run": [tool(), "run", "-n", "2", "--devices-per-process", "4", "--"],
        "mpirun": ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2"],
    }[launcher]
    done = subprocess.run(
        [*before, sys.executable, str(script)], cwd=PROGRAMS, env=environment(SHOAL_NUM_CPU_DEVICES="4"),
        capture_output=True, text=True, timeout=200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for i, expected in enumerate(expected_outputs("seed003.txt")):
        assert_same((tmp_path / f"{i}.txt").read_text(), expected)


# What these print was recorded under JAX 0.12 in process 1 of 2, with four CPU devices each; ids are normalised.
IN_TWO_PROCESSES = """
import numpy as np
import shoal as jax, shoal.numpy as jnp
from shoal import lax
from shoal.sharding import Mesh, NamedSharding, PartitionSpec as P
from shoal.experimental import multihost_utils
jax.distributed.initialize()
pid, n = jax.process_index(), jax.process_count()
mesh = Mesh(np.array(jax.devices()), ("x",))
grid = Mesh(np.array(jax.devices()).reshape(n, -1), ("p", "d"))
x = np.arange(64, dtype=np.float32).reshape(8, 8)
g = jax.make_array_from_callback((8, 8), NamedSharding(grid, P("p", "d")), lambda i: x[i])
def shards(y):
    return [shard.data.tolist() for shard in y.addressable_shards]
def mapped(f, out_specs):
    return shards(jax.shard_map(f, mesh=grid, in_specs=P("p", "d"), out_specs=out_specs)(g))
lines = [
    mesh.local_mesh,
    (mesh.devices.size, mesh.local_devices == jax.local_devices(), mesh.is_multi_process),
    [shard.index for shard in g.addressable_shards],
    mapped(lambda a: lax.psum(a, "p"), P(None, "d"))[0],
    mapped(lambda a: lax.psum(a, "d"), P("p"))[0],
    mapped(lambda a: lax.psum_scatter(a, "p", tiled=True), P("p", "d"))[1],
    mapped(lambda a: lax.ppermute(a, "p", [(i, (i + 1) % n) for i in range(n)]), P("p", "d"))[0],
    mapped(lambda a: jnp.full((1, 1), lax.axis_index("p") * 10 + lax.axis_index("d")), P("p", "d")),
    jax.pmap(lambda a: lax.psum(a, "i"), axis_name="i")(np.arange(4) + pid),
    jax.pmap(lambda a: a + lax.axis_index("i"), axis_name="i")(np.zeros(4, int)),
    jax.pmap(lambda a: lax.all_gather(a, "i"), axis_name="i")(np.arange(4) + 10 * pid)[0],
    shards(jax.device_put(np.arange(16, dtype=np.float32).reshape(8, 2), NamedSharding(grid, P("d", "p")))),
    np.asarray(jax.jit(lambda a, b: (a @ b).sum(axis=0), out_shardings=NamedSharding(grid, P()))(g, g)),
]
open(f"@FOLDER@/{pid}.txt", "w").write("\\n".join(map(str, lines)))
"""

SEEN_BY_PROCESS_1 = """Mesh('x': 4, axis_types=(Auto,))
(8, True, True)
[(slice(4, 8, None), slice(0, 2, None)), (slice(4, 8, None), slice(2, 4, None)), \
(slice(4, 8, None), slice(4, 6, None)), (slice(4, 8, None), slice(6, 8, None))]
[[32.0, 34.0], [48.0, 50.0], [64.0, 66.0], [80.0, 82.0]]
[[140.0, 144.0], [172.0, 176.0], [204.0, 208.0], [236.0, 240.0]]
[[68.0, 70.0], [84.0, 86.0]]
[[0.0, 1.0], [8.0, 9.0], [16.0, 17.0], [24.0, 25.0]]
[[[10]], [[11]], [[12]], [[13]]]
[16 16 16 16]
[4 5 6 7]
[ 0  1  2  3 10 11 12 13]
[[[1.0], [3.0]], [[5.0], [7.0]], [[9.0], [11.0]], [[13.0], [15.0]]]
[59136. 61152. 63168. 65184. 67200. 69216. 71232. 73248.]"""


def test_what_a_process_sees(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(IN_TWO_PROCESSES.replace("@FOLDER@", str(tmp_path)))
    done = subprocess.run(
        [tool(), "run", "-n", "2", "--devices-per-process", "4", "--", sys.executable, str(script)], env=environment(),
        capture_output=True, text=True, timeout=200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "1.txt").read_text() == SEEN_BY_PROCESS_1
