"""Random spans of frames or features to mask during training, as in Hugging Face's SpecAugment."""

from ...backend import as_device, module_for, random
from ...errors import ArgumentError
from ...tensor import tensor

__all__ = ["draw_spans"]

xp = module_for(as_device("cpu"))  # the spans are drawn on the CPU


def draw_spans(lengths, size, share, span, at_least, device):
    """Draw random spans of positions in each row. Return a mask that is True inside the spans.

    Parameters
    ----------
    lengths : list of int
        Number of valid positions in each row. Later positions are not masked.
    size : int
        Number of columns of the mask.
    share : float
        Fraction of positions to mask. Fewer are masked if spans overlap.
    span : int
        Length of a span.
    at_least : int
        Minimum number of spans.
    device : Device

    Returns
    -------
    bool Tensor of shape (rows, size)

    Notes
    -----
    Park et al. 2019, "SpecAugment", arXiv:1904.08779v3, section 2. The number of spans in a
    row, share * length / span, is rounded up with a probability equal to its fractional part, and
    down otherwise. One random number is drawn for all rows.

    Examples
    --------
    >>> draw_spans([8, 5], 8, share=0.5, span=2, at_least=1, device="cpu").sum(1) >= 2
    tensor([ True,  True])
    """
    if not 1 <= span <= size:
        raise ArgumentError(
            "draw_spans: the length of a span must be between 1 and the number of positions",
            got=f"span={span} for {size} positions",
            hint="use longer inputs, or config.apply_spec_augment=False",
        )
    generator = random.host_generator()
    rounding = generator.random()
    mask = xp.zeros((len(lengths), size), dtype=bool)
    for row, length in zip(mask, lengths, strict=True):
        starts = max(length - span + 1, 0)
        count = min(max(int(share * length / span + rounding), at_least), size // span, starts)
        for start in generator.choice(starts, count, replace=False) if count else ():
            row[start : start + span] = True
    return tensor(mask, device=device)
