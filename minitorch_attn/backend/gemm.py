"""Matrix products, all of which go through `matmul`."""

from numpy import ndarray

from minitorch_attn.backend.devices import array_module, platform_of

__all__ = ["matmul", "matmul_host"]


def matmul(a, b):
    """Return `a @ b`.

    Parameters
    ----------
    a : array of shape (..., n, k)
    b : array of shape (..., k, m)

    Returns
    -------
    array of shape (..., n, m)
    """
    if type(a) is ndarray and type(b) is ndarray:
        return matmul_host(a, b)
    array_module(a, b)
    return platform_of(a).matmul(a, b)


def matmul_host(a, b):
    """Matrix product of NumPy arrays.

    NumPy loops over the leading axes; one large product with a 2-D right factor is faster.
    """
    if b.ndim == 2 and a.ndim > 2 and a.flags.c_contiguous and a.shape[-1] == b.shape[0]:
        # (..., n, k) @ (k, m) -> (... * n, k) @ (k, m)
        flat = a.reshape(-1, a.shape[-1]) @ b if a.size else None
        if flat is not None:
            return flat.reshape(*a.shape[:-1], b.shape[-1])
    return a @ b
