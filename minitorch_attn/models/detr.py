"""DETR: object detection as set prediction, with a Transformer and object queries.

Carion et al. 2020, "End-to-End Object Detection with Transformers", arXiv:2005.12872v3. The layers
are in `detr_transformer.py`, positions in `image_positions.py`, the matching in `matching.py`, the
loss in `set_loss.py`, boxes in `boxes.py`, and the evaluation in `average_precision.py`.
"""

from .. import nn, ops
from ..errors import ArgumentError
from ..nn import init
from ..tensor import tensor
from .average_precision import average_precision
from .boxes import box_iou, center_to_corners_format, generalized_box_iou
from .detr_transformer import DetrDecoder, DetrEncoder
from .image_positions import LearnedPositions, SinePositions, mask_like
from .matching import hungarian_match
from .resnet import Bottleneck, ResNet
from .set_loss import auxiliary_losses, hungarian_loss, total_loss

__all__ = [
    "DETR", "BoxHead", "FeatureExtractor", "auxiliary_losses", "average_precision", "box_iou",
    "center_to_corners_format", "detections", "detr_resnet101", "detr_resnet101_dc5",
    "detr_resnet50", "detr_resnet50_dc5", "generalized_box_iou", "hungarian_loss",
    "hungarian_match", "total_loss",
]  # fmt: skip

POSITIONS = {"sine": SinePositions, "learned": LearnedPositions}


class FeatureExtractor(ResNet):
    """ResNet that returns its last feature map, with frozen batch norms.

    `block`, `layers` and the options that are not listed here are passed to `ResNet`.

    Parameters
    ----------
    dilated : sequence of bool, optional
        Whether each stage after the first uses dilated convolutions instead of halving the map's
        height and width. In DETR-DC5, only the last stage is dilated.
    last_stage : int, optional
        Index of the stage whose map is returned. Default: the last one.

    Notes
    -----
    arXiv:2005.12872v3, section 4 and appendix A.4: batch norms are frozen. As in the authors' code,
    the first convolution and the first stage are not trained.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> backbone = FeatureExtractor(Bottleneck, (1, 1), channels=(2, 3), stem_channels=4)
    >>> backbone(mt.zeros(5, 3, 32, 32)).shape, backbone.num_features
    ((5, 12, 4, 4), 12)
    """

    def __init__(self, block, layers, dilated=None, *, last_stage=None, channels=None, **options):
        channels = (64, 128, 256, 512) if channels is None else channels
        super().__init__(
            block, layers, 0, replace_stride_with_dilation=dilated, channels=channels,
            norm_layer=nn.FrozenBatchNorm2d, **options,
        )  # fmt: skip
        self.last_stage = len(layers) if last_stage is None else last_stage
        self.num_features = channels[self.last_stage - 1] * block.expansion
        for part in (self.conv1, getattr(self, self.stage_names[0])):
            part.requires_grad_(False)

    def forward(self, images):
        """Return features (batch, channel, row, column)."""
        return self.feature_maps(images)[self.last_stage - 1]


class BoxHead(nn.Module):
    """Feed-forward network that predicts a box, with ReLU between its linear layers.

    Parameters
    ----------
    embed_dim : int
        Size of the input and of the hidden layers.
    output_dim : int, default 4
    num_layers : int, default 3

    Notes
    -----
    arXiv:2005.12872v3, section 3.2, "Prediction feed-forward networks". `DETR` applies a sigmoid to
    the result.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> BoxHead(6)(mt.zeros(2, 5, 6)).shape
    (2, 5, 4)
    """

    def __init__(self, embed_dim, output_dim=4, num_layers=3):
        super().__init__()
        sizes = [embed_dim] * num_layers + [output_dim]
        self.layers = nn.ModuleList(
            [nn.Linear(a, b) for a, b in zip(sizes, sizes[1:], strict=False)]
        )

    def forward(self, x):
        """Map (..., embed) to (..., output)."""
        *hidden, last = self.layers
        for layer in hidden:
            x = ops.relu(layer(x))
        return last(x)


class DETR(nn.Module):
    r"""DETR: a backbone, an encoder for its features, and a decoder for object queries.

    Parameters
    ----------
    backbone : Module
        Maps images (batch, channel, height, width) to features (batch, backbone_dim, row, column).
    backbone_dim : int
    num_classes : int
        Number of classes, not counting "no object", which is the last output.
    num_queries : int, default 100
        Number of object queries, which is the maximum number of objects detected in an image.
    embed_dim, num_heads, ff_dim : int, default 256, 8 and 2048
    num_encoder_layers, num_decoder_layers : int, default 6
    positions : {"sine", "learned"}, default "sine"
    dropout, attention_dropout, ff_dropout : float, default 0.1, 0 and 0
        See `DetrEncoderLayer`.
    activation : str or callable, default "relu"
    decoder_heads, decoder_ff_dim : int, optional
        Number of heads and feed-forward size of the decoder. Default: the encoder's values.

    Attributes
    ----------
    query_positions : Embedding of shape (num_queries, embed_dim)
        The object queries.

    Notes
    -----
    The encoder gets one token for each position of the feature map. The decoder's input is zeros,
    so the object queries differ only in their learned positions. These positions are added to the
    queries and keys of every self-attention layer, and to the queries of every cross-attention
    layer. A permutation of the object queries therefore permutes the predictions. To train the
    model, use `auxiliary_losses` and `total_loss`.

    References
    ----------
    .. [1] Carion et al. 2020, arXiv:2005.12872v3, section 3.2, appendices A.3 and A.4.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> backbone = mt.nn.Conv2d(3, 5, kernel_size=4, stride=4)
    >>> model = DETR(backbone, 5, num_classes=7, num_queries=11, embed_dim=8, num_heads=2,
    ...              ff_dim=13, num_encoder_layers=1, num_decoder_layers=2)
    >>> logits, boxes = model(mt.zeros(2, 3, 16, 20))
    >>> logits.shape, boxes.shape
    ((2, 11, 8), (2, 11, 4))
    >>> targets = [{"class_labels": mt.tensor([4]), "boxes": mt.tensor([[0.5, 0.5, 0.2, 0.4]])}] * 2
    >>> losses = auxiliary_losses(*model.layer_outputs(mt.zeros(2, 3, 16, 20)), targets, 7)
    >>> loss = total_loss(losses)
    """

    named_methods = None  # all public methods

    def __init__(
        self, backbone, backbone_dim, num_classes, num_queries=100, embed_dim=256, num_heads=8,
        ff_dim=2048, num_encoder_layers=6, num_decoder_layers=6, *, positions="sine", dropout=0.1,
        attention_dropout=0.0, ff_dropout=0.0, activation="relu", decoder_heads=None,
        decoder_ff_dim=None,
    ):  # fmt: skip
        super().__init__()
        if positions not in POSITIONS:
            raise ArgumentError(
                "DETR: the value of positions is invalid",
                got=repr(positions), expected=f"one of {', '.join(POSITIONS)}",
            )  # fmt: skip
        sizes = (embed_dim, num_heads, ff_dim)
        decoder_sizes = (embed_dim, decoder_heads or num_heads, decoder_ff_dim or ff_dim)
        options = dict(
            dropout=dropout, attention_dropout=attention_dropout, ff_dropout=ff_dropout,
            activation=activation,
        )  # fmt: skip
        self.backbone = backbone
        self.projection = nn.Conv2d(backbone_dim, embed_dim, kernel_size=1)
        self.positions = POSITIONS[positions](embed_dim)
        self.encoder = DetrEncoder(num_encoder_layers, *sizes, **options)
        self.query_positions = nn.Embedding(num_queries, embed_dim)
        self.decoder = DetrDecoder(num_decoder_layers, *decoder_sizes, **options)
        self.class_head = nn.Linear(embed_dim, num_classes + 1)
        self.box_head = BoxHead(embed_dim)
        self.reset_parameters()

    def reset_parameters(self):
        """Initialize the encoder's and decoder's matrices from Glorot's uniform distribution."""
        for part in (self.encoder, self.decoder):
            for parameter in part.parameters():
                if parameter.ndim > 1:
                    init.xavier_uniform_(parameter)

    def forward(self, images, pixel_mask=None):
        """Predict a class and a box for each object query.

        Parameters
        ----------
        images : Tensor of shape (batch, channel, height, width)
        pixel_mask : Tensor of shape (batch, height, width), optional
            0 where a smaller image of the batch is padded. Default: no padding.

        Returns
        -------
        logits : Tensor of shape (batch, query, num_classes + 1)
        boxes : Tensor of shape (batch, query, 4)
            Center x, center y, width and height, relative to the size of the image, in (0, 1).
        """
        logits, boxes = self.layer_outputs(images, pixel_mask)
        return logits[-1], boxes[-1]

    def layer_outputs(self, images, pixel_mask=None):
        """Return logits and boxes of all decoder layers: (layer, batch, query, ...).

        The layers share the prediction heads (section 3.2, "Auxiliary decoding losses").
        """
        memory, positions, mask = self.encode(images, pixel_mask)
        return self.predict(self.decode(memory, positions, mask))

    def encode(self, images, pixel_mask=None):
        """Run backbone and encoder.

        Returns
        -------
        memory : Tensor of shape (batch, key, embed)
            One vector for each position of the feature map, in row-major order.
        positions : Tensor of shape (batch or 1, key, embed)
        mask : bool Tensor of shape (batch, 1, 1, key), or None
            False at padding.
        """
        features, mask = self.backbone_features(images, pixel_mask)
        positions = self.positions(features, mask)
        tokens = self.projection(features).flatten(2).transpose(1, 2)  # (batch, key, embed)
        mask = None if mask is None else mask.flatten(1)[:, None, None, :]
        return self.encoder(tokens, positions, mask), positions, mask

    def backbone_features(self, images, pixel_mask=None):
        """Return the feature map and its mask (batch, row, column), which may be None."""
        features = self.backbone(images)
        return features, None if pixel_mask is None else mask_like(pixel_mask, features)

    def decode(self, memory, memory_positions=None, memory_mask=None):
        """Run the decoder; return its states, (layer, batch, query, embed)."""
        positions = self.query_positions.weight.unsqueeze(0)  # (1, query, embed)
        start = ops.zeros_like(positions).expand(memory.shape[0], *positions.shape[1:])
        return self.decoder(start, memory, positions, memory_positions, memory_mask=memory_mask)

    def predict(self, states):
        """Compute logits (..., query, num_classes + 1) and boxes (..., query, 4) from states."""
        return self.class_head(states), ops.sigmoid(self.box_head(states))


def detections(logits, boxes, sizes, threshold=0.0):
    """Convert a detector's outputs to boxes in pixels, sorted by descending score.

    Parameters
    ----------
    logits : Tensor of shape (batch, query, classes + 1)
    boxes : Tensor of shape (batch, query, 4)
        Boxes in center format, relative to the size of the image.
    sizes : sequence of (int, int)
        Height and width of each image in pixels.
    threshold : float, default 0
        Smallest score of a detection.

    Returns
    -------
    list of dict
        For each image, `scores` (detection,), `labels` (detection,) and `boxes` (detection, 4), as
        `average_precision` expects. The score is the probability of the most probable class other
        than "no object". DETR does not need non-maximum suppression.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> logits, boxes = mt.tensor([[[0.0, 9.0, 0.0]]]), mt.tensor([[[0.5, 0.5, 0.5, 0.5]]])
    >>> detections(logits, boxes, [(40, 80)])[0]["boxes"]
    tensor([[20., 10., 60., 30.]])
    """
    scores, labels = ops.softmax(logits.detach(), -1)[..., :-1].max(-1)  # (batch, query)
    boxes, found = center_to_corners_format(boxes.detach()), []
    for i, (height, width) in enumerate(sizes):
        best = scores[i].argsort(descending=True)
        best = best[scores[i][best] >= threshold]
        scale = tensor([width, height, width, height], dtype=boxes.dtype, device=boxes.device)
        found.append({
            "scores": scores[i][best], "labels": labels[i][best], "boxes": boxes[i][best] * scale,
        })  # fmt: skip
    return found


def detr_resnet50(num_classes=91, **changes):
    """DETR with ResNet-50: 41,524,768 parameters, of which 41,302,368 are trained ("41M").

    Parameters
    ----------
    num_classes : int, default 91
        Number of classes. COCO's class numbers go up to 90.
    **changes
        Further arguments passed to `DETR`.

    Notes
    -----
    arXiv:2005.12872v3, Table 1: 41M parameters, and 86 GFLOPs (multiply-adds) on COCO's images.
    """
    return _detr((3, 4, 6, 3), num_classes, changes)


def detr_resnet50_dc5(num_classes=91, **changes):
    """DETR-DC5 with ResNet-50: `detr_resnet50` with a feature map twice as high and wide."""
    return _detr((3, 4, 6, 3), num_classes, changes, dilated=(False, False, True))


def detr_resnet101(num_classes=91, **changes):
    """DETR with ResNet-101: 60,464,672 parameters, of which 60,242,272 are trained ("60M")."""
    return _detr((3, 4, 23, 3), num_classes, changes)


def detr_resnet101_dc5(num_classes=91, **changes):
    """DETR-DC5 with ResNet-101: `detr_resnet101` with a feature map twice as high and wide."""
    return _detr((3, 4, 23, 3), num_classes, changes, dilated=(False, False, True))


def _detr(layers, num_classes, changes, dilated=None):
    backbone = FeatureExtractor(Bottleneck, layers, dilated)
    return DETR(backbone, backbone.num_features, num_classes, **changes)
