"""Types and tracers, for programs that ask for them."""

from shoal import _core
from shoal._core import ConcretizationTypeError, ShardingTypeError


class _AnyTracer(type):
    def __instancecheck__(cls, instance):
        return type(instance) is _core.Array and instance._is_tracer


class Tracer(metaclass=_AnyTracer):
    """An array that is being traced: isinstance(x, Tracer)."""


class ShapedArray:
    """The type of an array: shape, dtype, and how Explicit axes split it."""

    def __init__(self, shape, dtype, weak_type=False):
        self.shape = tuple(shape)
        self._name = _core._dtype_name(dtype)
        self.weak_type = weak_type
        self._text = f"{self._name}[{','.join(map(str, self.shape))}]"

    @classmethod
    def _of(cls, array):
        made = cls(array.shape, array._dtype_name, array.weak_type)
        made._text = array._type_text
        if not array._is_tracer:
            made.sharding = array.sharding
        return made

    @property
    def dtype(self):
        return _core._dtype_object(self._name)

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def size(self):
        product = 1
        for extent in self.shape:
            product *= extent
        return product

    def __eq__(self, other):
        return isinstance(other, ShapedArray) and (self._text, self.weak_type) == (other._text, other.weak_type)

    def __hash__(self):
        return hash((self._text, self.weak_type))

    def str_short(self, short_dtypes=False):
        return self._text

    def __str__(self):
        return self._text

    def __repr__(self):
        return f"ShapedArray({self._text}{', weak_type=True' if self.weak_type else ''})"


_core.Array.aval = property(ShapedArray._of, doc="The type of an array, without its elements.")
