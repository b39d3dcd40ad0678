"""What samplers draw is what JAX 0.12 draws, as recorded_samples.json has it: counts and numbers by rejection in 99.99 %
of 2^14 elements, others in each of those that are kept, within 4 units in the last place.

What is made of the gamma distribution is drawn alike, and rounded otherwise: JAX takes the root of a reciprocal that the
processor has, whose last place is not everywhere the same, and 1 + c x may be a small rest of it."""

import base64
import json
import pathlib
import zlib

import ml_dtypes
import numpy as np
import pytest
import samplers

import shoal

RECORDED = json.loads((pathlib.Path(__file__).parent / "recorded_samples.json").read_text())
CASES = {f"{name}, {dtype}": (dtype, kind, sampler) for name, dtype, kind, sampler in samplers.cases()}
def decoded(text, dtype):
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype)


def numpy_dtype(dtype):
    return np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)


def units_apart(a, b):
    """How many floats lie between two."""
    whole = {2: np.int16, 4: np.int32, 8: np.int64}[a.dtype.itemsize]

    def position(x):
        bits = x.view(whole)
        return np.where(bits < 0, np.iinfo(whole).min - bits.astype(object), bits.astype(object))

    return np.abs(position(a) - position(b)).astype(np.float64)


def test_everything_is_recorded():
    assert set(CASES) == set(RECORDED) - {"jax"}
    assert RECORDED["jax"].startswith("0.12.0")


@pytest.mark.parametrize("case", CASES)
def test_draws_what_jax_draws(case):
    dtype, kind, sampler = CASES[case]
    recorded = RECORDED[case]
    values = samplers.draw(shoal, sampler, dtype)
    if kind == samplers.COUNTED:
        expected = decoded(recorded["values"], np.uint8)
        assert values.shape == expected.shape
        assert np.count_nonzero(values != expected) <= 1e-4 * len(expected)
        return
    assert values.dtype == numpy_dtype(dtype)
    expected = decoded(recorded["values"], values.dtype)
    kept = samplers.kept_of(values, dtype)
    assert kept.shape == expected.shape
    if kind == samplers.EXACT:
        np.testing.assert_array_equal(kept, expected)
    elif kind == samplers.NEAR:
        tolerance = 32 * np.finfo(values.dtype).eps
        np.testing.assert_allclose(kept, expected, rtol=tolerance, atol=tolerance)
    elif kind == samplers.DRAWN:
        tolerance = 32 * np.finfo(values.dtype).eps
        np.testing.assert_allclose(kept, expected, rtol=tolerance, atol=tolerance if case.startswith("loggamma") else 0)
    else:
        apart = units_apart(kept, expected)
        assert apart.max() <= 4, (kept[apart.argmax()], expected[apart.argmax()])
    # One element in 10,000 may be another. All others leave the sums where they are.
    wide = values.astype(np.float64)
    wide = wide[np.isfinite(wide)]
    others = 1e-4 * len(wide) * recorded["greatest"] + 1e-5 * np.abs(wide).sum()
    assert abs(wide.sum() - recorded["sum"]) <= others
    others = 1e-4 * len(wide) * recorded["greatest"] ** 2 + 1e-5 * recorded["squares"]
    assert abs(np.square(wide).sum() - recorded["squares"]) <= others
