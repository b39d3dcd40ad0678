"""Registered once: what has to happen before the interpreter ends."""

import atexit
import sys

from shoal import _core


@atexit.register
def _drain():
    """What was launched may still call functions of Python. After Ctrl-C nobody waits for it."""
    if getattr(sys, "last_type", None) is KeyboardInterrupt:
        _core._interrupt()
    try:
        _core._effects_barrier()
    except KeyboardInterrupt:
        _core._interrupt()
        _core._effects_barrier()
    _core._set_log_sink(None)
