"""Functions whose derivatives the user gives, and what their rules are made of: jax.custom_derivatives."""

from shoal import _core
from shoal._custom_rules import (
    CustomVJPPrimal,
    SymbolicZero,
    closure_convert,
    custom_gradient,
    custom_jvp,
    custom_vjp,
    linear_call,
    zero_from_primal,
)


def custom_vjp_primal_tree_values(tree):
    """The values of the arguments of a forward rule with symbolic zeros.

    Args:
      tree: A tree.
    """
    return _core.tree_map(lambda leaf: leaf.value if isinstance(leaf, CustomVJPPrimal) else leaf, tree)
