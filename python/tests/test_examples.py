"""The programs of examples/: what they compute is right, and the same in one process and in two."""

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from test_seeds import environment, tool

EXAMPLES = Path(__file__).parents[2] / "examples"
IN_TWO = ["run", "-n", "2", "--devices-per-process", "4", "--no-prefix", "--"]


def run(command, **more):
    done = subprocess.run(command, env=environment(**more), capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines(), done.stderr.splitlines()


def heat(path, before=()):
    program = [*before, sys.executable, str(EXAMPLES / "heat.py"), "128", "5", "30", str(path)]
    return run(program, SHOAL_NUM_CPU_DEVICES="8" if not before else "4")


def plain_heat(steps):
    """The final plate by NumPy, in f64."""
    n = 128
    sines = {k: np.sin(np.pi * k * np.arange(1, n + 1) / (n + 1)) for k in range(1, 6)}
    plate = sum(h * np.outer(sines[i], sines[j]) for i, j, h in [(1, 1, 1.0), (2, 3, 0.7), (5, 4, 0.5)])
    for _ in range(steps):
        p = np.pad(plate, 1)
        plate = plate + 0.2 * (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * plate)
    return plate


def test_heat(tmp_path):
    printed, progress = heat(tmp_path / "one.pgm")
    assert len(progress) == 5 and progress[-1].startswith("[" + "#" * 40 + "] 150 steps, ")
    assert printed[-2].startswith("largest error ") and float(printed[-2].split()[-1]) < 1e-5
    picture = (tmp_path / "one.pgm").read_bytes()
    header = b"P5 128 128 255\n"
    assert picture.startswith(header)
    plate = plain_heat(150)
    wanted = (plate - plate.min()) * 255.5 / (plate.max() - plate.min())
    pixels = np.frombuffer(picture[len(header):], np.uint8).reshape(128, 128)
    assert np.abs(pixels + 0.5 - wanted).max() < 0.51
    assert [len(row) for row in printed[2:34]] == [64] * 32


def test_heat_gives_the_same_in_two_processes(tmp_path):
    alone, _ = heat(tmp_path / "one.pgm")
    both, _ = heat(tmp_path / "two.pgm", [tool(), *IN_TWO])
    assert both[2:] == alone[2:]
    assert (tmp_path / "two.pgm").read_bytes() == (tmp_path / "one.pgm").read_bytes()


def test_heat_says_how_it_is_used():
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "heat.py"), "100"], env=environment(), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert done.stderr == "usage: heat.py [points [blocks [steps of a block [file]]]], points being a multiple of 64\n"


def solve(*before):
    return run([*before, sys.executable, str(EXAMPLES / "solve.py"), "600", "8"],
               SHOAL_NUM_CPU_DEVICES="4" if before else "8")[0]


def test_solve():
    alone = solve()
    both = solve(tool(), *IN_TWO)
    assert alone[0] == "600 x 600 on 8 devices of 1 processes, each with (300, 150)"
    assert both[0] == "600 x 600 on 8 devices of 2 processes, each with (300, 150)"
    for lines in alone, both:
        assert "status 0" in lines[1]
        assert float(lines[1].split()[-1]) < 1e-12 and float(lines[2].split()[-1]) < 1e-12
    # The same bits, whoever computes them.
    assert [line.split()[-1] for line in both[1:]] == [line.split()[-1] for line in alone[1:]]


# ---- Training. tools/data.sh gets the data; C++ and Python print the same.

ROOT = EXAMPLES.parent


def programs(name):
    """The example in Python and in C++."""
    return {"python": [sys.executable, str(EXAMPLES / f"{name}.py")], "c++": [str(ROOT / "build/release/bin" / name)]}


def trained(command, out, **more):
    """What a program prints, without bars and speeds, and the columns of its table."""
    done = subprocess.run(
        [*command, "--out", str(out)], cwd=ROOT, env=environment(**more), capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    header, *rows = Path(f"{out}.csv").read_text().splitlines()
    columns = np.array([[float(x or "nan") for x in row.split(",")] for row in rows]).T
    assert "<svg" in Path(f"{out}.svg").read_text() and "</html>" in Path(f"{out}.html").read_text()
    return [line.split("\r")[-1] for line in done.stdout.split("\n")], dict(zip(header.split(","), columns))


def test_digits(tmp_path):
    for name, program in programs("digits").items():
        printed, _ = trained([*program, "--epochs", "30"], tmp_path / "a", SHOAL_NUM_CPU_DEVICES="8")
        accuracies = [line.split()[-1] for line in printed if "reads" in line]
        assert len(accuracies) == 3 and all(float(a.rstrip("%")) >= 97 for a in accuracies), name
        assert float(printed[-2].split()[-1]) < 1e-6  # Between jit, shard_map and pmap.


def test_digits_by_a_convolutional_net_in_two_processes(tmp_path):
    arguments = ["--model", "conv", "--epochs", "3"]
    last = []
    for program in programs("digits").values():
        for before, devices in ([], "8"), ([tool(), *IN_TWO], "4"):
            _, table = trained([*before, *program, *arguments], tmp_path / "a", SHOAL_NUM_CPU_DEVICES=devices)
            last.append([column[~np.isnan(column)].tolist() for name, column in table.items()])
    assert last[0] == last[1] == last[2] == last[3]  # The same bits in Python, in C++, in one process and in two.


def gpt(program, out, mesh, strategy, *before, experts=0, steps=50):
    small = ["--layers", "2", "--width", "64", "--length", "64", "--batch", "8", "--steps", str(steps), "--rate", "1e-3"]
    command = [*before, *program, *small, "--mesh", mesh, "--strategy", strategy, "--sample", "20", "--microbatches", "2",
               "--experts", str(experts)]
    printed, table = trained(command, out, SHOAL_NUM_CPU_DEVICES="4" if before else "8")
    return printed, table["loss"]


def test_gpt_learns_the_same_by_every_strategy(tmp_path):
    python = programs("gpt")["python"]
    _, alone = gpt(python, tmp_path / "a", "data=1", "dp")
    assert len(alone) == 50 and alone[-1] < alone[0] - 1.5
    for mesh, strategy in (
        ("data=8", "dp"), ("data=8", "fsdp"), ("model=8", "tp"), ("data=2,model=4", "tp"), ("data=2,model=4", "ring"),
        ("data=4,model=2", "pipeline"), ("data=4,model=2", "1f1b"), ("model=2", "1f1b"),
    ):
        _, losses = gpt(python, tmp_path / "a", mesh, strategy)
        np.testing.assert_allclose(losses, alone, rtol=0, atol=1e-5, err_msg=f"{strategy} on {mesh}")


def test_gpt_learns_the_same_with_its_experts_over_devices(tmp_path):
    python = programs("gpt")["python"]
    _, alone = gpt(python, tmp_path / "a", "data=1", "dp", experts=8)
    assert alone[-1] < alone[0] - 1.5
    for mesh, strategy in ("data=8", "experts"), ("data=2", "experts"), ("data=4", "fsdp"):
        _, losses = gpt(python, tmp_path / "a", mesh, strategy, experts=8)
        np.testing.assert_allclose(losses, alone, rtol=0, atol=1e-5, err_msg=f"{strategy} on {mesh}")


def test_gpt_gives_the_same_bits_in_two_processes(tmp_path):
    for mesh, strategy, experts, steps in (
        ("data=2,model=4", "tp", 0, 50), ("data=4,model=2", "1f1b", 0, 10), ("data=8", "experts", 8, 10),
    ):
        runs = []
        for program in programs("gpt").values():
            for before in [], [tool(), *IN_TWO]:
                printed, losses = gpt(program, tmp_path / "a", mesh, strategy, *before, experts=experts, steps=steps)
                runs.append((losses.tolist(), [line for line in printed if line.startswith("hacker")]))
        assert runs == runs[:1] * 4, strategy  # In Python, in C++, in one process and in two.


@pytest.mark.parametrize("language", ["python", "c++"])
def test_gpt_goes_on_from_its_checkpoint_with_the_same_bits(tmp_path, language):
    program = [*programs("gpt")[language], "--layers", "1", "--width", "32", "--length", "32", "--batch", "8", "--sample",
               "0", "--steps", "50", "--mesh", "data=8", "--strategy", "fsdp"]
    _, whole = trained(program, tmp_path / "whole", SHOAL_NUM_CPU_DEVICES="8")
    saving = [*program, "--checkpoint", str(tmp_path / "saved"), "--save-every", "10"]
    # Killed as soon as it has saved twice.
    running = subprocess.Popen(saving, cwd=ROOT, env=environment(SHOAL_NUM_CPU_DEVICES="8"), stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 100
    while not (tmp_path / "saved/step_00000019").exists() and time.monotonic() < deadline:
        time.sleep(0.001)
    running.kill()
    running.wait()
    _, rest = trained(saving, tmp_path / "rest", SHOAL_NUM_CPU_DEVICES="8")
    begin = int(rest["step"][0]) - 1
    assert begin >= 20
    assert rest["loss"].tolist() == whole["loss"][begin:].tolist()


COMPILED = """
import collections, json, re, sys
sys.path.insert(0, sys.argv.pop(1))
import gpt
import shoal as jax
import shoal.numpy as jnp
from shoal import optimizers, random
from shoal.sharding import NamedSharding, PartitionSpec as P

options = gpt.parse()
mesh = gpt.parse_mesh(options.mesh)
optimizer = optimizers.adamw(1e-3)
params = gpt.init(random.key(0), options)
params = jax.device_put(params, gpt.shardings_of(options.strategy, mesh, params))
rows = NamedSharding(mesh, P("data" if "data" in mesh.shape else None))
batch = jnp.zeros((options.batch, options.length + 1), jnp.int32), jnp.ones(options.batch, bool)
step = jax.jit(gpt.train_step(options, optimizer, mesh))
compiled = step.lower(params, optimizer.init(params), *jax.device_put(batch, rows)).compile()
"""

EXCHANGED = COMPILED + """
counts = collections.Counter()
for line in compiled.as_text().splitlines():
    found = re.match(r"( *)%\\d+: \\w+\\[([\\d,]*)\\].* = (all_\\w+|reduce_scatter|ppermute)\\(", line)
    if found:
        size = 1
        for extent in filter(None, found[2].split(",")):
            size *= int(extent)
        place = "body" if len(found[1]) > 2 else "once"
        counts[f"{found[3]}, {place}, {'large' if size > 4096 else 'small'}"] += 1
print(json.dumps(counts))
"""


def exchanged(*arguments):
    program = [sys.executable, "-c", EXCHANGED, str(EXAMPLES), "--layers", "3", "--batch", "8", *arguments]
    return json.loads(run(program, SHOAL_NUM_CPU_DEVICES="8")[0][-1])


def test_gpt_exchanges_what_a_person_would_write():
    # A sum for each weight, once, and of the loss and the rows that count.
    assert exchanged("--mesh", "data=8", "--strategy", "dp") == {"all_reduce, once, large": 5, "all_reduce, once, small": 5}
    # Each weight is gathered where its layer runs, forward and back, and its gradient scattered there.
    fsdp = exchanged("--mesh", "data=8", "--strategy", "fsdp")
    scattered = sum(n for key, n in fsdp.items() if key.startswith("reduce_scatter, body"))
    assert fsdp["all_gather, body, large"] == 8 and scattered == 4
    assert not any(key.startswith("all_reduce") and key.endswith("large") for key in fsdp)
    # What goes to the experts, and comes back: forward, and back.
    experts = exchanged("--mesh", "data=8", "--strategy", "experts", "--experts", "8")
    assert {key: n for key, n in experts.items() if key.startswith("all_to_all")} == {"all_to_all, body, large": 4}


HELD = COMPILED + """
print(compiled.memory_analysis().temp_size_in_bytes)
"""


def test_gpt_keeps_the_activations_of_a_few_microbatches():
    def held(strategy, microbatches):
        arguments = ["--mesh", "model=4", "--strategy", strategy, "--microbatches", str(microbatches), "--batch"]
        program = [sys.executable, "-c", HELD, str(EXAMPLES), *arguments, str(2 * microbatches)]
        return int(run(program, SHOAL_NUM_CPU_DEVICES="4")[0][-1])

    few, many = held("1f1b", 4), held("1f1b", 16)
    assert many - few < 10_000  # No activation has fewer bytes: the tokens are there.
    of_one = (held("pipeline", 16) - held("pipeline", 4)) / 12
    assert many < 5 * of_one  # Of stages + 1.


def everywhere(name, arguments, devices):
    """What a program prints, which must be the same in both languages, in one process and in two."""
    printed = []
    for program in programs(name).values():
        for before in [], [tool(), "run", "-n", "2", "--devices-per-process", str(devices // 2), "--no-prefix", "--"]:
            done = subprocess.run([*before, *program, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=200,
                                  env=environment(SHOAL_NUM_CPU_DEVICES=str(devices // 2 if before else devices)))
            assert done.returncode == 0, done.stdout + done.stderr
            printed.append(done.stdout.splitlines())
    assert printed == printed[:1] * 4
    return printed[0]


def test_nested_pmap():
    *losses, last = everywhere("nested_pmap", ["--grid", "4,2"], 8)
    assert last.startswith("of 300 digits that they never saw 4 x 2 devices read ")
    assert float(last.split()[-1].rstrip("%")) >= 97
    alone, _ = run([*programs("nested_pmap")["python"], "--grid", "1,1", "--data", str(ROOT / "build/data/digits.csv")])
    for line, wanted in zip(losses, alone):
        np.testing.assert_allclose(float(line.split()[-1]), float(wanted.split()[-1]), rtol=0, atol=1e-5)


def test_multi_host():
    *losses, surprises, bits = everywhere("multi_host", ["--steps", "50"], 4)
    assert float(losses[-1].split()[-1]) < 3.4 and len(losses) == 5
    assert surprises.startswith("the next 16 sequences: ") and bits.startswith("sum of the bits of all weights ")


def test_heat_source(tmp_path):
    python, cpp = programs("heat_source").values()
    small = ["--points", "64", "--steps", "60", "--iterations", "20"]
    held, runs = [], []
    for before, program, checkpoints in (
        ([], python, 4), ([], cpp, 4), ([tool(), *IN_TWO], python, 4), ([tool(), *IN_TWO], cpp, 4), ([], cpp, 0),
    ):
        printed, table = trained([*before, *program, *small, "--checkpoints", str(checkpoints)], tmp_path / "a",
                                 SHOAL_NUM_CPU_DEVICES="4" if before else "8")
        runs.append((table["loss"].tolist(), printed[-2]))
        held.append(float(printed[0].split("; ")[1].split()[0]))
    # In both languages, in one process and in two, and whatever is kept.
    assert runs == runs[:1] * 5
    losses, last = runs[0]
    assert losses[-1] < 0.2 * losses[0] and last.startswith("the strongest source is at 0.29, 0.60; ")
    assert held[0] < held[-1] / 3
