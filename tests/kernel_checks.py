"""Compare a kernel with the composed version of its operation, on random numbers."""

import numpy as np

import minitorch_attn as mt
from minitorch_attn.backend.kernel_table import kernels

TOLERANCE = {"float16": 2e-3, "float32": 2e-5, "float64": 1e-12}


class _Only:
    """Count how often the kernel of an operation runs, inside a `with` block."""

    def __init__(self, name):
        (self.function,) = [f for f in kernels if f.__name__ == name]

    def __enter__(self):
        self.kernel, self.ran = kernels[self.function], []
        outer = self

        class Counted(self.kernel):
            @staticmethod
            def forward(ctx, *arrays, **settings):
                outer.ran.append("forward")
                return outer.kernel.forward(ctx, *arrays, **settings)

            @staticmethod
            def backward(ctx, *grads):
                outer.ran.append("backward")
                return outer.kernel.backward(ctx, *grads)

        kernels[self.function] = Counted
        return self

    def __exit__(self, *error):
        kernels[self.function] = self.kernel


def without_kernel(name):
    """Take an operation's kernel out of the table; return it."""
    (function,) = [f for f in kernels if f.__name__ == name]
    return function, kernels.pop(function)


def assert_kernel_equals_composed(call, name, *inputs, tolerance=None, kinds=None):
    """Compare value, gradients and second derivatives with and without the kernel of `name`.

    `kinds` are the methods of the kernel that must run: by default, `forward` and `backward`.
    """
    leaves = [x for x in inputs if x is not None and x.requires_grad]
    with _Only(name) as counted:
        found = _value_and_grads(call, inputs, leaves)
    wanted_runs = kinds or (["forward", "backward"] if found[0].numel() and leaves else ["forward"])
    assert counted.ran[:1] == ["forward"] and set(wanted_runs) <= set(counted.ran)
    function, kernel = without_kernel(name)
    try:
        expected = _value_and_grads(call, inputs, leaves)
        second = _second(call, inputs, leaves)
    finally:
        kernels[function] = kernel
    bound = tolerance or TOLERANCE[inputs[0].dtype.name]
    for a, b in zip(found, expected, strict=True):
        _close(a, b, bound)
    for a, b in zip(_second(call, inputs, leaves), second, strict=True):
        _close(a, b, 20 * bound)


def _close(a, b, bound):
    assert a.shape == b.shape and a.dtype == b.dtype
    a, b = a.detach().numpy(), b.detach().numpy()
    scale = max(float(np.abs(b).max(initial=0)), 1.0)
    np.testing.assert_allclose(a, b, rtol=0, atol=bound * scale)


def _value_and_grads(call, inputs, leaves):
    y = call(*inputs)
    cotangent = _cotangent(y)
    return [y, *(mt.autograd.grad(y, leaves, cotangent) if leaves else ())]


def _second(call, inputs, leaves):
    if not leaves:
        return []
    y = call(*inputs)
    grads = mt.autograd.grad(y, leaves, _cotangent(y), create_graph=True)
    total = sum((g * g).sum() for g in grads)
    if not total.requires_grad:  # the operation is linear
        return []
    return mt.autograd.grad(total, leaves, allow_unused=True, materialize_grads=True)


def _cotangent(y):
    values = np.random.default_rng(7).uniform(-1, 1, y.shape).astype(y.dtype)
    return mt.tensor(values, device=y.device)
