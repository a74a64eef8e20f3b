"""Matrix products of CUDA arrays with a single cuBLAS call that does not copy the operands.

For arrays with more than two axes, CuPy's product copies each operand that is not in C order, and
computes float16 in float32. CuPy also refuses every call of cuBLAS while a CUDA graph is captured.
This module calls `cublasGemmStridedBatchedEx` itself, in the library that CuPy uses. The module
`product_layout` finds the transpose flags and strides for the call. Tensor cores multiply float16
numbers and add up the products in float32. This module also allocates cuBLAS's workspace, because
the capture of a CUDA graph requires this.

`settings.allow_tf32` corresponds to PyTorch's `backends.cuda.matmul.allow_tf32`.
"""

import ctypes
import importlib
import threading
from functools import lru_cache

from minitorch_attn.backend.product_layout import plan

__all__ = ["library", "matmul", "settings"]

# cudaDataType, cublasComputeType_t and the type of alpha and beta, for each dtype
_TYPES = {
    "e": (2, 68, ctypes.c_float), "f": (0, 68, ctypes.c_float), "d": (1, 70, ctypes.c_double),
}  # fmt: skip
_FAST_TF32, _DEFAULT_ALGORITHM = 77, -1
_SCALARS = {  # alpha and beta
    kind: (ctypes.byref(kind(1)), ctypes.byref(kind(0)))
    for kind in (ctypes.c_float, ctypes.c_double)
}
_HOPPER_WORKSPACE, _WORKSPACE = 32 << 20, 4 << 20  # bytes that NVIDIA recommends
_int, _long, _address = ctypes.c_int, ctypes.c_longlong, ctypes.c_void_p
_MATRIX = [_address, _int, _int, _long]  # data, type, leading dimension, batch stride
_ARGUMENTS = [
    _address, *[_int] * 5, _address, *_MATRIX, *_MATRIX, _address, *_MATRIX, *[_int] * 3,
]  # fmt: skip


class _Settings:
    """Precision settings for matrix products, under PyTorch's names."""

    precision = "highest"
    allow_fp16_reduced_precision_reduction = False  # has no effect: sums are in float32

    @property
    def allow_tf32(self):
        """Whether tensor cores may round float32 factors to 10-bit mantissas (TF32)."""
        return self.precision != "highest"

    @allow_tf32.setter
    def allow_tf32(self, allow):
        self.precision = "high" if allow else "highest"


settings = _Settings()


class _Library:
    """cuBLAS: the functions used here, and one handle for each thread and device."""

    def __init__(self, path):
        functions = ctypes.CDLL(path)
        self._create = _function(functions, "cublasCreate", _address)
        self._set_stream = _function(functions, "cublasSetStream", _address, _address)
        self.gemm = _function(functions, "cublasGemmStridedBatchedEx", *_ARGUMENTS)
        try:
            types = _address, _address, ctypes.c_size_t
            self._set_workspace = _function(functions, "cublasSetWorkspace", *types)
        except AttributeError:  # missing before CUDA 11.2, and in a simulation
            self._set_workspace = None
        self._handles = threading.local()
        self._workspaces = {}  # (handle, stream) -> memory; a captured graph keeps using its own

    def handle(self, cupy):
        """Return this thread's cuBLAS handle for the current device, set to the current stream."""
        device = cupy.cuda.runtime.getDevice()
        known = self._handles.__dict__
        if device not in known:
            handle = _address()
            check(self._create(ctypes.byref(handle)), "cublasCreate")
            known[device] = [handle.value, None]
        found = known[device]
        stream = cupy.cuda.get_current_stream().ptr
        if found[1] != stream:
            check(self._set_stream(found[0], stream), "cublasSetStream")
            self._use_workspace(cupy, found[0], stream)  # cublasSetStream resets the workspace
            found[1] = stream
        return found[0]

    def _use_workspace(self, cupy, handle, stream):
        """Make a cuBLAS handle use its workspace (scratch memory) for this stream."""
        if self._set_workspace is None:
            return
        memory = self._workspaces.get((handle, stream))
        if memory is None:
            hopper = int(cupy.cuda.Device().compute_capability) >= 90
            memory = cupy.cuda.memory.Memory(_HOPPER_WORKSPACE if hopper else _WORKSPACE)
            self._workspaces[handle, stream] = memory
        check(self._set_workspace(handle, memory.ptr, memory.size), "cublasSetWorkspace")


def _function(functions, name, *types):
    """Return a cuBLAS function: its version with the suffix _v2 if there is one."""
    found = getattr(functions, f"{name}_v2", None) or getattr(functions, name)
    found.argtypes, found.restype = types, _int
    return found


def check(status, name):
    """Raise RuntimeError if a function of cuBLAS failed."""
    if status:
        raise RuntimeError(f"{name} failed with status {status} (cublasStatus_t)")


@lru_cache(maxsize=1)
def library():
    """Return cuBLAS. If it cannot be loaded, return None, and CuPy computes the products."""
    for finder in ("cupysim.pathfinder", "cuda.pathfinder"):  # simulated cuBLAS, then real
        try:
            found = importlib.import_module(finder).load_nvidia_dynamic_lib("cublas")
            return _Library(found.abs_path)
        except (ImportError, OSError, RuntimeError, AttributeError):
            continue
    return None


def matmul(cupy, a, b):
    """Return `a @ b` for CuPy arrays.

    Parameters
    ----------
    cupy : module
    a : cupy.ndarray of shape (..., n, k)
    b : cupy.ndarray of shape (..., k, m)

    Returns
    -------
    cupy.ndarray of shape (..., n, m), in C order
    """
    blas, dtype = library(), a.dtype
    if blas is None or dtype != b.dtype or dtype.char not in _TYPES or not (a.ndim and b.ndim):
        return a @ b
    if a.ndim == 1:
        product = matmul(cupy, a[None], b)
        return product.reshape((*product.shape[:-2], product.shape[-1]) if b.ndim > 1 else ())
    if b.ndim == 1:
        product = matmul(cupy, a, b[:, None])
        return product.reshape(product.shape[:-1])
    if not (a.size and b.size) or a.shape[-1] != b.shape[-2] or not _batches_match(a, b):
        return a @ b  # CuPy returns zeros, or raises its error
    found = _plan(a, b)
    if any(found.copies):
        a, b = (
            cupy.ascontiguousarray(x) if copy else x
            for x, copy in zip((a, b), found.copies, strict=True)
        )
        found = _plan(a, b)
    out = cupy.empty(found.shape, dtype)
    _call(blas, blas.handle(cupy), found, a, b, out)
    return out


def _batches_match(a, b):
    """Return True if the batch axes of a and b can be broadcast against each other."""
    pairs = zip(a.shape[-3::-1], b.shape[-3::-1], strict=False)
    return all(p == q or p == 1 or q == 1 for p, q in pairs)


def _plan(a, b):
    size = a.itemsize
    a_steps = tuple([step // size if step % size == 0 else -1 for step in a.strides])
    b_steps = tuple([step // size if step % size == 0 else -1 for step in b.strides])
    return plan(a.shape, a_steps, b.shape, b_steps)


def _call(blas, handle, found, a, b, out):
    """Call cuBLAS to compute out^T = b^T @ a^T, because it expects column-major matrices."""
    kind, compute, scalar = _TYPES[out.dtype.char]
    if kind == 0 and settings.allow_tf32:
        compute = _FAST_TF32
    (n, m, k), size = found.sizes, out.itemsize
    (a_flag, a_ld), (b_flag, b_ld) = found.layouts
    a_step, b_step, out_step = found.steps
    alpha, beta = _SCALARS[scalar]
    at_a, at_b, at_out = a.data.ptr, b.data.ptr, out.data.ptr
    for a_start, b_start, out_start in found.starts:
        status = blas.gemm(
            handle, b_flag, a_flag, m, n, k, alpha,
            at_b + b_start * size, kind, b_ld, b_step,
            at_a + a_start * size, kind, a_ld, a_step, beta,
            at_out + out_start * size, kind, m, out_step,
            found.count, compute, _DEFAULT_ALGORITHM,
        )  # fmt: skip
        if status:
            check(status, "cublasGemmStridedBatchedEx")
