"""SPMD arrays over devices and processes, with the names of JAX: `import shoal as jax`."""

from shoal import _config  # First: it decides how many devices there are.
from shoal._config import config
from shoal import _core, errors, sharding, tree, tree_util, typing
from shoal._core import (
    Array,
    Device,
    ShapeDtypeStruct,
    block_until_ready,
    device_count,
    device_get,
    device_put,
    devices,
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
)
from shoal._functions import (
    default_backend,
    default_device,
    disable_jit,
    effects_barrier,
    ensure_compile_time_eval,
    enable_x64,
    eval_shape,
    jit,
    live_arrays,
    make_user_context,
    named_call,
    named_scope,
    pmap,
    print_environment_info,
    process_indices,
    shard_map,
    smap,
    typeof,
)
from shoal import _finish, _notebook, core, debug, distributed, dlpack, dtypes, experimental, lax, nn, numpy, ops, profiler, scipy
from shoal.sharding import NamedSharding, P, PartitionSpec

__version__ = "0.1.0"

Array.__module__ = "shoal"

host_count = process_count
host_id = process_index

_LATER = frozenset(
    "grad value_and_grad jvp vjp vmap jacfwd jacrev jacobian hessian linearize linear_transpose checkpoint remat "
    "custom_vjp custom_jvp custom_gradient closure_convert make_jaxpr random image pure_callback fwd_and_bwd "
    "export checkpoint_policies stages xla_computation extend".split()
)


def __getattr__(name):
    if name in _LATER:
        raise AttributeError(
            f"module 'shoal' has no attribute '{name}': this transformation is not there yet"
        )
    raise AttributeError(f"module 'shoal' has no attribute '{name}'")
