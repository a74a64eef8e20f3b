"""A small GPT, its training, and the comparison of its gradients: shared by tests of its splits."""

import numpy as np

import minitorch_attn as mt
from minitorch_attn.models import GPT

SIZES = {
    "vocab_size": 17, "context_length": 29, "embed_dim": 24, "num_heads": 12, "num_layers": 3,
    "ff_dim": 36,
}  # fmt: skip


def close(found, expected, tolerance=1e-12):
    """Compare arrays; errors are relative to the largest value, and to 1e-3 at least."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape
    error = np.abs(found - expected).max(initial=0) / max(np.abs(expected).max(initial=0), 1e-3)
    assert error < tolerance, f"relative error {error:.2g}"


def gpt(dropout=0.0, seed=3, **sizes):
    """The same parameters for the same seed; larger than GPT's own, so that gradients are too."""
    mt.manual_seed(seed)
    model = GPT(**{**SIZES, **sizes}, dropout=dropout).double()
    with mt.no_grad():
        for parameter in model.parameters():
            parameter.add_(mt.randn(*parameter.shape, dtype=mt.float64) * 0.1)
    return model


def texts(batch, tokens, seed=1):
    """Ids and the targets one position later."""
    ids = np.random.default_rng(seed).integers(0, SIZES["vocab_size"], (batch, tokens + 1))
    return mt.tensor(ids[:, :-1]), mt.tensor(ids[:, 1:])


def one_process_loss(model, ids, targets):
    logits = model(ids)
    return mt.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))


def train(model, step, steps=5, seed=8):
    """Call `step()`, which computes loss and gradients, before each update.

    Returns
    -------
    losses : list of float
    gradients : list of array
        Of the first step, one for each parameter.
    """
    optimizer = mt.optim.AdamW(model.parameters(), lr=0.05)
    losses, gradients = [], None
    mt.manual_seed(seed)
    for _ in range(steps):
        optimizer.zero_grad()
        losses.append(step())
        if gradients is None:
            gradients = [p.grad.numpy().copy() for p in model.parameters()]
        optimizer.step()
    return losses, gradients


def trained_alone(dropout, ids, targets, **sizes):
    """Train in one process; return the model, the losses and the first gradients by name."""
    model = gpt(dropout, **sizes)

    def step():
        loss = one_process_loss(model, ids, targets)
        loss.backward()
        return loss.item()

    losses, gradients = train(model, step)
    names = [name for name, _ in model.named_parameters()]
    return model, losses, dict(zip(names, gradients, strict=True))
