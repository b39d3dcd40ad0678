#!/usr/bin/env python3
"""Runs the same work in Shoal and its peers, alternating, and prints how they compare as Markdown.

Every case is done by all sides in turn, for several rounds; the ratios are those of one round, of which the median is
shown. What the sides computed is compared, too: a difference is an error. README.md says more.
"""

import argparse
import dataclasses
import json
import pathlib
import platform
import re
import statistics
import sys
import tempfile
from typing import Callable

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "peers"))
import sides as peers  # noqa: E402

MIB = 1 << 20


@dataclasses.dataclass
class Goal:
    text: str
    reached: Callable  # of the case and all cases by name


def at_most(limit, text, jax=None, xla=None, torch=None):
    """A time, and what others took on the machine for which it was set: on another one the goal is reached, as a ratio,
    by being as many times faster than each of them that is there."""
    then = {"JAX": jax, "XLA in C++": xla, "PyTorch": torch}
    factors = {side: seconds / limit for side, seconds in then.items() if seconds}
    if factors:
        text += ", or a ratio of " + ", ".join(f"{factor:.2g} ({side})" for side, factor in factors.items())

    def reached(case, cases):
        if case.value("Shoal") <= limit:
            return "yes"
        there = {side: factor for side, factor in factors.items() if case.values(side)}
        return "as a ratio" if there and all(case.ratio(side) >= there[side] for side in there) else False

    return Goal(text, reached)


def of_limit(share):
    return Goal(f"≥ {share} of the limit", lambda case, cases: case.ratio("limit") >= share)


def of_best(share):
    return Goal(f"≥ {share} of the best", lambda case, cases: case.ratio(case.best(("limit",))) >= share)


def times_limit(factor):
    return Goal(f"≤ {factor} × the limit", lambda case, cases: case.ratio("limit") * factor >= 1)


def times_case(factor, other):
    return Goal(f"≤ {factor} × {other}",
                lambda case, cases: case.value("Shoal") <= factor * cases[other].value("Shoal"))


def at_most_of(side):
    return Goal(f"≤ {side}", lambda case, cases: case.ratio(side) >= 1)


LOWEST = Goal("the lowest", lambda case, cases: case.ratio(case.best()) >= 1)


@dataclasses.dataclass
class Case:
    """One thing that is measured."""

    name: str
    request: dict
    goal: Goal
    limit: dict | None = None  # what the limit's side is asked
    without: tuple = ()  # sides that cannot do it, or would mean something else by it
    new_process: bool = False  # for each measurement
    figure: str = "seconds"  # what of the answer is measured
    work: float = 0  # bytes or operations; 0: the time itself is shown
    unit: str = ""
    cache: str = ""  # "fresh": Shoal has nothing compiled on disk; "kept": it has what it needs
    devices: int = 8
    tolerance: float = 1e-4
    rounds: list = dataclasses.field(default_factory=list)  # {side: figure}
    problems: list = dataclasses.field(default_factory=list)
    foreign: float = 0

    def values(self, side):
        return [round_[side] for round_ in self.rounds if side in round_]

    def value(self, side):
        values = self.values(side)
        return statistics.median(values) if values else float("nan")

    def ratio(self, side):
        """How many times Shoal is better than a side."""
        ratios = [round_[side] / round_["Shoal"] for round_ in self.rounds if side in round_ and "Shoal" in round_]
        return statistics.median(ratios) if ratios else float("nan")

    def best(self, more=()):
        peers_ = [side for side in ("JAX", "XLA in C++", "Open MPI", "PyTorch", *more) if self.values(side)]
        return min(peers_, key=self.value, default="JAX")

    def show(self, side):
        value = self.value(side)
        if value != value:
            return "–"
        if self.figure == "mib":
            return f"{value:.0f} MiB"
        if self.work:
            return f"{self.work / value * 1e-9:.3g} {self.unit}"
        for scale, unit in ((1, "s"), (1e-3, "ms"), (1e-6, "µs")):
            if value >= scale:
                return f"{value / scale:.3g} {unit}"
        return f"{value * 1e9:.3g} ns"


@dataclasses.dataclass
class Line:
    """A line of the table: several cases."""

    title: str
    cases: list


def lines(weights):
    gpt = {"function": "gpt", "file": str(weights), "module": str(weights.with_suffix(""))}
    first = {"new_process": True, "cache": "fresh", "tolerance": 1e-3}

    def compile_cases(goals, traced):
        more = {"trace": "{folder}/trace.json"} if traced else {}
        of = "compile " if traced else "first call "
        return [
            Case(of + "sigmoid", {"work": "compile", "function": "sigmoid"} | more, goals[0], **first),
            Case(of + "GPT", {"work": "compile"} | gpt | more, goals[1], **first),
            Case(of + "GPT (2,4)", {"work": "compile", "mesh": [2, 4]} | gpt | more, goals[2],
                 without=("XLA in C++", "PyTorch"), **first),
        ]

    elementwise, donated = [], []
    for function, share in (("sigmoid", 0.9), ("axpb", 0.9), ("sin", 0.6)):
        for mib in (64, 512):
            for devices in (1, 8):
                request = {"work": "elementwise", "function": function, "mib": mib, "devices": devices}
                name = f"{function} {mib} MiB, {devices} dev"
                more = {"work": 2 * mib * MIB, "unit": "GB/s"}
                elementwise.append(Case(name, request, of_limit(share), {"work": "copy", "mib": mib}, **more))
                if function != "sin":
                    donated.append(Case(name + " donated", request | {"donated": True}, of_limit(0.9),
                                        {"work": "in_place", "mib": mib}, **more))
    reductions = [Case("sum 512 MiB", {"work": "elementwise", "function": "sum", "mib": 512}, of_limit(0.9),
                       {"work": "read", "mib": 512}, work=512 * MIB, unit="GB/s")]
    for function in ("softmax", "layer_norm"):
        reductions.append(Case(f"{function} 64 MiB", {"work": "elementwise", "function": function, "mib": 64,
                                                      "columns": 1024},
                               of_limit(0.8), {"work": "copy", "mib": 64}, work=128 * MIB, unit="GB/s"))
    products, half = [], []
    for n in (1024, 2048, 4096):
        more = {"work": 2 * n**3, "unit": "GF/s", "tolerance": 1e-3}
        limit = {"work": "matmul", "n": n}
        for split in ("none", "batch", "contraction"):
            share = {"none": 0.97, "batch": 0.97}.get(split, 0.85 if n == 1024 else 0.9)
            request = {"work": "matmul", "n": n, "split": split, "devices": 1 if split == "none" else 8}
            name = f"f32 {n} " + {"none": "1 dev", "batch": "batch over 8"}.get(split, "contraction over 8")
            products.append(Case(name, request, of_best(share), limit, **more))
        if n > 1024:
            bf16 = {"work": "matmul", "n": n, "dtype": "bf16"}
            half.append(Case(f"bf16 {n}", bf16, of_best(0.95), bf16, **more | {"tolerance": 2e-2}))

    def collective(kind, size, goal, limit=None):
        text = f"{size >> 20} MiB" if size >= MIB else f"{size >> 10} KiB"
        return Case(f"{kind} {text}", {"work": "collective", "kind": kind, "bytes": size}, goal, limit)

    big, copy_all = 64 * MIB, {"work": "copy", "mib": 512}
    one_pass = {"work": "add", "bytes": big}
    others = ("all_gather", "psum_scatter", "all_to_all", "ppermute")
    calls = {"work": "call"}
    return [
        Line("process start to first result of a jitted function on an array sharded over 8 devices", [
            Case("start", {"work": "first_result", "devices": 8}, at_most(10e-3, "≤ 10 ms", jax=0.63, xla=48e-3),
                 new_process=True, figure="wall", cache="kept")]),
        Line("cached call of jit(x+1), 8 elements, 1 device", [
            Case("call", calls, at_most(0.5e-6, "≤ 0.5 µs", jax=4.6e-6, xla=2.1e-6))]),
        Line("the same sharded over 8 devices; psum over 8", [
            Case("call over 8", calls | {"devices": 8}, at_most(2e-6, "≤ 2 µs", jax=140e-6, xla=74e-6)),
            Case("psum over 8", {"work": "call_psum", "devices": 8},
                 at_most(3e-6, "≤ 3 µs", jax=335e-6, xla=246e-6))]),
        Line("eager x+1 on a new shape; later", [
            Case("eager, new shape", {"work": "eager_new_shape"}, at_most(1e-4, "≤ 0.1 ms", jax=10e-3)),
            Case("eager", {"work": "eager"}, at_most(1e-6, "≤ 1 µs", jax=10e-6))]),
        Line("sigmoid; GPT forward on 1 device; on a (2,4) mesh: from the first call to the first result",
             compile_cases((at_most(5e-3, "≤ 5 ms", jax=21e-3, xla=30e-3),
                            at_most(0.25, "≤ 0.25 s", jax=0.57), at_most(0.3, "≤ 0.3 s", jax=1.05)), False) + [
                 Case("first call GPT (2,4,512)", {"work": "compile", "mesh": [2, 4, 512]} | gpt,
                      times_case(1.5, "first call GPT (2,4)"), devices=4096, without=("JAX", "XLA in C++", "PyTorch"),
                      **first)]),
        Line("the same: total time spent compiling until steady speed, cold cache; warm cache",
             compile_cases((at_most(25e-3, "≤ 25 ms", jax=20e-3), at_most(0.25, "≤ 0.25 s", jax=0.43),
                            at_most(0.3, "≤ 0.3 s", jax=0.88)), True) + [
                 dataclasses.replace(case, name=case.name + " warm", cache="kept", goal=at_most(0.05, "≤ 0.05 s"),
                                     without=("JAX", "XLA in C++", "PyTorch"), rounds=[], problems=[])
                 for case in compile_cases((None,) * 3, True)]),
        Line("sigmoid, a·x+b, 2·sin+1, 64 MiB and 512 MiB, 1 and 8 devices, fresh output", elementwise),
        Line("the same donated", donated),
        Line("sum over 512 MiB; softmax and layer norm over rows of 64 MiB", reductions),
        Line("f32 matmul 1024, 2048, 4096: 1 device, batch-sharded 8, contraction-sharded 8", products),
        Line("bf16 matmul 2048, 4096", half),
        Line("psum over 8: 4 KiB; 1 MiB; 64 MiB per device", [
            collective("psum", 4096, at_most(3e-6, "≤ 3 µs", jax=0.36e-3, xla=0.25e-3)),
            collective("psum", MIB, at_most(2e-4, "≤ 0.2 ms", jax=0.74e-3, xla=0.55e-3),
                       {"work": "add", "bytes": MIB}),
            collective("psum", big, times_limit(1.3), one_pass)]),
        Line("all_gather, psum_scatter, all_to_all, ppermute, 64 MiB per device over 8", [
            collective(kind, big, times_limit(1.3), one_pass if kind == "psum_scatter" else copy_all)
            for kind in others]),
        Line("the same at 4 KiB", [collective(kind, 4096, at_most(5e-6, "≤ 5 µs", jax=340e-6)) for kind in others]),
        Line("device_put of 256 MiB replicated on 8", [
            Case("device_put, time", {"work": "replicate"}, times_limit(1.3), {"work": "copy_to_new", "mib": 256},
                 new_process=True),
            Case("device_put, memory", {"work": "replicate"}, at_most(264, "≤ +264 MiB"), new_process=True,
                 figure="mib"),
            Case("device_put of a device's array, memory", {"work": "replicate", "from_device": True},
                 at_most(8, "0 (≤ 8 MiB)"), new_process=True, figure="mib")]),
        Line("GPT forward, batch 8: 1 device; (2,4) mesh", [
            Case("GPT", gpt | {"work": "gpt"}, at_most(0.115, "≤ 0.115 s", jax=0.135, torch=0.14), tolerance=1e-3),
            Case("GPT (2,4)", gpt | {"work": "gpt", "mesh": [2, 4]}, times_case(1.1, "GPT"), tolerance=1e-3,
                 without=("XLA in C++", "PyTorch"))]),
        Line("peak memory of that forward", [
            Case("GPT, memory", gpt | {"work": "gpt"}, LOWEST, figure="mib", new_process=True, tolerance=1e-3),
            Case("GPT (2,4), memory", gpt | {"work": "gpt", "mesh": [2, 4]}, LOWEST, figure="mib", new_process=True,
                 tolerance=1e-3, without=("XLA in C++", "PyTorch"))]),
        *lines_of_jobs(gpt),
    ]


def lines_of_jobs(gpt):
    """Several processes on this machine."""

    def batch(size):
        return max(1, min(200, (4 * MIB) // size))

    def psum(size, goal, **more):
        text = f"{size >> 20} MiB" if size >= MIB else f"{size >> 10} KiB"
        return Case(f"2 × 1: psum {text}" + (", sockets" if more else ""),
                    {"work": "job_psum", "processes": 2, "bytes": size, "batch": batch(size)} | more, goal)

    def moves(kind, shards):
        """`shards`: how many of 64 MiB all processes together must at least read and write, each to hold its result."""
        return Case(f"2 × 4: {kind} 64 MiB",
                    {"work": "job_collective", "kind": kind, "processes": 2, "devices": 4, "bytes": 64 * MIB},
                    times_limit(1.5), {"work": "copy", "mib": 32 * shards})

    two = {"processes": 2}
    eight = {"processes": 8}
    return [
        Line("initialize, 2 processes; 8", [
            Case("initialize 2", {"work": "job_start"} | two, at_most(50e-3, "≤ 50 ms")),
            Case("initialize 8", {"work": "job_start"} | eight, at_most(150e-3, "≤ 150 ms"))]),
        Line("launching 2 processes that do nothing, beyond one of them", [
            Case("launcher 2", {"work": "nothing"} | two, at_most(30e-3, "≤ 30 ms"), figure="beyond")]),
        Line("barrier, 2 processes; 8", [
            Case("barrier 2", {"work": "job_barrier", "batch": 200} | two, at_most(20e-6, "≤ 20 µs", jax=0.83e-3)),
            Case("barrier 8", {"work": "job_barrier", "batch": 20} | eight, at_most(1e-3, "≤ 1 ms", jax=14e-3))]),
        Line("psum over 2 processes of 1 device, in a loop of the host: 4 KiB; 1 MiB; 64 MiB per device", [
            psum(4096, at_most(2.5e-6, "≤ 2.5 µs")), psum(MIB, at_most(70e-6, "≤ 70 µs")),
            psum(64 * MIB, at_most(12e-3, "≤ 12 ms"))]),
        Line("psum, all_gather, psum_scatter, all_to_all, ppermute over 2 processes of 4 devices, 64 MiB per device", [
            moves("psum", 12), moves("all_gather", 32), moves("psum_scatter", 11), moves("all_to_all", 16),
            moves("ppermute", 4)]),
        Line("the psum over sockets", [
            psum(size, at_most_of("Open MPI"), sockets=True) for size in (4096, MIB, 64 * MIB)]),
        Line("GPT forward over processes: 2 × 4 on (2,4); 2 × 1, the batch split", [
            Case("2 × 4: GPT (2,4)", gpt | two | {"work": "job_gpt", "mesh": [2, 4], "devices": 4},
                 times_case(1.15, "GPT (2,4)"), tolerance=1e-3),
            Case("2 × 1: GPT (2,1)", gpt | two | {"work": "job_gpt", "mesh": [2, 1]}, times_case(1.15, "GPT"),
                 tolerance=1e-3)]),
    ]


# ---- Measuring.


def compare_samples(case, samples):
    """Notes sides that computed something else than the first."""
    (reference, wanted), *others = samples.items() if samples else [(None, None)]
    for side, got in others:
        # None is what C++ sides write for NaN.
        far = [(w, g) for w, g in zip(wanted, got)
               if w is None or g is None or not abs(w - g) <= case.tolerance * (1 + abs(w))]
        if len(wanted) != len(got) or far:
            case.problems.append(f"{side} differs from {reference}: {far[0] if far else 'another size'}")


def measure(case, sides, options, folder):
    """One round of a case."""
    figures, samples = {}, {}
    for name, side in sides.items():
        request = case.limit if name == "limit" else case.request
        if request is None or name in case.without:
            continue
        text = json.dumps(request | {"budget": options.budget}).replace("{folder}", str(folder))
        request = json.loads(text)
        env = {}
        if name == "Shoal":
            env["SHOAL_NUM_CPU_DEVICES"] = str(case.devices)
            if case.cache == "fresh":
                env["SHOAL_CACHE_DIR"] = tempfile.mkdtemp(dir=folder)
            elif case.cache == "kept" and not case.rounds:
                side.ask_new(request, env)  # fills the cache
        if "processes" in request:
            answer = side.ask_job(request, env)
        elif case.new_process and name != "limit":
            answer = side.ask_new(request, env)
        else:
            answer = side.ask(request)
        if "error" in answer:
            case.problems.append(f"{name}: {answer['error']}")
        elif "unsupported" not in answer:
            figures[name] = answer["seconds" if name == "limit" else case.figure]
            if answer.get("sample") and (name != "limit" or request["work"] in ("matmul", "add")):
                samples[name] = answer["sample"]
    case.rounds.append(figures)
    compare_samples(case, samples)


# ---- The tables.


def ratio_text(value):
    return "–" if value != value else f"{value:.3g}"


def least(values):
    values = [value for value in values if value == value]
    return min(values) if values else float("nan")


def verdict(case, cases):
    if case.problems or not case.values("Shoal"):
        return "failed"
    try:
        reached = case.goal.reached(case, cases)
        return reached if isinstance(reached, str) else "yes" if reached else "no"
    except KeyError:
        return "?"


def summary(table, cases):
    """A row for each line: its least ratios, and how many of its cases reach their goal."""
    yield "| work | JAX ÷ Shoal | best peer ÷ Shoal | limit ÷ Shoal | to reach | reached |"
    yield "|---|---|---|---|---|---|"
    for line in table:
        goals = "; ".join(dict.fromkeys(case.goal.text for case in line.cases))
        reached = sum(verdict(case, cases) in ("yes", "as a ratio") for case in line.cases)
        ratios = [least(case.ratio(side(case)) for case in line.cases)
                  for side in (lambda c: "JAX", lambda c: c.best(), lambda c: "limit")]
        yield (f"| {line.title} | {' | '.join(map(ratio_text, ratios))} | {goals} | "
               f"{reached} of {len(line.cases)} |")


def details(table, cases, names):
    """A row for each case, with what was measured."""
    yield "| case | " + " | ".join(names) + " | JAX ÷ Shoal | best peer ÷ Shoal | limit ÷ Shoal | to reach | reached |"
    yield "|---" * (len(names) + 6) + "|"
    for line in table:
        for case in line.cases:
            mark = "" if case.foreign <= 0.1 else f" ({case.foreign:.1f} cores busy with other work)"
            shown = [case.show(name) for name in names]
            ratios = [ratio_text(case.ratio(side)) for side in ("JAX", case.best(), "limit")]
            yield f"| {case.name}{mark} | {' | '.join(shown + ratios)} | {case.goal.text} | {verdict(case, cases)} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, help="where the peers are kept; default: a temporary folder")
    parser.add_argument("--build", type=pathlib.Path, default=peers.ROOT / "build" / "release", help="Shoal's build")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--budget", type=float, default=1.0, help="seconds for each measurement")
    parser.add_argument("--only", default="", help="a regular expression: cases whose names match it")
    parser.add_argument("--sides", default="", help="a regular expression: sides whose names match it")
    parser.add_argument("--wait", type=float, default=60, help="seconds to wait at most for a quiet machine, each case")
    parser.add_argument("--with-torch", action="store_true", help="install PyTorch, 6 GB, and compare with it, too")
    parser.add_argument("--json", type=pathlib.Path, help="writes all that was measured")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.folder or pathlib.Path(temporary)).resolve()
        sides = peers.set_up(folder, options.build.resolve(), options.with_torch)
        weights = folder / "gpt.bin"
        if not (folder / "gpt.mlir").exists():
            answer = sides["JAX"].ask_new({"work": "write_gpt", "file": str(weights)}, {})
            if "error" in answer:
                sys.exit(f"the weights could not be written: {answer['error']}")
        sides = {name: side for name, side in sides.items() if re.search(options.sides, name)}
        table = [Line(line.title, [case for case in line.cases if re.search(options.only, case.name)])
                 for line in lines(weights)]
        table = [line for line in table if line.cases]
        cases = {case.name: case for line in table for case in line.cases}
        try:
            for case in cases.values():
                peers.wait_until_quiet(options.wait)
                load = peers.ForeignLoad(list(sides.values()))
                with tempfile.TemporaryDirectory(dir=folder) as scratch:
                    for _ in range(options.rounds):
                        measure(case, sides, options, pathlib.Path(scratch))
                case.foreign = load.cores()
                shown = ", ".join(f"{name} {case.show(name)}" for name in sides if case.values(name))
                print(f"{case.name}: {shown} {'; '.join(case.problems)}", file=sys.stderr, flush=True)
        finally:
            for side in sides.values():
                side.stop()

    print("\n".join(summary(table, cases)), "\n")
    print("\n".join(details(table, cases, list(sides))))
    for case in cases.values():
        for problem in dict.fromkeys(case.problems):
            print(f"\n{case.name}: {problem}")
    if options.json:
        options.json.write_text(json.dumps({
            "machine": platform.processor() or platform.machine(), "rounds": options.rounds, "budget": options.budget,
            "cases": [{"line": line.title, "name": case.name, "figure": case.figure, "rounds": case.rounds,
                       "work": case.work, "unit": case.unit, "goal": case.goal.text, "foreign_cores": case.foreign,
                       "reached": verdict(case, cases), "problems": case.problems}
                      for line in table for case in line.cases]}, indent=1))
    sys.exit(1 if any(case.problems for case in cases.values()) else 0)


if __name__ == "__main__":
    main()
