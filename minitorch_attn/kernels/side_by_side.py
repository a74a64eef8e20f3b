"""Arrays side by side in one block of memory, so that one batched product can read them all.

cuBLAS multiplies a batch of matrices in one call if they are equally spaced in memory. In an
attention layer, the query, key and value projections have three weights, three weight gradients and
three output gradients. If the three arrays of each kind lie side by side, the projections take 3
products instead of 9.

The arrays remain separate objects. Each uses a part of the same block, which is freed when the last
of them is deleted.
"""

from math import prod

from ..backend.cuda import load
from ..backend.kernel_table import register
from ..nn.linear import side_by_side
from .source import FLOATS

__all__ = ["SideBySideKernel", "as_one", "empty_side_by_side", "parts_of"]


def as_one(arrays):
    """Return arrays as one array if they are equally spaced in one block of memory, else None.

    Parameters
    ----------
    arrays : sequence of CuPy arrays in C order

    Returns
    -------
    CuPy array of shape (count, ...), a view of all `arrays`; or None
    """
    first = arrays[0]
    kinds = {(a.shape, a.dtype, a.data.mem.ptr, a.flags.c_contiguous) for a in arrays}
    step = arrays[1].data.ptr - first.data.ptr if len(arrays) > 1 else 0
    if len(kinds) > 1 or not first.flags.c_contiguous or step < first.nbytes or not first.size:
        return None
    places = [array.data.ptr - first.data.ptr for array in arrays]
    if places != [step * i for i in range(len(arrays))] or step % first.itemsize:
        return None
    shape, strides = (len(arrays), *first.shape), (step, *first.strides)
    return load().ndarray(shape, first.dtype, first.data, strides)


def parts_of(array):
    """Split an array in C order along axis 0. The parts share its memory.

    The `base` of each part is None. So the part does not count as a view (`backend.is_whole`), and
    autograd can use it as a gradient without copying it.
    """
    size = prod(array.shape[1:]) * array.itemsize
    return [
        load().ndarray(array.shape[1:], array.dtype, array.data + size * i)
        for i in range(len(array))
    ]


def empty_side_by_side(arrays):
    """Return new arrays like `arrays`, side by side if shapes, dtypes and strides are equal.

    Parameters
    ----------
    arrays : sequence of CuPy arrays
        The elements of each array must fill its memory without gaps. The axes may be in any order
        in memory, for example transposed as in attention heads.
    """
    xp, first = load(), arrays[0]
    if len({(a.shape, a.strides, a.dtype) for a in arrays}) > 1 or not first.size:
        return [xp.empty_like(a) for a in arrays]
    like = xp.empty_like(first)  # for its strides: the order of `first`, without gaps
    memory = xp.empty(len(arrays) * first.size, first.dtype).data
    return [
        xp.ndarray(first.shape, first.dtype, memory + i * like.nbytes, like.strides)
        for i in range(len(arrays))
    ]


@register(side_by_side)
class SideBySideKernel:
    """`nn.linear.side_by_side` on a GPU: copy arrays to one block of memory if necessary."""

    @staticmethod
    def accepts(arrays):
        kinds = {(a.shape, a.dtype, a.flags.c_contiguous) for a in arrays}
        one = len(kinds) == 1 and arrays[0].flags.c_contiguous and arrays[0].size
        return bool(one) and arrays[0].dtype.name in FLOATS and as_one(arrays) is None

    @staticmethod
    def run(arrays):
        first = arrays[0]
        found = parts_of(load().empty((len(arrays), *first.shape), first.dtype))
        for part, array in zip(found, arrays, strict=True):
            part[...] = array
        return found
