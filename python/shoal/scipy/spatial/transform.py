"""Rotations of three dimensions, as quaternions (x, y, z, w) of length 1, of which there may be many in a first dimension."""

import math
import re
from typing import Any, NamedTuple

from shoal import numpy as _numpy
from shoal._core import linalg as _linalg
from shoal._misuse import misuse as _misuse


def _length(x):
    return _numpy.sqrt(_numpy.sum(x * x, axis=-1, keepdims=True))


def _unit(quat):
    return quat / _length(quat)


def _floats(x):
    x = _numpy.asarray(x)
    return x.astype(x.dtype if _numpy.issubdtype(x.dtype, _numpy.floating) else float)


def _shaped(x, what, *last):
    """The floats of an array whose last dimensions must be these."""
    array = _floats(x)
    if tuple(array.shape[-len(last) :]) != last:
        raise _misuse(ValueError, f"Rotation: {what} must have the last dimensions {last}, and has the shape {array.shape}")
    return array


def _product(p, q):
    """The quaternion of q, then p."""
    u, v, a, b = p[..., :3], q[..., :3], p[..., 3:], q[..., 3:]
    vector = a * v + b * u + _numpy.cross(u, v)
    return _numpy.concatenate([vector, a * b - _numpy.sum(u * v, axis=-1, keepdims=True)], axis=-1)


def _axes_of(seq, least, most):
    """The numbers of the axes that letters name, and whether they turn along."""
    if not least <= len(seq) <= most:
        count = f"{least}" if least == most else f"{least} to {most}"
        raise _misuse(ValueError, f"Rotation: seq must have {count} letters, and is {seq!r}")
    if not re.fullmatch("[XYZ]+|[xyz]+", seq):
        raise _misuse(ValueError, f"Rotation: seq must be of 'x', 'y', 'z', or of 'X', 'Y', 'Z', and is {seq!r}")
    if any(a == b for a, b in zip(seq, seq[1:])):
        raise _misuse(ValueError, f"Rotation: one letter of seq must differ from the next, and it is {seq!r}")
    return ["xyz".index(letter) for letter in seq.lower()], seq.isupper()


class Rotation(NamedTuple):
    """Rotations, by their quaternions."""

    quat: Any

    @classmethod
    def concatenate(cls, rotations):
        """All of them in one."""
        return cls(_numpy.concatenate([rotation.quat for rotation in rotations]))

    @classmethod
    def from_euler(cls, seq, angles, degrees=False):
        """Rotations about one to three axes in turn: of the space ("xyz") or of the body that turns ("XYZ"). Angles are
        along the last dimension."""
        axes, is_intrinsic = _axes_of(seq, 1, 3)
        angles = _shaped(_numpy.atleast_1d(_floats(angles)), "angles", len(axes))
        if degrees:
            angles = _numpy.deg2rad(angles)
        result = None
        for number, axis in enumerate(axes):
            half = angles[..., number] / 2
            parts = [_numpy.zeros_like(half)] * 3 + [_numpy.cos(half)]
            parts[axis] = _numpy.sin(half)
            turn = _numpy.stack(parts, axis=-1)
            if result is None:
                result = turn
            else:
                result = _product(result, turn) if is_intrinsic else _product(turn, result)
        return cls(result)

    @classmethod
    def from_matrix(cls, matrix):
        """Of orthogonal matrices (Shepperd 1978, "Quaternion from rotation matrix": by the greatest of its components)."""
        m = _shaped(matrix, "matrix", 3, 3)
        e = lambda i, j: m[..., i, j]
        x, y, z = e(0, 0), e(1, 1), e(2, 2)
        trace = x + y + z
        ways = _numpy.stack(
            [
                _numpy.stack([1 - trace + 2 * x, e(1, 0) + e(0, 1), e(2, 0) + e(0, 2), e(2, 1) - e(1, 2)], -1),
                _numpy.stack([e(1, 0) + e(0, 1), 1 - trace + 2 * y, e(2, 1) + e(1, 2), e(0, 2) - e(2, 0)], -1),
                _numpy.stack([e(2, 0) + e(0, 2), e(2, 1) + e(1, 2), 1 - trace + 2 * z, e(1, 0) - e(0, 1)], -1),
                _numpy.stack([e(2, 1) - e(1, 2), e(0, 2) - e(2, 0), e(1, 0) - e(0, 1), 1 + trace], -1),
            ],
            axis=-2,
        )
        best = _numpy.argmax(_numpy.stack([x, y, z, trace], axis=-1), axis=-1)
        return cls(_unit(_numpy.take_along_axis(ways, best[..., None, None], axis=-2)[..., 0, :]))

    @classmethod
    def from_mrp(cls, mrp):
        """Of modified Rodrigues parameters: the axis times the tangent of a quarter of the angle."""
        mrp = _shaped(mrp, "mrp", 3)
        square = _numpy.sum(mrp * mrp, axis=-1, keepdims=True) + 1
        return cls(_numpy.concatenate([2 * mrp, 2 - square], axis=-1) / square)

    @classmethod
    def from_quat(cls, quat):
        """Of quaternions of any length but 0."""
        return cls(_unit(_shaped(quat, "quat", 4)))

    @classmethod
    def from_rotvec(cls, rotvec, degrees=False):
        """Of axes whose lengths are angles."""
        rotvec = _shaped(rotvec, "rotvec", 3)
        if degrees:
            rotvec = _numpy.deg2rad(rotvec)
        angle = _length(rotvec)
        square = angle * angle
        is_small = angle <= 1e-3
        series = 0.5 - square / 48 + square * square / 3840
        scale = _numpy.where(is_small, series, _numpy.sin(angle / 2) / _numpy.where(is_small, 1, angle))
        return cls(_numpy.concatenate([scale * rotvec, _numpy.cos(angle / 2)], axis=-1))

    @classmethod
    def identity(cls, num=None, dtype=float):
        """The one that turns nothing; `num` of them."""
        one = _numpy.array([0.0, 0.0, 0.0, 1.0], dtype=dtype)
        return cls(one if num is None else _numpy.tile(one, (num, 1)))

    @classmethod
    def random(cls, random_key, num=None):
        """Drawn evenly from all rotations."""
        from shoal import random

        return cls(_unit(random.normal(random_key, (4,) if num is None else (num, 4))))

    def __getitem__(self, indexer):
        if self.single:
            raise _misuse(TypeError, "Rotation: a single one has no items")
        return Rotation(self.quat[indexer])

    def __len__(self):
        if self.single:
            raise _misuse(TypeError, "Rotation: a single one has no len()")
        return self.quat.shape[0]

    def __mul__(self, other):
        """`other` first, then this one."""
        return Rotation.from_quat(_product(self.quat, other.quat))

    def apply(self, vectors, inverse=False):
        """The vectors turned, or turned back."""
        matrix = self.as_matrix()
        matrix = _numpy.where(inverse, _numpy.matrix_transpose(matrix), matrix)
        # Three products each, which loops add up faster than many small products of matrices.
        turned = _shaped(vectors, "vectors", 3)
        x, y, z = (turned[..., i : i + 1] for i in range(3))
        return matrix[..., 0] * x + matrix[..., 1] * y + matrix[..., 2] * z

    def as_euler(self, seq, degrees=False):
        """The angles of three rotations about axes in turn, as from_euler takes them (Bernardes & Viollet 2022, "Quaternion
        to Euler angles conversion: a direct, general and computationally efficient method"). Where the second one leaves
        the first and third open, the third is 0."""
        (i, j, k), is_intrinsic = _axes_of(seq, 3, 3)
        if is_intrinsic:
            i, k = k, i
        is_symmetric = i == k
        if is_symmetric:
            k = 3 - i - j
        sign = (i - j) * (j - k) * (k - i) // 2
        part = lambda axis: self.quat[..., axis]
        if is_symmetric:
            a, b, c, d = part(3), part(i), part(j), part(k) * sign
        else:
            a, b = part(3) - part(j), part(i) + part(k) * sign
            c, d = part(j) + part(3), part(k) * sign - part(i)
        middle = 2 * _numpy.arctan2(_numpy.hypot(c, d), _numpy.hypot(a, b))
        half_sum, half_difference = _numpy.arctan2(b, a), _numpy.arctan2(d, c)
        at_zero, at_turn = _numpy.abs(middle) <= 1e-7, _numpy.abs(middle - math.pi) <= 1e-7
        only = _numpy.where(at_zero, 2 * half_sum, (2 if is_intrinsic else -2) * half_difference)
        is_open = at_zero | at_turn
        # The first rotation of the space is the last of the body.
        outer, inner = half_sum - half_difference, half_sum + half_difference
        if not is_symmetric:
            inner, middle = inner * sign, middle - math.pi / 2
        if is_intrinsic:
            first, third = _numpy.where(is_open, only, inner), _numpy.where(is_open, 0, outer)
            if not is_symmetric:
                first = _numpy.where(is_open, only * sign, first)
        else:
            first, third = _numpy.where(is_open, only, outer), _numpy.where(is_open, 0, inner)
        angles = _numpy.stack([first, middle, third], axis=-1)
        angles = (angles + math.pi) % (2 * math.pi) - math.pi
        return _numpy.rad2deg(angles) if degrees else angles

    def as_matrix(self):
        """The orthogonal matrices."""
        x, y, z, w = (self.quat[..., i] for i in range(4))
        rows = [
            [x * x - y * y - z * z + w * w, 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), y * y - x * x - z * z + w * w, 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), z * z - x * x - y * y + w * w],
        ]
        return _numpy.stack([_numpy.stack(row, axis=-1) for row in rows], axis=-2)

    def as_mrp(self):
        """Modified Rodrigues parameters, of angles up to half a turn."""
        sign = _numpy.where(self.quat[..., 3:] < 0, -1.0, 1.0)
        return sign * self.quat[..., :3] / (1 + sign * self.quat[..., 3:])

    def as_rotvec(self, degrees=False):
        """Axes whose lengths are angles, up to half a turn."""
        quat = _numpy.where(self.quat[..., 3:] < 0, -self.quat, self.quat)
        angle = 2 * _numpy.arctan2(_length(quat[..., :3]), quat[..., 3:])
        square = angle * angle
        is_small = angle <= 1e-3
        series = 2 + square / 12 + 7 * square * square / 2880
        scale = _numpy.where(is_small, series, angle / _numpy.sin(_numpy.where(is_small, 1, angle) / 2))
        return (_numpy.rad2deg(scale) if degrees else scale) * quat[..., :3]

    def as_quat(self, canonical=False, scalar_first=False):
        """The quaternions; of both signs the one whose last component that is not 0, from w on, is positive."""
        quat = self.quat
        if canonical:
            x, y, z, w = (quat[..., i : i + 1] for i in range(4))
            is_negative = (w < 0) | (w == 0) & ((x < 0) | (x == 0) & ((y < 0) | (y == 0) & (z < 0)))
            quat = _numpy.where(is_negative, -quat, quat)
        return _numpy.roll(quat, 1, axis=-1) if scalar_first else quat

    def inv(self):
        """The rotations back."""
        return Rotation(self.quat * _numpy.array([-1, -1, -1, 1], dtype=self.quat.dtype))

    def magnitude(self):
        """The angles, up to half a turn."""
        return 2 * _numpy.arctan2(_length(self.quat[..., :3])[..., 0], _numpy.abs(self.quat[..., 3]))

    def mean(self, weights=None):
        """The rotation from which the squared distances are least (Markley et al. 2007, "Averaging quaternions")."""
        weights = _numpy.ones(self.quat.shape[0], self.quat.dtype) if weights is None else _floats(weights)
        if weights.ndim != 1 or weights.shape[0] != len(self):
            raise _misuse(
                ValueError,
                f"Rotation.mean: weights must be a vector of {len(self)}, one for each rotation, and have shape {weights.shape}"
            )
        return Rotation(_linalg.eigh(_numpy.matmul(weights * self.quat.T, self.quat))[1][:, -1])

    @property
    def single(self):
        """Whether it is one rotation, without a first dimension."""
        return self.quat.ndim == 1


class Slerp(NamedTuple):
    """Rotations between those of given times, at a steady angular speed."""

    times: Any
    timedelta: Any
    rotations: Rotation
    rotvecs: Any

    @classmethod
    def init(cls, times, rotations):
        """Of at least two rotations and as many ascending times."""
        if not isinstance(rotations, Rotation):
            raise _misuse(TypeError, f"Slerp: rotations must be a Rotation, not {type(rotations)}")
        if rotations.single or len(rotations) == 1:
            raise _misuse(ValueError, "Slerp: rotations must be at least 2")
        times = _numpy.asarray(times, dtype=rotations.quat.dtype)
        if times.ndim != 1 or times.shape[0] != len(rotations):
            raise _misuse(
                ValueError,
                f"Slerp: times must be a vector of {len(rotations)}, one for each rotation, and have shape {times.shape}"
            )
        first = Rotation(rotations.quat[:-1])
        return cls(times, _numpy.diff(times), first, (first.inv() * Rotation(rotations.quat[1:])).as_rotvec())

    def __call__(self, times):
        """The rotation at a time, or those at a vector of times."""
        times = _numpy.asarray(times, dtype=self.times.dtype)
        if times.ndim > 1:
            raise _misuse(ValueError, f"Slerp: times must be a number or a vector, and have {times.ndim} dimensions")
        at = _numpy.atleast_1d(times)
        step = _numpy.maximum(_numpy.searchsorted(self.times, at) - 1, 0)
        share = (at - self.times[step]) / self.timedelta[step]
        result = self.rotations[step] * Rotation.from_rotvec(self.rotvecs[step] * share[:, None])
        return result[0] if times.ndim == 0 else result
