"""jax.debug_key_reuse: keys that are used twice are found, and both lines are named. What is found is what JAX 0.12 finds,
but where a comment says otherwise."""

import numpy as np
import pytest

import shoal as jax
import shoal.numpy as jnp
from shoal import lax, random
from shoal.errors import KeyReuseError


@pytest.fixture(autouse=True)
def checked():
    with jax.debug_key_reuse(True):
        yield


def twice(f):
    def program(key):
        f(key)
        f(key)

    return program


def draw_all(keys):
    return jax.vmap(random.normal)(keys)


def reshaped(key):  # JAX does not see this.
    random.normal(key)
    random.normal(key.reshape(1)[0])


def indexed_twice(key):
    keys = random.split(key)
    random.normal(keys[0])
    random.normal(keys[0])


def batch_then_one(key):
    keys = random.split(key, 4)
    draw_all(keys)
    random.normal(keys[1])


def stacked(key):
    draw_all(jnp.stack([key, key]))


def in_a_loop(key):
    lax.fori_loop(0, 3, lambda i, total: total + random.normal(key), 0.0)


def branches_then(key):
    lax.cond(True, lambda k: random.normal(k), lambda k: 0.0, key)
    random.normal(key)


def slices_then(key):
    keys = random.split(key, 4)
    lax.scan(lambda total, k: (total, random.normal(k)), 0.0, keys)
    random.normal(keys[3])


def carried(key):
    lax.scan(lambda k, _: (k, random.normal(k)), key, jnp.arange(3))


def jitted(key):
    jax.jit(lambda k: random.normal(k) + random.uniform(k))(key)


def jitted_twice(key):
    f = jax.jit(random.normal)
    f(key)
    f(key)


def iterated(key):
    for one in random.split(key, 3):
        random.normal(one)
    random.normal(random.clone(one))
    random.normal(one)


@pytest.mark.parametrize("program", [
    twice(random.normal), twice(random.split), twice(lambda key: random.gamma(key, 2.0)), reshaped, indexed_twice,
    batch_then_one, stacked, in_a_loop, branches_then, slices_then, carried, jitted, jitted_twice, iterated,
])
@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_reuse_is_found(program, impl):
    with pytest.raises(KeyReuseError):
        program(random.key(0, impl=impl))


def cloned(key):
    random.normal(random.clone(key))
    random.normal(key)
    random.normal(random.clone(key))


def each_index(key):
    keys = random.split(key)
    random.normal(keys[0])
    random.normal(keys[1])
    first, second = random.split(random.key(1))
    random.normal(first)
    random.normal(second)


def folded_in_a_loop(key):
    lax.fori_loop(0, 3, lambda i, total: total + random.normal(random.fold_in(key, i)), 0.0)


def indexed_in_a_loop(key):  # JAX takes this for reuse.
    keys = random.split(key, 3)
    lax.fori_loop(0, 3, lambda i, total: total + random.normal(keys[i]), 0.0)


def split_in_a_loop(key):
    def step(k, _):
        k, own = random.split(k)
        return k, random.normal(own)

    last, _ = lax.scan(step, key, jnp.arange(3))
    random.normal(last)


def either(key):
    lax.cond(True, lambda k: random.normal(k), lambda k: random.uniform(k), key)


def of_a_checkpoint(key):  # JAX takes this for reuse.
    jax.grad(jax.checkpoint(lambda w: jnp.sum(w * random.normal(key, (3,)))))(jnp.ones(3))


def of_gradients(key):
    jax.jit(jax.grad(lambda w: jnp.sum(w * jax.jit(random.normal)(key, ()))))(jnp.ones(3))
    jax.vmap(lambda x: x + random.normal(random.fold_in(key, 1)))(jnp.ones(3))


def raw(key):
    words = random.key_data(key)
    random.normal(words)
    random.normal(words)


@pytest.mark.parametrize("program", [
    twice(lambda key: random.fold_in(key, 1)), twice(random.key_data), cloned, each_index, folded_in_a_loop,
    indexed_in_a_loop, split_in_a_loop, either, of_a_checkpoint, of_gradients, raw,
])
def test_what_is_no_reuse(program):
    program(random.key(0))


def line_of(text):
    with open(__file__, encoding="utf-8") as file:
        return next(number for number, line in enumerate(file, 1) if line.rstrip().endswith(text))


def test_both_lines_are_named():
    key = random.key(3)
    random.normal(key)  # first
    with pytest.raises(KeyReuseError) as caught:
        random.uniform(key)  # second
    said = str(caught.value)
    assert f"uniform: the key is used before, at test_key_reuse.py:{line_of('# fir' + 'st')};" in said
    assert said.endswith(f"test_key_reuse.py:{line_of('# seco' + 'nd')}")
    assert isinstance(caught.value, TypeError)


def test_a_failed_call_uses_nothing():
    key = random.key(4)
    with pytest.raises(KeyReuseError):
        jax.jit(lambda k: (random.normal(k), random.normal(k)))(key)
    random.normal(key)


def test_it_is_off_by_default():
    key = random.key(0)
    random.normal(key)
    with jax.debug_key_reuse(False):
        np.testing.assert_array_equal(random.normal(key), random.normal(key))
    with pytest.raises(KeyReuseError):
        random.normal(key)
    assert jax.config.jax_debug_key_reuse
