"""Programs that import jax, run by `python -m shoal.as_jax`."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text()


def run(program, tmp_path, *arguments, command=("-m", "shoal.as_jax")):
    (tmp_path / "program.py").write_text(program)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SHOAL_", "XLA_", "JAX_"))}
    return subprocess.run(
        [sys.executable, *command, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
    )


def printed(program, tmp_path, *arguments):
    done = run(program, tmp_path, *(arguments or ["program.py"]))
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return done.stdout


def test_the_first_program_with_the_imports_of_jax(tmp_path):
    program = re.search(r"```python\n(.*?)```", README, re.DOTALL)[1]
    program = program.replace("import shoal as jax", "import jax").replace("shoal", "jax")
    assert "import jax.numpy as jnp" in program and "shoal" not in program
    assert printed(program, tmp_path) == re.search(r"```\n(\[\[ 1\..*?)```", README, re.DOTALL)[1]


def test_modules_are_the_same_by_either_name(tmp_path):
    program = """
import jax.numpy as jnp, jax.scipy.special, jax.tree_util, jax.experimental.shard_map, jax.export
from jax import export, lax, nn, random
from jax.experimental import mesh_utils
from jax.sharding import PartitionSpec
import jax
import shoal, shoal.numpy, importlib
print(jax is shoal, jnp is shoal.numpy, lax is shoal.lax, jax.scipy.special is shoal.scipy.special)
print(PartitionSpec is shoal.P, jax.experimental.mesh_utils is mesh_utils, random is shoal.random)
print(shoal.__spec__.name, shoal.numpy.__spec__.name, importlib.import_module("jax.nn") is nn)
print(export is shoal.export is jax.export)
"""
    assert printed(program, tmp_path).split() == ["True"] * 7 + ["shoal", "shoal.numpy", "True", "True"]


def test_the_program_sees_its_own_arguments_folder_and_lines(tmp_path):
    (tmp_path / "beside.py").write_text("import jax.numpy as jnp\nvalue = int(jnp.arange(4).sum())\n")
    program = "import sys, beside\nprint(__name__, sys.argv, beside.value)\nif len(sys.argv) > 2:\n    raise ValueError"
    assert printed(program, tmp_path, "program.py", "-m") == "__main__ ['program.py', '-m'] 6\n"
    assert re.fullmatch(r"__main__ \['.*/program.py', 'a'\] 6\n", printed(program, tmp_path, "-m", "program", "a"))
    done = run(program, tmp_path, "program.py", "1", "2")
    assert done.returncode == 1 and re.search(r'program.py", line 4, in <module>', done.stderr)


@pytest.mark.parametrize(
    "statement, text",
    [
        ("import jax.ffi", "jax.ffi is served by Shoal: module 'shoal' has no attribute 'ffi': it is not there yet"),
        ("from jax.lax import ragged_dot_general", "module 'shoal.lax' has no attribute 'ragged_dot_general': it is not there yet"),
        ("import jax.experimental.pallas.tpu", "jax.experimental.pallas is served by Shoal: .* it is not there yet"),
        ("import jax.absent", "jax.absent is served by Shoal, which has no module shoal.absent"),
        ("from jax._src import core", "jax._src is a private module of JAX, which Shoal has not"),
    ],
)
def test_modules_that_are_not_there(tmp_path, statement, text):
    program = f"try:\n    {statement}\nexcept ImportError as error:\n    print(type(error).__name__, error)"
    kind = "ImportError" if statement.startswith("from jax.lax") else "ModuleNotFoundError"
    assert re.match(f"{kind} {text}", printed(program, tmp_path))


def test_jax_itself_must_not_be_there(tmp_path):
    (tmp_path / "jax.py").write_text("")
    program = "import jax\nfrom shoal import as_jax\nas_jax.install()"
    done = run(program, tmp_path, "program.py", command=())
    assert re.search(r"ImportError: shoal.as_jax: JAX itself was imported before, from .*jax.py; ", done.stderr)
    assert printed("import jax\nprint(jax.__name__)", tmp_path) == "shoal\n"


def test_says_how_it_is_used(tmp_path):
    done = run("", tmp_path, command=("-m", "shoal.as_jax"))
    assert done.returncode == 1 and done.stderr.startswith("usage: python -m shoal.as_jax ")
