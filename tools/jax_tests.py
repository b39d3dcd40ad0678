#!/usr/bin/env python3
"""Runs JAX's own test files with Shoal in JAX's place, and counts what becomes of each method.

    git -C JAX_CHECKOUT archive TAG tests | tar x -C FOLDER
    python tools/jax_tests.py FOLDER/tests api_test lax_autodiff_test --jax JAX/bin/python
    python tools/jax_tests.py --count       # counts what was written before

It needs the Python package, and absl-py and scipy beside it. Tests get the helpers of tools/jax_tests_shim instead of
jax._src.test_util. A method ends in one of these ways:

    passed, skipped   as the test says
    private           it used a private module of JAX (jax._src, jax.interpreters, jaxlib) or an option of its insides
    text              it failed where it looks at jaxprs, lowered or compiled texts, logs or caches
    absent            it used a public name of JAX that Shoal has not
    other             it fails under the installed JAX, too (with --jax), which is another than that of the tests
    message           it raised the error that it should, in other words
    failed            anything else: what it says follows
    crashed, hung     the process died, or the method took longer than --limit seconds
"""

import argparse
import ast
import collections
import concurrent.futures
import importlib
import json
import os
import re
import subprocess
import sys
import time
import traceback
import types
import unittest
from pathlib import Path

# What a line that fails says when it looks at how JAX writes or stores programs.
_TEXTS = re.compile(
    r"jaxpr|as_text|compiler_ir|hlo|HLO|runtime_executable|__getstate__|assertLogs|cost_analysis|memory_analysis|"
    r"\.eqns|pformat|pretty|count\(\)|cache_miss|_cache_size|stablehlo|mlir|print_saved|saved_res|tracing_count|"
    r"\bin s$|\bin text\b|text\.count|matches\)|ExpectedDepth|should_be_(tracing|executing)|repr\(jit|_repr\b"
)
# What Shoal says where something is not there.
_ABSENT = re.compile(r"not there yet|no such compiler_options|Unknown backend: 'tpu'|[Dd]type (u?int[24]|float[48]_\w+)|"
                     r"data type '(u?int[24]|float[48]_\w+)'")

# Attributes of traced, lowered and compiled functions that give such texts and objects.
_TEXT_ATTRIBUTES = dict.fromkeys(
    "jaxpr params eqns primitive compiler_ir runtime_executable in_avals out_avals constvars invars outvars".split(), "text"
)


# In the worker.


def _plant(path):
    """Stand-ins for the public names that the file imports and that are not there."""
    from jax_tests_shim import stand_in_for

    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "jax":
            if not node.module.startswith("jax._src"):
                for alias in node.names:
                    stand_in_for(node.module, alias.name)


class _Guarded(ast.NodeTransformer):
    """Calls that begin on a line give a stand-in where Shoal refuses them as not there yet."""

    def __init__(self, lines):
        self.lines = lines

    def visit_Call(self, node):
        self.generic_visit(node)
        if node.lineno not in self.lines or any(isinstance(n, ast.Starred) for n in ast.walk(node)):
            return node
        name = ast.Name("_or_stand_in", ast.Load())
        empty = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        return ast.fix_missing_locations(ast.copy_location(ast.Call(name, [ast.Lambda(empty, node)], []), node))


def _or_stand_in(call):
    import jax_tests_shim

    try:
        return call()
    except NotImplementedError as error:
        if not jax_tests_shim.Loading.now:
            raise
        return jax_tests_shim.StandIn(jax_tests_shim.ABSENT, str(error))


def _imported(path):
    """The module of a test file. What is not there, and is used while it is imported, gets a stand-in."""
    from jax_tests_shim import stand_in_for

    sys.path.insert(0, str(path.parent))
    guarded = set()
    for _ in range(200):
        module = types.ModuleType(path.stem)
        module.__file__ = str(path)
        module._or_stand_in = _or_stand_in
        sys.modules[path.stem] = module
        tree = _Guarded(guarded).visit(ast.parse(path.read_text()))
        try:
            exec(compile(tree, str(path), "exec"), vars(module))
            return module
        except AttributeError as error:
            missing = re.match(r"module '(shoal[\w.]*)' has no attribute '(\w+)'", str(error))
            if missing is None:
                raise
            stand_in_for(*missing.groups())
        except NotImplementedError as error:
            line = _frame_of_test(error, path).lineno
            if line in guarded:
                raise
            guarded.add(line)
    raise ImportError(f"{path} uses too much that is not there")


def _methods(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from _methods(test)
        else:
            yield test


def _frame_of_test(error, path):
    """The innermost line of the test file in a traceback."""
    lines = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return lines[-1] if lines else None


def _verdict(error, path):
    from jax_tests_shim import ABSENT, PRIVATE, NotThere

    if isinstance(error, NotThere):
        return error.kind, error.name
    frame = _frame_of_test(error, path)
    where = f"{frame.name}:{frame.lineno}: {frame.line}" if frame else ""
    text = f"{type(error).__name__}: {error} | {where}"
    if "jax_tests_shim" in str(error) or "assertRaises() arg 1" in str(error) or "assertRaisesRegex() arg 1" in str(error):
        return PRIVATE, f"stand-in: {where}"
    if isinstance(error, NotImplementedError) or _ABSENT.search(str(error)):
        return ABSENT, str(error)
    if isinstance(error, AttributeError) and (missing := re.search(r"has no attribute '(\w+)'", str(error))):
        return _TEXT_ATTRIBUTES.get(missing[1], PRIVATE if missing[1].startswith("_") else ABSENT), str(error)
    if (frame and _TEXTS.search(frame.line or "")) or 'graph "' in str(error):
        return "text", text
    if isinstance(error, AssertionError) and re.search(r'^"(.|\n)*" does not match "', str(error)):
        return "message", text
    return "failed", text


class _Result(unittest.TestResult):
    def __init__(self, path, verdict):
        super().__init__()
        self.path, self.verdict, self.outcome = path, verdict, None

    def _record(self, kind, text=""):
        if self.outcome is None:
            self.outcome = kind, text

    def addSuccess(self, test):
        self._record("passed")

    def addSkip(self, test, reason):
        self._record("skipped", reason)

    def addExpectedFailure(self, test, error):
        self._record("passed")

    def addUnexpectedSuccess(self, test):
        self._record("failed", "it was expected to fail")

    def addError(self, test, error):
        self._record(*self.verdict(error[1], self.path))

    addFailure = addError

    def addSubTest(self, test, subtest, error):
        if error is not None:
            self.addError(test, error)


def work(job):
    """Runs the methods of one file but those that are done, and writes a line before and after each."""
    path = Path(job["file"])
    # Flags of absl are read in processes that parse a command line, which this is none of.
    from absl import flags

    flags.FLAGS(["jax_tests"], known_only=True)
    if job["under_jax"]:
        sys.path.insert(0, str(path.parent))
        module = importlib.import_module(path.stem)
    else:
        import jax_tests_shim

        jax_tests_shim.install()
        _plant(path)
        module = _imported(path)
        jax_tests_shim.Loading.now = False
    tests = {test.id(): test for test in _methods(unittest.TestLoader().loadTestsFromModule(module))}
    if job["under_jax"]:
        tests = _few_of_each(tests, set(job["only"]))
    with open(job["results"], "a", buffering=1) as out:
        def say(**line):
            out.write(json.dumps(line) + "\n")

        say(file=path.stem, collected=list(tests))
        for name, test in tests.items():
            if name in job["skip"]:
                continue
            say(begin=name)
            start = time.monotonic()
            result = _Result(path, _said_by_jax if job["under_jax"] else _verdict)
            test.run(result)
            kind, text = result.outcome or ("failed", "nothing was reported")
            say(test=name, outcome=kind, text=text[:600], seconds=round(time.monotonic() - start, 2))


def _few_of_each(tests, stems):
    """At most five cases of each method that is among these."""
    taken = collections.Counter()
    few = {}
    for name, test in tests.items():
        stem = _stem(name)
        if stem in stems and taken[stem] < 5:
            taken[stem] += 1
            few[name] = test
    return few


def _said_by_jax(error, path):
    return "failed", f"{type(error).__name__}: {error}"


# In the parent.


def _lines(path):
    with open(path) as lines:
        for line in lines:
            if line.endswith("\n"):
                yield json.loads(line)


def _state(path):
    """The methods that ended, the one that has begun, and how many are left."""
    done, begun, collected = {}, None, None
    for line in _lines(path):
        if "collected" in line:
            collected = line["collected"]
        elif "begin" in line:
            begun = line["begin"]
        else:
            done[line["test"]] = line
            begun = None
    return done, begun, collected


def _stem(name):
    """The name of a method without its case, which is another where other cases are chosen."""
    return re.sub(r"\d*( \(.*\))?$", "", name, flags=re.DOTALL)


def run_file(path, results, limit, python=None, only=()):
    """Runs one file in processes, each of which goes on where the one before it died; under JAX itself by its `python`."""
    results.write_text("")
    tools = str(Path(__file__).parent)
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([tools, os.environ.get("PYTHONPATH", "")]))
    environment.update(SHOAL_NUM_THREADS="1", JAX_PLATFORMS="cpu")
    job = dict(file=str(path), results=str(results), under_jax=python is not None, only=sorted(only))
    done_before = -1
    while True:
        done, _, collected = _state(results)
        if collected is not None and len(done) == len(set(collected)) or len(done) == done_before:
            return
        done_before = len(done)
        file = results.with_suffix(".job")
        file.write_text(json.dumps({**job, "skip": sorted(done)}))
        with open(results.with_suffix(".log"), "a") as log:
            worker = subprocess.Popen(
                [python or sys.executable, __file__, "--worker", str(file)], env=environment, stdout=log, stderr=log,
                preexec_fn=lambda: os.nice(10),
            )
        hung, size, since = False, -1, time.monotonic()
        while worker.poll() is None:
            time.sleep(0.2)
            if results.stat().st_size != size:
                size, since = results.stat().st_size, time.monotonic()
            if time.monotonic() - since > (limit if _state(results)[1] else 180):
                hung = True
                worker.kill()
                worker.wait()
        _, begun, _ = _state(results)
        if begun is not None:
            outcome = "hung" if hung else "crashed"
            text = f"more than {limit} s" if hung else f"exit status {worker.returncode}"
            with open(results, "a") as out:
                out.write(json.dumps(dict(test=begun, outcome=outcome, text=text, seconds=limit)) + "\n")


_FAILURES = ("message", "failed", "crashed", "hung")


def compare(path, results, limit, python):
    """Runs under JAX itself the methods that failed."""
    failed = {_stem(name) for name, line in _state(results)[0].items() if line["outcome"] in _FAILURES}
    if failed:
        run_file(path, results.with_suffix(".under_jax"), limit, python, failed)


def _outcomes(path):
    """The lines of the methods that ended. What JAX itself fails has an outcome of its own."""
    done, _, collected = _state(path)
    under_jax = path.with_suffix(".under_jax")
    if under_jax.exists():
        lines = _state(under_jax)[0]
        passed = {_stem(name) for name, line in lines.items() if line["outcome"] in ("passed", "skipped")}
        tried = {_stem(name) for name in lines}
        for name, line in done.items():
            if line["outcome"] in _FAILURES and _stem(name) in tried - passed:
                line["outcome"] = "other"
    return done, set(collected or [])


def count(paths):
    order = "passed skipped private text absent other message failed crashed hung".split()
    rows, reasons = [], collections.defaultdict(collections.Counter)
    for path in paths:
        done, collected = _outcomes(path)
        outcomes = collections.Counter(line["outcome"] for line in done.values())
        rows.append((path.stem, len(collected), *(outcomes[kind] for kind in order)))
        for line in done.values():
            if line["outcome"] in ("private", "absent"):
                reasons[line["outcome"]][line["text"].splitlines()[0][:90]] += 1
    rows.append(("all", *map(sum, zip(*(row[1:] for row in rows)))))
    for name, *cells in [("file", "collected", *order), *rows]:
        print(f"| {name} | " + " | ".join(map(str, cells)) + " |")
    for kind, texts in reasons.items():
        print(f"\n{kind}:", *(f"  {number} {text}" for text, number in texts.most_common(30)), sep="\n")


def main():
    if sys.argv[1:2] == ["--worker"]:
        return work(json.loads(Path(sys.argv[2]).read_text()))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, help="the folder tests/ of a checkout of JAX")
    parser.add_argument("files", nargs="*", help="names without .py")
    parser.add_argument("--results", type=Path, default=Path("build/jax_tests"), help="a folder")
    parser.add_argument("--limit", type=float, default=60, help="seconds that a method may take")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--jax", help="the interpreter of an environment with JAX, absl-py and scipy")
    parser.add_argument("--count", action="store_true", help="only counts what is in the folder of results")
    options = parser.parse_args()
    options.results.mkdir(parents=True, exist_ok=True)

    def run(name):
        path, results = options.folder / f"{name}.py", options.results / f"{name}.jsonl"
        run_file(path, results, options.limit)
        if options.jax:
            compare(path, results, options.limit, options.jax)

    if not options.count:
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(run, options.files))
    count(sorted(options.results.glob("*.jsonl")))


if __name__ == "__main__":
    main()
