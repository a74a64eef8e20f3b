"""Captioner: a model that describes an image, with a small convolutional encoder.

Xu et al. 2015 (arXiv:1502.03044v3, section 3.1.1) describe an image by annotations: feature
vectors, one for each position in the image. They use the output of a convolutional layer of a
pretrained network, because each of its positions still corresponds to a part of the image.
"""

from .. import nn, ops
from ..errors import ShapeError
from ..nn.checks import check_sizes

__all__ = ["Captioner", "ConvEncoder"]


class ConvEncoder(nn.Module):
    """Convolutional encoder: computes one annotation (feature vector) per image position.

    Parameters
    ----------
    image_size : int
        Height and width of an image in pixels.
    in_channels : int, default 1
    channels : sequence of int, default (32, 64, 64)
        Output channels of each 3 x 3 convolution. The first two convolutions halve the height and
        width, which are rounded up.

    Attributes
    ----------
    grid : int
        Height and width of the last feature map, which has one annotation per position.
    annotation_dim : int
        Size of an annotation: the number of channels of the last feature map.

    Notes
    -----
    The paper's annotations contain no explicit position. The decoder can only infer the position of
    an annotation from the content of its receptive field (the part of the image that it depends
    on). In a small network, the receptive field may be too small for that. This encoder therefore
    adds a learned vector for each position.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> encoder = ConvEncoder(image_size=20, channels=(4, 6, 6))
    >>> encoder(mt.zeros(2, 1, 20, 20)).shape, encoder.grid
    ((2, 25, 6), 5)
    """

    def __init__(self, image_size, in_channels=1, channels=(32, 64, 64)):
        super().__init__()
        check_sizes("ConvEncoder", image_size=image_size, in_channels=in_channels)
        self.shape, self.grid = (in_channels, image_size, image_size), image_size
        self.annotation_dim = channels[-1]
        layers = []
        for i, (size, width) in enumerate(zip((in_channels, *channels), channels, strict=False)):
            stride = 2 if i < 2 else 1
            conv = nn.Conv2d(size, width, 3, stride=stride, padding=1)
            nn.init.kaiming_normal_(conv.weight, nonlinearity="relu")
            layers += [conv, nn.BatchNorm2d(width), nn.ReLU()]
            self.grid = -(-self.grid // stride)
        self.layers = nn.Sequential(*layers)
        self.positions = nn.Parameter(ops.empty(self.grid**2, self.annotation_dim))
        nn.init.normal_(self.positions, std=0.1)

    def forward(self, images):
        """Encode images (batch, channel, size, size); return (batch, position, annotation_dim).

        The positions are in row-major order.
        """
        if images.ndim != 4 or images.shape[1:] != self.shape:
            raise ShapeError(
                "ConvEncoder: images have the wrong shape",
                got=f"images {images.shape}", expected=f"(batch, {str(self.shape)[1:]}",
            )  # fmt: skip
        # (batch, channel, row, column) -> (batch, row * column, channel)
        return self.layers(images).flatten(2).swapaxes(1, 2) + self.positions


class Captioner(nn.Module):
    """Captioning model: an image encoder and a `ShowAttendTell` decoder.

    `generation.translate` generates captions with this model, by greedy or beam search.

    Parameters
    ----------
    encoder : Module
        Maps images to annotations, such as `ConvEncoder`.
    decoder : ShowAttendTell

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> encoder = ConvEncoder(image_size=8, channels=(4, 6))
    >>> model = Captioner(encoder, mt.models.ShowAttendTell(11, 6, 3, 5, 7))
    >>> logits, alphas = model(mt.zeros(2, 1, 8, 8), mt.tensor([[1, 4, 9], [1, 5, 2]]))
    >>> logits.shape, alphas.shape
    ((2, 3, 11), (2, 3, 4))
    >>> ids = mt.generation.translate(model, mt.zeros(2, 1, 8, 8), start_id=1, end_id=2,
    ...                               max_new_tokens=6)
    >>> ids.shape[0], ids.shape[1] <= 6
    (2, True)
    """

    named_methods = None  # all public methods

    def __init__(self, encoder, decoder):
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def forward(self, images, words):
        """Compute the logits of the next word at every position (teacher forcing).

        Parameters
        ----------
        images : Tensor of shape (batch, channel, height, width)
        words : int64 Tensor of shape (batch, word)
            Caption, beginning with the start token.

        Returns
        -------
        logits : Tensor of shape (batch, word, vocabulary)
        alphas : Tensor of shape (batch, word, position)
        """
        return self.decoder(self.encoder(images), words)

    def padding_mask(self, images):
        """Return None, because images do not have padding. `translate` calls this method."""

    def new_cache(self):
        """Return an empty `RecurrentState`, which `decode` fills."""
        return self.decoder.new_cache()

    def encode(self, images, source_mask=None):
        """Return the annotations of the images and the decoder's first state, in a dict."""
        return self.decoder.encode(self.encoder(images))

    def decode(self, words, memory, source_mask=None, cache=None):
        """Compute the logits of the next word; see `ShowAttendTell.decode`."""
        return self.decoder.decode(words, memory, source_mask, cache)
