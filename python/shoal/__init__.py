"""SPMD arrays over devices and processes, with the names of JAX: `import shoal as jax`."""

from shoal import _config  # First: it decides how many devices there are.
from shoal._config import config
from shoal import _core, _later, errors, sharding, tree, tree_util, typing
from shoal._core import (
    Array,
    Device,
    Shard,
    ShapeDtypeStruct,
    block_until_ready,
    clear_caches,
    device_count,
    device_get,
    device_put,
    devices,
    get_abstract_mesh,
    get_mesh,
    local_device_count,
    local_devices,
    make_array_from_callback,
    make_array_from_process_local_data,
    make_array_from_single_device_arrays,
    make_mesh,
    process_count,
    process_index,
    reshard,
    set_mesh,
    use_abstract_mesh,
)
from shoal._callbacks import pure_callback
from shoal._checkpoint import checkpoint, checkpoint_policies, remat
from shoal._custom_rules import closure_convert, custom_gradient, custom_jvp, custom_vjp, linear_transpose
from shoal._derivatives import grad, hessian, jacfwd, jacobian, jacrev, jvp, linearize, value_and_grad, vjp
from shoal._functions import (
    Inline,
    check_tracer_leaks,
    checking_leaks,
    copy_to_host_async,
    debug_infs,
    debug_key_reuse,
    debug_nans,
    default_backend,
    default_device,
    default_matmul_precision,
    default_prng_impl,
    disable_jit,
    effects_barrier,
    ensure_compile_time_eval,
    enable_checks,
    enable_custom_prng,
    enable_x64,
    eval_shape,
    explain_cache_misses,
    jit,
    legacy_prng_key,
    live_arrays,
    log_compiles,
    make_user_context,
    named_call,
    named_scope,
    numpy_dtype_promotion,
    numpy_rank_promotion,
    pmap,
    print_environment_info,
    process_indices,
    shard_map,
    smap,
    threefry_partitionable,
    transfer_guard,
    transfer_guard_device_to_device,
    transfer_guard_device_to_host,
    transfer_guard_host_to_device,
    typeof,
)
from shoal._jaxpr import make_jaxpr
from shoal._vmap import vmap
from shoal import (
    _finish,
    _names,
    _notebook,
    _pickling,
    ad_checkpoint,
    checkpoints,
    elastic,
    core,
    custom_batching,
    custom_derivatives,
    debug,
    distributed,
    dlpack,
    dtypes,
    experimental,
    export,
    flatten_util,
    image,
    lax,
    linalg,
    memory,
    nn,
    numpy,
    ops,
    profiler,
    random,
    scipy,
    stages,
)
from shoal.sharding import NamedSharding, P, PartitionSpec

__version__ = "0.1.0"

host_count = process_count
host_id = process_index
host_ids = process_indices

_missing = _later.later(
    __name__,
    {
        _later.TRANSFORMATION: "fwd_and_bwd ad",
        _later.REFS: "ref Ref new_ref empty_ref free_ref freeze array_ref",
        _later.YET: "xla_computation extend ffi "
        "api_util example_libraries CompilerEffortLevel ds allow_f16_reductions "
        "array_garbage_collection_guard auto_pcast jax2tf_associative_scan_reductions "
        "remove_size_one_mesh_axis_from_type softmax_custom_jvp "
        "interpreters lib monitoring no_tracing no_execution thread_guard",
    },
)


def __getattr__(name):
    if name == "float0":  # NumPy is imported when it is needed.
        from shoal._derivatives import float0

        return float0()
    return _missing(name)


_names.say()
