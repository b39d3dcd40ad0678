#!/usr/bin/env python3
"""Records what JAX draws by the samplers of python/tests/samplers.py: of each some numbers, and the sums of all and of
their squares; of counts all.

    python -m venv jax && jax/bin/pip install jax==0.12.0       # CPython 3.12 or newer
    jax/bin/python tools/record_samples.py
"""

import base64
import json
import os
import pathlib
import sys
import zlib

os.environ["JAX_PLATFORMS"] = "cpu"
TESTS = pathlib.Path(__file__).resolve().parent.parent / "python" / "tests"
sys.path.insert(0, str(TESTS))

import jax  # noqa: E402
import numpy as np  # noqa: E402
import samplers  # noqa: E402


def text(array):
    return base64.b64encode(zlib.compress(array.tobytes(), 9)).decode()


def main():
    recorded = {"jax": jax.__version__}
    for name, dtype, kind, sampler in samplers.cases():
        values = samplers.draw(jax, sampler, dtype)
        if kind == samplers.COUNTED:
            assert (values == values.astype(np.uint8)).all(), name
            recorded[f"{name}, {dtype}"] = {"values": text(values.astype(np.uint8))}
            continue
        wide = values.astype(np.float64)
        finite = wide[np.isfinite(wide)]
        recorded[f"{name}, {dtype}"] = {
            "values": text(samplers.kept_of(values, dtype)),
            "sum": finite.sum(),
            "squares": np.square(finite).sum(),
            "greatest": np.abs(finite).max(),
        }
    (TESTS / "recorded_samples.json").write_text(json.dumps(recorded, indent=0) + "\n")


if __name__ == "__main__":
    main()
