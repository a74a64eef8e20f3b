"""A GPT training step in both engines, from the same weights and the same tokens."""

import numpy as np

from . import Step

LEARNING_RATE = 3e-4


def _tokens(batch, context, vocabulary):
    rng = np.random.default_rng(1)
    ids = rng.integers(0, vocabulary, (batch, context + 1))
    return ids[:, :-1].copy(), ids[:, 1:].copy()


def _weights(layers, width, context, vocabulary):
    """Initial weights under GPT-2's names, matrices as (out, in)."""
    rng = np.random.default_rng(0)

    def draw(*shape):
        return (0.02 * rng.standard_normal(shape)).astype("float32")

    weights = {"wte": draw(vocabulary, width), "wpe": draw(context, width)}
    for i in range(layers):
        for name, shape in (
            ("attn.q.weight", (width, width)),
            ("attn.k.weight", (width, width)),
            ("attn.v.weight", (width, width)),
            ("attn.out.weight", (width, width)),
            ("mlp.in.weight", (4 * width, width)),
            ("mlp.out.weight", (width, 4 * width)),
        ):
            weights[f"{i}.{name}"] = draw(*shape)
            weights[f"{i}.{name[:-6]}bias"] = draw(shape[0])
        for name in ("ln_1", "ln_2"):
            weights[f"{i}.{name}.weight"] = 1 + draw(width)
            weights[f"{i}.{name}.bias"] = draw(width)
    weights["ln_f.weight"], weights["ln_f.bias"] = 1 + draw(width), draw(width)
    return weights


def our_parameters(model, layers):
    """The model's parameters under the names of `_weights`."""
    found = {"wte": model.token_embedding.weight, "wpe": model.position_embedding.weight}
    for i, block in enumerate(model.blocks[:layers]):
        modules = {
            "attn.q": block.attention.q_proj, "attn.k": block.attention.k_proj,
            "attn.v": block.attention.v_proj, "attn.out": block.attention.out_proj,
            "mlp.in": block.feed_forward.linear1, "mlp.out": block.feed_forward.linear2,
            "ln_1": block.norm1, "ln_2": block.norm2,
        }  # fmt: skip
        for name, module in modules.items():
            found[f"{i}.{name}.weight"], found[f"{i}.{name}.bias"] = module.weight, module.bias
    found["ln_f.weight"], found["ln_f.bias"] = model.norm.weight, model.norm.bias
    return found


def ours(layers, heads, width, context, batch, vocabulary, threads=2):
    """The step in this library, with the model of `models/gpt.py` and the batch in `threads`."""
    import minitorch_attn as mt
    from minitorch_attn.models.gpt import GPT
    from minitorch_attn.training import ThreadSplit

    model = GPT(
        vocab_size=vocabulary, context_length=context, embed_dim=width, num_heads=heads,
        num_layers=layers,
    )  # fmt: skip
    weights = _weights(layers, width, context, vocabulary)
    parameters = our_parameters(model, layers)
    with mt.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(mt.tensor(weights[name]))
    optimizer = mt.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    ids, targets = (mt.tensor(a) for a in _tokens(batch, context, vocabulary))
    latest = {}

    def loss_function(model, batch):
        logits = model(batch[0])
        return mt.nn.functional.cross_entropy(logits.reshape(-1, vocabulary), batch[1].reshape(-1))

    backward = ThreadSplit(model, loss_function, threads)

    def run():
        optimizer.zero_grad()
        latest["loss"] = backward((ids, targets))
        optimizer.step()

    def evidence():
        found = {f"grad {n}": p.grad.numpy() for n, p in parameters.items()}
        return {**found, "loss": latest["loss"].numpy()}

    return Step(run, evidence)


def _fused(weights, layers):
    """Query, key and value projections of each layer as one matrix, which PyTorch runs faster."""
    weights = dict(weights)
    for i in range(layers):
        for kind in ("weight", "bias"):
            parts = [weights.pop(f"{i}.attn.{name}.{kind}") for name in "qkv"]
            weights[f"{i}.attn.in.{kind}"] = np.concatenate(parts)
    return weights


def _taken_apart(arrays):
    """The arrays of `_fused` under the names of `_weights`."""
    found = {}
    for name, array in arrays.items():
        parts = np.split(array, 3) if ".attn.in." in name else [array]
        names = [name.replace(".in.", f".{part}.") for part in "qkv"]
        found.update(zip(names, parts, strict=True) if len(parts) == 3 else [(name, array)])
    return found


def torch_eager(layers, heads, width, context, batch, vocabulary, fused):
    """The step in PyTorch, with its fused attention and in its fastest plain layout."""
    import torch
    from torch.nn import functional as F

    weights = _fused(_weights(layers, width, context, vocabulary), layers)
    p = {name: torch.nn.Parameter(torch.from_numpy(w)) for name, w in weights.items()}
    optimizer = torch.optim.AdamW(p.values(), lr=LEARNING_RATE, fused=fused)
    ids, targets = (torch.from_numpy(a) for a in _tokens(batch, context, vocabulary))
    latest = {}

    def linear(x, name):
        return F.linear(x, p[f"{name}.weight"], p[f"{name}.bias"])

    def norm(x, name):
        return F.layer_norm(x, (width,), p[f"{name}.weight"], p[f"{name}.bias"])

    def attention(x, i):
        qkv = linear(x, f"{i}.attn.in").view(batch, context, 3, heads, width // heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)  # each (batch, heads, token, head_dim)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return linear(mixed.transpose(1, 2).reshape(batch, context, width), f"{i}.attn.out")

    def forward():
        x = p["wte"][ids] + p["wpe"]
        for i in range(layers):
            x = x + attention(norm(x, f"{i}.ln_1"), i)
            hidden = F.gelu(linear(norm(x, f"{i}.ln_2"), f"{i}.mlp.in"), approximate="tanh")
            x = x + linear(hidden, f"{i}.mlp.out")
        return F.linear(norm(x, "ln_f"), p["wte"])

    def run():
        optimizer.zero_grad()
        loss = F.cross_entropy(forward().view(-1, vocabulary), targets.view(-1))
        loss.backward()
        optimizer.step()
        latest["loss"] = loss.detach()

    def evidence():
        grads = _taken_apart({n: w.grad.numpy() for n, w in p.items()})
        found = {f"grad {n}": grad for n, grad in grads.items()}
        return {**found, "loss": latest["loss"].numpy()}

    return Step(run, evidence)
