"""W7: greedy generation of 200 tokens with the model of W2 and a KV cache."""

import numpy as np

from . import gpt_step, w2
from .place import device

TITLE = "decode 200 tokens with the model of W2, KV cache, batch 1, greedy"
TOKENS = 200
SIZES = {name: size for name, size in w2.SIZES.items() if name != "batch"}


def minitorch_attn():
    import minitorch_attn as mt

    from . import Step
    from .ours import filled

    model, latest, place = filled(gpt_step.our_model(**SIZES)).eval(), {}, device()

    def run():
        cache, found = mt.nn.StaticKVCache(SIZES["context"]), []
        ids = mt.tensor([[0]], device=place)
        with mt.no_grad():
            for _ in range(TOKENS):
                logits = model(ids, cache)[:, -1]
                ids = logits.argmax(-1, keepdim=True)
                found.append(ids.item())
        latest.update(ids=np.array(found), logits=logits.numpy())

    return Step(run, lambda: dict(latest), operations=TOKENS)


def torch():
    import torch
    from torch.nn import functional as F

    from . import Step
    from .in_torch import filled

    model, latest, on = filled(gpt_step.torch_model(**SIZES)).eval(), {}, device()
    heads, head_dim = SIZES["heads"], SIZES["width"] // SIZES["heads"]
    room = (2, SIZES["layers"], 1, heads, SIZES["context"], head_dim)

    def attend(attention, x, keys, values, place):
        query, key, value = attention.split_heads(attention.qkv_proj(x), 3)
        keys[:, :, place : place + 1], values[:, :, place : place + 1] = key, value
        seen = slice(0, place + 1)
        mixed = F.scaled_dot_product_attention(query, keys[:, :, seen], values[:, :, seen])
        return attention.out_proj(mixed.transpose(1, 2).flatten(2))

    @torch.inference_mode()
    def run():
        keys, values = torch.empty(room, device=on)
        ids, found = torch.zeros(1, 1, dtype=torch.int64, device=on), []
        for place in range(TOKENS):
            x = model.token_embedding(ids) + model.position_embedding.weight[place]
            for i, block in enumerate(model.blocks):
                x = x + attend(block.attention, block.norm1(x), keys[i], values[i], place)
                x = x + block.feed_forward(block.norm2(x))
            logits = F.linear(model.norm(x), model.token_embedding.weight)[:, -1]
            ids = logits.argmax(-1, keepdim=True)
            found.append(ids.item())
        latest.update(ids=np.array(found), logits=logits.cpu().numpy())

    return Step(run, lambda: dict(latest), operations=TOKENS)


def jax():
    """Build the workload in JAX: one compiled step attends to the whole cache, with a mask."""
    import jax
    import jax.numpy as jnp

    from . import Step
    from .in_jax import feed_forward, linear, norm, parameter, parameters

    layers, heads, width = (SIZES[name] for name in ("layers", "heads", "width"))
    room, latest = (layers, 1, SIZES["context"], heads, width // heads), {}

    def split(p, name, x):
        return linear(p, name, x, width).reshape(1, 1, heads, -1)

    def step(p, token, place, keys, values):
        table = parameter(p, "token_embedding.weight", SIZES["vocabulary"], width)
        x = table[token] + parameter(p, "position_embedding.weight", room[2], width)[place]
        x = x.reshape(1, 1, width)
        seen = (jnp.arange(room[2]) <= place)[None, None, None]  # (batch, heads, query, key)
        for i in range(layers):
            name, inner = f"blocks.{i}.attention", norm(p, f"blocks.{i}.norm1", x)
            query, key, value = (split(p, f"{name}.{part}_proj", inner) for part in "qkv")
            keys = jax.lax.dynamic_update_slice(keys, key[None], (i, 0, place, 0, 0))
            values = jax.lax.dynamic_update_slice(values, value[None], (i, 0, place, 0, 0))
            mixed = jax.nn.dot_product_attention(query, keys[i], values[i], mask=seen)
            x = x + linear(p, f"{name}.out_proj", mixed.reshape(x.shape), width)
            inner = norm(p, f"blocks.{i}.norm2", x)
            x = x + feed_forward(p, f"blocks.{i}.feed_forward", inner, 4 * width, jax.nn.gelu)
        logits = (norm(p, "norm", x) @ table.T)[:, 0]
        return logits.argmax(-1), logits, keys, values

    zeros = jnp.zeros(room)
    p = parameters(step, jnp.zeros(1, int), 0, zeros, zeros)
    compiled = jax.jit(step, donate_argnums=(3, 4))

    def run():
        ids, found, keys, values = jnp.zeros(1, int), [], jnp.zeros(room), jnp.zeros(room)
        for place in range(TOKENS):
            ids, logits, keys, values = compiled(p, ids, place, keys, values)
            found.append(ids.item())
        latest.update(ids=np.array(found), logits=np.asarray(logits))

    return Step(run, lambda: latest, operations=TOKENS)


ENGINES = {"minitorch_attn": minitorch_attn, "jax": jax, "torch": torch}
