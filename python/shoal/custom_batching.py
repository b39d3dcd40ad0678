"""Functions of which the user says what they are in all places at once: jax.custom_batching."""

from shoal import _core
from shoal._core import lax as _lax
from shoal._custom_rules import _name, _WithRules
from shoal._misuse import misuse as _misuse


class custom_vmap(_WithRules):
    """fun, which under vmap is what the rule of def_vmap says: rule(axis_size, in_batched, *args) gets for each argument
    the tree of what has the dimension, which is first, and returns the pair of what fun returns, in all places, and of
    the same tree for that."""

    _kind = "custom_vmap"
    vmap_rule = None

    def __init__(self, fun):
        super().__init__(fun)

    def def_vmap(self, vmap_rule):
        """The rule."""
        self.vmap_rule = vmap_rule
        return vmap_rule

    def __call__(self, *args, **kwargs):
        return self._call(self._arguments(args, kwargs), self._run)

    def _run(self, leaves, function, arguments, tree, nondiff, flat):
        if self.vmap_rule is None:
            raise _misuse(
                AttributeError,
                f"No batching rule defined for custom_vmap function {_name(self.fun)} using def_vmap.",
            )

        def rule(size, mapped, given):
            made = self.vmap_rule(size, list(tree.unflatten(mapped)), *arguments(given))
            if not (isinstance(made, (tuple, list)) and len(made) == 2):
                raise _misuse(
                    TypeError,
                    f"custom_vmap: the rule must return a pair of the result and of what has the dimension, got {made}"
                )
            values = flat(made[0])
            flags, own = _core.tree_flatten(made[1])
            if own != _core.tree_structure(made[0]):
                raise _misuse(
                    ValueError,
                    f"custom_vmap: what the rule says of its results has the structure {own}, and should have theirs, "
                    f"{_core.tree_structure(made[0])}"
                )
            return values, flags

        return _lax._custom_vmap(leaves, function, rule)


class _Sequential(custom_vmap):
    def _run(self, leaves, function, arguments, tree, nondiff, flat):
        return _lax._sequential_vmap(leaves, function)


def sequential_vmap(f):
    """f, which under vmap is done place by place, in a loop.

    Args:
      f: The function.
    """
    return _Sequential(f)
