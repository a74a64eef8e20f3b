"""Stages of MViT and MViTv2: the width, heads and pooling of every block.

Fan et al. 2021, arXiv:2104.11227v1, Table 2 and section 4.1; Li et al. 2022, arXiv:2112.01526v2,
Table 1. From stage to stage, the maps become smaller, and the numbers of channels and heads
grow. The number of keys and values stays the same.
"""

from ..errors import ArgumentError
from ..nn.checks import check_layers

__all__ = ["plan_blocks"]


def plan_blocks(
    depths, embed_dim, num_heads, size, *, kernel, stride_q, stride_kv, widens_early,
    pools_every_query,
):  # fmt: skip
    """Return the settings of every block.

    Parameters
    ----------
    depths : sequence of int
        Number of blocks in each stage.
    embed_dim, num_heads : int, or sequence of int with one for each stage
        A single number is the value of the first stage. Each later stage doubles it.
    size : tuple of int
        Size of the map of patches.
    kernel, stride_q, stride_kv : tuple of int
        See `MViT`.
    widens_early : bool
        Whether the number of channels changes in the first block of a stage, as in MViTv2. If
        False, it changes in the last block of the previous stage, as in MViT.
    pools_every_query : bool
        Whether the queries are pooled in every block, as in MViTv2. If False, they are pooled only
        where the map shrinks.

    Returns
    -------
    list of list of dict
        One list for each stage, with one dict for each block: the arguments of `MultiscaleBlock`,
        and `size`, the map's size before the block.

    Examples
    --------
    >>> plan = plan_blocks((1, 2), 8, 1, (8, 8), kernel=(3, 3), stride_q=(2, 2), stride_kv=(4, 4),
    ...     widens_early=False, pools_every_query=False)
    >>> [(b["embed_dim"], b["output_dim"], b["stride_q"], b["size"]) for s in plan for b in s]
    [(8, 16, (1, 1), (8, 8)), (16, 16, (2, 2), (8, 8)), (16, 16, (1, 1), (4, 4))]
    """
    count = len(depths)
    for depth in (count, *depths):
        check_layers("MViT", depths=depth)
    widths, heads = (
        _doubling("embed_dim", embed_dim, count),
        _doubling("num_heads", num_heads, count),
    )
    ones = (1,) * len(size)
    steps = _per_stage("stride_q", stride_q, count)
    if steps is None:
        steps = [ones] + [tuple(stride_q)] * (count - 1)
    steps_kv = _per_stage("stride_kv", stride_kv, count) or shrinking_strides(stride_kv, steps)
    width, plan = widths[0], []
    for i, depth in enumerate(depths):
        later = widths[min(i + 1, count - 1)]
        stage = []
        for j in range(depth):
            stride = steps[i] if j == 0 else ones
            ends = not widens_early and j == depth - 1
            output = widths[i] if widens_early else (later if ends else width)
            pools = pools_every_query or max(stride) > 1
            stage.append({
                "embed_dim": width, "output_dim": output, "num_heads": heads[i], "size": size,
                "kernel_q": tuple(kernel) if pools else ones, "kernel_kv": tuple(kernel),
                "stride_q": stride, "stride_kv": steps_kv[i],
            })  # fmt: skip
            width = output
            size = tuple(n // step for n, step in zip(size, stride, strict=True))
        plan.append(stage)
    return plan


def shrinking_strides(first, steps):
    """Return the pooling strides of the keys and values in each stage.

    `steps` contains the query strides of each stage. The first stage divides `first` by its query
    strides. Each later stage divides the previous stage's result by its own query strides. No
    stride is less than 1.

    Examples
    --------
    >>> shrinking_strides((1, 8, 8), [(1, 1, 1), (1, 2, 2), (1, 2, 2)])
    [(1, 8, 8), (1, 4, 4), (1, 2, 2)]
    """
    stride, strides = tuple(first), []
    for step in steps:
        stride = tuple(max(n // s, 1) for n, s in zip(stride, step, strict=True))
        strides.append(stride)
    return strides


def _doubling(name, value, count):
    """Return one number for each stage. A single `value` is doubled from stage to stage."""
    if not isinstance(value, (list, tuple)):
        return [value * 2**i for i in range(count)]
    _check_length(name, value, count)
    return list(value)


def _per_stage(name, value, count):
    """Return `value` as a list with one tuple for each stage, or None if it is a single stride.

    In the second case, the caller computes the strides of all stages from the single stride.
    """
    if not isinstance(value[0], (list, tuple)):
        return None
    _check_length(name, value, count)
    return [tuple(stride) for stride in value]


def _check_length(name, value, count):
    if len(value) != count:
        raise ArgumentError(
            f"MViT: the length of {name} does not match the number of stages",
            got=f"{name}={value!r} for {count} stages",
            expected="one value for the first stage, or one value for each stage",
        )
