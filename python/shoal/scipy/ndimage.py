"""The functions of scipy.ndimage."""

from shoal._core.ndimage import *
