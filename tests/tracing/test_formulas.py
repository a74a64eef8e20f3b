"""Formulas: every Function has both, and those that can be evaluated agree with the code."""

import importlib
import math
import pkgutil
import re

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.autograd.function import Function
from minitorch_attn.tracing.formulas import formula, labels, name_of

for found in pkgutil.walk_packages(mt.__path__, "minitorch_attn."):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)


def functions(of=Function):
    """Every Function of the package."""
    for cls in of.__subclasses__():
        if cls.__module__.startswith("minitorch_attn."):
            yield cls
        yield from functions(cls)


BY_NAME = {name_of(cls): cls for cls in functions()}
FORMULAS = {name: formula(cls) for name, cls in BY_NAME.items()}


def test_every_function_states_both_formulas_in_its_docstring():
    assert len(BY_NAME) > 100
    fields = re.compile(r"\A.*\n\n +Forward: +\S.*\n( {8,}.*\n)* +Backward: +\S")
    assert [name for name, cls in BY_NAME.items() if not fields.match(cls.__doc__ or "")] == []


def test_no_two_functions_share_a_name():
    assert len(BY_NAME) == len(list(functions()))


@pytest.mark.parametrize("name", sorted(FORMULAS))
def test_backward_speaks_of_gradients_that_exist(name):
    """grad_a and grad_y are an input and an output, unless defined by other letters."""
    inputs, outputs = labels(BY_NAME[name], 12, 3)
    letters = {f"grad_{x}" for x in (*inputs, *outputs)}
    mentioned = set(re.findall(r"\bgrad_[a-z]+[0-9]*(?:_[a-z]+)*", FORMULAS[name][1]))
    sequences = {"grad_h_t", "grad_x_t", "grad_c_t", "grad_h", "grad_c", "grad_x"}
    indexed = {f"{letter}_{i}" for letter in letters for i in ("i", "j", "ij", "k", "last")}
    extra = sequences if "Sequence" in name else set()
    assert mentioned <= letters | indexed | extra


def sum_to(grad, like):
    """What broadcasting repeated, added up."""
    shape = np.shape(like)
    grad = np.asarray(grad)
    while grad.ndim > len(shape):
        grad = grad.sum(0)
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and grad.shape[i] != 1)
    return grad.sum(axes, keepdims=True) if axes else grad


NAMES = {
    "abs": np.abs, "sign": np.sign, "sqrt": np.sqrt, "log": np.log, "exp": np.exp, "sin": np.sin,
    "cos": np.cos, "tan": np.tan, "tanh": np.tanh, "floor": np.floor, "pi": math.pi,
    "erf": np.vectorize(math.erf), "max": np.maximum, "min": np.minimum, "where": np.where,
    "sum_to": sum_to,
}  # fmt: skip
ALONG = {
    **NAMES,
    "sum": lambda x: x.sum(-1, keepdims=True),
    "mean": lambda x: x.mean(-1, keepdims=True),
}
ONE, TWO = ((3, 5),), ((3, 5), (5,))
KEPT = {"axis": (1,), "keepdims": True}
# name: (shapes of the inputs, settings); all inputs are drawn from (0.2, 0.9).
COMPUTED = {
    **{f"arithmetic.{n}": (TWO, {}) for n in ("Add", "Sub", "Mul", "Div")},
    **{f"arithmetic.{n}": (ONE, {}) for n in ("Neg", "Abs")},
    **{f"power.{n}": (ONE, {}) for n in ("Square", "Sqrt", "Rsqrt", "Reciprocal")},
    "power.PowerOfNumber": (ONE, {"exponent": 1.7}),
    "power.Power": (TWO, {}),
    **{f"exp_log.{n}": (ONE, {}) for n in ("Exp", "Expm1", "Log", "Log1p")},
    "exp_log.LogToBase": (ONE, {"base": 2}),
    **{f"trigonometric.{n}": (ONE, {}) for n in ("Sin", "Cos", "Tan", "Erf")},
    **{f"sigmoid.{n}": (ONE, {}) for n in ("Tanh", "Sigmoid", "LogSigmoid")},
    "sigmoid.Softplus": (ONE, {"beta": 1.3, "threshold": 20.0}),
    "sigmoid.LogAddExp": (TWO, {}),
    "relu.Relu": (ONE, {}),
    "relu.LeakyRelu": (ONE, {"slope": 0.3}),
    "relu.Elu": (ONE, {"alpha": 1.3, "scale": 1.1, "rate": 0.7}),
    "relu.HardTanh": (ONE, {"low": 0.3, "high": 0.7}),
    **{f"gelu.{n}": (ONE, {}) for n in ("Gelu", "GeluTanh", "Silu", "Mish", "HardSwish")},
    "lerp.Lerp": (((3, 5), (5,), (3, 1)), {}),
    "rounding.Zero": (ONE, {}),
    "rounding.Sign": (ONE, {}),
    "rounding.Remainder": (TWO, {}),
    "where.Clamp": (ONE, {"low": 0.3, "high": 0.7}),
    "dropout.Dropout": (TWO, {"scale": 1.7}),
    "loss_regression.BinaryCrossEntropy": (((3, 5), (3, 5)), {}),
    "softmax.Softmax": (ONE, {"axis": 1}),
    "softmax.LogSoftmax": (ONE, {"axis": 1}),
    "softmax.LogSumExp": (ONE, {"axes": (1,), "keepdims": True}),
    "variance.Var": (ONE, {**KEPT, "correction": 1}),
    "variance.Std": (ONE, {**KEPT, "correction": 1}),
    "vector_norm.EuclideanNorm": (ONE, KEPT),
    "vector_norm.PNorm": (ONE, {**KEPT, "p": 3.0}),
}


def parts(text):
    """{"c": "a + b"} from "c = a + b", of several separated by commas outside brackets."""
    depth, pieces, start = 0, [], 0
    for i, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            pieces.append(text[start:i])
            start = i + 1
    pieces.append(text[start:])
    return dict(re.split(r" = ", piece.strip(), maxsplit=1) for piece in pieces)


def compute(text, names):
    """The values of all left sides; those that are used by others come after them."""
    todo = {left.replace("'", "_"): right.replace("'", "_") for left, right in parts(text).items()}
    found = {}
    for _ in range(len(todo)):
        for left, right in todo.items():
            if left not in found:
                try:
                    found[left] = eval(right.replace("^", "**"), {**names, **found})
                except NameError:
                    continue
    assert sorted(found) == sorted(todo)
    return found


@pytest.mark.parametrize("name", sorted(COMPUTED))
def test_the_formula_is_what_the_code_computes(name, rng, device):
    cls, (shapes, settings) = BY_NAME[name], COMPUTED[name]
    letters, _ = labels(cls, len(shapes), 1)
    inputs = [
        mt.tensor(rng.uniform(0.2, 0.9, shape), device=device).requires_grad_(
            f"grad_{letter} =" in FORMULAS[name][1]
        )
        for letter, shape in zip(letters, shapes, strict=True)
    ]
    output = cls.apply(*inputs, **settings)
    cotangent = rng.uniform(0.5, 1.5, output.shape)
    output.backward(mt.tensor(cotangent, device=device))
    given, (made,) = labels(cls, len(inputs), 1)
    forward, backward = FORMULAS[name]
    names = {**(ALONG if shapes == ONE else NAMES), **settings, "n": 5}
    names |= {letter: x.numpy() for letter, x in zip(given, inputs, strict=True)}
    (y,) = compute(forward, names).values()
    np.testing.assert_allclose(output.numpy(), y, rtol=1e-12)
    names |= {made: output.numpy(), f"grad_{made}": cotangent}
    grads = compute(backward, names)
    for letter, x in zip(given, inputs, strict=True):
        if x.grad is not None:
            wanted = np.broadcast_to(grads[f"grad_{letter}"], x.shape)
            np.testing.assert_allclose(x.grad.numpy(), wanted, rtol=1e-10, atol=1e-15)
    assert any(x.grad is not None for x in inputs)


def test_the_fields_of_a_docstring_are_read():
    class Cube(Function):
        """The cube.

        Forward:  y = x^3
        Backward: grad_x = grad_y * 3 * x^2,
            n = 3

        Derivation: dy/dx = 3 x^2.
        """

    assert formula(Cube) == ("y = x^3", "grad_x = grad_y * 3 * x^2, n = 3")


def test_a_docstring_without_fields_is_read_by_its_paragraphs():
    class Cube(Function):
        """y = x^3.

        Derivative: dy/dx = 3 x^2.
        Saved: x.
        """

    class Silent(Function):
        pass

    assert formula(Cube) == ("y = x^3.", "dy/dx = 3 x^2.")
    assert formula(Silent) == ("", "")
    assert labels(BY_NAME["cat_split.Cat"], 3, 1) == (["x_0", "x_1", "x_2"], ["y"])
    assert labels(BY_NAME["matmul.MatMul"], 2, 1) == (["a", "b"], ["c"])
