"""Loss functions as modules."""

from functools import wraps

from .. import ops
from ..errors import DTypeError
from ..tensor import Tensor
from .module import Module

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CTCLoss", "CosineSimilarity", "CrossEntropyLoss",
    "HuberLoss", "KLDivLoss", "L1Loss", "MSELoss", "NLLLoss", "SmoothL1Loss",
]  # fmt: skip


def _creates(init):
    """Wrap the `__init__` of a loss: raise a helpful error if it gets input and target."""

    @wraps(init)
    def create(self, *args, **settings):
        tensors = sum(isinstance(value, Tensor) for value in args)
        if tensors > 1:
            name = type(self).__name__
            raise DTypeError(
                f"{name}: the loss must be created before it is called",
                got=f"{tensors} tensors",
                hint=f"nn.{name}()(input, target)",
            )
        init(self, *args, **settings)

    return create


class _Loss(Module):
    """Base class of the losses, with a `reduction` over the entries: "mean", "sum" or "none".

    Settings are keyword-only, because PyTorch's positional arguments include two that are
    deprecated.
    """

    def __init_subclass__(cls, **settings):
        super().__init_subclass__(**settings)
        if cls.__module__ == __name__:
            cls.__init__ = _creates(cls.__init__)

    def __init__(self, *, reduction="mean"):
        super().__init__()
        if not isinstance(reduction, str):
            raise DTypeError(
                f"{type(self).__name__}: reduction must be 'mean', 'sum' or 'none'",
                got=f"reduction={reduction!r:.60}",
            )
        self.reduction = reduction

    def extra_repr(self):
        return f"reduction={self.reduction!r}" if self.reduction != "mean" else ""


class CrossEntropyLoss(_Loss):
    """Cross-entropy loss of logits, `-log softmax(input)[target]`, for labels or probabilities.

    Parameters
    ----------
    weight : Tensor of shape (classes,), optional
        Weight of each class.
    ignore_index : int, default -100
        Label of targets to ignore.
    reduction : {"mean", "sum", "none"}
    label_smoothing : float, default 0
        Probability mass that is spread evenly over all classes.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> loss = mt.nn.CrossEntropyLoss()(mt.zeros(2, 4), mt.tensor([0, 3]))
    >>> print(f"{loss:.4f}")  # log 4
    1.3863
    """

    def __init__(self, weight=None, *, ignore_index=-100, reduction="mean", label_smoothing=0.0):
        super().__init__(reduction=reduction)
        self.register_buffer("weight", weight)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing

    def forward(self, input, target):
        # input: (batch, classes, ...)   target: (batch, ...) of labels, or the shape of input
        return ops.cross_entropy(
            input, target, self.weight, ignore_index=self.ignore_index,
            reduction=self.reduction, label_smoothing=self.label_smoothing,
        )  # fmt: skip


class NLLLoss(_Loss):
    """Negative log-likelihood, `-input[target]`, for an input of log-probabilities.

    Parameters
    ----------
    weight : Tensor of shape (classes,), optional
    ignore_index : int, default -100
    reduction : {"mean", "sum", "none"}
    """

    def __init__(self, weight=None, *, ignore_index=-100, reduction="mean"):
        super().__init__(reduction=reduction)
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index

    def forward(self, input, target):
        return ops.nll_loss(
            input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction
        )


class CTCLoss(_Loss):
    """Connectionist temporal classification (CTC) loss, for targets not aligned with the input.

    Parameters
    ----------
    blank : int, default 0
        Class that stands for no label.
    reduction : {"mean", "sum", "none"}
        How the losses of the sequences are combined. "mean" first divides each loss by the length
        of its target.
    zero_infinity : bool, default False
        Whether to replace infinite losses by 0. A loss is infinite if the input is too short for
        the target.

    Notes
    -----
    Graves et al., ICML 2006. For the arguments of a call, see `mt.nn.functional.ctc_loss`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> log_probs = mt.zeros(5, 2, 4).log_softmax(-1)  # (time, batch, class)
    >>> targets = mt.tensor([[1, 2, 2], [3, 1, 0]])
    >>> loss = mt.nn.CTCLoss()(log_probs, targets, (5, 4), (3, 2))
    >>> print(f"{loss:.4f}")
    1.5402
    """

    def __init__(self, blank=0, reduction="mean", zero_infinity=False):
        super().__init__(reduction=reduction)
        self.blank, self.zero_infinity = blank, zero_infinity

    def forward(self, log_probs, targets, input_lengths, target_lengths):
        return ops.ctc_loss(
            log_probs, targets, input_lengths, target_lengths,
            self.blank, self.reduction, self.zero_infinity,
        )  # fmt: skip


class MSELoss(_Loss):
    """Mean squared error, the mean of `(input - target)^2`."""

    def forward(self, input, target):
        return ops.mse_loss(input, target, reduction=self.reduction)


class L1Loss(_Loss):
    """Mean absolute error, the mean of `|input - target|`."""

    def forward(self, input, target):
        return ops.l1_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """Smooth L1 loss, `d^2 / (2 beta)` if `|d| < beta`, else `|d| - beta / 2`; d = input - target.

    Parameters
    ----------
    reduction : {"mean", "sum", "none"}
    beta : float, default 1
    """

    def __init__(self, *, reduction="mean", beta=1.0):
        super().__init__(reduction=reduction)
        self.beta = beta

    def forward(self, input, target):
        return ops.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """Huber loss, `d^2 / 2` if `|d| < delta`, else `delta (|d| - delta / 2)`; d = input - target.

    Parameters
    ----------
    reduction : {"mean", "sum", "none"}
    delta : float, default 1
    """

    def __init__(self, *, reduction="mean", delta=1.0):
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input, target):
        return ops.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class BCELoss(_Loss):
    """Binary cross-entropy of probabilities p and targets t, `-(t log p + (1 - t) log(1 - p))`.

    Parameters
    ----------
    weight : Tensor, optional
        Weight of each entry.
    reduction : {"mean", "sum", "none"}
    """

    def __init__(self, weight=None, *, reduction="mean"):
        super().__init__(reduction=reduction)
        self.register_buffer("weight", weight)

    def forward(self, input, target):
        return ops.binary_cross_entropy(input, target, self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """Binary cross-entropy of logits: `BCELoss` of `sigmoid(input)`, without overflow.

    Parameters
    ----------
    weight : Tensor, optional
        Weight of each entry.
    reduction : {"mean", "sum", "none"}
    pos_weight : Tensor, optional
        Weight of the positive targets.
    """

    def __init__(self, weight=None, *, reduction="mean", pos_weight=None):
        super().__init__(reduction=reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input, target):
        return ops.binary_cross_entropy_with_logits(
            input, target, self.weight, reduction=self.reduction, pos_weight=self.pos_weight
        )


class KLDivLoss(_Loss):
    """Kullback-Leibler divergence, `target * (log(target) - input)`, of log-probabilities `input`.

    Parameters
    ----------
    reduction : {"mean", "batchmean", "sum", "none"}
        Reduction. "batchmean" divides the sum by the batch size, which gives the mean divergence.
    log_target : bool
        Whether the target also contains log-probabilities.
    """

    def __init__(self, *, reduction="mean", log_target=False):
        super().__init__(reduction=reduction)
        self.log_target = log_target

    def forward(self, input, target):
        return ops.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class CosineSimilarity(Module):
    """Cosine similarity, `dot(x1, x2) / (|x1| |x2|)`, along an axis.

    Parameters
    ----------
    dim : int, default 1
    eps : float, default 1e-8
        Lower bound of each norm.
    """

    def __init__(self, dim=1, eps=1e-8):
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1, x2):
        return ops.cosine_similarity(x1, x2, self.dim, self.eps)
