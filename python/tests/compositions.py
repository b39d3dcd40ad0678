"""Transformations inside of each other, over bodies of every kind, and what they compute, by NumPy.

A *cell* is a chain of transformations, the outermost first, and a body. A body, and what a transformation makes of it,
takes an array and gives one of its shape, so that any chain fits. Each is written twice: `of` for JAX or Shoal, as
users write it, for one place; and `plain`, where NumPy does in all places at once what the other does in one. A map is
then nothing but a dimension in front: bodies look at the last dimension, and collectives at that of their axis.
"""

import dataclasses
import functools
import itertools
import math
import pathlib
from typing import Callable

import numpy as np

EXTENT = 4  # Of what a body gets.
DEVICES = 8
INDICES = np.array([2, 0, 3, 3])
MATRIX = np.random.RandomState(0).uniform(-0.6, 0.6, (EXTENT, EXTENT))
WEIGHTS = np.array([0.75, 1.25])  # Of the trips of a scan.
SHARE = 0.5  # A tangent is so much of its primal.


@dataclasses.dataclass(frozen=True)
class Entry:
    """A body, whose functions take a Spot and x, or a transformation, whose take a Spot and f, and give a function."""

    of: Callable
    plain: Callable
    axes: int = 0  # That a transformation binds, or that a body needs.
    is_on_devices: bool = False
    is_together: bool = False  # Whether places need what others have.


@dataclasses.dataclass(frozen=True)
class Axis:
    """An axis that a transformation binds. `dim` counts from behind, as derivatives by differences add dimensions."""

    name: str
    size: int
    dim: int
    bound_by: str


@dataclasses.dataclass(frozen=True)
class Spot:
    """Where a body or a transformation stands in a cell: what its functions are made with."""

    jax: object
    axes: tuple  # All of the cell, the outermost first.
    around: int  # So many of them are bound outside of it.
    own: int  # The next ones it binds itself.
    is_together: bool

    lax = property(lambda self: self.jax.lax)
    jnp = property(lambda self: self.jax.numpy)
    names = property(lambda self: tuple(axis.name for axis in self.axes[: self.around]))
    dims = property(lambda self: tuple(axis.dim for axis in self.axes[: self.around]))
    rank = property(lambda self: len(self.axes) - self.around + 1)  # Of the argument in one place.

    def sample(self, number):
        random = self.jax.random
        return random.uniform(random.fold_in(random.key(7), number), (EXTENT,), minval=0.5)


@dataclasses.dataclass(frozen=True)
class Cell:
    chain: tuple
    body: str

    def __str__(self):
        return f"{' '.join(self.chain)}: {self.body}"

    @functools.cached_property
    def axes(self):
        binders = [name for name in self.chain for _ in range(TRANSFORMATIONS[name].axes)]
        sizes = {1: [4], 2: [4, 2]}.get(len(binders), [2] * len(binders))
        return tuple(
            Axis(f"axis{i}", size, i - len(binders) - 1, binder)
            for i, (size, binder) in enumerate(zip(sizes, binders))
        )

    @property
    def exists(self):
        """Whether there are axes for the body, and devices for the axes, and the places of a vmap that are split over
        devices are so inside of it."""
        for i, name in enumerate(self.chain):
            if name == "vmap_spmd" and not any(inner.startswith("shard_map") for inner in self.chain[i:]):
                return False
        devices = math.prod(axis.size for axis in self.axes if TRANSFORMATIONS[axis.bound_by].is_on_devices)
        return len(self.axes) >= BODIES[self.body].axes and devices <= DEVICES

    def argument(self):
        """Elements of both signs, of which none is so near 0 that differences would change what is decided by signs."""
        shape = [axis.size for axis in self.axes] + [EXTENT]
        order = np.random.RandomState(len(self.axes)).permutation(math.prod(shape))
        return ((order + 0.4) / len(order) * 2 - 1).reshape(shape)

    def function(self, jax):
        return self.built("of", jax)

    def plain(self, jax):
        """Random numbers alone are not NumPy's: they are those of `jax` outside of everything."""
        return self.built("plain", jax)

    def built(self, how, jax):
        around = len(self.axes)
        together = BODIES[self.body].is_together
        f = functools.partial(getattr(BODIES[self.body], how), Spot(jax, self.axes, around, 0, together))
        for name in reversed(self.chain):
            own = TRANSFORMATIONS[name].axes
            around -= own
            f = getattr(TRANSFORMATIONS[name], how)(Spot(jax, self.axes, around, own, together), f)
        return f


def cells(depth):
    """All of that many transformations."""
    for chain in itertools.product(TRANSFORMATIONS, repeat=depth):
        for body in BODIES:
            cell = Cell(chain, body)
            if cell.exists:
                yield cell


# Bodies. What they give differs between places, so that the derivative is the same with check_vma and without: that of
# the sum over all places.


def over_outermost(f):
    """The plain function of a collective over the outermost axis: f of an array that has its places in front."""

    def collective(spot, x):
        dim = spot.axes[0].dim
        return np.moveaxis(f(np.moveaxis(x, dim, 0)), 0, dim)

    return collective


def counted(x):
    """How many places are before each, as x is."""
    return np.arange(len(x)).reshape(-1, *[1] * (x.ndim - 1))


def summed(x):
    return np.broadcast_to(x.sum(axis=0), x.shape)


def scattered(x):
    """The sum over all places, of which each has its part, over and over."""
    parts = x.sum(axis=0).reshape(*x.shape[1:-1], len(x), -1)
    return np.tile(np.moveaxis(parts, -2, 0), len(x))


def exchanged(x):
    """Part i of place j is part j of place i."""
    return np.swapaxes(x.reshape(*x.shape[:-1], len(x), -1), 0, -2).reshape(x.shape)


def outermost(spot):
    return spot.axes[0].name


def shifts(spot):
    size = spot.axes[0].size
    return [(i, (i + 1) % size) for i in range(size)]


def plain_random(spot, x):
    samples = np.stack([np.asarray(spot.sample(number)) for number in (0, 1)])
    return samples[(x[..., 0] > 0).astype(int)] * np.sin(x)


collective = functools.partial(Entry, axes=1, is_together=True)

BODIES = {
    "elementwise": Entry(lambda spot, x: x * spot.jnp.sin(x), lambda spot, x: x * np.sin(x)),
    "matmul": Entry(
        lambda spot, x: spot.jnp.sin(spot.jnp.asarray(MATRIX, x.dtype) @ x),
        lambda spot, x: np.sin(np.einsum("ij,...j", MATRIX, x)),
    ),
    "gather": Entry(lambda spot, x: x[INDICES] * x, lambda spot, x: x[..., INDICES] * x),
    "random": Entry(
        lambda spot, x: spot.sample((x[0] > 0).astype(spot.jnp.int32)) * spot.jnp.sin(x),
        plain_random,
    ),
    "axis_index": Entry(
        lambda spot, x: (1 + spot.lax.axis_index(outermost(spot))) * spot.jnp.sin(x),
        over_outermost(lambda x: (1 + counted(x)) * np.sin(x)),
        axes=1,
    ),
    "psum": collective(
        lambda spot, x: spot.jnp.sin(spot.lax.psum(x, spot.names)) * x,
        lambda spot, x: np.sin(x.sum(axis=spot.dims, keepdims=True)) * x,
    ),
    "pmean": collective(
        lambda spot, x: spot.jnp.sin(spot.lax.pmean(x, spot.axes[-1].name)) * x,
        lambda spot, x: np.sin(x.mean(axis=spot.axes[-1].dim, keepdims=True)) * x,
    ),
    "pmax": collective(
        lambda spot, x: spot.lax.pmax(x, outermost(spot)) * x,
        lambda spot, x: x.max(axis=spot.axes[0].dim, keepdims=True) * x,
    ),
    "all_gather": collective(
        lambda spot, x: spot.jnp.arange(spot.axes[0].size, dtype=x.dtype)
        @ spot.lax.all_gather(x, outermost(spot))
        * x,
        lambda spot, x: over_outermost(lambda x: summed(counted(x) * x))(spot, x) * x,
    ),
    "psum_scatter": collective(
        lambda spot, x: spot.jnp.tile(
            spot.lax.psum_scatter(x, outermost(spot), tiled=True), spot.axes[0].size
        )
        * x,
        lambda spot, x: over_outermost(scattered)(spot, x) * x,
    ),
    "all_to_all": collective(
        lambda spot, x: spot.lax.all_to_all(x, outermost(spot), 0, 0, tiled=True) * x,
        lambda spot, x: over_outermost(exchanged)(spot, x) * x,
    ),
    "ppermute": collective(
        lambda spot, x: spot.lax.ppermute(x, outermost(spot), shifts(spot)) * x,
        lambda spot, x: over_outermost(lambda x: np.roll(x, 1, axis=0))(spot, x) * x,
    ),
}

# Transformations.


def same(spot, f):
    return f


def decision(spot, x):
    """By the first element: what the place decides, or what all do if they compute together."""
    first = x.reshape(-1)[0]
    return (spot.lax.psum(first, spot.names) if spot.is_together and spot.names else first) > 0


def plain_decision(spot, x):
    first = x[(..., *[slice(1)] * spot.rank)]
    return (first.sum(axis=spot.dims, keepdims=True) if spot.is_together else first) > 0


def vmap(spot, f):
    return spot.jax.vmap(f, axis_name=spot.axes[spot.around].name)


def split_axis(axis):
    """The axis of the mesh over which the places of a vmap are split."""
    return f"split_{axis.name}" if axis.bound_by == "vmap_spmd" else axis.name


def vmap_spmd(spot, f):
    axis = spot.axes[spot.around]
    return spot.jax.vmap(f, axis_name=axis.name, spmd_axis_name=split_axis(axis))


def pmap(spot, f):
    for axis in reversed(spot.axes[spot.around : spot.around + spot.own]):
        f = spot.jax.pmap(f, axis_name=axis.name)
    return f


def shard_map(spot, f, check_vma=True):
    """The outermost one has a mesh with an axis for all that need devices inside, and for what splits places around it;
    those inside take it from there."""
    axis = spot.axes[spot.around]
    meshed = [each for each in spot.axes if TRANSFORMATIONS[each.bound_by].is_on_devices]
    while not meshed[0].bound_by.startswith(("shard_map", "vmap_spmd")):
        del meshed[0]
    outermost = next(each for each in spot.axes if each.bound_by.startswith("shard_map"))
    mesh = spot.jax.make_mesh(
        tuple(each.size for each in meshed),
        tuple(split_axis(each) for each in meshed),
        axis_types=(spot.jax.sharding.AxisType.Auto,) * len(meshed),
    )
    spec = spot.jax.sharding.PartitionSpec(axis.name)
    # Specs get the axes of vmap_spmd, which have to be manual, but for those that are so in a shard_map around.
    split = []
    for each in reversed(spot.axes[: spot.around]):
        if each.bound_by.startswith("shard_map"):
            break
        if each.bound_by == "vmap_spmd":
            split.append(split_axis(each))
    return spot.jax.shard_map(
        lambda block: f(block[0])[None],
        mesh=mesh if axis == outermost else None,
        in_specs=spec,
        out_specs=spec,
        axis_names={axis.name, *split},
        check_vma=check_vma,
    )


def grad(spot, f):
    return spot.jax.grad(lambda x: spot.jnp.sum(f(x)))


def jvp(spot, f):
    return lambda x: spot.jax.jvp(f, (x,), (SHARE * x,))[1]


def slope(f, x, tangent):
    """The derivative by differences, with an error of the order of step^4; three inside of each other are good for six
    digits."""
    step = 1e-3
    near = f(x + step * tangent) - f(x - step * tangent)
    far = f(x + 2 * step * tangent) - f(x - 2 * step * tangent)
    return (8 * near - far) / (12 * step)


def plain_grad(spot, f):
    """Of the sum over all places, by the elements of all places."""

    def gradient(x):
        rank = len(spot.axes) + 1
        shape = x.shape[-rank:]
        basis = np.eye(math.prod(shape)).reshape(-1, *[1] * (x.ndim - rank), *shape)
        slopes = slope(f, x, basis).sum(axis=tuple(range(-rank, 0)))
        return np.moveaxis(slopes, 0, -1).reshape(x.shape)

    return gradient


def scan(spot, f):
    def scanned(x):
        def trip(carry, weight):
            return f(carry) * weight + SHARE * x, carry

        last, stack = spot.lax.scan(trip, x, spot.jnp.asarray(WEIGHTS, x.dtype))
        return last + stack[1]

    return scanned


def plain_scan(spot, f):
    def scanned(x):
        carry = x
        for weight in WEIGHTS:
            before, carry = carry, f(carry) * weight + SHARE * x
        return carry + before

    return scanned


def while_loop(spot, f):
    def looped(x):
        trips = spot.jnp.where(decision(spot, x), 2, 1)
        return spot.lax.while_loop(lambda c: c[0] < trips, lambda c: (c[0] + 1, f(c[1])), (0, x))[1]

    return looped


def plain_while_loop(spot, f):
    def looped(x):
        once = f(x)
        return np.where(plain_decision(spot, x), f(once), once)

    return looped


def cond(spot, f):
    return lambda x: spot.lax.cond(decision(spot, x), f, lambda x: 2 * x, x)


def plain_cond(spot, f):
    return lambda x: np.where(plain_decision(spot, x), f(x), 2 * x)


def custom_vjp(spot, f):
    function = spot.jax.custom_vjp(f)
    function.defvjp(lambda x: (f(x), x), lambda x, cotangent: spot.jax.vjp(f, x)[1](cotangent))
    return function


def custom_jvp(spot, f):
    function = spot.jax.custom_jvp(f)
    function.defjvp(lambda primals, tangents: spot.jax.jvp(f, primals, tangents))
    return function


TRANSFORMATIONS = {
    "jit": Entry(lambda spot, f: spot.jax.jit(f), same),
    "vmap": Entry(vmap, same, axes=1),
    "vmap_spmd": Entry(vmap_spmd, same, axes=1, is_on_devices=True),
    "pmap": Entry(pmap, same, axes=1, is_on_devices=True),
    "nested_pmap": Entry(pmap, same, axes=2, is_on_devices=True),
    "shard_map": Entry(shard_map, same, axes=1, is_on_devices=True),
    "shard_map_unchecked": Entry(functools.partial(shard_map, check_vma=False), same, axes=1, is_on_devices=True),
    "grad": Entry(grad, plain_grad),
    "jvp": Entry(jvp, lambda spot, f: lambda x: slope(f, x, SHARE * x)),
    "scan": Entry(scan, plain_scan),
    "while_loop": Entry(while_loop, plain_while_loop),
    "cond": Entry(cond, plain_cond),
    "checkpoint": Entry(lambda spot, f: spot.jax.checkpoint(f), same),
    "custom_vjp": Entry(custom_vjp, same),
    "custom_jvp": Entry(custom_jvp, same),
}


# What is refused. In the text of each exception is one of these.

REASONS = (
    "a while_loop has no derivative in reverse",
    "a function with custom_vjp has a derivative in reverse alone",
    "has no derivative; its operands are",
    "it must use the same devices in the same order",
    "which is manual already here",
    "cannot be inside a shard_map over",
)
REFUSED = pathlib.Path(__file__).parent / "compositions_refused.txt"
HEADING = """Compositions of transformations (compositions.py) that Shoal refuses, and what JAX 0.12.0 does with them.
Above each list stands what is in the text of Shoal's exception, and the exceptions of both; `all` is for all bodies
that fit a chain. `wrong values` are what JAX gives where NumPy says something else. A list whose heading begins with
`Shoal: ` is of what JAX computes: it may only shrink.
tools/record_compositions.py writes this file.
"""


@dataclasses.dataclass(frozen=True)
class Refusal:
    reason: str  # Of REASONS.
    error: str  # The class of Shoal's exception.
    error_of_jax: str  # Nothing where it computes the composition.

    def __str__(self):
        return f"{self.reason} ({self.error}; JAX: {self.error_of_jax})" if self.error_of_jax else (
            f"Shoal: {self.reason} ({self.error})"
        )

    @staticmethod
    def parsed(text):
        ours, _, error_of_jax = text.removeprefix("Shoal: ").removesuffix(")").partition("; JAX: ")
        reason, _, error = ours.rpartition(" (")
        return Refusal(reason, error, error_of_jax)


def bodies_of(chain):
    return [body for body in BODIES if Cell(chain, body).exists]


def text_of_bodies(chain, bodies):
    others = [body for body in bodies_of(chain) if body not in bodies]
    if len(others) > len(bodies):
        return " ".join(bodies)
    return " but ".join(["all", *([" ".join(others)] if others else [])])


def parsed_bodies(chain, text):
    if text.split()[0] != "all":
        return text.split()
    return [body for body in bodies_of(chain) if body not in text.removeprefix("all but ").split()]


def refusals():
    """The cells that are refused, with the refusals."""
    found = {}
    for line in REFUSED.read_text().splitlines()[len(HEADING.splitlines()) :]:
        if line.startswith("    "):
            names, _, bodies = line.strip().partition(": ")
            chain = tuple(names.split())
            for body in parsed_bodies(chain, bodies):
                found[Cell(chain, body)] = refusal
        elif line:
            refusal = Refusal.parsed(line)
    return found


def write_refusals(found):
    lists = {}
    for cell, refusal in found.items():
        lists.setdefault(refusal, {}).setdefault(cell.chain, []).append(cell.body)
    text = HEADING
    for refusal in sorted(lists, key=str):
        text += f"\n{refusal}\n"
        for chain, bodies in lists[refusal].items():
            text += f"    {' '.join(chain)}: {text_of_bodies(chain, bodies)}\n"
    REFUSED.write_text(text)


def disagreement(cell, jax):
    """What is wrong with what JAX or Shoal computes; nothing if nothing is. Its exceptions are the caller's."""
    x = cell.argument()
    result = np.asarray(cell.function(jax)(np.float32(x)))
    wanted = cell.plain(jax)(x)
    if result.shape != wanted.shape:
        return f"{cell} has shape {result.shape}, not {wanted.shape}"
    if np.allclose(result, wanted, rtol=1e-4, atol=1e-5 + 1e-4 * np.abs(wanted).max()):
        return None
    return f"{cell} gives\n{result}\nnot\n{wanted}"
