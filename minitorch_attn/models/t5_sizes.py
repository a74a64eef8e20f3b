"""Published sizes of T5.

The sizes are from the paper, arXiv:1910.10683v4, section 3.7. T5 version 1.1, which the authors
released later, has gated feed-forward networks and a separate output matrix.
"""

from .t5 import T5

__all__ = [
    "t5_11b", "t5_3b", "t5_base", "t5_large", "t5_small", "t5_v1_1_base", "t5_v1_1_large",
    "t5_v1_1_small", "t5_v1_1_xl", "t5_v1_1_xxl",
]  # fmt: skip


def _build(embed_dim, num_heads, num_layers, ff_dim, settings, **more):
    size = {"embed_dim": embed_dim, "num_heads": num_heads, "num_layers": num_layers}
    return T5(**{"vocab_size": 32128, **size, "ff_dim": ff_dim, **more, **settings})


def t5_small(**settings):
    """T5 small: 60,506,624 parameters. `settings` override arguments of `T5`.

    Examples
    --------
    >>> len(t5_small(vocab_size=7).decoder.layers)
    6
    """
    return _build(512, 8, 6, 2048, settings)


def t5_base(**settings):
    """T5 base: 222,903,552 parameters. `settings` override arguments of `T5`."""
    return _build(768, 12, 12, 3072, settings)


def t5_large(**settings):
    """T5 large: 737,668,096 parameters. `settings` override arguments of `T5`."""
    return _build(1024, 16, 24, 4096, settings)


def t5_3b(**settings):
    """T5 3B: 2,851,598,336 parameters. `settings` override arguments of `T5`."""
    return _build(1024, 32, 24, 16384, settings, head_dim=128)


def t5_11b(**settings):
    """T5 11B: 11,307,321,344 parameters. `settings` override arguments of `T5`."""
    return _build(1024, 128, 24, 65536, settings, head_dim=128)


_V1_1 = {"gated": True, "activation": "gelu_tanh", "tie_weights": False}


def t5_v1_1_small(**settings):
    """T5 1.1 small: 76,961,152 parameters. `settings` override arguments of `T5`."""
    return _build(512, 6, 8, 1024, settings, **_V1_1)


def t5_v1_1_base(**settings):
    """T5 1.1 base: 247,577,856 parameters. `settings` override arguments of `T5`."""
    return _build(768, 12, 12, 2048, settings, **_V1_1)


def t5_v1_1_large(**settings):
    """T5 1.1 large: 783,150,080 parameters. `settings` override arguments of `T5`."""
    return _build(1024, 16, 24, 2816, settings, **_V1_1)


def t5_v1_1_xl(**settings):
    """T5 1.1 XL: 2,849,757,184 parameters. `settings` override arguments of `T5`."""
    return _build(2048, 32, 24, 5120, settings, **_V1_1)


def t5_v1_1_xxl(**settings):
    """T5 1.1 XXL: 11,135,332,352 parameters. `settings` override arguments of `T5`."""
    return _build(4096, 64, 24, 10240, settings, **_V1_1)
