"""The functions of scipy.cluster."""

from shoal.scipy.cluster import vq
