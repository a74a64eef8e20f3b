"""Range check of indices on a GPU: find the largest index in one launch; the host does not wait.

    here = max(here, max over i of (index_i - lowest)),   as unsigned integers

`here` is a number on the device, and `lowest` is the smallest valid index. A negative difference
becomes a very large unsigned number. So comparing `here` with the number of valid indices finds an
index that is too small or too large. The host makes that comparison when it next reads from the
device (`backend.deferred`), so the check does not have to wait. One block of threads is enough: the
indices are few, and the rows that they select contain far more data.
"""

from ..backend.deferred import store_largest
from ..backend.kernel_table import register
from .source import INTEGERS, Source, all_contiguous

__all__ = ["LargestKernel"]

THREADS = 256

SOURCE = Source(
    r"""
// T: the type of the indices; A: the unsigned type of the same size.
template <typename T, typename A> __global__ void store_largest(
    const T* index, long long n, long long lowest, long long has_allowed, long long allow,
    unsigned long long* here)
{
    unsigned long long largest = 0;
    for (long long i = threadIdx.x; i < n; i += blockDim.x) {
        unsigned long long shifted = (A)(index[i] - (T)lowest);
        if (has_allowed && index[i] == (T)allow) shifted = 0;
        largest = shifted > largest ? shifted : largest;
    }
    largest = block_max(largest);
    if (threadIdx.x == 0 && largest > *here) *here = largest;
}
""",
    "store_largest",
    types=INTEGERS,
)


@register(store_largest)
class LargestKernel:
    """CUDA kernel of `backend.deferred.store_largest`: one launch."""

    @staticmethod
    def accepts(index, lowest, allow, here):
        return index.dtype.name in INTEGERS

    @staticmethod
    def run(index, lowest, allow, here):
        (index,) = all_contiguous(index)
        SOURCE.launch(
            "store_largest", index.dtype, 1, THREADS,
            index, index.size, lowest, int(allow is not None), allow or 0, here,
        )  # fmt: skip
