"""What JAX has under this name."""

from shoal._config import enable_x64
from shoal.experimental import mesh_utils, multihost_utils, shard_map


def disable_x64():
    """64-bit types are off in a `with` block."""
    return enable_x64(False)
