"""shoal.linalg: solvers of matrices that devices share, as the solver package jaxmg offers them."""

import subprocess
import sys

import numpy as np
import pytest

import shoal as jax
import shoal.numpy as jnp
from shoal import linalg
from shoal.sharding import NamedSharding, PartitionSpec as P
from test_seeds import environment, tool

# The end of the solver package's program, as it stands in its documentation but for the name of the axis, which is "T"
# there; and the same without the gather before.
PROGRAM = """
import numpy as np
import jax
jax.distributed.initialize()
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from jaxmg import potrs
by_process = {}
for device in jax.devices():
    by_process.setdefault(device.process_index, []).append(device)
mesh2d = Mesh(np.array([by_process[p] for p in sorted(by_process)]), ("x", "y"))
A = jax.device_put(
    jnp.diag(jnp.arange(1, jax.device_count() + 1, dtype=jnp.float32)), NamedSharding(mesh2d, P(None, ("x", "y")))
)
b = jnp.ones((jax.device_count(), 1), dtype=jnp.float32)
out = potrs(A, b, T_A=256, mesh=mesh2d, in_specs=(P(None, ("x", "y")), P(None, None)))
print(jax.process_index(), np.asarray(out).ravel().tolist())
A = jax.lax.with_sharding_constraint(A, NamedSharding(mesh2d, P(None, "y")))
out = potrs(
    A,
    jnp.ones((jax.device_count(), 1), dtype=jnp.float32),
    T_A=256,
    mesh=mesh2d,
    in_specs=(P(None, "y"), P(None, None)),
)
print(jax.process_index(), np.asarray(out).ravel().tolist())
"""


@pytest.mark.parametrize("processes", [1, 2, 4])
def test_the_program_of_the_solver_package(processes, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    devices = str(8 // processes)
    done = subprocess.run(
        [tool(), "run", "-n", str(processes), "--devices-per-process", devices, "--no-prefix", "--", sys.executable, "-m",
         "shoal.as_jax", str(program)],
        env=environment(SHOAL_NUM_CPU_DEVICES=devices), capture_output=True, text=True, timeout=200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = sorted(done.stdout.splitlines())
    assert [line.split()[0] for line in lines] == [str(p) for p in range(processes) for _ in range(2)]
    for line in lines:
        given = np.array(eval(line.split(maxsplit=1)[1]))
        np.testing.assert_allclose(given, 1 / np.arange(1, 9), rtol=1e-6)


def system(n, sides=3):
    random = np.random.default_rng(0)
    root = random.normal(size=(n, n)).astype(np.float32)
    return root @ root.T / n + np.eye(n, dtype=np.float32), random.normal(size=(n, sides)).astype(np.float32)


@pytest.fixture(scope="module")
def mesh():
    return jax.make_mesh((4, 2), ("x", "y"))


def test_potrs(mesh):
    a, b = system(64)
    split = jax.device_put(a, NamedSharding(mesh, P("x", "y")))
    wanted = np.linalg.solve(a.astype(np.float64), b)
    for call in linalg.potrs, jax.jit(linalg.potrs, static_argnames=("T_A",)):
        np.testing.assert_allclose(call(split, b, T_A=16), wanted, rtol=1e-3, atol=1e-4)
    x, status, logdet = linalg.potrs(split, b, T_A=16, return_status=True, return_logdet=True)
    np.testing.assert_allclose(x, wanted, rtol=1e-3, atol=1e-4)
    assert status == 0 and status.dtype == jnp.int32
    np.testing.assert_allclose(logdet, np.linalg.slogdet(a.astype(np.float64))[1], rtol=1e-4)
    assert linalg.potrs(split, b[:, 0]).shape == (64,)
    np.testing.assert_allclose(linalg.potrf(split, 16), np.linalg.cholesky(a), atol=1e-5)
    np.testing.assert_allclose(linalg.potri(split) @ a, np.eye(64), atol=1e-4)


def test_syevd(mesh):
    a = system(64)[0]
    split = jax.device_put(a, NamedSharding(mesh, P("x", "y")))
    wanted = np.linalg.eigvalsh(a.astype(np.float64))
    for call in linalg.syevd, jax.jit(linalg.syevd, static_argnames=("T_A",)):
        w, v = call(split, T_A=16)
        np.testing.assert_allclose(w, wanted, atol=1e-5)
        np.testing.assert_allclose(a @ np.asarray(v), np.asarray(v) * np.asarray(w), atol=1e-4)
        assert v.sharding.is_equivalent_to(split.sharding, 2)
    w = linalg.syevd(a, 16, mesh=mesh, in_specs=(P("x", None),), return_eigenvectors=False)
    np.testing.assert_allclose(w, wanted, atol=1e-5)
    w, v, status = linalg.syevd(split, return_status=True)
    assert status == 0 and status.dtype == jnp.int32 and v.shape == (64, 64)
    a[3, 2] = np.nan
    with pytest.raises(ValueError, match="has no eigenvalues: it is not finite"):
        linalg.syevd(a)
    w, status = linalg.syevd(a, return_eigenvectors=False, return_status=True)
    assert status == 1 and np.isnan(w).all()


def test_ordinary_functions_of_split_matrices(mesh):
    random = np.random.default_rng(1)
    a = random.normal(size=(512, 512)).astype(np.float32)
    split = jax.device_put(a, NamedSharding(mesh, P("x", "y")))
    text = jax.jit(jnp.linalg.inv).lower(split).compile().as_text()
    assert "getrf(" in text
    inverse = jax.jit(jnp.linalg.inv)(split)
    np.testing.assert_allclose(np.asarray(inverse, np.float64) @ a, np.eye(512), atol=2e-2)
    sign, logdet = jnp.linalg.slogdet(split)
    wanted = np.linalg.slogdet(a.astype(np.float64))
    assert sign == wanted[0]
    np.testing.assert_allclose(logdet, wanted[1], rtol=1e-5)
    w = jax.jit(jnp.linalg.eigvalsh)(split + split.T)
    np.testing.assert_allclose(w, np.linalg.eigvalsh((a + a.T).astype(np.float64)), atol=1e-3)


def test_what_does_not_fit(mesh):
    a, b = system(8)
    with pytest.raises(ValueError, match="its leading block of 1 rows has no Cholesky factor"):
        linalg.potrs(-a, b)
    assert linalg.potrs(-a, b, return_status=True)[1] == 1
    with pytest.raises(ValueError, match="must have the dtype of the matrix"):
        linalg.potrs(a, b[:3])
    with pytest.raises(ValueError, match="in_specs has 2 entries for 1 operands"):
        linalg.potri(a, mesh=mesh, in_specs=(P(), P()))
    with pytest.raises(TypeError):
        linalg.potrf(a, "16")
    with pytest.raises(TypeError):
        linalg.potrf([[1.0, 0.0], [0.0, 1.0]])
