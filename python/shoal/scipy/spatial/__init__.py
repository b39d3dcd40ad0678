"""Geometry."""

from shoal.scipy.spatial import transform
