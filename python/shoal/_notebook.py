"""How arrays show themselves in notebooks."""

from shoal import _core


def _repr_html_(array):
    """The value, and a small picture of where it lies."""
    import html  # It takes long to import.

    text = f"<pre>{html.escape(repr(array))}</pre>"
    if array._is_tracer or array.is_deleted() or not 1 <= array.ndim <= 2:
        return text
    sharding = array.sharding
    if isinstance(sharding, _core.SingleDeviceSharding):
        return text
    caption = html.escape(repr(sharding))
    return f'<div>{text}<div title="{caption}" style="max-width: 24em">{_core._sharding_svg(array)}</div></div>'


_core.Array._repr_html_ = _repr_html_
