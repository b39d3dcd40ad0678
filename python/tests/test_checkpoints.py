"""shoal.checkpoints: trees in files, read back on any mesh, and as other tools read them."""

import collections
import dataclasses
import json
import os
import struct
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

import shoal as jax
import shoal.numpy as jnp
from shoal import checkpoints
from shoal.sharding import NamedSharding, PartitionSpec as P

Moments = collections.namedtuple("Moments", "mu nu count")


def mesh(shape=(2, 4), names=("x", "y")):
    return jax.make_mesh(shape, names)


def on(spec, *mesh_arguments):
    return NamedSharding(mesh(*mesh_arguments), spec)


def state_of(scale, sharding=None):
    put = (lambda x: jax.device_put(x, sharding)) if sharding else (lambda x: x)
    w = put(scale * jnp.arange(64.0).reshape(8, 8))
    return {
        "params": {"w": w, "b": put((w + 1).astype(jnp.bfloat16)), "none": None},
        "opt": Moments(w * 2, [w * 3, ()], jnp.int32(scale)),
        "key": jax.random.key(int(scale)),
        "raw_key": jax.random.PRNGKey(int(scale)),
    }


def same(a, b):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b)):
        assert x.dtype == y.dtype and x.shape == y.shape
        if jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key):
            x, y = jax.random.key_data(x), jax.random.key_data(y)
        assert np.asarray(x).tobytes() == np.asarray(y).tobytes()


def test_trees(tmp_path):
    with checkpoints.Manager(tmp_path / "run", keep_last=2) as manager:
        assert manager.latest_step() is None
        for step in (1, 2, 3):
            assert manager.save(step, state_of(step, on(P("x", "y"))), metadata={"epoch": step, "names": ["a", "ü"]})
    assert manager.all_steps() == [2, 3] and manager.latest_step() == 3
    assert manager.metadata() == {"epoch": 3, "names": ["a", "ü"]} and manager.metadata(2)["epoch"] == 2
    like = state_of(0, on(P("y"), (4, 2)))
    got = manager.restore(like)
    same(got, state_of(3))
    assert got["params"]["w"].sharding == like["params"]["w"].sharding
    types = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=on(P())), like)
    same(checkpoints.restore(tmp_path / "run", types, step=2), state_of(2))
    checkpoints.verify(tmp_path / "run")
    found = checkpoints.describe(tmp_path / "run")
    assert found.step == 3 and found.metadata["epoch"] == 3 and found.processes == 1
    assert [a.path for a in found.arrays][:3] == ["['key']", "['opt'].mu", "['opt'].nu[0]"]
    assert found.arrays[1].sharding["spec"] == [["x"], ["y"]] and found.arrays[1].boxes == 8
    part = manager.restore({"params": {"w": like["params"]["w"]}}, partial=True)
    same(part, {"params": {"w": state_of(3)["params"]["w"]}})


def test_a_run_that_goes_on_has_the_bits_of_one_that_did_not_stop(tmp_path):
    sharding = on(P("x", "y"))

    @jax.jit
    def step(state, data):
        key, noise = jax.random.split(state["key"])
        grad = jax.grad(lambda w: jnp.mean((data @ w) ** 2) + jnp.sum(w * jax.random.normal(noise, w.shape)))(state["w"])
        mu = 0.9 * state["mu"] + grad
        return {"w": state["w"] - 0.01 * mu, "mu": mu, "key": key}

    def data(i):
        return jax.random.normal(jax.random.key(i), (16, 8))

    def start():
        return {
            "w": jax.device_put(jnp.ones((8, 8)), sharding),
            "mu": jax.device_put(jnp.zeros((8, 8)), sharding),
            "key": jax.random.key(7),
        }

    whole = start()
    for i in range(10):
        whole = step(whole, data(i))
    state = start()
    for i in range(5):
        state = step(state, data(i))
    checkpoints.save(tmp_path, 5, state, metadata={"next": 5})
    state = checkpoints.restore(tmp_path, start())
    for i in range(checkpoints.Manager(tmp_path).metadata()["next"], 10):
        state = step(state, data(i))
    same(state, whole)


def test_donated_arrays_keep_their_old_values(tmp_path):
    step = jax.jit(lambda x: x * 2, donate_argnums=0)
    x = jax.device_put(jnp.ones((512, 512)), on(P("x")))
    manager = checkpoints.Manager(tmp_path)
    for i in range(4):
        manager.save(i, x)
        x = step(x)
    for i in range(4):
        assert (np.asarray(manager.restore(x, step=i)) == 2.0**i).all()
    manager.save(9, x)
    x.delete()
    assert (np.asarray(manager.restore(jax.ShapeDtypeStruct((512, 512), jnp.float32))) == 16).all()


# As the format's description says, and nothing of this package.
NUMPY = {"BOOL": "?", "I32": "<i4", "U32": "<u4", "F32": "<f4", "C64": "<c8", "BF16": ml_dtypes.bfloat16, "F16": "<f2"}


def read_by_hand(path):
    with open(path, "rb") as file:
        data = file.read()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    metadata = header.pop("__metadata__")
    assert all(isinstance(value, str) for value in metadata.values())
    arrays, end = {}, 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, stop = entry["data_offsets"]
        assert begin == end
        end = stop
        arrays[name] = np.frombuffer(data[8 + size + begin : 8 + size + stop], NUMPY[entry["dtype"]]).reshape(entry["shape"])
    assert 8 + size + end == len(data)
    return arrays


def test_files_as_other_tools_read_them(tmp_path):
    tree = {
        "layers": [{"w": jax.device_put(jnp.arange(32.0).reshape(4, 8), on(P(None, "y")))}],
        "b": jnp.ones(3, jnp.bfloat16),
        "mask": jnp.array([True, False, True]),
        "z": jnp.array([1 + 2j], jnp.complex64),
        "key": jax.random.key(1),
        "empty": jnp.zeros((0, 3)),
    }
    checkpoints.save(tmp_path / "run", 1, tree)
    checkpoints.export_safetensors(tmp_path / "run", tmp_path / "all.safetensors")
    got = read_by_hand(tmp_path / "all.safetensors")
    assert sorted(got) == ["b", "empty", "key", "layers.0.w", "mask", "z"]
    np.testing.assert_array_equal(got["layers.0.w"], np.arange(32.0).reshape(4, 8))
    np.testing.assert_array_equal(got["mask"], [True, False, True])
    np.testing.assert_array_equal(got["key"], jax.random.key_data(tree["key"]))
    assert got["b"].dtype == ml_dtypes.bfloat16 and got["z"][0] == 1 + 2j and got["empty"].shape == (0, 3)
    parts = read_by_hand(tmp_path / "run/step_00000001/process_00000.safetensors")
    np.testing.assert_array_equal(parts["['layers'][0]['w'] [0:4, 2:4]"], np.arange(32.0).reshape(4, 8)[:, 2:4])
    checkpoints.export_safetensors(tmp_path / "run", tmp_path / "paths.safetensors", name=lambda path: path)
    assert "['layers'][0]['w']" in read_by_hand(tmp_path / "paths.safetensors")
    back = checkpoints.load_safetensors(tmp_path / "all.safetensors")
    np.testing.assert_array_equal(back["layers.0.w"], got["layers.0.w"])


def test_models_of_other_tools(tmp_path):
    w = np.arange(12, dtype=np.float32).reshape(3, 4)
    header = json.dumps({"model.w.weight": {"dtype": "F32", "shape": [3, 4], "data_offsets": [0, 48]}}).encode()
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + w.tobytes())
    like = {"w": jax.ShapeDtypeStruct((3, 4), jnp.float32, sharding=on(P(None, "y")))}
    got = checkpoints.load_safetensors(tmp_path, like, names={"['w']": "model.w.weight"})
    assert got["w"].sharding == on(P(None, "y"))
    np.testing.assert_array_equal(got["w"], w)
    checkpoints.save_safetensors(tmp_path / "mine.safetensors", {"a": got["w"]}, metadata={"by": "me"})
    np.testing.assert_array_equal(read_by_hand(tmp_path / "mine.safetensors")["a"], w)
    assert checkpoints.describe_safetensors(tmp_path / "mine.safetensors")[0].nbytes == 48


def test_what_is_wrong_is_told(tmp_path):
    good = {"a": jnp.ones((2, 3)), "b": jnp.ones(4)}
    manager = checkpoints.Manager(tmp_path)
    manager.save(1, good)
    manager.wait()
    with pytest.raises(ValueError, match=r"\['a'\] has shape \(2, 3\) in .*but \(3, 2\) in the given tree"):
        manager.restore({**good, "a": jnp.ones((3, 2))})
    with pytest.raises(TypeError, match=r"\['b'\] has dtype float32 in .*but int32 in the given tree"):
        manager.restore({**good, "b": jnp.ones(4, jnp.int32)})
    with pytest.raises(ValueError, match=r"has \['b'\], which the given tree does not have"):
        manager.restore({"a": good["a"]})
    with pytest.raises(ValueError, match=r"does not have \['c'\]"):
        manager.restore({**good, "c": good["a"]})
    with pytest.raises(TypeError, match="a leaf at .*'c'.* must be an array"):
        manager.save(2, {"c": "text"})
    with pytest.raises(TypeError, match="int64.*of which int32 would be kept"):
        manager.save(2, {"c": np.arange(3)})
    with pytest.raises(TypeError, match="metadata must be what json takes"):
        manager.save(2, good, metadata={"x": object()})
    with pytest.raises(ValueError, match="step is -1"):
        manager.save(-1, good)
    with pytest.raises(ValueError, match="keep_last is 0"):
        checkpoints.Manager(tmp_path, keep_last=0)
    with pytest.raises(ValueError, match="when_busy"):
        checkpoints.Manager(tmp_path, when_busy="never")
    manager.save(1, good)
    with pytest.raises(ValueError, match=r"checkpoints.Manager.save: step 1 has a checkpoint.*\n  at test_checkpoints.py"):
        manager.wait()
    with pytest.raises(checkpoints.CheckpointError, match="no checkpoint of step 7"):
        manager.restore(good, step=7)
    path = tmp_path / "step_00000001/process_00000.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(OSError, match=r"\"\['b'\]\" is damaged.*process_00000.safetensors"):
        manager.restore(good)
    file = tmp_path / "file"
    file.write_text("")
    other = checkpoints.Manager(file)
    other.save(1, good)
    with pytest.raises(checkpoints.CheckpointError, match="Not a directory"):
        other.wait()


PROGRAM = """
import sys
import shoal as jax
import shoal.numpy as jnp
from shoal import checkpoints
from shoal.sharding import NamedSharding, PartitionSpec as P

jax.distributed.initialize()
mesh = jax.make_mesh((jax.device_count(),), ("x",))
x = jax.device_put(jnp.arange(48.0).reshape(12, 4), NamedSharding(mesh, P("x")))
tree = {"x": x, "n": jnp.int32(3)}
with checkpoints.Manager(sys.argv[1]) as manager:
    if sys.argv[2] == "save":
        manager.save(4, tree, metadata={"next": 5})
    else:
        got = manager.restore(jax.tree.map(jnp.zeros_like, tree))
        assert got["x"].sharding == x.sharding and bool((got["x"] == x).all()) and int(got["n"]) == 3
        print(manager.latest_step(), manager.metadata())
"""


def test_several_processes(tmp_path):
    tool = os.path.join(os.path.dirname(sys.executable), "shoal")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)

    def run(*words):
        return subprocess.run(words, capture_output=True, text=True, timeout=100, check=True).stdout

    def job(n, devices, what):
        options = ("--devices-per-process", str(devices), "--no-prefix", "--", sys.executable, str(program))
        return run(tool, "run", "-n", str(n), *options, str(tmp_path / "run"), what)

    job(2, 2, "save")
    assert len(list((tmp_path / "run/step_00000004").glob("*.safetensors"))) == 2
    for n, devices in ((1, 3), (2, 1), (3, 2)):
        assert job(n, devices, "restore").splitlines() == ["4 {'next': 5}"] * n
    assert "4 " in run(tool, "checkpoint", "ls", str(tmp_path / "run"))
    assert "['x']" in run(tool, "checkpoint", "ls", str(tmp_path / "run"), "--step", "4")
    assert json.loads(run(tool, "checkpoint", "ls", str(tmp_path / "run"), "--json"))[0]["num_arrays"] == 2
    assert run(tool, "checkpoint", "verify", str(tmp_path / "run")) == "4  good\n"
    run(tool, "checkpoint", "export", str(tmp_path / "run"), str(tmp_path / "x.safetensors"))
    np.testing.assert_array_equal(read_by_hand(tmp_path / "x.safetensors")["x"], np.arange(48.0).reshape(12, 4))


def test_registered_classes_are_found_by_their_names(tmp_path):
    @jax.tree_util.register_dataclass
    @dataclasses.dataclass
    class Saved:
        w: object
        m: object

    @jax.tree_util.register_dataclass
    @dataclasses.dataclass
    class Reordered:
        m: object
        w: object

    checkpoints.save(tmp_path, 0, {"a": Saved(jnp.ones(2), jnp.zeros(2))})
    restored = checkpoints.restore(tmp_path, {"a": Reordered(jnp.full(2, 7.0), jnp.full(2, 7.0))})["a"]
    assert restored.w.tolist() == [1, 1] and restored.m.tolist() == [0, 0]


def test_what_was_just_saved_stays(tmp_path):
    manager = checkpoints.Manager(tmp_path, keep_last=2)
    for step in (100, 200, 300, 150):  # The last after a job went back to step 100.
        manager.save(step, {"w": jnp.full(2, step)})
    manager.wait()
    assert manager.all_steps() == [150, 300]
    assert manager.restore({"w": jnp.zeros(2, int)}, step=150)["w"].tolist() == [150, 150]


def test_what_a_body_raises_is_not_hidden(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.warns(RuntimeWarning, match=r"checkpoints.Manager\('.*file/run'\): .*file"):
        with pytest.raises(KeyError, match="mine"):
            with checkpoints.Manager(tmp_path / "file/run") as manager:
                manager.save(1, {"w": jnp.ones(2)})
                raise KeyError("mine")
    with pytest.raises(OSError, match="file"):
        with checkpoints.Manager(tmp_path / "file/run") as manager:
            manager.save(1, {"w": jnp.ones(2)})


def test_errors_of_the_tool_name_no_line(tmp_path):
    checkpoints.save(tmp_path / "run", 1, {"w": jnp.arange(100.0)})
    file = tmp_path / "run/step_00000001/process_00000.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    tool = os.path.join(os.path.dirname(sys.executable), "shoal")
    for words in (["verify", str(tmp_path / "run")], ["ls", str(tmp_path / "run"), "--step", "3"],
                  ["export", str(tmp_path / "run"), str(tmp_path / "x.safetensors")], ["ls", str(tmp_path / "none")]):
        done = subprocess.run([tool, "checkpoint", *words], capture_output=True, text=True, timeout=100)
        assert done.returncode == 1 and done.stdout + done.stderr, words
        assert "\n  at " not in done.stdout + done.stderr, words


REFUSED = """
import os, signal, sys, threading, time
import shoal as jax
import shoal.numpy as jnp
from shoal import checkpoints

jax.distributed.initialize()
process = jax.process_index()
tree = {"w": jnp.ones(2)}
manager = checkpoints.Manager(sys.argv[1])
try:
    manager.save(-1 if process == 1 else 1, tree)
    assert process == 0
except ValueError as error:
    assert process == 1 and "step is -1" in str(error)
try:
    manager.wait()
    assert process == 1
except OSError as error:
    print(process, str(error).splitlines()[0])
if process == 0:
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
else:
    time.sleep(1.5)  # Meanwhile process 0 waits for this one.
manager.save(2, tree)
try:
    manager.wait()
except KeyboardInterrupt:
    print(process, "interrupted")
print(process, manager.all_steps())
"""


def test_processes_that_wait_for_others_are_told_and_interrupted(tmp_path):
    tool = os.path.join(os.path.dirname(sys.executable), "shoal")
    program = [sys.executable, "-c", REFUSED, str(tmp_path / "run")]
    done = subprocess.run([tool, "run", "-n", "2", "--no-prefix", "--", *program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    wrong = "checkpoints.Manager.save: process 1: step is -1; it must not be negative"
    assert sorted(done.stdout.splitlines()) == ["0 [2]", f"0 {wrong}", "0 interrupted", "1 [2]"]
