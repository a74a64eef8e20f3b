"""Linear probe: the accuracy of a linear classifier on fixed features."""

from ..errors import DataError

__all__ = ["probe_accuracy"]


def probe_accuracy(features, labels, test_features, test_labels, strength=1.0):
    """Return the test accuracy of logistic regression on fixed features.

    Parameters
    ----------
    features, test_features : array of shape (example, feature)
        Features, which are standardized with the mean and standard deviation of `features`.
    labels, test_labels : int array of shape (example,)
    strength : float, default 1
        Inverse of the weight of the L2 penalty (`C` in scikit-learn).

    Returns
    -------
    float

    Raises
    ------
    DataError
        If scikit-learn is not installed.

    References
    ----------
    .. [1] Chen et al. 2020, "Generative Pretraining from Pixels", ICML 2020, section 2.3.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> probe_accuracy(x, [0, 0, 1, 1], x, [0, 0, 1, 1])
    1.0
    """
    try:
        from sklearn.linear_model import LogisticRegression
    except ImportError:
        raise DataError(
            "probe_accuracy: scikit-learn, which fits the classifier, is not installed",
            hint="python -m pip install scikit-learn",
        ) from None
    mean, std = features.mean(0), features.std(0) + 1e-8
    classifier = LogisticRegression(C=strength, max_iter=2000)
    classifier.fit((features - mean) / std, labels)
    return float(classifier.score((test_features - mean) / std, test_labels))
