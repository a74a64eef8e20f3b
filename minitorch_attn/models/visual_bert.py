"""VisualBERT: a BERT whose input sequence contains words and image regions.

Li et al. 2019, "VisualBERT: A Simple and Performant Baseline for Vision and Language",
arXiv:1908.03557v1. UNITER (`uniter.py`) adds boxes, more pre-training tasks, and the
alignment of words and regions.
"""

from .. import nn, ops
from ..errors import ShapeError
from .bert import BERT, Embeddings, _initialize

__all__ = ["VisualBERT", "VisualEmbeddings"]


class VisualEmbeddings(Embeddings):
    """Embeddings of words and image regions, concatenated with the words first.

    Parameters
    ----------
    feature_dim : int
        Size of a region's feature vector.
    embed_dim, max_positions, num_segments : int
    dropout, eps : float
    """

    def __init__(self, feature_dim, embed_dim, max_positions, num_segments, dropout, eps):
        super().__init__(embed_dim, max_positions, num_segments, dropout, eps)
        self.region_projection = nn.Linear(feature_dim, embed_dim)
        self.region_segment_embedding = nn.Embedding(num_segments, embed_dim)
        self.region_position_embedding = nn.Embedding(max_positions, embed_dim)

    def forward(
        self, tokens, segments=None, positions=None, features=None, region_segments=None,
        alignment=None,
    ):  # fmt: skip
        # tokens: (batch, word, embed)   features: (batch, region, feature)
        words = super().forward(tokens, segments, positions)
        if features is None:
            return words
        x = self.region_projection(features)  # (batch, region, embed)
        if region_segments is None:  # default: the regions are segment 1
            segment = self.region_segment_embedding.weight[1]
        else:
            segment = self.region_segment_embedding(region_segments)
        position = self.region_position_embedding.weight[0]
        if alignment is not None:
            position = position + self.aligned_positions(alignment, x.shape[1])
        regions = self.dropout(self.norm(x + position + segment))
        return ops.cat([words, regions], 1)  # (batch, word + region, embed)

    def aligned_positions(self, alignment, regions):
        """Return the mean position embedding of the words aligned with each region.

        Parameters
        ----------
        alignment : int64 Tensor of shape (batch, region, aligned)
            Positions of the words aligned with each region, padded with -1. Regions after the first
            `regions` are ignored.
        regions : int
            Number of regions.

        Returns
        -------
        Tensor of shape (batch, region, embed)
            0 for a region without words.
        """
        if alignment.ndim != 3 or alignment.shape[1] < regions:
            raise ShapeError(
                "VisualBERT: the alignment has fewer regions than the image",
                got=f"alignment {alignment.shape} for {regions} regions",
                expected=f"(batch, region, aligned words) with at least {regions} regions",
            )
        alignment = alignment[:, :regions]
        table = self.position_embedding
        real = (alignment != -1).to(table.weight.dtype).unsqueeze(-1)
        found = table(ops.clamp(alignment, min=0)) * real  # (batch, region, aligned, embed)
        return found.sum(2) / ops.clamp(real.sum(2), min=1)


class VisualBERT(BERT):
    """VisualBERT encoder: returns one vector for each word and each region.

    Parameters
    ----------
    vocab_size : int
    feature_dim : int
        Size of a region's feature vector.
    embed_dim, num_heads, num_layers : int
    **options
        The other arguments of `BERT`.

    Notes
    -----
    As in the published weights, regions do not have their own positions: row 0 of the region
    position embedding is added to all of them. With alignments, the mean position embedding of the
    words aligned with a region is also added to that region (section 3.2).

    References
    ----------
    .. [1] arXiv:1908.03557v1, section 3.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = VisualBERT(vocab_size=31, feature_dim=5, embed_dim=6, num_heads=2, num_layers=1)
    >>> model(mt.tensor([[1, 4, 2]]), mt.zeros(1, 2, 5)).shape
    (1, 5, 6)
    """

    def __init__(self, vocab_size, feature_dim, embed_dim, num_heads, num_layers, **options):
        super().__init__(vocab_size, embed_dim, num_heads, num_layers, **options)
        sizes = (table.num_embeddings for table in (
            self.embeddings.position_embedding, self.embeddings.segment_embedding))  # fmt: skip
        self.feature_dim = feature_dim
        self.embeddings = VisualEmbeddings(feature_dim, embed_dim, *sizes, self.dropout, self.eps)
        self.embeddings.apply(_initialize)

    def forward(
        self, ids, features=None, segments=None, region_segments=None, alignment=None, mask=None
    ):
        """Return the vectors of the words and regions.

        Parameters
        ----------
        ids : int64 Tensor of shape (batch, word)
        features : Tensor of shape (batch, region, feature), optional
        segments : int64 Tensor of shape (batch, word), optional
            Default: all 0.
        region_segments : int64 Tensor of shape (batch, region), optional
            Default: all 1.
        alignment : int64 Tensor of shape (batch, region, aligned), optional
            See `VisualEmbeddings.aligned_positions`.
        mask : Mask or bool Tensor, optional
            True where attention is allowed. Broadcasts to (batch, heads, query, key).

        Returns
        -------
        Tensor of shape (batch, word + region, embed)
            The words come first.
        """
        tokens = self.token_embedding(ids)
        x = self.embeddings(tokens, segments, None, features, region_segments, alignment)
        return self.encode(x, mask)
