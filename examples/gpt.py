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
import math
import time

import numpy as np

import shoal as jax
import shoal.numpy as jnp
from shoal import checkpoints, lax, nn, optimizers, random
from shoal.data import DataLoader
from shoal.nn import layers
from shoal.profiler import StepTimer
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
    of_each = (layers_, options.experts) if options.experts else (layers_,)
    router = {"router": normal(random.fold_in(key, 5), (layers_, width, options.experts))} if options.experts else {}
    return {
        "embed": normal(keys[0], (BYTES, width)),
        "layers": {
            "norm1": jnp.ones((layers_, width)),
            "qkv": normal(keys[1], (layers_, width, 3, heads, features)),
            "out": normal(keys[2], (layers_, heads, features, width), less),
            "norm2": jnp.ones((layers_, width)),
            "up": normal(keys[3], (*of_each, width, 4 * width)),
            "down": normal(keys[4], (*of_each, 4 * width, width), less),
            **router,
        },
        "norm": jnp.ones(width),
    }


def experts_here(parts, up, down):
    """What each expert makes of its part, [experts, batch, places, width]."""
    return jnp.einsum("ebch,ehw->ebcw", nn.gelu(jnp.einsum("ebcw,ewh->ebch", parts, up)), down)


def mixture(x, layer, experts):
    """Each token goes to one of the experts (Fedus, Zoph and Shazeer 2021, "Switch Transformers"), which has places for
    some tokens of each sequence; the others go past it. Also how uneven the choice was, for each sequence; 1 is even."""
    tokens, count = x.shape[1], layer["router"].shape[-1]
    places = math.ceil(1.25 * tokens / count)
    chances = nn.softmax(layers.dense(x, layer["router"]))
    chosen = nn.one_hot(chances.argmax(-1), count)
    place = (jnp.cumsum(chosen, 1) * chosen).sum(-1).astype(jnp.int32) - 1
    goes = chosen[..., None] * nn.one_hot(place, places)[:, :, None]
    made = experts(jnp.einsum("btec,btw->ebcw", goes, x), layer["up"], layer["down"])
    y = jnp.einsum("btec,ebcw->btw", goes * chances.max(-1)[..., None, None], made)
    return y, count * (chosen.mean(1) * chances.mean(1)).sum(-1)


def block(x, layer, positions, attend, experts=experts_here):
    """A layer of x [batch, T, width]; attend(q, k, v) is attention, and what it keeps beside. Returns x, the unevenness
    of the experts, if there are any, and what was kept."""
    q, k, v = jnp.moveaxis(layers.dense(layers.rms_norm(x, layer["norm1"]), layer["qkv"]), 2, 0)
    q, k = (layers.rotary_embedding(a, positions) for a in (q, k))
    seen, kept = attend(q, k, v)
    x = x + jnp.tensordot(seen, layer["out"], 2)
    normed = layers.rms_norm(x, layer["norm2"])
    if "router" in layer:
        made, uneven = mixture(normed, layer, experts)
        return x + made, uneven, kept
    return x + layers.dense(nn.gelu(layers.dense(normed, layer["up"])), layer["down"]), None, kept


def logits_of(params, x):
    return layers.rms_norm(x, params["norm"]) @ params["embed"].T


def causal(q, k, v):
    return nn.dot_product_attention(q, k, v, is_causal=True), None


def one_after_the_other(stack, x, positions, attend=causal, constrain=lambda x: x, experts=experts_here):
    """All layers of a stack, and how uneven each layer's experts were chosen."""

    def one(x, layer):
        x, uneven, _ = block(constrain(x), layer, positions, attend, experts)
        return x, uneven

    return lax.scan(one, constrain(x), stack)


def losses_of(params, tokens, run):
    """The loss of each sequence of tokens [batch, T + 1]; run(stack, x, positions) runs all layers."""
    x, uneven = run(params["layers"], layers.embed(params["embed"], tokens[:, :-1]), jnp.arange(tokens.shape[1] - 1))
    losses = layers.softmax_cross_entropy_with_integer_labels(logits_of(params, x), tokens[:, 1:]).mean(-1)
    return losses if uneven is None else losses + 0.01 * uneven.sum(0)


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


# ---- Experts over devices (Lepikhin et al. 2020, "GShard"): each device has some of the experts, to which the tokens of
# all devices go, and come back.


def experts_over_devices(mesh):
    def there_and_back(parts, up, down):
        mine = lax.all_to_all(parts, "data", 0, 1, tiled=True)
        return lax.all_to_all(experts_here(mine, up, down), "data", 1, 0, tiled=True)

    split, rows = P("data"), P(None, "data")
    return jax.shard_map(there_and_back, mesh=mesh, in_specs=(rows, split, split), out_specs=rows)


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
            done, _ = one_after_the_other(stack, here, positions)
            return lax.ppermute(done, "model", [(i, i + 1) for i in range(size - 1)]), done

        _, done = lax.scan(tick, jnp.zeros_like(parts[0]), jnp.arange(microbatches + size - 1))
        # What the last device has made, for all.
        whole = lax.psum(jnp.where(stage == size - 1, done[size - 1 :], 0), "model")
        return whole.reshape(x.shape)

    mapped = jax.shard_map(run, mesh=mesh, in_specs=(P("model"), rows, P()), out_specs=rows)
    return lambda stack, x, positions: (mapped(stack, x, positions), None)


# ---- A pipeline that keeps less ("1F1B"; Narayanan et al. 2019, "PipeDream", and 2021): a device goes forward with one
# microbatch and back with another by turns. GPipe keeps the activations of all microbatches. Here a stage keeps what came
# to it of fewer than 2 stages microbatches, and its layers' activations of one, as it computes them again on its way back.
#
# At time t stage s goes forward with microbatch t - s, and back with t - (2 stages - 2 - s): the last stage goes back with
# a microbatch as soon as it has got it, and each message is used at the time after it was sent.


def one_forward_one_backward(mesh, microbatches):
    """A function of weights, tokens and mask that gives the loss and its gradients."""
    size = mesh.shape["model"]
    axes = ("data", "model") if "data" in mesh.shape else ("model",)
    rows = P(*axes[:-1])

    def varying(tree):
        """Each device has its own: gradients are added up at the end, and not at each time."""
        return jax.tree.map(lambda x: lax.pvary(x, axes), tree)

    def run(params, tokens, mask):
        stage = lax.axis_index("model")
        count = lax.psum(mask.sum(), axes[:-1])
        params, tokens, mask = varying((params, tokens, mask))
        parts, masks = tokens.reshape(microbatches, -1, tokens.shape[1]), mask.reshape(microbatches, -1)
        positions = jnp.arange(tokens.shape[1] - 1)

        def stage_of(params, arrived, tokens, mask):
            """What the next stage gets, and the part in the loss, if this is the last one."""
            x = jnp.where(stage == 0, layers.embed(params["embed"], tokens[:, :-1]), arrived)
            x, _ = one_after_the_other(params["layers"], x, positions)
            losses = layers.softmax_cross_entropy_with_integer_labels(logits_of(params, x), tokens[:, 1:])
            return x, jnp.where(mask & (stage == size - 1), losses.mean(-1), 0).sum() / count

        def at_time(carry, t):
            kept, arrived, arrived_back, gradients, loss = carry
            goes_to = t - stage
            ahead = lax.dynamic_index_in_dim(parts, jnp.clip(goes_to, 0, microbatches - 1), keepdims=False)
            sent, _ = stage_of(params, arrived, ahead, masks[0])
            kept = lax.dynamic_update_index_in_dim(kept, arrived, goes_to % len(kept), 0)

            back = t - (2 * size - 2 - stage)
            is_there = (back >= 0) & (back < microbatches)
            place = jnp.clip(back, 0, microbatches - 1)
            part, its_mask = (lax.dynamic_index_in_dim(a, place, keepdims=False) for a in (parts, masks))
            was_here = lax.dynamic_index_in_dim(kept, back % len(kept), keepdims=False)
            (_, its_loss), pull = jax.vjp(lambda params, x: stage_of(params, x, part, its_mask), params, was_here)
            # The last stage has nothing that came back. Where there is no microbatch, gradients are zeros.
            of_x = jnp.where(is_there & (stage < size - 1), arrived_back, 0)
            more, sent_back = pull((of_x, is_there.astype(loss.dtype)))

            arrived = lax.ppermute(sent, "model", [(i, i + 1) for i in range(size - 1)])
            arrived_back = lax.ppermute(sent_back, "model", [(i + 1, i) for i in range(size - 1)])
            gradients = jax.tree.map(jnp.add, gradients, more)
            return (kept, arrived, arrived_back, gradients, loss + jnp.where(is_there, its_loss, 0)), None

        one = jnp.zeros((parts.shape[1], len(positions), params["embed"].shape[1]))
        kept = jnp.zeros((2 * size - 1, *one.shape))
        carry = (*varying((kept, one, one)), jax.tree.map(jnp.zeros_like, params), varying(jnp.zeros(())))
        (_, _, _, gradients, loss), _ = lax.scan(at_time, carry, jnp.arange(microbatches + 2 * size - 2))
        of_layers = lax.psum(gradients.pop("layers"), axes[:-1])
        return lax.psum(loss, axes), {"layers": of_layers, **lax.psum(gradients, axes)}

    of_params = {"embed": P(), "layers": P("model"), "norm": P()}
    return jax.shard_map(run, mesh=mesh, in_specs=(of_params, rows, rows), out_specs=(P(), of_params))


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
    "experts": {"up": P(None, "data"), "down": P(None, "data")},
    "pipeline": dict.fromkeys(["norm1", "qkv", "out", "norm2", "up", "down"], P("model")),
}
SPECS["1f1b"] = SPECS["pipeline"]


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
        experts=experts_over_devices(mesh) if options.strategy == "experts" else experts_here,
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

            x, _, filled = block(x, layer, positions, attend)
            return x, filled

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


def loss_and_gradients_of(options, mesh):
    if options.strategy == "1f1b":
        return one_forward_one_backward(mesh, options.microbatches)
    run = runner_of(options, mesh)

    def loss_of(params, tokens, mask):
        return layers.masked_mean(losses_of(params, tokens, run), mask)

    return jax.value_and_grad(loss_of)


def train_step(options, optimizer, mesh):
    loss_and_gradients = loss_and_gradients_of(options, mesh)

    def step(params, state, tokens, mask):
        loss, gradients = loss_and_gradients(params, tokens, mask)
        updates, state = optimizer.update(gradients, state, params)
        return optimizers.apply_updates(params, updates), state, loss

    return step


def model_flops(options, params):
    """What a step computes, in floating-point operations (Chowdhery et al. 2022, "PaLM", appendix B): six for each weight
    and token, and attention's. A token meets one expert. What is computed again does not count."""
    weights = sum(w.size for w in jax.tree.leaves(params))
    if options.experts:
        of_experts = params["layers"]["up"].size + params["layers"]["down"].size
        weights -= of_experts * (1 - 1 / options.experts)
    tokens = options.batch * options.length
    return tokens * (6 * weights + 12 * options.layers * options.width * options.length)


def best_flops(size=1024):
    """What all processes together reach in products of large matrices, in operations a second."""
    a = random.normal(random.key(0), (size, size))
    product = jax.jit(lambda x: x @ x)
    seconds = []
    for _ in range(6):
        begin = time.perf_counter()
        product(a).block_until_ready()
        seconds.append(time.perf_counter() - begin)
    return 2 * size**3 / min(seconds) * jax.process_count()


def parse_mesh(text):
    axes = dict(part.split("=") for part in text.split(","))
    return jax.make_mesh(tuple(int(n) for n in axes.values()), tuple(axes))


def parse():
    parser = argparse.ArgumentParser(description="Trains a small GPT on the bytes of a text.")
    parser.add_argument("--mesh", default="", help="axes and their sizes, as data=2,model=4; default: data=all devices")
    parser.add_argument("--strategy", choices=SPECS, default="dp")
    parser.add_argument("--microbatches", type=int, default=4, help="of a device's rows, in a pipeline")
    parser.add_argument("--experts", type=int, default=0, help="of each layer; 0: one for all tokens")
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
    options = parser.parse_args()
    if options.experts and options.strategy not in ("dp", "fsdp", "experts"):
        parser.error("--experts go with --strategy dp, fsdp or experts")
    if options.strategy == "experts" and not options.experts:
        parser.error("--strategy experts needs --experts, a multiple of the devices along data")
    return options


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
    timer, told = StepTimer(), begin_at
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
            spent = {f"{name} (seconds)": time / (i + 1 - told) for name, time in timer.lap().items()}
            told = i + 1
            log.add(i + 1, loss=value, bytes_per_second=per_step * (i - begin_at) / max(seconds - first, 1e-9), **spent)
            if speaks:
                bar = progress_bar((i + 1) / options.steps)
                speed = per_step * (i - begin_at) / max(seconds - first, 1e-9)
                print(f"\r{bar} step {i + 1:4}  loss {value:.4f}  {speed:8.0f} bytes/s", end="", flush=True)
    if manager:
        manager.wait()
    if begin_at < options.steps:
        each = (time.perf_counter() - begin - first) / max(options.steps - begin_at - 1, 1)
        reached, best = model_flops(options, params) / max(each, 1e-9), best_flops()
        if speaks:
            print(f"\nthe first step took {first:.2f} s, the others {each:.4f} s each: {reached / 1e9:.1f} Gflop/s of the "
                  f"model, {100 * reached / best:.0f}% of what products of matrices reach")
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
