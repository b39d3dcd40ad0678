"""Programs that Shoal and JAX run in turns, each in Python processes of its own."""

import argparse
import json
import subprocess
import sys
import tempfile


def parser_for(doc):
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shoal", default=sys.executable)
    parser.add_argument("--jax", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    return parser


def times_in_turns(options, program, *arguments):
    """What each side prints in its last line, as JSON, in each round. The program gets the side's name, a file for what
    it computed, which Shoal writes and JAX compares, and the arguments."""
    environment = {
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
        "JAX_PLATFORMS": "cpu",
        "PATH": "/usr/bin:/bin",
        "HOME": "/tmp",
    }
    times = {"shoal": [], "jax": []}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.rounds):
            for name, python in (("shoal", options.shoal), ("jax", options.jax)):
                command = [python, "-c", program, name, f"{folder}/results.npz", *arguments]
                done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
                if done.returncode != 0:
                    sys.exit(done.stderr)
                times[name].append(json.loads(done.stdout.splitlines()[-1]))
    return times
