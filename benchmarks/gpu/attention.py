"""Attention on a GPU by sequence length: time, FLOP/s and memory, compared with PyTorch."""

from .timing import peak_mb, summary, turns
from .workloads import torch_or_reason

__all__ = ["LENGTHS", "compare"]

LENGTHS = (256, 1024, 4096, 16384)
HEADS, DIM = 8, 64
BACKWARD = 2.5  # backward products, including the recomputed scores, per forward product


def compare(length, rounds=7, seconds=0.3):
    """Time causal attention on one sequence, with 8 heads of width 64.

    The forward pass is timed alone, and then together with the backward pass.

    Parameters
    ----------
    length : int
        Number of tokens.
    rounds : int
    seconds : float

    Returns
    -------
    dict
        For "forward" and "both" (forward and backward): milliseconds, TFLOP/s, megabytes, and
        PyTorch's milliseconds.
    """
    import minitorch_attn as mt

    shape = (1, HEADS, length, DIM)
    ours = _steps(mt, [mt.randn(*shape, device="cuda", requires_grad=True) for _ in range(3)])
    theirs, reason = torch_or_reason(lambda: _in_torch(shape))
    products = 2 * 2 * HEADS * DIM * length * length / 2  # FLOPs: two products, half of the scores
    found = {"torch": reason}
    for name, factor in (("forward", 1), ("both", 1 + BACKWARD)):
        steps = {"ours": ours[name], **({"torch": theirs[name]} if theirs else {})}
        times = turns(steps, rounds, seconds)
        row = found[name] = summary(times["ours"])
        row["tflops"] = factor * products / (row["ms"] * 1e9)
        row["mb"] = peak_mb(ours[name])
        if theirs:
            row["torch_ms"] = summary(times["torch"])["ms"]
    return found


def _in_torch(shape):
    import torch

    return _steps(torch, [torch.randn(shape, device="cuda", requires_grad=True) for _ in range(3)])


def _steps(library, inputs):
    """Return two steps in `library`: the forward pass alone, and forward and backward pass."""
    attend = library.nn.functional.scaled_dot_product_attention

    def forward():
        with library.no_grad():
            attend(*inputs, is_causal=True)

    def both():
        for x in inputs:
            x.grad = None
        attend(*inputs, is_causal=True).sum().backward()

    return {"forward": forward, "both": both}
