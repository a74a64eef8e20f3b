"""Methods of Tensor, as a table that maps each `x.name(...)` to an operation.

Most methods call the operation of the same name, as `x.softmax(-1)` calls `ops.softmax(x, -1)`.
Such a method has the arguments and the documentation of its operation, whose first parameter,
`input`, is the tensor. The operators, such as `x + y`, are defined in `tensor.py`.
"""

from types import FunctionType

from . import ops
from .autograd import inplace

__all__ = ["add_methods"]

# Methods that call the operation of the same name.
_OPERATIONS = """
abs add addcdiv addcmul allclose bitwise_and bitwise_not bitwise_or bitwise_xor ceil clamp clone
cos div eq equal erf exp expm1 floor floor_divide ge gt isclose isfinite isinf isnan le lerp log
log10 log1p log2 logaddexp logical_and logical_not logical_or logical_xor lt masked_fill maximum
minimum mul ne neg pow reciprocal relu remainder round rsqrt sigmoid sign sin sqrt square sub tan
tanh to trunc

all amax amin any argmax argmin argsort cumprod cumsum logsumexp max median min norm prod sort std
topk var

addmm addmv baddbmm bmm dot inner matmul mm mv outer trace vdot

broadcast_to chunk diag diag_embed diagonal fliplr flipud flatten hsplit moveaxis movedim narrow
ravel roll rot90 select split squeeze t tensor_split transpose tril triu unbind unflatten unsqueeze
view view_as vsplit

argwhere bernoulli gather index_add index_copy index_fill index_put index_select masked_select
multinomial nonzero scatter scatter_add take_along_dim
"""

# Methods that call an operation of another name.
_ALIASES = {
    "clip": "clamp", "swapdims": "transpose", "type": "cast", "unfold": "sliding_windows",
    "view_as_alias": "alias",
}  # fmt: skip

# `x.add_(y)` runs `add` and writes the result into the memory of x.
_IN_PLACE = """
abs add addcdiv addcmul ceil clamp cos cumsum div erf exp expm1 floor index_add index_copy
index_fill index_put lerp log log1p masked_fill mul neg pow reciprocal relu remainder round rsqrt
scatter scatter_add sigmoid sign sin sqrt square sub tanh tril triu trunc
"""

# `x.float()` converts to float32.
_CASTS = {
    "bool": "bool", "double": "float64", "float": "float32", "half": "float16", "int": "int32",
    "long": "int64",
}  # fmt: skip


class _Methods:
    """Methods whose arguments differ from those of their operation.

    A method without a docstring inherits that of the operation with the same name.
    """

    def sum(self, dim=None, keepdim=False, *, axis=None, keepdims=None, dtype=None):
        return ops.sum(self, _first(dim, axis), _first(keepdims, keepdim), dtype=dtype)

    def mean(self, dim=None, keepdim=False, *, axis=None, keepdims=None, dtype=None):
        return ops.mean(self, _first(dim, axis), _first(keepdims, keepdim), dtype=dtype)

    def softmax(self, dim, dtype=None):
        return ops.softmax(self, dim, dtype=dtype)

    def log_softmax(self, dim, dtype=None):
        return ops.log_softmax(self, dim, dtype=dtype)

    def reshape(self, *shape):
        return ops.reshape(self, _sizes(shape))

    def permute(self, *dims):
        return ops.permute(self, _sizes(dims))

    def expand(self, *size):
        return ops.expand(self, _sizes(size))

    def repeat(self, *sizes):
        return ops.repeat(self, _sizes(sizes))

    def tile(self, *dims):
        return ops.tile(self, _sizes(dims))

    def flip(self, *dims):
        return ops.flip(self, _sizes(dims))

    def repeat_interleave(self, repeats, dim=None, *, output_size=None):
        return ops.repeat_interleave(self, repeats, dim, output_size=output_size)

    def swapaxes(self, axis0, axis1):
        return ops.transpose(self, axis0, axis1)

    def where(self, condition, other):
        return ops.where(condition, self, other)

    def reshape_as(self, other):
        """Reshape to the shape of the tensor `other`."""
        return ops.reshape(self, other.shape)

    def expand_as(self, other):
        """Expand to the shape of the tensor `other`."""
        return ops.expand(self, other.shape)

    def type_as(self, other):
        """Convert to the dtype of the tensor `other`."""
        return ops.cast(self, other.dtype)

    def cpu(self):
        """Copy to the CPU; return the tensor itself if it is already there."""
        return ops.to(self, "cpu")

    def cuda(self, device=None):
        """Copy to the GPU `device`, a number or a name; by default, to the current GPU."""
        if device is None:
            device = "cuda"
        return ops.to(self, f"cuda:{device}" if isinstance(device, int) else device)

    def new_zeros(self, *size, dtype=None):
        """Zeros of shape `size`, with the dtype (unless given) and device of this tensor."""
        return ops.zeros(_sizes(size), dtype=dtype or self.dtype, device=self.device)

    def new_ones(self, *size, dtype=None):
        """Ones of shape `size`, with the dtype (unless given) and device of this tensor."""
        return ops.ones(_sizes(size), dtype=dtype or self.dtype, device=self.device)

    def new_tensor(self, data):
        """Return a copy of `data` with the dtype and device of this tensor."""
        return ops.tensor_like(data, self)

    def new_full(self, size, fill_value, dtype=None):
        """Return a tensor of shape `size` with this device and, unless given, this dtype."""
        return ops.full(size, fill_value, dtype=dtype or self.dtype, device=self.device)

    def clamp_min(self, min):
        """Replace elements below `min` by `min`."""
        return ops.clamp(self, min=min)

    def clamp_max(self, max):
        """Replace elements above `max` by `max`."""
        return ops.clamp(self, max=max)

    def uniform_(self, low=0.0, high=1.0, *, generator=None):
        """Fill with random numbers, uniform in [low, high), in place."""
        return inplace.change(self, ops.uniform_like, low, high, generator=generator)

    def normal_(self, mean=0.0, std=1.0, *, generator=None):
        """Fill with normal random numbers of the given mean and standard deviation, in place."""
        return inplace.change(self, ops.normal_like, mean, std, generator=generator)

    def bernoulli_(self, p=0.5, *, generator=None):
        """Fill with zeros and ones, each 1 with probability `p`, in place."""
        return inplace.change(self, ops.bernoulli, p, generator=generator)

    def zero_(self):
        """Set all elements to 0, in place."""
        return inplace.change(self, ops.zeros_like)

    def fill_(self, value):
        """Set all elements to `value`, in place."""
        return inplace.change(self, ops.full_like, value)

    def copy_(self, other):
        """Copy the values of `other`, broadcast to the shape of this tensor, in place."""
        return inplace.change(self, ops.copy_of, other)


def add_methods(cls):
    """Add every method in the tables above to `cls`, the class Tensor."""
    for name in _OPERATIONS.split():
        setattr(cls, name, _renamed(getattr(ops, name), name))
    for name, operation in _ALIASES.items():
        setattr(cls, name, _renamed(getattr(ops, operation), name))
    for name in _IN_PLACE.split():
        setattr(cls, f"{name}_", _in_place(getattr(ops, name), f"{name}_"))
    for name, dtype in _CASTS.items():
        setattr(cls, name, _cast(dtype, name))
    for name, method in vars(_Methods).items():
        if isinstance(method, FunctionType):
            doc = method.__doc__ or getattr(ops, name).__doc__
            setattr(cls, name, _titled(_renamed(method, name), name, doc))


def _renamed(operation, name):
    """Copy the function of an operation under the name `Tensor.name`."""
    method = FunctionType(
        operation.__code__, operation.__globals__, name, operation.__defaults__,
        operation.__closure__,
    )  # fmt: skip
    method.__kwdefaults__ = operation.__kwdefaults__
    method.__qualname__, method.__doc__ = f"Tensor.{name}", operation.__doc__
    return method


def _in_place(operation, name):
    operation = _renamed(operation, name)

    def method(self, *args, **kwargs):
        return inplace.change(self, operation, *args, **kwargs)

    method.__wrapped__ = operation  # its arguments are the arguments of this method
    return _titled(method, name, f"In place: {operation.__doc__}")


def _cast(dtype, name):
    def method(self):
        return ops.cast(self, dtype)

    doc = f"Convert to {dtype}; return the tensor itself if it already has this dtype."
    return _titled(method, name, doc)


def _titled(method, name, doc):
    """Rename a function to `Tensor.name` and set its docstring."""
    full = f"Tensor.{name}"
    method.__code__ = method.__code__.replace(co_name=name, co_qualname=full)
    method.__name__, method.__qualname__, method.__doc__ = name, full, doc
    return method


def _first(*values):
    """Return the first value that is not None."""
    for value in values:
        if value is not None:
            return value
    return None


def _sizes(sizes):
    """Return the shape from `x.reshape(2, 3)` or `x.reshape((2, 3))`, which mean the same."""
    if len(sizes) == 1 and not isinstance(sizes[0], int) and hasattr(sizes[0], "__iter__"):
        return tuple(sizes[0])
    return sizes
