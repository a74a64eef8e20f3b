"""Explain the wrong gradients of a submission with the hints of a gradient check."""

import numpy as np

from ...gradcheck.clues import Evidence
from ...gradcheck.diagnose import explain
from ...gradcheck.report import wrapped

__all__ = ["gradient_report"]

_LARGEST = 4096  # maximum number of entries; the search for causes tries many rearrangements
_PREFIX = "grad"


def gradient_report(check, arrays):
    """Make a table of a check's gradients, with possible causes of errors.

    Parameters
    ----------
    check : Check
        Check whose expected arrays named `grad_NAME` or `grad` are gradients.
    arrays : dict of str to ndarray
        Arrays that the submission returned.

    Returns
    -------
    str or None
        Text table of the gradients that have the correct shape. None if their values are all
        correct.
    """
    rows, clues = [], []
    for name, expected in check.expected.items():
        found, expected = arrays.get(name), np.asarray(expected)
        if not name.startswith(_PREFIX) or type(found) is not np.ndarray:
            continue
        kinds = found.dtype.kind + expected.dtype.kind
        if found.shape != expected.shape or kinds != "ff" or not expected.size:
            continue
        row = _row(name, found.astype(float), expected.astype(float), check.rtol)
        rows.append(row)
        if found.size <= _LARGEST:
            clues.append(_clue(check, name, found, expected, row[0] == "WRONG"))
    if all(row[0] == "ok" for row in rows):
        return None
    lines = _aligned([("", "gradient", "shape", "error", "at", "yours", "correct"), *rows])
    for clue, wrong in clues:
        for hint in explain(clue, [other for other, _ in clues], True) if wrong else ():
            lines += ["", *wrapped(hint.text, "    ", f"  {clue.name}: ")]
    return "\n".join(lines)


def _row(name, found, expected, rtol):
    error = np.where(np.isfinite(found), abs(found - expected), np.inf)
    scale = max(abs(expected).max(), np.finfo(float).tiny)
    index = np.unravel_index(np.argmax(error), error.shape)
    largest = float(error[index] / scale)
    place = f"[{', '.join(str(int(i)) for i in index)}]"
    return (
        "ok" if largest <= rtol else "WRONG", name, str(found.shape), f"{largest:.1e}", place,
        f"{found[index]:.6g}", f"{expected[index]:.6g}",
    )  # fmt: skip


def _clue(check, name, found, expected, wrong):
    inputs = {key: np.asarray(x) for key, x in check.inputs.items() if key != "grad"}
    inputs = {key: x for key, x in inputs.items() if x.dtype.kind == "f"}
    of = name.removeprefix("grad_")
    grad = np.asarray(check.inputs.get("grad", np.ones(())), dtype=float)
    clue = Evidence(
        name=of, value=inputs.get(of, np.zeros(expected.shape)), derived=found.astype(float),
        arrived=True, numeric=expected.astype(float), jacobian=None, cotangent=grad.ravel(),
        outputs=[grad], inputs=inputs,
    )  # fmt: skip
    return clue, wrong


def _aligned(rows):
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        lines.append(("  " + "  ".join(cells)).rstrip())
    return lines
