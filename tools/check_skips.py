#!/usr/bin/env python3
"""Tells which tests the last run of ctest skipped, also within a test binary and within pytest.

    check_skips.py [--strict] BUILD_FOLDER
    check_skips.py --self-test

tests/skips.txt lists those that may be skipped, each with its reason. With --strict it fails if another was, or if one is
listed that does not exist."""

import argparse
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tests" / "skips.txt"

IN_GTEST = re.compile(r"^\[ +(RUN|SKIPPED) +\] (\S+?\.[^\s,]+)")
IN_PYTEST = re.compile(r"^SKIPPED (\S+?::.+?) - (?:Skipped: )?(.*)$")


def read_results(results):
    """The names of all tests that ctest tells of, and of those that were skipped, with what is said of it."""
    known, skipped = set(), {}
    for test in ElementTree.fromstring(results).iter("testcase"):
        name, before, inside = test.get("name"), "", {}
        known.add(name)
        for line in test.findtext("system-out", "").splitlines():
            if case := IN_GTEST.match(line):
                # ctest calls a case by its own name, or runs all cases of a folder under the folder's name.
                full = name if name.endswith(case[2]) else f"{name}.{case[2]}"
                known.add(full)
                if case[1] == "SKIPPED":
                    inside.setdefault(full, before)
            elif case := IN_PYTEST.match(line):
                inside[case[1]] = case[2]
            before = line.strip() or before
        if not inside and test.find("skipped") is not None:
            inside[name] = before
        skipped |= inside
    return known, skipped


def read_list(text):
    """Tests that may be skipped and the reason of each; other lines are mistakes."""
    reasons, mistakes = {}, []
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        name, _, reason = line.partition("  # ")
        if not reason or name in reasons:
            mistakes.append(line)
        reasons[name] = reason
    return reasons, mistakes


def exists(name, known):
    """Whether ctest tells of the test; pytest does not name those that pass, so its files are looked into."""
    path, _, function = name.partition("::")
    if not function:
        return name in known
    source = ROOT / path
    return source.exists() and f"def {function.partition('[')[0]}(" in source.read_text()


def faults(results, allowed):
    """What is wrong, and a line for each test that was skipped."""
    known, skipped = read_results(results)
    reasons, mistakes = read_list(allowed)
    wrong = [f"{LIST.name}: not a name, two blanks, # and a reason, or named twice: {line}" for line in mistakes]
    wrong += [f"{name} was skipped, and is not listed: {said}" for name, said in skipped.items() if name not in reasons]
    wrong += [f"{name} is listed, but does not exist" for name in reasons if not exists(name, known)]
    return wrong, [f"skipped: {name} ({reasons.get(name, said)})" for name, said in skipped.items()]


SELF_TEST = """<testsuite>
<testcase name="core.Dtype.Rounds" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/><system-out>
[ RUN      ] Dtype.Rounds
src/core/dtype_test.cc:3: Skipped
no such type

[  SKIPPED ] Dtype.Rounds (0 ms)
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] Dtype.Rounds
</system-out></testcase>
<testcase name="threads" status="run"><system-out>
[ RUN      ] Threads.Count/0
one core
[  SKIPPED ] Threads.Count/0, where GetParam() = 1 (0 ms)
[ RUN      ] Threads.Run
[       OK ] Threads.Run (2 ms)
</system-out></testcase>
<testcase name="python" status="run"><system-out>SKIPPED python/tests/test_types.py::test_stubs - Skipped: no mypy
SKIPPED python/tests/test_seeds.py::test_launchers[shoal run] - no tool - at all
</system-out></testcase>
<testcase name="installed" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/><system-out>nothing was installed
</system-out></testcase>
<testcase name="comm.Role.DISABLED_plays" status="disabled"><system-out>Disabled</system-out></testcase>
</testsuite>"""


def self_test():
    skipped = read_results(SELF_TEST)[1]
    assert skipped == {
        "core.Dtype.Rounds": "no such type", "threads.Threads.Count/0": "one core",
        "python/tests/test_types.py::test_stubs": "no mypy",
        "python/tests/test_seeds.py::test_launchers[shoal run]": "no tool - at all", "installed": "nothing was installed",
    }, skipped
    full = "\n".join(f"{name}  # because" for name in skipped)
    assert faults(SELF_TEST, full)[0] == []
    assert faults(SELF_TEST, full + "\nthreads.Threads.Run  # may be")[0] == []
    assert len(faults(SELF_TEST, "")[0]) == 5
    for line in ("threads.Threads.Gone  # because", "python/tests/test_types.py::test_gone  # because", "installed",
                 "installed  # twice"):
        assert len(faults(SELF_TEST, f"{full}\n{line}")[0]) == 1, line


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("build", nargs="?", type=Path)
    options = parser.parse_args()
    if options.self_test:
        self_test()
        return
    if options.build is None:
        parser.error("BUILD_FOLDER is missing")
    wrong, skipped = faults((options.build / "Testing" / "results.xml").read_bytes(), LIST.read_text())
    print("\n".join(skipped or ["no test was skipped"]))
    if options.strict and wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
