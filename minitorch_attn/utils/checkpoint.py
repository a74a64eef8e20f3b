"""PyTorch's `torch.utils.checkpoint`; the mathematics is in `autograd/checkpoint.py`."""

from ..autograd import checkpoint as _checkpoint

__all__ = ["checkpoint"]


def checkpoint(function, *args, use_reentrant=None, preserve_rng_state=True, **kwargs):
    """Call `function`, keep only its inputs, and run it again in the backward pass.

    Parameters
    ----------
    function : callable
    *args, **kwargs
        Arguments of `function`.
    use_reentrant, preserve_rng_state : bool, optional
        Accepted for compatibility with PyTorch; ignored. Random numbers are always repeated;
        see `mt.checkpoint`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> x = mt.tensor([1.0, 2.0], requires_grad=True)
    >>> checkpoint(lambda x: (x * x).sum(), x, use_reentrant=False).backward()
    >>> x.grad
    tensor([2., 4.])
    """
    return _checkpoint(function, *args, **kwargs)
