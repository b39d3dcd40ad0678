"""What the Array API standard asks of a namespace."""

from shoal import _core
from shoal.numpy._kinds import _KINDS

__array_api_version__ = "2025.12"

_WIDE = ("int64", "uint64", "float64", "complex128")
_OTHERS = ("float16", "bfloat16")


class _ArrayNamespaceInfo:
    """What this namespace can do."""

    def capabilities(self):
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self):
        return None

    def devices(self):
        return (None, *_core.devices())

    def default_dtypes(self, *, device=None):
        dtype = lambda kind: _core._dtype_object(_core._dtype_name(kind))
        return {
            "real floating": dtype(float),
            "complex floating": dtype(complex),
            "integral": dtype(int),
            "indexing": dtype(int),
        }

    def dtypes(self, *, device=None, kind=None):
        kinds = ("bool", "numeric") if kind is None else kind if isinstance(kind, tuple) else (kind,)
        names = [name for one in kinds for name in _KINDS[one] if name not in _OTHERS]
        return {name: _core._dtype_object(name) for name in names if _core._x64() or name not in _WIDE}


def __array_namespace_info__():
    """What this namespace can do."""
    return _ArrayNamespaceInfo()
