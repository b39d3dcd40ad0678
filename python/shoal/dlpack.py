"""Arrays from whoever speaks DLPack. Others take an array by its `__dlpack__`."""

from shoal._core import from_dlpack, is_supported_dtype

__all__ = ["from_dlpack", "is_supported_dtype"]
