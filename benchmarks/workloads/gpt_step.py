"""GPT training step in every engine, with the same weights and the same tokens."""

import numpy as np

__all__ = ["engines", "jax", "our_model", "ours", "tokens", "torch", "torch_model"]

LEARNING_RATE = 3e-4


def tokens(batch, context, vocabulary):
    """Return input ids and the ids of the next tokens, each of shape (batch, context)."""
    ids = np.random.default_rng(1).integers(0, vocabulary, (batch, context + 1))
    return ids[:, :-1].copy(), ids[:, 1:].copy()


def our_model(layers, heads, width, context, vocabulary):
    """Build the model of `models/gpt.py`."""
    from minitorch_attn.models.gpt import GPT

    return GPT(
        vocab_size=vocabulary, context_length=context, embed_dim=width, num_heads=heads,
        num_layers=layers,
    )  # fmt: skip


def ours(layers, heads, width, context, batch, vocabulary, loop="commands", checkpointed=False):
    """Build the training step in this library. `loop` is one of `ours.LOOPS`.

    If `checkpointed` is True, the step keeps only the input of each block, and the backward pass
    computes the block again.
    """
    from functools import partial

    from minitorch_attn import checkpoint
    from minitorch_attn.nn import functional as F

    from .ours import training_step

    model = our_model(layers, heads, width, context, vocabulary)
    if checkpointed:
        for block in model.blocks:
            block.forward = partial(checkpoint, block.forward)

    def loss_function(model, batch):
        return F.cross_entropy(model(batch[0]).flatten(0, 1), batch[1].flatten())

    return training_step(
        model, loss_function,
        tokens(batch, context, vocabulary), loop=loop, learning_rate=LEARNING_RATE,
    )  # fmt: skip


def torch_model(layers, heads, width, context, vocabulary):
    """Build the model in PyTorch, with the head's weight tied to the token embedding."""
    from torch import nn
    from torch.nn import functional as F

    from .in_torch import Block

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.token_embedding = nn.Embedding(vocabulary, width)
            self.position_embedding = nn.Embedding(context, width)
            block = (width, heads, 4 * width, nn.GELU("tanh"))
            self.blocks = nn.ModuleList([Block(*block, is_causal=True) for _ in range(layers)])
            self.norm = nn.LayerNorm(width)

        def forward(self, ids):
            x = self.token_embedding(ids) + self.position_embedding.weight
            for block in self.blocks:
                x = block(x)
            return F.linear(self.norm(x), self.token_embedding.weight)

    return GPT()


def torch(layers, heads, width, context, batch, vocabulary, **options):
    """Build the training step in PyTorch. `options` are passed to `in_torch.training_step`."""
    from torch.nn import functional as F

    from .in_torch import training_step

    def loss_function(model, batch):
        return F.cross_entropy(model(batch[0]).flatten(0, 1), batch[1].flatten())

    return training_step(
        torch_model(layers, heads, width, context, vocabulary), loss_function,
        tokens(batch, context, vocabulary), learning_rate=LEARNING_RATE, **options,
    )  # fmt: skip


def jax(layers, heads, width, context, batch, vocabulary):
    """Build the training step in JAX."""
    from jax.nn import gelu

    from .in_jax import block, cross_entropy, norm, parameter, training_step

    def loss_function(p, batch):
        ids, targets = batch
        table = parameter(p, "token_embedding.weight", vocabulary, width)
        x = table[ids] + parameter(p, "position_embedding.weight", context, width)
        for i in range(layers):
            x = block(p, f"blocks.{i}", x, heads, gelu, is_causal=True)
        return cross_entropy(norm(p, "norm", x) @ table.T, targets)

    return training_step(
        loss_function, tokens(batch, context, vocabulary), learning_rate=LEARNING_RATE
    )


def engines(sizes):
    """Return the engines for a GPT step of the given sizes."""
    return {
        "minitorch_attn": lambda: ours(**sizes),
        "minitorch_attn_plain": lambda: ours(**sizes, loop="plain"),
        "minitorch_attn_unsplit": lambda: ours(**sizes, loop="unsplit"),
        "jax": lambda: jax(**sizes),
        "torch_compile": lambda: torch(**sizes, fused=True, compiled=True),
        "torch_fused": lambda: torch(**sizes, fused=True),
        "torch": lambda: torch(**sizes),
    }
