"""Rotary position embeddings: the frequencies and how they are scaled for longer texts.

A rotary embedding rotates feature pair i of the token at position m by the angle m f_i, with
f_i = base^(-2i / head_dim) (Su et al. 2021, arXiv:2104.09864v5, section 3.2.2). A model does not
generalize to angles that did not occur in training. All scaling methods use smaller f_i:

linear   All pairs use f_i / factor, so that all positions lie in the trained range (Chen et al.
         2023, arXiv:2306.15595v2, section 2.3).
dynamic  The base grows with the current length. A larger base reduces small f_i and hardly changes
         large f_i (Peng et al. 2023, arXiv:2309.00071v2, sections 3.1 and 3.3).
yarn     Pairs with many rotations per training sequence keep f_i. Pairs with less than one rotation
         use f_i / factor. Between them, a ramp that is linear in i connects the two. A temperature
         scales the attention scores (same paper, sections 3.2 and 3.4).
llama3   Like yarn, but without a temperature, and the ramp is linear in the number of rotations per
         training sequence (Grattafiori et al. 2024, arXiv:2407.21783v3, section 3.4.2, and the code
         published with the weights).
"""

import math

from .. import nn, ops
from ..errors import ArgumentError
from ..tensor import tensor

__all__ = ["Rotary", "rotary_frequencies"]

_MOST_DIMS = 65_536


class Rotary(nn.Module):
    """Rotary embedding: rotates queries and keys by angles proportional to their positions.

    Parameters
    ----------
    head_dim : int
        Size of a head, an even number.
    context_length : int
        Largest number of tokens in a training sequence.
    base : float, default 10000
        Base of the rotary frequencies.
    scaling : dict, optional
        Scaling method and its settings, with the names that Hugging Face's configurations use, such
        as {"rope_type": "linear", "factor": 2.0}.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> turn = Rotary(head_dim=4, context_length=8)(mt.tensor([[0, 1, 2]]))
    >>> turn(mt.ones(2, 5, 3, 4)).shape  # (batch, heads, token, head_dim)
    (2, 5, 3, 4)
    """

    def __init__(self, head_dim, context_length, base=10000.0, scaling=None):
        super().__init__()
        self.settings = (head_dim, context_length, base, dict(scaling or {}))
        self.frequencies, self.factor = rotary_frequencies(*self.settings)
        self.grows = self.settings[-1].get("rope_type") == "dynamic"

    def forward(self, positions, dtype="float32"):
        """Return a function that rotates the vectors of tokens at the given positions.

        Parameters
        ----------
        positions : int64 Tensor of shape (1 or batch, token)
        dtype : dtype
            Dtype of the cosines and sines. The angles are computed in float64.

        Returns
        -------
        callable
            Function that rotates a Tensor of shape (batch, heads, token, head_dim).
        """
        frequencies = self.frequencies
        if self.grows and positions.numel():
            length = int(positions.max().item()) + 1
            frequencies, _ = rotary_frequencies(*self.settings, length=length)
        frequencies = tensor(frequencies, dtype="float64", device=positions.device)
        angles = positions.to("float64").unsqueeze(1).unsqueeze(-1) * frequencies
        cos = (ops.cos(angles) * self.factor).to(dtype)  # (batch, 1, token, head_dim / 2)
        sin = (ops.sin(angles) * self.factor).to(dtype)
        return lambda x: ops.apply_rotary(x, cos, sin)

    def extra_repr(self):
        head_dim, _, base, scaling = self.settings
        kind = scaling.get("rope_type", "default")
        return f"{head_dim}, base={base}" + (f", {kind}" if kind != "default" else "")


def rotary_frequencies(head_dim, context_length, base=10000.0, scaling=None, length=None):
    """Return the frequency of each feature pair, and a factor for all cosines and sines.

    Parameters
    ----------
    head_dim, context_length, base, scaling
        See `Rotary`.
    length : int, optional
        Current number of tokens, which the "dynamic" method uses.

    Returns
    -------
    frequencies : list of float
    factor : float

    Examples
    --------
    >>> rotary_frequencies(4, 8)
    ([1.0, 0.01], 1.0)
    >>> rotary_frequencies(4, 8, scaling={"rope_type": "linear", "factor": 2.0})
    ([0.5, 0.005], 1.0)
    """
    scaling = dict(scaling or {})
    kind = scaling.pop("rope_type", "default")
    if kind not in _KINDS:
        raise ArgumentError(
            "rotary_frequencies: rope_type is not supported",
            got=f"rope_type={kind!r}", expected=f"one of {', '.join(_KINDS)}",
        )  # fmt: skip
    make, required, optional = _KINDS[kind]
    missing = [name for name in required if scaling.get(name) is None]
    unknown = [name for name in scaling if name not in (*required, *optional)]
    if missing or unknown:
        raise ArgumentError(
            f"rotary_frequencies: settings of rope_type={kind!r} are missing or unknown",
            got=f"{missing} missing, {unknown} unknown",
            expected=f"required: {', '.join(required)}; optional: {', '.join(optional)}",
        )
    scaling["context_length"], scaling["length"] = context_length, length
    return make(head_dim, base, scaling)


def _falling(head_dim, base):
    if head_dim > _MOST_DIMS:  # a typo could create a huge list
        raise ArgumentError(
            f"rotary_frequencies: head_dim must be at most {_MOST_DIMS:,}", got=f"{head_dim}"
        )
    return [base ** (-2 * i / head_dim) for i in range(head_dim // 2)]


def _default(head_dim, base, settings):
    return _falling(head_dim, base), 1.0


def _linear(head_dim, base, settings):
    return [f / settings["factor"] for f in _falling(head_dim, base)], 1.0


def _dynamic(head_dim, base, settings):
    trained, factor = settings["context_length"], settings["factor"]
    stretch = max(settings["length"] or 0, trained) / trained
    base *= (factor * stretch - (factor - 1)) ** (head_dim / (head_dim - 2))
    return _falling(head_dim, base), 1.0


def _llama3(head_dim, base, settings):
    trained, factor = settings["original_max_position_embeddings"], settings["factor"]
    low, high = settings["low_freq_factor"], settings["high_freq_factor"]

    def scaled(f):
        turns = trained * f / (2 * math.pi)  # rotations within the trained context
        keep = min(max((turns - low) / (high - low), 0.0), 1.0)
        return keep * f + (1 - keep) * f / factor

    return [scaled(f) for f in _falling(head_dim, base)], 1.0


def _yarn(head_dim, base, settings):
    trained = settings["original_max_position_embeddings"]
    factor = settings.get("factor") or settings["context_length"] / trained

    def pair_with(turns):
        """Return the fractional index of the pair with `turns` rotations per training sequence."""
        return head_dim * math.log(trained / (turns * 2 * math.pi)) / (2 * math.log(base))

    first, last = (
        pair_with(settings.get(name) or default)
        for name, default in (("beta_fast", 32), ("beta_slow", 1))
    )
    if settings.get("truncate", True):
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, head_dim - 1)
    span = last - first or 0.001

    def scaled(i, f):
        squeezed = min(max((i - first) / span, 0.0), 1.0)
        return squeezed * f / factor + (1 - squeezed) * f

    frequencies = [scaled(i, f) for i, f in enumerate(_falling(head_dim, base))]
    return frequencies, _yarn_temperature(factor, settings)


def _yarn_temperature(factor, settings):
    """Return YaRN's temperature as a factor for the cosines and sines (section 3.4)."""
    if settings.get("attention_factor") is not None:
        return settings["attention_factor"]

    def of(scale=1.0):
        return 0.1 * scale * math.log(factor) + 1.0 if factor > 1 else 1.0

    above, below = settings.get("mscale"), settings.get("mscale_all_dim")
    return of(above) / of(below) if above and below else of()


# rope_type -> (function, required settings, optional settings)
_KINDS = {
    "default": (_default, (), ()),
    "linear": (_linear, ("factor",), ()),
    "dynamic": (_dynamic, ("factor",), ()),
    "llama3": (
        _llama3,
        ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
        (),
    ),
    "yarn": (
        _yarn,
        ("original_max_position_embeddings",),
        (
            "factor", "attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim",
            "truncate",
        ),
    ),
}  # fmt: skip
