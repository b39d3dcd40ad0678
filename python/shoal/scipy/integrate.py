"""The functions of scipy.integrate."""

from shoal._core.numpy import trapezoid
