"""einops layers: Rearrange, Reduce and EinMix, as in `einops.layers.torch`.

The layers of `einops.layers.torch` are PyTorch modules. Import this library's layers instead:
`from minitorch_attn.einops.layers import Rearrange`.
"""

from einops.layers import RearrangeMixin, ReduceMixin
from einops.layers._einmix import _EinmixMixin

from .. import nn, ops

__all__ = ["EinMix", "Rearrange", "Reduce"]


class Rearrange(RearrangeMixin, nn.Module):
    """`einops.rearrange` as a layer, for `nn.Sequential`.

    Parameters
    ----------
    pattern : str
        Axes of the input and of the output, such as "b c h w -> b (c h w)".
    **axes_lengths : int
        Sizes of axes that the shape of the input does not determine.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> Rearrange("b c (h p) w -> b h (p c w)", p=2)(mt.zeros(5, 3, 4, 7)).shape
    (5, 2, 42)
    """

    def forward(self, input):
        return self._apply_recipe(input)


class Reduce(ReduceMixin, nn.Module):
    """`einops.reduce` as a layer, for pooling.

    Parameters
    ----------
    pattern : str
        Axes of the input and of the output; the axes that are missing after "->" are reduced.
    reduction : str
        "max", "min", "sum", "mean", "prod", "any" or "all".
    **axes_lengths : int
        Sizes of axes that the shape of the input does not determine.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> Reduce("b c (h 2) (w 2) -> b c h w", "max")(mt.zeros(5, 3, 4, 6)).shape
    (5, 3, 2, 3)
    """

    def forward(self, input):
        return self._apply_recipe(input)


class EinMix(_EinmixMixin, nn.Module):
    """A linear layer over any axes: an einsum of the input with a learned weight, plus a bias.

    Parameters
    ----------
    pattern : str
        Axes of the input and the output, such as "t b c -> t b d".
    weight_shape : str
        Axes of the weight, such as "c d".
    bias_shape : str, optional
        Axes of the bias; by default there is none.
    **axes_lengths : int
        Sizes of the axes of the weight and the bias.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mix = EinMix("t b c -> t b d", weight_shape="c d", bias_shape="d", c=5, d=7)
    >>> mix(mt.zeros(2, 3, 5)).shape
    (2, 3, 7)
    """

    def _create_parameters(self, weight_shape, weight_bound, bias_shape, bias_bound):
        self.weight = nn.Parameter(ops.zeros(weight_shape).uniform_(-weight_bound, weight_bound))
        self.bias = None
        if bias_shape is not None:
            self.bias = nn.Parameter(ops.zeros(bias_shape).uniform_(-bias_bound, bias_bound))

    def _create_rearrange_layers(
        self, pattern_before, lengths_before, pattern_after, lengths_after
    ):
        self.pre_rearrange = self.post_rearrange = None
        if pattern_before is not None:
            self.pre_rearrange = Rearrange(pattern_before, **lengths_before)
        if pattern_after is not None:
            self.post_rearrange = Rearrange(pattern_after, **lengths_after)

    def forward(self, input):
        if self.pre_rearrange is not None:
            input = self.pre_rearrange(input)
        result = ops.einsum(self.einsum_pattern, input, self.weight)
        if self.bias is not None:
            result = result + self.bias
        return result if self.post_rearrange is None else self.post_rearrange(result)
