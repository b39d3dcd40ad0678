"""The stubs that are installed beside the module are what a type checker can use."""

import subprocess
import sys
from pathlib import Path

import pytest

import shoal

PROGRAM = '''
import numpy as np

import shoal as jax
import shoal.numpy as jnp
from shoal import _core
from shoal.sharding import NamedSharding, PartitionSpec as P

mesh: _core.Mesh = jax.make_mesh((1,), ("x",))
a: jax.Array = jnp.ones(3)
s: NamedSharding = NamedSharding(mesh, P())
shape: tuple = a.shape
reveal_type(a.weak_type)
reveal_type(jnp.asarray([1, 2]))
reveal_type(jnp.sum(np.ones(3), axis=(0,), where=a > 0))
reveal_type(jax.lax.exp(2.0))
jnp.max(a, axis=None, keepdims=True)
jnp.sum("text")
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
    assert sum("Revealed type is" in line and "Array" in line for line in lines) == 3, done.stdout
    errors = [line for line in lines if " error: " in line]
    assert len(errors) == 2, done.stdout
    assert 'incompatible type "str"' in errors[0] and '"no_such_method"' in errors[1], done.stdout
