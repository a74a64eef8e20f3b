"""Hints about formulas with a missing or extra term, or with the wrong cotangent.

Most of these hints use the Jacobian to compute the result of a correct backward for a different
incoming gradient, for example a gradient that is transposed, shifted, divided by a weight, or
taken from one batch item only.
"""

from itertools import combinations, permutations

import numpy as np

from .clues import fits
from .report import Hint

__all__ = ["term_hints"]


def term_hints(clue):
    """Yield hints about terms that are missing from a backward formula or should not be in it.

    Parameters
    ----------
    clue : Evidence

    Yields
    ------
    Hint
    """
    guesses = (
        _incoming_term, _wrong_cotangent, _wrong_jacobian, _one_share_each, _sum_over_another_axis,
        _along_an_axis, _per_item_factor,
    )  # fmt: skip
    for guess in guesses:
        hint = guess(clue)
        if hint is not None:
            yield hint
            return


def _incoming_term(clue):
    """Return a hint if a residual path is counted twice or missing (`error = +-cotangent`)."""
    for cotangent in clue.cotangents:
        if cotangent.shape != clue.error.shape or cotangent.size < 2:
            continue
        if fits(clue.error, cotangent):
            return Hint(
                "extra_copy",
                "too large by exactly the incoming gradient: a residual path is counted twice.",
            )
        if fits(clue.error, -cotangent):
            return Hint(
                "missing_copy",
                "too small by exactly the incoming gradient: the gradient of the residual path is "
                "missing.",
            )
    return None


def _wrong_cotangent(clue):
    """Return a hint if the gradient would be correct for a different incoming gradient."""
    if clue.jacobian is None:
        return None
    if len(clue.outputs) > 1:
        return _one_output_only(clue)
    (cotangent,) = clue.cotangents
    for kind, text, other in _other_cotangents(clue, cotangent):
        if fits(clue.derived, _through(clue, other)):
            return Hint(kind, text)
    return None


def _one_output_only(clue):
    start = 0
    for number, output in enumerate(clue.outputs):
        only = np.zeros_like(clue.cotangent)
        part = slice(start, start + output.size)
        only[part] = clue.cotangent[part]
        start += output.size
        if fits(clue.derived, _through(clue, only)):
            return Hint(
                "one_output",
                f"only output {number} of the {len(clue.outputs)} outputs counts: the gradients of "
                "the outputs must be added with `+=`, not assigned with `=`.",
            )
    return None


def _through(clue, cotangent):
    return (clue.jacobian @ cotangent.reshape(-1)).reshape(clue.derived.shape)


def _other_cotangents(clue, cotangent):
    yield (
        "ignores_gradient",
        "this is the gradient of the plain sum of the output: the incoming gradient is ignored.",
        np.ones_like(cotangent),
    )
    shape = cotangent.shape
    for i, j in combinations(range(len(shape)), 2):
        if shape[i] == shape[j] > 1:
            yield (
                "transpose",
                f"correct if axes {i} and {j} of the incoming gradient were swapped: a transpose "
                "is missing, or there is one too many.",
                cotangent.swapaxes(i, j),
            )
    yield from _one_item_cotangents(cotangent)
    yield from _scaled_cotangents(clue, cotangent)
    for axis, size in enumerate(shape):
        for shift in range(1, size if cotangent.size * size < 200_000 else 0):
            yield (
                "roll",
                f"correct if the incoming gradient were rolled by {shift} along axis {axis} "
                f"(of size {size}): a roll is not undone, or is undone in the wrong direction.",
                np.roll(cotangent, shift, axis),
            )


def _one_item_cotangents(cotangent):
    for axis, size in enumerate(cotangent.shape):
        if size < 2:
            continue
        for item in range(size):
            only = np.zeros_like(cotangent)
            place = (slice(None),) * axis + (item,)
            only[place] = cotangent[place]
            yield (
                "one_item",
                f"only item {item} along axis {axis} of the output (of size {size}) counts: the "
                "gradient of a value broadcast along that axis is not summed over the axis.",
                only,
            )


def _scaled_cotangents(clue, cotangent):
    for name, value in clue.inputs.items():
        try:
            weight = np.broadcast_to(value, cotangent.shape)
        except ValueError:
            continue
        if np.ptp(value) == 0 or not value.all():
            continue
        yield ("factor", f"the factor `{name}` is missing.", cotangent / weight)
        yield ("factor", f"the factor `{name}` is applied once too often.", cotangent * weight)


def _wrong_jacobian(clue):
    """Return a hint if the Jacobian is not transposed, or only its diagonal is used."""
    jacobian = clue.jacobian
    if jacobian is None or jacobian.shape[0] != jacobian.shape[1]:
        return None
    shape, cotangent = clue.derived.shape, clue.cotangent
    if fits(clue.derived, (np.diagonal(jacobian) * cotangent).reshape(shape)):
        return Hint(
            "diagonal",
            "only the diagonal of the Jacobian is used, as if each output entry depended only on "
            "the input entry at the same position.",
        )
    if fits(clue.derived, (jacobian.T @ cotangent).reshape(shape)):
        return Hint(
            "transpose",
            "the Jacobian is not transposed: the backward computes W g instead of W^T g.",
        )
    return None


def _one_share_each(clue):
    """Return a hint if an entry that affects several outputs gets only one output's gradient."""
    if clue.jacobian is None or clue.jacobian.size > 1_000_000 or clue.derived.size < 3:
        return None
    shares = clue.jacobian * clue.cotangent
    used = np.abs(shares) > 1e-8 * np.abs(shares).max()
    if used.sum(axis=1).max() < 2:
        return None
    derived = clue.derived.reshape(-1)
    nearest = np.abs(shares - derived[:, None]).min(axis=1)
    if (nearest > 1e-6 * np.abs(derived))[derived != 0].any():
        return None
    return Hint(
        "repeated",
        "entries that are used several times have the gradient of only one use: `+=` with a "
        "repeated index keeps only the last addition (use scatter_add), or `=` replaces `+=`.",
    )


def _along_an_axis(clue):
    """Return a hint if the error along an axis is typical of a wrong mean or normalization."""
    error = clue.error
    for axis, size in enumerate(error.shape):
        if size > 2 and _spanned(error, [np.ones_like(error)], axis):
            return Hint(
                "axis_term",
                f"the error is the same all along axis {axis}: a term with a sum or mean over "
                "that axis is missing or wrong.",
            )
    same = [o for o in clue.outputs if o.shape == error.shape]
    for axis, size in enumerate(error.shape):
        for output in same if size > 2 else ():
            if _spanned(error, [output], axis):
                return Hint(
                    "axis_term",
                    f"along axis {axis} the error is a multiple of the output: the term that "
                    "subtracts a weighted sum over that axis is missing or wrong.",
                )
    for axis, size in enumerate(error.shape):
        if size > 3 and _spanned(error, [np.ones_like(error), clue.value], axis):
            return Hint(
                "axis_term",
                f"along axis {axis} the error is a constant plus a multiple of the input: the "
                "terms of the mean and the variance over that axis are missing or wrong.",
            )
    return None


def _spanned(error, basis, axis):
    """Return True if every slice of the error along an axis is a linear combination of `basis`."""
    lines = np.moveaxis(error, axis, -1)[..., None]
    columns = np.stack([np.moveaxis(b, axis, -1) for b in basis], axis=-1)
    columns = np.broadcast_to(columns, (*lines.shape[:-1], len(basis)))
    left = columns.swapaxes(-1, -2)
    try:
        weights = np.linalg.solve(left @ columns, left @ lines)
    except np.linalg.LinAlgError:
        return False
    return fits(lines, columns @ weights)


def _sum_over_another_axis(clue):
    """Return a hint if a softmax backward sums over the wrong axis."""
    for cotangent, output in zip(clue.cotangents, clue.outputs, strict=True):
        if output.shape != clue.error.shape:
            continue
        weighted = cotangent * output
        sums = [weighted.sum(axis=axis, keepdims=True) for axis in range(output.ndim)]
        for right, wrong in permutations(range(output.ndim), 2):
            if fits(clue.error, output * (sums[right] - sums[wrong])):
                return Hint(
                    "wrong_axis",
                    f"the weighted sum that is subtracted runs over axis {wrong}, but must run "
                    f"over axis {right}.",
                )
    return None


def _per_item_factor(clue):
    """Return a hint if the slices along one axis are wrong by different constant factors."""
    numeric, derived = clue.numeric, clue.derived
    for axis, size in enumerate(numeric.shape):
        rest = tuple(i for i in range(numeric.ndim) if i != axis)
        if size < 2 or numeric.size <= size:
            continue
        squares = (numeric * numeric).sum(axis=rest, keepdims=True)
        if not squares.all():
            continue
        factors = (derived * numeric).sum(axis=rest, keepdims=True) / squares
        if not fits(derived, factors * numeric):
            continue
        text = f"wrong by a different factor for each item along axis {axis}"
        for name, value in clue.inputs.items():
            if value.size == size and name != clue.name:
                if fits(factors.reshape(-1), value.reshape(-1)):
                    return Hint("factor", f"the factor `{name}` is applied once too often.")
                if fits(1 / factors.reshape(-1), value.reshape(-1)):
                    return Hint("factor", f"the factor `{name}` is missing.")
        shown = ", ".join(f"{f:.4g}" for f in factors.reshape(-1)[:4])
        return Hint("factor", f"{text}: {shown}{', ...' if size > 4 else ''}.")
    return None
