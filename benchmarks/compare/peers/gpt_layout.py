"""The weights of the GPT of ../../gpt.h as a file that every side reads: sizes, order, and how they are split."""

import numpy as np

WIDTH, HEADS, LAYERS, VOCABULARY, SEQUENCE, BATCH = 256, 4, 12, 1000, 128, 8

# Members in the order of gpt.h: shape, the constant it holds (None: drawn), what axes split it.
OUTER = {
    "wte": ((VOCABULARY, WIDTH), None, ()),
    "wpe": ((SEQUENCE, WIDTH), None, ()),
    "lnf": ((WIDTH,), 1, ()),
    "lnfb": ((WIDTH,), 0, ()),
}
LAYER = {
    "ln1": ((WIDTH,), 1, ()),
    "b1": ((WIDTH,), 0, ()),
    "wqkv": ((WIDTH, 3, WIDTH), None, (None, None, "model")),
    "wo": ((WIDTH, WIDTH), None, ("model", None)),
    "ln2": ((WIDTH,), 1, ()),
    "b2": ((WIDTH,), 0, ()),
    "w1": ((WIDTH, 4 * WIDTH), None, (None, "model")),
    "bb1": ((4 * WIDTH,), 0, ("model",)),
    "w2": ((4 * WIDTH, WIDTH), None, ("model", None)),
    "bb2": ((WIDTH,), 0, ()),
}


def build(make):
    """The tree of weights, each made by make(shape, constant, split), in the order of the file."""
    weights = {name: make(*of) for name, of in OUTER.items()}
    weights["layers"] = [{name: make(*of) for name, of in LAYER.items()} for _ in range(LAYERS)]
    return weights


def splits():
    return build(lambda shape, constant, split: split)


def write(path):
    random = np.random.default_rng(0)
    with open(path, "wb") as file:

        def make(shape, constant, split):
            drawn = random.standard_normal(shape) * 0.02 if constant is None else np.full(shape, constant)
            file.write(drawn.astype("<f4").tobytes())

        build(make)
        file.write(random.integers(0, VOCABULARY, (BATCH, SEQUENCE)).astype("<i4").tobytes())


def read(path):
    """Weights and tokens."""
    with open(path, "rb") as file:
        take = lambda shape, dtype: np.frombuffer(file.read(4 * int(np.prod(shape))), dtype).reshape(shape)
        weights = build(lambda shape, constant, split: take(shape, "<f4"))
        return weights, take((BATCH, SEQUENCE), "<i4")
