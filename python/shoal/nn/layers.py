"""Layers as functions of their parameters, and losses by the names of Optax.

A model is a tree of arrays and a function that calls these. shoal.nn has activations, softmax and attention.
"""

from shoal._core.nn.layers import *
