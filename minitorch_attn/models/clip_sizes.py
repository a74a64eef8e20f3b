"""CLIP in its published sizes: ViT-B/32, ViT-B/16 and ViT-L/14.

Radford et al. 2021, arXiv:2103.00020v1, Table 20.
"""

from .clip import CLIP, ImageTower, TextTower

__all__ = ["clip_b_16", "clip_b_32", "clip_l_14"]


def _published(width, layers, patch_size, text_width, output_dim, image_size=224):
    vision = ImageTower(
        image_size, patch_size, width, layers, width // 64, 4 * width, output_dim=output_dim
    )
    text = TextTower(49408, 77, text_width, 12, text_width // 64, 4 * text_width, output_dim)
    return CLIP(vision, text)


def clip_b_32(image_size=224):
    """CLIP ViT-B/32: 151,277,313 parameters.

    Parameters
    ----------
    image_size : int or (int, int), default 224

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> with mt.nn.init.skip_init():
    ...     model = clip_b_32()
    >>> sum(p.numel() for p in model.parameters())
    151277313
    """
    return _published(768, 12, 32, 512, 512, image_size)


def clip_b_16(image_size=224):
    """CLIP ViT-B/16: 149,620,737 parameters. See `clip_b_32`."""
    return _published(768, 12, 16, 512, 512, image_size)


def clip_l_14(image_size=224):
    """CLIP ViT-L/14: 427,616,513 parameters; with image_size=336, 427,944,193."""
    return _published(1024, 24, 14, 768, 768, image_size)
