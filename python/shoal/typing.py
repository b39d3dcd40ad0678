"""Names for annotations."""

from shoal._core import Array

ArrayLike = Array | bool | int | float | complex
DTypeLike = str | type | object

__all__ = ["Array", "ArrayLike", "DTypeLike"]
