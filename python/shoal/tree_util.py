"""Trees: containers in containers, whose leaves are arrays."""

import functools

from shoal import _core
from shoal._core import (
    PyTreeDef,
    tree_flatten,
    tree_leaves,
    tree_map,
    tree_structure,
    tree_unflatten,
    treedef_is_leaf,
    treedef_tuple,
)
from shoal._later import YET as _YET, later as _later
from shoal._key_paths import DictKey, FlattenedIndexKey, GetAttrKey, SequenceKey
from shoal._misuse import misuse as _misuse

__all__ = [
    "DictKey", "FlattenedIndexKey", "GetAttrKey", "Partial", "PyTreeDef", "SequenceKey", "all_leaves", "build_tree",
    "keystr", "register_dataclass", "register_pytree_node", "register_pytree_node_class",
    "register_pytree_with_keys", "register_pytree_with_keys_class", "register_static", "tree_all", "tree_broadcast",
    "tree_flatten", "tree_flatten_with_path", "tree_leaves", "tree_leaves_with_path", "tree_map", "tree_map_with_path",
    "tree_reduce", "tree_reduce_associative", "tree_structure", "tree_transpose", "tree_unflatten", "treedef_children",
    "treedef_is_leaf", "treedef_tuple",
]


def _compose(outer, inner):
    """The structure that has the second one at each of its leaves."""
    part = inner.unflatten([0] * inner.num_leaves)
    return tree_structure(outer.unflatten([part] * outer.num_leaves))


def _reduce(treedef):
    from shoal import _pickling

    return _pickling.tree_structure, (treedef.unflatten([0] * treedef.num_leaves),)


PyTreeDef.compose = _compose
PyTreeDef.__reduce__ = _reduce


def treedef_children(treedef):
    """The structures of the children of a tree.

    Args:
      treedef: The structure.
    """
    return treedef.children()


def tree_flatten_with_path(tree, is_leaf=None, is_leaf_takes_path=False):
    """The leaves, each behind the path that leads to it, and the structure.

    Args:
      tree: A tree.
      is_leaf: Whether a part of the tree is taken as a leaf.
      is_leaf_takes_path: Whether is_leaf is called with the path, too.
    """
    if not is_leaf_takes_path or is_leaf is None:
        return _core._flatten_with_path(tree, is_leaf, False), tree_structure(tree, is_leaf)
    answers = []

    def asked(path, x):
        answers.append(bool(is_leaf(path, x)))
        return answers[-1]

    pairs = _core._flatten_with_path(tree, asked, True)
    given = iter(answers)  # The structure is taken apart in the same order.
    return pairs, tree_structure(tree, lambda _: next(given))


def tree_leaves_with_path(tree, is_leaf=None, is_leaf_takes_path=False):
    """The leaves, each behind the path that leads to it.

    Args:
      tree: A tree.
      is_leaf: Whether a part of the tree is taken as a leaf.
      is_leaf_takes_path: Whether is_leaf is called with the path, too.
    """
    return tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


def tree_map_with_path(f, tree, *rest, is_leaf=None, is_leaf_takes_path=False):
    """tree_map of a function that is given the path of each leaf first.

    Args:
      f: The function.
      tree: A tree.
      rest: Further trees, of the structure of the first.
      is_leaf: Whether a part of the tree is taken as a leaf.
      is_leaf_takes_path: Whether is_leaf is called with the path, too.
    """
    pairs, treedef = tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    others = [treedef.flatten_up_to(other) for other in rest]
    return treedef.unflatten([f(path, leaf, *more) for (path, leaf), *more in zip(pairs, *others)])


_NOTHING = object()


def tree_reduce(function, tree, initializer=_NOTHING, is_leaf=None):
    """functools.reduce over the leaves.

    Args:
      function: The function of two values.
      tree: A tree.
      initializer: The first value.
      is_leaf: Whether a part of the tree is taken as a leaf.
    """
    leaves = tree_leaves(tree, is_leaf)
    return functools.reduce(function, leaves) if initializer is _NOTHING else functools.reduce(
        function, leaves, initializer
    )


def tree_reduce_associative(operation, tree, *, identity=_NOTHING, is_leaf=None):
    """The leaves combined in pairs, and the results in pairs again.

    Args:
      operation: The function of two values, which is associative.
      tree: A tree.
      identity: What changes nothing.
      is_leaf: Whether a part of the tree is taken as a leaf.
    """
    leaves = tree_leaves(tree, is_leaf)
    if not leaves:
        if identity is _NOTHING:
            raise _misuse(ValueError, "Must specify identity for parallel reduction of empty sequence.")
        return identity
    while len(leaves) > 1:
        leaves = [operation(*leaves[i : i + 2]) if i + 1 < len(leaves) else leaves[i] for i in range(0, len(leaves), 2)]
    return leaves[0]


def tree_all(tree, *, is_leaf=None):
    """Whether all leaves are true.

    Args:
      tree: A tree.
      is_leaf: Whether a part of the tree is taken as a leaf.
    """
    return all(tree_leaves(tree, is_leaf))


def all_leaves(iterable, is_leaf=None):
    """Whether each of the objects is a leaf.

    Args:
      iterable: Trees.
      is_leaf: Whether a part of the tree is taken as a leaf.
    """
    structures = (tree_structure(x, is_leaf) for x in iterable)
    return all(treedef_is_leaf(structure) and structure.num_leaves == 1 for structure in structures)


def tree_transpose(outer_treedef, inner_treedef, pytree_to_transpose):
    """A tree of trees, turned inside out.

    Args:
      outer_treedef: The structure outside.
      inner_treedef: The structure inside.
      pytree_to_transpose: A tree of the outer structure of trees of the inner one.
    """
    leaves, treedef = tree_flatten(pytree_to_transpose)
    if inner_treedef is None:
        inner_treedef = tree_structure(outer_treedef.flatten_up_to(pytree_to_transpose)[0])
    inner = inner_treedef.num_leaves
    if treedef.num_leaves != outer_treedef.num_leaves * inner:
        raise _misuse(TypeError, f"Mismatch\n{treedef}\n != \n{outer_treedef} of {inner_treedef}")
    columns = zip(*(leaves[i * inner : (i + 1) * inner] for i in range(outer_treedef.num_leaves)))
    return inner_treedef.unflatten([outer_treedef.unflatten(column) for column in columns])


def tree_broadcast(prefix_tree, full_tree, is_leaf=None):
    """The leaves of a prefix repeated for each leaf of the tree.

    Args:
      prefix_tree: A tree that is a prefix of the other.
      full_tree: The tree.
      is_leaf: Whether a part of the tree is taken as a leaf.
    """
    treedef = tree_structure(prefix_tree, is_leaf)
    parts = treedef.flatten_up_to(full_tree)
    filled = [tree_map(lambda _, leaf=leaf: leaf, part) for leaf, part in zip(tree_leaves(prefix_tree, is_leaf), parts)]
    return treedef.unflatten(filled)


def build_tree(treedef, xs):
    """The tree of a structure, whose leaves are those of xs.

    Args:
      treedef: The structure.
      xs: The children.
    """
    return treedef.unflatten(tree_leaves(xs))


def keystr(keys, *, simple=False, separator=""):
    """The path as text.

    Args:
      keys: The path.
      simple: Whether names stand without brackets.
      separator: What stands between names.
    """
    if not simple:
        return separator.join(str(key) for key in keys)

    def text(key):
        for attribute in ("key", "idx", "name"):
            if hasattr(key, attribute):
                return str(getattr(key, attribute))
        return str(key)

    return separator.join(text(key) for key in keys)


_unflatten_functions = {}  # By class. shoal.export asks.


def register_pytree_node(nodetype, flatten_func, unflatten_func, flatten_with_keys_func=None):
    """Makes objects of a class inner nodes of trees.

    Args:
      nodetype: The class.
      flatten_func: The function from a node to its children and the rest.
      unflatten_func: The function (rest, children) back.
      flatten_with_keys_func: The same with keys.
    """
    _core._register(nodetype, flatten_func, unflatten_func, flatten_with_keys_func)
    _unflatten_functions[nodetype] = unflatten_func


def register_pytree_node_class(cls):
    """The same for a class with tree_flatten and tree_unflatten.

    Args:
      cls: The class.
    """
    register_pytree_node(cls, lambda x: x.tree_flatten(), cls.tree_unflatten)
    return cls


def register_pytree_with_keys(nodetype, flatten_with_keys, unflatten_func, flatten_func=None):
    """The same, with keys for the children.

    Args:
      nodetype: The class.
      flatten_with_keys: The function from a node to pairs of keys and children, and the rest.
      unflatten_func: The function (rest, children) back.
      flatten_func: The function from a node to its children and the rest.
    """

    def flatten(x):
        pairs, data = flatten_with_keys(x)
        return [child for _, child in pairs], data

    register_pytree_node(nodetype, flatten_func or flatten, unflatten_func, flatten_with_keys)


def register_pytree_with_keys_class(cls):
    """The same for a class with tree_flatten_with_keys and tree_unflatten.

    Args:
      cls: The class.
    """
    flatten = (lambda x: x.tree_flatten()) if hasattr(cls, "tree_flatten") else None
    register_pytree_with_keys(cls, lambda x: x.tree_flatten_with_keys(), cls.tree_unflatten, flatten)
    return cls


def register_dataclass(nodetype, data_fields=None, meta_fields=None, drop_fields=()):
    """Makes objects of a dataclass inner nodes: data fields are children, meta fields part of the structure.

    Args:
      nodetype: The class.
      data_fields: The fields that are children.
      meta_fields: The fields that are static.
      drop_fields: The fields that are left out.
    """
    import dataclasses  # It takes long to import.

    if data_fields is None and meta_fields is None:
        if not dataclasses.is_dataclass(nodetype):
            raise _misuse(
                TypeError,
                "register_dataclass: data_fields and meta_fields are required when nodetype is not a "
                f"dataclass. Got nodetype={nodetype}",
            )
        fields = [f for f in dataclasses.fields(nodetype) if f.init and f.name not in drop_fields]
        meta_fields = [f.name for f in fields if f.metadata.get("static", False)]
        data_fields = [f.name for f in fields if not f.metadata.get("static", False)]
    elif data_fields is None or meta_fields is None:
        raise _misuse(
            TypeError,
            "register_dataclass: data_fields and meta_fields must both be specified when either is.",
        )
    if dataclasses.is_dataclass(nodetype):
        known = {f.name for f in dataclasses.fields(nodetype) if f.init} - set(drop_fields)
        given = {*data_fields, *meta_fields}
        if given != known:
            raise _misuse(
                ValueError,
                "data_fields and meta_fields must include all dataclass fields with init=True and only them. "
                f"Missing fields: {known - given}. Unexpected fields: {given - known}.",
            )
    data_fields, meta_fields = tuple(data_fields), tuple(meta_fields)
    twice = set(data_fields) & set(meta_fields)
    if twice:
        raise _misuse(
            ValueError,
            f"register_dataclass: a field is either data or metadata, but {sorted(twice)} is in data_fields "
            "and in meta_fields",
        )

    def data_of(x):
        return tuple(getattr(x, name) for name in meta_fields)

    def flatten(x):
        return tuple(getattr(x, name) for name in data_fields), data_of(x)

    def flatten_with_keys(x):
        return tuple((GetAttrKey(name), getattr(x, name)) for name in data_fields), data_of(x)

    def unflatten(data, children):
        return nodetype(**dict(zip(data_fields, children)), **dict(zip(meta_fields, data)))

    register_pytree_node(nodetype, flatten, unflatten, flatten_with_keys)
    return nodetype


def register_static(cls):
    """Makes objects of a class part of the structure, without leaves.

    Args:
      cls: The class.
    """
    register_pytree_node(cls, lambda x: ((), x), lambda x, _: x)
    return cls


class _Whole:
    """A partial function that functools.partial does not take apart: equal to another that is equal to its function."""

    def __init__(self, func):
        self._func = func

    def __call__(self, *args, **kwargs):
        return self._func(*args, **kwargs)

    def __eq__(self, other):
        mine, others = self._func, getattr(other, "_func", None)
        return type(other) is _Whole and _parts(mine) == _parts(others)

    def __hash__(self):
        return hash(self._func.func)

    def __repr__(self):
        return repr(self._func)


def _parts(partial):
    return partial.func, partial.args, partial.keywords


class Partial(functools.partial):
    """functools.partial as an inner node: its arguments are children, its function is part of the structure."""

    def __new__(klass, func, /, *args, **kw):
        # functools.partial would merge the two, so that what was part of the structure became a child.
        return super().__new__(klass, _Whole(func) if isinstance(func, functools.partial) else func, *args, **kw)


register_pytree_node(
    Partial,
    lambda p: ((p.args, p.keywords), p.func),
    lambda func, children: Partial(func, *children[0], **children[1]),
)


__getattr__ = _later(
    __name__,
    {_YET: "KeyEntry KeyPath default_registry flatten_one_level flatten_one_level_with_keys is_tree_node"},
)
