"""Looking at arrays, and at values while a program runs."""

import builtins

from shoal import _core
from shoal._callbacks import check_order
from shoal._later import YET as _YET, later as _later
from shoal._core import inspect_array_sharding, visualize_array_sharding, visualize_sharding
from shoal._misuse import misuse as _misuse

__all__ = ["callback", "inspect_array_sharding", "print", "visualize_array_sharding", "visualize_sharding"]


def callback(callback, *args, ordered=False, partitioned=False, **kwargs):
    """Calls a function with the values of these trees each time the program comes here, in the order of the program. With
    `ordered`, ValueError is raised where devices of several processes each make calls.

    Args:
      callback: The function that is called.
      args: What it is called with: trees of arrays.
      ordered: Whether calls must be in the order of the program, as they are within a process.
      partitioned: Whether each device's own part is passed.
      kwargs: The same, by name.
    """
    check_order("debug.callback", ordered)
    leaves, treedef = _core.tree_flatten((args, kwargs))

    def call(values):
        given, named = treedef.unflatten(values)
        callback(*given, **named)

    _core._debug_callback(call, leaves)


def _check(fmt, args, kwargs):
    """Raises where a format and its values do not fit, when the function is traced."""
    import string

    if not isinstance(fmt, str):
        raise _misuse(TypeError, f"debug.print: the format must be a str, got {type(fmt)}")
    used, automatic = set(), 0
    for _, field, _, _ in string.Formatter().parse(fmt):
        if field is None:
            continue
        name = field.split(".")[0].split("[")[0]
        if name == "":
            name, automatic = automatic, automatic + 1
        elif name.isdigit():
            name = int(name)
        if isinstance(name, int) and name >= len(args):
            raise _misuse(IndexError, "Replacement index out of range for positional args tuple")
        if isinstance(name, str) and name not in kwargs:
            raise KeyError(name)
        used.add(name)
    unused = [str(i) for i in range(len(args)) if i not in used] + [name for name in kwargs if name not in used]
    if unused:
        raise _misuse(ValueError, f"Unused arguments to `jax.debug.print`: {', '.join(unused)}")


def print(fmt, *args, ordered=False, partitioned=False, skip_format_check=False, **kwargs):
    """Prints a line each time the program comes here; {} and {name} stand for values.

    Args:
      fmt: The text, with {} for each argument.
      args: The arguments.
      ordered: Whether calls must be in the order of the program, as they are within a process.
      partitioned: Whether each device's own part is passed.
      skip_format_check: Whether the text is not checked here.
      kwargs: The arguments, by name.
    """
    if not skip_format_check:
        _check(fmt, args, kwargs)

    def show(*args, **kwargs):
        builtins.print(fmt.format(*args, **kwargs))

    check_order("debug.print", ordered)
    callback(show, *args, **kwargs)


__getattr__ = _later(__name__, {_YET: "DebugEffect OrderedDebugEffect breakpoint log"})
