"""The programs of examples/: what they compute is right, and the same in one process and in two."""

import subprocess
import sys
from pathlib import Path

import numpy as np

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
