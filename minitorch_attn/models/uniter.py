"""UNITER: one Transformer reads the words of a sentence and the regions of an image together.

Chen et al. 2020, "UNITER: UNiversal Image-TExt Representation Learning", arXiv:1909.11740v3. The
layers are BERT's. A region consists of a box and a vector of image features, for example from an
object detector. Section 3.2 describes four pre-training tasks. This file contains the losses of
three tasks. The fourth loss, alignment by optimal transport, is in `transport.py`.
"""

from typing import NamedTuple

from .. import nn, ops
from ..computes import computes
from ..errors import ShapeError
from ..named_errors import names_arguments
from ..nn import functional as F
from ..tensor import Tensor
from .bert import BERT, TokenPrediction, _initialize
from .transport import cosine_cost, transport_plan, word_region_alignment

__all__ = [
    "UNITER", "UNITERClassifier", "UNITERPreTraining", "box_features", "cosine_cost",
    "image_text_matching_loss", "region_classification_loss", "region_kl_loss",
    "region_regression_loss", "transport_plan", "uniter_base", "uniter_large",
    "word_region_alignment",
]  # fmt: skip

WORDS, REGIONS = 0, 1  # rows of the segment embedding for words and for regions


def box_features(boxes, height, width):
    """Return seven numbers for the position and size of each box, relative to the image.

    Parameters
    ----------
    boxes : Tensor of shape (..., 4)
        Left, top, right and bottom of each region in pixels.
    height, width : int
        Size of the image in pixels.

    Returns
    -------
    Tensor of shape (..., 7)
        Left, top, right, bottom, width, height and area (arXiv:1909.11740v3, section 3.1).

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> box_features(mt.tensor([1.0, 2.0, 3.0, 8.0]), height=8, width=4)
    tensor([0.25 , 0.25 , 0.75 , 1.   , 0.5  , 0.75 , 0.375])
    """
    left, top, right, bottom = boxes.unbind(-1)
    left, right, top, bottom = left / width, right / width, top / height, bottom / height
    w, h = right - left, bottom - top
    return ops.stack([left, top, right, bottom, w, h, w * h], -1)


class RegionEmbeddings(nn.Module):
    """Embeddings of regions: the sum of projected features, projected boxes and a segment vector.

    Parameters
    ----------
    feature_dim, box_dim, embed_dim : int
    dropout, eps : float
    """

    def __init__(self, feature_dim, box_dim, embed_dim, dropout, eps):
        super().__init__()
        self.feature_projection = nn.Linear(feature_dim, embed_dim)
        self.box_projection = nn.Linear(box_dim, embed_dim)
        self.norm = nn.LayerNorm(embed_dim, eps)
        self.dropout = nn.Dropout(dropout)

    @computes("region embeddings")
    def forward(self, features, boxes, segment):
        # features: (batch, region, feature)   boxes: (batch, region, box)   segment: (embed,)
        x = self.feature_projection(features) + self.box_projection(boxes) + segment
        return self.dropout(self.norm(x))  # (batch, region, embed)


class UNITER(BERT):
    """UNITER encoder: returns one vector for each word and each region.

    Parameters
    ----------
    vocab_size : int
    feature_dim : int
        Size of a region's feature vector, 2048 in the paper.
    embed_dim, num_heads, num_layers : int
    box_dim : int, default 7
        Number of features that describe a region's box, 7 in the paper.
    **options
        The other arguments of `BERT`.

    Attributes
    ----------
    regions : RegionEmbeddings

    Notes
    -----
    As in Figure 1 of the paper, the two projections of a region are added, and the sum is
    normalized. (The published code also normalizes each projection.) The modality embedding of
    section 3.1 is BERT's segment embedding: row 0 for words and row 1 for regions.

    References
    ----------
    .. [1] arXiv:1909.11740v3, section 3.1.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = UNITER(vocab_size=31, feature_dim=5, embed_dim=6, num_heads=2, num_layers=1)
    >>> words, features, boxes = mt.tensor([[1, 4, 2]]), mt.zeros(1, 2, 5), mt.zeros(1, 2, 7)
    >>> hidden = model(words, features, boxes)
    >>> hidden.shape, model.pool(hidden).shape
    ((1, 5, 6), (1, 6))
    """

    def __init__(
        self, vocab_size, feature_dim, embed_dim, num_heads, num_layers, box_dim=7, **options
    ):
        super().__init__(vocab_size, embed_dim, num_heads, num_layers, **options)
        self.feature_dim, self.box_dim = feature_dim, box_dim
        self.regions = RegionEmbeddings(feature_dim, box_dim, embed_dim, self.dropout, self.eps)
        self.regions.apply(_initialize)

    def forward(
        self, ids, features, boxes, word_padding_mask=None, region_padding_mask=None,
        masked_regions=None,
    ):  # fmt: skip
        """Return the vectors of the words and regions.

        Parameters
        ----------
        ids : int64 Tensor of shape (batch, word)
            Word ids, beginning with [CLS]. The vector of [CLS] represents sentence and image.
        features : Tensor of shape (batch, region, feature)
        boxes : Tensor of shape (batch, region, box)
            See `box_features`.
        word_padding_mask : bool Tensor of shape (batch, word), optional
            True for padding.
        region_padding_mask : bool Tensor of shape (batch, region), optional
        masked_regions : bool Tensor of shape (batch, region), optional
            True for regions whose features are replaced by zeros. The boxes stay unchanged.

        Returns
        -------
        Tensor of shape (batch, word + region, embed)
            The words come first.
        """
        self._check(ids, features, boxes)
        if masked_regions is not None:
            features = features.masked_fill(masked_regions.unsqueeze(-1), 0.0)
        segment = self.embeddings.segment_embedding.weight[REGIONS]
        words = self.embeddings(self.token_embedding(ids))  # (batch, word, embed), segment WORDS
        regions = self.regions(features, boxes, segment)  # (batch, region, embed)
        mask = _attention_mask(words, regions, word_padding_mask, region_padding_mask)
        return self.encode(ops.cat([words, regions], 1), mask)

    def _check(self, ids, features, boxes):
        batch, regions = ids.shape[0], features.shape[1]
        expected = (batch, regions, self.feature_dim), (batch, regions, self.box_dim)
        if (features.shape, boxes.shape) != expected:
            raise ShapeError(
                "UNITER: the shapes of features and boxes do not match the words or the model",
                got=f"ids {ids.shape}, features {features.shape}, boxes {boxes.shape}",
                expected=f"(batch, region, {self.feature_dim}) and (batch, region, {self.box_dim})",
                hint="compute seven numbers for each box with mt.models.uniter.box_features",
            )


def _attention_mask(words, regions, word_padding_mask, region_padding_mask):
    """Return None, or a mask (batch, 1, 1, word + region) that is False for padding keys."""
    if word_padding_mask is None and region_padding_mask is None:
        return None
    parts = [
        ops.zeros(x.shape[:2], dtype="bool", device=x.device) if mask is None else mask
        for x, mask in ((words, word_padding_mask), (regions, region_padding_mask))
    ]
    return ~ops.cat(parts, 1)[:, None, None]


class Predictions(NamedTuple):
    """Outputs of `UNITERPreTraining`.

    Attributes
    ----------
    words : Tensor of shape (batch, word, vocabulary)
        Logits of the masked words.
    features : Tensor of shape (batch, region, feature)
        Predicted features of the masked regions.
    classes : Tensor of shape (batch, region, class)
        Logits of the masked regions' classes.
    score : Tensor of shape (batch,)
        Logit of the probability that the sentence matches the image.
    hidden : Tensor of shape (batch, word + region, embed)
        Vectors of the words and regions, the input of `word_region_alignment`.
    """

    words: Tensor
    features: Tensor
    classes: Tensor
    score: Tensor
    hidden: Tensor


class UNITERPreTraining(nn.Module):
    """UNITER with the heads of its pre-training tasks (section 3.2).

    Parameters
    ----------
    uniter : UNITER
    num_classes : int
        Number of region classes. The paper uses 1600 object classes.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> uniter = UNITER(vocab_size=31, feature_dim=5, embed_dim=6, num_heads=2, num_layers=1)
    >>> model = UNITERPreTraining(uniter, num_classes=7)
    >>> found = model(mt.tensor([[1, 4, 2]]), mt.zeros(1, 2, 5), mt.zeros(1, 2, 7))
    >>> found.words.shape, found.features.shape, found.classes.shape, found.score.shape
    ((1, 3, 31), (1, 2, 5), (1, 2, 7), (1,))
    """

    def __init__(self, uniter, num_classes):
        super().__init__()
        embed_dim = uniter.embed_dim
        self.uniter = uniter
        self.word_head = TokenPrediction(uniter)
        self.feature_head = nn.Linear(embed_dim, uniter.feature_dim)
        self.class_head = nn.Linear(embed_dim, num_classes)
        self.matching_head = nn.Linear(embed_dim, 1)
        for head in (self.feature_head, self.class_head, self.matching_head):
            _initialize(head)

    def forward(self, ids, features, boxes, *inputs, **masks):
        """Return `Predictions`. See `UNITER.forward` for the arguments."""
        hidden = self.uniter(ids, features, boxes, *inputs, **masks)
        words, regions = hidden[:, : ids.shape[1]], hidden[:, ids.shape[1] :]
        return Predictions(
            self.word_head(words), self.feature_head(regions), self.class_head(regions),
            self.matching_head(self.uniter.pool(hidden)).squeeze(-1), hidden,
        )  # fmt: skip


class UNITERClassifier(nn.Module):
    """UNITER with a classifier on [CLS], for example to answer questions about an image.

    Parameters
    ----------
    uniter : UNITER
        Pre-trained model. Fine-tuning also updates its parameters.
    num_classes : int

    References
    ----------
    .. [1] arXiv:1909.11740v3, section 4.1: a multi-layer perceptron on the vector of [CLS].

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> uniter = UNITER(vocab_size=31, feature_dim=5, embed_dim=6, num_heads=2, num_layers=1)
    >>> model = UNITERClassifier(uniter, num_classes=3)
    >>> model(mt.tensor([[1, 4, 2]]), mt.zeros(1, 2, 5), mt.zeros(1, 2, 7)).shape
    (1, 3)
    """

    def __init__(self, uniter, num_classes):
        super().__init__()
        self.uniter = uniter
        self.dense = nn.Linear(uniter.embed_dim, 2 * uniter.embed_dim)
        self.norm = nn.LayerNorm(2 * uniter.embed_dim, uniter.eps)
        self.head = nn.Linear(2 * uniter.embed_dim, num_classes)
        for layer in (self.dense, self.head):
            _initialize(layer)

    def forward(self, ids, features, boxes, *inputs, **masks):
        """Return logits (batch, class). See `UNITER.forward` for the arguments."""
        pooled = self.uniter.pool(self.uniter(ids, features, boxes, *inputs, **masks))
        return self.head(self.norm(ops.gelu(self.dense(pooled))))


@names_arguments
def region_regression_loss(predicted, features, masked):
    """Return the squared L2 error of the features predicted for masked regions (MRFR).

    Parameters
    ----------
    predicted, features : Tensor of shape (batch, region, feature)
        Predictions and true features.
    masked : bool Tensor of shape (batch, region)
        True for the regions that were masked.

    Returns
    -------
    Tensor of shape ()
        Mean over the masked regions; 0 if there are none.

    References
    ----------
    .. [1] arXiv:1909.11740v3, section 3.2, "Masked Region Feature Regression".

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> masked = mt.tensor([[True, False]])
    >>> region_regression_loss(mt.ones(1, 2, 3), mt.zeros(1, 2, 3), masked)
    tensor(3.)
    """
    distance = predicted[masked] - features[masked]  # (masked, feature)
    return (distance * distance).sum() / max(distance.shape[0], 1)


@names_arguments
def region_classification_loss(logits, labels, masked):
    """Return the cross-entropy of the classes predicted for masked regions (MRC).

    Parameters
    ----------
    logits : Tensor of shape (batch, region, class)
    labels : int64 Tensor of shape (batch, region)
        Class of each region. In the paper, the class that an object detector finds most probable.
    masked : bool Tensor of shape (batch, region)
        True for the regions that were masked.

    Returns
    -------
    Tensor of shape ()
        Mean over the masked regions; 0 if there are none.

    References
    ----------
    .. [1] arXiv:1909.11740v3, section 3.2, "Masked Region Classification".

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> labels, masked = mt.tensor([[3, 9]]), mt.tensor([[True, False]])
    >>> round(region_classification_loss(mt.zeros(1, 2, 4), labels, masked).item(), 4)  # log 4
    1.3863
    """
    labels = labels[masked]
    return F.cross_entropy(logits[masked], labels, reduction="sum") / max(labels.shape[0], 1)


@names_arguments
def region_kl_loss(logits, distribution, masked):
    """Return KL(distribution, softmax(logits)) for the classes of masked regions (MRC-kl).

    Parameters
    ----------
    logits : Tensor of shape (batch, region, class)
    distribution : Tensor of shape (batch, region, class)
        Class probabilities of each region. In the paper, an object detector computes them.
    masked : bool Tensor of shape (batch, region)
        True for the regions that were masked.

    Returns
    -------
    Tensor of shape ()
        Mean over the masked regions; 0 if there are none.

    References
    ----------
    .. [1] arXiv:1909.11740v3, section 3.2, "MRC with KL-Divergence".

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> half = mt.tensor([[[0.5, 0.5, 0.0, 0.0]]])
    >>> round(region_kl_loss(mt.zeros(1, 1, 4), half, mt.tensor([[True]])).item(), 4)  # log 2
    0.6931
    """
    distribution, log_p = distribution[masked], ops.log_softmax(logits[masked], -1)
    return F.kl_div(log_p, distribution, reduction="sum") / max(distribution.shape[0], 1)


@names_arguments
def image_text_matching_loss(score, matches):
    """Return the binary cross-entropy of image-text matching (ITM).

    Parameters
    ----------
    score : Tensor of shape (batch,)
        Logit of a match.
    matches : int64 or bool Tensor of shape (batch,)
        1 for a sentence and its own image, 0 if the sentence or the image was replaced.

    Returns
    -------
    Tensor of shape ()

    References
    ----------
    .. [1] arXiv:1909.11740v3, section 3.2, Eq. 2.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> round(image_text_matching_loss(mt.zeros(2), mt.tensor([1, 0])).item(), 4)  # log 2
    0.6931
    """
    return F.binary_cross_entropy_with_logits(score, matches.to(score.dtype))


def _build(embed_dim, num_layers, settings):
    """Build a UNITER for Faster R-CNN features and BERT's cased vocabulary, as published."""
    size = {"embed_dim": embed_dim, "num_layers": num_layers, "num_heads": embed_dim // 64}
    return UNITER(
        **{"vocab_size": 28996, "feature_dim": 2048, "padding_idx": 0, **size, **settings}
    )


def uniter_base(**settings):
    """UNITER base: 12 layers of width 768, with 86M parameters in the layers and the pooler.

    `settings` override arguments of `UNITER`.

    Examples
    --------
    >>> uniter_base(vocab_size=7, num_layers=1).layers[0].attention.num_heads
    12
    """
    return _build(768, 12, settings)


def uniter_large(**settings):
    """UNITER large: 24 layers of width 1024, 303M parameters. See `uniter_base`."""
    return _build(1024, 24, settings)
