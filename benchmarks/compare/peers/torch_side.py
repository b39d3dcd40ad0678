"""PyTorch's side of the comparison, as its users run it: eagerly, one device, without gradients."""

import time

import numpy as np
import torch

import gpt_layout
from serve import Unsupported, measure, memory, numbers, reset_peak, sample, serve

FUNCTIONS = {
    "sigmoid": lambda x: 0.5 * (torch.tanh(0.5 * x) + 1),
    "axpb": lambda x: 2.5 * x + 1.25,
    "sin": lambda x: 2 * torch.sin(x) + 1,
    "sum": torch.sum,
    "softmax": lambda x: torch.softmax(x, -1),
    "layer_norm": lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:]),
}


def one_device(request):
    if request.get("devices", 1) > 1 or "mesh" in request:
        raise Unsupported("one device alone")


def eager(request):
    one_device(request)
    x, batch = torch.from_numpy(numbers(8)), 1000
    result = {"sample": sample(x + 1)}

    def calls():
        y = x
        for _ in range(batch):
            y = y + 1

    return result | measure(request, calls, batch)


def elementwise(request):
    one_device(request)
    if request.get("donated"):
        raise Unsupported("no donation")
    x = torch.from_numpy(numbers(request["mib"] << 18))
    if "columns" in request:
        x = x.reshape(-1, request["columns"])
    f = FUNCTIONS[request["function"]]
    return {"sample": sample(f(x))} | measure(request, lambda: f(x))


def matmul(request):
    one_device(request)
    n = request["n"]
    x = torch.from_numpy(numbers(n * n).reshape(n, n))
    x = x.to(torch.bfloat16 if request.get("dtype") == "bf16" else torch.float32)
    return {"sample": sample((x @ x).float())} | measure(request, lambda: x @ x)


def layer_norm(x, scale, bias):
    return torch.nn.functional.layer_norm(x, (gpt_layout.WIDTH,), scale, bias, 1e-5)


def forward(weights, tokens):
    functional, heads = torch.nn.functional, (gpt_layout.HEADS, gpt_layout.WIDTH // gpt_layout.HEADS)
    x = weights["wte"][tokens] + weights["wpe"]
    for layer in weights["layers"]:
        qkv = layer_norm(x, layer["ln1"], layer["b1"]) @ layer["wqkv"].reshape(gpt_layout.WIDTH, -1)
        q, k, v = (part.unflatten(-1, heads).transpose(1, 2) for part in qkv.chunk(3, -1))
        attention = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + attention.transpose(1, 2).flatten(2) @ layer["wo"]
        h = layer_norm(x, layer["ln2"], layer["b2"])
        h = functional.gelu(h @ layer["w1"] + layer["bb1"], approximate="tanh")
        x = x + h @ layer["w2"] + layer["bb2"]
    return layer_norm(x, weights["lnf"], weights["lnfb"]) @ weights["wte"].T


def model_of(request):
    weights, tokens = gpt_layout.read(request["file"])
    tensor = lambda x: torch.from_numpy(x.copy())
    of_tree = lambda tree: {name: [of_tree(part) for part in x] if name == "layers" else tensor(x)
                            for name, x in tree.items()}
    return of_tree(weights), tensor(tokens).long()


def gpt(request):
    one_device(request)
    before = memory()[0]
    reset_peak()
    model = model_of(request)
    result = {"sample": sample(forward(*model))} | measure(request, lambda: forward(*model))
    return result | {"mib": memory()[1] - before}


def compile_(request):
    """Nothing is compiled: the first call, of its kernels' code for the first time."""
    one_device(request)
    if "trace" in request:
        raise Unsupported("nothing is compiled")
    if request["function"] == "gpt":
        f, arguments = forward, model_of(request)
    else:
        f, arguments = FUNCTIONS[request["function"]], (torch.from_numpy(numbers(1024)),)
    begin = time.perf_counter()
    y = f(*arguments)
    return {"seconds": time.perf_counter() - begin, "sample": sample(np.asarray(y))}


if __name__ == "__main__":
    with torch.inference_mode():
        serve({"eager": eager, "elementwise": elementwise, "matmul": matmul, "gpt": gpt, "compile": compile_})
