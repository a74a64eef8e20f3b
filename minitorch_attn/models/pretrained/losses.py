"""Losses of the Hugging Face heads, computed from logits and labels."""

from ... import ops
from ...errors import ArgumentError
from ...nn import functional as F

__all__ = ["classification_loss", "next_token_loss", "span_loss", "token_loss"]


def token_loss(logits, labels):
    """Return the mean cross-entropy of the tokens. The label -100 marks positions to ignore.

    Parameters
    ----------
    logits : Tensor of shape (..., classes)
    labels : int64 Tensor of shape (...)
    """
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))


def next_token_loss(logits, labels):
    """Return a language model's mean cross-entropy: each position predicts the next token.

    Parameters
    ----------
    logits : Tensor of shape (batch, token, vocabulary)
    labels : int64 Tensor of shape (batch, token)
        Token ids, usually the input ids. The logits at position t are compared with the label at
        position t + 1. -100 marks positions to ignore.
    """
    return token_loss(logits[:, :-1], labels[:, 1:])


def classification_loss(config, logits, labels):
    """Return the loss for `config.problem_type`: MSE, cross-entropy or binary cross-entropy.

    If this field is None, `config.num_labels` and the dtype of the labels determine the problem
    type.

    Parameters
    ----------
    config : Config
    logits : Tensor of shape (batch, labels)
    labels : Tensor
        Class indices (int64), regression targets (float), or a 0.0 or 1.0 for each class (float).
    """
    kind = config.get("problem_type")
    if kind is None:
        whole = labels.dtype.kind in "iu"
        several = "single_label_classification" if whole else "multi_label_classification"
        kind = "regression" if config.num_labels == 1 else several
    if kind == "regression":
        if config.num_labels == 1:
            return F.mse_loss(logits.squeeze(), labels.squeeze())
        return F.mse_loss(logits, labels)
    if kind == "single_label_classification":
        return F.cross_entropy(logits.reshape(-1, config.num_labels), labels.reshape(-1))
    if kind == "multi_label_classification":
        return F.binary_cross_entropy_with_logits(logits, labels)
    raise ArgumentError(
        "config.problem_type is not supported",
        got=repr(kind),
        expected="regression, single_label_classification or multi_label_classification",
        hint="set config.problem_type=None to infer it from num_labels and the labels' dtype",
    )


def span_loss(start_logits, end_logits, start_positions, end_positions):
    """Return the mean of the cross-entropy losses for the start and the end of an answer.

    Parameters
    ----------
    start_logits, end_logits : Tensor of shape (batch, token)
    start_positions, end_positions : int64 Tensor of shape (batch,) or (batch, 1)
        Positions beyond the end of the text are ignored.
    """
    none = start_logits.shape[1]

    def loss(logits, positions):
        positions = positions.squeeze(-1) if positions.ndim > 1 else positions
        return F.cross_entropy(logits, ops.clamp(positions, 0, none), ignore_index=none)

    return (loss(start_logits, start_positions) + loss(end_logits, end_positions)) / 2
