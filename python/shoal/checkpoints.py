"""Checkpoints: trees of arrays in files, from which a job goes on where it stopped, on any mesh and any number of
processes.

    manager = checkpoints.Manager("run", keep_last=3)
    if manager.latest_step() is not None:
        state = manager.restore(state)  # Lies as `state` lies.
    for i in range(start, steps):
        state = step(state, batch)
        if i % 100 == 0:
            manager.save(i, state, metadata={"examples": i * batch_size})  # Returns at once; a thread writes.
    manager.wait()

In a job of several processes all of them call these functions in the same order.
"""

import os as _os
from typing import Any as _Any, NamedTuple as _NamedTuple

from shoal import _core
from shoal.errors import CheckpointError

__all__ = [
    "Checkpoint", "CheckpointError", "Manager", "StoredArray", "describe", "describe_safetensors", "dotted_name",
    "export_safetensors", "load_safetensors", "restore", "save", "save_safetensors", "steps", "verify",
]


class StoredArray(_NamedTuple):
    """An array of a checkpoint or of a safetensors file."""

    path: str  # In its tree, as "['layers'][0]"; its name in a file of other tools.
    dtype: _Any
    shape: tuple
    nbytes: int
    sharding: dict | None  # How it lay: mesh axes, spec and memory.
    boxes: int  # The parts in which it is stored.


class Checkpoint(_NamedTuple):
    """What a checkpoint holds."""

    folder: str
    step: int
    metadata: _Any
    processes: int
    nbytes: int
    arrays: list


def _loads(text):
    import json  # When it is needed: importing it takes long.

    return json.loads(text)


def _arrays(infos):
    return [StoredArray(*info[:4], _loads(info[4]) if info[4] else None, info[5]) for info in infos]


def _text(function, metadata):
    import json

    try:
        return json.dumps({} if metadata is None else metadata, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{function}: metadata must be what json takes: {error}") from None


class Manager:
    """The checkpoints of one folder, which is made if it is not there.

    keep_last: how many stay; when one more is complete, the lowest step goes. None: all.
    when_busy: what becomes of a save that is due while another is written: "wait" or "skip".
    overwrite: whether a save may take the place of a checkpoint of the same step.
    timeout: how long processes of a job wait for each other, in seconds.

    Raises ValueError for values that are not allowed."""

    def __init__(self, directory, *, keep_last=None, when_busy="wait", overwrite=False, timeout=3600.0):
        if when_busy not in ("wait", "skip"):
            raise ValueError(f"checkpoints.Manager: when_busy must be 'wait' or 'skip', got {when_busy!r}")
        self.directory = _os.fspath(directory)
        self._manager = _core._CheckpointManager(
            self.directory, keep_last, when_busy == "skip", bool(overwrite), float(timeout)
        )

    def save(self, step, tree, *, metadata=None):
        """Saves a tree of arrays and numbers as the checkpoint of this step, in the background: as it is now, also where
        later calls delete its arrays or are given them to use up. `metadata` is what else belongs to it, as json takes
        it. False if it was left out (when_busy).

        Raises what made an earlier save fail, if nobody has got that yet; ValueError for a negative step and for arrays
        that are still to be summed over devices; TypeError for leaves that are no arrays, and for 64-bit arrays of NumPy
        while 64-bit types are off. That a step has a checkpoint already is told by the next call, as all that the thread
        finds."""
        return self._manager.save(step, tree, _text("checkpoints.Manager.save", metadata))

    def restore(self, like, *, step=None, partial=False):
        """The tree of a checkpoint, by default the latest, with arrays that lie as those of `like` do. Types
        (ShapeDtypeStruct) may stand for arrays; those without a sharding come to the default device. With `partial`,
        the tree may lack arrays that the checkpoint has.

        Raises CheckpointError if there is no such checkpoint, or if it is damaged, naming array and file; ValueError
        where shapes or trees differ, and TypeError where dtypes do, naming the path."""
        return self._manager.restore(like, step, bool(partial))

    def all_steps(self):
        """The steps that have a checkpoint, ascending. Waits for what is being written."""
        return self._manager.all_steps()

    def latest_step(self):
        """The last of these; None if there is none."""
        return self._manager.latest_step()

    def metadata(self, step=None):
        """The metadata of a checkpoint, by default of the latest. Raises CheckpointError if there is none."""
        return _loads(self._manager.metadata(step))

    def wait(self):
        """Returns when what was saved is complete and on disk. Raises what made it fail."""
        self._manager.wait()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        if kind is None:
            self.wait()
            return
        # What the body raised is raised, whatever becomes of what it saved.
        try:
            self.wait()
        except Exception as other:
            import warnings

            warnings.warn(f"{self!r}: {other}", RuntimeWarning, stacklevel=2)

    def __repr__(self):
        return f"checkpoints.Manager({self.directory!r})"


def save(directory, step, tree, *, metadata=None):
    """Saves a tree, and returns when it is on disk. Raises as Manager.save and Manager.wait.

    Args:
      directory: The directory of the checkpoints.
      step: The number of the step; None: the last one.
      tree: A tree of arrays.
      metadata: What is stored beside the arrays.
    """
    _core._checkpoint_save(_os.fspath(directory), step, tree, _text("checkpoints.save", metadata))


def restore(directory, like, *, step=None, partial=False):
    """As Manager.restore.

    Args:
      directory: The directory of the checkpoints.
      like: A tree of arrays or of types, like the one that was saved: how arrays shall lie.
      step: The number of the step; None: the last one.
      partial: Whether arrays may be left out.
    """
    return _core._checkpoint_restore(_os.fspath(directory), like, step, bool(partial))


def steps(directory):
    """The steps that have a checkpoint in a folder, ascending.

    Args:
      directory: The directory of the checkpoints.
    """
    return _core._checkpoint_steps(_os.fspath(directory))


def describe(directory, step=None):
    """What a checkpoint holds, by default the latest. Raises CheckpointError if there is none.

    Args:
      directory: The directory of the checkpoints.
      step: The number of the step; None: the last one.
    """
    folder, step, metadata, processes, nbytes, arrays = _core._checkpoint_describe(_os.fspath(directory), step)
    return Checkpoint(folder, step, _loads(metadata), processes, nbytes, _arrays(arrays))


def verify(directory, step=None):
    """Reads a whole checkpoint and compares it with its checksums. Raises CheckpointError, naming array and file, if
    something is missing or damaged.

    Args:
      directory: The directory of the checkpoints.
      step: The number of the step; None: the last one.
    """
    _core._checkpoint_verify(_os.fspath(directory), step)


def dotted_name(path):
    """The name that other tools would give to a path: "layers.0.w" for "['layers'][0]['w']".

    Args:
      path: The path of an array in a tree.
    """
    return _core._dotted_name(path)


def export_safetensors(directory, file, *, step=None, name=None):
    """Writes the arrays of a checkpoint, each whole, to one safetensors file, in bounded memory. `name` gives the name of
    an array in the file for its path; default: dotted_name. Keys of random numbers are stored as uint32, and complex128
    as float64, with one more dimension.

    Args:
      directory: The directory of the checkpoints.
      file: The file.
      step: The number of the step; None: the last one.
      name: The function from the path of an array to its name.
    """
    _core._checkpoint_export(_os.fspath(directory), _os.fspath(file), step, name)


def save_safetensors(file, arrays, *, metadata=None):
    """Writes a dict of arrays of this process to a safetensors file.

    Args:
      file: The file.
      arrays: The arrays, by their names.
      metadata: What is stored beside the arrays.
    """
    _core._save_safetensors(_os.fspath(file), dict(arrays), dict(metadata or {}))


def describe_safetensors(path):
    """What is in a safetensors file, or in those of an index or folder; see load_safetensors.

    Args:
      path: The file.
    """
    return _arrays(_core._describe_safetensors(_os.fspath(path)))


def load_safetensors(path, like=None, *, names=None, partial=False):
    """The arrays of a safetensors file, of the files of a "….safetensors.index.json", or of a folder with such an index
    or a single such file: as a dict on the default device; or, given a tree, as that, lying as its arrays do. `names`
    are the names of arrays in the file, by the paths of the tree; for others it is the path's dotted_name. With
    `partial`, the file may have arrays that the tree has not.

    Raises CheckpointError for what is no such file, NotImplementedError for dtypes that there are not here (f8), and as
    Manager.restore where it does not fit the tree.

    Args:
      path: The file.
      like: A tree of arrays or of types, like the one that was saved: how arrays shall lie.
      names: Which arrays; None: all.
      partial: Whether arrays may be left out.
    """
    return _core._load_safetensors(_os.fspath(path), like, dict(names or {}), bool(partial))
