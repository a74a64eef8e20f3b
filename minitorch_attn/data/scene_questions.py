"""Scene questions: digits as image regions, with captions and questions about their positions.

One of the questions is "what is left of the seven ?". A region is a crop of one digit. The regions
replace the objects that UNITER obtains from an object detector (Chen et al. 2020,
arXiv:1909.11740v3).
"""

from typing import NamedTuple

import numpy as np

from ..errors import ArgumentError
from ..named_errors import names_arguments
from .digit_scenes import scene_words
from .digits import check_digits

__all__ = [
    "ANSWERS", "CLS", "MASK", "PAD", "RELATIONS", "SEP", "SIDE", "WORDS", "RegionScenes",
    "draw_captions", "draw_questions", "draw_region_scenes", "true_relations",
]  # fmt: skip

RELATIONS = ("left of", "right of", "above", "below")
ROWS, COLUMNS = ("top", "bottom"), ("left", "right")  # in a grid of 2 x 2 cells
ANSWERS = (*scene_words()[:10], *RELATIONS)
WORDS = (
    "[PAD]", "[CLS]", "[SEP]", "[MASK]", *scene_words()[:10], *RELATIONS, *ROWS, *COLUMNS, ",",
    "what", "where", "is", "the", "from", "?",
)  # fmt: skip
_IDS = {word: i for i, word in enumerate(WORDS)}
PAD, CLS, SEP, MASK = range(4)
_DIGIT, _RELATION, _ROW, _COLUMN = (_IDS[w] for w in ("zero", "left of", "top", "left"))
SIDE, _MARGIN = 32, 1  # size of a scene, and width of the margin around its cells, in pixels


class RegionScenes(NamedTuple):
    """Scenes of different digits in the cells of a grid.

    Attributes
    ----------
    crops : float32 array of shape (scene, region, 64)
        Pixels of each digit, which are the features of a region. 0 where a region is missing.
    boxes : float32 array of shape (scene, region, 4)
        Left, top, right and bottom in pixels; 0 where a region is missing.
    digits : int64 array of shape (scene, region)
        Digit in each region; -1 where a region is missing.
    cells : int64 array of shape (scene, region, 2)
        Row and column in the grid; -1 where a region is missing.
    """

    crops: np.ndarray
    boxes: np.ndarray
    digits: np.ndarray
    cells: np.ndarray

    def images(self):
        """Return the scenes as images, a float32 array (scene, 32, 32)."""
        canvas = np.zeros((len(self.digits), SIDE, SIDE), np.float32)
        size = round(self.crops.shape[-1] ** 0.5)
        for n, i in np.argwhere(self.digits >= 0):
            left, top = self.boxes[n, i, :2].astype(int)
            canvas[n, top : top + size, left : left + size] = self.crops[n, i].reshape(size, size)
        return canvas

    def take(self, which):
        """Return some of the scenes. `which` is an array of indices, or a slice."""
        return RegionScenes(*(values[which] for values in self))


@names_arguments
def draw_region_scenes(count, images, labels, generator, *, fewest=1, most=4, noise=0.0, grid=2):
    """Draw scenes of distinct digits, each at a random position within its own cell of a grid.

    Parameters
    ----------
    count : int
    images : array of shape (digit, 1, 8, 8)
        Handwritten digits of all ten classes, such as those from `digits_split`.
    labels : int array of shape (digit,)
    generator : numpy.random.Generator
    fewest, most : int, default 1 and 4
        Smallest and largest number of digits. Each number is equally likely.
    noise : float, default 0
        Standard deviation of Gaussian noise on the crops.
    grid : int, default 2
        Number of cells per side, at most 3.

    Returns
    -------
    RegionScenes
    """
    check_digits("draw_region_scenes", images, labels)
    kinds = np.unique(labels)
    if not 1 <= fewest <= most <= min(grid**2, len(kinds)):
        raise ArgumentError(
            "draw_region_scenes: the numbers of digits do not fit the scene",
            got=f"fewest={fewest}, most={most}, {grid} x {grid} cells, {len(kinds)} classes",
            expected="1 <= fewest <= most, one cell for each digit and one class for each digit",
        )
    size = images.shape[-1]
    absent = np.arange(most) >= generator.integers(fewest, most + 1, (count, 1))
    digits = kinds[generator.random((count, len(kinds))).argsort(1)[:, :most]]
    order, first = np.argsort(labels, kind="stable"), np.searchsorted(np.sort(labels), kinds)
    number = np.bincount(np.searchsorted(kinds, labels))
    kind = np.searchsorted(kinds, digits)
    which = order[first[kind] + (generator.random((count, most)) * number[kind]).astype(int)]
    cells = np.stack(divmod(generator.random((count, grid**2)).argsort(1)[:, :most], grid), -1)
    cell = (SIDE - 2 * _MARGIN) // grid  # pixels
    corner = _MARGIN + cell * cells + generator.integers(cell - size + 1, size=cells.shape)
    boxes = np.concatenate([corner[..., ::-1], corner[..., ::-1] + size], -1).astype(np.float32)
    crops = images[which].reshape(count, most, -1).astype(np.float32)
    crops += generator.normal(0, noise, crops.shape).astype(np.float32)
    crops[absent], boxes[absent], digits[absent], cells[absent] = 0, 0, -1, -1
    return RegionScenes(crops, boxes, digits, cells)


def true_relations(scenes):
    """For each pair of digits, return which relations are true: left of, right of, above, below.

    A relation is true only between neighbors, which are two digits of one row or column with no
    digit between them.

    Parameters
    ----------
    scenes : RegionScenes

    Returns
    -------
    bool array of shape (scene, region, region, 4)
        Entry [n, a, b, r] is True if region a is in relation `RELATIONS[r]` to region b in scene n.
    """
    row, column = scenes.cells[..., 0], scenes.cells[..., 1]  # each (scene, region)
    present = scenes.digits >= 0
    both = present[:, :, None] & present[:, None]
    left, above = (
        both & (same[:, :, None] == same[:, None]) & (along[:, :, None] < along[:, None])
        & ~_middle_between(same, along, present)
        for same, along in ((row, column), (column, row))
    )  # fmt: skip
    return np.stack([left, left.swapaxes(1, 2), above, above.swapaxes(1, 2)], -1)


def _middle_between(same, along, present):
    """For regions a and b in the same row (or column), return whether a digit is between them.

    `same` is the index of each region's row (or column), and `along` the region's position within
    that row (or column). The result has shape (scene, region, region). Its entries for a and b in
    different rows (or columns) are meaningless.
    """
    middle = present & (along == 1)
    filled = (middle[:, None] & (same[:, :, None] == same[:, None])).any(2)  # (scene, region)
    return (abs(along[:, :, None] - along[:, None]) == 2) & filled[:, :, None]


def _drawn_relation(true, generator):
    """Choose a random true relation for each scene. Return (region a, region b, relation, found).

    `found` is False where no relation of the scene is true.
    """
    score = np.where(true, generator.random(true.shape), -1.0).reshape(len(true), -1)
    best = score.argmax(1)
    return *np.unravel_index(best, true.shape[1:]), score[np.arange(len(true)), best] >= 0


def draw_captions(scenes, generator):
    """Choose a random caption for each scene, such as "seven top left , two below seven".

    Parameters
    ----------
    scenes : RegionScenes
    generator : numpy.random.Generator

    Returns
    -------
    ids : int64 array of shape (scene, 9)
        [CLS], the position of a digit, a comma, the relation of two digits, [SEP], padding. If no
        relation is true in a scene, its caption omits the relation. On average, three in eight of
        the other captions omit the position, and one in eight omits the relation. The comma
        appears only between the two.
    regions : int64 array of shape (scene, 9)
        Region that each word refers to; -1 if the word refers to no region or to two.
    """
    scene, number = np.arange(len(scenes.digits)), (scenes.digits >= 0).sum(1)
    c = (generator.random(len(scene)) * number).astype(int)
    a, b, relation, found = _drawn_relation(true_relations(scenes), generator)
    kind = np.array([0, 1, 1, 1, 2, 2, 2, 2])[generator.integers(8, size=len(scene))] * found
    word = _DIGIT + scenes.digits
    cell = scenes.cells[scene, c]
    place = [word[scene, c], _ROW + cell[:, 0], _COLUMN + cell[:, 1]]
    relation = [word[scene, a], _RELATION + relation, word[scene, b]]
    no, comma = np.full(len(scene), -1), _IDS[","]
    layouts = (
        (_columns(CLS, *place, SEP, *[PAD] * 4), _columns(no, c, c, c, *[no] * 5)),
        (_columns(CLS, *relation, SEP, *[PAD] * 4), _columns(no, a, no, b, *[no] * 5)),
        (_columns(CLS, *place, comma, *relation, SEP), _columns(no, c, c, c, no, a, no, b, no)),
    )
    return tuple(np.stack(parts)[kind, scene] for parts in zip(*layouts, strict=True))


def draw_questions(scenes, generator):
    """Choose one random question for each scene that has neighboring digits.

    Parameters
    ----------
    scenes : RegionScenes
    generator : numpy.random.Generator

    Returns
    -------
    ids : int64 array of shape (question, 10)
        [CLS], the words of the question, [SEP] and padding.
    answers : int64 array of shape (question,)
        Indices into `ANSWERS`.
    scene : int64 array of shape (question,)
        Index of each question's scene. Scenes without neighboring digits have no questions.
    kind : int64 array of shape (question,)
        0: "what is top left ?"; 1: "what is left of the seven ?"; 2: "where is the four from the
        seven ?".
    """
    a, b, relation, found = _drawn_relation(true_relations(scenes), generator)
    scene = np.flatnonzero(found)
    a, b, relation = a[scene], b[scene], relation[scene]
    kind = generator.integers(3, size=len(scene))
    digit, (row, column) = scenes.digits[scene, a], scenes.cells[scene, a].T
    one, other = _DIGIT + digit, _DIGIT + scenes.digits[scene, b]
    what, where, be, the, source, mark = range(_IDS["what"], len(WORDS))
    ids = np.stack([
        _columns(CLS, what, be, _ROW + row, _COLUMN + column, mark, SEP, PAD, PAD, PAD),
        _columns(CLS, what, be, _RELATION + relation, the, other, mark, SEP, PAD, PAD),
        _columns(CLS, where, be, the, one, source, the, other, mark, SEP),
    ])[kind, np.arange(len(scene))]  # fmt: skip
    return ids, np.where(kind == 2, 10 + relation, digit), scene, kind


def _columns(*columns):
    return np.stack(np.broadcast_arrays(*columns), 1)
