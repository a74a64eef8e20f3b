"""Clues to the cause of a wrong gradient, and a test of whether a possible cause explains it."""

from dataclasses import dataclass

import numpy as np

__all__ = ["Evidence", "fits"]

_MATCH = 1e-6


@dataclass
class Evidence:
    """What is known about the gradient of one input of a failed check, as evidence for hints.

    Attributes
    ----------
    name : str
    value : array
        Value of the input.
    derived, numeric : array
        Gradients from backward and from finite differences (None if they were not computed).
    arrived : bool
        Whether the backward pass computed a gradient for this input.
    jacobian : array of shape (entries, outputs), or None
        d(output)/d(entry); its product with the cotangent is `numeric`.
    cotangent : array of shape (outputs,)
    outputs : list of array
    inputs : dict of str to array
        All floating-point inputs of the function.
    noun : str, default "gradient"
        Name of `derived` in hints: "result" if the values of a function are compared instead of its
        gradients.
    """

    name: str
    value: np.ndarray
    derived: np.ndarray
    arrived: bool
    numeric: np.ndarray | None
    jacobian: np.ndarray | None
    cotangent: np.ndarray
    outputs: list
    inputs: dict
    noun: str = "gradient"

    @property
    def error(self):
        """Error of each entry, `derived - numeric`."""
        return self.derived - self.numeric

    @property
    def wrong(self):
        """Mask of the entries where `derived` and `numeric` disagree."""
        size = np.maximum(np.abs(self.derived), np.abs(self.numeric))
        return np.abs(self.error) > 1e-6 * np.maximum(size, 1e-3 * size.max(initial=0.0))

    @property
    def cotangents(self):
        """Cotangent, split into one array for each output."""
        ends = np.cumsum([output.size for output in self.outputs])[:-1]
        parts = np.split(self.cotangent, ends)
        return [part.reshape(o.shape) for part, o in zip(parts, self.outputs, strict=True)]


def fits(derived, candidate, match=_MATCH):
    """Return True if `derived` equals `candidate` up to a relative error of `match`.

    Parameters
    ----------
    derived, candidate : array
    match : float

    Returns
    -------
    bool
    """
    if derived.shape != candidate.shape:
        return False
    size = np.linalg.norm(derived)
    return bool(size > 0 and np.linalg.norm(derived - candidate) <= match * size)
