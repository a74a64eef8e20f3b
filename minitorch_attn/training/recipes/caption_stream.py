"""Caption stream: batches of digit images and caption ids for the recipe `captions`."""

import numpy as np

from ...data.digit_scenes import draw_scenes, scene_words
from ...data.pairs import PairTokenizer
from ...tensor import tensor
from .phases import RecipeStream

__all__ = [
    "DIGIT", "END", "GRID", "IDS", "LONGEST", "PAD", "SIDE", "START", "WORDS", "CaptionBatches",
    "as_ids", "as_text", "as_words", "position_codes", "words_at_positions",
]  # fmt: skip

PAD, START, END = PairTokenizer.PAD, PairTokenizer.START, PairTokenizer.END
WORDS = ("", "", "", *scene_words())  # the ids of the special tokens come first
IDS = {word: i for i, word in enumerate(WORDS) if word}
LONGEST = 9  # ids: start, "one above two , above three", end, and padding
SIDE, GRID, DIGIT = 32, 8, 8  # numbers per side: image pixels, positions, digit pixels


class CaptionBatches(RecipeStream):
    """Batches of digit images, with the digit at each position or with captions.

    Batch n depends only on (seed, n). Its keys are "images" and "cells" in pretraining, "images"
    and "words" for soft attention, and "images", "words" and "noise" for hard attention.

    Parameters
    ----------
    recipe : Captions
    """

    def __next__(self):
        """Return the next batch, a dict of tensors."""
        generator = np.random.default_rng([self.seed, self.position])
        phase = self.recipe.phase(self.position)[0]
        most = 9 if phase == "pretraining" else 3  # many digits teach the encoder more
        scenes = draw_scenes(
            self.batch_size, *self.recipe.training, generator, self.recipe.options["noise"], most
        )
        batch = {"images": scenes.images.astype(self.dtype)}
        if phase == "pretraining":
            batch["cells"] = words_at_positions(scenes)
        else:
            batch["words"] = as_ids(scenes.captions())
        if phase == "hard":
            shape = (self.batch_size, LONGEST - 1, GRID**2)
            batch["noise"] = generator.gumbel(size=shape).astype(self.dtype)
        self.position += 1
        return {name: tensor(values, device=self.device) for name, values in batch.items()}


def as_ids(captions):
    """Convert captions to ids (caption, word), with start and end tokens and padding.

    Examples
    --------
    >>> as_ids([["one", "above", "two"], ["nine"]])
    array([[ 1,  4, 13,  5,  2,  0,  0,  0,  0],
           [ 1, 12,  2,  0,  0,  0,  0,  0,  0]])
    """
    ids = np.full((len(captions), LONGEST), PAD)
    for row, caption in zip(ids, captions, strict=True):
        found = [START, *[IDS[word] for word in caption], END][:LONGEST]
        row[: len(found)] = found
    return ids


def as_words(ids):
    """Return the words before the end token."""
    ids = [*ids, END]
    return [WORDS[i] for i in ids[: ids.index(END)] if WORDS[i]]


def as_text(words):
    """Join the words of a caption into one string.

    Examples
    --------
    >>> as_text(["one", "above", "two", ",", "left of", "six"])
    'one above two, left of six'
    """
    return " ".join(words).replace(" ,", ",")


def words_at_positions(scenes):
    """For each position (a square patch), return the word id of the digit there, or `PAD`.

    A digit is at a position if its box contains the patch's middle pixel. `PAD` means "no digit".

    Parameters
    ----------
    scenes : Scenes

    Returns
    -------
    int64 array of shape (scene, position)
    """
    found = np.full((len(scenes.images), GRID, GRID), PAD)
    pixel = SIDE // GRID * np.arange(GRID) + SIDE // GRID // 2 - 1  # in the middle of each position
    for n, place in zip(*np.nonzero(scenes.digits >= 0), strict=True):
        row, column = [(pixel >= c) & (pixel < c + DIGIT) for c in scenes.corners[n, place]]
        found[n][np.ix_(row, column)] = IDS[scene_words()[scenes.digits[n, place]]]
    return found.reshape(len(found), -1)


def position_codes(dim, scale=0.5):
    """Return sines and cosines of the row and of the column of each position.

    Parameters
    ----------
    dim : int
        Number of features per position.
    scale : float, default 0.5
        Amplitude of the waves.

    Returns
    -------
    float64 array of shape (position, dim)
        The longest wave completes half a period across the image. The period of the shortest
        wave is two positions.
    """
    frequency = np.pi / GRID * np.geomspace(1, GRID, -(-dim // 4))
    angle = np.arange(GRID)[:, None] * frequency
    code = np.concatenate([np.sin(angle), np.cos(angle)], 1)  # (row or column, dim / 2)
    row, column = np.divmod(np.arange(GRID**2), GRID)
    return scale * np.concatenate([code[row], code[column]], 1)[:, :dim]
