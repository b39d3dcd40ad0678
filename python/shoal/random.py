"""Random numbers. A key is an array of a dtype of keys, or a raw one, as PRNGKey makes it."""

from shoal._core.random import *
from shoal._later import later as _later

_MARKED = "annotations of keys are not there yet"

__getattr__ = _later(__name__, {_MARKED: "Key", "primitives are not there yet": "random_gamma_p"})
