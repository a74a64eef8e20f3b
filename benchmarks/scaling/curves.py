"""Scaling curves: one size varies in each curve, and a step is measured at each value of it."""

import contextlib
import math
from dataclasses import dataclass

import minitorch_attn as mt
from minitorch_attn.nn import functional as F
from minitorch_attn.ops.attention import causal as attention_causal
from minitorch_attn.ops.attention import tiled as attention_tiled

__all__ = ["CURVES", "Curve", "attention_in"]

GPT_SIZES = dict(layers=2, width=128, heads=4, context=64, batch=4)
TILES = {"full": (math.inf, 0), "tiled": (0, 0)}  # FROM_SCORES, FROM_TOKENS
ROWS = {"full": 2**62, "tiled": attention_causal.ROWS}  # rows of a block of causal attention


@dataclass
class Curve:
    """One curve of a figure: a step to measure at several sizes.

    Attributes
    ----------
    what : str
        The size that varies, used as the title of the panel.
    label : str
        Legend entry of the curve.
    sizes : tuple of int
    step : callable
        Function that takes a size and returns the step to measure, a callable without arguments.
    attention : {"full", "tiled", None}
        Attention algorithm. If None, the library chooses it.
    """

    what: str
    label: str
    sizes: tuple
    step: callable
    attention: str | None = None


@contextlib.contextmanager
def attention_in(kind):
    """Force attention to compute all scores at once ("full") or in tiles ("tiled")."""
    before = attention_tiled.FROM_SCORES, attention_tiled.FROM_TOKENS
    rows = attention_causal.ROWS
    if kind is not None:
        attention_tiled.FROM_SCORES, attention_tiled.FROM_TOKENS = TILES[kind]
        attention_causal.ROWS = ROWS[kind]
    try:
        yield
    finally:
        attention_tiled.FROM_SCORES, attention_tiled.FROM_TOKENS = before
        attention_causal.ROWS = rows


def gpt_step(**changes):
    """Build a training step of a small character-level GPT: forward, backward and AdamW."""
    sizes = {**GPT_SIZES, **changes}
    model = mt.models.GPT(
        vocab_size=65, context_length=sizes["context"], embed_dim=sizes["width"],
        num_heads=sizes["heads"], num_layers=sizes["layers"],
    )  # fmt: skip
    optimizer = mt.optim.AdamW(model.parameters(), lr=3e-4)
    ids = mt.randint(0, 65, (sizes["batch"], sizes["context"]))

    def step():
        optimizer.zero_grad()
        F.cross_entropy(model(ids).flatten(0, 1), ids.flatten()).backward()
        optimizer.step()

    return step


def _images_step(model, side):
    images = mt.randn(1, 3, side, side)

    def step():
        model.zero_grad()
        model(images).sum().backward()

    return step


def vit_step(area):
    """Build a step: the forward and backward pass of a small ViT.

    The image has `area` pixels, and each patch has 8 x 8 pixels.
    """
    side = math.isqrt(area)
    model = mt.models.VisionTransformer(
        image_size=side, patch_size=8, num_classes=10, embed_dim=64, num_layers=2, num_heads=2,
        mlp_dim=256,
    )  # fmt: skip
    return _images_step(model, side)


def swin_step(area):
    """Build a step: the forward and backward pass of a small Swin Transformer.

    The image has `area` pixels, and each patch has 4 x 4 pixels.
    """
    side = math.isqrt(area)
    model = mt.models.Swin(
        image_size=side, num_classes=10, embed_dim=32, depths=(2, 2), num_heads=(1, 2)
    )
    return _images_step(model, side)


LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
AREAS = tuple(side * side for side in (112, 224, 336, 448, 672))
CURVES = [
    *[
        Curve(
            "sequence length", f"{kind} attention", LENGTHS,
            lambda n: gpt_step(context=n, batch=1), kind,
        )
        for kind in TILES
    ],
    Curve("batch", "GPT", (1, 2, 4, 8, 16, 32, 64), lambda n: gpt_step(batch=n)),
    Curve(
        "width", "GPT", (64, 128, 256, 512, 1024), lambda n: gpt_step(width=n, heads=n // 32)
    ),
    Curve("depth", "GPT", (1, 2, 4, 8, 16, 32), lambda n: gpt_step(layers=n)),
    Curve("pixels of an image", "ViT, full attention", AREAS, vit_step, "full"),
    Curve("pixels of an image", "ViT, tiled attention", AREAS, vit_step, "tiled"),
    Curve("pixels of an image", "Swin", AREAS, swin_step),
]  # fmt: skip
