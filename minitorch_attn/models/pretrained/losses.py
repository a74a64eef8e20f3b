"""The losses that the peers' heads compute when they are given labels."""

from ... import ops
from ...errors import ArgumentError
from ...nn import functional as F

__all__ = ["classification_loss", "next_token_loss", "span_loss", "token_loss"]


def token_loss(logits, labels):
    """Cross-entropy of each token that has a label, -100 being none.

    Parameters
    ----------
    logits : Tensor of shape (..., classes)
    labels : int64 Tensor of shape (...)
    """
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))


def next_token_loss(logits, labels):
    """Cross-entropy of each token after the first, from the logits at the token before it.

    Parameters
    ----------
    logits : Tensor of shape (batch, token, vocabulary)
    labels : int64 Tensor of shape (batch, token)
    """
    return token_loss(logits[:, :-1], labels[:, 1:])


def classification_loss(config, logits, labels):
    """The loss that `config.problem_type` names, or the one that fits the labels.

    Parameters
    ----------
    config : Config
    logits : Tensor of shape (batch, labels)
    labels : Tensor
        One class each (int64), one number each, or one 0 or 1 for each label (floats).
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
        "the configuration names a problem_type that is not known.",
        got=repr(kind),
        expected="regression, single_label_classification or multi_label_classification",
    )


def span_loss(start_logits, end_logits, start_positions, end_positions):
    """The mean of the cross-entropies of where an answer starts and where it ends.

    Parameters
    ----------
    start_logits, end_logits : Tensor of shape (batch, token)
    start_positions, end_positions : int64 Tensor of shape (batch,) or (batch, 1)
        A position behind the text is no answer, and counts nothing.
    """
    none = start_logits.shape[1]

    def loss(logits, positions):
        positions = positions.squeeze(-1) if positions.ndim > 1 else positions
        return F.cross_entropy(logits, ops.clamp(positions, 0, none), ignore_index=none)

    return (loss(start_logits, start_positions) + loss(end_logits, end_positions)) / 2
