"""Reference DETR: each query has a learned reference point, which moves from layer to layer.

DETR learns slowly, because its queries have to learn where to look. Carion et al. 2020,
arXiv:2005.12872v3, section 4, train it for 300 to 500 epochs. Later models give each query a
reference point in the image and replace the learned query position by an encoding of this point:
Anchor DETR (Wang et al. 2021, arXiv:2109.07107v2, section 3.1) and DAB-DETR (Liu et al. 2022,
arXiv:2201.12329v4, section 4). In the model of this file, each decoder layer moves the points, as
each layer of Deformable DETR moves the boxes (Zhu et al. 2020, arXiv:2010.04159v4, appendix A.4).
"""

from .. import nn, ops
from ..errors import ArgumentError
from .detr import DETR
from .image_positions import sine_code

__all__ = ["ReferenceDETR"]


class ReferenceDETR(DETR):
    r"""DETR in which each query has a learned reference point in the image.

    The arguments are the same as for `DETR`, but `positions` must be "sine".

    Attributes
    ----------
    reference_points : Parameter of shape (num_queries, 2)
        Coordinates x and y of each query's point, before the sigmoid.

    Notes
    -----
    With the point p_0 of a query and the output x_l of decoder layer l, the box head predicts a
    shift d of the point and a size s:
        query position = code(sigmoid(p_{l-1})),   x_0 = code(sigmoid(p_0))
        (d, s) = box head(LayerNorm(x_l) + code(sigmoid(p_{l-1})))
        p_l = p_{l-1} + d,   box = (sigmoid(p_l), sigmoid(s))
    No gradient flows from the next layer through p_l. The same function `code` encodes points and
    image positions, so a query and a key at the same place match before any training. The box head
    needs to know the point, because d is relative to it. In DETR, the decoder starts from zeros and
    adds positions only to queries and keys, so its output x_l does not contain the point. This
    model therefore starts from x_0 and adds the point's encoding to the box head's input.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> backbone = mt.nn.Conv2d(1, 5, kernel_size=4, stride=4)
    >>> model = ReferenceDETR(backbone, 5, num_classes=7, num_queries=11, embed_dim=8, num_heads=2,
    ...                       ff_dim=13, num_encoder_layers=1, num_decoder_layers=2)
    >>> logits, boxes = model(mt.zeros(2, 1, 16, 20))
    >>> logits.shape, boxes.shape
    ((2, 11, 8), (2, 11, 4))
    """

    def __init__(self, backbone, backbone_dim, num_classes, num_queries=100, *sizes, **options):
        if options.get("positions", "sine") != "sine":
            raise ArgumentError(
                "ReferenceDETR: positions must be 'sine'", got=repr(options["positions"])
            )
        super().__init__(backbone, backbone_dim, num_classes, num_queries, *sizes, **options)
        self.query_positions = None
        self.reference_points = nn.Parameter(ops.empty(num_queries, 2))
        nn.init.uniform_(self.reference_points, -2.0, 2.0)  # 0.12 to 0.88 after sigmoid
        nn.init.zeros_(self.box_head.layers[-1].weight)  # the points are the first centers
        nn.init.zeros_(self.box_head.layers[-1].bias)

    def layer_outputs(self, images, pixel_mask=None):
        """Return the logits and boxes (layer, batch, query, ...) of all decoder layers."""
        memory, positions, mask = self.encode(images, pixel_mask)
        return self.refine(memory, positions, mask)

    def refine(self, memory, memory_positions=None, memory_mask=None):
        """Run the decoder on encoded images. Return the logits and boxes of all layers."""
        batch = memory.shape[0]
        point = self.reference_points.unsqueeze(0).expand(batch, *self.reference_points.shape)
        x, logits, boxes = self.code(ops.sigmoid(point)), [], []
        for layer in self.decoder.layers:
            code = self.code(ops.sigmoid(point))  # (batch, query, embed)
            x = layer(x, memory, code, memory_positions, memory_mask=memory_mask)
            state = self.decoder.norm(x)
            change = self.box_head(state + code)  # (batch, query, 4)
            point = point + change[..., :2]
            boxes.append(ops.sigmoid(ops.cat([point, change[..., 2:]], -1)))
            logits.append(self.class_head(state))
            point = point.detach()
        return ops.stack(logits), ops.stack(boxes)

    def code(self, points):
        """Return the sine encoding (..., embed) of points (..., 2), with x and y in [0, 1]."""
        half, scale = self.positions.embed_dim // 2, self.positions.scale
        x, y = (sine_code(points[..., i] * scale, half, self.positions.temperature) for i in (0, 1))
        return ops.cat([y, x], -1)
