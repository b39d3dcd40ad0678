"""Fourier transforms with the functions of numpy.fft."""

from shoal._core.fft import *
