"""Loaders of batches."""

import subprocess
import sys
import threading

import numpy as np
import pytest

import shoal
from shoal.data import DataLoader, KeyedPermutation, Position
from shoal.sharding import NamedSharding, PartitionSpec as P


def rows():
    return NamedSharding(shoal.make_mesh((8,), ("x",)), P("x"))


def read(examples):
    return {"x": examples.astype(np.float32)[:, None] * [1, 2], "n": examples.astype(np.int32)}


def test_every_example_once_in_each_epoch():
    loader = DataLoader(50, 16, read, rows(), seed=3)
    assert loader.batches_per_epoch == 4
    epochs = []
    for epoch in range(2):
        seen = []
        for i in range(4):
            batch = next(loader)
            assert batch.position == (epoch, i)
            assert batch.data["x"].sharding.is_equivalent_to(rows(), 2)
            np.testing.assert_array_equal(batch.data["x"][:, 1], 2 * batch.data["n"])
            seen += np.asarray(batch.data["n"])[np.asarray(batch.mask)].tolist()
        assert sorted(seen) == list(range(50))
        epochs.append(seen)
    assert epochs[0] != epochs[1]


def test_goes_on_at_the_exact_example():
    loader = DataLoader(50, 16, read, rows(), seed=3, last_batch="drop")
    ahead = [np.asarray(next(loader).data["n"]) for _ in range(7)]
    loader.seek(Position(1, 1))
    np.testing.assert_array_equal(next(loader).data["n"], ahead[4])
    later = DataLoader(50, 16, read, rows(), seed=3, last_batch="drop", start=loader.position, prefetch=0)
    np.testing.assert_array_equal(later.next().data["n"], ahead[5])


def test_reads_in_a_thread_of_its_own():
    threads = set()

    def spy(examples):
        threads.add(threading.current_thread())
        return read(examples)

    next(DataLoader(50, 16, spy, rows()))
    assert threading.main_thread() not in threads
    threads.clear()
    next(DataLoader(50, 16, spy, rows(), prefetch=0))
    assert threads == {threading.main_thread()}


def test_errors():
    def broken(examples):
        raise OSError("the disk is gone")

    for prefetch in (0, 2):
        loader = DataLoader(50, 16, broken, rows(), prefetch=prefetch)
        for _ in range(2):
            with pytest.raises(OSError, match="the disk is gone"):
                next(loader)
    calls = []

    def changes(examples):
        calls.append(examples)
        return read(examples) if len(calls) < 9 else [1.0]

    loader = DataLoader(64, 16, changes, rows(), prefetch=0)
    next(loader)
    with pytest.raises(TypeError, match="and returned .* before"):
        next(loader)
    with pytest.raises(ValueError, match="there are 0 examples"):
        DataLoader(0, 16, read, rows())
    with pytest.raises(ValueError, match="last_batch is 'keep'"):
        DataLoader(50, 16, read, rows(), last_batch="keep")
    with pytest.raises(ValueError, match="an epoch has 4 batches"):
        DataLoader(50, 16, read, rows()).seek((0, 4))


def test_permutations():
    order = KeyedPermutation(7, 2, 10)
    assert list(order) == [9, 8, 1, 2, 0, 7, 3, 4, 6, 5]
    assert len(KeyedPermutation(0, 0, 10**15)) == 10**15
    with pytest.raises(IndexError):
        order[10]


INTERRUPTED = """
import os, signal, threading, time
import numpy as np
import shoal
from shoal.data import DataLoader
from shoal.sharding import NamedSharding, PartitionSpec as P

def read(examples):
    time.sleep(1.5)
    return examples.astype(np.float32)

loader = DataLoader(64, 8, read, NamedSharding(shoal.make_mesh((1,), ("x",)), P("x")))
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
begin = time.monotonic()
try:
    next(loader)
except KeyboardInterrupt:
    print("after", time.monotonic() - begin)
print(next(loader).data.shape)
"""


def test_an_interrupt_ends_the_wait_for_a_batch():
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=60)
    first, second = done.stdout.splitlines()
    assert float(first.split()[1]) < 1.2, done.stderr
    assert second == "(8,)"
