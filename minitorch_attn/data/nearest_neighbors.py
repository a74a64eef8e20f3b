"""Nearest neighbors: classify features by a vote of the most similar labeled features."""

import numpy as np

from ..errors import ShapeError
from ..named_errors import names_arguments

__all__ = ["nearest_accuracy"]


@names_arguments
def nearest_accuracy(known, labels, features, correct, neighbors=20, temperature=0.07):
    """Return the accuracy of a weighted vote among the nearest neighbors.

    Parameters
    ----------
    known : array of shape (example, feature)
        Features with known labels.
    labels : int array of shape (example,)
    features : array of shape (test example, feature)
    correct : int array of shape (test example,)
        Correct labels of `features`.
    neighbors : int, default 20
        Number of neighbors that vote.
    temperature : float, default 0.07
        A neighbor's vote has the weight exp(cosine similarity / temperature).

    Returns
    -------
    float

    References
    ----------
    .. [1] Caron et al. 2021, arXiv:2104.14294v2, section 4.1, "Nearest retrieval": 20
       neighbors work best in most of their experiments.

    Examples
    --------
    >>> known, labels = np.array([[1.0, 0.1], [1.0, -0.1], [0.0, 1.0]]), np.array([0, 0, 1])
    >>> nearest_accuracy(known, labels, np.array([[2.0, 0.0], [0.1, 5.0]]), [0, 1], neighbors=1)
    1.0
    """
    if known.ndim != 2 or features.ndim != 2 or known.shape[1] != features.shape[1]:
        raise ShapeError(
            "nearest_accuracy: known and features must have the same number of columns",
            got=f"known {known.shape}, features {features.shape}",
        )
    known, features = (_unit(x.astype(np.float64)) for x in (known, features))
    similarity = features @ known.T  # (test example, example)
    nearest = np.argsort(-similarity, 1, kind="stable")[:, :neighbors]
    weights = np.exp(np.take_along_axis(similarity, nearest, 1) / temperature)
    votes = np.zeros((len(features), np.max(labels) + 1))
    for column in range(nearest.shape[1]):
        votes[np.arange(len(features)), labels[nearest[:, column]]] += weights[:, column]
    return float((votes.argmax(1) == np.asarray(correct)).mean())


def _unit(x):
    return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
