"""Check: one call of a function of the learner's file, beside the library's."""

from dataclasses import dataclass, field

import numpy as np

__all__ = ["Check", "normal", "same", "with_ids"]


@dataclass(frozen=True)
class Check:
    """One call of one function.

    Parameters
    ----------
    function : str
        Name of the function, such as "Tensor.sum".
    kind : {"value", "tensor", "module", "plain"}
        What the float64 inputs become: Values, Tensors, an x and a nested dict p of Tensors, or
        plain arrays.
    draw : callable
        `draw(rng)` returns the inputs, a dict of arrays.
    mine : callable
        `mine(m, **inputs)` with the learner's module m; `mine(m, x, p)` for kind "module".
    library : callable
        `library(**inputs)`; for kind "module", `library()` returns the library's module.
    what : str, default ""
        What this call has that the function's other calls do not have.
    aspect : str, default ""
        What a pass shows besides correct values, such as "float32".
    mistakes : dict of str to callable, optional
        Likely mistakes: a text, and a function like `library` whose value the mistake gives.
    wrong_gradients : dict of str to callable, optional
        The same for the gradient of the first input. The functions take the cotangent, too.
    """

    function: str
    kind: str
    draw: object
    mine: object
    library: object
    what: str = ""
    aspect: str = ""
    mistakes: dict = field(default_factory=dict)
    wrong_gradients: dict = field(default_factory=dict)


def normal(**shapes):
    """Return a function that draws normally distributed inputs of these shapes."""
    return lambda rng: {name: np.asarray(rng.normal(size=size)) for name, size in shapes.items()}


def with_ids(draw, below, shape):
    """Return a function that draws ids from 0 to below - 1, too."""
    return lambda rng: {**draw(rng), "ids": rng.integers(below, size=shape)}


def same(function, draw, call, what):
    """Return a Check whose call is the same for the learner's tensors and for the library's."""
    return Check(function, "tensor", draw, lambda m, **inputs: call(**inputs), call, what)
