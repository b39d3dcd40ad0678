#!/usr/bin/env python3
"""Records which compositions of transformations (python/tests/compositions.py) Shoal refuses, and what JAX says then.

    python -m venv jax && jax/bin/pip install jax==0.12.0       # CPython 3.12 or newer
    build/python/venv/bin/python tools/record_compositions.py [--of vmap_spmd]
    jax/bin/python tools/record_compositions.py [--of vmap_spmd] [--values]

The first runs all compositions with Shoal, and writes those that it refuses; it stops at an exception of no known
reason. The second asks JAX about these. With --values it also computes all compositions of one and two transformations
under JAX, and compares them with what python/tests/compositions.py says that they are. With --of only compositions with
that transformation are asked about; what is known of others stays.
"""

import argparse
import dataclasses
import os
import pathlib
import sys

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["SHOAL_NUM_CPU_DEVICES"] = os.environ["JAX_NUM_CPU_DEVICES"] = "8"

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python" / "tests"))
import compositions  # noqa: E402


WRONG = "wrong values"  # What JAX gives where NumPy says something else.


def refused_by_shoal(jax, is_asked):
    found = {cell: refusal for cell, refusal in compositions.refusals().items() if not is_asked(cell)}
    for depth in (1, 2, 3):
        for cell in filter(is_asked, compositions.cells(depth)):
            try:
                wrong = compositions.disagreement(cell, jax)
            except Exception as error:
                reasons = [reason for reason in compositions.REASONS if reason in str(error)]
                if not reasons:
                    raise RuntimeError(f"{cell} is refused without a known reason") from error
                # As long as JAX was not asked, it is what JAX computes.
                found[cell] = compositions.Refusal(reasons[0], type(error).__name__, "")
            else:
                if wrong:
                    raise RuntimeError(wrong)
    return found


def error_of(cell, jax):
    try:
        wrong = compositions.disagreement(cell, jax)
    except Exception as error:
        return type(error).__name__
    return WRONG if wrong else ""


def compare_values(jax, is_asked):
    refused = compositions.refusals()
    compared = raised = 0
    for depth in (1, 2):
        for cell in filter(is_asked, compositions.cells(depth)):
            error = error_of(cell, jax)
            if error == WRONG and cell not in refused:
                raise RuntimeError(f"JAX computes something else for {cell}")
            compared += not error
            raised += bool(error)
    print(f"{compared} compositions are what JAX computes, {raised} others JAX refuses")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--values", action="store_true", help="compare with values of JAX")
    parser.add_argument("--of", choices=compositions.TRANSFORMATIONS, help="only compositions with this one")
    options = parser.parse_args()
    is_asked = lambda cell: options.of is None or options.of in cell.chain  # noqa: E731
    try:
        import jax
    except ImportError:
        import shoal

        compositions.write_refusals(refused_by_shoal(shoal, is_asked))
        return
    asked = {
        cell: dataclasses.replace(refusal, error_of_jax=error_of(cell, jax)) if is_asked(cell) else refusal
        for cell, refusal in compositions.refusals().items()
    }
    compositions.write_refusals(asked)
    if options.values:
        compare_values(jax, is_asked)


if __name__ == "__main__":
    main()
