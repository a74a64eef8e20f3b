"""Tensor habits from PyTorch: explain errors of a Function that treats arrays as tensors.

PyTorch gives tensors to `forward` and `backward`. This library gives them arrays, so `x.clamp(...)`
in a method of a user's Function raises NumPy's AttributeError. The functions below run only after
such an error, and name the class, the method and NumPy's name for the operation.
"""

import re
import traceback
from numbers import Number

import numpy as np

from .. import backend
from ..errors import DTypeError, MissingNameError
from ..tensor import Tensor

__all__ = ["explain_backward", "explain_call", "refuse_output"]

_PAGE = 'see "Functions with a backward pass" in docs/coming_from_pytorch.md'
_IN_NUMPY = {  # tensor method -> what to write for an array x
    "clamp": "np.clip(x, low, high)",
    "clone": "x.copy()",
    "contiguous": "np.ascontiguousarray(x)",
    "cpu": "x itself",
    "detach": "x itself",
    "dim": "x.ndim",
    "double": 'x.astype("float64")',
    "expand": "np.broadcast_to(x, shape)",
    "expand_as": "np.broadcast_to(x, y.shape)",
    "float": 'x.astype("float32")',
    "masked_fill": "np.where(mask, value, x)",
    "mm": "x @ y",
    "bmm": "x @ y",
    "matmul": "x @ y",
    "mul": "x * y",
    "new_zeros": "np.zeros(shape, x.dtype)",
    "norm": "np.linalg.norm(x)",
    "numel": "x.size",
    "numpy": "x itself",
    "permute": "x.transpose(...)",
    "pow": "x ** y",
    "relu": "np.maximum(x, 0)",
    "sigmoid": "1 / (1 + np.exp(-x))",
    "t": "x.T",
    "to": "x.astype(dtype)",
    "type": "x.astype(dtype)",
    "type_as": "x.astype(y.dtype)",
    "unsqueeze": "np.expand_dims(x, axis)",
}
_OF_CONTEXT = {  # attribute of PyTorch's ctx -> what to write in this library
    "mark_dirty": "return a new array: an operation must not change its inputs",
    "mark_non_differentiable": "leave the call out: integer and boolean outputs have no gradient",
    "set_materialize_grads": "leave the call out: a missing gradient arrives as zeros",
    "save_for_forward": "leave the call out: there is no forward-mode derivative",
    "once_differentiable": "leave the call out",
}


def explain_call(error, function, method):
    """Raise an error that names `function.method`, if code written for PyTorch caused `error`.

    Parameters
    ----------
    error : Exception
        The error that the method raised.
    function : type
        Subclass of Function.
    method : str
        "forward" or "backward".
    """
    where = f"{function.__name__}.{method}"
    if isinstance(error, AttributeError) and error.name is not None:
        if isinstance(error.obj, np.generic) or backend.is_array(error.obj):
            _explain_method(error, where)
        elif type(error.obj).__name__ == "Context" and error.name in _OF_CONTEXT:
            raise MissingNameError(
                f"{where}: ctx does not have PyTorch's method {error.name}",
                got=_place(error, f"ctx.{error.name}"),
                hint=f"{_OF_CONTEXT[error.name]}; {_PAGE}",
            ) from error
    elif isinstance(error, TypeError):
        _explain_argument(error, function, where)


def _explain_method(error, where):
    name = error.name
    if not hasattr(Tensor, name):
        return
    plain = _IN_NUMPY.get(name.removesuffix("_"))
    if plain is None and hasattr(np, name):
        plain = f"np.{name}(x)"
    instead = f"{plain} instead of x.{name}" if plain else "NumPy's functions and array methods"
    raise MissingNameError(
        f"{where}: receives arrays, not tensors",
        got=_place(error, f"x.{name}"),
        hint=f"write {instead}, where x is the array; {_PAGE}",
    ) from error


def _explain_argument(error, function, where):
    named = re.search(r"unexpected keyword argument '(dim|keepdim)'", str(error))
    if named:
        numpys = {"dim": "axis", "keepdim": "keepdims"}[named[1]]
        raise DTypeError(
            f"{where}: receives arrays, whose methods do not take {named[1]}=",
            got=_place(error, f"{named[1]}="),
            hint=f"write {numpys}= as in NumPy; {_PAGE}",
        ) from error
    if hasattr(function, "setup_context") and "positional argument" in str(error):
        raise DTypeError(
            f"{where}: ctx must be the first argument",
            got=f"{error}, and a method setup_context",
            hint=f"write forward(ctx, ...) and save there, without setup_context; {_PAGE}",
        ) from error


def _place(error, fallback):
    """Return the source line that raised the error, or `fallback` if it is unavailable."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{last.line}   (line {last.lineno} of {last.filename})" if last.line else fallback


def refuse_output(function, value, method="forward"):
    """Raise the error for a result of `function.method` that is not an array."""
    seen = f"a Tensor of shape {value.shape}" if isinstance(value, Tensor) else f"{value!r:.60}"
    cause = "mt.exp returns a tensor, np.exp an array" if isinstance(value, Tensor) else None
    several = isinstance(value, list)
    raise DTypeError(
        f"{function.__name__}.{method} must return an array or a tuple of arrays",
        got=seen,
        hint=f"return a tuple instead of a list; {_PAGE}" if several
        else f"compute with NumPy: {cause or 'np.asarray(...) converts numbers'}; {_PAGE}",
    )  # fmt: skip


def explain_backward(error, node, roots, create_graph):
    """Raise an error that names the class, if a `backward` written for PyTorch caused `error`.

    Parameters
    ----------
    error : Exception
        Error that stopped the backward pass.
    node : Context or Leaf
        Node that the pass had reached.
    roots : sequence of Tensor
        Tensors from which the pass started.
    create_graph : bool
    """
    function = getattr(node, "function", None)
    if function is not None:
        explain_call(error, function, "backward")
    value = getattr(error, "obj", None)
    if create_graph or not isinstance(value, (Tensor, Number)):
        return
    if isinstance(value, Number) and function is not None:
        refuse_output(function, value, "backward")
    suspects = _functions_of_users([root._edge[0] for root in roots if root._edge])
    if isinstance(value, Tensor) and suspects:  # the Tensor came from an operation before this one
        refuse_output(suspects[0], value, "backward")


def _functions_of_users(nodes):
    """Return the user-defined Functions in a graph."""
    reached, package = dict.fromkeys(nodes), __name__.partition(".")[0]
    while nodes:
        inputs = [edge[0] for node in nodes for edge in node.edges if edge]
        nodes = list(dict.fromkeys(n for n in inputs if n not in reached))
        reached.update(dict.fromkeys(nodes))
    functions = [getattr(node, "function", None) for node in reached]
    return [f for f in functions if f is not None and f.__module__.partition(".")[0] != package]
