"""Creation of tensors: constants, ranges and random numbers."""

import builtins

from ..backend import as_device, as_dtype, from_host, host_generator, is_array, like, module_for
from ..errors import ArgumentError, DTypeError
from ..tensor import Tensor, wrap
from .plumbing.tensor_arguments import as_operand

__all__ = [
    "arange", "as_tensor", "copy_of", "empty", "empty_like", "eye", "from_numpy", "full",
    "full_like", "linspace", "ones", "ones_like", "rand", "rand_like", "randint", "randn",
    "randn_like", "randperm", "tensor_like", "zeros", "zeros_like",
]  # fmt: skip

_FLOAT = as_dtype("float32")


def _sizes(size):
    """Return the sizes passed as separate arguments or as one tuple, as in `zeros((2, 3))`."""
    if len(size) == 1 and not isinstance(size[0], builtins.int):
        return tuple(size[0])
    return tuple(size)


def _finish(array, requires_grad):
    result = wrap(array)
    if requires_grad:
        result.requires_grad = True
    return result


def _place(host, device, requires_grad):
    return _finish(from_host(host, as_device(device)), requires_grad)


def zeros(*size, dtype=None, device=None, requires_grad=False):
    """A tensor of zeros.

    Parameters
    ----------
    *size : int, or one tuple
        Size of each axis.
    dtype : dtype, default float32
    device : str or Device, default "cpu"
    requires_grad : bool, default False
        Whether operations on the tensor are recorded, so that it gets a gradient.

    Examples
    --------
    >>> zeros(2, 3)
    tensor([[0., 0., 0.],
            [0., 0., 0.]])
    """
    xp = module_for(as_device(device))
    return _finish(xp.zeros(_sizes(size), dtype=dtype or _FLOAT), requires_grad)


def ones(*size, dtype=None, device=None, requires_grad=False):
    """A tensor of ones. The arguments are those of `zeros`."""
    xp = module_for(as_device(device))
    return _finish(xp.ones(_sizes(size), dtype=dtype or _FLOAT), requires_grad)


def empty(*size, dtype=None, device=None, requires_grad=False):
    """A tensor with uninitialized elements. The arguments are those of `zeros`."""
    xp = module_for(as_device(device))
    return _finish(xp.empty(_sizes(size), dtype=dtype or _FLOAT), requires_grad)


def full(size, fill_value, *, dtype=None, device=None, requires_grad=False):
    """A tensor filled with `fill_value`; by default, its type determines the dtype."""
    if isinstance(fill_value, Tensor):
        dtype, fill_value = dtype or fill_value.dtype, fill_value.item()
    if dtype is None:
        kinds = {builtins.bool: "bool", builtins.int: "int64"}
        dtype = kinds.get(type(fill_value), _FLOAT)
    xp = module_for(as_device(device))
    size = (size,) if isinstance(size, builtins.int) else tuple(size)
    return _finish(xp.full(size, fill_value, dtype=dtype), requires_grad)


def zeros_like(input, *, dtype=None, device=None, requires_grad=False):
    """Zeros with the shape, dtype and device of `input`."""
    input = as_operand(input, "zeros_like")
    return zeros(
        input.shape, dtype=dtype or input.dtype, device=device or input.device,
        requires_grad=requires_grad,
    )  # fmt: skip


def ones_like(input, *, dtype=None, device=None, requires_grad=False):
    """Ones with the shape, dtype and device of `input`."""
    input = as_operand(input, "ones_like")
    return ones(
        input.shape, dtype=dtype or input.dtype, device=device or input.device,
        requires_grad=requires_grad,
    )  # fmt: skip


def empty_like(input, *, dtype=None, device=None, requires_grad=False):
    """Uninitialized elements with the shape, dtype and device of `input`."""
    input = as_operand(input, "empty_like")
    return empty(
        input.shape, dtype=dtype or input.dtype, device=device or input.device,
        requires_grad=requires_grad,
    )  # fmt: skip


def full_like(input, fill_value, *, dtype=None, device=None, requires_grad=False):
    """A tensor filled with `fill_value`, with the shape, dtype and device of `input`."""
    input = as_operand(input, "full_like")
    return full(
        input.shape, fill_value, dtype=dtype or input.dtype, device=device or input.device,
        requires_grad=requires_grad,
    )  # fmt: skip


def arange(start, end=None, step=1, *, dtype=None, device=None, requires_grad=False):
    """The numbers start, start + step, ... up to, but not including, `end`.

    Examples
    --------
    >>> arange(3), arange(1, 2, 0.5)
    (tensor([0, 1, 2]), tensor([1. , 1.5]))
    """
    if end is None:
        start, end = 0, start
    if step == 0:
        raise ArgumentError("arange: step must not be 0", got="step=0")
    if dtype is None:
        fractional = any(isinstance(v, builtins.float) for v in (start, end, step))
        dtype = _FLOAT if fractional else "int64"
    xp = module_for(as_device(device))
    return _finish(xp.arange(start, end, step).astype(dtype), requires_grad)


def linspace(start, end, steps, *, dtype=None, device=None, requires_grad=False):
    """`steps` evenly spaced numbers from `start` to `end`, both included."""
    xp = module_for(as_device(device))
    return _finish(xp.linspace(start, end, steps).astype(dtype or _FLOAT), requires_grad)


def eye(n, m=None, *, dtype=None, device=None, requires_grad=False):
    """A matrix with n rows and m columns (default n), with ones on the diagonal."""
    xp = module_for(as_device(device))
    return _finish(xp.eye(n, m, dtype=dtype or _FLOAT), requires_grad)


def rand(*size, dtype=None, device=None, requires_grad=False):
    """Uniform random numbers in [0, 1), drawn on the host and thus the same on every device."""
    host = host_generator().random(_sizes(size)).astype(dtype or _FLOAT)
    return _place(host, device, requires_grad)


def randn(*size, dtype=None, device=None, requires_grad=False):
    """Standard normal random numbers, drawn on the host and thus the same on every device."""
    host = host_generator().standard_normal(_sizes(size)).astype(dtype or _FLOAT)
    return _place(host, device, requires_grad)


def rand_like(input, *, dtype=None):
    """Uniform random numbers with the shape, dtype and device of `input`."""
    input = as_operand(input, "rand_like")
    return rand(input.shape, dtype=dtype or input.dtype, device=input.device)


def randn_like(input, *, dtype=None):
    """Standard normal random numbers with the shape, dtype and device of `input`."""
    input = as_operand(input, "randn_like")
    return randn(input.shape, dtype=dtype or input.dtype, device=input.device)


def randint(low, high=None, size=None, *, dtype=None, device=None):
    """Random integers from `low` up to, but not including, `high`."""
    if size is None:  # randint(high, size)
        low, high, size = 0, low, high
    host = host_generator().integers(low, high, size=tuple(size)).astype(dtype or "int64")
    return _place(host, device, False)


def randperm(n, *, device=None):
    """The integers from 0 to `n` - 1 in random order."""
    return _place(host_generator().permutation(n), device, False)


def from_numpy(ndarray):
    """A tensor that shares memory with a NumPy array."""
    if not is_array(ndarray):
        raise DTypeError(
            "from_numpy: the argument is not a NumPy array",
            got=type(ndarray).__name__,
            hint="use mt.tensor(...) for a list or a number",
        )
    return wrap(ndarray)


def as_tensor(data, dtype=None, device=None):
    """Convert `data` to a tensor; copy an array or tensor only to change its dtype or device."""
    if not isinstance(data, Tensor):
        data = wrap(data) if is_array(data) else Tensor(data, dtype=dtype)
    return data.to(dtype=dtype, device=device)


def tensor_like(data, other):
    """Convert `data` to a tensor with the dtype and device of `other`."""
    return wrap(like(data.array if isinstance(data, Tensor) else data, other.array))


def copy_of(target, source):
    """Convert `source` to the shape, dtype and device of `target`, for `copy_`."""
    target = as_operand(target, "copy_of", "target")
    if not isinstance(source, Tensor):
        source = tensor_like(source, target)
    return source.to(device=target.device, dtype=target.dtype).expand(*target.shape)
