"""A small GPT that learns to write as a book does, byte by byte, on a mesh of devices.

    tools/data.sh                                        # puts a book into build/data
    SHOAL_NUM_CPU_DEVICES=8 python examples/gpt.py --mesh data=2,model=4 --strategy tp
    SHOAL_NUM_CPU_DEVICES=8 python examples/gpt.py --mesh data=8 --strategy fsdp --out /tmp/gpt
    shoal run -n 2 --devices-per-process 4 --restarts 3 -- python examples/gpt.py --mesh data=2,model=4 --strategy ring \
        --checkpoint /tmp/gpt

A strategy says how weights and activations are split. The losses are those of one device, but for roundings.
"""

import argparse
import functools
import time

import numpy as np

import shoal as jax
import shoal.numpy as jnp
from shoal import checkpoints, lax, nn, optimizers, random
from shoal.data import DataLoader
from shoal.nn import layers
from shoal.run_log import RunLog, progress_bar
from shoal.sharding import NamedSharding, PartitionSpec as P

BYTES = 256
INFINITY = 1e30


# ---- The model: a tree of weights, those of all layers stacked, and a function of it.


def init(key, options):
    """Weights as GPT-2 has them: normal numbers, less for what is added to the residual stream."""
    layers_, width, heads = options.layers, options.width, options.heads
    features = width // heads

    def normal(key, shape, scale=1.0):
        return 0.02 * scale * random.normal(key, shape)

    keys = random.split(key, 5)
    less = (2 * layers_) ** -0.5
    return {
        "embed": normal(keys[0], (BYTES, width)),
        "layers": {
            "norm1": jnp.ones((layers_, width)),
            "qkv": normal(keys[1], (layers_, width, 3, heads, features)),
            "out": normal(keys[2], (layers_, heads, features, width), less),
            "norm2": jnp.ones((layers_, width)),
            "up": normal(keys[3], (layers_, width, 4 * width)),
            "down": normal(keys[4], (layers_, 4 * width, width), less),
        },
        "norm": jnp.ones(width),
    }


def block(x, layer, positions, attend):
    """A layer of x [batch, T, width]; attend(q, k, v) is attention, and what it keeps beside."""
    q, k, v = jnp.moveaxis(layers.dense(layers.rms_norm(x, layer["norm1"]), layer["qkv"]), 2, 0)
    q, k = (layers.rotary_embedding(a, positions) for a in (q, k))
    seen, kept = attend(q, k, v)
    x = x + jnp.tensordot(seen, layer["out"], 2)
    hidden = nn.gelu(layers.dense(layers.rms_norm(x, layer["norm2"]), layer["up"]))
    return x + layers.dense(hidden, layer["down"]), kept


def logits_of(params, x):
    return layers.rms_norm(x, params["norm"]) @ params["embed"].T


def causal(q, k, v):
    return nn.dot_product_attention(q, k, v, is_causal=True), None


def one_after_the_other(stack, x, positions, attend=causal, constrain=lambda x: x):
    """All layers of a stack."""

    def one(x, layer):
        x, _ = block(constrain(x), layer, positions, attend)
        return x, None

    return lax.scan(one, constrain(x), stack)[0]


def forward(params, tokens, run):
    """Logits [batch, T, BYTES] of tokens [batch, T]; run(stack, x, positions) runs all layers."""
    positions = jnp.arange(tokens.shape[1])
    return logits_of(params, run(params["layers"], layers.embed(params["embed"], tokens), positions))


# ---- Ring attention (Liu, Zaharia and Abbeel 2023): each device has a part of the sequence, and sees the keys and values
# of the others one after the other, as they go round.


def ring_attention(mesh):
    size = mesh.shape["model"]
    rows = P("data" if "data" in mesh.shape else None, "model")

    def attend(q, k, v):
        mine = lax.axis_index("model")
        tokens = q.shape[1]
        scale = q.shape[-1] ** -0.5
        place = jnp.arange(tokens)

        def step(i, carry):
            k, v, most, total, seen = carry
            theirs = (mine - i) % size  # Whose keys these are.
            scores = scale * jnp.einsum("bqhd,bkhd->bhqk", q, k)
            is_seen = theirs * tokens + place[None, :] <= mine * tokens + place[:, None]
            scores = jnp.where(is_seen, scores, -INFINITY)
            # The softmax of all keys so far: what there was is scaled to the new maximum.
            next_most = jnp.maximum(most, scores.max(-1))
            weights = jnp.where(is_seen, jnp.exp(scores - next_most[..., None]), 0)
            fade = jnp.exp(most - next_most)
            total = total * fade + weights.sum(-1)
            seen = seen * jnp.moveaxis(fade, 1, 2)[..., None] + jnp.einsum("bhqk,bkhd->bqhd", weights, v)
            k, v = (lax.ppermute(a, "model", [(j, (j + 1) % size) for j in range(size)]) for a in (k, v))
            return k, v, next_most, total, seen

        of_query = jnp.moveaxis(q[..., 0], 1, 2)
        carry = (k, v, jnp.full_like(of_query, -INFINITY), jnp.zeros_like(of_query), jnp.zeros_like(q))
        _, _, _, total, seen = lax.fori_loop(0, size, step, carry)
        return seen / jnp.moveaxis(total, 1, 2)[..., None]

    mapped = jax.shard_map(attend, mesh=mesh, in_specs=(rows, rows, rows), out_specs=rows)
    return lambda q, k, v: (mapped(q, k, v), None)


# ---- A pipeline (Huang et al. 2019, "GPipe"): each device has some of the layers, and microbatches go from one to the
# next. While the first device has the third microbatch, the second one has the second.


def pipeline(mesh, microbatches):
    size = mesh.shape["model"]
    rows = P("data" if "data" in mesh.shape else None)

    def run(stack, x, positions):
        stage = lax.axis_index("model")
        parts = lax.pcast(x.reshape(microbatches, -1, *x.shape[1:]), "model", to="varying")

        def tick(arrived, t):
            here = jnp.where(stage == 0, parts[jnp.minimum(t, microbatches - 1)], arrived)
            done = one_after_the_other(stack, here, positions)
            return lax.ppermute(done, "model", [(i, i + 1) for i in range(size - 1)]), done

        _, done = lax.scan(tick, jnp.zeros_like(parts[0]), jnp.arange(microbatches + size - 1))
        # What the last device has made, for all.
        whole = lax.psum(jnp.where(stage == size - 1, done[size - 1 :], 0), "model")
        return whole.reshape(x.shape)

    return jax.shard_map(run, mesh=mesh, in_specs=(P("model"), rows, P()), out_specs=rows)


# ---- Strategies: where each weight lies, and how layers run.

SPECS = {
    "dp": {},
    # Each weight is split, and whole only while its layer runs (Rajbhandari et al. 2020, "ZeRO").
    "fsdp": {
        "embed": P(None, "data"),
        "qkv": P(None, "data"),
        "out": P(None, None, None, "data"),
        "up": P(None, "data"),
        "down": P(None, None, "data"),
    },
    # Heads and hidden features are split (Shoeybi et al. 2019, "Megatron-LM").
    "tp": {
        "qkv": P(None, None, None, "model"),
        "out": P(None, "model"),
        "up": P(None, None, "model"),
        "down": P(None, "model"),
    },
    "ring": {},
    "pipeline": dict.fromkeys(["norm1", "qkv", "out", "norm2", "up", "down"], P("model")),
}


def shardings_of(strategy, mesh, params):
    def place(path, _):
        return NamedSharding(mesh, SPECS[strategy].get(path[-1].key, P()))

    return jax.tree.map_with_path(place, params)


def runner_of(options, mesh):
    if options.strategy == "pipeline":
        return pipeline(mesh, options.microbatches)
    # Activations are split by rows, so that split weights are gathered, and not activations.
    rows = NamedSharding(mesh, P("data" if "data" in mesh.shape else None, "model" if options.strategy == "ring" else None))
    return functools.partial(
        one_after_the_other,
        attend=ring_attention(mesh) if options.strategy == "ring" else causal,
        constrain=lambda x: lax.with_sharding_constraint(x, rows))


# ---- Sampling, with a cache of keys and values: a token costs its own row.


@functools.partial(jax.jit, static_argnums=(2, 3))
def sample(params, prompt, count, heads, key):
    """`count` bytes behind a prompt [T]."""
    stack, width = params["layers"]["norm1"].shape
    capacity = len(prompt) + count
    empty = layers.key_value_cache(1, capacity, heads, width // heads)
    caches = jax.tree.map(lambda a: jnp.broadcast_to(a, (stack, *a.shape)), empty)

    def feed(caches, tokens, first):
        positions = first + jnp.arange(tokens.shape[1])

        def one(x, layer_and_cache):
            layer, cache = layer_and_cache

            def attend(q, k, v):
                filled = layers.extend(cache, k, v)
                return layers.cached_attention(q, filled), filled

            return block(x, layer, positions, attend)

        x, caches = lax.scan(one, layers.embed(params["embed"], tokens), (params["layers"], caches))
        return caches, logits_of(params, x[0, -1])

    def step(carry, key):
        caches, logits, place = carry
        token = random.categorical(key, logits / 0.8)
        caches, logits = feed(caches, token.reshape(1, 1), place)
        return (caches, logits, place + 1), token

    caches, logits = feed(caches, prompt[None], 0)
    _, tokens = lax.scan(step, (caches, logits, len(prompt)), random.split(key, count))
    return tokens


# ---- The program.


def train_step(options, optimizer, mesh):
    run = runner_of(options, mesh)

    def loss_of(params, tokens, mask):
        logits = forward(params, tokens[:, :-1], run)
        losses = layers.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:])
        return layers.masked_mean(losses.mean(-1), mask)

    def step(params, state, tokens, mask):
        loss, gradients = jax.value_and_grad(loss_of)(params, tokens, mask)
        updates, state = optimizer.update(gradients, state, params)
        return optimizers.apply_updates(params, updates), state, loss

    return step


def parse_mesh(text):
    axes = dict(part.split("=") for part in text.split(","))
    return jax.make_mesh(tuple(int(n) for n in axes.values()), tuple(axes))


def parse():
    parser = argparse.ArgumentParser(description="Trains a small GPT on the bytes of a text.")
    parser.add_argument("--mesh", default="", help="axes and their sizes, as data=2,model=4; default: data=all devices")
    parser.add_argument("--strategy", choices=SPECS, default="dp")
    parser.add_argument("--microbatches", type=int, default=4, help="of a device's rows, in a pipeline")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--length", type=int, default=128, help="bytes of a sequence")
    parser.add_argument("--batch", type=int, default=16, help="sequences of all devices together")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", default="build/data/jargon.txt")
    parser.add_argument("--sample", type=int, default=300, help="how many bytes to write at the end")
    parser.add_argument("--checkpoint", default="", help="a folder to save to, and to go on from")
    parser.add_argument("--save-every", type=int, default=100, help="steps between checkpoints")
    parser.add_argument("--out", default="", help="writes OUT.csv, OUT.svg and OUT.html")
    return parser.parse_args()


def main():
    options = parse()
    jax.distributed.initialize()
    mesh = parse_mesh(options.mesh or f"data={jax.device_count()}")
    text = np.fromfile(options.data, np.uint8).astype(np.int32)
    count = (len(text) - 1) // options.length

    def read(examples):
        return text[examples[:, None] * options.length + np.arange(options.length + 1)]

    rows = NamedSharding(mesh, P("data") if "data" in mesh.shape else P())
    loader = DataLoader(count, options.batch, read, rows, seed=options.seed)
    rate = optimizers.warmup_cosine_decay_schedule(0, options.rate, options.steps // 10, options.steps)
    optimizer = optimizers.chain(
        optimizers.clip_by_global_norm(1),
        optimizers.adamw(rate, b2=0.95, weight_decay=0.1, mask=lambda path, p: p.ndim > 2),
    )
    params = init(random.key(options.seed), options)
    places = shardings_of(options.strategy, mesh, params)
    params = jax.device_put(params, places)
    # Moments lie as their weights do, and counts everywhere.
    everywhere = NamedSharding(mesh, P())
    state = jax.tree.map(
        lambda x: jax.device_put(x, everywhere) if x.ndim == 0 else x, optimizer.init(params))
    step = jax.jit(train_step(options, optimizer, mesh), donate_argnums=(0, 1))

    # What a run goes on from: weights, moments and the place in the data.
    begin_at = 0
    manager = checkpoints.Manager(options.checkpoint, keep_last=2) if options.checkpoint else None
    if manager and manager.latest_step() is not None:
        params, state = manager.restore((params, state))
        begin_at = manager.latest_step() + 1
        loader.seek(manager.metadata()["position"])

    speaks = jax.process_index() == 0
    log = RunLog(f"GPT of {options.layers} layers, {options.strategy} on {dict(mesh.shape)}")
    per_step = options.batch * options.length
    begin = time.perf_counter()
    for i in range(begin_at, options.steps):
        batch = next(loader)
        params, state, loss = step(params, state, batch.data, batch.mask)
        if manager and (i + 1) % options.save_every == 0:
            manager.save(i, (params, state), metadata={"position": loader.position})
        if i == begin_at:
            loss.block_until_ready()
            first = time.perf_counter() - begin
        if (i + 1) % max(options.steps // 50, 1) == 0:
            seconds = time.perf_counter() - begin
            value = float(loss)
            log.add(i + 1, loss=value, bytes_per_second=per_step * (i - begin_at) / max(seconds - first, 1e-9))
            if speaks:
                bar = progress_bar((i + 1) / options.steps)
                speed = per_step * (i - begin_at) / max(seconds - first, 1e-9)
                print(f"\r{bar} step {i + 1:4}  loss {value:.4f}  {speed:8.0f} bytes/s", end="", flush=True)
    if manager:
        manager.wait()
    seconds = time.perf_counter() - begin
    if speaks and begin_at < options.steps:
        print(f"\nthe first step took {first:.2f} s, the others {(seconds - first) / max(options.steps - begin_at - 1, 1):.4f} s each")
    if options.sample:
        whole = jax.device_put(params, everywhere)
        prompt = jnp.asarray(np.frombuffer(b"hacker: n. ", np.uint8).astype(np.int32))
        written = sample(whole, prompt, options.sample, options.heads, random.key(options.seed + 1))
        if speaks:
            print("hacker: n. " + "".join(chr(c) if c < 128 else "?" for c in np.asarray(written)))
    if speaks and options.out:
        for name in ("qkv", "up"):
            weight = params["layers"][name]
            log.describe(f"{name}: {weight.shape}", f"{weight.sharding.spec}")
        for ending in ("csv", "svg", "html"):
            log.save(f"{options.out}.{ending}")


if __name__ == "__main__":
    main()
