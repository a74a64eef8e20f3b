"""Checks of step 8 of `mta build`: clipping, Adam and the training loop."""

from types import SimpleNamespace

import numpy as np

from .... import nn
from ....nn import functional as F
from ....nn.utils import clip_grad_norm_
from ....optim import AdamW
from ....tensor import tensor
from ....training.recipes.base import Recipe
from ..trees import flat, nested
from .check import Check, normal, with_ids
from .models import HEADS, drawn, small_gpt

__all__ = ["CHECKS"]


def _tree(m):
    return {"a": m.Tensor(np.array([1.0])), "b": [{"c": m.Tensor(np.array([2.0]))}, {}],
            "d": {"e": m.Tensor(np.array([3.0])), "f": m.Tensor(np.array([4.0]))}}  # fmt: skip


def _pair(make, x, y, grad_x, grad_y):
    pair = [make(x.copy()), make(y.copy())]
    pair[0].grad, pair[1].grad = grad_x.copy(), grad_y.copy()
    return pair


def _clipped(limit):
    def mine(m, **arrays):
        pair = _pair(m.Tensor, **arrays)
        return [float(m.clip(pair, limit)), *pair[0].grad.ravel(), *pair[1].grad.ravel()]

    return mine


def _clipped_by_library(limit):
    def library(x, y, grad_x, grad_y):
        pair = [nn.Parameter(tensor(x)), nn.Parameter(tensor(y))]
        pair[0].grad, pair[1].grad = tensor(grad_x), tensor(grad_y)
        norm = clip_grad_norm_(pair, limit).item()
        return [norm, *pair[0].grad.numpy().ravel(), *pair[1].grad.numpy().ravel()]

    return library


def _moments(adam):
    one = adam.m is adam.v
    return [str(len(adam.m)), str(len(adam.v)), "one list" if one else "two lists"]


def _adam(m, x, y, grad_x, grad_y):
    pair = _pair(m.Tensor, x, y, grad_x, grad_y)
    adam = m.Adam(pair)
    for _ in range(3):
        adam.step(0.01)
        pair[0].grad = pair[0].grad * -0.5
    return [*pair[0].data.ravel(), *pair[1].data.ravel()]


def _adam_by_library(x, y, grad_x, grad_y):
    pair = [nn.Parameter(tensor(x)), nn.Parameter(tensor(y))]
    pair[0].grad, pair[1].grad = tensor(grad_x), tensor(grad_y)
    groups = [{"params": pair[:1], "weight_decay": 0.1}, {"params": pair[1:], "weight_decay": 0.0}]
    adam = AdamW(groups, lr=0.01, betas=(0.9, 0.95))
    for _ in range(3):
        adam.step()
        pair[0].grad = pair[0].grad * -0.5
    return [*pair[0].detach().numpy().ravel(), *pair[1].detach().numpy().ravel()]


def _rates(steps):
    recipe = SimpleNamespace(options={"steps": steps, "warmup": 100}, lowest_rate=0.1)
    return [3e-3 * Recipe.learning_rate_factor(recipe, step) for step in range(0, steps, 7)]


_STEPS = 8
_COARSE = (
    "the dtypes {} for float32 Tensors. Arrays such as np.zeros(shape) and NumPy's float64 scalars "
    "turn them into float64: use np.zeros_like and Python floats"
)


def _tensors_of(m):
    """Return the first element of each Tensor that the learner's `parameters` returns.

    Raise an error if one of the returned objects is not a Tensor.
    """
    found = m.parameters(_tree(m))
    for i, t in enumerate(found):
        if not isinstance(t, m.Tensor):
            advice = ": join the lists" if isinstance(t, list) else ""
            raise TypeError(f"entry {i} is a {type(t).__name__}, not a Tensor{advice}")
    return [float(t.data[0]) for t in found]


def _half(arrays):
    return {name: array.astype(np.float32) for name, array in arrays.items()}


def _clipped_dtypes(m, **arrays):
    pair = _pair(m.Tensor, **_half(arrays))
    m.clip(pair, 1.0)
    return [str(t.grad.dtype) for t in pair]


def _adam_dtypes(m, **arrays):
    pair = _pair(m.Tensor, **_half(arrays))
    m.Adam(pair).step(0.01)
    return [str(t.data.dtype) for t in pair]


def _trained_dtypes(m, ids, **arrays):
    p = nested(_half(arrays), m.Tensor)
    list(m.train(p, HEADS, iter([(row[:, :-1], row[:, 1:]) for row in ids]), 1))
    return [" and ".join(sorted({str(t.data.dtype) for _, t in flat(p)}))]


def _trained(m, ids, **arrays):
    p = nested(arrays, lambda array: m.Tensor(array.copy()))
    batches = iter([(row[:, :-1], row[:, 1:]) for row in ids])
    return list(m.train(p, HEADS, batches, _STEPS))


def _first_loss(m, ids, **arrays):
    """Return how many batches `train` reads before its first loss, and the type of the loss."""
    taken = []

    def batches():
        for row in ids:
            taken.append(row)
            yield row[:, :-1], row[:, 1:]

    losses = m.train(nested(_half(arrays), m.Tensor), HEADS, batches(), _STEPS)
    if not hasattr(losses, "__next__"):
        kind = "None" if losses is None else f"a {type(losses).__name__}"
        raise TypeError(f"it returned {kind}: `yield` the loss of each step, inside the loop")
    loss = next(losses, None)
    return [str(len(taken)), "float" if isinstance(loss, float) else type(loss).__name__]


def _trained_by_library(ids, zero=True, **arrays):
    """Train as `training.Loop` does, with the settings of `mta train gpt`; return the losses."""
    model = small_gpt().to("float64")
    model.load_state_dict({**arrays, "head.weight": arrays["token_embedding.weight"]})
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if (p.ndim > 1) == decays], "weight_decay": 0.1 * decays}
        for decays in (True, False)
    ]
    optimizer, losses = AdamW(groups, betas=(0.9, 0.95)), []
    recipe = SimpleNamespace(options={"steps": _STEPS, "warmup": 100}, lowest_rate=0.1)
    for step, row in enumerate(ids):
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * Recipe.learning_rate_factor(recipe, step)
        logits = model(tensor(row[:, :-1]))
        loss = F.cross_entropy(logits.reshape(-1, 7), tensor(row[:, 1:]).reshape(-1))
        if zero:
            optimizer.zero_grad()
        loss.backward()
        clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


_GRADS = normal(x=(3, 5), y=(7,), grad_x=(3, 5), grad_y=(7,))
CHECKS = [
    Check("parameters", "plain", normal(),
          _tensors_of, lambda: [1.0, 2.0, 3.0, 4.0], "four Tensors in dicts and a list"),
    Check("clip", "plain", _GRADS, _clipped(1.0), _clipped_by_library(1.0),
          "the norm, and the gradients after clipping to 1.0"),
    Check("clip", "plain", _GRADS, _clipped(1e3), _clipped_by_library(1e3),
          "a limit of 1000, which changes nothing"),
    Check("clip", "plain", _GRADS, _clipped_dtypes, lambda **a: ["float32"] * 2,
          _COARSE.format("of the gradients after clipping"), "float32"),
    Check("Adam.__init__", "plain", _GRADS,
          lambda m, **a: _moments(m.Adam(_pair(m.Tensor, **a))),
          lambda **a: ["2", "2", "two lists"],
          "for two Tensors: len(m), len(v), and whether m and v are two lists"),
    Check("Adam.step", "plain", _GRADS, _adam, _adam_by_library,
          "the data of a matrix and of a vector after three steps"),
    Check("Adam.step", "plain", _GRADS, _adam_dtypes, lambda **a: ["float32"] * 2,
          _COARSE.format("of the data after one step"), "float32"),
    Check("learning_rate", "plain", normal(),
          lambda m: [m.learning_rate(step, 1000) for step in range(0, 1000, 7)],
          lambda: _rates(1000), "every seventh of 1000 steps"),
    Check("learning_rate", "plain", normal(),
          lambda m: [m.learning_rate(step, 40) for step in range(0, 40, 7)], lambda: _rates(40),
          "40 steps, so that the warm-up takes 10"),
    Check("train", "plain", with_ids(drawn(small_gpt), 7, (_STEPS, 3, 5)), _first_loss,
          lambda ids, **a: ["1", "float"],
          "the first loss: how many batches were read before it, and the type of the loss"),
    Check("train", "plain", with_ids(drawn(small_gpt), 7, (_STEPS, 3, 5)), _trained,
          _trained_by_library, f"the losses of {_STEPS} steps of a small GPT",
          mistakes={"the gradients are not set to 0.0 before `backward`":
                    lambda **arrays: _trained_by_library(zero=False, **arrays)}),
    Check("train", "plain", with_ids(drawn(small_gpt), 7, (1, 3, 5)), _trained_dtypes,
          lambda ids, **a: ["float32"], _COARSE.format("of the parameters after one step"),
          "float32"),
]  # fmt: skip
