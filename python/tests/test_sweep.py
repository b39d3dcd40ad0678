"""Every public function of numerics has a row in the sweep, or a reason why not."""

import importlib
import importlib.util
import pathlib
import types

import pytest

MODULES = ["numpy", "lax", "lax.linalg", "nn", "scipy.special", "scipy.linalg", "numpy.linalg", "random", "ops", "image", "scipy.signal",
           "scipy.fft", "scipy.ndimage"]


@pytest.fixture(scope="module")
def table():
    path = pathlib.Path(__file__).parents[2] / "benchmarks" / "sweep" / "rows.py"
    spec = importlib.util.spec_from_file_location("rows", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def functions_of(name):
    module = importlib.import_module(f"shoal.{name}")
    for word in dir(module):
        value = getattr(module, word)
        if not word.startswith("_") and callable(value) and not isinstance(value, (type, types.ModuleType)):
            yield f"{name}.{word}"


@pytest.mark.parametrize("name", MODULES)
def test_every_function_has_a_row_or_a_reason(table, name):
    timed = {row.name.split()[0] for row in table.ROWS}
    without = table.without_row()
    there = set(functions_of(name))
    of_module = lambda names: {one for one in names if one.rsplit(".", 1)[0] == name}
    assert not there - timed - without.keys(), "give these a row, or a reason, in benchmarks/sweep/rows.py"
    assert not of_module(without) - there, "these are not there any more"
    assert not of_module(timed) - there, "these rows are of no function"


def test_each_name_stands_once(table):
    names = [row.name for row in table.ROWS]
    assert len(names) == len(set(names))
    assert not {name.split()[0] for name in names} & table.without_row().keys()
