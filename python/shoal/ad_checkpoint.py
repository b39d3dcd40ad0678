"""What derivatives keep of a function: jax.ad_checkpoint."""

from shoal._checkpoint import (
    Offloadable,
    Recompute,
    Saveable,
    checkpoint,
    checkpoint_name,
    checkpoint_policies,
    name_p,
    print_saved_residuals,
    remat,
    saved_residuals,
)

checkpoint_name_fwd = checkpoint_name

__all__ = [
    "Offloadable",
    "Recompute",
    "Saveable",
    "checkpoint",
    "checkpoint_name",
    "checkpoint_name_fwd",
    "checkpoint_policies",
    "name_p",
    "print_saved_residuals",
    "remat",
    "saved_residuals",
]
