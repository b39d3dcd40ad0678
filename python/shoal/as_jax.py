"""Runs a program that imports jax with Shoal in its place.

    python -m shoal.as_jax program.py [arguments]
    python -m shoal.as_jax -m module [arguments]

`import jax`, `from jax import lax` and `import jax.numpy as jnp` give it Shoal's modules, one and the same object by either
name, and `import jaxmg` the solvers of shoal.linalg. A module that Shoal has not raises ModuleNotFoundError. A program may
also call `install()` before it imports jax.
"""

import importlib
import importlib.abc
import importlib.machinery
import os
import runpy
import sys

_USAGE = "usage: python -m shoal.as_jax (program.py | -m module) [arguments]"


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Answers for jax and all modules below it, whether or not JAX is installed."""

    @staticmethod
    def _served(name):
        """The module of Shoal that is imported by this name of JAX."""
        here = "shoal.linalg" if name == "jaxmg" else "shoal" + name.removeprefix("jax")
        if name.startswith("jax._"):
            raise ModuleNotFoundError(f"{name} is a private module of JAX, which Shoal has not", name=name)
        try:
            return importlib.import_module(here)
        except ModuleNotFoundError as error:
            if error.name != here:
                raise  # What Shoal's own module imports is not installed.
            raise ModuleNotFoundError(f"{name} is served by Shoal, which has no module {here}", name=name) from None
        except ImportError as error:
            if error.name != here:
                raise
            raise ModuleNotFoundError(f"{name} is served by Shoal: {error}", name=name) from None

    def find_spec(self, name, path=None, target=None):
        if name not in ("jax", "jaxmg") and not name.startswith("jax."):
            return None
        return importlib.machinery.ModuleSpec(name, self)

    def exec_module(self, module):
        # What stands in sys.modules after this is what the import gives. The module keeps its own name and its own spec.
        sys.modules[module.__name__] = self._served(module.__name__)


def install():
    """From here on `import jax` imports Shoal in this process. Raises ImportError if JAX itself has been imported."""
    real = sys.modules.get("jax")
    if real is not None and real is not sys.modules.get("shoal"):
        raise ImportError(
            f"shoal.as_jax: JAX itself was imported before, from {getattr(real, '__file__', 'somewhere')}; "
            "Shoal can take its place only in a program that has not imported it yet"
        )
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def main(arguments):
    """Runs the program that the arguments name, as `python` would."""
    if not arguments or arguments[0] in ("-h", "--help") or arguments == ["-m"]:
        sys.exit(_USAGE)
    install()
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
