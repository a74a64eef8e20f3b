"""Compile CUDA source with CuPy, and launch its kernels.

Every kernel is a template in plain CUDA C++ with two types: T, the type of the arrays, and A,
the type in which sums are accumulated (float for float16). Integers are passed as `long long` and
other numbers as `double`, because CuPy passes Python ints and floats in this way.
"""

from ..backend import cuda

__all__ = ["FLOATS", "INTEGERS", "Source", "all_contiguous", "threads_for_row"]

FLOATS = {"float16": ("half", "float"), "float32": ("float", "float"), "float64": ("double",) * 2}
INTEGERS = {
    "int32": ("int", "unsigned int"), "int64": ("long long", "unsigned long long"),
    "uint32": ("unsigned int",) * 2, "uint64": ("unsigned long long",) * 2,
}  # fmt: skip
WARP, LARGEST_BLOCK = 32, 256

COMMON = r"""
#include <cuda_fp16.h>

// The sum of one value of each thread of a warp; every thread receives it.
template <typename A> __device__ A warp_sum(A value) {
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffff, value, step);
    return value;
}

template <typename A> __device__ A warp_max(A value) {
    for (int step = 16; step > 0; step /= 2) {
        A other = __shfl_xor_sync(0xffffffff, value, step);
        value = other > value || other != other ? other : value;  // NaN wins
    }
    return value;
}

// The sum over all threads of a block: first within each warp, then over the warps.
template <typename A> __device__ A block_sum(A value) {
    __shared__ A of_warp[32];
    value = warp_sum(value);
    __syncthreads();  // all threads have read the result of the previous call
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    A total = 0;
    for (int warp = 0; warp < (blockDim.x + 31) / 32; ++warp) total += of_warp[warp];
    return total;
}

template <typename A> __device__ A block_max(A value) {
    __shared__ A of_warp[32];
    value = warp_max(value);
    __syncthreads();
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    A largest = of_warp[0];
    for (int warp = 1; warp < (blockDim.x + 31) / 32; ++warp) {
        A other = of_warp[warp];
        largest = other > largest || other != other ? other : largest;
    }
    return largest;
}
"""


class Source:
    """CUDA source of one kernel file, compiled once for each dtype.

    Parameters
    ----------
    code : str
        CUDA C++ with templates `template <typename T, typename A> __global__ void name(...)`.
    names : tuple of str
        Names of the kernels.
    types : dict
        The types T and A in C++ for each dtype.
    """

    def __init__(self, code, *names, types=FLOATS):
        self.code = COMMON + code
        self.names = names
        self.types = types
        self._functions = {}  # (name, dtype) -> compiled kernel

    def instances(self, dtype):
        """Return a dict that maps each kernel's name to its C++ name, such as "f<float, float>"."""
        return {name: f"{name}<{', '.join(self.types[dtype])}>" for name in self.names}

    def _function(self, name, dtype):
        """Return a kernel. The first call for a dtype compiles the whole file for this dtype."""
        found = self._functions.get((name, dtype))
        if found is None:
            expressions = self.instances(dtype)
            module = cuda.load().RawModule(
                code=self.code, options=("-std=c++17",),
                name_expressions=tuple(expressions.values()),
            )  # fmt: skip
            for other, expression in expressions.items():
                self._functions[other, dtype] = module.get_function(expression)
            found = self._functions[name, dtype]
        return found

    def launch(self, name, dtype, blocks, threads, *arguments, shared=0):
        """Launch a kernel.

        Parameters
        ----------
        name : str
        dtype : dtype
            Type T of the arrays.
        blocks, threads : int or tuple of int
            Number of blocks, and of threads in each.
        *arguments : CuPy array, int, float or None
            None becomes a null pointer.
        shared : int
            Bytes of dynamic shared memory for each block.
        """
        blocks = blocks if type(blocks) is tuple else (blocks,)
        threads = threads if type(threads) is tuple else (threads,)
        if 0 in blocks:
            return
        arguments = tuple([0 if value is None else value for value in arguments])
        self._function(name, dtype.name)(blocks, threads, arguments, shared_mem=shared)


def threads_for_row(n):
    """Return the number of threads of a block that processes a row of n elements."""
    return min(max(-(-n // WARP), 1) * WARP, LARGEST_BLOCK)


def all_contiguous(*arrays):
    """Return the arrays in C order. Arrays already in C order are not copied; None stays None."""
    xp = cuda.load()
    return [
        a if a is None or a.flags.c_contiguous else xp.ascontiguousarray(a)  # 0-d stays 0-d
        for a in arrays
    ]
