"""Reductions over segments."""

from shoal._core.linalg.ops import segment_max, segment_min, segment_prod, segment_sum
