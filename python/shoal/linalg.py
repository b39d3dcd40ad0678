"""Solvers of matrices that devices share, by their names in ScaLAPACK: no device ever holds all of one.

    x = shoal.linalg.potrs(a, b)  # a [n, n] split over any mesh, in any number of processes
"""

from shoal._core.solvers import potrf, potri, potrs, syevd
