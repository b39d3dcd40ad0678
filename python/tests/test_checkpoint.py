"""What derivatives keep: by every policy the same bits, the list of residuals, functions as policies, texts of errors."""

import functools
import re

import numpy as np
import pytest

import shoal as jax
import shoal.numpy as jnp
from shoal import ad_checkpoint, lax, shard_map
from shoal.ad_checkpoint import Offloadable, Recompute, Saveable, checkpoint_name, saved_residuals
from shoal.ad_checkpoint import checkpoint_policies as cp
from shoal.sharding import NamedSharding, P


def layer(w, x):
    h = checkpoint_name(jnp.tanh(x @ w), "h")
    return jnp.sin(checkpoint_name(h @ w, "g"))


def loop(w, x):
    return lax.scan(lambda c, s: (layer(w, c) * s, jnp.sum(c)), x, jnp.arange(1.0, 4.0))[0]


def on_shards(w, x):
    mesh = jax.make_mesh((8,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    return shard_map(layer, mesh=mesh, in_specs=(P(), P("i")), out_specs=P("i"))(w, x)


POLICIES = {
    "none": None,
    "everything": cp.everything_saveable,
    "dots": cp.dots_saveable,
    "h": cp.save_only_these_names("h"),
    "any but h": cp.save_any_names_but_these("h"),
    "except h": cp.save_anything_except_these_names("h"),
    "both": cp.save_from_both_policies(cp.dots_saveable, cp.save_only_these_names("h")),
    "offloaded": cp.save_and_offload_only_these_names(
        names_which_can_be_saved=["h"], names_which_can_be_offloaded=["g"], offload_src="device", offload_dst="pinned_host"
    ),
    "offloaded dots": cp.offload_dot_with_no_batch_dims("device", "pinned_host"),
    "function": lambda prim, *avals, **params: prim.name == "tanh",
}


@pytest.fixture
def operands():
    mesh = jax.make_mesh((8,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    x = jnp.cos(jnp.arange(32.0)).reshape(8, 4)
    return jnp.sin(jnp.arange(16.0)).reshape(4, 4), jax.device_put(x, NamedSharding(mesh, P("i")))


@pytest.mark.parametrize("f", [layer, loop, on_shards, jax.jit(layer), jax.vmap(layer, (None, 0))])
def test_gradients_are_the_same_bits(f, operands):
    def gradient(f):
        return jax.grad(lambda w, x: jnp.sum(f(w, x) ** 2), argnums=(0, 1))

    expected = jax.jit(gradient(f))(*operands)
    for name, policy in POLICIES.items():
        for way in (gradient, lambda f: jax.jit(gradient(f))):
            made = way(jax.checkpoint(f, policy=policy))(*operands)
            for one, other in zip(made, expected):
                np.testing.assert_array_equal(np.asarray(one), np.asarray(other), err_msg=name)


def test_residuals_say_what_they_are(operands):
    w, x = operands
    first, *more, last = saved_residuals(jax.checkpoint(layer, policy=cp.save_only_these_names("h")), w, x=x)
    assert (str(first), first.argument, first.nbytes) == ("f32[4,4] from the argument w", "w", 64)
    assert [one.argument for one in more] == ["x"]
    assert (last.name, last.op, last.memory_kind) == ("h", "tanh", "device")
    assert last.aval == jax.ShapeDtypeStruct((8, 4), jnp.float32)
    assert "test_checkpoint.py:" in last.line and str(last) == f"f32[8,4] named 'h' from {last.line}"
    (constant,) = [one for one in saved_residuals(lambda a: jnp.sin(a) * w, w) if not (one.argument or one.op)]
    assert str(constant) == "f32[4,4] from a constant"


def test_names_of_arguments():
    def f(tree, *rest, scale):
        return jnp.sin(tree["a"][0]) * jnp.cos(rest[1]) * jnp.exp(scale)

    types = jax.ShapeDtypeStruct((3,), jnp.float32)
    made = saved_residuals(f, {"a": [types]}, types, types, scale=types)
    assert {one.argument for one in made if one.argument} == {"tree['a'][0]", "rest[1]"}


def test_print_saved_residuals(capsys):
    ad_checkpoint.print_saved_residuals(jnp.sin, jnp.ones(3))
    assert capsys.readouterr().out == "f32[3] from the argument x\n"


def test_functions_as_policies(operands):
    asked = []

    def policy(prim, *avals, **params):
        asked.append((prim, [aval.shape for aval in avals], params))
        if prim is ad_checkpoint.name_p:
            return Saveable if params["name"] == "h" else Recompute
        return Offloadable("device", "pinned_host") if cp.dots_saveable(prim, *avals, **params) else False

    made = saved_residuals(jax.checkpoint(layer, policy=policy), *operands)
    assert [str(one).split(" from ")[0] for one in made[2:]] == ["f32[8,4] named 'h'", "f32<pinned_host>[8,4] named 'g'"]
    assert [str(prim) for prim, _, _ in asked] == ["dot_general", "tanh", "name", "dot_general", "name", "sin"]
    assert asked[0][1:] == ([(8, 4), (4, 4)], {"dimension_numbers": (((1,), (0,)), ((), ()))})
    assert asked[2][2] == {"name": "h"}


def test_functions_as_policies_inside_of_each_other(operands):
    inner = jax.checkpoint(layer, policy=lambda prim, *_, **__: prim.name == "tanh")
    outer = jax.checkpoint(lambda w, x: inner(w, x), policy=lambda prim, *_, **__: prim.name == "dot_general")
    kept = [one.op for one in saved_residuals(outer, *operands) if one.op]
    assert "dot_general" in kept


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda: jax.checkpoint(3), TypeError, "checkpoint: needs a function, got <class 'int'>"),
        (
            lambda: jax.checkpoint(jnp.sin, policy=3),
            TypeError,
            "checkpoint: policy must be one of checkpoint_policies or a function, got 3 of type <class 'int'>",
        ),
        (
            lambda: jax.checkpoint(jnp.sin, policy=lambda *_, **__: 3)(1.0),
            TypeError,
            "checkpoint: a policy must return a bool, or Recompute, Saveable or Offloadable",
        ),
        (
            lambda: jax.checkpoint(jnp.sin, policy=lambda *_, **__: Offloadable("device", "disk"))(1.0),
            ValueError,
            "checkpoint: dst of Offloadable: .*disk",
        ),
        (lambda: cp.dots_saveable(None), TypeError, "is asked by checkpoint, and by functions that are policies, alone"),
        (lambda: cp.save_only_these_names(3), TypeError, "save_only_these_names: names must be str, got 3"),
        (
            lambda: cp.save_and_offload_only_these_names(
                names_which_can_be_saved=["a"],
                names_which_can_be_offloaded=["b", "a"],
                offload_src="device",
                offload_dst="pinned_host",
            ),
            ValueError,
            "save_and_offload_only_these_names: name 'a' is in names_which_can_be_saved and in",
        ),
        (
            lambda: cp.offload_dot_with_no_batch_dims("device", "disk"),
            ValueError,
            "offload_dot_with_no_batch_dims: offload_dst: .*disk",
        ),
        (
            lambda: cp.save_from_both_policies(
                cp.dots_saveable, cp.offload_dot_with_no_batch_dims("device", "pinned_host")
            ),
            ValueError,
            "save_from_both_policies: a policy keeps values in another memory",
        ),
        (lambda: cp.save_from_both_policies(3, cp.dots_saveable), TypeError, "policy must be one of"),
        (
            lambda: jax.checkpoint(jnp.sin, policy=cp.save_from_both_policies(lambda *_, **__: 1, cp.dots_saveable))(1.0),
            ValueError,
            "save_from_both_policies: both policies must return a bool, got 1 and False",
        ),
        (lambda: checkpoint_name(1.0, 3), TypeError, "checkpoint_name: name must be a str, got 3"),
        (lambda: checkpoint_name("text", "a"), TypeError, "checkpoint_name"),
        (lambda: jax.checkpoint(jnp.sin, prevent_cse=3), TypeError, "prevent_cse must be a bool or a tuple of bools"),
        (
            lambda: jax.checkpoint(jnp.sin, static_argnums=[0])(1.0),
            TypeError,
            "checkpoint: static_argnums must be an int or a tuple of ints",
        ),
        (
            lambda: jax.checkpoint(jnp.sin, static_argnums=1)(1.0),
            ValueError,
            "checkpoint: static_argnums has 1, but the function is called with 1 arguments",
        ),
        (lambda: jax.make_jaxpr(3), TypeError, "make_jaxpr"),
        (lambda: jax.make_jaxpr(jnp.sin, axis_env=[("i", 3)]), NotImplementedError, "make_jaxpr: axis_env is not there yet"),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_static_arguments():
    f = jax.checkpoint(lambda x, power, scale=1: x**power * scale, static_argnums=1, static_argnames="scale")
    assert jax.grad(f)(2.0, 3, scale=2) == 24.0


def test_make_jaxpr():
    def f(x, n):
        return {"y": jnp.sin(x) @ jnp.ones(3), "z": x * n}

    jaxpr, shape = jax.make_jaxpr(f, static_argnums=1, return_shape=True)(jnp.ones(3), 2)
    assert "sin(" in str(jaxpr) and str(jaxpr).startswith('graph "f"')
    assert [str(aval) for aval in jaxpr.in_avals] == ["float32[3]"]
    assert [str(aval) for aval in jaxpr.out_avals] == ["float32[]", "float32[3]"]
    assert shape["y"].shape == ()
    names = [eqn.primitive.name for eqn in jaxpr.eqns]
    assert names.count("dot_general") == 1 and "sin" in names and "mul" in names
    assert all("test_checkpoint.py:" in eqn.line for eqn in jaxpr.eqns)
    assert str(jaxpr) == str(jax.jit(functools.partial(f, n=2)).trace(jnp.ones(3))).rstrip("\n").replace(
        'graph "<unnamed function>"', 'graph "f"'
    )
    assert "pinned_host" in str(jax.make_jaxpr(jax.grad(
        jax.checkpoint(lambda w: jnp.sum(layer(w, w)), policy=cp.save_and_offload_only_these_names(
            names_which_can_be_saved=[], names_which_can_be_offloaded=["h"], offload_src="device",
            offload_dst="pinned_host"))))(jnp.ones((2, 2))))


def test_explain_memory(operands):
    f = jax.grad(lambda w, x: jnp.sum(loop(w, x) + layer(w, x)), argnums=(0, 1))
    lines = jax.jit(f).lower(*operands).compile().explain_memory().splitlines()
    total = int(re.fullmatch(r"'f' takes (\d+) bytes, and \d+ for its arguments", lines[0].replace("'<lambda>'", "'f'"))[1])
    tops, inside, parts = [], {}, None
    for line in lines[1:]:
        if re.match(r"\d", line):
            parts = inside.setdefault(len(tops), [])
            tops.append(int(line.split()[0]))
        elif re.match(r"  \d", line):
            parts.append(int(line.split()[0]))
    assert total == sum(tops)
    assert [sum(parts) for parts in inside.values()][:-1] == tops[:-1]
    held = [line for line in lines if "next needed by" in line]
    assert any("test_checkpoint.py:" in line for line in held)
    # What is held for later has its price, or why it has none, inside the loop as well.
    priced = re.compile(r"; (\d+ steps? computes? it again, in the time of moving \d+ bytes|it cannot be computed again: )")
    assert all(priced.search(line) for line in held)
    assert any(line.startswith("      ") for line in held)


def test_budget(operands):
    """A budget is kept to, is spent, and changes no bit."""
    w, x = operands

    def f(w, x):
        def step(c, _):
            return jnp.sin(jnp.tanh(c @ w) @ w), None

        return jnp.sum(jax.lax.scan(step, x, None, length=3)[0] ** 2)

    def saved(bytes):
        residuals = saved_residuals(jax.checkpoint(f, policy=cp.budget(bytes)), w, x)
        return sum(one.nbytes for one in residuals if not one.argument)

    expected = jax.grad(f, argnums=(0, 1))(w, x)
    sizes = []
    for budget in (0, x.nbytes, 3 * x.nbytes, 6 * x.nbytes, 1 << 30):
        sizes.append(saved(budget))
        assert sizes[-1] <= budget
        made = jax.grad(jax.checkpoint(f, policy=cp.budget(budget)), argnums=(0, 1))(w, x)
        for one, other in zip(made, expected):
            assert np.array_equal(np.asarray(one), np.asarray(other))
    assert sizes[0] == 0 and sizes == sorted(sizes) and sizes[3] > sizes[2] > 0
    with pytest.raises(ValueError, match="budget: bytes must be at least 0, got -1"):
        cp.budget(-1)


def chained_loops(w, x):
    """Four loops one after the other, each of which stacks what its way back needs."""
    h = x
    for _ in range(4):
        h = lax.fori_loop(0, 8, lambda _, c: jnp.tanh(c @ w) + x, h * 0.5)
    return jnp.sum(h * h)


def deep_steps(w, x):
    """Steps of a loop whose body holds much by itself."""

    def deep(w):
        h = x
        for _ in range(16):
            h = jnp.tanh(h @ w) + x
        return jnp.sum(h * h)

    return lax.fori_loop(0, 3, lambda _, v: v - 0.001 * jax.grad(deep)(v), w)


@pytest.mark.parametrize("f", [jax.grad(chained_loops), deep_steps])
def test_memory_budget_in_loops(f):
    w, x = jnp.arange(1024.0).reshape(32, 32) / 4000 - 0.1, jnp.arange(8192.0).reshape(256, 32) / 10000

    def taken(compiled):
        memory = compiled.memory_analysis()
        return memory.temp_size_in_bytes + memory.output_size_in_bytes

    free = jax.jit(f).lower(w, x).compile()
    for share in (0.8, 0.5):
        budget = int(taken(free) * share)
        lean = jax.jit(f, memory_budget=budget).lower(w, x).compile()
        assert taken(lean) <= budget
        assert np.array_equal(lean(w, x), free(w, x))
    with pytest.raises(MemoryError, match="the least that a call was found to take beside its arguments is"):
        jax.jit(f, memory_budget=1000).lower(w, x).compile()
