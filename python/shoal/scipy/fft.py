"""The functions of scipy.fft."""

from shoal._core.fft.scipy import *
