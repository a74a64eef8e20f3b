"""Two meanings of a word: probe whether vectors distinguish them, for the recipe `words`."""

import numpy as np

__all__ = ["probe_accuracy"]

_FOLDS = 5


def probe_accuracy(vectors, words, meanings, paragraphs):
    """Classify the meanings of words by the nearest centroid, with five-fold cross-validation.

    For each word and fold, the centroids of the two meanings are the mean vectors of the
    occurrences in the other folds. A paragraph is never split between folds. In a tie, the result
    is meaning 0. If all occurrences of a word have the same vector, every classification is a tie.
    Half of the results are then correct, because both meanings occur equally often.

    Parameters
    ----------
    vectors : array of shape (occurrence, embed)
    words : sequence of str
        Word of each occurrence.
    meanings : int array of shape (occurrence,)
        Meaning of each occurrence, 0 or 1. Each word occurs equally often in both meanings.
    paragraphs : int array of shape (occurrence,)
        Number of the paragraph that contains each occurrence.

    Returns
    -------
    accuracy : float
    by_word : dict of str to float

    Examples
    --------
    >>> vectors = np.array([[0.0], [0.1], [1.0], [1.1]])
    >>> probe_accuracy(vectors, ["as"] * 4, np.array([0, 0, 1, 1]), np.array([0, 1, 2, 3]))
    (1.0, {'as': 1.0})
    """
    vectors = np.asarray(vectors, dtype=np.float64)
    words, folds = np.asarray(words), np.asarray(paragraphs) % _FOLDS
    is_right = np.zeros(len(words), dtype=bool)
    for word in np.unique(words):
        for fold in range(_FOLDS):
            test = (words == word) & (folds == fold)
            rest = (words == word) & (folds != fold)
            parts = [vectors[rest & (meanings == meaning)] for meaning in (0, 1)]
            if not test.any() or not all(map(len, parts)):
                continue
            near = [((vectors[test] - part.mean(0)) ** 2).sum(1) for part in parts]
            scale = 1e-9 * (vectors[test] ** 2).sum(1)  # rounding must not decide a tie
            is_right[test] = (near[0] - near[1] > scale) == meanings[test]
    by_word = {str(word): float(is_right[words == word].mean()) for word in np.unique(words)}
    return float(is_right.mean()), by_word
