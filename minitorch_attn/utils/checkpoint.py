"""Checkpointing with the arguments of `torch.utils.checkpoint`; see `autograd/checkpoint.py`."""

from ..autograd import checkpoint as _checkpoint

__all__ = ["checkpoint"]


def checkpoint(function, *args, use_reentrant=None, preserve_rng_state=True, **kwargs):
    """Call `function` without saving its intermediate tensors; the backward pass recomputes them.

    See `mt.checkpoint`.

    Parameters
    ----------
    function : callable
    *args, **kwargs
        Arguments of `function`.
    use_reentrant, preserve_rng_state : bool, optional
        Ignored; for compatibility with PyTorch. The recomputation always draws the same random
        numbers as the first computation.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> x = mt.tensor([1.0, 2.0], requires_grad=True)
    >>> checkpoint(lambda x: (x * x).sum(), x, use_reentrant=False).backward()
    >>> x.grad
    tensor([2., 4.])
    """
    return _checkpoint(function, *args, **kwargs)
