"""What functions say of themselves: each parameter has its line, and examples print what stands there."""

import doctest
import importlib
import inspect
import pkgutil
import pydoc
import re
import statistics
from pathlib import Path

import pytest

import shoal as jax
import shoal.numpy as jnp

# Parameters that have no line yet. The list may only shrink.
LIST = Path(__file__).with_name("undocumented.txt")


def public_functions():
    """(name, function) of everything callable that the package's modules show, each once."""
    names = ["shoal", *(one.name for one in pkgutil.walk_packages(jax.__path__, "shoal."))]
    found, seen = [], set()
    for module_name in sorted(names):
        if any(part.startswith("_") for part in module_name.split(".")):
            continue
        module = importlib.import_module(module_name)
        for name, value in sorted(vars(module).items()):
            is_own = str(getattr(value, "__module__", "")).startswith("shoal")
            if name.startswith("_") or not callable(value) or inspect.isclass(value) or not is_own or id(value) in seen:
                continue
            seen.add(id(value))
            found.append((f"{module_name}.{name}", value))
    return found


FUNCTIONS = public_functions()


def parameters(function):
    if isinstance(function, jnp.ufunc):
        return ["x1" if function.nin == 2 else "x", "out", "where"]
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []


def test_each_parameter_has_its_line():
    missing = [
        f"{name}({parameter})"
        for name, function in FUNCTIONS
        for parameter in parameters(function)
        if not re.search(rf"^ +\*{{0,2}}{parameter}: ", inspect.getdoc(function) or "", re.MULTILINE)
    ]
    listed = [line for line in LIST.read_text().splitlines() if line and not line.startswith("#")]
    assert sorted(set(missing) - set(listed)) == []
    assert sorted(set(listed) - set(missing)) == [], "the list may only shrink"


EXAMPLES = [(name, function) for name, function in FUNCTIONS if ">>> " in (inspect.getdoc(function) or "")]


@pytest.mark.parametrize("name, function", EXAMPLES, ids=[name for name, _ in EXAMPLES])
def test_examples(name, function):
    names = {"jax": jax, "jnp": jnp, "lax": jax.lax, "P": jax.P}
    test = doctest.DocTestParser().get_doctest(inspect.getdoc(function), names, name, None, 0)
    told = []
    doctest.DocTestRunner().run(test, out=told.append)
    assert "".join(told) == ""


def test_there_are_examples():
    assert len(EXAMPLES) > 100


def test_docstrings_say_more_than_a_sentence():
    words = [len((inspect.getdoc(function) or "").split()) for _, function in FUNCTIONS]
    assert statistics.median(words) >= 40


def test_docstrings_of_headers():
    doc = inspect.getdoc(jnp.matmul)
    assert doc.startswith("The matrix product")
    assert "\nArgs:\n  a: An array of at least one dimension, [..., n, k].\n" in doc
    assert "\nReturns:\n" in doc and "\nRaises:\n  ValueError: " in doc
    assert "InvalidArgument" not in doc and "InvalidArgument" not in inspect.getdoc(jax.lax.psum)
    assert jax.Array.sum.__doc__.startswith("The sum of the elements") and jnp.ones(2).sum.__doc__ == jax.Array.sum.__doc__


def test_ufuncs_and_what_users_make_of_functions():
    assert jnp.add.__doc__.startswith("x1 + x2;") and "\nArgs:\n" in jnp.add.__doc__
    assert jnp.ufunc.__doc__ == "A function of elements that can also reduce arrays."

    def add(x, y):
        """My own."""
        return x + y

    assert jnp.frompyfunc(add, 2, 1).__doc__ == "My own."


def test_help_has_the_documentation():
    assert "Args:" in pydoc.plain(pydoc.render_doc(jnp.cumsum))
    assert "Args:" in pydoc.plain(pydoc.render_doc(jax.Array.sum))
