"""The stubs that are installed beside the module are what a type checker can use."""

import subprocess
import sys
from pathlib import Path

import pytest

import shoal

PROGRAM = '''
import shoal as jax
import shoal.numpy as jnp
from shoal import _core
from shoal.sharding import NamedSharding, PartitionSpec as P

mesh: _core.Mesh = jax.make_mesh((1,), ("x",))
a: jax.Array = jnp.ones(3)
s: NamedSharding = NamedSharding(mesh, P())
shape: tuple = a.shape
reveal_type(a.weak_type)
a.no_such_method()
'''


def test_stubs(tmp_path):
    pytest.importorskip("mypy", reason="mypy is not installed")
    stubs = Path(shoal.__file__).parent / "_core" / "__init__.pyi"
    if not stubs.exists():
        pytest.skip("the package is not installed, but used from the source folder: stubs are made when it is installed")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path / "cache"), str(program)], capture_output=True,
        text=True, timeout=300, cwd=tmp_path,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("program.py")]
    assert any('Revealed type is "builtins.bool"' in line or 'Revealed type is "bool"' in line for line in lines), done.stdout
    errors = [line for line in lines if " error: " in line]
    assert len(errors) == 1 and '"no_such_method"' in errors[0], done.stdout
