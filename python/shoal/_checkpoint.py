"""What derivatives keep, and what they compute again."""

import functools
import inspect
import operator
import threading
import types
from typing import NamedTuple

from shoal import _core, tree_util
from shoal._core import lax as _lax
from shoal._misuse import misuse

_Core = _lax._CheckpointPolicy


# ---- What a policy answers.


class RecomputeType:
    """The value is computed again."""

    def __repr__(self):
        return "Recompute"


class SaveableType:
    """The value is kept."""

    def __repr__(self):
        return "Saveable"


Recompute = RecomputeType()
Saveable = SaveableType()


class Offloadable(NamedTuple):
    """The value is kept in the memory `dst`, and comes from there to where it was, in `src`."""

    src: str
    dst: str


def _memory_kind(kind, what):
    try:
        return _lax._memory_kind(getattr(kind, "_memory_kind", kind))
    except (TypeError, ValueError) as error:
        raise type(error)(f"{what}: {error}") from None


# ---- What a policy is asked.


class Primitive:
    """An operation, by the name that JAX has for it. One name is one object."""

    _known = {}

    def __new__(cls, name):
        if name not in cls._known:
            cls._known[name] = super().__new__(cls)
            cls._known[name].name = name
        return cls._known[name]

    def __repr__(self):
        return self.name


# Where JAX's names are others.
_NAMES = {
    "checkpoint_name": "name",
    "multiply": "mul",
    "divide": "div",
    "subtract": "sub",
    "negative": "neg",
    "maximum": "max",
    "minimum": "min",
    "power": "pow",
    "remainder": "rem",
    "convert": "convert_element_type",
    "convolution": "conv_general_dilated",
    "select": "select_n",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "equal": "eq",
    "not_equal": "ne",
    "all_reduce": "psum",
    "collective_permute": "ppermute",
}



def jax_name_of(op):
    return _NAMES.get(op, op)


name_p = Primitive("name")


def _params(asked):
    """Those of JAX for names and products; of others the lists of numbers that they have here."""
    if asked.name or asked.op == "checkpoint_name":
        return {"name": asked.name}
    dims = asked.dims
    if asked.op == "dot_general":
        contract, batch = ((dims[f"lhs_{kind}"], dims[f"rhs_{kind}"]) for kind in ("contract", "batch"))
        return {"dimension_numbers": (contract, batch)}
    return dims


# ---- Policies.

_asking = threading.local()  # `of`: what the function that is a policy is being asked.


class _Policy:
    """A policy that the library knows. Functions that are policies may call it, as those of JAX."""

    def __init__(self, text, core):
        self._text, self._core = text, core

    def __repr__(self):
        return f"jax.checkpoint_policies.{self._text}"

    def __call__(self, prim, *avals, **params):
        asked = getattr(_asking, "of", None)
        if asked is None:
            raise misuse(TypeError, f"{self!r} is asked by checkpoint, and by functions that are policies, alone")
        answer = self._core.decide(asked)
        return Offloadable("device", answer) if answer else answer is not None


def _answered(function):
    """The function as the library asks it: None, or the memory in which a value is kept, "" for where it is."""

    def ask(asked):
        outer, _asking.of = getattr(_asking, "of", None), asked
        try:
            answer = function(Primitive(jax_name_of(asked.op)), *asked.operands, **_params(asked))
        finally:
            _asking.of = outer
        if isinstance(answer, (bool, SaveableType, RecomputeType)):
            return "" if answer is True or answer is Saveable else None
        if not isinstance(answer, Offloadable):
            raise misuse(
                TypeError,
                "checkpoint: a policy must return a bool, or Recompute, Saveable or Offloadable(src, dst) of "
                f"ad_checkpoint, got {answer!r} of type {type(answer)}"
            )
        _memory_kind(answer.src, "checkpoint: src of Offloadable")
        return _memory_kind(answer.dst, "checkpoint: dst of Offloadable")

    return ask


def _core_policy(policy):
    if policy is None:
        return _Core()
    if isinstance(policy, _Policy):
        return policy._core
    if not callable(policy):
        raise misuse(
            TypeError,
            f"checkpoint: policy must be one of checkpoint_policies or a function, got {policy!r} of type {type(policy)}"
        )
    return _Core.of_function(_answered(policy))


def _names(function, names):
    for name in names:
        if not isinstance(name, str):
            raise misuse(TypeError, f"{function}: names must be str, got {name!r} of type {type(name)}")
    return list(names)


def _of_names(function):
    def policy(*names):
        names = _names(function, names)
        return _Policy(f"{function}({', '.join(map(repr, names))})", getattr(_Core, function)(names))

    policy.__name__ = policy.__qualname__ = function
    return policy


save_only_these_names = _of_names("save_only_these_names")
save_only_these_names.__doc__ = "The policy that keeps what has one of these names."
save_any_names_but_these = _of_names("save_any_names_but_these")
save_any_names_but_these.__doc__ = "The policy that keeps what has a name that is none of these."
save_anything_except_these_names = _of_names("save_anything_except_these_names")
save_anything_except_these_names.__doc__ = "The policy that keeps everything but what has one of these names."


def save_and_offload_only_these_names(
    *, names_which_can_be_saved, names_which_can_be_offloaded, offload_src, offload_dst
):
    """The policy that keeps what has one of the first names, and in the memory `offload_dst` what has one of the second.
    When it is used it comes to where it was from there, which is `offload_src`."""
    function = "save_and_offload_only_these_names"
    saved, offloaded = (_names(function, names) for names in (names_which_can_be_saved, names_which_can_be_offloaded))
    _memory_kind(offload_src, f"{function}: offload_src")
    memory = _memory_kind(offload_dst, f"{function}: offload_dst")
    return _Policy(f"{function}(...)", _Core.save_and_offload_only_these_names(saved, offloaded, memory))


def offload_dot_with_no_batch_dims(offload_src, offload_dst):
    """The policy that keeps what products without batch dimensions give, in the memory `offload_dst`.

    Args:
      offload_src: The memory where the values are: "device".
      offload_dst: The memory in which they wait: "pinned_host" or "unpinned_host".
    """
    function = "offload_dot_with_no_batch_dims"
    _memory_kind(offload_src, f"{function}: offload_src")
    memory = _memory_kind(offload_dst, f"{function}: offload_dst")
    return _Policy(f"{function}({offload_src!r}, {offload_dst!r})", _Core.offload_dot_with_no_batch_dims(memory))


def save_from_both_policies(policy_1, policy_2):
    """The policy that keeps what either of two keeps. Both may be functions, which answer True or False.

    Args:
      policy_1: A policy.
      policy_2: Another one.
    """
    if isinstance(policy_1, _Policy) and isinstance(policy_2, _Policy):
        return _Policy(
            f"save_from_both_policies({policy_1!r}, {policy_2!r})",
            _Core.save_from_both_policies(policy_1._core, policy_2._core),
        )
    for policy in (policy_1, policy_2):
        _core_policy(policy)

    def policy(prim, *avals, **params):
        answers = [one(prim, *avals, **params) for one in (policy_1, policy_2)]
        if not all(isinstance(answer, bool) for answer in answers):
            raise misuse(
                ValueError,
                f"save_from_both_policies: both policies must return a bool, got {answers[0]!r} and {answers[1]!r}; "
                "write one function that asks both"
            )
        return any(answers)

    return policy


def budget(bytes):
    """The policy that keeps what saves most work, as far as it takes no more than `bytes` together: those values for
    which least has to be computed again. Bytes are those of whole arrays, inside shard_map of a shard, and of a loop
    those of the stacks; arguments do not count. JAX has no such policy.

    Args:
      bytes: The number of bytes.

    Raises:
      ValueError: For a negative number.
    """
    return _Policy(f"budget({bytes})", _Core.budget(operator.index(bytes)))


_dots = _Policy("dots_saveable", _Core.dots_saveable())
_unbatched = _Policy("dots_with_no_batch_dims_saveable", _Core.dots_with_no_batch_dims_saveable())
checkpoint_policies = types.SimpleNamespace(
    everything_saveable=_Policy("everything_saveable", _Core.everything_saveable()),
    nothing_saveable=_Policy("nothing_saveable", _Core()),
    dots_saveable=_dots,
    budget=budget,
    checkpoint_dots=_dots,
    dots_with_no_batch_dims_saveable=_unbatched,
    checkpoint_dots_with_no_batch_dims=_unbatched,
    offload_dot_with_no_batch_dims=offload_dot_with_no_batch_dims,
    save_anything_except_these_names=save_anything_except_these_names,
    save_any_names_but_these=save_any_names_but_these,
    save_only_these_names=save_only_these_names,
    save_from_both_policies=save_from_both_policies,
    save_and_offload_only_these_names=save_and_offload_only_these_names,
)


# ---- Checkpoints.


def _check_prevent_cse(prevent_cse, count=None):
    if isinstance(prevent_cse, bool):
        return
    if not isinstance(prevent_cse, (tuple, list)) or not all(
        isinstance(leaf, bool) for leaf in tree_util.tree_leaves(prevent_cse)
    ):
        raise misuse(TypeError, f"checkpoint: prevent_cse must be a bool or a tuple of bools, got {prevent_cse!r}")


def _static_positions(static_argnums, count):
    numbers = (static_argnums,) if type(static_argnums) is int else static_argnums
    if not (type(numbers) is tuple and all(type(number) is int for number in numbers)):
        raise misuse(TypeError, f"checkpoint: static_argnums must be an int or a tuple of ints, got {static_argnums!r}")
    for number in numbers:
        if not -count <= number < count:
            raise misuse(
                ValueError,
                f"checkpoint: static_argnums has {number}, but the function is called with {count} arguments"
            )
    return {number % count for number in numbers}


def checkpoint(fun, *, prevent_cse=True, policy=None, static_argnums=(), static_argnames=()):
    """The function, of which a derivative keeps the arguments and what `policy` says, and computes what else it needs
    again. `policy` is one of checkpoint_policies, or a function(primitive, *avals, **params) that says so of each
    operation when the checkpoint is traced. It gets the name of the operation as JAX has it, the types of its operands
    as ShapeDtypeStruct, `name` of names, `dimension_numbers` of products, and of other operations their attributes that
    are lists of numbers.

    Arguments at `static_argnums` and of `static_argnames` are passed as they are. `prevent_cse` is accepted, for each
    argument, too: what is computed again is never merged with what was computed before.

    Args:
      fun: The function.
      prevent_cse: Makes no difference.
      policy: What is kept beside the arguments; default: nothing.
      static_argnums: Positions of arguments that are passed as they are.
      static_argnames: Names of such arguments.

    Returns:
      A function like fun.

    Raises:
      TypeError: If fun is no function, or the policy is neither one of checkpoint_policies nor a function.

    >>> print(jax.grad(jax.checkpoint(lambda x: jnp.sin(jnp.sin(x))))(0.0))
    1.0
    """
    if not callable(fun):
        raise misuse(TypeError, f"checkpoint: needs a function, got {type(fun)}")
    _check_prevent_cse(prevent_cse)
    core = _core_policy(policy)
    names = {static_argnames} if isinstance(static_argnames, str) else set(static_argnames)

    @functools.wraps(fun)
    def call(*args, **kwargs):
        fixed = _static_positions(static_argnums, len(args))
        given = tuple(None if i in fixed else argument for i, argument in enumerate(args))
        passed = {name: value for name, value in kwargs.items() if name in names}
        named = {name: value for name, value in kwargs.items() if name not in names}

        def called(*arguments):
            arguments, traced = (arguments[:-1], arguments[-1]) if named else (arguments, {})
            chosen = [args[i] if i in fixed else argument for i, argument in enumerate(arguments)]
            return fun(*chosen, **passed, **traced)

        return _lax._checkpoint(called, (*given, named) if named else given, core)

    return call


remat = checkpoint


def checkpoint_name(x, name):
    """x, an array or a tree of them, with a name for policies. It names the value itself: who else uses that uses what
    is kept.

    Args:
      x: An array, or a tree of them.
      name: The name.

    Returns:
      A tree like x.
    """
    if not isinstance(name, str):
        raise misuse(TypeError, f"checkpoint_name: name must be a str, got {name!r} of type {type(name)}")
    return _core.tree_map(lambda leaf: _lax._checkpoint_name(leaf, name), x)


# ---- What is kept.


def _argument_names(fun, args, kwargs):
    """For each leaf the parameter it is given for, and where in that it is."""
    try:
        parameters = inspect.signature(fun).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        parameters = {}
    places = []
    for name, value in parameters.items():
        kind = inspect.signature(fun).parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            places += [f"{name}[{i}]" for i in range(len(value))]
        elif kind is not inspect.Parameter.VAR_KEYWORD and name not in kwargs:
            places.append(name)
    names = []
    for path, _ in tree_util.tree_flatten_with_path((args, kwargs))[0]:
        which, key, *rest = path
        start = key.key if which.idx == 1 else places[key.idx] if key.idx < len(places) else f"args[{key.idx}]"
        names.append(start + tree_util.keystr(tuple(rest)))
    return names


def saved_residuals(f, *args, **kwargs):
    """What the derivative of f in reverse keeps at arguments like these, which may be ShapeDtypeStructs: a list of
    objects with aval, memory_kind, nbytes, argument, op, name and line. f is traced, and nothing is computed.

    Args:
      f: The function.
      args: Its arguments.
      kwargs: Its keyword arguments.
    """

    def called(arguments, named):
        return f(*arguments, **named)

    return _lax._saved_residuals(called, (args, kwargs), _argument_names(f, args, kwargs))


def print_saved_residuals(f, *args, **kwargs):
    """Prints what saved_residuals gives, a line for each.

    Args:
      f: The function.
      args: Its arguments.
      kwargs: Its keyword arguments.
    """
    for residual in saved_residuals(f, *args, **kwargs):
        print(residual)
