"""How the time of steps is told."""

import shoal as jax
import shoal.numpy as jnp


def test_step_timer():
    x = jax.device_put(jnp.ones((8, 1 << 16)), jax.NamedSharding(jax.make_mesh((8,), ("x",)), jax.P("x")))
    total = jax.jit(lambda v: jnp.sin(v).sum(0))
    jax.block_until_ready(total(x))
    timer = jax.profiler.StepTimer()
    jax.block_until_ready(total(x))
    spent = timer.lap()
    assert sorted(spent) == ["compute", "exchange", "total", "waiting"]
    assert spent["compute"] > 0 and spent["exchange"] > 0 and spent["waiting"] == 0
    assert spent["compute"] + spent["exchange"] <= spent["total"]
    idle = timer.lap()
    assert idle["compute"] == idle["exchange"] == 0 < idle["total"]
