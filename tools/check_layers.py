#!/usr/bin/env python3
"""Checks that lower layers never include higher ones.

Reads every #include of src/ and include/shoal/, prints each back edge as file:line and fails if there is one.
With --self-test, checks itself on a small tree of its own.
"""

import pathlib
import re
import sys
import tempfile

# The folders of src/, lowest first. A file may include its own layer and those before it.
LAYERS = [
    "base", "core", "sharding", "ir", "ops", "transform", "passes", "spmd", "comm", "distributed", "backend",
    "runtime", "frontend", "multihost", "linalg",
]

# The layer that each public header of include/shoal/ belongs to, where it is not PUBLIC_DEFAULT.
PUBLIC_LAYERS = {
    "error.h": "base",
    "log.h": "base",
    "profiler.h": "base",
    "dtype.h": "core",
    "shape.h": "core",
    "default_device.h": "sharding",
    "device.h": "core",
    "mesh.h": "sharding",
    "mesh_context.h": "sharding",
    "partition_spec.h": "sharding",
    "sharding.h": "sharding",
    "elementwise.def": "ops",
    "distributed.h": "distributed",
    "multihost.h": "multihost",
    "shoal.h": LAYERS[-1],  # includes all others
}
PUBLIC_DEFAULT = "frontend"

SOURCE_SUFFIXES = {".h", ".cc", ".def", ".inc"}
INCLUDE = re.compile(r'\s*#\s*include\s*(?:"([^"]+)"|<(shoal/[^>]+)>)')


def layer_of(name):
    """The layer of a file named as in an #include, such as "core/buffer.h"; None for a file of no layer."""
    folder, _, rest = name.partition("/")
    if folder == "shoal":
        return PUBLIC_LAYERS.get(rest, PUBLIC_DEFAULT)
    return folder if rest and folder in LAYERS else None


def complaint(name, included):
    """Why the file `name` must not include `included`; None if it may."""
    own, other = layer_of(name), layer_of(included)
    if other is None:
        return f'"{included}" names no layer; write "<layer>/<file>" or "shoal/<file>"'
    if name.startswith("shoal/") and not included.startswith("shoal/"):
        return f'a public header includes the private "{included}"'
    if LAYERS.index(other) > LAYERS.index(own):
        return f'{own} includes "{included}" of the higher layer {other}'
    return None


def check_file(path, name):
    """The complaints about one file, as (line, text)."""
    if layer_of(name) is None:
        return [(1, f"{name} lies in no known layer; LAYERS of tools/check_layers.py lists them")]
    complaints = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if match := INCLUDE.match(line):
            if text := complaint(name, match[1] or match[2]):
                complaints.append((number, text))
    return complaints


def check_tree(root):
    """All complaints about the tree at `root`, as lines of "file:line: text"."""
    lines = []
    for top, prefix in (("src", ""), ("include/shoal", "shoal/")):
        for path in sorted((root / top).rglob("*")):
            if path.suffix in SOURCE_SUFFIXES:
                name = prefix + path.relative_to(root / top).as_posix()
                file = path.relative_to(root).as_posix()
                lines += [f"{file}:{number}: {text}" for number, text in check_file(path, name)]
    return lines


def self_test():
    files = {
        "include/shoal/error.h": "#pragma once\n#include <string>\n",
        "include/shoal/dtype.h": '#include "shoal/error.h"\n#include "core/half.h"\n',
        "include/shoal/mesh.h": '#include "shoal/device.h"\n#include <shoal/array.h>\n',
        "include/shoal/shoal.h": '#include "shoal/array.h"\n#include "shoal/mesh.h"\n',
        "src/base/log.cc": '#include "base/log.h"\n\n  # include "core/buffer.h"\n',
        "src/core/buffer.h": '#include "base/check.h"\n// #include "ir/graph.h"\n#include <ir/not_ours.h>\n',
        "src/core/buffer.cc": '#include "buffer.h"\n',
        "src/backend/reference/interpreter.cc": '#include "ir/graph.h"\n#include "runtime/client.h"\n',
        "src/frontend/array.cc": '#include "shoal/array.h"\n#include "backend/reference/interpreter.h"\n',
        "src/ops/elementwise.def": '#include "frontend/array.h"\n',
        "src/attic/old.cc": "",
        "src/stray.cc": "",
        "src/README.md": '#include "nothing"\n',
    }
    expected = [
        'src/attic/old.cc:1: attic/old.cc lies in no known layer; LAYERS of tools/check_layers.py lists them',
        'src/backend/reference/interpreter.cc:2: backend includes "runtime/client.h" of the higher layer runtime',
        'src/base/log.cc:3: base includes "core/buffer.h" of the higher layer core',
        'src/core/buffer.cc:1: "buffer.h" names no layer; write "<layer>/<file>" or "shoal/<file>"',
        'src/ops/elementwise.def:1: ops includes "frontend/array.h" of the higher layer frontend',
        'src/stray.cc:1: stray.cc lies in no known layer; LAYERS of tools/check_layers.py lists them',
        'include/shoal/dtype.h:2: a public header includes the private "core/half.h"',
        'include/shoal/mesh.h:2: sharding includes "shoal/array.h" of the higher layer frontend',
    ]
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")
        found = check_tree(root)
    if found != expected:
        sys.exit("\n".join(["self test failed; found:", *found, "expected:", *expected]))


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    complaints = check_tree(pathlib.Path(__file__).resolve().parent.parent)
    if complaints:
        sys.exit("\n".join(complaints))


if __name__ == "__main__":
    main()
