"""Compare the results of a learner's function with the correct ones, and describe the difference.

Results are tensors, arrays, numbers, other values, or tuples, lists and dicts of them.
"""

from dataclasses import dataclass

import numpy as np

from ..errors import MiniTorchError
from ..gradcheck.diagnose import explain_result
from ..tensor import Tensor

__all__ = ["Difference", "as_array", "difference", "leaves"]

_TOLERANCE = {"float32": 1e-5, "float16": 1e-2}  # error relative to the largest entry
_FLOAT64 = 1e-9
# If all correct entries are smaller than this, errors are relative to this number, because such
# entries may be only the rounding errors of terms that cancel.
_SMALL = 1e-3
_LARGEST = 4096  # maximum number of entries; the search for causes tries many rearrangements


@dataclass(frozen=True)
class Difference:
    """How a result differs from the correct one.

    Parameters
    ----------
    what : str
        Headline, such as "3 of 15 values are wrong".
    got, expected : str, default ""
        The two values that differ most, or the two shapes, types or lengths.
    hint : str, default ""
        Possible cause.
    """

    what: str
    got: str = ""
    expected: str = ""
    hint: str = ""


def leaves(value, name=""):
    """Yield (name, value) for each value in nested tuples, lists and dicts."""
    if isinstance(value, (tuple, list)):
        for index, item in enumerate(value):
            yield from leaves(item, f"{name}[{index}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, f"{name}[{key!r}]")
    else:
        yield name, value


def as_array(value):
    """Convert a number, or a tensor on any device (with or without a graph), to an array."""
    return value.detach().numpy() if isinstance(value, Tensor) else np.asarray(value)


def difference(found, correct, inputs=None, name="", noun="result"):
    """Return the first Difference between two results, or None if they are equal.

    Parameters
    ----------
    found, correct : object
    inputs : dict of str to array, optional
        Floating-point arguments, to find the cause of a difference.
    name : str, default ""
        Position within a nested result, such as "[0]".
    noun : str, default "result"
        What is compared.

    Returns
    -------
    Difference or None

    Examples
    --------
    >>> found = difference((1, np.ones(2)), (1, np.array([1.0, -1.0])))
    >>> found.what, found.got, found.expected
    ('1 of 2 values of result[1] is wrong', '1 at [1]', '-1')
    """
    if found is None and correct is not None:
        hint = "end the function with `return ...`" if not name else ""
        return Difference(f"{_the(noun, name)} is None", "None", _kind(correct), hint)
    if isinstance(correct, dict):
        if not isinstance(found, dict) or found.keys() != correct.keys():
            got = f"the keys {', '.join(map(repr, found))}" if isinstance(found, dict) else None
            expected = f"the keys {', '.join(map(repr, correct))}"
            return Difference(f"wrong keys in {_the(noun, name)}", got or _kind(found), expected)
        pairs = [(f"{name}[{key!r}]", found[key], correct[key]) for key in correct]
    elif isinstance(correct, (tuple, list)):
        is_array = isinstance(found, (Tensor, np.ndarray)) and len(found.shape) == 1
        if is_array and all(isinstance(value, (int, float)) for value in correct):
            found = list(as_array(found))
        if not isinstance(found, (tuple, list)) or len(found) != len(correct):
            return Difference(
                f"wrong number of values in {_the(noun, name)}", _kind(found), _kind(correct)
            )
        pairs = zip([f"{name}[{i}]" for i in range(len(found))], found, correct, strict=True)
        if all(isinstance(v, (int, float, str, np.generic)) for v in (*found, *correct)):
            return _list_difference(found, correct, name, noun)
    else:
        return _leaf_difference(found, correct, inputs or {}, name, noun)
    different = (difference(a, b, inputs, place, noun) for place, a, b in pairs)
    return next((found for found in different if found is not None), None)


def _list_difference(found, correct, name, noun):
    """Return the Difference at the first unequal entry of two lists, or None if they are equal."""
    for index, (mine, wanted) in enumerate(zip(found, correct, strict=True)):
        if difference(mine, wanted) is not None:
            got = f"{_entry(mine)} at [{index}], in {_short(found)}"
            text = f"{_the(noun, name)} is wrong"
            return Difference(text, got, f"{_entry(wanted)}, in {_short(correct)}")
    return None


def _leaf_difference(found, correct, inputs, name, noun):
    wanted = as_array(correct)
    if wanted.dtype.kind not in "bifuc":
        same = type(found) is type(correct) and bool(found == correct)
        text = f"{_the(noun, name)} is wrong"
        return None if same else Difference(text, _short(found), _short(correct))
    if isinstance(found, (tuple, dict)):
        text = f"wrong number of values in {_the(noun, name)}"
        return Difference(text, _kind(found), _kind(correct))
    try:
        given = as_array(found)
    except (MiniTorchError, ValueError):  # a list of tensors, or of lists of different lengths
        given = np.empty((), object)
    if given.dtype.kind not in "bifuc":
        text = f"{_the(noun, name)} has the wrong type"
        return Difference(text, _kind(found), _kind(correct))
    if given.shape != wanted.shape:
        text, hint = f"{_the(noun, name)} has the wrong shape", _shape_hint(given, wanted)
        return Difference(text, f"{given.shape}", f"{wanted.shape}", hint)
    if (given.dtype.kind == "b") != (wanted.dtype.kind == "b"):
        text = f"{_the(noun, name)} has the wrong dtype"
        return Difference(text, f"{given.dtype}", f"{wanted.dtype}")
    return _value_difference(given, wanted, inputs, name, noun)


def _value_difference(given, wanted, inputs, name, noun):
    """Return the Difference between two arrays of the same shape, or None if they agree."""
    with np.errstate(all="ignore"):
        same = (given == wanted) | ((given != given) & (wanted != wanted))
        off = np.where(same, 0.0, np.abs(given * 1.0 - wanted * 1.0))
        finite = np.abs(wanted[np.isfinite(wanted)])
    size = max(finite.max(initial=0.0), _SMALL) if wanted.dtype.kind != "b" else 1.0
    wrong = ~(off <= _TOLERANCE.get(str(wanted.dtype), _FLOAT64) * size)
    if not wrong.any():
        return None
    at = np.unravel_index(np.where(np.isfinite(off), off, np.inf).argmax(), off.shape)
    at = tuple(map(int, at))
    place = f" at [{', '.join(map(str, at))}]" if at else ""
    count = int(wrong.sum())
    of = f"{count} of {off.size} values" if off.size > 1 else "the value"
    text = f"{of} of {_the(noun, name)} {'is' if count == 1 else 'are'} wrong"
    hint = _value_hint(given, wanted, off, size, inputs)
    return Difference(text, f"{_number(given[at])}{place}", f"{_number(wanted[at])}", hint)


def _value_hint(given, wanted, off, size, inputs):
    if given.dtype.kind == "b":
        inverted = given.size > 1 and (given == ~wanted).all()
        return "True and False are swapped: the mask is inverted" if inverted else ""
    if np.isfinite(wanted).all() and not np.isfinite(given).all():
        count = int((~np.isfinite(given)).sum())
        text = f"{count} of {given.size} values are NaN or infinite: something overflows, or is 0/0"
        return f"{text}, as in the softmax of a row whose keys are all masked"
    if given.dtype == np.float32 and wanted.dtype == np.float64 and off.max() < 1e-5 * size:
        return "float32 is too coarse here: give new tensors the dtype of the arguments"
    if given.size > _LARGEST or not np.isfinite(wanted).all():
        return ""
    hints = explain_result(given.astype(float), wanted.astype(float), inputs)
    return hints[0].text.rstrip(".") if hints else ""


def _shape_hint(given, wanted):
    """If the result is correct up to swapped axes, an axis of size 1 or a missing sum, say so."""
    if given.size == wanted.size and given.dtype.kind == "f":
        if given.ndim == wanted.ndim:
            for i in range(given.ndim):
                for j in range(i):
                    moved = given.swapaxes(i, j)
                    if moved.shape == wanted.shape and np.allclose(moved, wanted):
                        return f"the values are correct, but axes {j} and {i} are swapped"
        elif np.allclose(given.reshape(wanted.shape), wanted):
            keeps = "keepdim=True (in NumPy, keepdims=True) keeps it"
            more = f"missing: {keeps}" if given.ndim < wanted.ndim else "superfluous"
            return f"the values are correct, but an axis of size 1 is {more}"
    if given.size > wanted.size and given.ndim >= wanted.ndim:
        lead = given.ndim - wanted.ndim
        ones = [i for i, size in enumerate(wanted.shape, lead) if size == 1]
        axes = (*range(lead), *(i for i in ones if given.shape[i] != 1))
        summed = given.sum(axes, keepdims=True)
        if summed.shape[lead:] == wanted.shape and np.allclose(
            summed.reshape(wanted.shape), wanted
        ):
            where = f"axis {axes[0]}" if len(axes) == 1 else f"axes {axes}"
            return f"the sum over {where} is missing: the function broadcasts this argument"
    return ""


def _the(noun, name):
    return f"{noun}{name}" if name else f"the {noun}"


def _kind(value):
    """Describe a value by its type, and by its shape, length or text."""
    if isinstance(value, (Tensor, np.ndarray)):
        kind = "a tensor" if isinstance(value, Tensor) else "an array"
        return f"{kind} of shape {tuple(value.shape)}"
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)}"
    return _short(value) if value is None else f"{_short(value)} ({type(value).__name__})"


def _short(value):
    text = " ".join(_plain(value).split())
    return text if len(text) <= 60 else text[:57] + "..."


def _plain(value):
    """Return `repr(value)`, but with numbers rounded to four digits and without NumPy's types."""
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        start, *_, end = repr(value[:0])
        comma = "," if isinstance(value, tuple) and len(value) == 1 else ""
        return f"{start}{', '.join(map(_plain, value))}{comma}{end}"
    if isinstance(value, (float, np.floating)):
        return f"{value + 0.0:.4g}"
    return str(value) if isinstance(value, np.generic) else repr(value)


def _entry(value):
    return repr(value) if isinstance(value, str) else _number(value)


def _number(value):
    return f"{value + 0.0:.6g}" if np.asarray(value).dtype.kind in "fc" else str(value)
