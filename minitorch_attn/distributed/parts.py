"""Split a number of elements into consecutive parts, one for each rank."""

from itertools import accumulate

from ..named_errors import names_arguments

__all__ = ["part_slices", "part_sizes"]


@names_arguments
def part_sizes(count, parts):
    """Return the sizes of consecutive parts, which differ by at most 1, with the larger ones first.

    Examples
    --------
    >>> part_sizes(11, 4)
    [3, 3, 3, 2]
    """
    size, rest = divmod(count, parts)
    return [size + (i < rest) for i in range(parts)]


@names_arguments
def part_slices(count, parts):
    """Split `range(count)` into parts as `part_sizes` does, and return the slice of each part.

    Examples
    --------
    >>> part_slices(5, 2)
    [slice(0, 3, None), slice(3, 5, None)]
    """
    sizes = part_sizes(count, parts)
    stops = accumulate(sizes)
    return [slice(stop - size, stop) for size, stop in zip(sizes, stops, strict=True)]
