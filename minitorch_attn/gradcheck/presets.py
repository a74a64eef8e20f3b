"""Presets: inputs with which a gradient check exposes typical mistakes.

With other inputs, a wrong backward could pass the check. A batch of 1 hides a missing sum over the
batch. Weights near 0 make attention uniform and its errors tiny. A gain of 1 hides a missing gain,
a shift of 0 hides a shift in the wrong direction, and equal sizes hide swapped axes. Here, sizes
are greater than 1, adjacent axes differ in size, weights are as large as after training, and gains
are random.
"""

from dataclasses import dataclass

import numpy as np

from ..tensor import Tensor, tensor

__all__ = ["AttentionCase", "attention_case"]


@dataclass
class AttentionCase:
    """Sizes and float64 tensors to check attention, either plain or in shifted windows.

    Attributes
    ----------
    batch, windows, heads, tokens, head_dim, shift : int
        A sequence is `windows * tokens` long; each window has `tokens` tokens.
    query, key, value : Tensor of shape (batch, heads, tokens, head_dim)
    x : Tensor of shape (batch, windows * tokens, heads * head_dim)
    gamma, beta : Tensor of shape (heads * head_dim,)
        Gain and offset of a layer norm.
    weight_qkv : Tensor of shape (heads * head_dim, 3 * heads * head_dim)
    bias_qkv : Tensor of shape (3 * heads * head_dim,)
    weight_out : Tensor of shape (heads * head_dim, heads * head_dim)
    bias_out : Tensor of shape (heads * head_dim,)
    table : Tensor of shape (2 * tokens - 1, heads)
        Relative position biases.
    index : int Tensor of shape (tokens, tokens)
        Row of `table` for each query and key.
    mask : bool Tensor of shape (windows, tokens, tokens)
        True where a query can attend to a key: the shift wrapped both of them around, or neither of
        them.
    """

    batch: int
    windows: int
    heads: int
    tokens: int
    head_dim: int
    shift: int
    query: Tensor
    key: Tensor
    value: Tensor
    x: Tensor
    gamma: Tensor
    beta: Tensor
    weight_qkv: Tensor
    bias_qkv: Tensor
    weight_out: Tensor
    bias_out: Tensor
    table: Tensor
    index: Tensor
    mask: Tensor

    @property
    def block_inputs(self):
        """Arguments of a residual block with layer norm and attention in shifted windows.

        They are x, gamma, beta, weight_qkv, bias_qkv, weight_out, bias_out and table.
        """
        return (
            self.x, self.gamma, self.beta, self.weight_qkv, self.bias_qkv, self.weight_out,
            self.bias_out, self.table,
        )  # fmt: skip


def attention_case(
    rng=None, *, batch=2, windows=3, heads=3, tokens=5, head_dim=4, shift=2, device=None
):
    """Return a random `AttentionCase`.

    Parameters
    ----------
    rng : numpy.random.Generator, optional
    batch, windows, heads, tokens, head_dim, shift : int
        Sizes of the inputs. Some mistakes show only with certain sizes.
    device : str or Device, optional

    Returns
    -------
    AttentionCase

    Examples
    --------
    >>> case = attention_case()
    >>> case.query.shape, case.x.shape, case.mask.shape
    ((2, 3, 5, 4), (2, 15, 12), (3, 5, 5))
    """
    rng = np.random.default_rng(0) if rng is None else rng
    width = heads * head_dim

    def normal(*shape, scale=1.0):
        return tensor(rng.normal(0.0, scale, shape), requires_grad=True, device=device)

    def gain(*shape):
        return tensor(rng.uniform(0.5, 1.5, shape), requires_grad=True, device=device)

    mask = _shifted_window_mask(windows, tokens, shift)
    place = np.arange(tokens)
    return AttentionCase(
        batch=batch,
        windows=windows,
        heads=heads,
        tokens=tokens,
        head_dim=head_dim,
        shift=shift,
        query=normal(batch, heads, tokens, head_dim),
        key=normal(batch, heads, tokens, head_dim),
        value=normal(batch, heads, tokens, head_dim),
        x=normal(batch, windows * tokens, width),
        gamma=gain(width),
        beta=normal(width, scale=0.5),
        weight_qkv=normal(width, 3 * width, scale=width**-0.5),
        bias_qkv=normal(3 * width, scale=0.3),
        weight_out=normal(width, width, scale=width**-0.5),
        bias_out=normal(width, scale=0.3),
        table=normal(2 * tokens - 1, heads),
        index=tensor(place - place[:, None] + tokens - 1, device=device),
        mask=tensor(mask, device=device),
    )


def _shifted_window_mask(windows, tokens, shift):
    """Return a mask, True if the roll by -shift wrapped both query and key around, or neither."""
    region = np.zeros(windows * tokens, int)
    region[windows * tokens - shift :] = 1  # wrapped around from the other end
    region = region.reshape(windows, tokens)
    return region[:, :, None] == region[:, None, :]  # (windows, query, key)
