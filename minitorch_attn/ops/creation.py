"""Creation of tensors: constants, ranges, the identity, and tensors from arrays."""

import builtins
import math

from ..backend import as_device, is_array, like, module_for
from ..errors import ArgumentError, DTypeError
from ..named_errors import names_arguments
from ..tensor import Tensor, leaf, tensor, wrap
from .plumbing.creation_arguments import (  # fmt: skip
    count_of,
    dtype_of,
    fill_value_of,
    shape_of,
)
from .plumbing.operands import number
from .plumbing.tensor_arguments import as_operand

__all__ = [
    "arange", "as_tensor", "copy_of", "empty", "empty_like", "eye", "from_numpy", "full",
    "full_like", "linspace", "ones", "ones_like", "tensor_like", "zeros", "zeros_like",
]  # fmt: skip


def _allocate(where, sizes, size, dtype, device, make="empty"):
    """Return a new array, created by the array module's function `make`.

    The caller passes the sizes as in `zeros(2, 3)`, `zeros((2, 3))` or `zeros(size=(2, 3))`.
    """
    if size is not None and sizes:
        raise ArgumentError(
            f"{where}: the size is given twice",
            got=f"{sizes} and size={size!r}",
            hint="pass the sizes as separate arguments, or as size=",
        )
    shape = shape_of(sizes if size is None else (size,), where)
    dtype = dtype_of(dtype, where)
    return _made(where, shape, dtype, device, lambda xp: getattr(xp, make)(shape, dtype=dtype))


def _made(where, shape, dtype, device, make):
    """Return the array `make(xp)`; if allocation fails, raise an error that states the size."""
    xp = module_for(as_device(device))
    try:
        return make(xp)
    except (MemoryError, ValueError, OverflowError):  # NumPy: no memory, too many axes or bytes
        raise ArgumentError(
            f"{where}: a tensor of this size could not be allocated",
            got=f"size {shape}, {math.prod(shape) * dtype.itemsize / 2**30:.4g} GiB, "
            f"{len(shape)} axes",
            expected="at most 64 axes, and fewer bytes than the memory of the device",
            hint="compute in smaller batches",
        ) from None


@names_arguments
def zeros(*sizes, size=None, dtype=None, device=None, requires_grad=False):
    """A tensor of zeros.

    Parameters
    ----------
    *sizes : int, or one tuple
        Size of each axis.
    size : tuple of int, optional
        The sizes as one argument.
    dtype : dtype, default float32
    device : str or Device, default "cpu"
    requires_grad : bool, default False
        Whether operations on the tensor are recorded, so that it gets a gradient.

    Raises
    ------
    ArgumentError
        If a size is negative, or the tensor does not fit in memory.

    Examples
    --------
    >>> zeros(2, 3)
    tensor([[0., 0., 0.],
            [0., 0., 0.]])
    """
    return leaf(_allocate("zeros", sizes, size, dtype, device, "zeros"), requires_grad)


@names_arguments
def ones(*sizes, size=None, dtype=None, device=None, requires_grad=False):
    """A tensor of ones. The arguments are those of `zeros`."""
    return leaf(_allocate("ones", sizes, size, dtype, device, "ones"), requires_grad)


@names_arguments
def empty(*sizes, size=None, dtype=None, device=None, requires_grad=False):
    """A tensor with uninitialized elements. The arguments are those of `zeros`."""
    return leaf(_allocate("empty", sizes, size, dtype, device), requires_grad)


@names_arguments
def full(size, fill_value, *, dtype=None, device=None, requires_grad=False):
    """A tensor filled with `fill_value`, whose type determines the dtype by default.

    Raises
    ------
    ArgumentError
        If the dtype cannot represent `fill_value`, such as NaN in an integer tensor.
    """
    if isinstance(fill_value, Tensor):
        dtype = dtype or fill_value.dtype
    fill_value = number(fill_value, "full", "fill_value")
    if dtype is None:
        kinds = {builtins.bool: "bool", builtins.int: "int64"}
        dtype = kinds.get(type(fill_value))
    return _filled("full", size, fill_value, dtype, device, requires_grad)


def _filled(where, size, fill_value, dtype, device, requires_grad):
    array = _allocate(where, (size,), None, dtype, device)
    array.fill(fill_value_of(fill_value, array.dtype, where))
    return leaf(array, requires_grad)


@names_arguments
def zeros_like(input, *, dtype=None, device=None, requires_grad=False):
    """Zeros with the shape, dtype and device of `input`."""
    input = as_operand(input, "zeros_like")
    dtype, device = dtype or input.dtype, device or input.device
    array = _allocate("zeros_like", (input.shape,), None, dtype, device, "zeros")
    return leaf(array, requires_grad)


@names_arguments
def ones_like(input, *, dtype=None, device=None, requires_grad=False):
    """Ones with the shape, dtype and device of `input`."""
    input = as_operand(input, "ones_like")
    dtype, device = dtype or input.dtype, device or input.device
    array = _allocate("ones_like", (input.shape,), None, dtype, device, "ones")
    return leaf(array, requires_grad)


@names_arguments
def empty_like(input, *, dtype=None, device=None, requires_grad=False):
    """Uninitialized elements with the shape, dtype and device of `input`."""
    input = as_operand(input, "empty_like")
    dtype, device = dtype or input.dtype, device or input.device
    return leaf(_allocate("empty_like", (input.shape,), None, dtype, device), requires_grad)


@names_arguments
def full_like(input, fill_value, *, dtype=None, device=None, requires_grad=False):
    """A tensor filled with `fill_value`, with the shape, dtype and device of `input`."""
    input = as_operand(input, "full_like")
    dtype, device = dtype or input.dtype, device or input.device
    return _filled("full_like", input.shape, fill_value, dtype, device, requires_grad)


@names_arguments
def arange(start=None, end=None, step=1, *, dtype=None, device=None, requires_grad=False):
    """The numbers start, start + step, ... up to, but not including, `end`.

    Parameters
    ----------
    start : number, default 0
        First number. A single argument is `end`, not `start`.
    end : number
        Limit, which is not included.
    step : number, default 1
        Difference between neighbors; negative to count down.
    dtype : dtype, optional
        By default, int64 if start, end and step are all integers, otherwise float32.

    Examples
    --------
    >>> arange(3), arange(1, 2, 0.5), arange(end=2)
    (tensor([0, 1, 2]), tensor([1. , 1.5]), tensor([0, 1]))
    """
    if end is None:
        start, end = None, start
    names = {"start": 0 if start is None else start, "end": end, "step": step}
    start, end, step = values = [number(value, "arange", name) for name, value in names.items()]
    count = math.ceil((end - start) / step) if step and all(map(math.isfinite, values)) else -1
    if count < 0:
        raise ArgumentError(
            "arange: step does not lead from start to end",
            got=f"start={start}, end={end}, step={step}",
            expected="three finite numbers; a step with the same sign as end - start",
            hint="arange(5, 0, -1) counts down",
        )
    if dtype is None and not any(isinstance(value, builtins.float) for value in values):
        dtype = "int64"
    dtype = dtype_of(dtype, "arange")

    def make(xp):
        return xp.arange(start, end, step).astype(dtype, copy=False)

    return leaf(_made("arange", (count,), dtype, device, make), requires_grad)


@names_arguments
def linspace(start, end, steps, *, dtype=None, device=None, requires_grad=False):
    """`steps` evenly spaced numbers from `start` to `end`, both included."""
    start, end = number(start, "linspace", "start"), number(end, "linspace", "end")
    steps = count_of(steps, "linspace", "steps")
    dtype = dtype_of(dtype, "linspace")

    def make(xp):
        return xp.linspace(start, end, steps).astype(dtype)

    return leaf(_made("linspace", (steps,), dtype, device, make), requires_grad)


@names_arguments
def eye(n, m=None, *, dtype=None, device=None, requires_grad=False):
    """A matrix with n rows and m columns (default n), with ones on the diagonal."""
    n = count_of(n, "eye", "n")
    m = n if m is None else count_of(m, "eye", "m")
    dtype = dtype_of(dtype, "eye")
    array = _made("eye", (n, m), dtype, device, lambda xp: xp.eye(n, m, dtype=dtype))
    return leaf(array, requires_grad)


@names_arguments
def from_numpy(ndarray):
    """A tensor that shares memory with a NumPy array."""
    if not is_array(ndarray):
        raise DTypeError(
            "from_numpy: ndarray is not a NumPy array",
            got=type(ndarray).__name__,
            hint="use mt.tensor(...) for a list or a number",
        )
    dtype_of(ndarray.dtype, "from_numpy")
    return wrap(ndarray)


@names_arguments
def as_tensor(data, dtype=None, device=None):
    """Convert `data` to a tensor. Arrays and tensors are copied only to change dtype or device."""
    if not isinstance(data, Tensor):
        data = from_numpy(data) if is_array(data) else tensor(data, dtype=dtype)
    return data.to(dtype=dtype, device=device)


@names_arguments
def tensor_like(data, other):
    """Convert `data` to a tensor with the dtype and device of `other`."""
    return wrap(like(data.array if isinstance(data, Tensor) else data, other.array))


@names_arguments
def copy_of(target, source):
    """Convert `source` to the shape, dtype and device of `target`, for `copy_`."""
    target = as_operand(target, "copy_of", "target")
    if not isinstance(source, Tensor):
        source = tensor_like(source, target)
    return source.to(device=target.device, dtype=target.dtype).expand(*target.shape)
