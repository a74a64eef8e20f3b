"""ViT-Ti/16 on four images of 224 x 224: forward pass, or forward and backward pass."""

import numpy as np

__all__ = ["engines"]

IMAGE, PATCH, BATCH, CLASSES = 224, 16, 4, 1000
WIDTH, LAYERS, HEADS, HIDDEN, EPS = 192, 12, 3, 768, 1e-6


def arrays():
    """Return random images (batch, channel, height, width) and labels (batch,)."""
    rng = np.random.default_rng(4)
    images = rng.standard_normal((BATCH, 3, IMAGE, IMAGE)).astype("float32")
    return images, rng.integers(0, CLASSES, BATCH)


def ours(gradients, loop="commands"):
    """Build the training step in this library."""
    from minitorch_attn.models.vit_sizes import vit_ti_16
    from minitorch_attn.nn import functional as F

    from .ours import forward_step, training_step

    def loss_function(model, batch):
        return F.cross_entropy(model(batch[0]), batch[1])

    model, (images, labels) = vit_ti_16(), arrays()
    if not gradients:
        return forward_step(model.eval(), images, loop)
    return training_step(model, loss_function, (images, labels), loop=loop)


def _torch_model():
    import torch
    from torch import nn

    from .in_torch import Block

    class PatchEmbedding(nn.Module):
        def __init__(self):
            super().__init__()
            self.projection = nn.Conv2d(3, WIDTH, PATCH, PATCH)

        def forward(self, images):
            return self.projection(images).flatten(2).transpose(1, 2)

    class Positions(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.zeros((IMAGE // PATCH) ** 2 + 1, WIDTH))

        def forward(self, x):
            return x + self.weight

    class ViT(nn.Module):
        def __init__(self):
            super().__init__()
            self.patch_embedding, self.positions = PatchEmbedding(), Positions()
            self.class_token = nn.Parameter(torch.zeros(1, 1, WIDTH))
            block = (WIDTH, HEADS, HIDDEN, nn.GELU(), EPS)
            self.blocks = nn.Sequential(*[Block(*block) for _ in range(LAYERS)])
            self.norm = nn.LayerNorm(WIDTH, EPS)
            self.head = nn.Linear(WIDTH, CLASSES)

        def forward(self, images):
            patches = self.patch_embedding(images)
            class_token = self.class_token.expand(len(images), 1, WIDTH)
            x = self.blocks(self.positions(torch.cat([class_token, patches], 1)))
            return self.head(self.norm(x)[:, 0])

    return ViT()


def torch(gradients, **options):
    """Build the training step in PyTorch. `options` are passed to `in_torch.training_step`."""
    from torch.nn import functional as F

    from .in_torch import forward_step, training_step

    def loss_function(model, batch):
        return F.cross_entropy(model(batch[0]), batch[1])

    images, labels = arrays()
    if not gradients:
        return forward_step(_torch_model().eval(), images, **options)
    return training_step(_torch_model(), loss_function, (images, labels), **options)


def jax(gradients):
    """Build the training step in JAX."""
    from functools import partial

    import jax
    import jax.numpy as jnp

    from .in_jax import (
        block,
        cross_entropy,
        forward_step,
        linear,
        norm,
        parameter,
        training_step,
    )  # fmt: skip

    gelu = partial(jax.nn.gelu, approximate=False)

    def patches(p, images):
        # A convolution whose stride equals its kernel size: (batch, embed, row, column)
        weight = parameter(p, "patch_embedding.projection.weight", WIDTH, 3, PATCH, PATCH)
        x = jax.lax.conv_general_dilated(images, weight, (PATCH, PATCH), "VALID")
        x = x.reshape(BATCH, WIDTH, -1).swapaxes(1, 2)  # (batch, patch, embed)
        return x + parameter(p, "patch_embedding.projection.bias", WIDTH)

    def logits(p, images):
        class_token = parameter(p, "class_token", 1, 1, WIDTH)
        x = patches(p, images)
        x = jnp.concatenate([jnp.broadcast_to(class_token, (BATCH, 1, WIDTH)), x], 1)
        x = x + parameter(p, "positions.weight", *x.shape[1:])
        for i in range(LAYERS):
            x = block(p, f"blocks.{i}", x, HEADS, gelu, EPS)
        return linear(p, "head", norm(p, "norm", x, EPS)[:, 0], CLASSES)

    if not gradients:
        return forward_step(logits, arrays()[0])
    return training_step(lambda p, batch: cross_entropy(logits(p, batch[0]), batch[1]), arrays())


def engines(gradients):
    """Return the engines for the forward pass or, if `gradients` is True, for both passes."""
    plain = {"minitorch_attn_plain": lambda: ours(gradients, "plain")}
    return {
        "minitorch_attn": lambda: ours(gradients),
        **(plain if gradients else {}),  # forward only: the same as "minitorch_attn"
        "minitorch_attn_unsplit": lambda: ours(gradients, "unsplit"),
        "jax": lambda: jax(gradients),
        "torch_compile": lambda: torch(gradients, compiled=True),
        "torch": lambda: torch(gradients),
    }
