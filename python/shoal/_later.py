"""Names that JAX has and that are not there, or not yet: what is said where a program asks for one."""

import sys

TRANSFORMATION = "this transformation is not there yet"
YET = "it is not there yet"
REFS = (
    "arrays never change in place here, as transformations, devices and processes would have to see all changes in one "
    "order; return the new value, carry it through lax.scan, while_loop or fori_loop, or write x = x.at[...].set(y), "
    "which takes the memory of x where nothing else uses it"
)
CHECKIFY = (
    "errors are no values here, which each loop, branch and device would have to carry; raise in a function that "
    "debug.callback calls with the values, which ends the program where a result of it is read, and look for NaN and "
    "infinities with debug_nans and debug_infs, which name the line"
)

_reasons = {}  # By full name.


def _text(name):
    module, _, attribute = name.rpartition(".")
    if attribute.endswith("_p") and module.startswith("shoal.lax"):
        return f"module '{module}' has no attribute '{attribute}': primitives are not there yet; call the function instead"
    return f"module '{module}' has no attribute '{attribute}'" + (f": {_reasons[name]}" if name in _reasons else "")


def later(module, reasons):
    """The module's __getattr__, which says why these names are missing. `reasons` has names, in one text, by reason."""
    for reason, names in reasons.items():
        _reasons.update({f"{module}.{name}": reason for name in names.split()})
    # Python asks finders for the names of packages only.
    vars(sys.modules[module]).setdefault("__path__", [])

    def missing(name):
        raise AttributeError(_text(f"{module}.{name}"), name=name)

    return missing


class _Finder:
    """Says it also for `from shoal import vmap` and `import shoal.image`, of which Python drops the AttributeError."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in _reasons:
            raise ImportError(_text(name), name=name)


sys.meta_path.append(_Finder)
