"""How arrays show themselves in notebooks."""

import sys

from shoal import _core


def is_page():
    """Whether a notebook's page shows what this process displays."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


def show_sharding(svg, sharding):
    """Shows the picture of a sharding on the page."""
    from IPython.display import HTML, display

    display(HTML(_picture(svg, sharding)))


def _picture(svg, sharding):
    import html  # It takes long to import.

    return f'<div title="{html.escape(repr(sharding))}" style="max-width: 24em">{svg}</div>'


def _repr_html_(array):
    """The value, and a small picture of where it lies."""
    import html

    text = f'<pre style="font-family: monospace">{html.escape(repr(array))}</pre>'
    if array._is_tracer or array.is_deleted() or not 1 <= array.ndim <= 2:
        return text
    if isinstance(array.sharding, _core.SingleDeviceSharding):
        return text
    return f"<div>{text}{_picture(_core._sharding_svg(array), array.sharding)}</div>"


_core.Array._repr_html_ = _repr_html_
