"""Registered once: what has to happen before the interpreter ends."""

import atexit

from shoal import _core


@atexit.register
def _drain():
    """What was launched may still call functions of Python."""
    _core._effects_barrier()
    _core._set_log_sink(None)
