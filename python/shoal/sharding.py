"""Meshes, partition specs and shardings."""

import functools

from shoal import _core
from shoal._core import (
    AbstractMesh,
    AxisType,
    Mesh,
    NamedSharding,
    PartitionSpec,
    SingleDeviceSharding,
    get_abstract_mesh,
    get_mesh,
    reshard,
    set_mesh,
    use_abstract_mesh,
)
from shoal._functions import Infer
from shoal._later import YET as _YET, later as _later
from shoal.core import ManualAxisType
from shoal._sharding_modes import auto_axes, explicit_axes

P = PartitionSpec
use_mesh = set_mesh


def _within(mesh, function):
    """The function, each call of which is in `with mesh`."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        with mesh:
            return function(*args, **kwargs)

    return call


Mesh.__call__ = _within


def make_single_device_sharding(device, *, memory_kind=None):
    """All of an array on one device.

    Args:
      device: The device.
      memory_kind: The memory: "device", "pinned_host" or "unpinned_host".
    """
    return SingleDeviceSharding(device, memory_kind=memory_kind)


class _AnySharding(type):
    def __instancecheck__(cls, instance):
        return isinstance(instance, (NamedSharding, SingleDeviceSharding))

    def __subclasscheck__(cls, subclass):
        return subclass in (cls, NamedSharding, SingleDeviceSharding)


class Sharding(metaclass=_AnySharding):
    """How an array lies on devices: a NamedSharding or a SingleDeviceSharding."""


__getattr__ = _later(
    __name__, {"use NamedSharding": "PositionalSharding GSPMDSharding PmapSharding", _YET: "AbstractDevice UnreducedKind no_collectives"}
)
