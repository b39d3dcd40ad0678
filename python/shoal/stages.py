"""What functions are on their way to programs."""

from shoal._core import Compiled, Lowered
from shoal._core import _CachedFunction as Wrapped

__all__ = ["Compiled", "Lowered", "Wrapped"]
