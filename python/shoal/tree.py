"""The functions of shoal.tree_util under short names."""

from shoal._core import (
    tree_flatten as flatten,
    tree_leaves as leaves,
    tree_map as map,
    tree_structure as structure,
    tree_unflatten as unflatten,
)
from shoal.tree_util import (
    tree_all as all,
    tree_broadcast as broadcast,
    tree_flatten_with_path as flatten_with_path,
    tree_leaves_with_path as leaves_with_path,
    tree_map_with_path as map_with_path,
    tree_reduce as reduce,
    tree_reduce_associative as reduce_associative,
    tree_transpose as transpose,
)


def static(**kwargs):
    """A field of a dataclass that is part of the structure: dataclasses.field with metadata that says so.

    Args:
      kwargs: Options of dataclasses.field.
    """
    import dataclasses  # It takes long to import.

    metadata = {**(kwargs.pop("metadata", None) or {}), "static": True}
    return dataclasses.field(**kwargs, metadata=metadata)
