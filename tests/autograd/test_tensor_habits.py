"""A Function written as for PyTorch: the error names the class, the method and NumPy's way."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.autograd import Function
from minitorch_attn.errors import DTypeError, MissingNameError


def apply(forward=lambda ctx, x: x * 2, backward=lambda ctx, grad: grad * 2, **names):
    """Run forward and backward of a Function with these methods between two operations."""
    methods = {"forward": forward, "backward": backward, **names}
    cls = type("MyReLU", (Function,), {n: staticmethod(m) for n, m in methods.items()})
    x = mt.tensor([1.0, -2.0], requires_grad=True)
    cls.apply(x * 1).sum().backward()
    return x.grad


def test_the_function_of_pytorchs_tutorial_is_explained():
    def forward(ctx, input):
        ctx.save_for_backward(input)
        return input.clamp(min=0)

    with pytest.raises(MissingNameError, match="MyReLU.forward: receives arrays, not tensors") as e:
        apply(forward)
    assert isinstance(e.value, AttributeError)
    assert "return input.clamp(min=0)" in e.value.got and "np.clip(x" in e.value.hint
    assert "docs/coming_from_pytorch.md" in e.value.hint


@pytest.mark.parametrize(
    ("call", "instead"),
    [(lambda g: g.clone(), "x.copy()"), (lambda g: g.mm(g.t()), "x @ y"), (lambda g: g.t(), "x.T"),
     (lambda g: g.exp(), "np.exp(x)"), (lambda g: g.sum().item() * g.sum().relu(), "np.maximum")],
)  # fmt: skip
def test_a_method_of_tensors_in_backward_is_explained(call, instead):
    with pytest.raises(MissingNameError, match="MyReLU.backward: receives arrays") as e:
        apply(backward=lambda ctx, grad: call(grad))
    assert f"write {instead}" in e.value.hint


def test_an_argument_of_tensors_is_explained():
    with pytest.raises(DTypeError, match="MyReLU.forward.*do not take keepdim=") as e:
        apply(lambda ctx, x: x - x.sum(0, keepdim=True))
    assert "write keepdims=" in e.value.hint


@pytest.mark.parametrize(
    "result", [lambda x: mt.exp(x), lambda x: (mt.exp(x),), lambda x: [np.exp(x)], lambda x: None]
)
def test_a_forward_that_does_not_return_arrays_is_named(result):
    with pytest.raises(DTypeError, match="MyReLU.forward must return an array"):
        apply(lambda ctx, x: result(x))


@pytest.mark.parametrize("result", [mt.exp, lambda grad: 3.0])
def test_a_backward_that_does_not_return_arrays_is_named(result):
    with pytest.raises(DTypeError, match="MyReLU.backward must return an array"):
        apply(backward=lambda ctx, grad: result(grad))


@pytest.mark.parametrize("name", ["mark_dirty", "mark_non_differentiable"])
def test_methods_of_pytorchs_context_are_explained(name):
    def forward(ctx, x):
        getattr(ctx, name)(x)
        return x

    with pytest.raises(MissingNameError, match=f"MyReLU.forward: ctx .* {name}") as e:
        apply(forward)
    assert "return a new array" in e.value.hint or "leave the call out" in e.value.hint


def test_setup_context_is_explained():
    with pytest.raises(DTypeError, match="MyReLU.forward: ctx must be the first argument"):
        apply(lambda x: x, setup_context=lambda ctx, inputs, output: None)


def test_other_errors_keep_their_type_and_text():
    with pytest.raises(AttributeError, match="'numpy.ndarray' object has no attribute 'foo'"):
        apply(lambda ctx, x: x.foo)
    with pytest.raises(TypeError, match="ufunc .add."):
        apply(backward=lambda ctx, grad: grad + "1")
