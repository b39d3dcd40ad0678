"""Short programs of JAX, run with the imports changed, against what they printed under JAX 0.12 (recorded/README.md)."""

import math
import re

import pytest

import recorded_programs
import shoal as jax

NUMBER = re.compile(r"-?\d+\.?\d*(?:e[+-]?\d+)?")


def close(first, second):
    """Whether two printed numbers are equal: integers altogether, others but for the last digit, which is rounding. That
    is the fourth decimal, or the fifth digit."""
    if not set(first + second) & set(".e"):
        return first == second
    return math.isclose(float(first), float(second), rel_tol=1.01e-4, abs_tol=0 if "e" in first + second else 1.01e-4)


def same(first, second):
    """Equal texts but for spaces, the module's name, addresses, the last digits of floats, and the signs of imaginary
    zeros, which are rounding and differ between processors."""
    # An AbstractMesh of JAX also says for which devices it is.
    ours = ", device_kind=cpu, num_cores=None, platform=cpu"
    words = [
        re.sub(r"0x[0-9a-f]+", "0x", text.replace("shoal.", "jax.").replace(ours, "")) for text in (first, second)
    ]
    words = [re.sub(r"(\d\.? *)-(0\.0* *j|0\. *j)", r"\1+\2", text) for text in words]
    shapes = ["".join(NUMBER.sub("#", text).split()) for text in words]
    return shapes[0] == shapes[1] and all(map(close, *map(NUMBER.findall, words)))


def cases():
    for path in sorted(recorded_programs.FOLDER.glob("*.txt")):
        for number, recording in enumerate(recorded_programs.recordings(path)):
            yield pytest.param(recording, id=f"{path.stem}-{number}")


@pytest.mark.parametrize("recording", list(cases()))
def test_as_recorded(recording):
    printed, error = recorded_programs.run(recording.program, jax)
    if recording.program.startswith("# differs: "):
        assert error is not None or not same(printed, recording.printed), "it differs no more"
        return
    if recording.printed.startswith("!! "):
        classes = [base.__name__ for base in type(error).__mro__]
        assert recording.printed[3:] in classes, f"{printed}{error!r}"
        assert recorded_programs.text_of_error(error) == recording.error_text
    else:
        assert error is None, repr(error)
        assert same(printed, recording.printed), f"{printed}\nis not what JAX prints:\n{recording.printed}"
