"""Where functions and classes say that they come from: the module that programs have them from."""

from shoal import _core, _functions

_CLASSES = {
    "shoal.sharding": "AbstractMesh AxisType Mesh NamedSharding PartitionSpec SingleDeviceSharding set_mesh use_abstract_mesh",
    "shoal.stages": "CompiledMemoryStats Compiled Lowered",
    "shoal.tree_util": "PyTreeDef",
    "shoal.profiler": "TraceAnnotation",
    "shoal": "Array Device Shard ShapeDtypeStruct",
}


def say():
    """Gives each class and function its module."""
    for name, classes in _CLASSES.items():
        for one in classes.split():
            getattr(_core, one).__module__ = name
    for function in vars(_functions).values():
        if getattr(function, "__module__", None) == "shoal._functions":
            function.__module__ = "shoal"
