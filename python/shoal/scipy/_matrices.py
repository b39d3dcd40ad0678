"""Matrices that are made of a few numbers."""

import math

from shoal._core import numpy as _numpy
from shoal._misuse import misuse as _misuse


def _vector(x):
    array = _numpy.asarray(x)
    return array.reshape((1,)) if array.ndim == 0 else array


def _flat(x, name, least):
    array = _numpy.asarray(x)
    if array.ndim != 1 or array.size < least:
        raise _misuse(ValueError, f"{name}: takes a vector of at least {least} element(s), got shape {array.shape}")
    return array


def _positions(m, n):
    """The number of its row and of its column for each element."""
    return _numpy.arange(m)[:, None], _numpy.arange(n)[None, :]


def toeplitz(c, r=None):
    """The matrix whose diagonals are constant, with the first column c and the first row r.

    Args:
      c: The first column.
      r: The row.
    """
    column = _vector(c)
    row = _numpy.conj(column) if r is None else _vector(r)
    values = _numpy.concatenate([_numpy.flip(row[..., 1:], -1), column], axis=-1)
    i, j = _positions(column.shape[-1], row.shape[-1])
    return values[..., i - j + row.shape[-1] - 1]


def hankel(c, r=None):
    """The matrix whose antidiagonals are constant, with the first column c and the last row r.

    Args:
      c: The first column.
      r: The row.
    """
    column = _vector(c)
    row = _numpy.zeros_like(column) if r is None else _vector(r)
    values = _numpy.concatenate([column, row[..., 1:]], axis=-1)
    i, j = _positions(column.shape[-1], row.shape[-1])
    return values[..., i + j]


def circulant(c):
    """The matrix whose columns are c, rotated by their number.

    Args:
      c: The first column.
    """
    column = _vector(c)
    i, j = _positions(column.shape[-1], column.shape[-1])
    return column[..., (i - j) % column.shape[-1]]


def companion(a):
    """The matrix whose characteristic polynomial has these coefficients, the highest first.

    Args:
      a: A vector.
    """
    a = _flat(a, "companion", 2)
    first = -a[1:] / a[0]
    below = _numpy.eye(first.size - 1, first.size, dtype=first.dtype)
    return _numpy.concatenate([first[None, :], below])


def fiedler_companion(a):
    """The matrix with five diagonals whose characteristic polynomial has these coefficients, the highest first (Fiedler
    2003).

    Args:
      a: A vector.
    """
    a = _flat(a, "fiedler_companion", 2)
    n = a.size - 1
    a = a / a[0]
    i, j = _positions(n, n)
    is_even = i % 2 == 0
    coefficients = -a[_numpy.minimum(_numpy.where(j > i, i + 2, i + 1), n)]
    has_coefficient = (is_even & (abs(i - j) == 1)) | ((i == 0) & (j == 0))
    has_one = (is_even & (j == i + 2)) | (~is_even & (j == i - 2)) | ((i == 1) & (j == 0))
    return _numpy.where(has_coefficient, coefficients, has_one.astype(a.dtype))


def convolution_matrix(a, n, mode="full"):
    """The matrix whose product with a vector of n elements is the convolution with it.

    Args:
      a: A vector.
      n: The number of rows.
      mode: "full", "same" or "valid".
    """
    if n <= 0:
        raise _misuse(ValueError, "n must be a positive integer.")
    if mode not in ("full", "same", "valid"):
        raise _misuse(ValueError, "'mode' argument must be one of ('full', 'valid', 'same')")
    a = _flat(a, "convolution_matrix", 1)
    zeros = _numpy.zeros(n - 1, a.dtype)
    full = toeplitz(_numpy.concatenate([a, zeros]), _numpy.concatenate([a[:1], zeros]))
    rows = {"full": a.size + n - 1, "same": max(a.size, n), "valid": max(a.size, n) - min(a.size, n) + 1}[mode]
    begin = (a.size + n - 1 - rows) // 2
    return full[begin : begin + rows]


def dft(n, scale=None, *, dtype=None):
    """The matrix of the discrete Fourier transform.

    Args:
      n: The number of rows.
      scale: None, "sqrtn" or "n": by what the matrix is divided.
      dtype: The dtype of the result.
    """
    if scale not in (None, "sqrtn", "n"):
        raise _misuse(ValueError, f"scale must be None, 'sqrtn', or 'n'; {scale!r} is not valid.")
    i, j = _positions(n, n)
    # Whole turns are left out, which keeps the angles exact.
    angle = _numpy.asarray(i * j % n, float) * (-2 * math.pi / n)
    matrix = _numpy.cos(angle) + 1j * _numpy.sin(angle)
    matrix = matrix if dtype is None else matrix.astype(dtype)
    return matrix / {None: 1, "sqrtn": math.sqrt(n), "n": n}[scale]


def fiedler(a):
    """The distances of the elements from each other.

    Args:
      a: A vector.
    """
    a = _numpy.asarray(a)
    return _numpy.abs(a[..., :, None] - a[..., None, :])


def hadamard(n, dtype=int):
    """The matrix of 1 and -1 whose columns are orthogonal, for a power of two.

    Args:
      n: The number of rows.
      dtype: The dtype of the result.
    """
    if n < 1 or n & (n - 1):
        raise _misuse(ValueError, "n must be an positive integer, and n must be a power of 2")
    i, j = _positions(n, n)
    return _numpy.where(_numpy.bitwise_count(i & j) % 2 == 0, 1, -1).astype(dtype)


def helmert(n, full=False):
    """The matrix of differences of Helmert, whose rows are orthonormal; with the row of means if full.

    Args:
      n: The number of rows.
      full: Whether the first row is there, too.
    """
    i, j = _positions(n, n)
    below = _numpy.where(j < i, 1.0, _numpy.where(j == i, -_numpy.asarray(i, float), 0.0))
    scale = _numpy.sqrt(_numpy.asarray(_numpy.maximum(i * (i + 1), 1), float))
    matrix = _numpy.where(i == 0, 1 / math.sqrt(n), below / scale)
    return matrix if full else matrix[1:]


def hilbert(n):
    """The matrix of 1 / (i + j + 1).

    Args:
      n: The number of rows.
    """
    i, j = _positions(n, n)
    return 1 / _numpy.asarray(i + j + 1, float)


def invhilbert(n):
    """The inverse of the matrix of Hilbert.

    Args:
      n: The number of rows.
    """
    choose = math.comb
    return _numpy.array(
        [
            [
                float((-1) ** (i + j) * (i + j + 1) * choose(n + i, n - j - 1) * choose(n + j, n - i - 1)
                      * choose(i + j, i) ** 2)
                for j in range(n)
            ]
            for i in range(n)
        ]
    )


def leslie(f, s):
    """The matrix of a population: fecundities in its first row, and the shares that survive below the diagonal.

    Args:
      f: How many young each age has.
      s: Which part of each age lives on.
    """
    f, s = _flat(f, "leslie", 1), _flat(s, "leslie", 1)
    if s.size != f.size - 1:
        raise _misuse(ValueError, 
            f"The length of s must be one less than the length of f. Got f.shape={f.shape} and s.shape={s.shape}"
        )
    return _numpy.concatenate([f[None, :], _numpy.diag(s, -1)[1:]])


def _triangles(n, kind, lower, symmetric):
    """The matrix of one of these formulas, or the transpose of the first one."""
    if kind not in (None, "symmetric", "lower", "upper"):
        raise _misuse(ValueError, "kind must be 'symmetric', 'lower', or 'upper'")
    entry = {"lower": lower, "upper": lambda i, j: lower(j, i)}.get(kind, symmetric)
    return _numpy.array([[float(entry(i, j)) for j in range(n)] for i in range(n)])


def pascal(n, kind=None):
    """The matrix of binomial coefficients.

    Args:
      n: The number of rows.
      kind: "symmetric", "lower" or "upper".
    """
    return _triangles(n, kind, math.comb, lambda i, j: math.comb(i + j, i))


def invpascal(n, kind=None):
    """The inverse of the matrix of binomial coefficients.

    Args:
      n: The number of rows.
      kind: "symmetric", "lower" or "upper".
    """
    lower = lambda i, j: math.comb(i, j) * (-1) ** (i + j)
    return _triangles(n, kind, lower, lambda i, j: sum(lower(k, i) * lower(k, j) for k in range(n)))
