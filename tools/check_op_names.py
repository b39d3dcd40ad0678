#!/usr/bin/env python3
"""Checks that what is special about an op stands in its record, and nowhere else.

Reads the sources of FOLDERS, without tests, and finds

  names       comparisons of an op's name, and records that are looked up by name: the files where they stand, and how
              many, are listed in tools/op_names.txt with the reason. The list may only shrink: more than it says fails,
              and so does less, so that the list is cut down at once.
  attributes  attribute lists that are spelled by hand in the folders of BUILT, where ops/builder.h writes equations.

With --self-test, checks itself on small texts.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIST = ROOT / "tools" / "op_names.txt"

# Where ops are ops, and none is special.
FOLDERS = ["passes", "spmd", "runtime", "comm", "backend", "frontend/transforms", "frontend/array"]
# Where equations are written by the builder alone.
BUILT = ["passes", "spmd", "runtime"]

NAMED = [
    re.compile(r'(?:op->name|op\.name|\bname)\s*[!=]=\s*"'),       # op->name == "…", and a copy of it.
    re.compile(r'"\s*[!=]=\s*(?:\w+(?:->|\.))*op(?:->|\.)name'),   # the other way round
    re.compile(r'op(?:->|\.)name\.(?:starts_with|ends_with|substr|find)\('),
    re.compile(r'\b(?:op_named|find_op)\("'),
]
SPELLED = [
    re.compile(r'\{\{"\w+",'),                  # {{"axes", …}}
    re.compile(r'\battrs(?:\(\))?\.set\("'),    # attrs.set("axes", …)
    re.compile(r'"reduce_"\s*\+'),
]
COMMENT = re.compile(r"//.*")


def sources(folders):
    for folder in folders:
        for path in sorted((ROOT / "src" / folder).rglob("*")):
            is_test = path.stem.endswith("_test") or path.name.startswith("test_") or "test_support" in path.name
            if path.suffix in (".h", ".cc") and not is_test:
                yield path


def matches(text, patterns):
    """The numbers of the lines in which one of the patterns is found."""
    lines = (COMMENT.sub("", line) for line in text.splitlines())
    return [number for number, line in enumerate(lines, start=1) if any(p.search(line) for p in patterns)]


def read_list(text):
    """{file: count} of lines "count file: reason"."""
    allowed = {}
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        match = re.fullmatch(r"(\d+) (\S+): (\S.*)", line)
        if match is None:
            raise ValueError(f'"{line}" is not of the form "count file: reason"')
        allowed[match[2]] = int(match[1])
    return allowed


def compare(found, allowed):
    """What is wrong, for {file: lines} and {file: count}."""
    wrong = []
    for name in sorted(found.keys() | allowed.keys()):
        lines, count = found.get(name, []), allowed.get(name, 0)
        if len(lines) > count:
            where = ", ".join(map(str, lines))
            wrong.append(f"{name} singles out ops by name in lines {where}; {count} are listed. Put what is special "
                         "about the op into its record (src/ir/op.h)")
        if len(lines) < count:
            wrong.append(f"{name} singles out {len(lines)} ops by name, but {count} are listed: correct the list")
    return wrong


def check():
    found = {}
    for path in sources(FOLDERS):
        if lines := matches(path.read_text(encoding="utf-8"), NAMED):
            found[path.relative_to(ROOT).as_posix()] = lines
    wrong = [f"tools/op_names.txt: {text}" for text in compare(found, read_list(LIST.read_text(encoding="utf-8")))]
    for path in sources(BUILT):
        for number in matches(path.read_text(encoding="utf-8"), SPELLED):
            wrong.append(f"{path.relative_to(ROOT)}:{number}: attributes are spelled by hand; ops/builder.h writes "
                         "equations")
    return wrong


def self_test():
    text = 'if (eqn.op->name == "jit") {}\n// op->name == "x"\nop_named("add");\nname != "pvary"\n'
    assert matches(text, NAMED) == [1, 3, 4]
    assert matches('"jit" == eqn.op->name', NAMED) == [1]
    assert matches('op.name.starts_with("reduce_")', NAMED) == [1]
    assert matches('file_name_is("x"); stage.name == last', NAMED) == []
    assert matches('b.add_eqn(op, {{"axes", axes}}, {x})\ncopy.attrs.set("axes", a)\n"reduce_" + kind', SPELLED) == [1, 2, 3]
    assert matches("eqn.attrs.set(name, f(*mesh))", SPELLED) == []
    allowed = read_list("# why\n\n2 src/a.cc: because\n")
    assert allowed == {"src/a.cc": 2}
    assert compare({"src/a.cc": [3, 4]}, allowed) == []
    assert len(compare({"src/a.cc": [3, 4, 5]}, allowed)) == 1
    assert len(compare({"src/a.cc": [3]}, allowed)) == 1
    assert len(compare({"src/a.cc": [3, 4], "src/b.cc": [1]}, allowed)) == 1
    try:
        read_list("2 src/a.cc")
    except ValueError:
        pass
    else:
        raise AssertionError("a line without a reason was read")
    return []


def main():
    wrong = self_test() if sys.argv[1:] == ["--self-test"] else check()
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
