"""Names for annotations."""

from typing import Any, Union

from shoal._core import Array

ArrayLike = Union[Array, bool, int, float, complex, Any]
DTypeLike = Any

__all__ = ["Array", "ArrayLike", "DTypeLike"]
