"""Random inputs for the judges of exercises.

A `draw` function takes a random generator and a flag for the big case, and returns arrays.
"""

import numpy as np

__all__ = [
    "biased", "boxes", "causal", "choices", "detections", "embedding", "frames", "guesses",
    "heads", "labels", "norm", "normal", "packed", "padding", "spectra", "table", "views",
]  # fmt: skip


def normal(*shapes):
    """Return a `draw` function for Gaussian inputs, each given by (small shape, big shape)."""

    def draw(rng, big):
        return [rng.normal(size=pair[big]) for pair in shapes]

    return draw


def heads(queries, keys):
    """Return a `draw` function for Gaussian queries, keys and values of several heads."""
    # sqrt(6) is not an integer, so a wrong scale of the scores shows.
    small = [(2, 3, n, 6) for n in (queries, keys, keys)]
    return normal(*[(shape, (2, 12, 64, 64)) for shape in small])


def norm(rng, big):
    batch, tokens, width = (8, 256, 64) if big else (2, 5, 4)
    gain = rng.uniform(0.5, 1.5, width)
    return [rng.normal(size=(batch, tokens, width)), gain, rng.normal(size=width)]


def padding(rng, big):
    batch, queries, keys = (16, 128, 96) if big else (2, 3, 5)
    lengths = rng.integers(1, keys, batch)
    lengths[0] = keys - 2
    mask = np.arange(keys) < lengths[:, None]
    return [rng.normal(size=(batch, queries, keys)), mask[:, None]]


def causal(rng, big):
    batch, tokens = (16, 128) if big else (2, 5)
    return [rng.normal(size=(batch, tokens, tokens)), np.tri(tokens, dtype=bool)]


def table(rng, big):
    tokens, heads = (96, 12) if big else (5, 3)
    place = np.arange(tokens)
    return [rng.normal(size=(2 * tokens - 1, heads)), place - place[:, None] + tokens - 1]


def biased(rng, big):
    rows, index = table(rng, big)
    tokens, heads = len(index), rows.shape[1]
    return [rng.normal(size=(2, heads, tokens, tokens)), rows, index]


def embedding(rng, big):
    words, width, shape = (5000, 64, (16, 128)) if big else (7, 4, (2, 5))
    ids = rng.integers(0, words // 2, shape)
    ids[0, :2] = ids[1, 0] = words - 1  # one id occurs three times
    return [rng.normal(size=(words, width)), ids]


def labels(rng, big):
    rows, classes = (512, 300) if big else (5, 7)
    return [rng.normal(size=(rows, classes)), rng.integers(0, classes, rows)]


def packed(rng, big):
    lengths = np.array([48, 47, 31, 17, 5, 5, 1] if big else [5, 3, 1])
    width, hidden = (32, 48) if big else (4, 2)
    x = rng.normal(size=(len(lengths), lengths[0], width))
    w, u = rng.normal(size=(width, hidden)), rng.normal(size=(hidden, hidden))
    return [x, w / width**0.5, u / hidden**0.5, lengths]


def frames(rng, big):
    frames, batch, classes, size = (60, 8, 20, 17) if big else (8, 3, 4, 3)
    labels = rng.integers(1, classes, (batch, size))
    labels[0, :2] = 1, 2  # one example begins with different labels, one with equal labels
    labels[1, :2] = 2
    return [rng.normal(size=(frames, batch, classes)), labels]


def choices(rng, big):
    batch, places = (256, 300) if big else (3, 5)
    reward = rng.integers(1, 5, batch)
    return [rng.normal(size=(batch, places)), rng.integers(0, places, batch), reward]


def guesses(rng, big):
    z, choice, reward = choices(rng, big)
    return [z, rng.normal(size=len(z)).astype("float32"), choice, reward]


def views(rng, big):
    size = (256, 64) if big else (3, 5)
    student = rng.normal(size=size) / 10
    shapes = size, size[1]
    return [student, *(rng.normal(size=shape).astype("float32") / 10 for shape in shapes)]


def boxes(rng, big):
    first, size = (rng.uniform(0.1, 1, (2, 2048 if big else 5, 2)) for _ in range(2))
    return list(np.concatenate([first, first + size], -1))  # as corners; most pairs overlap


def detections(rng, big):
    batch, queries, classes, targets = (16, 40, 7, 6) if big else (2, 5, 3, 2)
    return [
        rng.normal(size=(batch, queries, classes)),
        rng.uniform(size=(batch, queries, 4)),
        rng.integers(0, classes, (batch, targets)),
        rng.uniform(size=(batch, targets, 4)),
    ]


def spectra(rng, big):
    shape, mels = ((8, 50, 257), 40) if big else ((2, 3, 11), 4)
    points = np.expm1(np.linspace(0, 3, mels + 2)) / np.expm1(3) * (shape[-1] - 1)
    return [rng.uniform(0.5, 2, shape), points.astype("float32")]
