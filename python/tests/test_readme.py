"""The programs of the README, in Python, print what stands there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TEXT = (Path(__file__).parents[2] / "README.md").read_text()
PROGRAMS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
PRINTED = [re.search(rf"```\n({begin}.*?)```", TEXT, re.DOTALL)[1] for begin in (r"\[\[ 1\.", "step 0: ")]


@pytest.mark.parametrize("program, printed", list(zip(PROGRAMS, PRINTED, strict=True)), ids=["first", "training"])
def test_programs(program, printed):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SHOAL_", "XLA_", "JAX_"))}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    assert done.stdout == printed
