"""Transformations one, two and three deep over bodies of every kind, against NumPy (compositions.py). What Shoal
refuses stands in compositions_refused.txt."""

import collections

import pytest

import compositions
import shoal as jax

REFUSALS = compositions.refusals()


def failure_of(cell):
    refusal = REFUSALS.get(cell)
    try:
        wrong = compositions.disagreement(cell, jax)
    except Exception as error:
        if refusal and type(error).__name__ == refusal.error and refusal.reason in str(error):
            return None
        return f"{cell} raises {error!r}"
    return f"{cell} is refused no more: record it again" if refusal else wrong


@pytest.mark.parametrize("outermost", compositions.TRANSFORMATIONS)
def test_compositions(outermost):
    cells = [cell for depth in (1, 2, 3) for cell in compositions.cells(depth) if cell.chain[0] == outermost]
    failures = [failure for cell in cells if (failure := failure_of(cell))]
    jax.clear_caches()
    assert not failures, f"{len(failures)} of {len(cells)} compositions fail:\n" + "\n".join(failures[:20])


def test_none_is_missing():
    counts = {depth: sum(1 for _ in compositions.cells(depth)) for depth in (1, 2, 3)}
    assert counts == {1: 96, 2: 1716, 3: 27204}
    refused = collections.Counter(bool(refusal.error_of_jax) for refusal in REFUSALS.values())
    assert refused == {True: 3221}
