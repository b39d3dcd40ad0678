"""jit, pmap and shard_map with their keywords, and what surrounds them."""

import contextlib
import enum
import functools
import sys

from shoal import _core
from shoal._config import _option, enable_x64
from shoal._misuse import misuse


def _name_of(fun):
    if isinstance(fun, functools.partial):
        return _name_of(fun.func)
    return getattr(fun, "__name__", type(fun).__name__)


def _like(made, fun):
    """The function with the name, the documentation and the signature of what it wraps."""
    for attribute in ("__name__", "__qualname__", "__doc__", "__module__"):
        with contextlib.suppress(AttributeError, TypeError):
            setattr(made, attribute, getattr(fun, attribute))
    made.__wrapped__ = fun
    return made


def _check_callable(fun, what):
    if isinstance(fun, staticmethod):
        raise misuse(
            TypeError,
            f"{what}: staticmethod arguments are not supported, got {fun!r}; decorate with it outside",
        )
    if not callable(fun):
        raise misuse(TypeError, f"Expected a callable value, got {fun!r} as the function of {what}")
    code = getattr(fun, "__code__", None)
    if code is not None and code.co_flags & _GENERATOR:
        raise misuse(TypeError, f"{what}: Expected a function, got a generator function: {fun!r}")


_GENERATOR = 0x20 | 0x80 | 0x200  # Of code: inspect.CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR.


def _signature(fun):
    import inspect  # It takes long to import, and most programs do not need it.

    try:
        return inspect.signature(fun)
    except (TypeError, ValueError):
        return None


def _positions(fun):
    """Names of the parameters that can be passed by position, or None where that is not known."""
    signature = _signature(fun)
    if signature is None:
        return None
    return [
        name
        for name, parameter in signature.parameters.items()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]


def _has_varargs(fun):
    signature = _signature(fun)
    return signature is None or any(p.kind is p.VAR_POSITIONAL for p in signature.parameters.values())


def _numbers(value, what):
    if value is None:
        return []
    if isinstance(value, (str, bytes)):
        raise misuse(TypeError, f"{what} must be an int or a sequence of ints, got {value!r}")
    try:
        return [value.__index__()] if hasattr(value, "__index__") else [v.__index__() for v in value]
    except (AttributeError, TypeError):
        raise misuse(TypeError, f"{what} must be an int or a sequence of ints, got {value!r}") from None


def _strings(value, what):
    if value is None:
        return []
    names = [value] if isinstance(value, str) else list(value)
    for name in names:
        if not isinstance(name, str):
            raise misuse(TypeError, f"{what} must be a str or a sequence of strs, got {value!r}")
    return names


def _resolve(fun, argnums, argnames, what):
    """Positions, none negative, and names of the same parameters."""
    nums, names = _numbers(argnums, what + "_argnums"), _strings(argnames, what + "_argnames")
    if not nums and not names:
        return [], []
    positions = _positions(fun)
    if positions is None:
        return nums, names
    signature = _signature(fun)
    takes_more = _has_varargs(fun)
    count = len(positions)
    by_position = {n for n, p in signature.parameters.items() if p.kind.name in ("POSITIONAL_ONLY", "VAR_POSITIONAL")}
    if by_position & set(names):
        raise misuse(
            ValueError,
            f"Jitted function has invalid argnames {by_position & set(names)} in {what}_argnames. These are positional-only"
        )
    resolved = []
    for n in nums:
        if not takes_more and not -count <= n < count:
            raise misuse(
                ValueError,
                f"Jitted function has {what}_argnums={tuple(nums)}, but only accepts {count} positional arguments."
            )
        if n >= -count:  # What is counted from the end of all that *args could be is none of those passed.
            resolved.append(n + count if n < 0 else n)
    keywords = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
    for name in names:
        if name not in signature.parameters and not keywords:
            raise misuse(
                ValueError,
                f"Jitted function has invalid argnames {{{name!r}}} in {what}_argnames. Function does not take these args."
            )
        if argnums is None and name in positions:
            resolved.append(positions.index(name))
    if argnames is None:
        names = [positions[n] for n in resolved if n < count]
    return sorted(set(resolved)), names


def _check_disjoint(statics, donated):
    if set(statics) & set(donated):
        raise misuse(
            ValueError,
            f"static_argnums and donate_argnums cannot intersect, static_argnums={tuple(statics)} and "
            f"donate_argnums={tuple(donated)}",
        )


class Inline(enum.Enum):
    """When a compiler puts a jitted function's operations into those of its caller. Here it always does."""

    JAX_EARLY = "jax_early"
    JAX_LATE = "jax_late"
    XLA_EARLY = "xla_early"
    XLA_LATE = "xla_late"
    AUTO = "auto"


def _check_inline(inline):
    if not isinstance(inline, (bool, Inline)):
        raise misuse(
            ValueError,
            f"Invalid inline option: {inline!r}; it is True, False or one of {[str(i) for i in Inline]}",
        )


def jit(
    fun=None,
    /,
    *,
    in_shardings=None,
    out_shardings=None,
    static_argnums=None,
    static_argnames=None,
    donate_argnums=None,
    donate_argnames=None,
    keep_unused=False,
    device=None,
    backend=None,
    inline=False,
    compiler_options=None,
    memory_budget=None,
):
    """The function, traced once for each kind of arguments, compiled, and run from then on. A call takes at most
    `memory_budget` bytes of this process beside its arguments: values are computed again instead of being kept, to the
    same bits. It raises MemoryError if that is not enough, with the least that was found.

    Args:
      fun: The function, of trees of arrays and of static arguments. It must depend on its arguments alone, and on
        arrays that it captures.
      in_shardings: How arguments lie: one sharding for all, or a tree of them that is a prefix of the arguments'; None:
        as they are. Static arguments have no entry.
      out_shardings: How results lie, likewise; None: as the compiler chooses.
      static_argnums: Positions of arguments that are passed as they are: fun is traced again for each of their values,
        which need a hash.
      static_argnames: Their names. Either follows from the other where fun has a signature.
      donate_argnums: Positions of arguments that the caller gives away, whose memory results may take.
      donate_argnames: Their names.
      keep_unused: Makes no difference: arguments that fun does not use cost nothing.
      device: The device to run on; deprecated, as in JAX: move the arguments.
      backend: As device, by its platform.
      inline: Makes no difference: operations of fun always become part of those of its caller.
      compiler_options: None or {}: there are none.
      memory_budget: The most bytes that a call may take beside its arguments.

    Returns:
      A function like fun. Its methods lower, trace and eval_shape take the same arguments, and clear_cache discards
      what was compiled.

    Raises:
      ValueError: For positions or names that fun does not have, and for arguments that are both static and donated.
      TypeError: If fun is no function, or a generator.
      MemoryError: If a call cannot fit into memory_budget.

    >>> print(jax.jit(lambda x: x * 2 + 1)(jnp.arange(3)))
    [1 3 5]
    """
    if fun is None:
        options = {name: value for name, value in locals().items() if name != "fun"}
        return lambda fun: jit(fun, **options)
    _check_callable(fun, "jit")
    statics, static_names = _resolve(fun, static_argnums, static_argnames, "static")
    donated, donated_names = _resolve(fun, donate_argnums, donate_argnames, "donate")
    _check_disjoint(statics, donated)
    _check_inline(inline)
    if device is not None or backend is not None:
        if device is not None and backend is not None:
            raise misuse(
                ValueError,
                f"can't specify both a device and a backend for jit, got device={device} and "
                f"backend={backend!r}",
            )
        import warnings

        warnings.warn("backend and device argument on jit is deprecated. You can use device_put on the inputs to the "
                      "jitted function to get the same behavior.", DeprecationWarning, stacklevel=2)
        if device is None:
            device = _core.local_devices(backend=backend)[0]
        if in_shardings is not None or out_shardings is not None:
            raise misuse(
                ValueError,
                "If backend or device is specified on jit, then in_shardings should not be specified.",
            )
        out_shardings = _core.SingleDeviceSharding(device)
    if isinstance(in_shardings, list):
        in_shardings = tuple(in_shardings)
    made = _core._jit(
        fun, _name_of(fun), in_shardings, out_shardings, statics, static_names, donated, donated_names,
        compiler_options, memory_budget,
    )
    del keep_unused  # Arguments that the function does not use are passed, and cost nothing.
    return _like(made if device is None else _on_device(made, device, statics, static_names), fun)


def _on_device(made, device, statics, static_names):
    """A jitted function whose arguments are moved to a device, wherever they lie."""

    def there(x):
        """A leaf on the device; of a type, the type of such an array."""
        typed = _typed(x)
        if not isinstance(typed, _core.ShapeDtypeStruct):
            return _core.device_put(x, device)
        sharding = _core.SingleDeviceSharding(device)
        return _core.ShapeDtypeStruct(typed.shape, typed.dtype, sharding=sharding, weak_type=typed.weak_type)

    def moved(function):
        def call(*args, **kwargs):
            return function(
                *(x if i in statics else _core.tree_map(there, x) for i, x in enumerate(args)),
                **{name: x if name in static_names else _core.tree_map(there, x) for name, x in kwargs.items()},
            )

        return call

    call = moved(made)
    for name in ("lower", "trace", "eval_shape"):
        setattr(call, name, moved(getattr(made, name)))
    call.clear_cache, call._cache_size = made.clear_cache, made._cache_size
    return call


def pmap(
    fun=None,
    axis_name=None,
    *,
    in_axes=0,
    out_axes=0,
    static_broadcasted_argnums=(),
    devices=None,
    backend=None,
    axis_size=None,
    donate_argnums=(),
):
    """The function run on several devices, each with its own slice of the arguments. pmaps nest.

    Args:
      fun: The function of one device's slices.
      axis_name: The name of the devices for collectives.
      in_axes: The dimension along which each argument is cut into slices: an int for all, a tuple with an entry for
        each, or trees of these; None: every device gets the whole argument.
      out_axes: Where the results are stacked, likewise; None: they are the same on all devices.
      static_broadcasted_argnums: Positions of arguments that are passed as they are.
      devices: The devices; default: those of the job in order of id. Only for an outermost pmap.
      backend: "cpu" or None.
      axis_size: The number of slices; needed if no argument is mapped.
      donate_argnums: Positions of arguments that the caller gives away, as of jit.

    Returns:
      The function of all slices. In a job of several processes each passes the slices of its own devices.

    Raises:
      ValueError: By the call: if mapped arguments disagree in size, or there are fewer devices than slices.

    >>> print(jax.pmap(lambda x: x * 2)(jnp.ones((1, 3))))
    [[2. 2. 2.]]
    """
    if fun is None:
        options = {name: value for name, value in locals().items() if name != "fun"}
        return functools.partial(pmap, **options)
    _check_callable(fun, "pmap")
    _core._check_backend(backend)
    if in_axes is None or isinstance(in_axes, bool):
        raise misuse(TypeError, f"pmap in_axes must be an int, a tuple or a list, got {in_axes}")
    statics, _ = _resolve(fun, static_broadcasted_argnums, None, "static")
    donated, _ = _resolve(fun, donate_argnums, None, "donate")
    _check_disjoint(statics, donated)
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if statics and isinstance(in_axes, tuple):
        in_axes = tuple(axis for i, axis in enumerate(in_axes) if i not in statics)
    name = "" if axis_name is None else str(axis_name)
    made = _core._pmap(fun, _name_of(fun), name, in_axes, out_axes, statics, axis_size, devices, donated)
    return _like(made, fun)


class Infer:
    """In place of in_specs: arguments are split as their types say."""

    def __repr__(self):
        return "jax.sharding.Infer"


Infer = Infer()


def shard_map(f=None, /, *, out_specs, in_specs=Infer, mesh=None, axis_names=frozenset(), check_vma=True):
    """The function run on every device of a mesh, on its own shards.

    Args:
      f: The function of one device's shards. lax.psum and other collectives in it name axes of the mesh.
      out_specs: How results are put together: a PartitionSpec for all, or a tree of them that is a prefix of the
        results'. An axis that is not named must not vary in the result.
      in_specs: How arguments are split, likewise; None for an argument that is passed whole. Default: as their types
        say.
      mesh: The mesh; default: that of jax.set_mesh.
      axis_names: The axes that become manual; default: all of the mesh's.
      check_vma: Whether results are checked to be equal along the axes that out_specs does not name.

    Returns:
      The function of whole arrays. It may be called outside jit, where it runs at once, and inside.

    Raises:
      ValueError: By the call: for specs that are no prefix of the trees, name axes that the mesh has not, or claim what
        does not hold; IndivisibleError for arrays that do not divide.

    >>> mesh = jax.make_mesh((1,), ("x",))
    >>> total = jax.shard_map(lambda x: lax.psum(x.sum(), "x"), mesh=mesh, in_specs=P("x"), out_specs=P())
    >>> print(total(jnp.arange(4)))
    6
    """
    if f is None:
        return functools.partial(
            shard_map, out_specs=out_specs, in_specs=in_specs, mesh=mesh, axis_names=axis_names, check_vma=check_vma
        )
    _check_callable(f, "shard_map")
    if isinstance(in_specs, list):
        in_specs = tuple(in_specs)
    if isinstance(in_specs, tuple) and any(spec is None for spec in in_specs):
        return _like(_with_untouched(f, in_specs, out_specs, mesh, axis_names, check_vma), f)
    inferred = in_specs is Infer
    made = _core._shard_map(
        f, _name_of(f), mesh, None if inferred else in_specs, out_specs, sorted(axis_names), check_vma, inferred
    )
    return _like(made, f)


def _has_arrays_only(tree):
    return all(hasattr(leaf, "dtype") and hasattr(leaf, "shape") for leaf in _core.tree_leaves(tree))


def _with_untouched(f, in_specs, out_specs, mesh, axis_names, check_vma):
    """shard_map for a function some of whose arguments have no spec: arrays are whole, all else is passed as it is."""

    def call(*args):
        if len(args) != len(in_specs):
            raise misuse(
                ValueError,
                f"shard_map: in_specs {in_specs} is for {len(in_specs)} arguments, but {len(args)} are passed",
            )
        split = [i for i, spec in enumerate(in_specs) if spec is not None or _has_arrays_only(args[i])]

        def inner(*shards):
            given = list(args)
            for i, shard in zip(split, shards):
                given[i] = shard
            return f(*given)

        specs = tuple(_core.PartitionSpec() if in_specs[i] is None else in_specs[i] for i in split)
        made = shard_map(_like(inner, f), in_specs=specs, out_specs=out_specs, mesh=mesh, axis_names=axis_names,
                         check_vma=check_vma)
        return made(*(args[i] for i in split))

    return call


def smap(f=None, /, *, in_axes=Infer, out_axes, axis_name, mesh=None):
    """shard_map over one axis, said by the dimension of each array that the axis splits.

    Args:
      f: The function of one device's shards.
      in_axes: The dimension of each argument that the axis splits: an int, None, or a tree of these; default: as their
        types say.
      out_axes: Where results are put together, likewise; None: they are the same on all devices.
      axis_name: The axis of the mesh.
      mesh: The mesh; default: that of jax.set_mesh.

    Returns:
      The function of whole arrays.

    Raises:
      ValueError: For a negative dimension, and as shard_map.
    """
    if f is None:
        return functools.partial(smap, in_axes=in_axes, out_axes=out_axes, axis_name=axis_name, mesh=mesh)

    def spec(axis):
        if axis is None:
            return _core.PartitionSpec()
        if axis < 0:
            raise misuse(ValueError, f"smap: a dimension must not be negative, got {axis}")
        return _core.PartitionSpec(*([None] * axis), axis_name)

    def specs(axes):
        if axes is Infer:
            return axes
        if axes is None or isinstance(axes, int):
            return spec(axes)
        return _core.tree_map(spec, axes, is_leaf=lambda axis: axis is None)

    return shard_map(f, in_specs=specs(in_axes), out_specs=specs(out_axes), mesh=mesh, axis_names={axis_name})


def eval_shape(fun, *args, **kwargs):
    """The types of what the function would return for arguments like these. Nothing is computed.

    Args:
      fun: The function.
      args: Its arguments; whatever has a shape and a dtype stands for an array.
      kwargs: Its keyword arguments, likewise.

    Returns:
      A tree like the result, of ShapeDtypeStructs.

    >>> print(jax.eval_shape(jnp.dot, jnp.ones((2, 3)), jnp.ones(3)))
    ShapeDtypeStruct(shape=(2,), dtype=float32)
    """
    _check_callable(fun, "eval_shape")
    args, kwargs = _core.tree_map(_typed, (args, kwargs))
    cached = fun if isinstance(fun, _core._CachedFunction) else _core._jit(fun, _name_of(fun), None, None, [], [], [])
    return cached.eval_shape(*args, **kwargs)


def _typed(x):
    """A leaf of arguments of which only the type matters: whatever has a shape and a dtype stands for it."""
    if isinstance(x, (_core.Array, _core.ShapeDtypeStruct)) or not (hasattr(x, "shape") and hasattr(x, "dtype")):
        return x
    is_numpy = type(x).__module__.startswith("numpy")  # Which needs no import of NumPy.
    return x if is_numpy else _core.ShapeDtypeStruct(x.shape, x.dtype)


def typeof(x):
    """The type of an array as users see it, such as float32[4,8].

    Args:
      x: An array, a number, or a ShapeDtypeStruct.

    Returns:
      Its type, with shape, dtype, weak_type and sharding.

    >>> print(jax.typeof(jnp.ones((2, 3))))
    float32[2,3]
    """
    from shoal.core import ShapedArray

    if isinstance(x, _core.ShapeDtypeStruct):
        return ShapedArray(x.shape, x.dtype, x.weak_type)
    return ShapedArray._of(_core._array(x, copy=False))


def effects_barrier():
    """Returns when all that was launched has run, and its callbacks were called."""
    _core._effects_barrier()


def default_backend():
    """The platform of the devices."""
    return "cpu"


def process_indices(backend=None):
    """The numbers of all processes of the job."""
    return list(range(_core.process_count()))


def live_arrays(platform=None):
    """The arrays that this program still refers to.

    Args:
      platform: Makes no difference.
    """
    import gc

    return [x for x in gc.get_objects() if type(x) is _core.Array]


def default_device(device):
    """In a `with` block new arrays lie on this device, and what is computed from arrays that nobody placed.

    Args:
      device: The device in the block.
    """
    return _option("jax_default_device", device)


def disable_jit(disable=True):
    """In a `with` block jitted functions are called as they are, line by line.

    Args:
      disable: Whether functions are called as they are in the block.
    """
    return _option("jax_disable_jit", disable)


@contextlib.contextmanager
def ensure_compile_time_eval():
    """What is computed from values that are known is computed at once, as it is in Shoal everywhere outside traces."""
    yield


def _context(name):
    def context(new_val=True):
        return _option(name, new_val)

    context.__name__ = context.__qualname__ = name.removeprefix("jax_")
    context.__doc__ = (
        f"The option {name} has another value in a `with` block.\n\nArgs:\n  new_val: The value in the block."
    )
    return context


check_tracer_leaks = _context("jax_check_tracer_leaks")
debug_infs = _context("jax_debug_infs")
debug_key_reuse = _context("jax_debug_key_reuse")
debug_nans = _context("jax_debug_nans")
default_matmul_precision = _context("jax_default_matmul_precision")
default_prng_impl = _context("jax_default_prng_impl")
enable_custom_prng = _context("jax_enable_custom_prng")
enable_checks = _context("jax_enable_checks")
explain_cache_misses = _context("jax_explain_cache_misses")
legacy_prng_key = _context("jax_legacy_prng_key")
log_compiles = _context("jax_log_compiles")
numpy_dtype_promotion = _context("jax_numpy_dtype_promotion")
numpy_rank_promotion = _context("jax_numpy_rank_promotion")
threefry_partitionable = _context("jax_threefry_partitionable")
transfer_guard = _context("jax_transfer_guard")
transfer_guard_device_to_device = _context("jax_transfer_guard_device_to_device")
transfer_guard_device_to_host = _context("jax_transfer_guard_device_to_host")
transfer_guard_host_to_device = _context("jax_transfer_guard_host_to_device")


def checking_leaks():
    """check_tracer_leaks(True)."""
    return check_tracer_leaks(True)


def copy_to_host_async(x):
    """Starts what makes the arrays of a tree readable; here they are. Returns the tree.

    Args:
      x: A tree of arrays.
    """
    for leaf in _core.tree_leaves(x):
        if hasattr(leaf, "copy_to_host_async"):
            leaf.copy_to_host_async()
    return x


def named_scope(name):
    """A `with` block or function whose name profilers show.

    Args:
      name: The name.
    """
    return _core.TraceAnnotation(name)


def named_call(fun, *, name=None):
    """The function under a name that profilers show.

    Args:
      fun: The function.
      name: The name.
    """

    @functools.wraps(fun)
    def wrapped(*args, **kwargs):
        with named_scope(name or _name_of(fun)):
            return fun(*args, **kwargs)

    return wrapped


def make_user_context(default_value=None):
    """A value that a `with` block sets.

    Args:
      default_value: The value outside of blocks.
    """
    import contextvars

    variable = contextvars.ContextVar("user_context", default=default_value)

    @contextlib.contextmanager
    def context(value):
        token = variable.set(value)
        try:
            yield
        finally:
            variable.reset(token)

    context.value = variable.get
    return context


def print_environment_info(return_string=False):
    """Versions of what this package depends on.

    Args:
      return_string: Whether the text is returned, not printed.
    """
    import numpy

    import shoal

    text = f"shoal: {shoal.__version__}\nnumpy: {numpy.__version__}\npython: {sys.version}\ndevices: {_core.devices()}\n"
    if return_string:
        return text
    print(text)
    return None
