"""The old name of jit."""


def __getattr__(name):
    if name != "pjit":
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'", name=name)
    import warnings

    import shoal

    warnings.warn("shoal.experimental.pjit.pjit is the old name of shoal.jit; use that instead", DeprecationWarning,
                  stacklevel=2)
    return shoal.jit
