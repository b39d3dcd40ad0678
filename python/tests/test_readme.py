"""The first program of the README, in Python, prints what stands there."""

import os
import re
import subprocess
import sys
from pathlib import Path


def test_first_program():
    text = (Path(__file__).parents[2] / "README.md").read_text()
    program = re.search(r"```python\n(.*?)```", text, re.DOTALL)[1]
    printed = re.search(r"```\n(\[\[ 1\..*?)```", text, re.DOTALL)[1]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SHOAL_", "XLA_", "JAX_"))}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    assert done.stdout == printed
