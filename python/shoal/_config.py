"""Options: jax.config, and the environment variables that JAX reads."""

import contextlib
import os
import sys

from shoal import _core


def _truth(text):
    lowered = text.lower()
    if lowered in ("y", "yes", "t", "true", "on", "1"):
        return True
    if lowered in ("n", "no", "f", "false", "off", "0", ""):
        return False
    raise ValueError(f"invalid truth value {text!r}")


def _check_platforms(value):
    if value in (None, ""):
        return
    if "cpu" not in value.split(","):
        raise RuntimeError(f"Unknown backend: '{value}' requested, but no platforms that are instances of {value} are "
                           "present. Platforms present are: cpu")


# The options that do something here, with what they are at first.
_DEFAULTS = {
    "jax_enable_x64": False,
    "jax_num_cpu_devices": -1,
    "jax_platform_name": "",
    "jax_platforms": None,
    "jax_disable_jit": False,
    "jax_default_device": None,
    "jax_debug_nans": False,
    "jax_debug_infs": False,
    "jax_debug_key_reuse": False,
    "jax_default_prng_impl": "threefry2x32",
    "jax_check_tracer_leaks": False,
    "jax_log_compiles": False,
    "jax_explain_cache_misses": False,
    "jax_numpy_dtype_promotion": "standard",
    "jax_numpy_rank_promotion": "allow",
    "jax_transfer_guard": "allow",
    "jax_transfer_guard_host_to_device": None,
    "jax_transfer_guard_device_to_device": None,
    "jax_transfer_guard_device_to_host": None,
}
# In the order of the library.
_TRANSFERS = (
    "jax_transfer_guard_host_to_device", "jax_transfer_guard_device_to_device", "jax_transfer_guard_device_to_host",
)
_GUARDS = ("allow", "log", "disallow", "log_explicit", "disallow_explicit")
# Those of JAX that change nothing a program could see here: what they ask for is so already, or is about speed, caches
# and texts that are not there.
_WITHOUT_MEANING = {
    "jax_default_matmul_precision": None,
    "jax_traceback_filtering": "auto",
    "jax_compilation_cache_dir": None,
    "jax_pmap_shmap_merge": True,
    "jax_use_shardy_partitioner": True,
    "jax_array": True,
    "jax_cpu_collectives_implementation": "gloo",
    "jax_distributed_debug": False,
    "jax_persistent_cache_min_compile_time_secs": 1.0,
    "jax_persistent_cache_min_entry_size_bytes": 0,
    "jax_enable_compilation_cache": True,
    "jax_pprint_use_color": True,
    "jax_spmd_mode": "allow_all",
    "jax_softmax_custom_jvp": True,
    "jax_ragged_dot_use_ragged_dot_instruction": True,
    "jax_enable_checks": False,
    "jax_include_full_tracebacks_in_locations": True,
    "jax_cpu_enable_async_dispatch": True,
}
# Those that ask for something that is not there: to ask for it warns.
_NOT_THERE = {
    "jax_enable_custom_prng": False,
    "jax_array_garbage_collection_guard": "allow",
    "jax_legacy_prng_key": "allow",
    "jax_threefry_partitionable": True,  # Other numbers, which JAX had before.
}
# The values of options that have no others.
_VALUES = {
    "jax_numpy_dtype_promotion": ("standard", "strict"),
    "jax_numpy_rank_promotion": ("allow", "warn", "raise"),
    "jax_default_prng_impl": ("threefry2x32", "rbg", "unsafe_rbg"),
    "jax_default_matmul_precision": (
        None, "default", "fastest", "high", "highest", "bfloat16", "tensorfloat32", "float32", "bfloat16_3x",
        "ANY_F8_ANY_F8_F32", "ANY_F8_ANY_F8_F32_FAST_ACCUM", "ANY_F8_ANY_F8_ANY", "ANY_F8_ANY_F8_ANY_FAST_ACCUM",
        "F16_F16_F16", "F16_F16_F32", "BF16_BF16_BF16", "BF16_BF16_F32", "BF16_BF16_F32_X3", "BF16_BF16_F32_X6",
        "BF16_BF16_F32_X9", "TF32_TF32_F32", "TF32_TF32_F32_X3", "F32_F32_F32", "F64_F64_F64",
    ),
    "jax_legacy_prng_key": ("allow", "warn", "error"),
    **dict.fromkeys(("jax_transfer_guard", *_TRANSFERS), (None, *_GUARDS)),
}


def _check_value(name, value):
    if value not in _VALUES.get(name, (value,)):
        raise ValueError(f"new value of {name} must be in {list(_VALUES[name])}, got {value!r} of type {type(value)}.")


def _set_default_device(value):
    if isinstance(value, str):
        _check_platforms(value)
        value = None
    elif value is not None and not isinstance(value, _core.Device):
        raise ValueError(
            "jax.default_device must be passed either a Device object (e.g. `jax.devices('cpu')[0]`) or a platform "
            f"name string like 'cpu' or 'gpu', got: {value}"
        )
    _core._set_default_device(value)


class Config:
    """The options of this process, by name: config.update("jax_enable_x64", True)."""

    def __init__(self):
        self._values = {**_DEFAULTS, **_WITHOUT_MEANING, **_NOT_THERE}

    @property
    def values(self):
        return dict(self._values)

    def update(self, name, value):
        """Sets an option. Raises AttributeError for one that is none."""
        if name not in self._values:
            raise AttributeError(f"Unrecognized config option: {name}")
        _check_value(name, value)
        if name == "jax_enable_x64":
            value = bool(value)
            _core._set_x64(value)
        elif name == "jax_num_cpu_devices":
            if value is not None and value != -1:
                _core._set_num_cpu_devices(value)
        elif name in ("jax_platform_name", "jax_platforms"):
            _check_platforms(value)
        elif name in ("jax_log_compiles", "jax_explain_cache_misses"):
            _core._set_log_topics("compile" if value else "")
        elif name == "jax_disable_jit":
            _core._disable_jit(bool(value))
        elif name == "jax_default_device":
            _set_default_device(value)
        elif name in ("jax_debug_nans", "jax_debug_infs"):
            looked_for = {**self._values, name: value}
            _core._set_result_checks(bool(looked_for["jax_debug_nans"]), bool(looked_for["jax_debug_infs"]))
        elif name == "jax_debug_key_reuse":
            _core._check_key_reuse(bool(value))
        elif name == "jax_default_prng_impl":
            _core.random._set_default_implementation(value)
        elif name == "jax_check_tracer_leaks":
            from shoal import _leaks

            _leaks.set_checking(bool(value))
        elif name == "jax_numpy_dtype_promotion":
            _core._set_strict_promotion(value == "strict")
        elif name == "jax_numpy_rank_promotion":
            _core._set_rank_promotion(_VALUES[name].index(value))
        elif name == "jax_transfer_guard":
            for transfer in _TRANSFERS:
                self.update(transfer, value)
        elif name in _TRANSFERS:
            _core._set_transfer_guard(_TRANSFERS.index(name), _GUARDS.index(value or "allow"))
        elif value != _NOT_THERE.get(name, value):
            import warnings

            warnings.warn(f"{name}={value!r} has no effect: what it asks for is not there yet", stacklevel=2)
        self._values[name] = value

    def read(self, name):
        """The value of an option. Raises AttributeError for one that is none."""
        if name not in self._values:
            raise AttributeError(f"Unrecognized config option: {name}")
        return self._values[name]

    def __getattr__(self, name):
        values = self.__dict__.get("_values", {})
        if name in values:
            return values[name]
        if "jax_" + name in values:
            return values["jax_" + name]
        raise AttributeError(f"Unrecognized config option: {name}")

    def __setattr__(self, name, value):
        if name.startswith("_"):
            object.__setattr__(self, name, value)
        else:
            self.update(name, value)

    def config_with_absl(self):
        """Makes each option a flag of absl, --jax_enable_x64. What the command line says counts once absl has parsed it."""
        from absl import app, flags

        makers = {bool: flags.DEFINE_bool, int: flags.DEFINE_integer, float: flags.DEFINE_float}
        for name, value in self._values.items():
            if name not in flags.FLAGS:
                makers.get(type(value), flags.DEFINE_string)(name, value, f"the option {name}")
        app.call_after_init(self._take_flags)

    def parse_flags_with_absl(self):
        """Takes the options that the command line gives as flags of absl at once, for programs that do not call app.run."""
        from absl import flags

        self.config_with_absl()
        if not flags.FLAGS.is_parsed():
            flags.FLAGS(sys.argv, known_only=True)
        self._take_flags()

    def _take_flags(self):
        from absl import flags

        for name in self._values:
            if flags.FLAGS[name].present:
                self.update(name, flags.FLAGS[name].value)

    def _read_environment(self):
        """Takes over what the variables say that JAX reads."""
        for name in self._values:
            text = os.environ.get(name.upper())
            if not text:
                continue
            before = self._values[name]
            if isinstance(before, bool):
                self.update(name, _truth(text))
            elif isinstance(before, int):
                self.update(name, int(text))
            else:
                self.update(name, text)
        name = "--xla_force_host_platform_device_count="
        flags = [flag[len(name) :] for flag in os.environ.get("XLA_FLAGS", "").split() if flag.startswith(name)]
        asked_already = os.environ.get("JAX_NUM_CPU_DEVICES") or os.environ.get("SHOAL_NUM_CPU_DEVICES")
        if flags and not asked_already:
            _core._set_num_cpu_devices(int(flags[-1]))


config = Config()
config._read_environment()


@contextlib.contextmanager
def _option(name, value):
    """An option has another value in a `with` block."""
    changed = (name, *_TRANSFERS) if name == "jax_transfer_guard" else (name,)
    before = {one: config.read(one) for one in changed}
    config.update(name, value)
    try:
        yield
    finally:
        for one in changed:
            config.update(one, before[one])


def enable_x64(new_val=True):
    """64-bit types are on, or off, in a `with` block.

    Args:
      new_val: The value in the block.
    """
    return _option("jax_enable_x64", new_val)
