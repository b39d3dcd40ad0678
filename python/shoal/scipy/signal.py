"""The functions of scipy.signal."""

from shoal._core.signal import *
