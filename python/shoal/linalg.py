"""Solvers of matrices that devices share, by their names in ScaLAPACK: no device ever holds all of one.

    x = shoal.linalg.potrs(a, b)  # a [n, n] split over any mesh, in any number of processes
"""

from shoal._core.solvers import (
    BlockCyclic,
    SolverProgress,
    cond_estimate,
    from_block_cyclic,
    gels,
    geqrf,
    gesv,
    gesvd,
    on_progress,
    potrf,
    potri,
    potrs,
    progress_bar,
    sygvd,
    syevd,
    to_block_cyclic,
    trtri,
    verify_cyclic,
)
