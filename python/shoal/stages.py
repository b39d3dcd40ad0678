"""What functions are on their way to programs."""

from shoal._core import Compiled, Lowered, Traced
from shoal._core import _CachedFunction as Wrapped
from shoal.core import ShapedArray

__all__ = ["ArgInfo", "Compiled", "Lowered", "Traced", "Wrapped"]


class ArgInfo:
    """What is known of an argument. It is no node of trees."""

    __slots__ = ("_aval", "donated")

    def __init__(self, _aval, donated):
        self._aval = _aval
        self.donated = donated

    @property
    def shape(self):
        return self._aval.shape

    @property
    def dtype(self):
        return self._aval.dtype

    def __eq__(self, other):
        return isinstance(other, ArgInfo) and (self._aval, self.donated) == (other._aval, other.donated)

    def __hash__(self):
        return hash((self._aval, self.donated))

    def __repr__(self):
        return f"ArgInfo(_aval={self._aval!r}, donated={self.donated})"


def _aval(type):
    return ShapedArray(type.shape, type.dtype, type.weak_type)


def _args_info(stage):
    """For each argument its type and whether it is donated."""
    return stage.in_tree.unflatten([ArgInfo(_aval(type), donated) for type, donated in stage._in_types])


def _in_avals(stage):
    """The types of the arguments."""
    return stage.in_tree.unflatten([_aval(type) for type, _ in stage._in_types])


for _stage in (Traced, Lowered, Compiled):
    _stage.args_info = property(_args_info)
    _stage.in_avals = property(_in_avals)
