"""The memories of devices, as device_put takes them."""

import enum


class Space(enum.Enum):
    """A memory without the devices it is of: device_put(x, Space.Host) leaves an array on its devices. No array can be
    put in Any."""

    Device = "device"
    Host = "pinned_host"
    Any = "any"

    _memory_kind = property(lambda self: self.value)

    def __repr__(self):
        return f"MemorySpace.{self.name}"
