"""Functions that are traced and stored, to be called by another program.

`export(jit(f))(*args)` is the function as it is traced for arguments like these, whose bytes `serialize()` gives and
`deserialize` reads. It is not compiled yet: where it is called, it becomes part of that program, and runs where its
arguments lie.
"""

import collections

from shoal import _core
from shoal._custom_rules import custom_vjp
from shoal._derivatives import vjp as _vjp
from shoal._functions import jit
from shoal.core import ShapedArray
from shoal.sharding import NamedSharding
from shoal.tree_util import _unflatten_functions, tree_flatten, tree_structure

__all__ = [
    "DisabledSafetyCheck", "Exported", "SymbolicScope", "default_export_platform", "deserialize", "export",
    "is_symbolic_dim", "maximum_supported_calling_convention_version", "minimum_supported_calling_convention_version",
    "register_namedtuple_serialization", "register_pytree_node_serialization", "symbolic_args_specs",
    "symbolic_dim_bounds", "symbolic_shape",
]

# Of what is stored, in the place of JAX's for modules.
minimum_supported_calling_convention_version = 1
maximum_supported_calling_convention_version = 1


def default_export_platform():
    """The platform that functions are exported for."""
    return "cpu"


class DisabledSafetyCheck:
    """A check of JAX that is skipped. There is none here that it could be: graphs are not of a platform, and have no
    calls of anything but Shoal's own ops."""

    def __init__(self, _impl):
        self._impl = _impl

    @classmethod
    def platform(cls):
        return cls("platform")

    @classmethod
    def custom_call(cls, target_name):
        return cls(f"custom_call:{target_name}")

    def is_custom_call(self):
        """The target that may be called; None if this is about something else."""
        head, _, target = self._impl.partition(":")
        return target if head == "custom_call" and target else None

    def __eq__(self, other):
        return isinstance(other, DisabledSafetyCheck) and self._impl == other._impl

    def __hash__(self):
        return hash(self._impl)

    def __repr__(self):
        return self._impl


def _to_json(value):
    import json  # When it is needed: importing it takes long.

    return json.dumps(value).encode()


def _from_json(data):
    import json

    return json.loads(data.decode())


# ---- Trees as text

_names = {}  # The name and the function for its data of each class that may be stored.
_classes = {}  # By name: the class, and what makes its data and its objects again.


def register_pytree_node_serialization(
    nodetype, *, serialized_name, serialize_auxdata, deserialize_auxdata, from_children=None
):
    """Says how trees with nodes of a class are stored: by this name, and the bytes of what the class's flatten function
    gives beside the children. `from_children` makes an object of that and children; without, the class's unflatten
    function does. Returns the class. Raises ValueError for a class or a name that is registered already, and for a class
    that is no node of trees.

    Args:
      nodetype: The class.
      serialized_name: Its name in what is stored.
      serialize_auxdata: The function from what is no child to bytes.
      deserialize_auxdata: The function back.
      from_children: The function (auxdata, children) that makes a node.
    """
    if nodetype in _names:
        raise ValueError(
            f"register_pytree_node_serialization: {nodetype} is registered already, as {_names[nodetype][0]!r}"
        )
    if serialized_name in _classes:
        raise ValueError(
            f"register_pytree_node_serialization: the name {serialized_name!r} is that of {_classes[serialized_name][0]}"
        )
    if from_children is None:
        if nodetype not in _unflatten_functions:
            raise ValueError(
                f"register_pytree_node_serialization: {nodetype} is no node of trees; register it with "
                "register_pytree_node first, or give from_children"
            )
        from_children = _unflatten_functions[nodetype]
    _names[nodetype] = (serialized_name, serialize_auxdata)
    _classes[serialized_name] = (nodetype, deserialize_auxdata, from_children)
    return nodetype


def register_namedtuple_serialization(nodetype, *, serialized_name):
    """The same for a named tuple, whose fields must be the same where it is read.

    Args:
      nodetype: The class.
      serialized_name: Its name in what is stored.
    """
    if not _is_namedtuple(nodetype):
        raise ValueError(
            f"register_namedtuple_serialization: {nodetype} is no named tuple; use register_pytree_node_serialization"
        )

    def from_children(fields, children):
        return nodetype(**dict(zip(fields, children, strict=True)))

    return register_pytree_node_serialization(
        nodetype,
        serialized_name=serialized_name,
        serialize_auxdata=lambda _: _to_json(nodetype._fields),
        deserialize_auxdata=_from_json,
        from_children=from_children,
    )


def _is_namedtuple(nodetype):
    return isinstance(nodetype, type) and issubclass(nodetype, tuple) and hasattr(nodetype, "_fields")


def _text_keys(keys):
    for key in keys:
        if not isinstance(key, str):
            raise TypeError(f"serialize: the keys of a dict in a tree must be str to be stored, got {key!r} of {type(key)}")
    return list(keys)


register_pytree_node_serialization(
    collections.OrderedDict,
    serialized_name="collections.OrderedDict",
    serialize_auxdata=lambda keys: _to_json(_text_keys(keys)),
    deserialize_auxdata=_from_json,
    from_children=lambda keys, children: collections.OrderedDict(zip(keys, children, strict=True)),
)


def _encoded(tree):
    """The structure as what json takes."""
    node = tree.node_data()
    if node is None:
        return "*"
    kind, data = node
    children = [_encoded(child) for child in tree.children()]
    if kind is type(None):
        return None
    if kind in (tuple, list):
        return [kind.__name__, children]
    if kind is dict:
        return ["dict", children, _text_keys(data)]
    if kind not in _names:
        raise ValueError(
            f"serialize: the structure of the arguments or results has nodes of {kind}, of which nobody has said how they "
            "are stored; use export.register_pytree_node_serialization or export.register_namedtuple_serialization"
        )
    name, to_bytes = _names[kind]
    return ["node", children, name, to_bytes(data).hex()]


def _decoded(text):
    """An object of a structure, with 0 at its leaves."""
    if text == "*":
        return 0
    if text is None:
        return None
    kind, parts, *rest = text
    children = [_decoded(part) for part in parts]
    if kind == "tuple":
        return tuple(children)
    if kind == "list":
        return children
    if kind == "dict":
        return dict(zip(rest[0], children, strict=True))
    if kind != "node":
        raise ValueError(f"a node of the unknown kind {kind!r}")
    name, data = rest
    if name not in _classes:
        raise ValueError(
            f"deserialize: the function was stored with trees of {name!r}, of which this process does not know the class; "
            "register it as it was registered where the function was stored"
        )
    _, from_bytes, from_children = _classes[name]
    return from_children(from_bytes(bytes.fromhex(data)), children)


# ---- Functions


def _has_tangents(aval):
    import numpy as np

    return np.issubdtype(aval.dtype, np.inexact) or aval.dtype.kind == "V"


class Exported:
    """A function that was traced for arguments of certain trees, shapes and dtypes. Made by `export` and `deserialize`.

    fun_name, in_tree, in_avals, out_tree, out_avals: what it is called with and gives.
    nr_devices: of the mesh that it was exported over, which calls must have; 1: any number will do.
    platforms, calling_convention_version: what it is for, and how it is stored.
    disabled_safety_checks: as given to `export`.
    """

    def __init__(self, _function, _in_tree, _out_tree, _checks=(), _get_vjp=None):
        self._function = _function
        self.fun_name = _function.name
        self.in_tree = _in_tree
        self.out_tree = _out_tree
        self.in_avals, self.out_avals = (
            tuple(ShapedArray(shape, dtype, weak, sharding=sharding) for shape, dtype, weak, sharding in types)
            for types in (_function.in_types, _function.out_types)
        )
        self._in_named_shardings = tuple(_function.in_shardings)
        self._out_named_shardings = tuple(_function.out_shardings)
        self.nr_devices = _function.num_devices
        self.platforms = (default_export_platform(),)
        self.ordered_effects = self.unordered_effects = ()  # What has some is not exported.
        self.disabled_safety_checks = tuple(_checks)
        self.calling_convention_version = maximum_supported_calling_convention_version
        self.module_kept_var_idx = tuple(range(len(self.in_avals)))
        self.uses_global_constants = False
        self._get_vjp = _get_vjp

    def __repr__(self):
        return f"Exported(fun_name={self.fun_name}, ...)"

    def mlir_module(self, serialized=True):
        """The graph, which is Shoal's own."""
        return str(self._function)

    @property
    def mlir_module_serialized(self):
        """The same as bytes."""
        return str(self._function).encode()

    def in_shardings_jax(self, mesh=None):
        """Where each leaf of the arguments should lie, over this mesh or the abstract one of the export; None: anywhere."""
        return tuple(_over(sharding, mesh) for sharding in self._in_named_shardings)

    def out_shardings_jax(self, mesh=None):
        """The same of results, where that was said."""
        return tuple(_over(sharding, mesh) for sharding in self._out_named_shardings)

    def has_vjp(self):
        """Whether `vjp` gives something."""
        return self._get_vjp is not None

    def vjp(self):
        """The exported function of the leaves of arguments and of cotangents of results, in one tuple, that gives the
        cotangents of the arguments. Cotangents of integers and bools are zeros of bool. Raises ValueError for a function
        that was stored without it."""
        if self._get_vjp is None:
            raise ValueError(_no_vjp(self.fun_name))
        return self._get_vjp(self)

    def serialize(self, vjp_order=0):
        """The function as bytes. Captured arrays go along. A function that calls others with derivatives of their own
        (custom_vjp, custom_jvp) is differentiated once loaded only up to `vjp_order` times, in reverse; any other
        without limit, in both modes."""
        if self._get_vjp is None and vjp_order > 0 and self._has_rules:
            raise ValueError(_no_vjp(self.fun_name))
        note = {
            "in_tree": _encoded(self.in_tree),
            "out_tree": _encoded(self.out_tree),
            "checks": [str(check) for check in self.disabled_safety_checks],
            "has_rules": self._has_rules,
        }
        if vjp_order > 0 and self._has_rules:
            note["vjp"] = self.vjp().serialize(vjp_order - 1).hex()
        return bytearray(self._function.serialize(_to_json(note)))

    _has_rules = property(lambda self: self._function.has_rules)

    def call(self, *args, **kwargs):
        """Calls it, outside jit or inside, also in functions that are differentiated. Raises ValueError for arguments of
        other trees, shapes or dtypes than it was exported for, and for another number of devices."""
        leaves, tree = tree_flatten((args, kwargs))
        if tree != self.in_tree:
            raise ValueError(
                f"{self.fun_name}: the function was exported for arguments of the structure {self.in_tree}, but is "
                f"called with {tree}"
            )
        return self.out_tree.unflatten(self._call_flat(leaves))

    def _call_flat(self, leaves):
        return self._function.call(leaves)


class _Loaded(Exported):
    """A function whose calls had derivatives of their own, which were not stored but as its vjp, if at all."""

    _has_rules = True

    def _call_flat(self, leaves):
        call = custom_vjp(lambda *primals: tuple(self._function.call(primals)))

        def backward(primals, cotangents):
            if self._get_vjp is None:
                raise ValueError(_no_vjp(self.fun_name))
            given = [
                cotangent if _has_tangents(aval) else _no_cotangent(aval)
                for cotangent, aval in zip(cotangents, self.out_avals)
            ]
            made = self.vjp().call(*primals, *given)
            return tuple(m if _has_tangents(aval) else None for m, aval in zip(made, self.in_avals))

        call.defvjp(lambda *primals: (call(*primals), primals), backward)
        return list(call(*(_core._array(leaf, copy=False) for leaf in leaves)))


def _no_vjp(name):
    return (
        f"{name}: the function calls others with derivatives of their own, and was stored without its vjp; store it "
        "with serialize(vjp_order=1) or more"
    )


def _no_cotangent(aval):
    return _core.numpy.zeros(aval.shape, bool)


def _over(sharding, mesh):
    if sharding is None or mesh is None:
        return sharding
    return NamedSharding(mesh, sharding.spec, memory_kind=sharding.memory_kind)


def _exported_vjp(exported):
    count = len(exported.in_avals)
    moving = [i for i, aval in enumerate(exported.in_avals) if _has_tangents(aval)]

    def pulled_back(*leaves):
        primals, cotangents = list(leaves[:count]), leaves[count:]

        def of_moving(*values):
            for i, value in zip(moving, values):
                primals[i] = value
            made = exported._call_flat(primals)
            return [m for m, aval in zip(made, exported.out_avals) if _has_tangents(aval)]

        _, back = _vjp(of_moving, *(primals[i] for i in moving))
        made = iter(back([c for c, aval in zip(cotangents, exported.out_avals) if _has_tangents(aval)]))
        return tuple(next(made) if _has_tangents(aval) else _no_cotangent(aval) for aval in exported.in_avals)

    def spec(aval, sharding, is_cotangent):
        dtype = bool if is_cotangent and not _has_tangents(aval) else aval.dtype
        return _core.ShapeDtypeStruct(aval.shape, dtype, sharding=sharding)

    specs = [spec(a, s, False) for a, s in zip(exported.in_avals, exported._in_named_shardings)]
    specs += [spec(a, s, True) for a, s in zip(exported.out_avals, exported._out_named_shardings)]
    pulled_back.__name__ = f"{exported.fun_name}_vjp"
    return export(jit(pulled_back))(*specs)


def export(fun_jit, *, platforms=None, disabled_checks=()):
    """What exports a jitted function for arguments like those that it is called with; types (ShapeDtypeStruct) may stand
    for arrays.

    Raises ValueError for a function that is not the result of `jit`, RuntimeError for `platforms` other than "cpu", and,
    when it is called, NotImplementedError for a function that calls others of this process: callbacks, debug.print."""
    if not isinstance(fun_jit, _core._CachedFunction) or fun_jit._is_pmap:
        raise ValueError(f"export: the function must be the result of `jit`, got {fun_jit}")
    for platform in platforms if platforms is not None else ():
        _core._check_backend(platform)
    for check in disabled_checks:
        if not isinstance(check, DisabledSafetyCheck):
            raise TypeError(f"export: disabled_checks must be of DisabledSafetyCheck, got {check!r}")

    def do_export(*args, **kwargs):
        traced = fun_jit.trace(*args, **kwargs)
        return Exported(
            _core._export(traced), traced.in_tree, traced.out_tree, disabled_checks, _exported_vjp
        )

    return do_export


def deserialize(blob):
    """The function that `Exported.serialize` stored. Raises ValueError for bytes that are none, that are damaged, or
    that another version of Shoal stored.

    Args:
      blob: What serialize gave.
    """
    try:
        stored = bytes(memoryview(blob))
    except TypeError:
        raise TypeError(f"deserialize: needs bytes, got {type(blob)}") from None
    function = _core._load_exported(stored)
    try:
        note = _from_json(function.note)
    except ValueError:
        raise ValueError("deserialize: the function was exported by a program in C++, whose trees Python has not") from None
    try:
        in_tree, out_tree = (tree_structure(_decoded(note[key])) for key in ("in_tree", "out_tree"))
        checks = [DisabledSafetyCheck(str(check)) for check in note["checks"]]
        derivative = deserialize(bytes.fromhex(note["vjp"])) if "vjp" in note else None
        has_rules = bool(note["has_rules"])
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"deserialize: the bytes are no exported function that Python stored: {error!r}") from None
    if in_tree.num_leaves != len(function.in_types) or out_tree.num_leaves != len(function.out_types):
        raise ValueError("deserialize: the trees of arguments and results are not those of the function")
    if not has_rules:
        return Exported(function, in_tree, out_tree, checks, _exported_vjp)
    return _Loaded(function, in_tree, out_tree, checks, derivative and (lambda _: derivative))


# ---- Shapes with variables

_SYMBOLIC = (
    "{}: {!r} is no number: shapes are numbers here, as sharding, memory and code are planned for them; export the function "
    "for each shape that is needed"
)


class SymbolicScope:
    """Where the variables of shapes would be. There are none here."""

    def __init__(self, constraints_str=()):
        if constraints_str:
            raise NotImplementedError(_SYMBOLIC.format("SymbolicScope", constraints_str))


def is_symbolic_dim(p):
    """Whether an extent is a variable: none is.

    Args:
      p: A symbolic dimension, or a number.
    """
    return False


def symbolic_dim_bounds(p):
    """The least and the most that an extent can be: itself.

    Args:
      p: A symbolic dimension, or a number.
    """
    return (int(p), int(p))


def symbolic_shape(shape_spec, *, constraints=(), scope=None, like=None):
    """The shape that a text says, as "2, 3"; "_" and "..." stand for what `like` has there. Raises NotImplementedError
    for variables."""
    if constraints:
        raise NotImplementedError(_SYMBOLIC.format("symbolic_shape", constraints))
    parts = [part.strip() for part in ("..." if shape_spec is None else shape_spec).strip("() ").split(",")]
    parts = [part for part in parts if part]
    if "..." in parts and parts.index("...") != len(parts) - 1:
        raise ValueError(f"symbolic_shape: '...' must be last, got {shape_spec!r}")
    if like is None and ("_" in parts or "..." in parts):
        raise ValueError(f"symbolic_shape: {shape_spec!r} leaves extents to `like`, which is not given")
    shape = []
    for i, part in enumerate(parts):
        if part == "...":
            shape += like[i:]
        elif part == "_":
            shape.append(like[i])
        elif part.isdigit():
            shape.append(int(part))
        else:
            raise NotImplementedError(_SYMBOLIC.format("symbolic_shape", part))
    if like is not None and (len(shape) != len(like) or any(a != b for a, b in zip(shape, like))):
        raise ValueError(f"symbolic_shape: {shape_spec!r} is not the shape {tuple(like)}")
    return tuple(shape)


def symbolic_args_specs(args, shapes_specs, constraints=(), scope=None):
    """Types for arguments, of the shapes that a tree of texts says: one text for all, or a prefix of the tree."""
    import shoal as jax

    leaves, tree = tree_flatten(args)
    specs = [shapes_specs] * len(leaves) if shapes_specs is None or isinstance(shapes_specs, str) else None
    if specs is None:
        is_text = lambda x: x is None or isinstance(x, str)
        prefix, outer = tree_flatten(shapes_specs, is_leaf=is_text)
        parts = outer.flatten_up_to(args)
        specs = [spec for spec, part in zip(prefix, parts) for _ in tree_flatten(part)[0]]
    made = []
    for leaf, spec in zip(leaves, specs):
        aval = jax.typeof(leaf) if not hasattr(leaf, "shape") else leaf
        made.append(
            _core.ShapeDtypeStruct(
                symbolic_shape(spec, constraints=constraints, scope=scope, like=tuple(aval.shape)), aval.dtype
            )
        )
    return tree.unflatten(made)
