"""Image GPT: a GPT that reads and generates images, pixel by pixel.

Chen et al. 2020, "Generative Pretraining from Pixels", ICML 2020 (PMLR 119). An image is a sequence
of color clusters in raster order (section 3.2, `data/color_clusters.py`). The model learns to
predict the next pixel (Eq. 1) or, as in BERT, masked pixels (Eq. 2). A linear classifier on the
features of a layer shows what the model has learned about the images (section 2.3).
"""

from .. import nn, ops
from ..autograd.modes import no_grad
from ..errors import ArgumentError, ShapeError
from ..nn import functional as F
from .gpt import GPT

__all__ = ["ImageGPT", "image_gpt_l", "image_gpt_m", "image_gpt_s", "quick_gelu"]


def quick_gelu(x):
    """Return `x sigmoid(1.702 x)` (Hendrycks and Gimpel 2016, arXiv:1606.08415v5, section 2)."""
    return x * ops.sigmoid(1.702 * x)


class ImageGPT(GPT):
    """GPT on the pixels of an image: logits of the next pixel's color cluster.

    Parameters
    ----------
    num_clusters : int
        Number of color clusters, 512 in the paper. Id `num_clusters` is the start token.
    num_pixels : int
        Maximum number of pixels.
    embed_dim, num_heads, num_layers : int
    mlp_ratio : float, default 4
    ff_dim : int, optional
        Hidden size of the feed-forward networks, which overrides `mlp_ratio`.
    dropout : float, default 0
    causal : bool, default True
        Whether a pixel attends only to itself and to earlier pixels. The BERT objective,
        `masked_loss`, requires False.
    activation : str or callable, default `quick_gelu`
    norm_eps : float, default 1e-5

    Notes
    -----
    The model differs from GPT-2 in two ways, as in the authors' code. Its norms divide by the root
    mean square and do not subtract the mean, and its output layer has its own weights, which start
    at zero. The linear layers have biases; Hugging Face's weights have them too, but the authors'
    code does not. The start token has a row in the token embedding, but it is never predicted.

    References
    ----------
    .. [1] Chen et al. 2020, "Generative Pretraining from Pixels", sections 2.1 to 2.3.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = ImageGPT(num_clusters=16, num_pixels=64, embed_dim=8, num_heads=2, num_layers=2)
    >>> pixels = mt.zeros(3, 64, dtype=mt.int64)
    >>> model(model.shifted(pixels)).shape
    (3, 64, 16)
    """

    def __init__(
        self, num_clusters, num_pixels, embed_dim, num_heads, num_layers, mlp_ratio=4.0,
        ff_dim=None, dropout=0.0, causal=True, activation=quick_gelu, norm_eps=1e-5,
    ):  # fmt: skip
        super().__init__(
            num_clusters + 1, num_pixels, embed_dim, num_heads, num_layers, mlp_ratio, ff_dim,
            dropout, tie_weights=False, activation=activation, norm_eps=norm_eps,
        )  # fmt: skip
        self.num_clusters, self.causal = num_clusters, causal
        for block in self.blocks:
            block.norm1, block.norm2 = (nn.RMSNorm(embed_dim, norm_eps) for _ in range(2))
            block.is_causal = causal
        self.norm = nn.RMSNorm(embed_dim, norm_eps)
        self.head = nn.Linear(embed_dim, num_clusters, bias=False)
        nn.init.zeros_(self.head.weight)

    def shifted(self, pixels):
        """Return the inputs for predicting the pixels: the start token and all but the last pixel.

        Parameters
        ----------
        pixels : int64 Tensor of shape (batch, pixel)

        Returns
        -------
        int64 Tensor of shape (batch, pixel)
        """
        start = ops.full_like(pixels[:, :1], self.num_clusters)
        return ops.cat([start, pixels[:, :-1]], 1)

    def next_pixel_loss(self, pixels, reduction="mean"):
        """Return the autoregressive loss L_AR (Eq. 1), in nats per pixel.

        Parameters
        ----------
        pixels : int64 Tensor of shape (batch, pixel)
        reduction : {"mean", "none"}
            With "none", the result is the loss of each pixel, (batch, pixel).
        """
        if not self.causal:
            raise ArgumentError(
                "ImageGPT.next_pixel_loss: the model sees all pixels, including the next one",
                got="causal=False",
                hint="use masked_loss, or create the model with causal=True",
            )
        logits = self(self.shifted(pixels))  # (batch, pixel, cluster)
        loss = F.cross_entropy(logits.flatten(0, 1), pixels.flatten(), reduction=reduction)
        return loss.reshape(pixels.shape) if reduction == "none" else loss

    def masked_loss(self, pixels, masked):
        """Return the BERT loss L_BERT (Eq. 2): predict the masked pixels from the others.

        The embedding of a masked pixel is zero, as in the authors' code, so only its position is
        known.

        Parameters
        ----------
        pixels : int64 Tensor of shape (batch, pixel)
        masked : bool Tensor of shape (batch, pixel)
            True for masked pixels. In the paper, each pixel is masked with probability 0.15.

        Returns
        -------
        0-d Tensor
            Mean over the masked pixels, in nats per pixel.
        """
        if masked.shape != pixels.shape:
            raise ShapeError(
                "ImageGPT.masked_loss: pixels and masked must have the same shape",
                got=f"pixels {pixels.shape}, masked {masked.shape}",
            )
        if self.causal:
            raise ArgumentError(
                "ImageGPT.masked_loss: the model's causal mask hides the pixels after each pixel",
                got="causal=True",
                hint="use next_pixel_loss, or create the model with causal=False",
            )
        logits = self.head(self.decode(self.embed_visible(pixels, masked)))
        return F.cross_entropy(logits[masked], pixels[masked])

    def embed_visible(self, pixels, masked):
        """Embed pixels. The token embedding of each masked pixel is replaced with zeros."""
        positions = self.position_embedding(ops.arange(pixels.shape[1], device=pixels.device))
        tokens = self.token_embedding(pixels)  # (batch, pixel, embed)
        return tokens * (~masked).unsqueeze(-1).to(dtype=tokens.dtype) + positions

    def features(self, pixels):
        """Return the features of every layer for a linear probe.

        Parameters
        ----------
        pixels : int64 Tensor of shape (batch, pixel)

        Returns
        -------
        list of Tensor of shape (batch, embed)
            Entry l is the normalized input of block l, averaged over the pixels. The last entry
            is the output of the last norm, averaged in the same way (section 2.3). No graph is
            recorded.
        """
        norms = [block.norm1 for block in self.blocks] + [self.norm]
        ids = self.shifted(pixels) if self.causal else pixels
        with nn.collect_outputs(norms) as found, no_grad():
            self.decode(self.embed(ids))
        return [x.mean(1) for _, x in found]


def _published(embed_dim, num_layers, settings):
    sizes = {"num_clusters": 512, "num_pixels": 32 * 32, "embed_dim": embed_dim}
    heads = 16 if embed_dim == 1536 else 8
    return ImageGPT(**{**sizes, "num_heads": heads, "num_layers": num_layers, **settings})


def image_gpt_s(**settings):
    """iGPT-S: 76,682,240 parameters.

    Parameters
    ----------
    **settings
        Arguments of `ImageGPT` to override.

    References
    ----------
    .. [1] Chen et al. 2020, "Generative Pretraining from Pixels", section 3.3.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> with mt.nn.init.skip_init():
    ...     model = image_gpt_s()
    >>> sum(p.numel() for p in model.parameters())
    76682240
    """
    return _published(512, 24, settings)


def image_gpt_m(**settings):
    """iGPT-M: 455,489,536 parameters. See `image_gpt_s`."""
    return _published(1024, 36, settings)


def image_gpt_l(**settings):
    """iGPT-L: 1,362,914,304 parameters. See `image_gpt_s`."""
    return _published(1536, 48, settings)
