"""Types and tracers, for programs that ask for them."""

from shoal import _core
from shoal._core import ConcretizationTypeError, ShardingTypeError


class _AnyTracer(type):
    def __instancecheck__(cls, instance):
        return type(instance) is _core.Array and instance._is_tracer


class Tracer(metaclass=_AnyTracer):
    """An array that is being traced: isinstance(x, Tracer)."""


class ManualAxisType:
    """How a value is spread over manual axes: those over which it varies, and those over which it is to be summed."""

    def __init__(self, *, varying=frozenset(), unreduced=frozenset(), reduced=frozenset(), unreduced_kind=None):
        self.varying = frozenset(varying)
        self.unreduced = frozenset(unreduced)
        self.reduced = frozenset(reduced)
        self.unreduced_kind = unreduced_kind or ("sum" if self.unreduced else None)

    def invarying(self, mesh):
        """The manual axes of a mesh over which the value is the same."""
        return frozenset(mesh.manual_axes) - self.varying - self.unreduced - self.reduced

    def _fields(self):
        return (self.varying, self.unreduced, self.reduced, self.unreduced_kind)

    def __eq__(self, other):
        return isinstance(other, ManualAxisType) and self._fields() == other._fields()

    def __hash__(self):
        return hash(self._fields())

    def __repr__(self):
        return (
            f"ManualAxisType(varying={self.varying}, unreduced={self.unreduced}, reduced={self.reduced}, "
            f"unreduced_kind={self.unreduced_kind})"
        )


class ShapedArray:
    """The type of an array: shape, dtype, and how Explicit axes split it."""

    def __init__(self, shape, dtype, weak_type=False, *, sharding=None, manual_axis_type=ManualAxisType()):
        self.shape = tuple(shape)
        self._name = _core._dtype_name(dtype)
        self.weak_type = weak_type
        self.sharding = _type_sharding(sharding, len(self.shape))
        self.manual_axis_type = manual_axis_type

    @classmethod
    def _of(cls, array):
        varying, unreduced, reduced = array._manual_axis_type
        return cls(
            array.shape,
            array._dtype_name,
            array.weak_type,
            sharding=array._type_sharding,
            manual_axis_type=ManualAxisType(varying=varying, unreduced=unreduced, reduced=reduced),
        )

    @property
    def dtype(self):
        return _core._dtype_object(self._name)

    @property
    def mat(self):
        return self.manual_axis_type

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def size(self):
        product = 1
        for extent in self.shape:
            product *= extent
        return product

    def update(self, **changes):
        """The same type but for what is given."""
        fields = dict(
            shape=self.shape,
            dtype=self._name,
            weak_type=self.weak_type,
            sharding=self.sharding,
            manual_axis_type=self.manual_axis_type,
        )
        return ShapedArray(**{**fields, **changes})

    def strip_weak_type(self):
        return self.update(weak_type=False)

    def _fields(self):
        return (self.shape, self._name, self.weak_type, self.sharding, self.manual_axis_type)

    def __eq__(self, other):
        return isinstance(other, ShapedArray) and self._fields() == other._fields()

    def __hash__(self):
        return hash(self._fields())

    def __len__(self):
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def str_short(self, short_dtypes=False, mesh_axis_types=False):
        """The type as text."""

        def joined(axes):
            axes = [axes] if isinstance(axes, str) else sorted(axes)
            return axes[0] if len(axes) == 1 else f"({','.join(axes)})"

        types = dict(zip(self.sharding.mesh.axis_names, self.sharding.mesh.axis_types))

        def dim(extent, entry):
            axes = () if entry is None else (entry,) if isinstance(entry, str) else tuple(entry)
            axes = [axis for axis in axes if types[axis] is _core.AxisType.Explicit]
            if not axes:
                return str(extent)
            return f"{extent}@{axes[0] if len(axes) == 1 else '(' + ','.join(axes) + ')'}"

        entries = self.sharding.spec.partitions + (None,) * (self.ndim - len(self.sharding.spec))
        name = _SHORT.get(self._name, self._name) if short_dtypes else self._name
        text = f"{name}[{','.join(map(dim, self.shape, entries))}]"
        spec, manual = self.sharding.spec, self.manual_axis_type
        groups = [
            f"{letter}:{joined(axes)}"
            for letter, axes in (
                ("V", manual.varying),
                ("U", spec.unreduced | manual.unreduced),
                ("R", spec.reduced | manual.reduced),
            )
            if axes
        ]
        return text + (f"{{{', '.join(groups)}}}" if groups else "")

    def __str__(self):
        return self.str_short()

    def __repr__(self):
        return f"ShapedArray({self}{', weak_type=True' if self.weak_type else ''})"


_SHORT = {
    "bool": "bool", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16",
    "uint32": "u32", "uint64": "u64", "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
    "complex64": "c64", "complex128": "c128",
}


def _type_sharding(sharding, ndim):
    """What a type says of a sharding: an entry for each dimension, over axes that have no devices."""
    if sharding is None:
        return _core.NamedSharding(_core.AbstractMesh((), ()), _core.PartitionSpec(*[None] * ndim))
    spec = sharding.spec
    padded = spec.update(partitions=spec.partitions + (None,) * (ndim - len(spec)))
    return _core.NamedSharding(sharding.mesh.abstract_mesh, padded)


def _mat(array):
    if not array._is_tracer:
        raise AttributeError("'Array' object has no attribute 'mat'")
    return array.aval.mat


_core.Array.mat = property(_mat, doc="How a traced array is spread over manual axes.")
_core.Array.aval = property(ShapedArray._of, doc="The type of an array, without its elements.")
