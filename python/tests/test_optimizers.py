"""Optimizers, schedules, layers and losses, as a program uses them. Their figures are compared in C++ with Optax's."""

import numpy as np
import pytest

import shoal
import shoal.numpy as jnp
from shoal import lax, nn, optimizers
from shoal.nn import layers
from shoal.sharding import NamedSharding, PartitionSpec as P


def params():
    return {"w": jnp.arange(8.0).reshape(2, 4) / 8, "b": (jnp.zeros(4), jnp.ones(()))}


def loss(p, x):
    return jnp.sum((layers.dense(x, p["w"], p["b"][0]) - p["b"][1]) ** 2)


def run(optimizer, steps=5, x=jnp.ones((3, 2))):
    @shoal.jit
    def step(p, state, x):
        updates, state = optimizer.update(shoal.grad(loss)(p, x), state, p)
        return optimizers.apply_updates(p, updates), state

    p = params()
    state = optimizer.init(p)
    for _ in range(steps):
        p, state = step(p, state, x)
    return p, state


def test_each_optimizer_goes_down():
    x = jnp.ones((3, 2))
    for make in (
        lambda: optimizers.sgd(1e-3, momentum=0.9),
        lambda: optimizers.adam(1e-2),
        lambda: optimizers.adamw(1e-2, weight_decay=0.1, mask=lambda path, p: p.ndim > 1),
        lambda: optimizers.lion(1e-3),
        lambda: optimizers.lamb(1e-2),
        lambda: optimizers.adagrad(1e-2),
        lambda: optimizers.rmsprop(1e-2),
        lambda: optimizers.adafactor(1e-2),
        lambda: optimizers.muon(1e-2),
        lambda: optimizers.chain(optimizers.clip_by_global_norm(1.0), optimizers.adam(1e-2)),
        lambda: optimizers.multi_steps(optimizers.sgd(1e-2), 2),
    ):
        p, _ = run(make(), 6)
        assert float(loss(p, x)) < float(loss(params(), x))


def test_state_is_a_dict_by_names():
    optimizer = optimizers.adam(optimizers.cosine_decay_schedule(0.1, 10))
    _, state = run(optimizer)
    assert list(state) == sorted(state)
    assert state["0.mu['b'][0]"].shape == (4,)
    assert int(state["0.count"]) == int(state["1.count"]) == 5


def test_moments_lie_as_their_parameters():
    mesh = shoal.make_mesh((8,), ("x",))
    w = shoal.device_put(jnp.ones((16, 4)), NamedSharding(mesh, P("x")))
    state = optimizers.adamw(1e-3).init({"w": w})
    assert state["0.mu['w']"].sharding.is_equivalent_to(w.sharding, 2)


def test_schedules_may_be_functions():
    rates = []

    def rate(count):
        rates.append(count)
        return 0.1 / (1 + count)

    optimizer = optimizers.sgd(rate)
    p = {"x": jnp.ones(2)}
    state = optimizer.init(p)
    for i in range(3):
        updates, state = optimizer.update({"x": jnp.ones(2)}, state, p)
        np.testing.assert_allclose(updates["x"], -0.1 / (1 + i), rtol=1e-6)
    assert len(rates) == 3
    joined = optimizers.join_schedules([0.5, optimizers.linear_schedule(1.0, 0.0, 4), lambda c: c * 2.0], [2, 6])
    assert [float(joined(i)) for i in (0, 2, 4, 6, 7)] == [0.5, 1.0, 0.5, 0.0, 2.0]


def test_an_error_of_a_schedule_or_mask_is_the_users():
    def broken(*_):
        raise RuntimeError("the user's")

    p = {"x": jnp.ones(2)}
    with pytest.raises(RuntimeError, match="the user's"):
        optimizers.sgd(broken).update(p, {"1.count": jnp.zeros((), jnp.int32)}, p)
    with pytest.raises(RuntimeError, match="the user's"):
        optimizers.masked(optimizers.adam(0.1), broken).init(p)


def test_scan_over_steps():
    optimizer = optimizers.adam(1e-2)

    def step(carry, x):
        p, state = carry
        value, gradient = shoal.value_and_grad(loss)(p, x)
        updates, state = optimizer.update(gradient, state, p)
        return (optimizers.apply_updates(p, updates), state), value

    p = params()
    xs = jnp.ones((5, 3, 2))
    (scanned, _), losses = lax.scan(step, (p, optimizer.init(p)), xs)
    expected, _ = run(optimizer)
    np.testing.assert_allclose(scanned["w"], expected["w"], rtol=1e-5)
    assert losses.shape == (5,)


def test_partition_and_average():
    optimizer = optimizers.partition(
        {"slow": optimizers.sgd(0.1), "frozen": optimizers.set_to_zero()},
        lambda path, p: "slow" if path == "['w']" else "frozen",
    )
    p = {"w": jnp.ones(2), "b": jnp.ones(2)}
    updates, _ = optimizer.update(p, optimizer.init(p), p)
    assert updates["b"].tolist() == [0, 0] and updates["w"][0] == -jnp.float32(0.1)
    average = optimizers.incremental_update({"w": jnp.ones(2)}, {"w": jnp.zeros(2)}, 0.25)
    assert average["w"].tolist() == [0.25, 0.25]


def test_misuse():
    p = {"w": jnp.ones(2)}
    optimizer = optimizers.adam(0.1)
    state = optimizer.init(p)
    with pytest.raises(ValueError, match="the state has no \"count\""):
        optimizer.update(p, {}, p)
    with pytest.raises(TypeError, match="the state must be the dict that init or update gave, got <class 'list'>"):
        optimizer.update(p, [], p)
    with pytest.raises(TypeError, match="the gradient\\['w'\\] has shape \\(3,\\), its parameter \\(2,\\)"):
        optimizer.update({"w": jnp.ones(3)}, state, p)
    with pytest.raises(TypeError, match="needs transformations of gradients, got <class 'float'>"):
        optimizers.chain(optimizer, 0.1)
    with pytest.raises(TypeError, match="adamw: mask must be a function of a path and an array"):
        optimizers.adamw(0.1, mask={"w": True})
    with pytest.raises(TypeError, match="the trees are .* should have one structure"):
        optimizers.apply_updates(p, {"v": jnp.ones(2)})
    with pytest.raises(ValueError, match="decay_steps is 0"):
        optimizers.cosine_decay_schedule(0.1, 0)


def test_loss_scales():
    from shoal import mixed_precision as mp

    scale = mp.loss_scale(1024.0)
    w = {"w": jnp.ones(3)}
    gradients = shoal.grad(
        lambda p: mp.scale_loss(jnp.sum(mp.cast_floats(p, jnp.float16)["w"] * jnp.float16(0.5)), scale))(w)
    assert mp.unscale(gradients, scale)["w"].tolist() == [0.5] * 3
    assert bool(mp.all_finite(gradients)) and not bool(mp.all_finite({"a": jnp.array([jnp.inf])}))
    scale = shoal.jit(lambda s: mp.adjust(s, False))(scale)
    assert float(scale[0]) == 512 and int(scale[1]) == 0
    with pytest.raises(ValueError, match="loss_scale: the scale is -1"):
        mp.loss_scale(-1.0)
    with pytest.raises(ValueError, match="adjust: the period is 0"):
        mp.adjust(scale, True, period=0)


def test_layers():
    x = jnp.arange(24.0).reshape(1, 4, 3, 2)
    assert layers.conv(x, jnp.ones((3, 3, 2, 5)), strides=(2, 1)).shape == (1, 2, 3, 5)
    assert layers.max_pool(x, (2, 3), strides=(2, 3))[0, :, 0].tolist() == [[10, 11], [22, 23]]
    assert layers.avg_pool(x, (2, 3), padding=[(1, 1), (0, 0)]).shape == (1, 5, 1, 2)
    np.testing.assert_allclose(
        layers.layer_norm(x, jnp.ones(2), jnp.ones(2)), nn.standardize(x, epsilon=1e-6) + 1, rtol=1e-6)
    assert layers.rms_norm(x, axis=(-2, -1)).shape == x.shape
    assert layers.group_norm(x, 2).shape == x.shape
    assert layers.embed(jnp.arange(6.0).reshape(3, 2), jnp.array([2, 0])).tolist() == [[4, 5], [0, 1]]
    assert layers.rotary_embedding(jnp.ones((2, 3, 4, 8)), jnp.arange(3)).shape == (2, 3, 4, 8)
    kept = layers.dropout(shoal.random.key(0), jnp.ones(1000), 0.5)
    assert set(kept.tolist()) == {0.0, 2.0}
    assert layers.softmax_cross_entropy_with_integer_labels(jnp.zeros((3, 4)), jnp.arange(3)).tolist() == pytest.approx(
        [np.log(4)] * 3)
    assert float(layers.masked_mean(jnp.array([1.0, jnp.nan]), jnp.array([True, False]))) == 1
    assert layers.huber_loss(jnp.array([0.5, 3.0]), delta=1.0).tolist() == [0.125, 2.5]
    with pytest.raises(ValueError, match="squared_error: predictions are float32\\[8,1\\]"):
        layers.squared_error(jnp.ones((8, 1)), jnp.ones(8))


def test_cache_gives_what_attention_gives():
    q, k, v = (shoal.random.normal(shoal.random.key(i), (2, 6, 4, 8)) for i in range(3))
    whole = nn.dot_product_attention(q, k, v, is_causal=True)
    cache = layers.key_value_cache(2, 8, 4, 8)

    @shoal.jit(donate_argnums=0)
    def step(cache, q, k, v):
        cache = layers.extend(cache, k, v)
        return cache, layers.cached_attention(q, cache)

    for i in range(6):
        cache, one = step(cache, *(a[:, i : i + 1] for a in (q, k, v)))
        np.testing.assert_allclose(one, whole[:, i : i + 1], rtol=1e-4, atol=1e-6)


def test_infinite_scores_give_what_optax_gives():
    inf, nan = jnp.inf, jnp.nan
    scores = jnp.array([[inf, 0.0, 1.0], [inf, 0.0, 1.0], [-inf, 0.0, 1.0], [-inf, -inf, -inf]])
    classes = jnp.array([0, 1, 0, 0])
    loss = layers.softmax_cross_entropy_with_integer_labels
    np.testing.assert_array_equal(loss(scores, classes), [nan, inf, inf, nan])
    slopes = shoal.grad(lambda s: loss(s, classes).sum())(scores)
    np.testing.assert_array_equal(slopes[:2], [[nan, 0, 0], [nan, -1, 0]])


def test_parts_of_optimizers():
    x = jnp.ones((3, 2))
    p, _ = run(optimizers.chain(optimizers.scale_by_adam(b2=0.9), optimizers.scale(-0.1)))
    wanted, _ = run(optimizers.adam(0.1, b2=0.9))
    for a, b in zip(shoal.tree.leaves(p), shoal.tree.leaves(wanted)):
        np.testing.assert_array_equal(a, b)
    for part in (
        optimizers.scale_by_lion(), optimizers.scale_by_rms(), optimizers.scale_by_rss(),
        optimizers.scale_by_factored_rms(min_dim_size_to_factor=2), optimizers.scale_by_param_block_rms(),
        optimizers.scale_by_trust_ratio(),
        optimizers.masked(optimizers.scale_by_muon(ns_steps=3), lambda path, p: p.ndim == 2),
    ):
        p, _ = run(optimizers.chain(part, optimizers.scale(-1e-3)))
        assert float(loss(p, x)) < float(loss(params(), x))


def heavy_ball(decay):
    def init(params):
        return {"sum": shoal.tree.map(jnp.zeros_like, params), "count": jnp.int32(0)}

    def update(updates, state, params):
        total = shoal.tree.map(lambda u, s: u + decay * s, updates, state["sum"])
        return total, {"sum": total, "count": state["count"] + 1}

    return init, update


def test_transformations_of_ones_own():
    # As a pair, as an object, and for a part of the parameters.
    own = optimizers.chain(heavy_ball(0.5), optimizers.scale(-0.1))
    p, state = run(own)
    wanted, _ = run(optimizers.sgd(0.1, momentum=0.5))
    for a, b in zip(shoal.tree.leaves(p), shoal.tree.leaves(wanted)):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    assert sorted(state) == ["0.count", "0.sum['b'][0]", "0.sum['b'][1]", "0.sum['w']"] and int(state["0.count"]) == 5
    made = optimizers.GradientTransformation(*heavy_ball(0.5))
    _, state = run(optimizers.masked(made, lambda path, p: p.ndim == 2))
    assert sorted(state) == ["count", "sum['w']"]
    # A tree that is one array has no path.
    updates, state = made.update(jnp.ones(2), made.init(jnp.ones(2)), jnp.ones(2))
    assert updates.tolist() == [1, 1] and sorted(state) == ["count", "sum."]
    nothing = lambda params: {}
    for pair, message in (
        ((nothing, lambda u, s, p: u), "what update gives must be a tuple"),
        ((nothing, lambda u, s, p: ({}, s)), "the updates should have the same keys"),
        ((lambda p: [], lambda u, s, p: (u, s)), "what init gives must be a dict"),
        ((lambda p: {"mu": {"['v']": jnp.ones(2)}}, None), "init and update must be functions"),
        ((lambda p: {"mu": {"['v']": jnp.ones(2)}}, lambda u, s, p: (u, s)), "which is no parameter"),
    ):
        with pytest.raises(TypeError, match=message):
            made = optimizers.chain(pair)
            made.update(params(), made.init(params()), params())
    for make in (
        lambda: optimizers.partition([optimizers.sgd(1.0)], lambda path, p: "a"),
        lambda: optimizers.piecewise_constant_schedule(1.0, "x"),
    ):
        with pytest.raises(TypeError, match="must be a dict"):
            make()
