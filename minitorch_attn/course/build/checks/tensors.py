"""Checks of steps 1 to 3 of `mta build`: values, tensors, softmax and cross-entropy."""

import numpy as np

from .... import ops
from ....autograd import sum_to_shape
from ....nn import functional as F
from ....tensor import tensor
from .check import Check, normal, same, with_ids

__all__ = ["CHECKS"]


def _positive(**shapes):
    return lambda rng: {n: np.asarray(rng.uniform(0.5, 2, size=s)) for n, s in shapes.items()}


# Step 1


def _by_hand(m, a, b):
    """Build the graph of (a * b) * (a * b + a) by hand, so that only `backward` is tested."""
    c = m.Value(a.data * b.data, (a, b), lambda g: (g * b.data, g * a.data))
    d = m.Value(c.data + a.data, (c, a), lambda g: (g, g))
    return m.Value(c.data * d.data, (c, d), lambda g: (g * d.data, g * c.data))


def _pulls(m):
    """Chain six sums v + v, and return how often `backward` calls the `pull` of each."""
    calls = [0] * 6
    value = m.Value(1.0)
    for number in range(len(calls)):

        def pull(g, number=number):
            calls[number] += 1
            return g, g

        value = m.Value(2.0 * value.data, (value, value), pull)
    value.backward()
    return calls


def _fields(m):
    value = m.Value(2.5, (m.Value(1.0),), lambda g: (g,))
    return [
        value.data,
        float(value.grad),
        len(value.parents),
        value.pull(3.0)[0],
        m.Value(1.0).data,
    ]


def _lifted(m):
    class Other(m.Value):
        pass

    kept, made = m.Value(2.0), Other(1.0).lift(3.0)
    return [str(m.Value(1.0).lift(kept) is kept), type(made).__name__, str(made.data)]


_AB = _positive(a=(), b=())
_VALUES = [
    Check("Value.__init__", "plain", normal(), _fields, lambda: [2.5, 0.0, 1, 3.0, 1.0],
          "data, grad, the number of parents, and pull(3.0)"),
    Check("Value.backward", "value", _AB, _by_hand, lambda a, b: (a * b) * (a * b + a),
          "c = a b, d = c + a, end = c d: c and a are used twice"),
    Check("Value.backward", "plain", normal(), _pulls, lambda: [1] * 6,
          "6 sums v + v in a chain: how often each pull is called. One call for every path gives "
          "correct gradients, too, but training a GPT would take years"),
    Check("Value.lift", "plain", normal(), _lifted, lambda: ["True", "Other", "3.0"],
          "a Value is kept, a number becomes an object of type(self)"),
    Check("Value.__add__", "value", _AB, lambda m, a, b: a + b + a, lambda a, b: a + b + a,
          "a + b + a"),
    Check("Value.__add__", "value", _AB, lambda m, a, b: 2.0 + a + 1.0 + b,
          lambda a, b: 2.0 + a + 1.0 + b, "2.0 + a + 1.0 + b"),
    Check("Value.__mul__", "value", _AB, lambda m, a, b: a * b * a * 3.0,
          lambda a, b: a * b * a * 3.0, "a * b * a * 3.0"),
    Check("Value.__pow__", "value", _AB, lambda m, a, b: a**3 + b**-0.5,
          lambda a, b: a**3 + b**-0.5, "a**3 + b**-0.5"),
    Check("Value.exp", "value", _AB, lambda m, a, b: (a * b).exp(), lambda a, b: (a * b).exp(),
          "(a * b).exp()"),
    Check("Value.exp", "plain", _positive(x=(3,)), lambda m, x: m.Value(x).exp().data,
          lambda x: np.exp(x),
          "the exp of an array of 3 numbers, for step 2: np.exp takes arrays, math.exp does not"),
    Check("Value.log", "value", _AB, lambda m, a, b: (a / b - a * -2.0).log(),
          lambda a, b: (a / b + a * 2.0).log(), "(a / b - a * -2.0).log()"),
    Check("Value.log", "plain", _positive(x=(3,)), lambda m, x: m.Value(x).log().data,
          lambda x: np.log(x),
          "the log of an array of 3 numbers, for step 2: np.log takes arrays, math.log does not"),
]  # fmt: skip


# Step 2


def _unbroadcast(shape):
    return Check(
        "unbroadcast", "plain", normal(grad=(2, 3, 5)), lambda m, grad: m.unbroadcast(grad, shape),
        lambda grad: sum_to_shape(grad, shape),
        f"a gradient (2, 3, 5) for an array {shape}",
    )  # fmt: skip


_TENSORS = [
    *map(_unbroadcast, [(2, 3, 5), (5,), (3, 1), (2, 1, 5), ()]),
    Check("unbroadcast", "plain", normal(), lambda m: m.unbroadcast(1.0, ()),
          lambda: np.array(1.0), "the number 1.0, with which backward starts, for an array ()"),
    same("Tensor.__add__", normal(x=(3, 5), b=(5,)), lambda x, b: x + b, "(3, 5) + (5,)"),
    same("Tensor.__add__", normal(x=(3, 1), b=(2, 1, 5)), lambda x, b: 1.0 + x + b + x,
          "1.0 + (3, 1) + (2, 1, 5) + (3, 1)"),
    same("Tensor.__mul__", normal(x=(2, 3, 5), b=(3, 1)), lambda x, b: x * b * x * 2.0,
          "(2, 3, 5) * (3, 1), with x used twice"),
    same("Tensor.__matmul__", normal(a=(3, 5), b=(5, 7)), lambda a, b: a @ b, "(3, 5) @ (5, 7)"),
    same("Tensor.__matmul__", normal(a=(2, 3, 5), b=(5, 7)), lambda a, b: a @ b,
          "(2, 3, 5) @ (5, 7)"),
    same("Tensor.__matmul__", normal(a=(2, 1, 3, 5), b=(7, 5, 2)), lambda a, b: a @ b,
          "(2, 1, 3, 5) @ (7, 5, 2)"),
    same("Tensor.sum", normal(x=(2, 3, 5)), lambda x: x.sum(), "sum()"),
    same("Tensor.sum", normal(x=(2, 3, 5)), lambda x: x.sum(axis=1), "sum(axis=1)"),
    same("Tensor.sum", normal(x=(2, 3, 5)), lambda x: x.sum(axis=-1, keepdims=True),
          "sum(axis=-1, keepdims=True)"),
    Check("Tensor.mean", "tensor", normal(x=(2, 3, 5)), lambda m, x: x.mean(),
          lambda x: x.mean(-1, keepdim=True), "(2, 3, 5)",
          mistakes={"the last axis is lost: `keepdims=True` keeps it": lambda x: x.mean(-1),
                    "it is the mean over all axes, not over the last one": lambda x: x.mean()}),
    same("Tensor.reshape", normal(x=(2, 3, 5)), lambda x: x.reshape(5, 6), "to (5, 6)"),
    same("Tensor.swapaxes", normal(x=(2, 3, 5)), lambda x: x.swapaxes(0, -1), "axes 0 and -1"),
]  # fmt: skip

# Step 3


def _far(rng):
    return {"x": rng.normal(size=(3, 5)) + np.array([[800.0], [0.0], [-800.0]])}


def _far_from_targets(rng):
    """Draw targets that are not the class with the largest logit.

    If that class is the target, its probability p is almost 1, and the gradient p - 1 may be only a
    rounding error.
    """
    x = _far(rng)["x"]
    return {"x": x, "ids": (x.argmax(1) + rng.integers(1, 5, 3)) % 5}


def _over(axis, largest):
    """Return a softmax that sums over `axis`, and subtracts the maximum over the axis `largest`."""

    def library(x):
        e = (x - tensor(x.detach().numpy().max(axis=largest, keepdims=True))).exp()
        return e / tensor(e.detach().numpy().sum(axis=axis, keepdims=True))

    return library


_AXES = {  # the maximum is over the correct axis, or over the same axis as the sum
    f"the sum is over {where}, not over the last axis{more}": _over(axis, largest)
    for axis, where in [(0, "axis 0"), (1, "axis 1"), (None, "all axes")]
    for largest, more in [(-1, ""), (axis, ", and so is the maximum")]
}


def _soft(x):
    return ops.softmax(tensor(x), -1).numpy()


def _without_sum(x, cotangent):
    return _soft(x) * cotangent


def _without_rest(x, cotangent):
    return _soft(x) * (1.0 - _soft(x)) * cotangent


_LOSSES = [
    Check("softmax", "tensor", normal(x=(2, 3, 5)), lambda m, x: m.softmax(x),
          lambda x: ops.softmax(x, -1), "(2, 3, 5)", mistakes=_AXES,
          wrong_gradients={"sum(dy y) is missing: dx = y (dy - sum(dy y))": _without_sum,
                           "it is the formula y (1 - y) of a sigmoid: sum(dy y) is over the row":
                           _without_rest}),
    Check("softmax", "tensor", _far, lambda m, x: m.softmax(x), lambda x: ops.softmax(x, -1),
          "rows near 800, 0 and -800"),
    Check("cross_entropy", "tensor", with_ids(normal(x=(3, 5, 7)), 7, (3, 5)),
          lambda m, x, ids: m.cross_entropy(x, ids),
          lambda x, ids: F.cross_entropy(x.reshape(-1, 7), tensor(ids).reshape(-1)),
          "logits (3, 5, 7), targets (3, 5)"),
    Check("cross_entropy", "tensor", _far_from_targets,
          lambda m, x, ids: m.cross_entropy(x * 100.0, ids) * 3.0,
          lambda x, ids: F.cross_entropy(x * 100.0, tensor(ids)) * 3.0,
          "3.0 times the loss of logits so far apart that some p are 0"),
]  # fmt: skip

CHECKS = [*_VALUES, *_TENSORS, *_LOSSES]
