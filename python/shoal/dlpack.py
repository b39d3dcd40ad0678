"""Arrays from and to others that speak DLPack."""

from shoal.numpy import from_dlpack

__all__ = ["from_dlpack"]
