"""Methods of Tensor: tables that say which operation each `x.name(...)` calls.

Most methods call the operation of the same name: `x.softmax(-1)` calls `ops.softmax(x, -1)`. Such a
method has the parameters and the documentation of the operation; the tensor is the operation's
first parameter, `input`. Methods with `dim` or `keepdim` also accept NumPy's names, `axis` and
`keepdims`. The operators, such as `x + y`, are defined in `tensor.py`.
"""

from inspect import unwrap
from types import FunctionType

from . import ops
from .autograd import inplace
from .errors import ArgumentError
from .named_errors import guards, names_arguments
from .ops.plumbing.keyword_names import with_other_names

__all__ = ["add_methods"]

# Methods that call the operation of the same name.
_OPERATIONS = """
abs add addcdiv addcmul allclose bitwise_and bitwise_not bitwise_or bitwise_xor ceil clamp clone cos
div eq equal erf erfinv exp expm1 floor floor_divide fmod ge gt isclose isfinite isinf isnan le lerp
log log10 log1p log2 logaddexp logical_and logical_not logical_or logical_xor lt masked_fill maximum
minimum mul nan_to_num ne neg pow prelu reciprocal relu remainder round rsqrt sigmoid sign sin sqrt
square sub tan tanh to trunc

all amax amin any argmax argmin argsort cumprod cumsum logsumexp max mean median min norm prod sort
std sum topk var

addmm addmv baddbmm bmm dot inner matmul mm mv outer trace vdot

broadcast_to chunk diag diag_embed diagonal fliplr flipud flatten hsplit moveaxis movedim narrow
ravel roll rot90 select split squeeze swapaxes swapdims t tensor_split transpose tril triu unbind
unflatten unsqueeze view view_as vsplit

argwhere bernoulli bincount gather index_add index_copy index_fill index_put index_select
masked_select multinomial nonzero scatter scatter_add scatter_reduce take_along_dim unique
unique_consecutive
"""

# Methods that call an operation of another name.
_ALIASES = {
    **ops.OTHER_NAMES, "unfold": "sliding_windows", "view_as_alias": "alias",
}  # fmt: skip

# `x.add_(y)` runs `add` and writes the result into the memory of x.
_IN_PLACE = """
abs add addcdiv addcmul addmm baddbmm bitwise_and bitwise_not bitwise_or bitwise_xor ceil clamp cos
cumprod cumsum div eq erf erfinv exp expm1 floor floor_divide fmod ge gt index_add index_copy
index_fill index_put le lerp log log10 log1p log2 logical_and logical_not logical_or logical_xor lt
masked_fill mul nan_to_num ne neg pow reciprocal relu remainder round rsqrt scatter scatter_add
scatter_reduce sigmoid sign sin sqrt square sub tan tanh tril triu trunc
"""

# `x.squeeze_()` turns x itself into its view `squeeze(x)`.
_IN_PLACE_SHAPES = "squeeze swapaxes swapdims t transpose unsqueeze"

# `x.float()` converts to float32.
_CASTS = {
    "bool": "bool", "byte": "uint8", "char": "int8", "double": "float64", "float": "float32",
    "half": "float16", "int": "int32", "long": "int64", "short": "int16",
}  # fmt: skip

# PyTorch's names of the types of tensors: `x.type()` returns "torch.FloatTensor".
_TYPES = {
    "bool": "BoolTensor", "uint8": "ByteTensor", "int8": "CharTensor", "float64": "DoubleTensor",
    "float32": "FloatTensor", "float16": "HalfTensor", "int32": "IntTensor",
    "int64": "LongTensor", "int16": "ShortTensor",
}  # fmt: skip


class _Methods:
    """Methods whose parameters differ from the parameters of the operation that they call.

    A method without a docstring inherits the docstring of the operation with the same name.
    """

    def softmax(self, dim, dtype=None):
        return ops.softmax(self, dim, dtype=dtype)

    def log_softmax(self, dim, dtype=None):
        return ops.log_softmax(self, dim, dtype=dtype)

    def reshape(self, *sizes, shape=None):
        return ops.reshape(self, _sizes("reshape", sizes, shape, "shape"))

    def permute(self, *axes, dims=None):
        return ops.permute(self, _sizes("permute", axes, dims, "dims"))

    def expand(self, *sizes, size=None):
        return ops.expand(self, _sizes("expand", sizes, size, "size"))

    @names_arguments
    def repeat(self, *sizes, repeats=None):
        return ops.repeat(self, _sizes("repeat", sizes, repeats, "repeats"))

    @names_arguments
    def tile(self, *sizes, dims=None):
        return ops.tile(self, _sizes("tile", sizes, dims, "dims"))

    @names_arguments
    def flip(self, *axes, dims=None):
        return ops.flip(self, _sizes("flip", axes, dims, "dims"))

    @names_arguments
    def repeat_interleave(self, repeats, dim=None, *, output_size=None):
        return ops.repeat_interleave(self, repeats, dim, output_size=output_size)

    def where(self, condition, other):
        return ops.where(condition, self, other)

    @names_arguments
    def reshape_as(self, other):
        """Reshape to the shape of the tensor `other`."""
        return ops.reshape(self, other.shape)

    @names_arguments
    def expand_as(self, other):
        """Expand to the shape of the tensor `other`."""
        return ops.expand(self, other.shape)

    @names_arguments
    def type_as(self, other):
        """Convert to the dtype of the tensor `other`."""
        return ops.cast(self, other.dtype)

    @names_arguments
    def type(self, dtype=None, non_blocking=False):
        """Convert to a dtype; without an argument, return PyTorch's name for the tensor's type.

        The dtype may also be given as such a name, for example "torch.LongTensor", or as a class,
        for example `mt.LongTensor`.

        Examples
        --------
        >>> import minitorch_attn as mt
        >>> mt.ones(2).type(), mt.ones(2).type("torch.LongTensor")
        ('torch.FloatTensor', tensor([1, 1]))
        """
        if dtype is None:
            place = "torch.cuda" if self.device.type == "cuda" else "torch"
            return f"{place}.{_TYPES[self.dtype.name]}"
        title = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", "")
        title = title.rpartition(".")[2]  # "torch.LongTensor", or the class mt.LongTensor
        known = next((name for name in _TYPES if _TYPES[name] == title), dtype)
        return ops.cast(self, known)

    def cpu(self):
        """Copy to the CPU; return the tensor itself if it is already there."""
        return ops.to(self, "cpu")

    @names_arguments
    def cuda(self, device=None, non_blocking=False):
        """Copy to the GPU `device`, a number or a name; by default, to the current GPU."""
        if device is None:
            device = "cuda"
        return ops.to(self, f"cuda:{device}" if isinstance(device, int) else device)

    @names_arguments
    def new_zeros(self, *sizes, size=None, dtype=None, device=None, requires_grad=False):
        """Return zeros, by default with the dtype and device of this tensor."""
        place = {"dtype": dtype or self.dtype, "device": device or self.device}
        return ops.zeros(*sizes, size=size, requires_grad=requires_grad, **place)

    @names_arguments
    def new_ones(self, *sizes, size=None, dtype=None, device=None, requires_grad=False):
        """Return ones, by default with the dtype and device of this tensor."""
        place = {"dtype": dtype or self.dtype, "device": device or self.device}
        return ops.ones(*sizes, size=size, requires_grad=requires_grad, **place)

    @names_arguments
    def new_empty(self, *sizes, size=None, dtype=None, device=None, requires_grad=False):
        """Return an uninitialized tensor, by default with the dtype and device of this tensor."""
        place = {"dtype": dtype or self.dtype, "device": device or self.device}
        return ops.empty(*sizes, size=size, requires_grad=requires_grad, **place)

    @names_arguments
    def new_full(self, size, fill_value, *, dtype=None, device=None, requires_grad=False):
        """Return a tensor filled with `fill_value`.

        By default, it has the dtype and device of this tensor.
        """
        place = {"dtype": dtype or self.dtype, "device": device or self.device}
        return ops.full(size, fill_value, requires_grad=requires_grad, **place)

    @names_arguments
    def new_tensor(self, data, *, dtype=None, device=None, requires_grad=False):
        """Return a copy of `data`, by default with the dtype and device of this tensor."""
        made = ops.tensor_like(data, self).to(device=device, dtype=dtype)
        return made.requires_grad_(requires_grad)

    @names_arguments
    def clamp_min(self, min):
        """Replace elements below `min` with `min`."""
        return ops.clamp(self, min=min)

    @names_arguments
    def clamp_max(self, max):
        """Replace elements above `max` with `max`."""
        return ops.clamp(self, max=max)

    @names_arguments
    def clamp_min_(self, min):
        """Replace elements below `min` with `min`, in place."""
        return inplace.change(self, ops.clamp, min=min)

    @names_arguments
    def clamp_max_(self, max):
        """Replace elements above `max` with `max`, in place."""
        return inplace.change(self, ops.clamp, max=max)

    @names_arguments
    def uniform_(self, low=0.0, high=1.0, *, generator=None):
        """Fill with random numbers, uniform in [low, high), in place."""
        return inplace.change(self, ops.uniform_like, low, high, generator=generator)

    @names_arguments
    def normal_(self, mean=0.0, std=1.0, *, generator=None):
        """Fill with normal random numbers of the given mean and standard deviation, in place."""
        return inplace.change(self, ops.normal_like, mean, std, generator=generator)

    @names_arguments
    def bernoulli_(self, p=0.5, *, generator=None):
        """Set each element to 1 with probability `p`, otherwise to 0, in place."""
        return inplace.change(self, ops.bernoulli, p, generator=generator)

    def zero_(self):
        """Set all elements to 0, in place."""
        return inplace.change(self, ops.zeros_like)

    @names_arguments
    def fill_(self, value):
        """Set all elements to `value`, in place."""
        return inplace.change(self, ops.full_like, value)

    @names_arguments
    def copy_(self, src, non_blocking=False):
        """Copy `src` to this tensor, in place. `src` broadcasts to the shape of this tensor."""
        return inplace.change(self, ops.copy_of, src)


def add_methods(cls):
    """Add every method in the tables above to `cls`, the class Tensor."""
    for name in _OPERATIONS.split():
        setattr(cls, name, with_other_names(_renamed(getattr(ops, name), name)))
    for name, operation in _ALIASES.items():
        operation = name if name in ops.OTHER_NAMES else operation
        setattr(cls, name, with_other_names(_renamed(getattr(ops, operation), name)))
    for name in _IN_PLACE.split():
        setattr(cls, f"{name}_", _in_place(getattr(ops, name), f"{name}_", inplace.change))
    for name in ops.OTHER_NAMES:
        setattr(cls, f"{name}_", _in_place(getattr(ops, name), f"{name}_", inplace.change))
    for name in _IN_PLACE_SHAPES.split():
        setattr(cls, f"{name}_", _in_place(getattr(ops, name), f"{name}_", inplace.change_shape))
    for name, dtype in _CASTS.items():
        setattr(cls, name, _cast(dtype, name))
    for name, method in vars(_Methods).items():
        if isinstance(method, FunctionType):
            doc = method.__doc__ or getattr(ops, name, method).__doc__
            setattr(cls, name, with_other_names(_renamed(method, name, doc)))
    for name in ("size", "stride"):
        setattr(cls, name, with_other_names(getattr(cls, name)))


def _renamed(operation, name, doc=None):
    """Return a copy of an operation's function with the name `Tensor.name`."""
    plain = unwrap(operation)
    method = FunctionType(
        plain.__code__, plain.__globals__, name, plain.__defaults__, plain.__closure__
    )
    method.__kwdefaults__ = plain.__kwdefaults__
    method = _titled(method, name, doc or plain.__doc__)
    return names_arguments(method) if _is_named(operation) else method


def _is_named(operation):
    """Return True if an operation is decorated with `names_arguments`."""
    while operation.__code__ not in guards:
        if not hasattr(operation, "__wrapped__"):
            return False
        operation = operation.__wrapped__
    return True


def _in_place(operation, name, change):
    operation = with_other_names(_renamed(operation, name))

    def method(self, *args, **kwargs):
        return change(self, operation, *args, **kwargs)

    method.__wrapped__ = operation  # the method has the arguments of the operation
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


def _sizes(where, sizes, named, name):
    """Return (2, 3) for `x.reshape(2, 3)`, `x.reshape((2, 3))` and `x.reshape(shape=(2, 3))`."""
    if named is not None:
        if sizes:
            raise ArgumentError(
                f"{where}: {name} is given twice",
                got=f"{sizes} and {name}={named!r}",
                hint=f"pass {name} only",
            )
        return named
    if len(sizes) == 1 and not isinstance(sizes[0], int) and hasattr(type(sizes[0]), "__iter__"):
        if getattr(sizes[0], "ndim", 1) == 0:  # an array or a Tensor
            return (sizes[0],)
        return tuple(sizes[0])
    return sizes
