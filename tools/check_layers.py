#!/usr/bin/env python3
"""Checks that lower layers, and lower rooms of a layer, never use higher ones.

Without arguments, reads every #include of src/, include/shoal/, python/bindings/, tools/shoal/ and examples/.
With --calls FILE, reads by `nm` the object files that FILE lists, one a line: what the objects of a layer need must be
defined there or below, too, since a declaration may lie in a lower layer than its definition. Files of a folder that
are compiled as one count as one.
Either way prints each back edge and fails if there is one, and also if an entry of the lists below is needed no more:
they may only shrink. With --self-test, checks itself on small trees of its own.
"""

import collections
import pathlib
import re
import subprocess
import sys
import tempfile

# The folders of src/, lowest first. A file may include its own layer and those before it.
LAYERS = [
    "base", "core", "sharding", "ir", "ops", "transform", "passes", "spmd", "comm", "distributed", "backend",
    "linalg", "runtime", "frontend", "multihost", "training", "checkpoints", "elastic",
]

# The rooms of folders, lowest first; those of one line do not see each other. What lies in the folder itself is above
# all of its rooms, and so are tests.
ROOMS = {
    "ops": ["scalar"],
    "comm": ["transport", "record", "collectives"],
    "backend/cpu": ["machine", "loops moves", "products sorts scans", "attention decompositions windows", "transforms"],
    "frontend": ["array", "functions", "transforms", "random", "models"],
    "bindings": ["core", "numpy", "lax nn scipy training"],
}

# The layer that each public header of include/shoal/ belongs to, where it is not PUBLIC_DEFAULT.
PUBLIC_LAYERS = {
    "error.h": "base",
    "log.h": "base",
    "profiler.h": "base",
    "progress.h": "base",
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
    "data.h": "training",
    "run_log.h": "training",
    "checkpoints.h": "checkpoints",
    "elastic.h": "elastic",
    "shoal.h": LAYERS[-1],  # includes all others
}
PUBLIC_DEFAULT = "frontend"

# Those that use the public headers, and which others of src/ each still includes. May only shrink.
PRIVATE_HEADERS = {
    "multihost": [
        "base/misuse.h",
        "core/buffer.h", "core/this_process.h", "sharding/box.h", "comm/collectives/exchange.h",
        "comm/record/communicator.h", "comm/transport/box_copy.h", "distributed/session.h", "backend/backend.h",
        "runtime/device_array.h", "runtime/lane.h", "runtime/process_data.h", "frontend/array/array_impl.h",
        "frontend/array/local_part.h", "frontend/array/tree_prefix.h",
    ],
    "training": [
        "base/caller.h", "base/misuse.h", "base/safe_file.h", "sharding/test_support.h", "frontend/test_support.h",
    ],
    "bindings": ["frontend/array/integers.h", "frontend/array/promotion_mode.h"],
    "bindings/core": [
        "base/caller.h", "base/shape_mismatch.h", "core/host_allocator.h", "sharding/default_place.h", "ir/attrs.h",
        "ops/rules.h", "runtime/device_array.h", "runtime/lane.h", "runtime/process_data.h",
        "runtime/result_checks.h", "runtime/transfer_guard.h", "frontend/array/array_impl.h",
        "frontend/array/array_text.h", "frontend/array/default_put.h", "frontend/array/promotion.h",
        "frontend/array/promotion_mode.h", "frontend/array/trace.h", "frontend/array/tracer_errors.h",
        "frontend/array/tree_prefix.h", "frontend/transforms/jit_impl.h",
    ],
    "bindings/numpy": [
        "base/caller.h", "base/misuse.h", "ops/elementwise.h", "runtime/transfer_guard.h",
        "frontend/array/promotion.h", "frontend/array/promotion_mode.h", "frontend/array/trace.h",
    ],
    "bindings/lax": ["base/caller.h", "base/misuse.h", "frontend/array/promotion.h"],
    "bindings/nn": ["base/caller.h", "base/misuse.h", "frontend/array/promotion.h"],
    "bindings/scipy": ["base/caller.h", "frontend/array/promotion.h"],
    "tools/shoal": [
        "base/env.h", "base/resources.h", "base/safe_file.h", "core/host_allocator.h", "comm/record/diagnosis.h",
        "comm/record/peers.h", "comm/transport/shared_memory_channel.h", "comm/transport/socket_channel.h",
        "comm/transport/tcp.h", "distributed/detect.h",
    ],
    "examples": [],
}

# Calls from a lower layer or room to a higher one, through a declaration that lies low: the file that calls, the folder
# called, and why. CMakeLists.txt compiles these files alone. May only shrink.
CALLS_UP = {
    ("distributed/initialize.cc", "runtime"): "a process that ends without distributed::shutdown() leaves by it",
    ("frontend/array/array.cc", "frontend/functions"): "methods of Array are functions",
}

SOURCE_SUFFIXES = {".h", ".cc", ".def", ".inc"}
INCLUDE = re.compile(r'\s*#\s*include\s*(?:"([^"]+)"|<(shoal/[^>]+)>)')

# Where sources lie, and what their names begin with in an #include.
TREES = {"src": "", "include/shoal": "shoal/", "python/bindings": "bindings/", "tools/shoal": "tools/shoal/",
         "examples": "examples/"}


def layer_of(name):
    """The layer of a file named as in an #include, such as "core/buffer.h"; None for a file of no layer."""
    folder, _, rest = name.partition("/")
    if folder == "shoal":
        return PUBLIC_LAYERS.get(rest, PUBLIC_DEFAULT)
    return folder if rest and folder in LAYERS else None


def floor_of(name, folder):
    """The floor of a file among the rooms of `folder`, and its room; None if it does not lie there."""
    if not name.startswith(folder + "/"):
        return None
    room, below, _ = name.removeprefix(folder + "/").partition("/")
    if below and not name.endswith("_test.cc"):
        for floor, rooms in enumerate(ROOMS[folder]):
            if room in rooms.split():
                return floor, room
    return len(ROOMS[folder]), ""


def higher(name, other):
    """What a file of src/ must not use in another, as text; None if it may."""
    own_layer, other_layer = layer_of(name), layer_of(other)
    if own_layer is not None and LAYERS.index(other_layer) > LAYERS.index(own_layer):
        return f"the higher layer {other_layer}"
    for folder in ROOMS:
        own, there = floor_of(name, folder), floor_of(other, folder)
        if own is None or there is None or own[1] == there[1]:
            continue
        if there[0] > own[0]:
            return f"the higher room {folder}/{there[1]}".rstrip("/")
        if there[0] == own[0]:
            return f"the room {folder}/{there[1]} beside it"
    return None


def user_of(name):
    """The longest key of PRIVATE_HEADERS that a file lies in; None if it lies in none."""
    return max((key for key in PRIVATE_HEADERS if name.startswith(key + "/")), key=len, default=None)


class Includes:
    """The complaints about the #includes of a tree, and which entries of PRIVATE_HEADERS it needs."""

    def __init__(self):
        self.needed = collections.defaultdict(set)

    def complaint(self, name, included):
        """Why the file `name` must not include `included`; None if it may."""
        user = user_of(name)
        if layer_of(included) is None:
            own_folder = user is not None and ("/" not in included or included.startswith("bindings/"))
            if not own_folder:
                return f'"{included}" names no layer; write "<layer>/<file>" or "shoal/<file>"'
        elif user is not None and not included.startswith("shoal/") and layer_of(included) != layer_of(name):
            self.needed[user].add(included)
            if included not in PRIVATE_HEADERS[user]:
                return f'{user} uses the public headers, and the private "{included}" is not on its list'
            return None
        if name.startswith("shoal/") and not included.startswith("shoal/"):
            return f'a public header includes the private "{included}"'
        if text := higher(name, included):
            return f'{name.rpartition("/")[0]} includes "{included}" of {text}'
        return None

    def check_file(self, path, name):
        """The complaints about one file, as (line, text)."""
        if user_of(name) is None and layer_of(name) is None:
            return [(1, f"{name} lies in no known layer; LAYERS of tools/check_layers.py lists them")]
        complaints = []
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if match := INCLUDE.match(line):
                if text := self.complaint(name, match[1] or match[2]):
                    complaints.append((number, text))
        return complaints

    def check_tree(self, root):
        """All complaints about the tree at `root`, as lines of "file:line: text"."""
        lines = []
        for top, prefix in TREES.items():
            for path in sorted((root / top).rglob("*")):
                if path.suffix in SOURCE_SUFFIXES and "installed" not in path.relative_to(root).parts:
                    name = prefix + path.relative_to(root / top).as_posix()
                    file = path.relative_to(root).as_posix()
                    lines += [f"{file}:{number}: {text}" for number, text in self.check_file(path, name)]
        for user, headers in PRIVATE_HEADERS.items():
            for header in sorted(set(headers) - self.needed[user]):
                lines.append(f'PRIVATE_HEADERS: {user} does not include "{header}" any more; take it from the list')
        return lines


def name_of_object(path):
    """The source of an object file, as in an #include: "core/buffer.cc" of …/shoal.dir/src/core/buffer.cc.o, and
    "core/*.cc" of …/shoal.dir/Unity/unity_….cxx.o whose source includes files of that folder."""
    if match := re.search(r"\.dir/(?:\./)?src/(.+\.cc)\.(?:o|obj)$", path):
        return match[1]
    if match := re.search(r"^(.+\.dir/(?:\./)?Unity/unity_.+)\.(?:o|obj)$", path):
        sources = re.findall(r'#include ".*/src/(.+)/[^/]+\.cc"', pathlib.Path(match[1]).read_text(encoding="utf-8"))
        return f"{sources[0]}/*.cc" if sources else None
    return None


def read_symbols(objects):
    """For each symbol the sources that define it, and those that need it without."""
    defined, needed = collections.defaultdict(set), collections.defaultdict(set)
    listing = subprocess.run(["nm", "-A", "--no-sort", *objects], check=True, capture_output=True, text=True).stdout
    for line in listing.splitlines():
        path, _, rest = line.rpartition(".o:")
        *_, kind, symbol = rest.split()
        source = name_of_object(path + ".o")
        if kind == "U":
            needed[symbol].add(source)
        elif kind in "TDBRVWuC":
            defined[symbol].add(source)
    return defined, needed


def check_calls(objects, allowed):
    """All complaints about the symbols that these object files need of each other."""
    objects = [path for path in objects if name_of_object(path)]
    if not objects:
        return ["--calls: the file lists no object of src/"]
    defined, needed = read_symbols(objects)
    upward = collections.defaultdict(set)
    for symbol, sources in needed.items():
        for source in sources if symbol in defined else ():
            places = sorted(defined[symbol])
            if all(higher(source, place) for place in places):
                upward[source, places[0]].add(symbol)
    lines = []
    called = {(source, place.rpartition("/")[0]) for source, place in upward}
    for (source, place), symbols in sorted(upward.items()):
        if (source, place.rpartition("/")[0]) not in allowed:
            names = subprocess.run(["c++filt", *sorted(symbols)], check=True, capture_output=True, text=True).stdout
            for text in names.splitlines():
                lines.append(f"src/{source} calls {text}, which src/{place} defines: {higher(source, place)}")
    for source, folder in sorted(set(allowed) - called):
        lines.append(f"CALLS_UP: {source} does not call {folder} any more; take it from the list")
    return lines


def expect(what, found, expected):
    if found != expected:
        sys.exit("\n".join([f"self test of {what} failed; found:", *found, "expected:", *expected]))


def write_tree(root, files):
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")


def test_includes():
    files = {
        "include/shoal/error.h": "#pragma once\n#include <string>\n",
        "include/shoal/dtype.h": '#include "shoal/error.h"\n#include "core/half.h"\n',
        "include/shoal/mesh.h": '#include "shoal/device.h"\n#include <shoal/array.h>\n',
        "include/shoal/shoal.h": '#include "shoal/array.h"\n#include "shoal/mesh.h"\n',
        "src/base/log.cc": '#include "base/log.h"\n\n  # include "core/buffer.h"\n',
        "src/core/buffer.h": '#include "base/check.h"\n// #include "ir/graph.h"\n#include <ir/not_ours.h>\n',
        "src/core/buffer.cc": '#include "buffer.h"\n',
        "src/backend/reference/interpreter.cc": '#include "ir/graph.h"\n#include "runtime/program.h"\n',
        "src/backend/cpu/cpu.cc": '#include "backend/cpu/products/dot.h"\n',
        "src/backend/cpu/moves/copy.cc": '#include "backend/cpu/loops/loop.h"\n#include "backend/cpu/fuse.h"\n',
        "src/comm/transport/channel.cc": '#include "comm/record/peers.h"\n#include "comm/transport/channel.h"\n',
        "src/comm/record/peers.cc": '#include "comm/transport/channel.h"\n',
        "src/comm/transport/channel_test.cc": '#include "comm/record/peers.h"\n',
        "src/frontend/array.cc": '#include "shoal/array.h"\n#include "backend/reference/interpreter.h"\n',
        "src/frontend/array/trace.cc": '#include "frontend/test_support.h"\n',
        "src/multihost/sync.cc": '#include "shoal/array.h"\n#include "multihost/sync.h"\n#include "ir/graph.h"\n',
        "src/ops/elementwise.def": '#include "frontend/array.h"\n',
        "src/attic/old.cc": "",
        "src/stray.cc": "",
        "src/README.md": '#include "nothing"\n',
        "python/bindings/core/array.cc": '#include "bindings/numpy/numpy.h"\n#include "frontend/array/trace.h"\n',
        "python/bindings/module.cc": '#include "bindings/lax/lax.h"\n#include "ops/rules.h"\n',
        "tools/shoal/run.cc": '#include "run.h"\n#include "base/env.h"\n#include "shoal/array.h"\n',
        "examples/first.cc": '#include <shoal/shoal.h>\n#include "base/env.h"\n',
    }
    expected = [
        'src/attic/old.cc:1: attic/old.cc lies in no known layer; LAYERS of tools/check_layers.py lists them',
        'src/backend/cpu/moves/copy.cc:1: backend/cpu/moves includes "backend/cpu/loops/loop.h" of the room '
        'backend/cpu/loops beside it',
        'src/backend/cpu/moves/copy.cc:2: backend/cpu/moves includes "backend/cpu/fuse.h" of the higher room '
        'backend/cpu',
        'src/backend/reference/interpreter.cc:2: backend/reference includes "runtime/program.h" of the higher layer '
        'runtime',
        'src/base/log.cc:3: base includes "core/buffer.h" of the higher layer core',
        'src/comm/transport/channel.cc:1: comm/transport includes "comm/record/peers.h" of the higher room comm/record',
        'src/core/buffer.cc:1: "buffer.h" names no layer; write "<layer>/<file>" or "shoal/<file>"',
        'src/frontend/array/trace.cc:1: frontend/array includes "frontend/test_support.h" of the higher room frontend',
        'src/multihost/sync.cc:3: multihost uses the public headers, and the private "ir/graph.h" is not on its list',
        'src/ops/elementwise.def:1: ops includes "frontend/array.h" of the higher layer frontend',
        'src/stray.cc:1: stray.cc lies in no known layer; LAYERS of tools/check_layers.py lists them',
        'include/shoal/dtype.h:2: a public header includes the private "core/half.h"',
        'include/shoal/mesh.h:2: shoal includes "shoal/array.h" of the higher layer frontend',
        'python/bindings/core/array.cc:1: bindings/core includes "bindings/numpy/numpy.h" of the higher room '
        'bindings/numpy',
        'python/bindings/module.cc:2: bindings uses the public headers, and the private "ops/rules.h" is not on its '
        'list',
        'examples/first.cc:2: examples uses the public headers, and the private "base/env.h" is not on its list',
        'PRIVATE_HEADERS: multihost does not include "core/buffer.h" any more; take it from the list',
    ]
    lists = {"multihost": ["core/buffer.h"], "bindings": [], "bindings/core": ["frontend/array/trace.h"],
             "tools/shoal": ["base/env.h"], "examples": []}
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        write_tree(root, files)
        kept = dict(PRIVATE_HEADERS)
        PRIVATE_HEADERS.clear()
        PRIVATE_HEADERS.update(lists)
        found = Includes().check_tree(root)
        PRIVATE_HEADERS.clear()
        PRIVATE_HEADERS.update(kept)
    expect("includes", found, expected)


def test_calls(compiler):
    """Compiles four files: of one the symbols lie above, of one in a room above, and two are as they should be. Then two
    as one, which need something above."""
    files = {
        "core/low.cc": "int top(); int listed(); template <class T> T shared(T x) { return x; }\n"
                       "int low() { return top() + listed() + shared(1); }\n",
        "runtime/top.cc": "int low(); template <class T> T shared(T x) { return x; }\n"
                          "int top() { return low() + shared(1); }\n",
        "backend/listed.cc": "int listed() { return 1; }\n",
        "comm/transport/channel.cc": "int record(); int channel() { return record(); }\n",
        "comm/record/record.cc": "int low(); int record() { return low(); }\n",
    }
    expected = [
        "src/comm/transport/channel.cc calls record(), which src/comm/record/record.cc defines: the higher room "
        "comm/record",
        "src/core/low.cc calls top(), which src/runtime/top.cc defines: the higher layer runtime",
        "CALLS_UP: core/low.cc does not call spmd any more; take it from the list",
    ]
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder) / "shoal.dir" / "src"
        write_tree(root, files)
        for name in files:
            subprocess.run([compiler, "-O0", "-c", str(root / name), "-o", str(root / name) + ".o"], check=True)
        allowed = {("core/low.cc", "backend"): "", ("core/low.cc", "spmd"): ""}
        found = check_calls([str(root / name) + ".o" for name in files], allowed)
        expect("calls", found, expected)

        unit = pathlib.Path(folder) / "shoal.dir" / "Unity" / "unity_core.cxx"
        unit.parent.mkdir()
        unit.write_text(f'#include "{root}/core/low.cc"\n', encoding="utf-8")
        subprocess.run([compiler, "-O0", "-c", str(unit), "-o", str(unit) + ".o"], check=True)
        found = check_calls([str(unit) + ".o", *(str(root / name) + ".o" for name in list(files)[1:3])], {})
        expect("calls of a unit", found, [
            "src/core/*.cc calls listed(), which src/backend/listed.cc defines: the higher layer backend",
            "src/core/*.cc calls top(), which src/runtime/top.cc defines: the higher layer runtime",
        ])
        expect("calls of nothing", check_calls(["nothing.o"], {}), ["--calls: the file lists no object of src/"])


def main():
    arguments = sys.argv[1:]
    if arguments and arguments[0] == "--self-test":
        test_includes()
        test_calls(arguments[1] if len(arguments) > 1 else "c++")
        return
    if arguments and arguments[0] == "--calls":
        complaints = check_calls(pathlib.Path(arguments[1]).read_text(encoding="utf-8").split(), CALLS_UP)
    else:
        complaints = Includes().check_tree(pathlib.Path(__file__).resolve().parent.parent)
    if complaints:
        sys.exit("\n".join(complaints))


if __name__ == "__main__":
    main()
