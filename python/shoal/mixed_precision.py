"""Training with gradients in float16: a loss is multiplied before it is differentiated, so that small gradients do not
become 0, and the gradients are divided again. bfloat16 needs none of this.

    scale = loss_scale()
    gradients = jax.grad(lambda p: scale_loss(loss(cast_floats(p, jnp.float16)), scale))(params)
    gradients = unscale(gradients, scale)
    scale = adjust(scale, all_finite(gradients))
"""

from shoal._core.mixed_precision import *
