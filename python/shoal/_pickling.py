"""What pickled objects are made from again: functions that pickle finds by name."""

from shoal import _core


def device(id):
    return _core._device(id)


def spec(entries, unreduced, reduced):
    return _core._spec(entries, unreduced, reduced)


def named_sharding(mesh, spec, memory_kind):
    return _core._named_sharding(mesh, spec, memory_kind)


def single_device_sharding(device, memory_kind):
    return _core._single_device_sharding(device, memory_kind)


def tree_structure(tree):
    return _core.tree_structure(tree)


def keys(words):
    return _core.random.wrap_key_data(words)


def unpickled(value, weak):
    return _core._unpickled(value, weak)
