"""A real notebook, run without a page: what its cells show."""

import re

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

SETUP = """
import shoal as jax
import shoal.numpy as jnp
from shoal.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((2, 4), ("x", "y"))
array = jax.device_put(jnp.arange(32.0).reshape(4, 8), NamedSharding(mesh, P("x", "y")))
"""


@pytest.fixture
def shown(tmp_path, monkeypatch):
    """Runs a cell after SETUP; gives its outputs."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))

    def run(cell):
        cells = [nbformat.v4.new_code_cell(text) for text in (SETUP, cell)]
        notebook = nbformat.v4.new_notebook(cells=cells)
        NotebookClient(notebook, timeout=60).execute()
        return notebook.cells[1].outputs

    return run


def test_an_array_shows_its_value_and_a_picture_of_its_sharding(shown):
    [output] = shown("array")
    assert output.data["text/plain"].startswith("Array([[ 0.,  1.,")
    page = output.data["text/html"]
    assert page.index("Array([[ 0.,  1.,") < page.index("<svg")
    assert page.count("<rect") == 8
    assert "spec=P(&#x27;x&#x27;, &#x27;y&#x27;)" in page


def test_an_array_on_one_device_shows_its_value_alone(shown):
    [output] = shown("jnp.arange(3)")
    assert output.data["text/plain"] == "Array([0, 1, 2], dtype=int32)"
    assert "<svg" not in output.data.get("text/html", "")


def test_a_picture_is_drawn_where_one_is_asked_for(shown):
    [output] = shown("jax.debug.visualize_array_sharding(array)")
    assert output.data["text/html"].count("<rect") == 8
    assert all(f"CPU {device}" in output.data["text/html"] for device in range(8))


def test_a_picture_without_colours_is_text(shown):
    [output] = shown("jax.debug.visualize_array_sharding(array, use_color=False)")
    assert all(f"CPU {device}" in output.text for device in range(8))


def test_a_picture_is_drawn_when_a_function_is_compiled(shown):
    [output] = shown("jax.jit(lambda x: jax.debug.visualize_array_sharding(x))(array)")
    assert output.data["text/html"].count("<rect") == 8


def test_prints_of_compiled_functions_appear_below_their_cell(shown):
    outputs = shown("jax.jit(lambda x: jax.debug.print('total {}', x.sum()))(array); jax.effects_barrier()")
    assert "".join(output.text for output in outputs if output.output_type == "stream") == "total 496.0\n"


def test_an_error_names_the_line_of_the_cell(shown):
    with pytest.raises(CellExecutionError) as raised:
        shown("y = array\nz = y + jnp.ones((3, 5))")
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(raised.value))
    assert "ShapeError: add: shapes (4, 8) and (3, 5) do not broadcast" in text
    assert re.search(r"\n  at \d+\.py:2\n", text)  # The cell's file, as the kernel names it.
