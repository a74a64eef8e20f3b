"""DeiT: ViT with a distillation token that learns from a teacher network.

Touvron et al. 2020, "Training data-efficient image transformers & distillation through attention",
arXiv:2012.12877v2. The architecture is ViT with the distillation token of section 4. The output for
this token is trained to match the teacher's predictions, and the output for the class token is
trained to match the labels.
"""

from .. import nn, ops
from ..computes import computes
from ..named_errors import names_arguments
from ..nn import functional as F
from ..nn import init
from .vit import VisionTransformer, initialize
from .vit_sizes import vision_transformer

__all__ = [
    "DistilledVisionTransformer", "deit_b_16", "deit_s_16", "deit_ti_16", "hard_distillation_loss",
    "soft_distillation_loss",
]  # fmt: skip


class DistilledVisionTransformer(VisionTransformer):
    """ViT with a class token and a distillation token, each with a separate head.

    Parameters
    ----------
    *args, **options
        Arguments of `VisionTransformer`, except `pooling` and `representation_dim`.

    Attributes
    ----------
    distillation_token : Parameter of shape (1, 1, embed)
    distillation_head : Linear

    Notes
    -----
    See Figure 2 of arXiv:2012.12877v2. `forward` returns the mean of the two heads' logits, as the
    paper's code does. Section 4 of the paper adds the softmax outputs of the two heads instead.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = DistilledVisionTransformer(8, 2, 10, 6, 2, 3, 12, in_channels=1)
    >>> model(mt.zeros(5, 1, 8, 8)).shape
    (5, 10)
    """

    num_prefix = 2

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        embed_dim = self.class_token.shape[-1]
        self.distillation_token = nn.Parameter(ops.zeros(1, 1, embed_dim))
        init.normal_(self.distillation_token, std=0.02)
        self.distillation_head = nn.Identity()
        if not isinstance(self.head, nn.Identity):
            self.distillation_head = nn.Linear(embed_dim, self.classifier.out_features)
            self.distillation_head.apply(initialize)
            init.zeros_(self.distillation_head.weight)

    @computes("class token")
    def with_prefix(self, patches):
        """Prepend the class and distillation tokens to patches. Returns (batch, token, embed)."""
        batch, _, embed_dim = patches.shape
        prefix = ops.cat([self.class_token, self.distillation_token], 1)  # (1, 2, embed)
        return ops.cat([prefix.expand(batch, 2, embed_dim), patches], 1)

    def forward(self, images):
        """Return the mean of the two heads' logits.

        Parameters
        ----------
        images : Tensor of shape (batch, channel, height, width)

        Returns
        -------
        Tensor of shape (batch, classes)
        """
        logits, distillation_logits = self.both_logits(images)
        return (logits + distillation_logits) / 2

    @computes("image classifier")
    def both_logits(self, images):
        """Return the logits of both heads, for training.

        Parameters
        ----------
        images : Tensor of shape (batch, channel, height, width)

        Returns
        -------
        logits, distillation_logits : Tensor of shape (batch, classes)
            Logits from the class token and logits from the distillation token.
        """
        tokens = self.encode(self.embed(images))  # (batch, token, embed)
        return self.head(tokens[:, 0]), self.distillation_head(tokens[:, 1])


@names_arguments
def hard_distillation_loss(logits, distillation_logits, labels, teacher_logits):
    """Return the mean of the cross-entropies with the labels and with the teacher's predictions.

    Parameters
    ----------
    logits, distillation_logits : Tensor of shape (batch, classes)
        Outputs of `both_logits`.
    labels : int64 Tensor of shape (batch,)
    teacher_logits : Tensor of shape (batch, classes)

    Returns
    -------
    Tensor of shape ()

    References
    ----------
    .. [1] arXiv:2012.12877v2, Eq. 3.
    """
    decision = teacher_logits.detach().argmax(-1)
    return (F.cross_entropy(logits, labels) + F.cross_entropy(distillation_logits, decision)) / 2


@names_arguments
def soft_distillation_loss(
    logits, distillation_logits, labels, teacher_logits, temperature=3.0, weight=0.1
):
    """Return a weighted sum of cross-entropy with the labels and KL divergence from the teacher.

    Parameters
    ----------
    logits, distillation_logits : Tensor of shape (batch, classes)
    labels : int64 Tensor of shape (batch,)
    teacher_logits : Tensor of shape (batch, classes)
    temperature : float, default 3
        Divisor of the student's and the teacher's logits. Larger values give softer distributions.
    weight : float, default 0.1
        Weight of the divergence. The weight of the cross-entropy is 1 - weight.

    Returns
    -------
    Tensor of shape ()

    References
    ----------
    .. [1] arXiv:2012.12877v2, Eq. 2. The defaults of temperature and weight are from section 5.
    """
    student = F.log_softmax(distillation_logits / temperature, -1)
    teacher = F.log_softmax(teacher_logits.detach() / temperature, -1)
    divergence = F.kl_div(student, teacher, reduction="batchmean", log_target=True)
    return (1 - weight) * F.cross_entropy(logits, labels) + weight * temperature**2 * divergence


def deit_ti_16(**options):
    """DeiT-Ti with distillation: 5,910,800 parameters. See `vision_transformer` for `options`."""
    return vision_transformer("Ti/16", model=DistilledVisionTransformer, **options)


def deit_s_16(**options):
    """DeiT-S with distillation: 22,436,432 parameters. See `vision_transformer` for `options`."""
    return vision_transformer("S/16", model=DistilledVisionTransformer, **options)


def deit_b_16(**options):
    """DeiT-B with distillation: 87,338,192 parameters. See `vision_transformer` for `options`."""
    return vision_transformer("B/16", model=DistilledVisionTransformer, **options)
