"""Check: a call of a learner's function, and the library's call to compare it with."""

from dataclasses import dataclass, field

import numpy as np

__all__ = ["Check", "normal", "same", "with_ids"]


@dataclass(frozen=True)
class Check:
    """A call of a learner's function, and the same call to the library.

    Parameters
    ----------
    function : str
        Name of the function, such as "Tensor.sum".
    kind : {"value", "tensor", "module", "plain"}
        Form in which the function gets the float64 inputs. "value": as Values. "tensor": as
        Tensors. "module": as an input x and a nested dict p of parameters, all of them Tensors.
        "plain": as NumPy arrays.
    draw : callable
        `draw(rng)` returns the inputs, a dict of arrays.
    mine : callable
        Call of the learner's function: `mine(m, **inputs)`, where m is the learner's module, or
        `mine(m, x, p)` for kind "module".
    library : callable
        The same call to the library, `library(**inputs)`. For kind "module", `library()` returns
        the library's module.
    what : str, default ""
        How this call differs from the function's other calls.
    aspect : str, default ""
        Property that the call tests besides correct values, such as "float32".
    mistakes : dict of str to callable, optional
        Likely mistakes: maps a description to a function like `library` that makes the mistake.
    wrong_gradients : dict of str to callable, optional
        Likely mistakes in the gradient of the first input, in the form of `mistakes`. These
        functions also take the cotangent, which is the gradient of the output.
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
    """Return a function that draws what `draw` draws, and also ids from 0 to `below` - 1."""
    return lambda rng: {**draw(rng), "ids": rng.integers(below, size=shape)}


def same(function, draw, call, what):
    """Return a Check that makes the same call with the learner's tensors and the library's."""
    return Check(function, "tensor", draw, lambda m, **inputs: call(**inputs), call, what)
