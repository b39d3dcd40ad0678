"""The programs of the README and of the guide, in Python, print what stands there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text()
PROGRAMS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
PRINTED = [re.search(rf"```\n({begin}.*?)```", TEXT, re.DOTALL)[1] for begin in (r"\[\[ 1\.", "step 0: ")]

sys.path.insert(0, str(ROOT / "tools"))
import guide  # noqa: E402

OF_GUIDE = [(page, program) for page in guide.pages() for program in guide.programs_of(page)["python"]]


@pytest.mark.parametrize("program, printed", list(zip(PROGRAMS, PRINTED, strict=True)), ids=["first", "training"])
def test_programs(program, printed):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SHOAL_", "XLA_", "JAX_"))}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    assert done.stdout == printed


def tool():
    import shoal

    beside = Path(shoal.__file__).parent / "bin" / "shoal"
    return str(beside) if beside.exists() else os.environ["SHOAL_TOOL"]


@pytest.mark.parametrize("page, program", OF_GUIDE, ids=[program.name for _, program in OF_GUIDE])
def test_guide(page, program):
    assert guide.differences(program, guide.run_python(page, program, tool())) == []


def test_every_piece_of_the_guide_is_in_both_languages():
    for page in guide.pages():
        programs = guide.programs_of(page)
        for in_cpp, in_python in zip(programs["cpp"], programs["python"], strict=True):
            assert in_cpp.name == in_python.name
            assert len(in_cpp.pieces) == len(in_python.pieces), in_cpp.name


def test_texts_are_compared_up_to_what_is_left_out():
    assert guide.is_like("a (pid …) b\n", "a (pid 17) b\n")
    assert not guide.is_like("a …\n", "a\nb\n")
    assert not guide.is_like("[1. 2.]\n", "[1. 23]\n")
