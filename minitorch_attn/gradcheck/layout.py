"""Layout hints: detect gradients whose numbers are correct but in the wrong positions."""

from itertools import combinations, product

import numpy as np

from .clues import fits
from .report import Hint

__all__ = ["layout_hints"]

_WORK = 4_000_000  # maximum number of comparisons for shifts


def layout_hints(clue, deep=True):
    """Recognize transposed, reshaped, flipped, shifted, permuted and leaking gradients.

    Parameters
    ----------
    clue : Evidence
    deep : bool
        Whether to also look for leaking gradients (nonzero where the correct gradient is zero),
        for wrong zeros and for permutations. Used for individual operations.

    Yields
    ------
    Hint
    """
    moved, others = (_transposed, _reshaped, _flipped, _rolled), (_leaking, _closed, _permuted)
    for guess in moved + others if deep else moved:
        hint = guess(clue)
        if hint is not None:
            yield hint
            return


def _pairs(shape):
    axes = [axis for axis, size in enumerate(shape) if size > 1]
    return list(combinations(axes, 2))


def _transposed(clue):
    shape = clue.numeric.shape
    for i, j in _pairs(shape):
        if shape[i] == shape[j] and fits(clue.derived, clue.numeric.swapaxes(i, j)):
            return Hint(
                "transpose",
                f"the correct {clue.noun} with axes {i} and {j} swapped: a transpose is missing, "
                "or there is one too many.",
            )
    return None


def _reshaped(clue):
    """Return a hint if the backward used `reshape` where it should have transposed the axes."""
    shape = clue.numeric.shape
    for i, j in _pairs(shape):
        swapped = list(shape)
        swapped[i], swapped[j] = swapped[j], swapped[i]
        read = clue.numeric.swapaxes(i, j).reshape(shape)
        written = clue.numeric.reshape(swapped).swapaxes(i, j)
        if fits(clue.derived, read) or fits(clue.derived, written):
            return Hint(
                "reshape",
                f"the correct numbers, but as if a reshape had swapped axes {i} and {j} (of sizes "
                f"{shape[i]} and {shape[j]}): a transpose is missing before or after the reshape.",
            )
    return None


def _flipped(clue):
    axes = [axis for axis, size in enumerate(clue.numeric.shape) if size > 1]
    for count in range(1, len(axes) + 1):
        for some in combinations(axes, count):
            if fits(clue.derived, np.flip(clue.numeric, some)):
                where = f"axis {some[0]}" if count == 1 else f"axes {some}"
                return Hint("flip", f"the correct {clue.noun} in reverse order along {where}.")
    return None


def _rolled(clue):
    """Return a hint if the correct gradient is shifted along one or two axes."""
    shape = clue.numeric.shape
    axes = [axis for axis, size in enumerate(shape) if size > 1]
    for some in [(axis,) for axis in axes] + list(combinations(axes, 2)):
        shifts = [range(1, shape[axis]) for axis in some]
        if clue.numeric.size * np.prod([shape[axis] for axis in some]) > _WORK:
            continue
        for shift in product(*shifts):
            if fits(clue.derived, np.roll(clue.numeric, shift, some)):
                return Hint("roll", _roll_text(clue.noun, shape, some, shift))
    return None


def _roll_text(noun, shape, axes, shift):
    parts, double = [], []
    for axis, amount in zip(axes, shift, strict=True):
        size = shape[axis]
        amount = amount if amount <= size // 2 else amount - size
        parts.append(f"{amount:+d} along axis {axis} (of size {size})")
        double.append(amount % 2 == 0 or size % 2 == 1)
    text = f"the correct {noun} rolled by {' and '.join(parts)}"
    if noun == "gradient" and all(double):
        text += (
            ". A roll by s in the forward needs a roll by -s in the backward; a roll by +s leaves "
            "a shift of 2s, and no roll leaves a shift of s"
        )
    return text + "."


def _leaking(clue):
    """Return a hint if the gradient is wrong only at entries that do not affect the output."""
    size = np.abs(clue.numeric)
    wrong, untouched = clue.wrong, size <= 1e-8 * size.max()
    if not wrong.any() or (wrong & ~untouched).any():
        return None
    return Hint(
        "leak",
        f"wrong only at {int(wrong.sum())} of {wrong.size} entries, where the correct gradient is "
        "zero: the backward passes a gradient to values that the forward does not use, for example "
        "at masked positions.",
    )


def _closed(clue):
    """Return a hint if the gradient is exactly zero at every entry where it is wrong."""
    wrong, closed = clue.wrong, clue.derived == 0
    if not wrong.any() or (wrong & ~closed).any():
        return None
    return Hint(
        "closed",
        f"wrong only at {int(wrong.sum())} of {wrong.size} entries, where the backward gives "
        "exactly zero although the output depends on them: the backward masks these entries, but "
        "the forward does not, or only after a normalization.",
    )


def _permuted(clue):
    first, second = np.sort(clue.derived, axis=None), np.sort(clue.numeric, axis=None)
    if clue.derived.size < 3 or not fits(first, second):
        return None
    return Hint(
        "permuted",
        "the correct numbers in another order: the gradient does not return to the positions from "
        "which the values came (a wrong index, or a permutation instead of its inverse).",
    )
