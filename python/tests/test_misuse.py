"""What is wrong with a use of a transformation is said with the line of the program, by whichever layer finds it."""

import pathlib
import re

import numpy as np
import pytest

import shoal as jax
import shoal.numpy as jnp
from shoal import lax

X = jnp.arange(3.0)
INTEGERS = jnp.arange(3)


def f(v):
    return jnp.sum(v * v)


def with_jvp(rule):
    made = jax.custom_jvp(lambda v: v * 2)
    made.defjvp(rule)
    return made


def gradient_with(forward, backward):
    made = jax.custom_vjp(lambda v: v * 2)
    made.defvjp(forward, backward)
    return jax.grad(lambda v: jnp.sum(made(v)))(X)


def doubled(v):
    return v * 2, None


def solve(linear, b):
    return b, b


CASES = {
    "grad of a number": (lambda: jax.grad(3), "grad: needs a function, got <class 'int'>"),
    "argnums": (lambda: jax.grad(f, argnums="a")(X), "grad: argnums must be an integer"),
    "argnums beyond": (lambda: jax.jacfwd(f, argnums=2)(X), "jacfwd: argnums has 2"),
    "a tree": (lambda: jax.grad(lambda v: (f(v), v))(X), "grad: the function returns a tree"),
    "no pair": (lambda: jax.value_and_grad(f, has_aux=True)(X), "value_and_grad: with has_aux the function returns a pair"),
    "no array": (lambda: jax.vjp(f, "a"), "vjp: argument [0] is neither an array nor a number"),
    "integers": (lambda: jax.grad(f)(INTEGERS), "grad: argument [0] is int32[3]"),
    "reduce_axes": (lambda: jax.grad(f, reduce_axes=("i",)), "grad: reduce_axes is not supported"),
    "jvp of a number": (lambda: jax.jvp(3, (X,), (X,)), "jvp: needs a function"),
    "vjp of a number": (lambda: jax.vjp(3, X), "vjp: needs a function"),
    "linearize of a number": (lambda: jax.linearize(3, X), "linearize: needs a function"),
    "hessian of a number": (lambda: jax.hessian(3), "hessian: needs a function"),
    "linear_transpose of a number": (lambda: jax.linear_transpose(3, X), "linear_transpose: needs a function"),
    "no tuple": (lambda: jax.jvp(f, X, X), "jvp: primals must be a tuple"),
    "tangents": (lambda: jax.jvp(f, (X,), (X, X)), "jvp: tangents must have the structure"),
    "cotangents": (lambda: jax.vjp(f, X)[1]((X, X)), "vjp: cotangents must have the structure"),
    "of linearize": (lambda: jax.linearize(f, X)[1](X, X), "linearize: tangents must have the structure"),
    "vmap of a number": (lambda: jax.vmap(3), "vmap: needs a function"),
    "in_axes": (lambda: jax.vmap(f, in_axes="a")(X), "vmap: in_axes must be an int"),
    "too many in_axes": (lambda: jax.vmap(f, in_axes=(0, 0))(X), "it has 2 entries for 1 arguments"),
    "no jvp": (lambda: jax.custom_jvp(f)(X), "No JVP defined for custom_jvp function f"),
    "no pair of a jvp": (lambda: jax.jvp(with_jvp(lambda p, t: t[0]), (X,), (X,)), "must produce a pair"),
    "no vjp": (lambda: jax.grad(jax.custom_vjp(f))(X), "No VJP defined for custom_vjp function f"),
    "no pair of fwd": (lambda: gradient_with(lambda v: v * 2, lambda kept, ct: (ct,)), "must produce a pair"),
    "no tuple of bwd": (lambda: gradient_with(doubled, lambda kept, ct: ct), "with the same container (pytree) structure"),
    "keywords": (lambda: with_jvp(doubled)(w=X), "could not be resolved to"),
    "custom_gradient": (lambda: jax.grad(jax.custom_gradient(f))(X), "custom_gradient: f must return a pair"),
    "closure_convert": (lambda: jax.closure_convert(3, X), "closure_convert: needs a function"),
    "checkpoint of a number": (lambda: jax.checkpoint(3), "checkpoint: needs a function"),
    "policy": (lambda: jax.checkpoint(f, policy="a")(X), "checkpoint: policy must be one of"),
    "static_argnums": (lambda: jax.checkpoint(f, static_argnums=5)(X), "checkpoint: static_argnums has 5"),
    "checkpoint_name": (lambda: jax.ad_checkpoint.checkpoint_name(X, 3), "checkpoint_name: name must be a str"),
    "jit of a number": (lambda: jax.jit(3), "Expected a callable value, got 3 as the function of jit"),
    "positions": (lambda: jax.jit(f, static_argnums=7), "Jitted function has static_argnums=(7,)"),
    "no hash": (lambda: jax.jit(lambda v, n: v, static_argnums=1)(X, [1]), "argument 1 of type <class 'list'>"),
    "cond": (lambda: lax.cond(True, 3, f, X), "true_fun and false_fun arguments should be callable"),
    "switch": (lambda: lax.switch(0, [], X), "switch: there are no branches"),
    "rotation": (
        lambda: jax.scipy.spatial.transform.Rotation.from_euler("x", jnp.ones(4)),
        "Rotation: angles must have the last dimensions (1,), and has the shape (4,)",
    ),
    "matrix of a few numbers": (lambda: jax.scipy.linalg.hadamard(3), "n must be a power of 2"),
    "associative_scan": (lambda: lax.associative_scan(3, X), "associative_scan: fn must be a function, got <class 'int'>"),
    "custom_linear_solve": (lambda: lax.custom_linear_solve(lambda v: v, X, solve), "what solve returns must have"),
    "custom_vmap": (lambda: jax.vmap(jax.custom_batching.custom_vmap(f))(X), "No batching rule defined"),
    "vectorize": (lambda: jnp.vectorize(f, signature="(n")(X), "not a valid gufunc signature"),
    "make_jaxpr": (lambda: jax.make_jaxpr(3), "as the function of make_jaxpr"),
    "minimize": (lambda: jax.scipy.optimize.minimize(f, X, method="none"), "Method none not recognized"),
}


@pytest.mark.parametrize("name", CASES)
def test_says_the_line(name):
    call, text = CASES[name]
    with pytest.raises(Exception) as caught:
        call()
    said = str(caught.value)
    assert text in said
    line = re.search(r"\n  at (.*):(\d+)$", said)
    assert line, said
    assert pathlib.Path(line[1]).name == "test_misuse.py"
    # That of the call, or of the function that it calls.
    source = pathlib.Path(__file__).read_text().splitlines()[int(line[2]) - 1]
    assert any(word in source for word in ("lambda", "return", "made")), source


def test_says_it_once():
    with pytest.raises(TypeError) as caught:
        jax.jvp(f, (X,), (np.ones(2, np.float32),))
    assert str(caught.value).count("\n  at ") == 1
