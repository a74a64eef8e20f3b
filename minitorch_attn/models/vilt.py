"""ViLT: one Transformer reads words and image patches, without convolutions or regions.

Kim et al. 2021, "ViLT: Vision-and-Language Transformer Without Convolution or Region Supervision",
arXiv:2102.03334v2. The word embeddings are the same as in BERT. The patch embeddings and the
layers are the same as in ViT.
"""

from .. import nn, ops
from ..errors import ShapeError
from ..nn import init
from ..nn.checks import check_layers
from .bert import Embeddings
from .vit import Block, PatchEmbedding, initialize, pair

__all__ = ["ViLT", "vilt_b_32"]


class ViLT(nn.Module):
    """ViLT encoder: returns one vector for each word and each patch.

    Parameters
    ----------
    vocab_size : int
    image_size, patch_size : int or (int, int)
        Height and width of an image and of a patch in pixels. The learned position embeddings are
        for images of this size; for other sizes, they are interpolated.
    embed_dim, num_heads, num_layers, mlp_dim : int
    in_channels : int, default 3
    max_positions : int, default 40
        Maximum number of words.
    num_segments, num_modalities : int, default 2
        Number of text segments, and number of modalities (words and images).
    dropout, attention_dropout : float, default 0
    activation : str or callable, default "gelu"
    qkv_bias : bool, default True
    eps : float, default 1e-12
    padding_idx : int, optional
    max_patches : int, default -1
        Maximum number of patches of an image; -1 for no limit. If an image has more patches, a
        random subset is used.

    Attributes
    ----------
    blocks : ModuleList of Block
    pooler : Linear

    Notes
    -----
    The images of a batch may have different sizes. In `pixel_mask`, 1 marks pixels that are not
    padding. The position embeddings are interpolated bilinearly to the patch grid of each image
    (section 3.1 of the paper), as with `align_corners=True` in `interpolate`.

    References
    ----------
    .. [1] arXiv:2102.03334v2, section 3.1.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = ViLT(vocab_size=31, image_size=8, patch_size=4, embed_dim=6, num_heads=2,
    ...     num_layers=1, mlp_dim=12)
    >>> hidden = model(mt.tensor([[1, 4, 2]]), mt.zeros(1, 3, 8, 8))
    >>> hidden.shape, model.pool(hidden).shape  # 3 words, [CLS] of the image, 4 patches
    ((1, 8, 6), (1, 6))
    """

    named_methods = None  # all public methods

    def __init__(
        self, vocab_size, image_size, patch_size, embed_dim, num_heads, num_layers, mlp_dim,
        in_channels=3, max_positions=40, num_segments=2, num_modalities=2, dropout=0.0,
        attention_dropout=0.0, activation="gelu", qkv_bias=True, eps=1e-12, padding_idx=None,
        max_patches=-1,
    ):  # fmt: skip
        super().__init__()
        self.vocab_size, self.embed_dim, self.eps = vocab_size, embed_dim, eps
        self.activation, self.max_patches = activation, max_patches
        self.token_embedding = nn.Embedding(vocab_size, embed_dim, padding_idx)
        self.embeddings = Embeddings(embed_dim, max_positions, num_segments, dropout, eps)
        self.patch_embedding = PatchEmbedding(patch_size, in_channels, embed_dim)
        self.grid = self.patch_embedding.grid(*pair(image_size))
        self.class_token = nn.Parameter(ops.zeros(1, 1, embed_dim))
        self.positions = nn.Parameter(ops.zeros(1, 1 + self.grid[0] * self.grid[1], embed_dim))
        self.modality_embedding = nn.Embedding(num_modalities, embed_dim)
        self.dropout = nn.Dropout(dropout)
        check_layers("ViLT", num_layers=num_layers)
        options = dict(dropout=dropout, inner_dropout=0.0, attention_dropout=attention_dropout,
                       activation=activation, qkv_bias=qkv_bias, eps=eps)  # fmt: skip
        self.blocks = nn.ModuleList(
            [Block(embed_dim, num_heads, mlp_dim, **options) for _ in range(num_layers)]
        )
        self.norm = nn.LayerNorm(embed_dim, eps)
        self.pooler = nn.Linear(embed_dim, embed_dim)
        self.apply(initialize)
        init.normal_(self.positions, std=0.02)

    def forward(self, ids, images, word_mask=None, pixel_mask=None, segments=None):
        """Return the vectors of the words, the class token and the patches.

        Parameters
        ----------
        ids : int64 Tensor of shape (batch, word)
        images : Tensor of shape (batch, channel, height, width)
        word_mask : Tensor of shape (batch, word), optional
            1 for words, 0 for padding.
        pixel_mask : Tensor of shape (batch, height, width), optional
            1 for pixels of the image, 0 for padding at the right and at the bottom.
        segments : int64 Tensor of shape (batch, word), optional

        Returns
        -------
        Tensor of shape (batch, word + 1 + patch, embed)
            The words, the class token of the image, and its patches.
        """
        words = self.embed_words(self.token_embedding(ids), segments)
        patches, real = self.embed_images(images, pixel_mask)
        x, mask = self.join(words, patches, word_mask, real)
        return self.norm(self.encode(x, mask))

    def embed_words(self, tokens, segments=None):
        """Return the embeddings of words, without the modality embedding."""
        return self.embeddings(tokens, segments)

    def embed_images(self, images, pixel_mask=None):
        """Return the embeddings of the class token and the patches, and a mask (0 for padding).

        Parameters
        ----------
        images : Tensor of shape (batch, channel, height, width)
        pixel_mask : Tensor of shape (batch, height, width), optional

        Returns
        -------
        embeddings : Tensor of shape (batch, 1 + patch, embed)
        real : int64 Tensor of shape (batch, 1 + patch)
            1 for the class token and patches of the image, 0 for padding.
        """
        every = self.patch_embedding(images)  # (batch, patch, embed)
        grid = self.patch_embedding.grid(*images.shape[-2:])
        real = self._real_patches(pixel_mask, len(images), grid, images.device)
        rows, columns = real[:, :, 0].sum(1).tolist(), real[:, 0].sum(1).tolist()
        sizes = list(zip(rows, columns, strict=True))
        positions = self._positions(sizes, grid)
        real = real.flatten(1)  # (batch, patch)
        kept = max((h * w for h, w in sizes), default=grid[0] * grid[1])
        if self.max_patches > 0:
            kept = min(kept, self.max_patches)
        chosen = self._chosen(real, kept)  # (batch, kept)
        row = ops.arange(len(images), device=images.device).unsqueeze(1)
        patches, real = (every + positions)[row, chosen], real[row, chosen]
        first = (self.class_token + self.positions[:, :1]).expand(len(images), 1, self.embed_dim)
        one = ops.ones(len(images), 1, dtype=real.dtype, device=real.device)
        return self.dropout(ops.cat([first, patches], 1)), ops.cat([one, real], 1)

    def join(self, words, patches, word_mask=None, real=None, modality=1):
        """Add modality embeddings to words and patches, concatenate them, and build the mask.

        Parameters
        ----------
        words : Tensor of shape (batch, word, embed)
        patches : Tensor of shape (batch, patch, embed)
        word_mask, real : Tensor of shape (batch, word) or (batch, patch), optional
            1 for words or patches, 0 for padding.
        modality : int, default 1
            Row of the modality embedding to add to the image's patches.

        Returns
        -------
        x : Tensor of shape (batch, word + patch, embed)
        mask : bool Tensor of shape (batch, 1, 1, word + patch)
            True for keys that are not padding.
        """
        table = self.modality_embedding.weight
        x = ops.cat([words + table[0], patches + table[modality]], 1)
        masks = [
            ops.ones(part.shape[:2], dtype="bool", device=x.device) if m is None else m != 0
            for part, m in ((words, word_mask), (patches, real))
        ]
        if any(m.shape != part.shape[:2] for m, part in zip(masks, (words, patches), strict=True)):
            raise ShapeError(
                "ViLT: the masks do not match the words and the patches",
                got=f"masks {masks[0].shape} and {masks[1].shape}",
                expected=f"{words.shape[:2]} and {patches.shape[:2]}",
            )
        return x, ops.cat(masks, 1)[:, None, None]

    def encode(self, x, mask=None):
        """Apply all blocks to embeddings of shape (batch, token, embed)."""
        for block in self.blocks:
            x = block(x, mask)
        return x

    def pool(self, hidden):
        """Return tanh(linear(vector of the first word)), one vector per image-text pair."""
        return ops.tanh(self.pooler(hidden[:, 0]))

    def _real_patches(self, pixel_mask, batch, grid, device):
        """Return an int64 mask (batch, row, column): 1 if a patch's first pixel is not padding."""
        if pixel_mask is None:
            return ops.ones(batch, *grid, dtype="int64", device=device)
        if pixel_mask.ndim != 3 or pixel_mask.shape[0] != batch:
            raise ShapeError(
                "ViLT: pixel_mask does not match the images",
                got=f"{pixel_mask.shape}", expected=f"({batch}, height, width)",
            )  # fmt: skip
        mask = pixel_mask.to(self.positions.dtype).unsqueeze(1)
        return ops.interpolate(mask, size=grid, mode="nearest").squeeze(1).to("int64")

    def _positions(self, sizes, grid):
        """Return positions (batch, patch, embed), interpolated for each image, padded to `grid`."""
        table = self.positions[:, 1:].reshape(1, *self.grid, self.embed_dim).permute(0, 3, 1, 2)
        if min(map(min, sizes), default=1) < 1:
            raise ShapeError(
                "ViLT: pixel_mask must not be 0 everywhere in the first row or column of an image",
                got="an image with 0 rows or 0 columns of patches",
            )
        found = {
            (h, w): ops.pad(
                ops.interpolate(table, size=(h, w), mode="bilinear", align_corners=True),
                (0, grid[1] - w, 0, grid[0] - h),
            )
            for h, w in set(sizes)
        }
        padded = [found[size].flatten(2).transpose(1, 2) for size in sizes]
        return ops.cat(padded) if padded else table.new_zeros(0, grid[0] * grid[1], self.embed_dim)

    def _chosen(self, real, kept):
        """Return the indices (batch, kept) of patches to use: real patches first, then padding.

        The real patches are in raster order, and so is the padding. If an image has more than
        `kept` real patches, keep a random subset of them.
        """
        order = ops.argsort(1 - real, dim=1, stable=True)  # real patches first
        count = real.sum(1, keepdim=True)
        if not (count > kept).any().item():
            return order[:, :kept]
        noise = ops.rand(*real.shape, device=real.device) + (1 - real)
        chosen = ops.argsort(noise, dim=1)[:, :kept]  # in random order, padding last
        padding = real.gather(1, chosen) == 0
        ranked = ops.argsort(chosen + padding * real.shape[1], dim=1)
        return chosen.gather(1, ranked)


def vilt_b_32(**settings):
    """ViLT-B/32: 111,595,008 parameters. `settings` override arguments of `ViLT`.

    Examples
    --------
    >>> vilt_b_32(vocab_size=7, num_layers=1, image_size=64).grid
    (2, 2)
    """
    size = dict(vocab_size=30522, image_size=384, patch_size=32, embed_dim=768, num_heads=12,
                num_layers=12, mlp_dim=3072)  # fmt: skip
    return ViLT(**{**size, **settings})
