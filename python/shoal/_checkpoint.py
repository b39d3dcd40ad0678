"""What derivatives keep, and what they compute again."""

import functools
import types

from shoal._core import lax as _lax


class _Policy:
    """Which values a derivative keeps; None for all."""

    def __init__(self, name, saves):
        self._name, self._saves = name, saves

    def __repr__(self):
        return f"jax.checkpoint_policies.{self._name}"


_PRODUCTS, _UNBATCHED = ["dot_general"], ["unbatched dot_general"]
checkpoint_policies = types.SimpleNamespace(
    **{
        name: _Policy(name, saves)
        for name, saves in {
            "everything_saveable": None,
            "nothing_saveable": [],
            "dots_saveable": _PRODUCTS,
            "checkpoint_dots": _PRODUCTS,
            "dots_with_no_batch_dims_saveable": _UNBATCHED,
            "checkpoint_dots_with_no_batch_dims": _UNBATCHED,
        }.items()
    }
)


def checkpoint(fun, *, prevent_cse=True, policy=None, static_argnums=()):
    """The function, of which a derivative keeps the arguments and what `policy` says, one of checkpoint_policies, and
    computes what else it needs again. Arguments at `static_argnums` are passed as they are. `prevent_cse` is accepted:
    what is computed again is never merged with what was computed before."""
    if not callable(fun):
        raise TypeError(f"checkpoint: needs a function, got {type(fun)}")
    if policy is not None and not isinstance(policy, _Policy):
        raise NotImplementedError(f"checkpoint: policy must be one of checkpoint_policies, got {policy!r}")
    saves = [] if policy is None else policy._saves
    statics = static_argnums if isinstance(static_argnums, (tuple, list)) else (static_argnums,)

    @functools.wraps(fun)
    def call(*args, **kwargs):
        if saves is None:
            return fun(*args, **kwargs)
        fixed = {position % len(args) for position in statics}
        given = tuple(None if i in fixed else argument for i, argument in enumerate(args))

        def called(*arguments):
            arguments, named = (arguments[:-1], arguments[-1]) if kwargs else (arguments, {})
            chosen = [args[i] if i in fixed else argument for i, argument in enumerate(arguments)]
            return fun(*chosen, **named)

        return _lax._checkpoint(called, (*given, kwargs) if kwargs else given, saves)

    return call


remat = checkpoint
