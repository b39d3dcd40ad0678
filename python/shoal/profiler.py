"""Records what the process does and when."""

import contextlib
import os

from shoal import _core
from shoal._core import StepTimer, TraceAnnotation
from shoal._later import YET as _YET, later as _later

__all__ = [
    "StepTimer",
    "StepTraceAnnotation",
    "TraceAnnotation",
    "annotate_function",
    "start_trace",
    "stop_trace",
    "trace",
]


def start_trace(log_dir, *args, **kwargs):
    """Records from now on. `log_dir` is a folder, which is made, or a file that ends with .json.

    Args:
      log_dir: Where the trace is written.
      args: Makes no difference.
      kwargs: Makes no difference.
    """
    path = os.fspath(log_dir)
    if not path.endswith(".json"):
        os.makedirs(path, exist_ok=True)
        path = os.path.join(path, f"trace_{_core.process_index()}.json")
    _core._start_trace(path)


def stop_trace():
    """Ends the recording and writes the file."""
    _core._stop_trace()


@contextlib.contextmanager
def trace(log_dir, *args, **kwargs):
    """Records in a `with` block.

    Args:
      log_dir: Where the trace is written.
      args: Makes no difference.
      kwargs: Makes no difference.
    """
    start_trace(log_dir)
    try:
        yield
    finally:
        stop_trace()


def StepTraceAnnotation(name, *, step_num=0, **kwargs):
    """An annotation of one step of a loop, with its number.

    Args:
      name: The name under which the time is shown.
      step_num: The number of the step.
      kwargs: Makes no difference.
    """
    return _core._step_annotation(name, step_num)


def annotate_function(func, name=None, **kwargs):
    """The function, whose calls are shown under a name.

    Args:
      func: The function.
      name: The name under which the time is shown.
      kwargs: Makes no difference.
    """
    import functools

    @functools.wraps(func)
    def wrapped(*args, **kwargs):
        with TraceAnnotation(name or func.__name__):
            return func(*args, **kwargs)

    return wrapped


__getattr__ = _later(
    __name__,
    {_YET: "ProfileData ProfileOptions device_memory_profile save_device_memory_profile start_server stop_server"},
)
