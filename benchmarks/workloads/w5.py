"""W5: forward and backward pass of two Swin blocks, one without and one with a shift."""

import numpy as np

TITLE = "Swin stage, 2 blocks, 56 x 56 tokens, C 96, window 7, batch 4, forward + backward"
BATCH, SIDE, WIDTH, HEADS, WINDOW, SHIFT = 4, 56, 96, 3, 7, 3


def arrays():
    """Return the input and the output gradient, each of shape (batch, row, column, embed)."""
    rng = np.random.default_rng(5)
    return rng.standard_normal((2, BATCH, SIDE, SIDE, WIDTH)).astype("float32")


def our_model():
    """Build the two Swin blocks in this library."""
    from minitorch_attn.models.swin import Block, Stage

    block = (WIDTH, HEADS, (WINDOW, WINDOW))
    shifts = ((0, 0), (SHIFT, SHIFT))
    return Stage(None, [Block(*block, shift, 4 * WIDTH) for shift in shifts])


def ours(loop="commands"):
    """Build the training step in this library."""
    from .ours import step_with_input

    return step_with_input(our_model(), *arrays(), loop)


def relative_index():
    """Return the row of the bias table for each pair of tokens: (token, token)."""
    place = np.stack(np.meshgrid(*[np.arange(WINDOW)] * 2, indexing="ij")).reshape(2, -1)
    row, column = place[:, :, None] - place[:, None, :] + WINDOW - 1
    return row * (2 * WINDOW - 1) + column


def shift_mask():
    """Return the mask (window, token, token): 0 for two tokens of one region, otherwise -100."""
    region = np.zeros((SIDE, SIDE))
    cuts = (slice(0, -WINDOW), slice(-WINDOW, -SHIFT), slice(-SHIFT, None))
    for i, (rows, columns) in enumerate((r, c) for r in cuts for c in cuts):
        region[rows, columns] = i
    count = SIDE // WINDOW
    region = region.reshape(count, WINDOW, count, WINDOW).swapaxes(1, 2)
    region = region.reshape(count * count, WINDOW * WINDOW)
    return np.where(region[:, :, None] == region[:, None, :], 0.0, -100.0).astype("float32")


def _torch_model():
    import torch
    from torch import nn

    from .in_torch import Attention, FeedForward

    tokens, count = WINDOW * WINDOW, SIDE // WINDOW

    class PositionBias(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Parameter(torch.zeros((2 * WINDOW - 1) ** 2, HEADS))
            self.register_buffer("index", torch.from_numpy(relative_index().reshape(-1)))

        def forward(self):
            return self.table[self.index].view(tokens, tokens, HEADS).permute(2, 0, 1)

    class WindowAttention(Attention):
        def __init__(self, shifted):
            super().__init__(WIDTH, HEADS)
            self.position_bias = PositionBias()
            mask = torch.from_numpy(shift_mask()) if shifted else None
            self.register_buffer("mask", mask)

        def forward(self, windows):
            # windows: (batch * window, token, embed)
            bias = self.position_bias()
            if self.mask is not None:
                bias = bias + self.mask.unsqueeze(1)  # (window, heads, token, token)
                bias = bias.repeat(windows.shape[0] // len(bias), 1, 1, 1)
            return super().forward(windows, mask=bias)

    class Block(nn.Module):
        def __init__(self, shift):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.attention = WindowAttention(shift > 0)
            self.feed_forward = FeedForward(WIDTH, 4 * WIDTH, nn.GELU())
            self.shift = shift

        def attend(self, x):
            if self.shift:
                x = torch.roll(x, (-self.shift, -self.shift), (1, 2))
            x = x.view(len(x), count, WINDOW, count, WINDOW, WIDTH).transpose(2, 3)
            x = self.attention(x.reshape(-1, tokens, WIDTH))
            x = x.view(-1, count, count, WINDOW, WINDOW, WIDTH).transpose(2, 3)
            x = x.reshape(-1, SIDE, SIDE, WIDTH)
            return torch.roll(x, (self.shift, self.shift), (1, 2)) if self.shift else x

        def forward(self, x):
            x = x + self.attend(self.norm1(x))
            return x + self.feed_forward(self.norm2(x))

    class Stage(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.Sequential(Block(0), Block(SHIFT))

        def forward(self, x):
            return self.blocks(x)

    return Stage()


def torch(**options):
    """Build the training step in PyTorch. `options` are passed to `in_torch.step_with_input`."""
    from .in_torch import step_with_input

    return step_with_input(_torch_model(), *arrays(), **options)


def jax():
    """Build the training step in JAX."""
    from functools import partial

    import jax
    import jax.numpy as jnp

    from .in_jax import attention, feed_forward, norm, parameter, training_step

    gelu = partial(jax.nn.gelu, approximate=False)
    tokens, count = WINDOW * WINDOW, SIDE // WINDOW

    def attend(p, name, x, shift):
        table = parameter(p, f"{name}.position_bias.table", (2 * WINDOW - 1) ** 2, HEADS)
        bias = table[relative_index()].transpose(2, 0, 1)[None]  # (1, heads, query, key)
        if shift:
            bias = jnp.tile(bias + shift_mask()[:, None], (BATCH, 1, 1, 1))
            x = jnp.roll(x, (-shift, -shift), (1, 2))
        x = x.reshape(BATCH, count, WINDOW, count, WINDOW, WIDTH).swapaxes(2, 3)
        x = attention(p, name, x.reshape(-1, tokens, WIDTH), HEADS, bias=bias)
        x = x.reshape(BATCH, count, count, WINDOW, WINDOW, WIDTH).swapaxes(2, 3)
        return jnp.roll(x.reshape(BATCH, SIDE, SIDE, WIDTH), (shift, shift), (1, 2))

    def loss_function(p, batch):
        x, cotangents = batch
        for i, shift in enumerate((0, SHIFT)):
            name = f"blocks.{i}"
            x = x + attend(p, f"{name}.attention", norm(p, f"{name}.norm1", x), shift)
            inner = norm(p, f"{name}.norm2", x)
            x = x + feed_forward(p, f"{name}.feed_forward", inner, 4 * WIDTH, gelu)
        return (x * cotangents).sum() / BATCH

    return training_step(loss_function, tuple(arrays()), with_input=True)


ENGINES = {
    "minitorch_attn": ours,
    "minitorch_attn_plain": lambda: ours("plain"),
    "minitorch_attn_unsplit": lambda: ours("unsplit"),
    "jax": jax,
    "torch_compile": lambda: torch(compiled=True),
    "torch": torch,
}
