"""Methods that copy, convert, and change in place.

Each is one line that calls the operation of that name.
"""

from . import knot
from .arguments import as_shape, cuda_name

__all__ = ["Change"]


class Change:
    """PyTorch's method names; the documentation is at the functions in `ops/`."""

    __slots__ = ()

    # Copies and conversions

    def clone(self):
        return knot.ops.clone(self)

    def to(self, *args, **kwargs):
        return knot.ops.to(self, *args, **kwargs)

    def type(self, dtype):
        return knot.ops.cast(self, dtype)

    def float(self):
        return knot.ops.cast(self, "float32")

    def double(self):
        return knot.ops.cast(self, "float64")

    def half(self):
        return knot.ops.cast(self, "float16")

    def long(self):
        return knot.ops.cast(self, "int64")

    def int(self):
        return knot.ops.cast(self, "int32")

    def bool(self):
        return knot.ops.cast(self, "bool")

    def type_as(self, other):
        return knot.ops.cast(self, other.dtype)

    def cpu(self):
        return knot.ops.to(self, "cpu")

    def cuda(self, device=None):
        return knot.ops.to(self, cuda_name(device))

    def new_zeros(self, *size, dtype=None):
        return knot.ops.zeros(as_shape(size), dtype=dtype or self.dtype, device=self.device)

    def new_ones(self, *size, dtype=None):
        return knot.ops.ones(as_shape(size), dtype=dtype or self.dtype, device=self.device)

    def new_tensor(self, data):
        return knot.ops.tensor_like(data, self)

    # In place: the out-of-place operation, written back into this tensor's memory

    def add_(self, *args, **kwargs):
        return knot.inplace.change(self, knot.ops.add, *args, **kwargs)

    def sub_(self, *args, **kwargs):
        return knot.inplace.change(self, knot.ops.sub, *args, **kwargs)

    def mul_(self, *args, **kwargs):
        return knot.inplace.change(self, knot.ops.mul, *args, **kwargs)

    def div_(self, *args, **kwargs):
        return knot.inplace.change(self, knot.ops.div, *args, **kwargs)

    def pow_(self, *args, **kwargs):
        return knot.inplace.change(self, knot.ops.pow, *args, **kwargs)

    def clamp_(self, *args, **kwargs):
        return knot.inplace.change(self, knot.ops.clamp, *args, **kwargs)

    def masked_fill_(self, *args, **kwargs):
        return knot.inplace.change(self, knot.ops.masked_fill, *args, **kwargs)

    def relu_(self, *args, **kwargs):
        return knot.inplace.change(self, knot.ops.relu, *args, **kwargs)

    def exp_(self, *args, **kwargs):
        return knot.inplace.change(self, knot.ops.exp, *args, **kwargs)

    def sqrt_(self, *args, **kwargs):
        return knot.inplace.change(self, knot.ops.sqrt, *args, **kwargs)

    def neg_(self, *args, **kwargs):
        return knot.inplace.change(self, knot.ops.neg, *args, **kwargs)

    def tanh_(self, *args, **kwargs):
        return knot.inplace.change(self, knot.ops.tanh, *args, **kwargs)

    def sigmoid_(self, *args, **kwargs):
        return knot.inplace.change(self, knot.ops.sigmoid, *args, **kwargs)

    def lerp_(self, *args, **kwargs):
        return knot.inplace.change(self, knot.ops.lerp, *args, **kwargs)

    def tril_(self, *args, **kwargs):
        return knot.inplace.change(self, knot.ops.tril, *args, **kwargs)

    def triu_(self, *args, **kwargs):
        return knot.inplace.change(self, knot.ops.triu, *args, **kwargs)

    def index_add_(self, *args, **kwargs):
        return knot.inplace.change(self, knot.ops.index_add, *args, **kwargs)

    def scatter_(self, *args, **kwargs):
        return knot.inplace.change(self, knot.ops.scatter, *args, **kwargs)

    def scatter_add_(self, *args, **kwargs):
        return knot.inplace.change(self, knot.ops.scatter_add, *args, **kwargs)

    def index_put_(self, *args, **kwargs):
        return knot.inplace.change(self, knot.ops.index_put, *args, **kwargs)

    def abs_(self, *args, **kwargs):
        return knot.inplace.change(self, knot.ops.abs, *args, **kwargs)

    def addcmul_(self, *args, **kwargs):
        return knot.inplace.change(self, knot.ops.addcmul, *args, **kwargs)

    def addcdiv_(self, *args, **kwargs):
        return knot.inplace.change(self, knot.ops.addcdiv, *args, **kwargs)

    def ceil_(self, *args, **kwargs):
        return knot.inplace.change(self, knot.ops.ceil, *args, **kwargs)

    def cos_(self, *args, **kwargs):
        return knot.inplace.change(self, knot.ops.cos, *args, **kwargs)

    def erf_(self, *args, **kwargs):
        return knot.inplace.change(self, knot.ops.erf, *args, **kwargs)

    def expm1_(self, *args, **kwargs):
        return knot.inplace.change(self, knot.ops.expm1, *args, **kwargs)

    def floor_(self, *args, **kwargs):
        return knot.inplace.change(self, knot.ops.floor, *args, **kwargs)

    def index_copy_(self, *args, **kwargs):
        return knot.inplace.change(self, knot.ops.index_copy, *args, **kwargs)

    def index_fill_(self, *args, **kwargs):
        return knot.inplace.change(self, knot.ops.index_fill, *args, **kwargs)

    def log_(self, *args, **kwargs):
        return knot.inplace.change(self, knot.ops.log, *args, **kwargs)

    def log1p_(self, *args, **kwargs):
        return knot.inplace.change(self, knot.ops.log1p, *args, **kwargs)

    def reciprocal_(self, *args, **kwargs):
        return knot.inplace.change(self, knot.ops.reciprocal, *args, **kwargs)

    def remainder_(self, *args, **kwargs):
        return knot.inplace.change(self, knot.ops.remainder, *args, **kwargs)

    def round_(self, *args, **kwargs):
        return knot.inplace.change(self, knot.ops.round, *args, **kwargs)

    def rsqrt_(self, *args, **kwargs):
        return knot.inplace.change(self, knot.ops.rsqrt, *args, **kwargs)

    def sign_(self, *args, **kwargs):
        return knot.inplace.change(self, knot.ops.sign, *args, **kwargs)

    def sin_(self, *args, **kwargs):
        return knot.inplace.change(self, knot.ops.sin, *args, **kwargs)

    def square_(self, *args, **kwargs):
        return knot.inplace.change(self, knot.ops.square, *args, **kwargs)

    def trunc_(self, *args, **kwargs):
        return knot.inplace.change(self, knot.ops.trunc, *args, **kwargs)

    def cumsum_(self, *args, **kwargs):
        return knot.inplace.change(self, knot.ops.cumsum, *args, **kwargs)

    def zero_(self):
        return knot.inplace.change(self, knot.ops.zeros_like)

    def fill_(self, value):
        return knot.inplace.change(self, knot.ops.full_like, value)

    def copy_(self, other):
        return knot.inplace.change(self, knot.ops.copy_of, other)
