"""Digit sentences: sentences that name the digits of a scene, with or without their positions.

"there is seven and two" names the digits in any order, but does not say where they are. "seven
top-left and two center" describes the same scene with the positions.
"""

import numpy as np

from .digit_scenes import DIGIT_WORDS, cell_of

__all__ = [
    "END", "LONGEST", "OPENINGS", "WORDS", "as_ids", "draw_sentences", "prompts", "sentence_of",
]  # fmt: skip

OPENINGS = ((), ("image", "of"), ("there", "is"))
_PLACES = (
    "top-left", "top", "top-right", "left", "center", "right", "bottom-left", "bottom",
    "bottom-right",
)  # fmt: skip
# The ids of the words. As in CLIP, the end token has the largest id.
WORDS = (
    "<pad>", "<start>", *DIGIT_WORDS, "and", "image", "of", "there", "is", *_PLACES, "<end>"
)  # fmt: skip
_IDS = {word: i for i, word in enumerate(WORDS)}
END = _IDS["<end>"]
LONGEST = 12  # start, an opening of two words, three digits with places, two "and", end


def sentence_of(digits, corners, opening=(), places=False):
    """Return the sentence that names digits in the given order.

    Parameters
    ----------
    digits : sequence of int
        Digits from 0 to 9. A digit of -1 is absent.
    corners : sequence of (row, column)
        Top left pixel of each digit, as in `Scenes`.
    opening : sequence of str, default ()
        First words of the sentence, one of `OPENINGS`.
    places : bool, default False
        Whether the sentence names the cell of each digit.

    Returns
    -------
    list of str

    Examples
    --------
    >>> sentence_of([7, 2, -1], [(1, 1), (12, 12), (-1, -1)], ("there", "is"))
    ['there', 'is', 'seven', 'and', 'two']
    >>> sentence_of([7, 2], [(1, 1), (12, 12)], places=True)
    ['seven', 'top-left', 'and', 'two', 'center']
    """
    words = list(opening)
    for digit, corner in zip(digits, corners, strict=True):
        if digit >= 0:
            words += ["and"] if len(words) > len(opening) else []
            words.append(DIGIT_WORDS[digit])
            if places:
                row, column = cell_of(corner)
                words.append(_PLACES[3 * row + column])
    return words


def draw_sentences(scenes, generator, places=False):
    """Draw one sentence for each scene, with a random opening and the digits in random order.

    The order does not depend on where the digits are.

    Parameters
    ----------
    scenes : Scenes
    generator : numpy.random.Generator
    places : bool, default False
        Whether the sentences name the cell of each digit.

    Returns
    -------
    list of list of str

    Examples
    --------
    >>> from minitorch_attn.data.digit_scenes import draw_scenes
    >>> digits, labels = np.ones((5, 1, 8, 8)), np.arange(5)
    >>> generator = np.random.default_rng(2)
    >>> draw_sentences(draw_scenes(2, digits, labels, generator), generator)
    [['there', 'is', 'zero', 'and', 'zero'], ['image', 'of', 'one', 'and', 'two']]
    """
    count, most = scenes.digits.shape
    orders = generator.random((count, most)).argsort(1)
    openings = generator.integers(len(OPENINGS), size=count)
    return [
        sentence_of(digits[order], corners[order], OPENINGS[opening], places)
        for digits, corners, order, opening in zip(
            scenes.digits, scenes.corners, orders, openings, strict=True
        )
    ]


def prompts(places=False):
    """For each digit, return the sentences that name only that digit.

    Parameters
    ----------
    places : bool, default False
        Whether each sentence also names a position. If True, each digit has one sentence for each
        combination of an opening and one of the nine cells.

    Returns
    -------
    list of list of list of str
        Sentences for each digit.

    Examples
    --------
    >>> prompts()[7]
    [['seven'], ['image', 'of', 'seven'], ['there', 'is', 'seven']]
    """
    endings = [(place,) for place in _PLACES] if places else [()]
    return [
        [[*opening, word, *ending] for opening in OPENINGS for ending in endings]
        for word in DIGIT_WORDS
    ]


def as_ids(sentences):
    """Convert sentences to ids (sentence, `LONGEST`), with start and end tokens, padded with 0.

    Examples
    --------
    >>> as_ids([["image", "of", "two"], ["nine"]])[:, :6]
    array([[ 1, 13, 14,  4, 26,  0],
           [ 1, 11, 26,  0,  0,  0]])
    """
    ids = np.zeros((len(sentences), LONGEST), np.int64)
    for row, sentence in zip(ids, sentences, strict=True):
        found = [_IDS["<start>"], *[_IDS[word] for word in sentence], END]
        row[: len(found)] = found
    return ids
