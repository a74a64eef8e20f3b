"""Stand-ins for `torch.amp`, mixed precision: autocast and GradScaler, which do nothing.

A program written for a GPU runs unchanged. NumPy does not have fast float16 kernels, so that mixed
precision would be slower here and less accurate.
"""

from contextlib import ContextDecorator

from .named_errors import NamedErrors

__all__ = ["GradScaler", "autocast"]


class autocast(ContextDecorator):
    """Do nothing: every operation computes in the dtype of its inputs.

    The arguments are those of `torch.autocast` and of `torch.cuda.amp.autocast`, and are ignored,
    as with `enabled=False`. To compute in another dtype, convert the model: `model.to(mt.float16)`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> with mt.autocast("cuda", dtype=mt.float16):
    ...     print((mt.ones(2, 3) @ mt.ones(3, 5)).dtype)
    float32
    """

    def __init__(self, device_type="cuda", dtype=None, enabled=True, cache_enabled=None):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        return False


class GradScaler(NamedErrors):
    """Do not scale: the methods do what PyTorch's do with `enabled=False`.

    A loss is scaled so that small gradients do not become 0 in float16; the gradients here are
    float32. In contrast to an enabled scaler, `step` does not skip steps with infinite gradients.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> p = mt.nn.Parameter(mt.ones(1))
    >>> optimizer, scaler = mt.optim.SGD([p], lr=0.5), GradScaler()
    >>> scaler.scale((3 * p).sum()).backward()
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> p.detach()
    tensor([-0.5])
    """

    def __init__(self, device="cuda", *args, **kwargs):
        pass

    def scale(self, outputs):
        """Return `outputs` unchanged."""
        return outputs

    def unscale_(self, optimizer):
        """Do nothing: the gradients are not scaled."""

    def step(self, optimizer, *args, **kwargs):
        """Return `optimizer.step(*args, **kwargs)`."""
        return optimizer.step(*args, **kwargs)

    def update(self, new_scale=None):
        """Do nothing: the scale stays 1."""

    def get_scale(self):
        """Return 1.0."""
        return 1.0

    def is_enabled(self):
        """Return False."""
        return False

    def state_dict(self):
        """Return an empty dict."""
        return {}

    def load_state_dict(self, state_dict):
        """Do nothing: there is no state, and the scale of another run is not needed."""
