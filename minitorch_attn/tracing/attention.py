"""Find attention in a recorded computation: its weights, mask, heads and Swin windows.

Attention is recognized by its computation: a softmax over the last axis, possibly dropout, and a
matrix product of the result with the values. Attention in your own code is therefore found too.
"""

import numpy as np

from ..ops.windows import window_regions
from .steps import Entry

__all__ = ["Found", "find_attention", "is_attention"]

_SOFTMAX = ("Softmax", "MaskedSoftmax")
_PASSED_ON = ("Dropout", "Reshape", "Cast", "Clone", "BroadcastTo")  # may follow the softmax


class Found:
    """An attention operation found in a recorded computation.

    Attributes
    ----------
    step : Step
        Product of weights and values.
    softmax : Step
    weights, scores : Entry
        Values after and before the softmax.
    mask : numpy.ndarray or None
        Mask that broadcasts to the scores, True where the query can attend to the key.
    windows : dict or None
        Grid, size, shift and regions of Swin's windows; None for other attention.
    """

    def __init__(self, step, softmax):
        self.step, self.softmax = step, softmax
        self.weights, self.scores = softmax.outputs[0], softmax.inputs[0]
        self.mask, self.windows = _mask(softmax), None

    @property
    def heads(self):
        """Number of heads: the size of the axis before the query axis; 1 if there is none."""
        shape = self.weights.values.shape
        return shape[-3] if len(shape) > 2 else 1


def is_attention(function):
    """Return True if a fused Function computes attention, that is, if `ops/attention/` defines it.

    Examples
    --------
    >>> from minitorch_attn.ops.attention.fused import Attention
    >>> is_attention(Attention)
    True
    """
    return ".ops.attention." in function.__module__


def find_attention(steps):
    """Find all attention operations, in the order in which they ran.

    Parameters
    ----------
    steps : list of Step

    Returns
    -------
    list of Found
    """
    made_by, found = {}, []
    for step in steps:
        if step.kind != "forward":
            continue
        if step.op == "MatMul" and isinstance(step.inputs[0], Entry):
            softmax = _softmax_of(step.inputs[0], made_by)
            if softmax is not None:
                found.append(Found(step, softmax))
                found[-1].windows = _windows(found[-1], steps)
        for entry in step.outputs:
            made_by.setdefault(entry.number, step)
    return found


def _softmax_of(entry, made_by):
    """Return the softmax step over the last axis that computed these weights, or None."""
    step = made_by.get(entry.number)
    while step is not None and step.op in _PASSED_ON and isinstance(step.inputs[0], Entry):
        step = made_by.get(step.inputs[0].number)
    if step is None or step.op not in _SOFTMAX:
        return None
    rank = len(step.outputs[0].values.shape)
    return step if rank >= 2 and step.settings["axis"] in (-1, rank - 1) else None


def _mask(softmax):
    """Return the mask (True = may attend), or None. Scores of -inf count as masked."""
    scores = softmax.inputs[0].values.array
    blocked = np.isneginf(scores) if scores.dtype.kind == "f" else np.zeros(scores.shape, bool)
    allowed = ~blocked if blocked.any() else None
    given = softmax.inputs[1] if len(softmax.inputs) > 1 else None
    if isinstance(given, Entry) and given.values.whole:
        attend = given.values.array.astype(bool)
        if allowed is None or not softmax.inputs[0].values.whole:
            return attend
        return allowed & attend
    return allowed


def _windows(found, steps):
    """Return the window sizes of a Swin block, and each token's region, as a dict or None."""
    block = found.step.module
    while block is not None and block.windows is None:
        block = block.parent
    if block is None:
        return None
    size, shift = block.windows
    shape = _map_shape(block, found.step, steps)
    if shape is None:
        return None
    height, width = (n + -n % window for n, window in zip(shape, size, strict=True))
    regions = window_regions(height, width, size, shift).numpy() if any(shift) else None
    if regions is None:
        regions = np.zeros((height, width), np.int64)
    return {
        "grid": [height // size[0], width // size[1]],
        "size": list(size),
        "shift": list(shift),
        "regions": regions,
    }


def _map_shape(block, last, steps):
    """Return the height and width of a block's input, the first feature map in the block."""
    first = None
    for step in reversed(steps[: last.number - 1]):
        if step.kind != "forward":
            continue
        if not _within(step.module, block):
            break
        entry = step.inputs[0] if step.inputs else None
        if isinstance(entry, Entry) and len(entry.values.shape) == 4 and step.module is not None:
            if entry.role == "result" and step.part_of is None:
                first = entry.values.shape
    return None if first is None else first[1:3]


def _within(module, block):
    while module is not None and module is not block:
        module = module.parent
    return module is block
