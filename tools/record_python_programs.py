#!/usr/bin/env python3
"""Records what the programs of python/tests/recorded print under JAX, and what Shoal says of those that end in errors.

    python -m venv jax && jax/bin/pip install jax==0.12.0       # CPython 3.12 or newer
    jax/bin/python tools/record_python_programs.py [--to FOLDER] [name...]
    build/python/venv/bin/python tools/record_python_programs.py --errors [--to FOLDER] [name...]

The first keeps the texts of errors, the second what JAX prints. A new program is written into a file of the folder with
nothing below its line of four dashes. All files are recorded, or those that are named (`creation indexing`), in their
place or into another folder. JAX prints the same again: what differs was changed by hand, or is another JAX.
"""

import argparse
import os
import pathlib
import sys

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["SHOAL_NUM_CPU_DEVICES"] = os.environ["JAX_NUM_CPU_DEVICES"] = "8"

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python" / "tests"))
import recorded_programs  # noqa: E402


def printed_under_jax(program):
    import jax

    printed, error = recorded_programs.run(program, jax)
    # Empty lines separate blocks.
    return printed.rstrip("\n").replace("\n\n", "\n \n") if error is None else f"!! {type(error).__name__}"


def text_of_error(program):
    import shoal

    _, error = recorded_programs.run(program, shoal)
    return "" if error is None else recorded_programs.text_of_error(error)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--errors", action="store_true", help="record the texts of Shoal's errors")
    parser.add_argument("--to", type=pathlib.Path, default=recorded_programs.FOLDER, help="the folder to write to")
    parser.add_argument("names", nargs="*", help="files without their suffix; default: all")
    options = parser.parse_args()
    options.to.mkdir(parents=True, exist_ok=True)
    for path in sorted(recorded_programs.FOLDER.glob("*.txt")):
        if options.names and path.stem not in options.names:
            continue
        blocks = list(recorded_programs.recordings(path))
        for block in blocks:
            if options.errors:
                block.error_text = text_of_error(block.program)
            else:
                block.printed = printed_under_jax(block.program)
        recorded_programs.write(options.to / path.name, blocks)


if __name__ == "__main__":
    main()
