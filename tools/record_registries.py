#!/usr/bin/env python3
"""Records which primitives of JAX have a derivative, a transpose and a batching rule: run it in the root of the
repository.

Needs jax (0.12). Writes src/transform/testdata/registries.txt. What stands behind `=` there is written by hand, and
stays. Behind that of a new primitive there is nothing, so that the test fails until there is.
"""

import collections
import importlib
import pathlib

FILE = pathlib.Path("src/transform/testdata/registries.txt")
HEADING = """\
# The primitives of JAX 0.12.0 with their entries in its registries of rules, by tools/record_registries.py, and
# behind `=`, by hand, the records that do the same here, which must have what JAX has. `but transpose: reason` is
# for records that have not, `none: reason` for primitives without records. An entry that is needed no more fails
# the test registries_test.cc.
"""


def primitives():
    for module in ("numpy", "scipy", "random", "nn", "lax.linalg", "custom_batching", "custom_derivatives", "debug"):
        importlib.import_module(f"jax.{module}")
    from jax._src.interpreters import ad, batching

    has = collections.defaultdict(list)
    for ability, registries in {
        "jvp": (ad.primitive_jvps, ad.primitive_linearizations),
        "transpose": (ad.primitive_transposes, ad.fancy_transposes),
        "batch": (batching.fancy_primitive_batchers,),
    }.items():
        for name in {str(primitive) for registry in registries for primitive in registry}:
            has[name].append(ability)
    return has


def main():
    kept = {}
    if FILE.exists():
        for line in FILE.read_text().splitlines():
            if not line.startswith("#"):
                left, _, right = line.partition(" = ")
                kept[left.partition(":")[0]] = right
    lines = [f"{name}: {' '.join(has)} = {kept.get(name, '')}".rstrip() for name, has in sorted(primitives().items())]
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(HEADING + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
