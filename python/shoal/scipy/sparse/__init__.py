"""Functions of SciPy for matrices that are known by what they do."""

from shoal.scipy.sparse import linalg
