"""What JAX's tests import besides public names, in Shoal's place.

Private modules give what is public elsewhere under the same name (`jax._src.mesh.AxisType` is `jax.sharding.AxisType`), the
helpers of tests that lie beside this file, and stand-ins for all else. A stand-in may be imported and passed around; a test
that uses one ends with NotThere, which says what the test needed.
"""

import enum
import functools
import importlib
import importlib.abc
import importlib.machinery
import re
import sys
import types
from contextlib import ContextDecorator, contextmanager

import ml_dtypes
import numpy as np

import shoal
from shoal import as_jax

PRIVATE, ABSENT = "private", "absent"


class NotThere(BaseException):
    """A test used what Shoal has not. No Exception, so that no test expects it."""

    def __init__(self, kind, name):
        super().__init__(f"{kind}: {name}")
        self.kind, self.name = kind, name


class Loading:
    """While test files are imported, stand-ins give stand-ins; later they raise."""

    now = True


class StandIn:
    """Something that is not there, by name."""

    def __init__(self, kind, name):
        self.__dict__.update(_kind=kind, _name=name, __name__=name.rpartition(".")[2], __module__=__name__, __doc__="")

    def _used(self, how):
        if not Loading.now:
            raise NotThere(self._kind, self._name)
        return StandIn(self._kind, self._name + how)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self._used("." + name)

    def __call__(self, *args, **kwargs):
        return self._used("()")

    def __setattr__(self, name, value):
        self._used("")

    def __setitem__(self, key, value):
        self._used("")

    def __getitem__(self, key):
        return self._used("[]")

    def __iter__(self):
        self._used("")
        return iter(())

    def __mro_entries__(self, bases):
        self._used("")
        return ()

    def __instancecheck__(self, instance):
        raise NotThere(self._kind, self._name)

    __subclasscheck__ = __instancecheck__

    def __enter__(self):
        return self._used("")

    def __exit__(self, *error):
        return False


def _use(name):
    def used(self, *args):
        raise NotThere(self._kind, self._name)

    used.__name__ = name
    return used


for _name in "len bool contains add mul lt gt int index array next".split():
    setattr(StandIn, f"__{_name}__", _use(f"__{_name}__"))


class StandInModule(types.ModuleType):
    """A module that has what is given to it, what public modules have, and stand-ins for all else."""

    def __init__(self, name, kind=PRIVATE, public=(), own=None):
        super().__init__(name)
        self.__path__ = []
        self._kind, self._public = kind, public
        self.__dict__.update(own or {})

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if not name.startswith("_"):
            for module in self._public:
                value = getattr(importlib.import_module(module), name, None)
                if value is not None:
                    return value
        if not Loading.now:
            raise NotThere(self._kind, f"{self.__name__}.{name}")
        return StandIn(self._kind, f"{self.__name__}.{name}")


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Private modules, and public ones that Shoal has not yet."""

    @staticmethod
    def _is_absent(name):
        try:
            importlib.import_module("shoal" + name.removeprefix("jax"))
        except ImportError:
            return True
        return False

    def find_spec(self, name, path=None, target=None):
        parts = name.split(".")
        if parts[0] == "jaxlib" or parts[0] == "jax" and len(parts) > 1 and (parts[1] == "_src" or self._is_absent(name)):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def exec_module(self, module):
        name = module.__name__
        sys.modules[name] = modules.get(name) or StandInModule(name, PRIVATE if is_private(name) else ABSENT)


def is_private(name):
    """Whether a module is no part of JAX's public interface. Rules of primitives are about JAX's own compiler."""
    return name.startswith(("jax._src", "jaxlib", "jax.interpreters", "jax.extend", "jax.lib"))


class Option(ContextDecorator):
    """An option of jax._src.config: its value, and its value in a `with` block."""

    def __init__(self, name):
        self.name = name

    def __call__(self, value):
        if self.name in shoal.config.values:
            return shoal._config._option(self.name, value)
        return _nothing() if self.name in _unknown_options else UnknownOption(self.name)

    @property
    def value(self):
        return shoal.config.read(self.name) if self.name in shoal.config.values else _unknown_options.get(self.name, False)


# Those that tests read to find out what they run on, and those by which JAX chooses among its own implementations of one
# behaviour: they change nothing here.
_unknown_options = {
    "jax_num_generated_cases": 10, "jax_skip_slow_tests": True, "jax_test_num_threads": 0, "jax_enable_checks": True,
    **dict.fromkeys(
        ("jax_custom_jvp3", "jax_custom_vjp3", "jax_remat3", "jax_use_direct_linearize", "jax_use_rgv",
         "jax_use_simplified_jaxpr_constants", "jax_use_shardy_partitioner"), True,
    ),
}


@contextmanager
def _nothing():
    yield


class UnknownOption(ContextDecorator):
    """An option of JAX's own insides is given a value."""

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        raise NotThere(PRIVATE, f"option {self.name}")

    def __exit__(self, *error):
        return False


class ConfigModule(StandInModule):
    """jax._src.config: options by name."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "config":
            return shoal.config
        if name.startswith("jax_"):
            return getattr(shoal.config, name)
        if name == "ExplicitX64Mode":
            return enum.Enum(name, "WARN ERROR ALLOW")
        return Option("jax_" + name)


def _helpers():
    """Functions of private modules that say nothing about JAX's insides, written anew."""
    def safe_map(function, first, *more):
        lists = [list(xs) for xs in (first, *more)]
        if len({len(xs) for xs in lists}) > 1:
            raise AssertionError(f"lengths differ: {[len(xs) for xs in lists]}")
        return list(map(function, *lists))

    def safe_zip(*lists):
        return list(zip(*lists, strict=True))

    def split_list(xs, sizes):
        xs, parts = list(xs), []
        for size in sizes:
            parts.append(xs[:size])
            xs = xs[size:]
        return [*parts, xs]

    def is_weakly_typed(x):
        return getattr(x, "weak_type", type(x) in (bool, int, float, complex))

    def inexact(dtype):
        dtype = np.dtype(dtype)
        return dtype if dtype.kind not in "biu" else np.dtype({8: np.float64}.get(dtype.itemsize, np.float32))

    def default(kind):
        def of():
            return np.dtype(f"{kind}{64 if shoal.config.jax_enable_x64 else 32}")

        return of

    def canonical(dtype, allow_extended_dtype=False):
        name = getattr(dtype, "__name__", "")
        return np.dtype(dtype) if hasattr(ml_dtypes, name) else shoal.dtypes.canonicalize_dtype(dtype, allow_extended_dtype)

    def convert(x, dtype=None, weak_type=False, **more):
        if weak_type or more:
            raise NotThere(PRIVATE, "jax._src.lax.lax._convert_element_type")
        return shoal.numpy.asarray(x) if dtype is None else shoal.lax.convert_element_type(x, dtype)

    return {
        "util": dict(
            safe_map=safe_map, safe_zip=safe_zip, split_list=split_list,
            unzip2=lambda pairs: tuple(zip(*pairs)) or ((), ()),
            tuple_update=lambda t, i, value: (*t[:i], value, *t[i + 1 :]),
            partition_list=lambda which, xs: ([x for w, x in zip(which, xs) if not w], [x for w, x in zip(which, xs) if w]),
            merge_lists=lambda which, first, second: [next(s if w else f) for f, s in [(iter(first), iter(second))] for w in which],
            curry=lambda function: functools.partial(functools.partial, function),
        ),
        "dtypes": dict(
            float0=shoal.float0, is_weakly_typed=is_weakly_typed, to_inexact_dtype=inexact,
            default_int_dtype=default("int"), default_uint_dtype=default("uint"), default_float_dtype=default("float"),
            itemsize_bits=_bits, canonicalize_dtype=canonical,
            **{name: getattr(ml_dtypes, name) for name in dir(ml_dtypes) if re.match("u?int[24]|float[48]_", name)},
            safe_to_cast=lambda first, second: shoal.numpy.promote_types(first, second) == np.dtype(second),
        ),
        "lax.lax": dict(_convert_element_type=convert),
    }


class _Caches:
    """Caches of JAX's own, which tests clear."""

    def __getattr__(self, name):
        return self

    def cache_clear(self):
        pass


def _bits(dtype):
    dtype = np.dtype(dtype)
    if "int4" in dtype.name:
        return 4
    return ml_dtypes.finfo(dtype).bits if dtype.kind in "fV" else 8 * dtype.itemsize


def _make_modules():
    helpers = _helpers()
    made = {}

    def module(name, *public, **own):
        full = "jax._src." + name if name else "jax._src"
        made[full] = StandInModule(full, PRIVATE, tuple("shoal" + ("." + p if p else "") for p in public), own)

    module("")
    module("ad_checkpoint", "", "ad_checkpoint")
    module("api", "", ShapeDtypeStruct=shoal.ShapeDtypeStruct)
    module("array", "", ArrayImpl=shoal.Array)
    module("core", "core", "errors", ShapedArray=shoal.core.ShapedArray, typeof=shoal.typeof,
           UnexpectedTracerError=shoal.errors.UnexpectedTracerError)
    module("custom_derivatives", "custom_derivatives", "")
    module("debugging", "debug")
    module("dtypes", "dtypes", "numpy", **helpers["dtypes"])
    module("errors", "errors")
    module("interpreters")
    module("internal_test_util")
    module("lax", "lax")
    module("lax.lax", "lax", **helpers["lax.lax"])
    module("lax.parallel", "lax")
    module("lax.control_flow", "lax")
    made["jax._src.lax.control_flow"].common = _Caches()
    module("lax.slicing", "lax")
    module("lax.windowed_reductions", "lax")
    module("layout", "experimental.layout")
    module("mesh", "sharding", "")
    module("named_sharding", "sharding", DuplicateSpecError=ValueError)
    module("partition_spec", "sharding")
    module("pjit", "", pjit=shoal.jit, with_sharding_constraint=shoal.lax.with_sharding_constraint)
    module("random")
    module("random.prng", "random", prngs={
        name: StandIn(PRIVATE, f"jax._src.random.prng.{name}") for name in ("threefry2x32", "rbg", "unsafe_rbg")
    })
    module("random.core", "random")
    module("shard_map", "", shard_map=shoal.shard_map, smap=shoal.smap)
    module("sharding", "sharding", IndivisibleError=ValueError)
    module("sharding_impls", "sharding", "",
           make_single_device_sharding=lambda device: shoal.sharding.SingleDeviceSharding(device))
    module("stages", "stages")
    module("tree_util", "tree_util")
    module("util", **helpers["util"])
    module("xla_bridge", "")
    made["jax._src.config"] = ConfigModule("jax._src.config", own=dict(
        parse_flags_with_absl=lambda: None, update=shoal.config.update,
    ))
    return made


modules = {}


def install():
    """From here on the imports of JAX's tests are served."""
    as_jax.install()
    sys.meta_path.insert(0, _Finder())
    type(shoal.config).parse_flags_with_absl = lambda self: None  # There is no command line.
    modules.update(_make_modules())
    from jax_tests_shim import lax_reference, test_util, lax_test_util

    modules["jax._src.test_util"] = test_util
    modules["jax._src.lax_reference"] = lax_reference
    modules["jax._src.internal_test_util.lax_test_util"] = lax_test_util
    for name, found in list(modules.items()):
        parent, _, child = name.rpartition(".")
        sys.modules[name] = found
        if parent in modules:
            vars(modules[parent])[child] = found
    vars(shoal)["_src"] = modules["jax._src"]


def stand_in_for(module, name):
    """Puts a stand-in where a test file uses a public name that Shoal has not: `from jax import export`."""
    found = importlib.import_module(module.replace("shoal", "jax", 1))
    try:
        value = getattr(found, name, None)
    except ImportError:
        value = None
    if value is None and not isinstance(found, StandInModule):
        if hasattr(ml_dtypes, name):  # Arrays of these are refused where they are made.
            vars(found)[name] = getattr(ml_dtypes, name)
            return
        full = f"{module}.{name}"
        kind = PRIVATE if is_private(full) else ABSENT
        vars(found)[name] = StandInModule(full, kind) if name.islower() and module == "jax" else StandIn(kind, full)
