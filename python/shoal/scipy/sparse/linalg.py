"""Linear equations by iteration: conjugate gradients, generalized minimal residuals, stabilized biconjugate gradients.

Derivatives solve such an equation again. Over devices vectors stay as they are split."""

import functools
import operator

from shoal import _core
from shoal._core import lax as _lax
from shoal._misuse import misuse as _misuse


class _Vectors:
    """Trees like b, as lists of arrays."""

    def __init__(self, b):
        self.leaves, self.tree = _core.tree_flatten(b)

    def linear(self, f):
        """A linear function of trees as one of lists, or a matrix."""
        import numpy as np

        if isinstance(f, (_core.Array, np.ndarray)):
            return f
        if not callable(f):
            if not hasattr(f, "__matmul__"):
                raise _misuse(TypeError, f"linear operator must be either a function or ndarray: {f}")
            shape = getattr(f, "shape", ())
            if len(shape) != 2 or shape[0] != shape[1]:
                raise _misuse(ValueError, f"linear operator must be a square matrix, but has shape: {shape}")
            f = functools.partial(operator.matmul, f)

        def on_lists(leaves):
            made, own = _core.tree_flatten(f(self.tree.unflatten(leaves)))
            if own != self.tree:
                raise _misuse(
                    TypeError,
                    f"linear operator must give what has the structure of b, {self.tree}, got {own}",
                )
            return made

        return on_lists

    def options(self, x0, tol, atol, maxiter, M):
        if x0 is not None:
            x0, own = _core.tree_flatten(x0)
            if own != self.tree:
                raise _misuse(ValueError, f"x0 and b must have matching tree structure: {own} vs {self.tree}")
        return x0, tol, atol, maxiter, None if M is None else self.linear(M)


def cg(A, b, x0=None, *, tol=1e-5, atol=0.0, maxiter=None, M=None):
    """The pair of the x with A x = b, by conjugate gradients, and None. A is Hermitian and positive definite: a matrix,
    or a function of trees like b. It ends where the length of b - A x is at most the greater of `tol` times that of b
    and `atol`, or after `maxiter` steps, by default 10 for each unknown. M is near the inverse of A.

    Args:
      A: A function of the matrix, or the matrix.
      b: The right side: a tree of arrays.
      x0: Where it begins; default: 0.
      tol: The error at which it ends, in parts of b.
      atol: The error that is always allowed.
      maxiter: How many steps there are at most.
      M: What comes near to the inverse of A, likewise.
    """
    vectors = _Vectors(b)
    options = vectors.options(x0, tol, atol, maxiter, M)
    return vectors.tree.unflatten(_lax._cg(vectors.linear(A), vectors.leaves, options)), None


def bicgstab(A, b, x0=None, *, tol=1e-5, atol=0.0, maxiter=None, M=None):
    """The same as cg for any A that has an inverse, by stabilized biconjugate gradients.

    Args:
      A: A function of the matrix, or the matrix.
      b: The right side: a tree of arrays.
      x0: Where it begins; default: 0.
      tol: The error at which it ends, in parts of b.
      atol: The error that is always allowed.
      maxiter: How many steps there are at most.
      M: What comes near to the inverse of A, likewise.
    """
    vectors = _Vectors(b)
    options = vectors.options(x0, tol, atol, maxiter, M)
    return vectors.tree.unflatten(_lax._bicgstab(vectors.linear(A), vectors.leaves, options)), None


def gmres(A, b, x0=None, *, tol=1e-5, atol=0.0, restart=20, maxiter=None, M=None, solve_method="batched"):
    """The pair of the x with A x = b, by generalized minimal residuals, and of 0, or -1 if x is not finite. It looks for x in
    a space of `restart` dimensions, again and again, at most `maxiter` times. With the `solve_method` "batched" the
    whole space is made first; with "incremental" it ends as soon as there is a solution in it.

    Args:
      A: A function of the matrix, or the matrix.
      b: The right side: a tree of arrays.
      x0: Where it begins; default: 0.
      tol: The error at which it ends, in parts of b.
      atol: The error that is always allowed.
      restart: The number of dimensions of a space.
      maxiter: How many steps there are at most.
      M: What comes near to the inverse of A, likewise.
      solve_method: "batched" or "incremental".
    """
    if solve_method not in ("batched", "incremental"):
        raise _misuse(ValueError, f"invalid solve_method {solve_method}, must be either 'incremental' or 'batched'")
    vectors = _Vectors(b)
    options = vectors.options(x0, tol, atol, maxiter, M)
    x, info = _lax._gmres(vectors.linear(A), vectors.leaves, options, restart, solve_method == "incremental")
    return vectors.tree.unflatten(x), info
