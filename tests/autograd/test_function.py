"""PyTorch's names on the context of a Function."""

import numpy as np

import minitorch_attn as mt
from minitorch_attn.autograd import Function, gradcheck, gradgradcheck


class Product(Function):
    needed = None

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx, grad):
        Product.needed = ctx.needs_input_grad
        a, b = ctx.saved_tensors
        return grad * b, grad * a


def test_pytorchs_names_save_and_return_the_same(make):
    a, b = make(3, 5), make(3, 5)
    assert gradcheck(Product.apply, (a, b))
    assert gradgradcheck(Product.apply, (a, b))


def test_needs_input_grad_says_which_input_needs_a_gradient(make):
    a, b = make(3, 5), make(3, 5).detach()
    Product.apply(a, b).sum().backward()
    assert Product.needed == (True, False)
    np.testing.assert_array_equal(a.grad.numpy(), b.numpy())
    Product.apply(b, mt.ones_like(b).requires_grad_()).sum().backward()
    assert Product.needed == (False, True)
