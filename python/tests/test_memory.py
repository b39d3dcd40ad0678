"""Memory that arrays share with NumPy and with others: addresses, who keeps it, who may write it."""

import array as buffers
import ctypes
import gc
import mmap
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import numpy as np
import pytest

import shoal as jax
import shoal.numpy as jnp
from shoal.sharding import NamedSharding, PartitionSpec as P

DTYPES = "bool int8 int16 int32 uint8 uint16 uint32 float16 float32 complex64".split()


def aligned(count, dtype=np.float32, offset=0):
    """0, 1, … at a multiple of 64 bytes, or so far from one."""
    size = np.dtype(dtype).itemsize
    raw = np.zeros(count * size + 128, np.uint8)
    begin = -raw.ctypes.data % 64 + offset
    x = raw[begin : begin + count * size].view(dtype)
    x[:] = np.arange(count) % 100
    return x


def address(a):
    """Where the elements of an array are."""
    return np.asarray(a).ctypes.data


def shares(a, x):
    return address(a) == x.ctypes.data


def eventually(condition):
    """Whether it comes true: other threads have to let go first."""
    deadline = time.monotonic() + 10
    while not condition():
        if time.monotonic() > deadline:
            return False
        gc.collect()
        time.sleep(0.001)
    return True


def watched(count, gone):
    """The same, which tells the thread in which its memory is given up."""
    x = aligned(count)
    weakref.finalize(x.base, lambda: gone.append(threading.get_ident()))
    return x


# ---- In.


@pytest.mark.parametrize("dtype", DTYPES)
def test_who_shares_what_is_aligned(dtype):
    x = aligned(60, dtype).reshape(3, 20)
    for share in (
        jax.device_put,
        lambda v: jax.device_put(v, jax.devices()[0]),
        lambda v: jax.device_put(v, may_alias=True),
        jnp.from_dlpack,
        lambda v: jnp.from_dlpack(v, copy=False),
        jax.dlpack.from_dlpack,
        lambda v: jnp.asarray(v, copy=False),
        lambda v: jnp.array(v, copy=False),
    ):
        a = share(x)
        assert shares(a, x) and a.dtype == x.dtype and a.shape == x.shape
        np.testing.assert_array_equal(a, x)
        np.testing.assert_array_equal(a + a, x + x)
    for copy in (
        jnp.array,
        jnp.asarray,
        jnp.copy,
        lambda v: jnp.asarray(v, copy=True),
        lambda v: jax.device_put(v, may_alias=False),
        lambda v: jnp.from_dlpack(v, copy=True),
        lambda v: jax.jit(lambda a: a)(v),
    ):
        a = copy(x)
        assert not shares(a, x)
        np.testing.assert_array_equal(a, x)


def test_copies_do_not_see_what_is_written_later():
    x = aligned(1 << 20)
    for copy in (jnp.array, jnp.asarray, lambda v: jax.device_put(v, may_alias=False)):
        x[:] = 1
        a = copy(x)
        b = jax.jit(lambda v: jnp.sin(v) * 2)(a)
        c = jax.jit(lambda v: v * 2)(x)
        x[:] = 7
        assert (np.asarray(a) == 1).all() and (np.asarray(c) == 2).all()
        np.testing.assert_allclose(b, np.sin(1.0) * 2, rtol=1e-6)


def test_alignment():
    # As far from 64 as memory of NumPy often is: what may be written is copied, unless it is asked for.
    x = aligned(100, offset=16)
    assert not shares(jax.device_put(x), x)
    assert shares(jax.device_put(x, may_alias=True), x)
    assert shares(jnp.from_dlpack(x), x) and shares(jnp.asarray(x, copy=False), x)
    # Elements that are not aligned are always copied.
    x = aligned(100, offset=2)
    for make in (jax.device_put, lambda v: jax.device_put(v, may_alias=True), jnp.from_dlpack, jnp.asarray,
                 lambda v: jnp.asarray(v, copy=False)):
        a = make(x)
        assert not shares(a, x)
        np.testing.assert_array_equal(a, x)
    with pytest.raises(ValueError, match="not aligned to 4 bytes; leave out copy=false"):
        jnp.from_dlpack(x, copy=False)


def test_what_is_not_in_one_piece_is_copied():
    x = aligned(120).reshape(10, 12)
    for part in (x.T, x[::2], x[:, 1:5], x[::-1], np.broadcast_to(x[0], (3, 12))):
        for make in (jax.device_put, jnp.from_dlpack, lambda v: jnp.asarray(v, copy=False)):
            np.testing.assert_array_equal(make(part), part)
    part = x[4:8]
    assert shares(jnp.from_dlpack(part), part)
    swapped = np.arange(5, dtype=">f4")
    np.testing.assert_array_equal(jnp.asarray(swapped), np.arange(5))


def test_conversions_are_copies():
    x = aligned(100, np.float64)
    a = jnp.from_dlpack(x)
    x[:] = -1
    assert a.dtype == np.float32 and float(a[5]) == 5
    with pytest.raises(ValueError, match="float64.*without a copy"):
        jnp.from_dlpack(x, copy=False)


def test_of_nothing_and_of_one():
    for x in (np.zeros((0, 3), np.float32), np.float32(3), np.array(3, np.int32)):
        for make in (jnp.asarray, jax.device_put, jnp.from_dlpack):
            if isinstance(x, np.ndarray) or make is not jnp.from_dlpack:
                np.testing.assert_array_equal(make(x), x)


def test_what_nobody_can_write_is_shared():
    content = bytes(range(64)) * 64
    x = np.frombuffer(content, np.int32)
    assert shares(jnp.asarray(x), x) and shares(jnp.frombuffer(content, np.int32), x)
    # Its owner could write this one again.
    y = aligned(100).copy()
    y.flags.writeable = False
    assert not shares(jnp.asarray(y), y)
    y = aligned(100)
    y.flags.writeable = False  # As could the owner of what this is a view of.
    assert not shares(jnp.asarray(y), y)
    assert shares(jax.device_put(y), y)


@pytest.mark.parametrize("dtype", DTYPES + ["bfloat16"])
def test_round_trip(dtype):
    a = (jnp.arange(100) % 3).astype(dtype).reshape(4, 25)
    x = np.asarray(a)
    assert shares(a, x) and not x.flags.writeable and not x.flags.owndata
    for back in (jnp.asarray(x), jax.device_put(x), jax.jit(lambda v: v)(x)):
        assert shares(back, x) and back.dtype == a.dtype and back.shape == a.shape
    assert not shares(jnp.array(x), x)
    rows = x[1:3]  # A part of it is constant as well.
    assert shares(jnp.asarray(rows), rows)
    np.testing.assert_array_equal(np.asarray(jnp.asarray(rows)), rows)
    del a
    gc.collect()
    np.testing.assert_array_equal(x, np.asarray(jnp.asarray(x)))


def test_donation_leaves_the_memory_of_others_alone():
    f = jax.jit(lambda v: v * 2 + 1, donate_argnums=0)
    x = aligned(1000)
    before = x.copy()
    for make in (jax.device_put, jnp.from_dlpack):
        a = make(x)
        b = f(a)
        assert a.is_deleted() and not shares(b, x)
        np.testing.assert_array_equal(b, before * 2 + 1)
        np.testing.assert_array_equal(x, before)
    a = jnp.arange(1000.0)
    view = np.asarray(a)
    f(a).block_until_ready()
    np.testing.assert_array_equal(view, np.arange(1000.0))
    jax.device_put(x, jax.devices()[0], donate=True)
    np.testing.assert_array_equal(x, before)


def test_shards_are_runs_of_it():
    mesh = jax.make_mesh((8,), ("i",))
    x = aligned(8 * 16 * 4).reshape(8 * 4, 16)
    a = jax.device_put(x, NamedSharding(mesh, P("i")))
    assert [address(s.data) - x.ctypes.data for s in a.addressable_shards] == [i * 256 for i in range(8)]
    np.testing.assert_array_equal(a, x)
    b = jax.device_put(x, NamedSharding(mesh, P()))
    assert {address(s.data) for s in b.addressable_shards} == {x.ctypes.data}
    c = jax.device_put(x, NamedSharding(mesh, P(None, "i")))
    x[:] = 7
    assert (np.asarray(c) == np.arange(512).reshape(32, 16) % 100).all()
    c = jax.make_array_from_callback(x.shape, NamedSharding(mesh, P("i")), lambda index: x[index])
    assert [address(s.data) - x.ctypes.data for s in c.addressable_shards] == [i * 256 for i in range(8)]
    kind = jax.device_put(x, NamedSharding(mesh, P("i"), memory_kind="pinned_host"))
    x[:] = 8
    assert (np.asarray(kind) == 7).all()


def test_device_put_of_trees():
    mesh = jax.make_mesh((8,), ("i",))
    x, y = aligned(64), aligned(64, offset=4)
    a = jnp.arange(8)
    put = jax.device_put({"x": x, "y": y, "a": a, "n": 3.5}, NamedSharding(mesh, P()))
    assert shares(put["x"], x) and not shares(put["y"], y) and float(put["n"]) == 3.5
    assert all(v.sharding == NamedSharding(mesh, P()) and v.committed for v in put.values())
    with pytest.raises(ValueError, match=r"argument 0\['y'\]"):
        jax.device_put({"x": x, "y": y[:9]}, NamedSharding(mesh, P("i")))
    assert not jax.device_put(x).committed


def test_in_a_traced_function_constants_are_copied():
    x = aligned(64)
    f = jax.jit(lambda v: v + jax.device_put(x))
    f(jnp.zeros(64))
    x[:] = 1000
    assert float(f(jnp.zeros(64))[3]) == 3


# ---- Who keeps it.


def test_memory_is_kept_as_long_as_an_array_has_it():
    gone = []
    a = jax.device_put(watched(1000, gone))
    b = jax.jit(lambda v: v + 1)(a)
    view = np.asarray(a)
    gc.collect()
    del a
    gc.collect()
    assert not gone
    np.testing.assert_array_equal(view, np.arange(1000) % 100)
    del view
    assert eventually(lambda: gone)
    assert gone == [threading.get_ident()]
    assert float(b[7]) == 8


def test_memory_that_a_computation_holds_last():
    gone = []
    f = jax.jit(lambda v: jnp.sin(v @ v.T).sum())
    for _ in range(3):
        gone.clear()
        x = watched(1 << 18, gone)
        a = jax.device_put(x.reshape(512, 512))
        del x
        result = f(a)
        del a
        assert eventually(lambda: gone), "the thread that ran it let go last, and could not do so itself"
        assert gone == [threading.main_thread().ident]
        result.block_until_ready()


def test_memory_is_given_up_without_the_main_thread():
    # The main thread waits in C: who lends memory next gives up what was dropped.
    gone = []
    done = threading.Event()

    def work():
        try:
            for _ in range(20):
                a = jax.device_put(watched(1 << 16, gone))
                result = jax.jit(lambda v: (v * 2).sum())(a)
                del a
                result.block_until_ready()
                del result
            deadline = time.monotonic() + 10
            while len(gone) < 20 and time.monotonic() < deadline:
                time.sleep(0.001)
                jax.device_put(aligned(16))
        finally:
            done.set()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(30)
    assert len(gone) == 20


def test_deleting_an_array_gives_up_its_memory():
    gone = []
    a = jax.device_put(watched(100, gone))
    a.delete()
    assert eventually(lambda: gone)


# ---- The buffer protocol.


def test_buffers_out():
    a = jnp.arange(12.0).reshape(3, 4)
    view = memoryview(a)
    assert view.readonly and view.format == "f" and view.shape == (3, 4) and view.strides == (16, 4)
    assert view.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert np.frombuffer(a, np.float32).ctypes.data == address(a)
    assert bytes(jnp.arange(3, dtype=jnp.int8)) == b"\0\1\2"
    for dtype in DTYPES:
        x = np.asarray(memoryview(jnp.ones((2, 3), dtype)))
        assert x.dtype == dtype and (x == 1).all()
    with jax.enable_x64(True):
        assert type(np.asarray(jnp.arange(2))[0]) is np.int64 and type(np.asarray(jnp.arange(2, dtype="uint64"))[0]) is np.uint64
    with pytest.raises(BufferError):
        memoryview(jnp.ones(3, jnp.bfloat16))
    assert memoryview(jnp.zeros((0, 2))).nbytes == 0 and memoryview(jnp.float32(2.5)).tolist() == 2.5
    with pytest.raises(Exception, match="traced|tracer|Tracer"):
        jax.jit(lambda v: np.asarray(v))(a)


def test_buffers_in():
    for x in (buffers.array("f", [1, 2, 3]), memoryview(np.arange(3, dtype=np.float32) + 1), bytearray(b"\1\2\3")):
        a = jnp.asarray(x)
        np.testing.assert_array_equal(a, [1, 2, 3])
        x[0] = type(x[0])(9)
        assert a[0] == 1
        shared = jnp.asarray(x, copy=False)
        x[1] = type(x[0])(8)
        assert shared[0] == 9 and shared[1] == 8
    x = bytearray(16)
    a = jnp.asarray(x, copy=False)
    with pytest.raises(BufferError):
        x.extend(b"more")
    del a
    gc.collect()
    x.extend(b"more")


class Stop(Exception):
    pass


def test_a_signal_ends_the_wait():
    def stop(*_):
        raise Stop

    # Of more than what is run in the caller's thread.
    f = jax.jit(lambda v: [jax.debug.callback(lambda: time.sleep(1)), v + 1][1])
    x = jnp.ones(1 << 20)
    f(x).block_until_ready()
    before = signal.signal(signal.SIGALRM, stop)
    try:
        for read in (np.asarray, memoryview, lambda a: a.__array__()):
            result = f(x)
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            with pytest.raises(Stop):
                read(result)
            assert not result.is_ready()
            assert np.asarray(result)[0] == 2
    finally:
        signal.signal(signal.SIGALRM, before)


def test_pickling_a_view():
    a = jnp.arange(5.0)
    assert pickle.loads(pickle.dumps(a)).tolist() == [0, 1, 2, 3, 4]


# ---- DLPack.


def test_dlpack_out():
    a = jnp.arange(12.0).reshape(3, 4)
    x = np.from_dlpack(a)
    assert shares(a, x) and not x.flags.writeable
    assert a.__dlpack_device__() == (1, 0)
    y = np.from_dlpack(a, copy=True)
    assert not shares(a, y) and y.tolist() == x.tolist()
    assert repr(a.__dlpack__()).startswith('<capsule object "dltensor"')
    assert repr(a.__dlpack__(max_version=(1, 0))).startswith('<capsule object "dltensor_versioned"')
    with pytest.raises(BufferError, match="dl_device"):
        a.__dlpack__(dl_device=(2, 0))
    split = jax.device_put(a, NamedSharding(jax.make_mesh((2,), ("i",)), P(None, "i")))
    np.testing.assert_array_equal(np.from_dlpack(split), x)
    with pytest.raises(BufferError, match="put together"):
        split.__dlpack__(copy=False)
    gc.collect()
    del a
    assert x.tolist() == y.tolist()


def test_dlpack_between_arrays():
    a = jnp.arange(100.0)
    b = jnp.from_dlpack(a)
    assert b is not a and address(a) == address(b)
    a.delete()
    assert float(b[3]) == 3
    assert address(jnp.from_dlpack(b, copy=True)) != address(b)
    for dtype in ("bfloat16", "bool", "complex64"):
        one = jnp.ones(5, dtype)
        other = jnp.from_dlpack(Foreign.of(one))
        assert other.dtype == one.dtype and address(one) == address(other)
    with pytest.raises(TypeError, match="must have __dlpack__ and __dlpack_device__"):
        jnp.from_dlpack([1, 2])
    with pytest.raises(TypeError, match="unsupported device type"):
        jnp.from_dlpack(Foreign.of(b, device=(2, 0)))


class Foreign:
    """An array that speaks nothing but DLPack."""

    def __init__(self, capsule, device):
        self.capsule, self.device = capsule, device

    @staticmethod
    def of(x, device=(1, 0)):
        return Foreign(x.__dlpack__, device)

    def __dlpack__(self, *, stream=None, **options):
        return self.capsule(**options)

    def __dlpack_device__(self):
        return self.device


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class DLManagedTensor(ctypes.Structure):
    pass


# Called with the GIL, which ctypes does not take for it: without the GIL the process would not survive.
Deleter = ctypes.PYFUNCTYPE(None, ctypes.POINTER(DLManagedTensor))
DLManagedTensor._fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", Deleter)]


class Managed:
    """Memory with a deleter of its own, which counts."""

    def __init__(self, x, code=2, strides=None, byte_offset=0):
        self.x, self.deleted = x, []
        self.shape = (ctypes.c_int64 * x.ndim)(*x.shape)
        self.strides = strides and (ctypes.c_int64 * x.ndim)(*strides)
        self.deleter = Deleter(lambda _: self.deleted.append(threading.get_ident()))
        self.managed = DLManagedTensor(
            DLTensor(x.ctypes.data - byte_offset, 1, 0, x.ndim, code, x.itemsize * 8, 1, self.shape, self.strides, byte_offset),
            None,
            self.deleter,
        )

    def __dlpack__(self, *, stream=None):
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return make(ctypes.addressof(self.managed), b"dltensor", None)

    def __dlpack_device__(self):
        return (1, 0)


def test_deleters_are_called_once_with_the_gil():
    for count, last in ((10, False), (1 << 16, True)):
        m = Managed(aligned(count))
        a = jnp.from_dlpack(m)
        assert shares(a, m.x) and not m.deleted
        result = jax.jit(lambda v: (v * 2).sum())(a)
        if not last:
            result.block_until_ready()
        del a
        assert eventually(lambda: m.deleted)
        result.block_until_ready()
        gc.collect()
        assert m.deleted == [threading.get_ident()]
    m = Managed(aligned(10))
    jnp.from_dlpack(m, copy=True)
    gc.collect()
    assert len(m.deleted) == 1


def test_dlpack_strides_and_offsets():
    x = aligned(24)
    m = Managed(x.reshape(4, 6), strides=(1, 4))
    np.testing.assert_array_equal(jnp.from_dlpack(m), x.reshape(6, 4).T)
    assert len(m.deleted) == 1, "what was copied is given back"
    with pytest.raises(ValueError, match="row-major"):
        jnp.from_dlpack(Managed(x.reshape(4, 6), strides=(1, 4)), copy=False)
    m = Managed(x[16:], byte_offset=64)
    assert shares(jnp.from_dlpack(m), x[16:])
    with pytest.raises(TypeError, match="code 9 with 32 bits"):
        jnp.from_dlpack(Managed(x, code=9))


def test_nothing_is_read_beyond_the_elements():
    # The elements end where memory that must not be touched begins.
    page = mmap.PAGESIZE
    pages = mmap.mmap(-1, 2 * page)
    base = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    assert protect(base + page, page, 0) == 0
    f = jax.jit(lambda v: (v.sum(), v * 2 + 1, jnp.sort(v), v[::-1], jnp.cumsum(v), v.max(), jnp.sin(v.astype("float32"))))
    g = jax.jit(lambda v: (v @ v.T, v.sum(axis=0), v.T + 1))
    try:
        for dtype in (np.float32, np.int8, np.float16, np.int32):
            for count in (1, 3, 15, 17, 63, 65, 130, 1000):
                size = count * np.dtype(dtype).itemsize
                x = np.frombuffer(pages, dtype, count, page - size)
                x[:] = np.arange(count) % 5
                a = jnp.from_dlpack(x)
                assert shares(a, x)
                np.testing.assert_array_equal(f(a)[2], np.sort(x))
                np.testing.assert_array_equal(a + a, x + x)
            x = np.frombuffer(pages, dtype, 9 * 13, page - 9 * 13 * np.dtype(dtype).itemsize).reshape(9, 13)
            np.testing.assert_allclose(g(jnp.from_dlpack(x))[0], x @ x.T, rtol=1e-2)
    finally:
        assert protect(base + page, page, mmap.PROT_READ | mmap.PROT_WRITE) == 0


# ---- Several processes, which cannot see each other's memory.

SEVERAL = """
import numpy as np, shoal as jax, shoal.numpy as jnp
from shoal.experimental import multihost_utils
from shoal.sharding import NamedSharding, PartitionSpec as P

jax.distributed.initialize()
raw = np.zeros(4 * (1 << 18) + 64, np.uint8)
x = raw[-raw.ctypes.data % 64 :][: 4 << 18].view(np.float32).reshape(8, -1)
x[:] = np.arange(x.size, dtype=np.float32).reshape(x.shape) % 1000
before = x.copy()
mesh = jax.make_mesh((8,), ("i",))
a = jax.device_put(x, NamedSharding(mesh, P("i")))
assert {np.asarray(s.data).ctypes.data - x[s.index].ctypes.data for s in a.addressable_shards} == {0}
assert len(a.addressable_shards) == 4
columns = jax.device_put(a, NamedSharding(mesh, P(None, "i")))
np.testing.assert_array_equal(multihost_utils.process_allgather(columns, tiled=True), before)
assert float(jax.jit(jnp.sum)(a)) == before.astype(np.float64).sum()
rolled = jax.jit(lambda v: jnp.roll(v, 1, axis=0), donate_argnums=0)(a)
np.testing.assert_array_equal(multihost_utils.process_allgather(rolled, tiled=True), np.roll(before, 1, axis=0))
np.testing.assert_array_equal(x, before)
x[0, 0] = jax.process_index()
try:
    jax.device_put(x, NamedSharding(mesh, P("i")))
except AssertionError as error:
    print("told:", "all processes" in str(error))
"""


@pytest.mark.parametrize("transport", ["shm", "socket"])
def test_memory_of_several_processes(transport, tmp_path):
    script = tmp_path / "program.py"
    script.write_text(SEVERAL)
    beside = Path(jax.__file__).parent / "bin" / "shoal"
    tool = str(beside) if beside.exists() else os.environ["SHOAL_TOOL"]
    command = [tool, "run", "-n", "2", "--devices-per-process", "4", "--", sys.executable, str(script)]
    done = subprocess.run(
        command, env=os.environ | {"SHOAL_TRANSPORT": transport}, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("told: True") == 2, done.stdout + done.stderr


# ---- The end of the interpreter.


def test_nothing_is_given_up_after_the_end():
    program = """
import numpy as np, shoal as jax, shoal.numpy as jnp, weakref, atexit
x = np.zeros(1 << 16, np.float32)
raw = np.zeros((1 << 16) + 16, np.float32)
kept = [jnp.from_dlpack(raw[i : i + 1024]) for i in range(0, 1 << 14, 1024)]
f = jax.jit(lambda v: jnp.sin(v).sum())
results = [f(a) for a in kept]
class Last:
    def __del__(self):
        print("end")
last = Last()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert done.stdout == "end\n"
