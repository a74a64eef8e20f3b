"""Collapse of DINO: a small network trained with and without centering and sharpening."""

import numpy as np

from ... import nn, ops
from ...backend import get_rng_state, manual_seed, set_rng_state, to_host
from ...data.multi_crop import random_views
from ...models.dino import DINO, DINOHead
from ...optim import AdamW
from ...tensor import tensor

__all__ = ["collapse_runs", "entropies"]

_OUTPUTS = 32
_VARIANTS = {
    "both": {}, "no centering": {"centering": False}, "no sharpening": {"sharpening": False},
}  # fmt: skip


def entropies(logits):
    """Return the mean entropy of the teacher's targets, and the entropy of their mean.

    If all images have the same target, the two entropies are equal. They are 0 if the target is a
    single output, and log K if the target is uniform over the K outputs.

    Parameters
    ----------
    logits : Tensor of shape (..., K)
        Outputs of the teacher after centering and division by the teacher's temperature.

    Returns
    -------
    (float, float)
        The two entropies, in nats.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> entropies(mt.tensor([[100.0, 0.0], [0.0, 100.0]]))
    (0.0, 0.693147)
    """
    logits = to_host(logits.detach().array).reshape(-1, logits.shape[-1]).astype(np.float64)
    p = np.exp(logits - logits.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    rows = p, p.mean(0, keepdims=True)
    return tuple(round(float(-(x * np.log(x + 1e-30)).sum(-1).mean()), 6) + 0.0 for x in rows)


def collapse_runs(images, steps=300, seed=0):
    """Train a small network three times: with centering and sharpening, and with each alone.

    Parameters
    ----------
    images : array of shape (image, 1, 8, 8)
        Digits with pixels between 0 and 1.
    steps : int, default 300
    seed : int, default 0

    Returns
    -------
    dict of array of shape (step / 10, 2)
        The two `entropies` at every tenth step, for "both", "no centering" and "no sharpening".

    References
    ----------
    .. [1] Caron et al. 2021, arXiv:2104.14294v2, section 5.3 and Figure 7.
    """
    state = get_rng_state()
    runs = {name: _train(images, steps, seed, **kept) for name, kept in _VARIANTS.items()}
    set_rng_state(state)
    return runs


def _network():
    # No batch normalization, because it alone would keep the outputs of different images distinct.
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.GELU(), DINOHead(64, _OUTPUTS, 64, 16))


def _train(images, steps, seed, centering=True, sharpening=True):
    manual_seed(seed)
    model = DINO(_network, _OUTPUTS)
    optimizer = AdamW([p for p in model.student.parameters() if p.requires_grad], lr=5e-4)
    temperature = 0.02 if sharpening else model.student_temperature
    generator, history = np.random.default_rng(seed), []
    for step in range(steps):
        chosen = images[generator.integers(len(images), size=64)]
        views = [
            tensor(2 * random_views(chosen, (6.5, 8), 8, generator, noise=0.1) - 1)
            for _ in range(2)
        ]
        optimizer.zero_grad()
        model(views, temperature=temperature).backward()
        optimizer.step()
        if step % 10 == 0:
            history.append(entropies((model.outputs - model.center) / temperature))
        model.update(momentum=0.99)
        if not centering:
            model.center = ops.zeros_like(model.center)
    return np.array(history)
