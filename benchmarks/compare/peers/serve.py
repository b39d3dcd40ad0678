"""What the Python sides of the comparison share; ../serve.h is the same in C++, and says how sides are asked."""

import json
import statistics
import sys
import time

import numpy as np


class Unsupported(Exception):
    """What a side cannot do."""


def serve(works):
    def answer(line):
        try:
            request = json.loads(line)
            if request["work"] not in works:
                raise Unsupported("no such work here")
            result = works[request["work"]](request)
        except Unsupported as reason:
            result = {"unsupported": str(reason)}
        except Exception as error:  # told to the driver, which goes on with other works
            result = {"error": f"{type(error).__name__}: {error}"}
        if result is not None:  # One of several processes answers.
            print(json.dumps(result), flush=True)
        return result is None or "error" not in result

    if len(sys.argv) > 1:
        sys.exit(0 if answer(sys.argv[1]) else 1)
    for line in sys.stdin:
        answer(line)


def measure(request, calls, batch=1):
    """The time of one call of `calls`, which makes `batch` of them. Runs for about the seconds that the request allows,
    and longer for up to five calls that are slow."""
    budget, spent, times = request.get("budget", 1.0), 0.0, []
    calls()
    begin = time.perf_counter()
    while spent < budget or (len(times) < 5 and spent < 4 * budget):
        before = time.perf_counter()
        calls()
        now = time.perf_counter()
        times.append((now - before) / batch)
        spent = now - begin
    return {"seconds": statistics.median(times), "least": min(times)}


def measure_together(request, calls, agree):
    """The same for processes that call together: as many times in each. `agree` tells all what the first of them
    says."""
    batch, budget, spent, times = request.get("batch", 1), request.get("budget", 1.0), 0.0, []
    turn = 0
    while agree(turn < 4 or spent < budget):
        before = time.perf_counter()
        for _ in range(batch):
            calls()
        now = time.perf_counter()
        if turn > 0:
            times.append((now - before) / batch)
            spent += now - before
        turn += 1
    return {"seconds": statistics.median(times), "least": min(times)}


def sample(elements):
    """Elements spread evenly over the result, the first and the last among them."""
    flat = np.asarray(elements).reshape(-1)
    count, wanted = flat.size, 64
    places = range(count) if count <= wanted else (i * (count - 1) // (wanted - 1) for i in range(wanted))
    return [float(flat[i]) for i in places]


def numbers(count):
    """The operands of all sides."""
    period = (np.arange(1000) * 7919 % 1000).astype(np.float32) / np.float32(1000) - np.float32(0.5)
    return np.resize(period, count)


def memory():
    """MiB that this process holds, and the most since reset_peak."""
    with open("/proc/self/status") as status:
        fields = dict(line.split(":", 1) for line in status if line.startswith("Vm"))
    return tuple(int(fields[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM"))


def reset_peak():
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
