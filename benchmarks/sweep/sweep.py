#!/usr/bin/env python3
"""Times every public function beside JAX's, and compares what they compute.

    sweep.py --jax PYTHON [--shoal PYTHON] --results FILE [--only REGEX] [--part I/N] [--rounds N]
    sweep.py --results FILE --summary

PYTHON is an interpreter that has the package. The rows are those of rows.py, each with 8 elements, 512 KiB and 64 MiB of
f32, on one device and split over eight, forward and, where a row says so, its gradient. Both sides run in turns of a few
rows, and again where Shoal was slower; what is in FILE already is not measured again, so that a sweep that was cut goes on.
A call that takes over 5 s counts as 8 x.

The summary gives the geometric mean of JAX's time over Shoal's, each between 1/8 and 8, and the rows that are slower
than JAX's: those with an upper quartile of the rounds' ratios below 0.95.
"""

import argparse
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys

import rows as table

FOLDER = pathlib.Path(__file__).resolve().parent
TOGETHER = 12  # Entries of a turn.
MOST = 8.0
SLOWER = 0.95
LEAST = 1e-2  # Results that should be zero are compared with this.


def entries(options):
    chosen = [row for row in table.ROWS if re.search(options.only, row.name)]
    part, parts = (int(n) for n in options.part.split("/"))
    made = []
    for row in chosen[part - 1 :: parts]:
        for bits in options.bits:
            for devices in options.devices:
                for gradient in (False, True) if row.gradient else (False,):
                    made.append(
                        {
                            "name": row.name,
                            "expression": row.expression,
                            "inputs": row.inputs,
                            "elements": 1 << bits,
                            "devices": devices,
                            "gradient": gradient,
                        }
                    )
    return made


def key_of(entry):
    return (entry["name"], entry["elements"], entry["devices"], entry["gradient"])


def run(python, side, chunk):
    environment = {
        **os.environ,
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
        "SHOAL_NUM_CPU_DEVICES": "8",
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": str(FOLDER),
    }
    lines = "\n".join(json.dumps(entry) for entry in chunk)
    done = subprocess.run(
        [python, str(FOLDER / "side.py"), side], input=lines, env=environment, capture_output=True, text=True, timeout=1800
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    # Whoever ends a process takes the entry with it at which it ended.
    return found + [{"error": f"the process ended: {done.stderr[-200:]}"}] * (len(chunk) - len(found))


def differences(entry, shoal, jax, tolerance):
    """What differs, in words; nothing where results are alike or not comparable."""
    if tolerance is None or "samples" not in shoal or "samples" not in jax:
        return ""
    if [len(leaf) for leaf in shoal["samples"]] != [len(leaf) for leaf in jax["samples"]]:
        return "other shapes"
    for ours, theirs in zip(shoal["samples"], jax["samples"]):
        numbers = [abs(v) for v in theirs if not isinstance(v, str)]
        most = max(numbers, default=0.0)
        for a, b in zip(ours, theirs):
            if isinstance(a, str) or isinstance(b, str):
                if a != b:
                    return f"{a} for {b}"
            elif abs(a - b) > tolerance * max(most, LEAST):
                return f"{a:.9g} for {b:.9g}, the greatest being {most:.3g}"
    return ""


def measure_together(options, chunk, found):
    for _ in range(options.rounds):
        for side, python in (("shoal", options.shoal), ("jax", options.jax)):
            for one, result in zip(found, run(python, side, chunk)):
                one[side].append(result)


def measure(options):
    known = set()
    path = pathlib.Path(options.results)
    if path.exists():
        known = {key_of(json.loads(line)) for line in path.read_text().splitlines()}
    todo = [entry for entry in entries(options) if key_of(entry) not in known]
    tolerances = {row.name: row.tolerance for row in table.ROWS}
    with path.open("a") as out:
        for first in range(0, len(todo), TOGETHER):
            chunk = todo[first : first + TOGETHER]
            found = [{"shoal": [], "jax": []} for _ in chunk]
            measure_together(options, chunk, found)
            again = [i for i, one in enumerate(found) if statistics.median(ratios_of(one) or [1]) < 1]
            if again:
                measure_together(options, [chunk[i] for i in again], [found[i] for i in again])
            for entry, one in zip(chunk, found):
                difference = differences(entry, one["shoal"][0], one["jax"][0], tolerances[entry["name"]])
                for results in one.values():
                    for result in results:
                        result.pop("samples", None)
                print(json.dumps({**entry, **one, "difference": difference}), file=out, flush=True)
            print(f"{first + len(chunk)} of {len(todo)}", file=sys.stderr)


def ratios_of(entry):
    """JAX's time over Shoal's in each round; nothing if one of them has none."""
    pairs = zip(entry["shoal"], entry["jax"])
    return sorted(j["seconds"] / s["seconds"] for s, j in pairs if "seconds" in s and "seconds" in j)


def milliseconds(results):
    times = [result["seconds"] for result in results if "seconds" in result]
    return f"{statistics.median(times) * 1e3:.3g}" if times else "-"


def geometric_mean(ratios):
    return math.exp(statistics.mean(math.log(min(MOST, max(1 / MOST, ratio))) for ratio in ratios))


def summarize(options):
    lines = [json.loads(line) for line in pathlib.Path(options.results).read_text().splitlines()]
    groups = {}
    for entry in lines:
        group = (entry["devices"], "gradient" if entry["gradient"] else "forward", entry["elements"])
        groups.setdefault(group, []).append(entry)
    print("| devices | | elements | rows | JAX / Shoal | slower |\n|---|---|---|---|---|---|")
    slow = []
    for group, members in sorted(groups.items()):
        measured = [(entry, ratios_of(entry)) for entry in members]
        measured = [(entry, ratios) for entry, ratios in measured if ratios]
        if not measured:
            continue
        behind = [
            (entry, ratios) for entry, ratios in measured if ratios[min(len(ratios) - 1, 3 * len(ratios) // 4)] < SLOWER
        ]
        slow += behind
        mean = geometric_mean([statistics.median(ratios) for _, ratios in measured])
        print(f"| {group[0]} | {group[1]} | {group[2]:,} | {len(measured)} | {mean:.2f} | {len(behind)} |")
    print("\n| slower | elements | devices | Shoal, ms | JAX, ms | JAX / Shoal |\n|---|---|---|---|---|---|")
    for entry, ratios in sorted(slow, key=lambda one: statistics.median(one[1])):
        title = entry["name"] + (", gradient" if entry["gradient"] else "")
        print(
            f"| {title} | {entry['elements']:,} | {entry['devices']} | {milliseconds(entry['shoal'])} | "
            f"{milliseconds(entry['jax'])} | {statistics.median(ratios):.2f} |"
        )
    for title, said in (("differs", lambda e: e["difference"]), ("fails", lambda e: e["shoal"][0].get("error", ""))):
        for entry in lines:
            if said(entry):
                print(f"\n{entry['name']} of {entry['elements']:,} on {entry['devices']} {title}: {said(entry)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shoal", default=sys.executable)
    parser.add_argument("--jax")
    parser.add_argument("--results", required=True)
    parser.add_argument("--summary", action="store_true")
    parser.add_argument("--only", default="", metavar="REGEX")
    parser.add_argument("--part", default="1/1", metavar="I/N")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bits", type=int, nargs="+", default=[3, 17, 24], help="of the numbers of elements")
    parser.add_argument("--devices", type=int, nargs="+", default=[1, 8])
    options = parser.parse_args()
    if options.summary:
        summarize(options)
    elif options.jax is None:
        parser.error("--jax says which interpreter has JAX")
    else:
        measure(options)


if __name__ == "__main__":
    main()
