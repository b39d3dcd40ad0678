"""Names for annotations."""

from shoal._core import Array

TYPE_CHECKING = False  # As that of typing, which takes long to import.
if TYPE_CHECKING:
    from typing import TypeAlias

    import numpy

    ArrayLike: TypeAlias = Array | numpy.ndarray | numpy.generic | bool | int | float | complex
    DTypeLike: TypeAlias = str | type | object
else:
    ArrayLike = Array | bool | int | float | complex
    DTypeLike = str | type | object

__all__ = ["Array", "ArrayLike", "DTypeLike"]
