"""What functions of C++ say of themselves. tools/reference.py makes it from the headers, when the package is built."""

import functools


@functools.cache
def _table():
    import json
    from pathlib import Path

    path = Path(__file__).with_name("_docs.json")
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def of(function):
    """The docstring of a function, or None for what only its binding has."""
    bare = getattr(function, "__func__", function)
    name = f"{bare.__module__}.{bare.__qualname__}"
    if type(function).__name__ == "ufunc":  # Users make some, whose names may be any.
        from shoal import numpy

        if getattr(numpy, function.__name__, None) is not function:
            return None
    return _table().get(name)
