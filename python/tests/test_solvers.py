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


def test_programs_over_solvers(mesh):
    random = np.random.default_rng(2)
    tall = random.normal(size=(64, 24)).astype(np.float32)
    split = jax.device_put(tall, NamedSharding(mesh, P("x", "y")))
    for call in linalg.geqrf, jax.jit(linalg.geqrf, static_argnames=("T_A",)):
        q, r = call(split, T_A=8)
        np.testing.assert_allclose(np.asarray(q) @ np.asarray(r), tall, atol=1e-5)
        np.testing.assert_allclose(np.asarray(q).T @ np.asarray(q), np.eye(24), atol=1e-5)
    b = random.normal(size=(64, 2)).astype(np.float32)
    wanted = np.linalg.lstsq(tall, b, rcond=None)[0]
    np.testing.assert_allclose(linalg.gels(split, b, T_A=8), wanted, atol=1e-5)
    x, status = linalg.gels(split, b, return_status=True)
    assert status == 0 and x.shape == (24, 2)
    np.testing.assert_allclose(np.asarray(linalg.trtri(r, lower=False)) @ np.asarray(r), np.eye(24), atol=1e-4)
    u, s, vh = linalg.gesvd(split, T_A=8)
    np.testing.assert_allclose(np.asarray(u) * np.asarray(s) @ np.asarray(vh), tall, atol=1e-5)
    np.testing.assert_allclose(linalg.gesvd(split, compute_uv=False), np.linalg.svd(tall)[1], atol=1e-5)
    a, definite = system(32)[0], system(32, 1)[0] + np.eye(32, dtype=np.float32)
    w, v, status = linalg.sygvd(a, definite, 8, return_status=True)
    np.testing.assert_allclose(a @ np.asarray(v), definite @ np.asarray(v) * np.asarray(w), atol=1e-4)
    assert status == 0


@pytest.fixture
def x64():
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


def test_gesv(mesh, x64):
    random = np.random.default_rng(3)
    a = random.normal(size=(64, 64))
    b = jnp.asarray(random.normal(size=(64,)), dtype=jnp.float64)
    split = jax.device_put(jnp.asarray(a, dtype=jnp.float64), NamedSharding(mesh, P("x", "y")))
    for refine in False, True:
        x, status, rcond = linalg.gesv(split, b, 16, refine=refine, return_status=True, return_rcond=True)
        assert x.dtype == jnp.float64 and status == 0
        np.testing.assert_allclose(x, np.linalg.solve(a, np.asarray(b)), rtol=1e-10)
        assert np.linalg.cond(a, 1) / 4 < 1 / rcond < 1.01 * np.linalg.cond(a, 1)
    np.testing.assert_allclose(linalg.cond_estimate(split), 1 / np.asarray(rcond), rtol=1e-3)
    a[:, 5] = 0
    singular = jnp.asarray(a, dtype=jnp.float64)
    with pytest.raises(ValueError, match=r"is singular, or not finite: u\(6, 6\) of its factors is 0"):
        linalg.gesv(singular, b)
    assert linalg.gesv(singular, b, return_status=True)[1] == 6
    with pytest.raises(TypeError, match="refine takes matrices of float64 or complex128, not float32"):
        linalg.gesv(np.eye(2, dtype=np.float32), np.ones(2, np.float32), refine=True)


def test_progress(mesh):
    told = []
    linalg.on_progress(told.append)
    try:
        a = jax.device_put(system(96)[0], NamedSharding(mesh, P("x", "y")))
        jax.block_until_ready(linalg.potrf(a, 8))
    finally:
        linalg.on_progress(None)
    assert told[-1].solver == "potrf" and told[-1].done == 1 and told[-1].seconds > 0
    assert all(0 < one.done <= 1 for one in told)
    jax.block_until_ready(linalg.potrf(a, 8))
    assert told[-1].done == 1 and sum(one.done == 1 for one in told) == 1
    with pytest.raises(TypeError, match="on_progress: the callback must be callable or None"):
        linalg.on_progress(3)


def test_block_cyclic(mesh):
    layout = linalg.BlockCyclic((10, 9), (2, 3), mesh, P("x", "y"))
    a = np.arange(90, dtype=np.float32).reshape(10, 9)
    x = linalg.to_block_cyclic(a, layout)
    assert x.shape == layout.padded_shape == (16, 12) and layout.shape == (10, 9)
    assert x.sharding.is_equivalent_to(layout.sharding, 2)
    np.testing.assert_array_equal(linalg.from_block_cyclic(x, layout), a)
    assert linalg.verify_cyclic(x, a, layout) and not linalg.verify_cyclic(x, a + 1, layout)
    assert layout.descriptor(3) == [1, 3, 10, 9, 2, 3, 0, 0, 4]
    assert linalg.BlockCyclic.from_descriptor(layout.descriptor(), mesh, P("x", "y")).shape == (10, 9)
    assert layout.owner(9, 8) == (0, 0)
    assert layout.picture().splitlines()[1] == "0 1 0"
    with pytest.raises(ValueError, match="tiles are 0 × 3; they must have at least a row and a column"):
        linalg.BlockCyclic((4, 4), (0, 3), mesh, P("x"))
    with pytest.raises(IndexError):
        layout.owner(10, 0)


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
