"""Layouts: in which order the elements of an array lie. Here it is row-major always."""

from shoal import _core
from shoal.sharding import Sharding as _Sharding

__all__ = ["Format", "Layout", "with_layout_constraint"]


class _AutoLayout:
    """Whatever layout the compiler chooses."""

    def __repr__(self):
        return "AutoLayout"


class Layout:
    """The dimensions of an array from the one whose neighbours lie farthest apart to the one where they are adjacent."""

    AUTO = _AutoLayout()

    __slots__ = ("major_to_minor", "tiling", "sub_byte_element_size_in_bits")

    def __init__(self, major_to_minor, tiling=None, sub_byte_element_size_in_bits=0):
        self.major_to_minor = tuple(major_to_minor)
        self.tiling = None if tiling is None else tuple(map(tuple, tiling))
        self.sub_byte_element_size_in_bits = sub_byte_element_size_in_bits

    def _fields(self):
        return self.major_to_minor, self.tiling, self.sub_byte_element_size_in_bits

    def __eq__(self, other):
        return isinstance(other, Layout) and self._fields() == other._fields()

    def __hash__(self):
        return hash(self._fields())

    def __repr__(self):
        return (f"Layout(major_to_minor={self.major_to_minor}, tiling={self.tiling}, "
                f"sub_byte_element_size_in_bits={self.sub_byte_element_size_in_bits})")

    def _check(self, function):
        """Raises NotImplementedError for a layout that arrays cannot have here."""
        if self.major_to_minor != tuple(range(len(self.major_to_minor))) or self.tiling:
            raise NotImplementedError(f"{function}: arrays on CPU devices are row-major, without tiles, but {self} is asked "
                                      "for; leave the layout out, or transpose the array")


class Format:
    """A layout and a sharding. jit and device_put take it in the place of the sharding."""

    __slots__ = ("layout", "sharding")

    def __init__(self, layout=None, sharding=None):
        if not (layout is None or isinstance(layout, (Layout, _AutoLayout))):
            raise TypeError(f"Format: layout must be a Layout, Layout.AUTO or None, got {layout!r} of {type(layout)}")
        if not (sharding is None or isinstance(sharding, (_Sharding, _core.PartitionSpec))):
            raise TypeError(f"Format: sharding must be a Sharding or None, got {sharding!r} of {type(sharding)}")
        if isinstance(layout, Layout) and not isinstance(sharding, _Sharding):
            raise ValueError(f"Format: a layout needs a NamedSharding or a SingleDeviceSharding beside it, got {sharding!r}")
        self.layout = layout
        self.sharding = sharding

    def _fields(self):
        return self.layout, self.sharding

    def __eq__(self, other):
        return isinstance(other, Format) and self._fields() == other._fields()

    def __hash__(self):
        return hash(self._fields())

    def __repr__(self):
        return f"Format(layout={self.layout}, sharding={self.sharding})"

    def _sharding_of_rows(self):
        """The sharding, for who takes shardings."""
        if isinstance(self.layout, Layout):
            self.layout._check("Format")
        return self.sharding


def _format(ndim, sharding):
    return Format(Layout(range(ndim), ()), sharding)


def with_layout_constraint(x, layouts):
    """The tree, whose arrays shall lie as these layouts say.

    Args:
      x: A tree of arrays.
      layouts: The layouts.
    """

    def check(leaf, layout):
        if not isinstance(layout, Layout):
            raise TypeError(f"with_layout_constraint: expected a Layout, got {layout!r} of {type(layout)}")
        if len(layout.major_to_minor) != leaf.ndim:
            raise ValueError(f"with_layout_constraint: {layout} is for arrays of {len(layout.major_to_minor)} dimensions, but "
                             f"the array has {leaf.ndim}")
        layout._check("with_layout_constraint")
        return leaf

    leaves, treedef = _core.tree_flatten(x)
    wanted = [layouts] * len(leaves) if isinstance(layouts, Layout) else treedef.flatten_up_to(layouts)
    return treedef.unflatten(map(check, leaves, wanted))


_core.Array.format = property(lambda array: _format(array.ndim, array.sharding), doc="The layout and the sharding.")


def _formats(shardings, types):
    leaves, treedef = _core.tree_flatten(types)
    return treedef.unflatten(_format(len(type.shape), one) for type, one in zip(leaves, _core.tree_leaves(shardings)))


_core.Compiled.input_formats = property(
    lambda compiled: _formats(compiled.input_shardings, compiled.in_avals), doc="The formats of the arguments."
)
_core.Compiled.output_formats = property(
    lambda compiled: _formats(compiled.output_shardings, compiled.out_info), doc="The formats of the results."
)
