"""Batches of examples for all devices of all processes, in an order that depends on a seed alone."""

import atexit
import weakref
from typing import NamedTuple

from shoal._core.data import KeyedPermutation, Loader as _Loader

__all__ = ["Batch", "DataLoader", "KeyedPermutation", "Position"]


class Position(NamedTuple):
    """Where a program is in its data: what a checkpoint keeps to go on at the exact example."""

    epoch: int
    batch: int


class Batch(NamedTuple):
    """Rows, which of them count, and where they are from."""

    data: object
    mask: object
    position: Position


class DataLoader:
    """Endless batches of the examples 0 to num_examples - 1.

    read(examples) makes the rows of an array of numbers of examples: a tree of arrays, NumPy's for one, whose first
    dimension they are. Each process calls it for the rows of its own devices, in a thread, `prefetch` batches ahead; 0 is
    without a thread. `sharding` splits the rows. Which examples are in a batch does not depend on how many processes
    there are. With shuffle, each epoch has an order of its own. Examples that do not fill a batch at the end of an epoch
    are a batch that is filled up with rows that the mask does not count, or are left out, as last_batch says: "pad" or
    "drop".

    Raises ValueError for no examples, a batch size that is not positive and a sharding that cannot hold it. next()
    raises what read raised, and tries that batch again when it is called again; and ValueError in all processes if they
    disagree on what they are about to read.
    """

    def __init__(self, num_examples, batch_size, read, sharding, *, seed=0, shuffle=True, last_batch="pad", prefetch=2,
                 start=(0, 0)):
        self._loader = _Loader(num_examples, batch_size, read, sharding, seed, shuffle, last_batch, prefetch, *start)
        _loaders.add(self)

    def __iter__(self):
        return self

    def __next__(self):
        try:
            data, mask, position = self._loader.next()
        except StopIteration as error:  # It would end a loop over batches, of which there is no end.
            raise RuntimeError("DataLoader: read raised StopIteration") from error
        return Batch(data, mask, Position(*position))

    next = __next__

    @property
    def position(self):
        """Of the batch that comes next."""
        return Position(*self._loader.position())

    def seek(self, position):
        """Goes on at a position."""
        self._loader.seek(*position)

    @property
    def batches_per_epoch(self):
        return self._loader.batches_per_epoch()


_loaders = weakref.WeakSet()


@atexit.register
def _stop():
    """Threads that read must not run Python when that ends."""
    for loader in _loaders:
        loader._loader.stop()
