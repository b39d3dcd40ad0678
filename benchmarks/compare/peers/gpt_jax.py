"""The GPT of ../../gpt.h in JAX, and in Shoal where that goes by its name (../python_training.py)."""

import jax
import jax.numpy as jnp

from gpt_layout import HEADS, WIDTH


def layer_norm(x, scale, bias):
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5) * scale + bias


def forward(weights, tokens):
    x = weights["wte"][tokens] + weights["wpe"]
    for layer in weights["layers"]:
        qkv = jnp.einsum("bsd,dke->kbse", layer_norm(x, layer["ln1"], layer["b1"]), layer["wqkv"])
        q, k, v = (part.reshape(*part.shape[:2], HEADS, WIDTH // HEADS) for part in qkv)
        x = x + jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(x.shape) @ layer["wo"]
        h = layer_norm(x, layer["ln2"], layer["b2"])
        x = x + jax.nn.gelu(h @ layer["w1"] + layer["bb1"]) @ layer["w2"] + layer["bb2"]
    return layer_norm(x, weights["lnf"], weights["lnfb"]) @ weights["wte"].T
