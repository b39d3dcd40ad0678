"""Jobs that go on when they lose some of their processes.

    def make(world):  # Once for each set of processes.
        params = init(world.mesh)  # A tree of arrays, which says how they lie.
        batches = DataLoader(n, 32, read, NamedSharding(world.mesh, P("data")))

        def step(params, i):
            batches.seek(divmod(i, batches.batches_per_epoch))  # The data goes on with the step.
            return update(params, batches.next().data)

        return params, step

    params = elastic.run(make, steps=10000, mesh_shape=(2, 4), axis_names=("data", "model"), copy_every=10)
"""

import os as _os
from typing import Any as _Any, NamedTuple as _NamedTuple

from shoal._core import elastic as _elastic
from shoal.errors import Fenced

__all__ = ["Fenced", "World", "run"]


class World(_NamedTuple):
    """The processes that work together until one is lost, or one comes back."""

    mesh: _Any
    processes: list  # Their numbers, which they keep as long as they live, ascending.
    is_first: bool  # Whether this is the one of them that prints and writes for all.
    generation: int  # How often the job has gone on with other processes.


def run(make, *, steps, mesh_shape=(), axis_names=(), data_axes=(), min_processes=1, copy_every=0, checkpoints=None,
        checkpoint_every=0, checkpoints_kept=None, admit_every=None, patience=300.0):
    """Runs a job of so many steps in all of its processes, and returns the state at the end.

    make(world) returns a state, a tree of arrays, and a function step(state, i) that returns the state after step i. It
    is called anew on each set of processes; the state that it returns is used at the start of the job, and tells later
    how arrays lie. When a process is lost, the others make a smaller mesh, fetch the state from the copies that they keep
    in memory for each other, or from the last checkpoint, and go on from its step; where there is neither, with the first
    step. Processes must do the same in `make` and in steps, and it must depend on the step's number and the state alone.
    The job must be started by `shoal run --elastic`, or another launcher that does not end it when one process dies.

    Args:
      make: The function from a World to a state and a step.
      steps: After so many steps the job is done.
      mesh_shape: The mesh of all devices of the job; default: one axis, "data", over all devices.
      axis_names: The names of its axes.
      data_axes: The axes that become shorter when there are fewer devices, the first of them first; a new length divides
        the old one. Default: the first axis.
      min_processes: With fewer processes the job does not go on.
      copy_every: After every so many steps processes give each other copies of the state; 0: never.
      checkpoints: The folder of checkpoints, which all processes see. If it has some, the job begins with the last.
      checkpoint_every: After every so many steps one is saved; 0: never.
      checkpoints_kept: How many are kept; default: all.
      admit_every: After every so many steps processes that were started again are taken in; 0: never. Default: at copies.
      patience: For how many seconds processes that are busy are waited for, or, below min_processes, new ones.

    Raises:
      Fenced: In a process without which the others have gone on.
      ProcessFailed: If too few processes are left, and if the job was interrupted three times in a row and came no
        further.
      ValueError: For options that are not allowed, or if no mesh can be made of the devices that are left.
    """
    return _elastic.run(
        lambda *world: make(World(*world)), steps, list(mesh_shape), list(axis_names), list(data_axes), min_processes,
        copy_every, "" if checkpoints is None else _os.fspath(checkpoints), checkpoint_every, checkpoints_kept,
        admit_every, float(patience),
    )
