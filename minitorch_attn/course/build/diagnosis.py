"""Diagnosis of a wrong result: unused parameters, known mistakes, constant factors."""

import numpy as np

from ...gradcheck.clues import Evidence
from ...gradcheck.diagnose import explain, explain_result

__all__ = ["cause", "first_difference", "unused"]

_SAME = 1e-9
_LARGEST = 20_000  # maximum number of entries to examine


def cause(check, name, found, wanted, arrays, mistaken):
    """Return the probable cause of a wrong value or gradient, or "" if there is no clue.

    Parameters
    ----------
    check : Check
    name : str
        "y" for the value, or "d " followed by the name of an input.
    found, wanted : dict of str to array
        Value and gradients of the learner's function and of the library's function.
    arrays : dict of str to array
        Inputs of the check, and the cotangent.
    mistaken : callable
        Takes a function with the parameters of `Check.library`, calls it with the inputs of the
        check, and returns its value as an array.

    Returns
    -------
    str
    """
    if name == "y":
        texts = [unused(found, wanted)] if check.kind == "module" else []
        texts += [text for text, library in check.mistakes.items()
                  if _equal(found.get("y"), mistaken(library))]  # fmt: skip
        text = next(filter(None, texts), "")
        if text or check.kind == "plain":
            return text
    if name == "d " + next(iter(arrays)):
        for text, derive in check.wrong_gradients.items():
            if _equal(found.get(name), derive(**arrays)):
                return text
    if not _comparable(found.get(name), wanted[name]):
        return ""
    inputs = {key: x for key, x in arrays.items() if x.dtype.kind == "f" and key != "cotangent"}
    if name == "y":
        hints = explain_result(np.asarray(found[name], float), wanted[name], inputs)
    else:
        clues = [_evidence(key, found, wanted, arrays, inputs) for key in wanted if key != "y"]
        (clue,) = (item for item in clues if item.name == name[2:])
        hints = explain(clue, clues, deep=False)
    return hints[0].text.rstrip(".") if hints else ""


def unused(found, wanted):
    """Name the first parameter, or group of parameters, whose gradient is missing.

    Examples
    --------
    >>> found = {"y": 0, "d norm1.weight": 0, "d norm1.bias": 0}
    >>> unused(found, {**found, "d norm2.weight": 0, "d norm2.bias": 0})
    'p["norm2"] receives no gradient: it is not used'
    """
    lost = [key[2:] for key in wanted if key.startswith("d ") and key not in found]
    if not lost or len(lost) == len(wanted) - 1:
        return ""
    path, kept = lost[0].split("."), [key[2:] for key in found if key.startswith("d ")]
    for count in range(1, len(path)):  # the largest dict of which nothing is used
        head = ".".join(path[:count]) + "."
        if not any(key.startswith(head) for key in kept):
            path = path[:count]
            break
    place = "".join(f"[{part}]" if part.isdigit() else f'["{part}"]' for part in path)
    return f"p{place} receives no gradient: it is not used"


def first_difference(found, wanted, tolerance):
    """Describe the first training step whose loss is wrong, or return None."""
    off = ~(np.abs(found - wanted) <= tolerance * np.abs(wanted).max())
    if not off.any():
        return None
    step = int(off.argmax())
    text = f"the loss of step {step}, counted from 0, is {found[step]:.6g} instead of "
    agree = "" if step == 0 else "; the losses before it agree"
    return f"{text}{wanted[step]:.6g}{agree}"


def _evidence(key, found, wanted, arrays, inputs):
    derived = found.get(key)
    fits = derived is not None and derived.shape == wanted[key].shape
    return Evidence(
        name=key[2:], value=arrays[key[2:]],
        derived=np.asarray(derived, float) if fits else np.zeros(wanted[key].shape),
        arrived=derived is not None, numeric=wanted[key], jacobian=None,
        cotangent=arrays["cotangent"].ravel(), outputs=[wanted["y"]], inputs=inputs,
    )  # fmt: skip


def _comparable(found, wanted):
    return (
        found is not None and found.shape == wanted.shape and 0 < wanted.size <= _LARGEST
        and found.dtype.kind in "fiu" and wanted.dtype.kind == "f"
        and bool(np.isfinite(found).all() and np.isfinite(wanted).all())
    )  # fmt: skip


def _equal(found, other):
    return (
        found is not None and found.shape == other.shape and 0 < other.size <= _LARGEST
        and found.dtype.kind in "fiu" and other.dtype.kind in "fiu"
        and np.allclose(found, other, rtol=_SAME, atol=_SAME)
    )  # fmt: skip
