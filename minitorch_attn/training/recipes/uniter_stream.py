"""Batch stream of the recipe `uniter`, with its region detector and its questions."""

from typing import NamedTuple

import numpy as np

from ... import nn, ops
from ...autograd import no_grad
from ...backend import manual_seed, to_host
from ...data.scene_questions import (
    MASK,
    SIDE,
    draw_captions,
    draw_questions,
    draw_region_scenes,
)  # fmt: skip
from ...nn.functional import cross_entropy
from ...optim import Adam
from ...tensor import tensor
from .phases import RecipeStream

__all__ = [
    "FEATURES", "GRID", "IGNORED", "MOST", "PLACES", "Detector", "Questions", "UniterBatches",
    "locations", "mask_words",
]  # fmt: skip

FEATURES, PLACES = 32, 19  # numbers that describe a region's content and location
GRID, MOST = 2, 4  # cells of a scene per side; maximum number of digits
IGNORED = -100  # label of a word that is not masked
_WAVES = 3  # number of frequencies of the location code
_REPLACED = 0.8  # fraction of the words and regions to be predicted that are masked


class Detector:
    """A small network that reads single digits, in place of UNITER's object detector.

    It is trained on labeled digits and then frozen. Its hidden layer provides a region's
    features, and its output the distribution over classes.

    Parameters
    ----------
    images : array of shape (digit, 1, 8, 8)
    labels : int64 array of shape (digit,)
    steps : int, default 300
    """

    def __init__(self, images, labels, steps=300):
        manual_seed(0)
        self.hidden, self.output = nn.Linear(images[0].size, FEATURES), nn.Linear(FEATURES, 10)
        optimizer = Adam([*self.hidden.parameters(), *self.output.parameters()], lr=1e-2)
        generator, pixels = np.random.default_rng(0), images.reshape(len(images), -1)
        for _ in range(steps):
            chosen = generator.integers(len(pixels), size=128)
            noisy = pixels[chosen] + generator.normal(0, 0.1, (128, pixels.shape[1]))
            hidden = ops.relu(self.hidden(tensor(noisy.astype(np.float32))))
            optimizer.zero_grad()
            cross_entropy(self.output(hidden), tensor(labels[chosen])).backward()
            optimizer.step()
        with no_grad():
            hidden = to_host(ops.relu(self.hidden(tensor(pixels))).array)
        self.mean, self.deviation = hidden.mean(0), hidden.std()

    def __call__(self, crops):
        """Return features (..., 32), roughly standardized, and class probabilities (..., 10)."""
        with no_grad():
            hidden = ops.relu(self.hidden(tensor(crops)))
            classes = ops.softmax(self.output(hidden), -1)
        hidden = to_host(hidden.array)
        return (hidden - self.mean) / self.deviation, to_host(classes.array)


def locations(boxes):
    """Return 19 numbers that describe the location of each region.

    The first seven are UNITER's (see `models.uniter.box_features`). The others are sines and
    cosines of the center, which are similar for nearby places and different for distant ones.

    Parameters
    ----------
    boxes : float array of shape (..., 4)
        Left, top, right and bottom in pixels.

    Returns
    -------
    float array of shape (..., 19)

    Examples
    --------
    >>> locations(np.array([0.0, 0.0, 32.0, 16.0]))[:7]
    array([0. , 0. , 1. , 0.5, 1. , 0.5, 0.5])
    """
    boxes = boxes / SIDE
    size = boxes[..., 2:] - boxes[..., :2]
    angle = (boxes[..., :2] + size / 2)[..., None] * np.pi * np.arange(1, _WAVES + 1)
    code = np.concatenate([np.sin(angle), np.cos(angle)], -1).reshape(*boxes.shape[:-1], -1)
    return np.concatenate([boxes, size, size.prod(-1, keepdims=True), code], -1)


class Questions(NamedTuple):
    """Questions about scenes, with their answers.

    Attributes
    ----------
    ids : int64 array of shape (question, 10)
    answers, kind : int64 array of shape (question,)
        See `draw_questions`.
    scenes : RegionScenes
        The scene of each question.
    """

    ids: np.ndarray
    answers: np.ndarray
    kind: np.ndarray
    scenes: object

    @classmethod
    def draw(cls, count, images, labels, generator, noise=0.0):
        """Sample scenes of three or four digits, and questions about them."""
        scenes = draw_region_scenes(
            count, images, labels, generator, fewest=3, most=MOST, noise=noise, grid=GRID
        )
        ids, answers, scene, kind = draw_questions(scenes, generator)
        return cls(ids, answers, kind, scenes.take(scene))

    def take(self, which):
        """Return the questions at the indices `which` (an int array or a slice)."""
        return Questions(*(values[which] for values in self[:3]), self.scenes.take(which))


def mask_words(ids, generator):
    """Choose words to predict: one in each part of a sentence. A comma separates the parts.

    Four out of five of these words are replaced by [MASK]. The others stay visible but must
    still be predicted, as BERT does with a tenth of its chosen words. The network therefore also
    learns useful vectors of visible words, which can be aligned with regions.

    Parameters
    ----------
    ids : int64 array of shape (sentence, 9)
        See `draw_captions`.
    generator : numpy.random.Generator

    Returns
    -------
    masked, labels : int64 array of shape (sentence, 9)
        The labels are the words to predict, and `IGNORED` elsewhere.
    """
    place = np.array([1, 5]) + generator.integers(3, size=(len(ids), 2))
    chosen = np.zeros(ids.shape, bool)
    np.put_along_axis(chosen, place, True, 1)
    chosen &= ids > MASK
    hidden = chosen & (generator.random(ids.shape) < _REPLACED)
    return np.where(hidden, MASK, ids), np.where(chosen, ids, IGNORED)


class UniterBatches(RecipeStream):
    """Batches of one of UNITER's tasks, or of questions.

    Batch n depends only on (seed, n). It is a dict with "ids", "features", "boxes" and "absent"
    (True for missing regions). Each task has further entries: "labels" for masked words;
    "hidden", "predicted" and "classes" for masked regions; "matches" for matching. The answers
    to questions are stored under the name of the training phase: "full", "tenth" or "scratch".

    Parameters
    ----------
    recipe : Uniter
    """

    def __next__(self):
        """Return the next batch, a dict of tensors."""
        generator = np.random.default_rng([self.seed, self.position])
        phase, start, end = self.recipe.phase(self.position)
        done = (self.position - start) / (end - start)
        self.position += 1
        if phase == "pretraining":
            batch = self._pretraining_batch(done, generator)
        else:
            batch = self._questions(phase, generator)
        return {name: tensor(values, device=self.device) for name, values in batch.items()}

    def _pretraining_batch(self, done, generator):
        scenes = draw_region_scenes(
            self.batch_size, *self.recipe.training, generator, most=MOST,
            noise=self.recipe.options["noise"], grid=GRID,
        )  # fmt: skip
        ids, _ = draw_captions(scenes, generator)
        batch, classes = self.recipe.regions(scenes)
        tasks = ("words",) if done < self.recipe.options["words"] else self.recipe.tasks
        task = tasks[generator.integers(len(tasks))]
        if task == "words":
            batch["ids"], batch["labels"] = mask_words(ids, generator)
        elif task == "regions":
            chosen = generator.random(scenes.digits.shape) < 0.3
            chosen[:, 0] |= ~(chosen & ~batch["absent"]).any(1)  # at least one
            chosen &= ~batch["absent"]
            hidden = chosen & (generator.random(chosen.shape) < _REPLACED)
            batch.update(ids=ids, hidden=hidden, predicted=chosen, classes=classes)
        else:
            matches = generator.random(len(ids)) < 0.5
            batch["ids"] = np.where(matches[:, None], ids, np.roll(ids, 1, 0))
            batch["matches"] = matches.astype(self.dtype)
        return batch

    def _questions(self, phase, generator):
        questions = self.recipe.labeled[phase]
        chosen = questions.take(generator.integers(len(questions.ids), size=self.batch_size))
        batch, _ = self.recipe.regions(chosen.scenes)
        return {**batch, "ids": chosen.ids, phase: chosen.answers}
