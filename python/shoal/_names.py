"""Where functions and classes say that they come from: the module that programs have them from."""

from shoal import _core, _functions
from shoal.numpy import _kinds, _objects

_CLASSES = {
    "shoal.sharding": "AbstractMesh AxisType Mesh NamedSharding PartitionSpec SingleDeviceSharding set_mesh use_abstract_mesh",
    "shoal.stages": "CompiledMemoryStats Compiled Lowered Traced",
    "shoal.tree_util": "PyTreeDef",
    "shoal.profiler": "TraceAnnotation",
}


def say():
    """Gives each class and function its module."""
    for name, classes in _CLASSES.items():
        for one in classes.split():
            getattr(_core, one).__module__ = name
    for name, module in (("shoal", _functions), ("shoal.numpy", _objects), ("shoal.numpy", _kinds)):
        for function in vars(module).values():
            if getattr(function, "__module__", None) == module.__name__:
                function.__module__ = name
