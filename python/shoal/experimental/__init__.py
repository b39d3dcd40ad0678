"""What JAX has under this name."""

from shoal._callbacks import io_callback
from shoal._config import enable_x64
from shoal._later import CHECKIFY as _CHECKIFY, YET as _YET, later as _later
from shoal.experimental import layout, mesh_utils, multihost_utils, ode, shard_map


def disable_x64():
    """64-bit types are off in a `with` block."""
    return enable_x64(False)


__getattr__ = _later(
    __name__,
    {
        _CHECKIFY: "checkify",
        _YET: "EArray compute_on topologies primal_tangent_dtype array_serialization compilation_cache "
        "custom_partitioning pallas serialize_executable sparse",
    },
)
