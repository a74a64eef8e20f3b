"""W3: training step of the encoder-decoder Transformer of Vaswani et al. 2017."""

import math

import numpy as np

TITLE = "encoder-decoder step, 3 + 3 layers, width 256, 64 to 64 tokens, batch 16"
LAYERS, HEADS, WIDTH, HIDDEN, LENGTH, BATCH, VOCABULARY = 3, 8, 256, 1024, 64, 16, 5000
LEARNING_RATE = 3e-4


def _batch():
    """Return source tokens, decoder inputs and next tokens, each of shape (batch, token)."""
    rng = np.random.default_rng(3)
    source = rng.integers(0, VOCABULARY, (BATCH, LENGTH))
    target = rng.integers(0, VOCABULARY, (BATCH, LENGTH + 1))
    return source, target[:, :-1].copy(), target[:, 1:].copy()


def ours(loop="commands"):
    """Build the training step in this library. `loop` is one of `ours.LOOPS`."""
    from minitorch_attn.models.transformer import Transformer
    from minitorch_attn.nn import functional as F

    from .ours import training_step

    def loss_function(model, batch):
        source, target, labels = batch
        return F.cross_entropy(model(source, target).flatten(0, 1), labels.flatten())

    model = Transformer(
        VOCABULARY, embed_dim=WIDTH, num_heads=HEADS, num_encoder_layers=LAYERS,
        num_decoder_layers=LAYERS, ff_dim=HIDDEN, dropout=0.0,
    )  # fmt: skip
    return training_step(model, loss_function, _batch(), loop=loop, learning_rate=LEARNING_RATE)


def positions():
    """Return the positional encodings (token, embed) of Vaswani et al. 2017, section 3.5."""
    angles = np.arange(LENGTH)[:, None] * 10000.0 ** (-np.arange(0, WIDTH, 2) / WIDTH)
    return np.stack([np.sin(angles), np.cos(angles)], -1).reshape(LENGTH, WIDTH).astype("float32")


def _torch_model():
    """Build the model in PyTorch. Both embeddings and the output projection share one matrix."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    from .in_torch import Attention, FeedForward

    class AddNorm(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(WIDTH)

        def forward(self, x, y):
            return self.norm(x + y)

    class Layer(nn.Module):
        def __init__(self, cross):
            super().__init__()
            self.attention, self.around_attention = Attention(WIDTH, HEADS), AddNorm()
            if cross:
                self.cross_attention = Attention(WIDTH, HEADS, cross=True)
                self.around_cross_attention = AddNorm()
            self.feed_forward = FeedForward(WIDTH, HIDDEN, nn.ReLU())
            self.around_feed_forward = AddNorm()

        def forward(self, x, memory=None):
            x = self.around_attention(x, self.attention(x, is_causal=memory is not None))
            if memory is not None:
                x = self.around_cross_attention(x, self.cross_attention(x, memory))
            return self.around_feed_forward(x, self.feed_forward(x))

    class Stack(nn.Module):
        def __init__(self, cross):
            super().__init__()
            self.layers = nn.ModuleList([Layer(cross) for _ in range(LAYERS)])

        def forward(self, x, *memory):
            for layer in self.layers:
                x = layer(x, *memory)
            return x

    class Transformer(nn.Module):
        def __init__(self):
            super().__init__()
            self.source_embedding = nn.ModuleDict({"tokens": nn.Embedding(VOCABULARY, WIDTH)})
            self.encoder, self.decoder = Stack(cross=False), Stack(cross=True)
            self.register_buffer("positions", torch.from_numpy(positions()))

        def forward(self, source, target):
            table = self.source_embedding["tokens"].weight
            source, target = (
                F.embedding(ids, table) * math.sqrt(WIDTH) + self.positions
                for ids in (source, target)
            )
            return F.linear(self.decoder(target, self.encoder(source)), table)

    return Transformer()


def torch(**options):
    """Build the training step in PyTorch. `options` are passed to `in_torch.training_step`."""
    from torch.nn import functional as F

    from .in_torch import training_step

    def loss_function(model, batch):
        source, target, labels = batch
        return F.cross_entropy(model(source, target).flatten(0, 1), labels.flatten())

    return training_step(
        _torch_model(), loss_function, _batch(), learning_rate=LEARNING_RATE, **options
    )


def jax():
    """Build the training step in JAX."""
    from jax.nn import relu

    from .in_jax import attention, cross_entropy, feed_forward, norm, parameter, training_step

    def layer(p, name, x, memory=None):
        def add_norm(what, y):
            return norm(p, f"{name}.around_{what}.norm", x + y)

        causal = memory is not None
        x = add_norm("attention", attention(p, f"{name}.attention", x, HEADS, is_causal=causal))
        if memory is not None:
            mixed = attention(p, f"{name}.cross_attention", x, HEADS, memory)
            x = add_norm("cross_attention", mixed)
        return add_norm("feed_forward", feed_forward(p, f"{name}.feed_forward", x, HIDDEN, relu))

    def loss_function(p, batch):
        table = parameter(p, "source_embedding.tokens.weight", VOCABULARY, WIDTH)
        memory, x = (table[ids] * math.sqrt(WIDTH) + positions() for ids in batch[:2])
        for i in range(LAYERS):
            memory = layer(p, f"encoder.layers.{i}", memory)
        for i in range(LAYERS):
            x = layer(p, f"decoder.layers.{i}", x, memory)
        return cross_entropy(x @ table.T, batch[2])

    return training_step(loss_function, _batch(), learning_rate=LEARNING_RATE)


ENGINES = {
    "minitorch_attn": ours,
    "minitorch_attn_plain": lambda: ours("plain"),
    "minitorch_attn_unsplit": lambda: ours("unsplit"),
    "jax": jax,
    "torch_compile": lambda: torch(fused=True, compiled=True),
    "torch_fused": lambda: torch(fused=True),
    "torch": torch,
}
