"""Names for annotations."""

from shoal._core import Array

TYPE_CHECKING = False  # As that of typing, which takes long to import.
if TYPE_CHECKING:
    import numpy

    ArrayLike = Array | numpy.ndarray | numpy.generic | bool | int | float | complex
else:
    ArrayLike = Array | bool | int | float | complex
DTypeLike = str | type | object

__all__ = ["Array", "ArrayLike", "DTypeLike"]
