"""The methods of Tensor: each is one line that calls the operation of the same name."""

__all__ = ["TensorMethods"]

ops = inplace = None  # set by tensor.py once both can be imported


class TensorMethods:
    """PyTorch's method names; the documentation is at the function of the same name in `ops/`."""

    __slots__ = ()

    # Elementwise

    def exp(self):
        return ops.exp(self)

    def expm1(self):
        return ops.expm1(self)

    def log(self):
        return ops.log(self)

    def log1p(self):
        return ops.log1p(self)

    def log2(self):
        return ops.log2(self)

    def log10(self):
        return ops.log10(self)

    def sqrt(self):
        return ops.sqrt(self)

    def rsqrt(self):
        return ops.rsqrt(self)

    def reciprocal(self):
        return ops.reciprocal(self)

    def square(self):
        return ops.square(self)

    def neg(self):
        return ops.neg(self)

    def abs(self):
        return ops.abs(self)

    def sign(self):
        return ops.sign(self)

    def sin(self):
        return ops.sin(self)

    def cos(self):
        return ops.cos(self)

    def tan(self):
        return ops.tan(self)

    def tanh(self):
        return ops.tanh(self)

    def sigmoid(self):
        return ops.sigmoid(self)

    def erf(self):
        return ops.erf(self)

    def relu(self):
        return ops.relu(self)

    def floor(self):
        return ops.floor(self)

    def ceil(self):
        return ops.ceil(self)

    def round(self):
        return ops.round(self)

    def trunc(self):
        return ops.trunc(self)

    def isnan(self):
        return ops.isnan(self)

    def isinf(self):
        return ops.isinf(self)

    def isfinite(self):
        return ops.isfinite(self)

    def add(self, other, *, alpha=1):
        return ops.add(self, other, alpha=alpha)

    def sub(self, other, *, alpha=1):
        return ops.sub(self, other, alpha=alpha)

    def mul(self, other):
        return ops.mul(self, other)

    def div(self, other, *, rounding_mode=None):
        return ops.div(self, other, rounding_mode=rounding_mode)

    def floor_divide(self, other):
        return ops.floor_divide(self, other)

    def remainder(self, other):
        return ops.remainder(self, other)

    def pow(self, exponent):
        return ops.pow(self, exponent)

    def maximum(self, other):
        return ops.maximum(self, other)

    def minimum(self, other):
        return ops.minimum(self, other)

    def clamp(self, min=None, max=None):
        return ops.clamp(self, min, max)

    def clip(self, min=None, max=None):
        return ops.clamp(self, min, max)

    def lerp(self, end, weight):
        return ops.lerp(self, end, weight)

    def logaddexp(self, other):
        return ops.logaddexp(self, other)

    def masked_fill(self, mask, value):
        return ops.masked_fill(self, mask, value)

    def where(self, condition, other):
        return ops.where(condition, self, other)

    def eq(self, other):
        return ops.eq(self, other)

    def ne(self, other):
        return ops.ne(self, other)

    def lt(self, other):
        return ops.lt(self, other)

    def le(self, other):
        return ops.le(self, other)

    def gt(self, other):
        return ops.gt(self, other)

    def ge(self, other):
        return ops.ge(self, other)

    def logical_and(self, other):
        return ops.logical_and(self, other)

    def logical_or(self, other):
        return ops.logical_or(self, other)

    def logical_not(self):
        return ops.logical_not(self)

    # Reductions

    def sum(self, dim=None, keepdim=False, *, axis=None, keepdims=None, dtype=None):
        return ops.sum(self, _first(dim, axis), _first(keepdims, keepdim), dtype=dtype)

    def mean(self, dim=None, keepdim=False, *, axis=None, keepdims=None, dtype=None):
        return ops.mean(self, _first(dim, axis), _first(keepdims, keepdim), dtype=dtype)

    def var(self, dim=None, unbiased=None, keepdim=False, *, correction=None):
        return ops.var(self, dim, unbiased, keepdim, correction=correction)

    def std(self, dim=None, unbiased=None, keepdim=False, *, correction=None):
        return ops.std(self, dim, unbiased, keepdim, correction=correction)

    def prod(self, dim=None, keepdim=False, *, dtype=None):
        return ops.prod(self, dim, keepdim, dtype=dtype)

    def max(self, dim=None, keepdim=False):
        return ops.max(self, dim, keepdim)

    def min(self, dim=None, keepdim=False):
        return ops.min(self, dim, keepdim)

    def amax(self, dim=(), keepdim=False):
        return ops.amax(self, dim, keepdim)

    def amin(self, dim=(), keepdim=False):
        return ops.amin(self, dim, keepdim)

    def argmax(self, dim=None, keepdim=False):
        return ops.argmax(self, dim, keepdim)

    def argmin(self, dim=None, keepdim=False):
        return ops.argmin(self, dim, keepdim)

    def all(self, dim=None, keepdim=False):
        return ops.all(self, dim, keepdim)

    def any(self, dim=None, keepdim=False):
        return ops.any(self, dim, keepdim)

    def norm(self, p=2, dim=None, keepdim=False):
        return ops.norm(self, p, dim, keepdim)

    def logsumexp(self, dim, keepdim=False):
        return ops.logsumexp(self, dim, keepdim)

    def cumsum(self, dim, *, dtype=None):
        return ops.cumsum(self, dim, dtype=dtype)

    def sort(self, dim=-1, descending=False, stable=False):
        return ops.sort(self, dim, descending, stable=stable)

    def argsort(self, dim=-1, descending=False, stable=False):
        return ops.argsort(self, dim, descending, stable=stable)

    def topk(self, k, dim=-1, largest=True, sorted=True):
        return ops.topk(self, k, dim, largest, sorted)

    def softmax(self, dim, dtype=None):
        return ops.softmax(self, dim, dtype=dtype)

    def log_softmax(self, dim, dtype=None):
        return ops.log_softmax(self, dim, dtype=dtype)

    # Shape

    def reshape(self, *shape):
        return ops.reshape(self, _shape(shape))

    def view(self, *shape):
        return ops.view(self, *shape)

    def view_as_alias(self):
        return ops.alias(self)

    def permute(self, *dims):
        return ops.permute(self, _shape(dims))

    def transpose(self, dim0, dim1):
        return ops.transpose(self, dim0, dim1)

    def swapaxes(self, axis0, axis1):
        return ops.transpose(self, axis0, axis1)

    def movedim(self, source, destination):
        return ops.movedim(self, source, destination)

    def t(self):
        return ops.t(self)

    def flatten(self, start_dim=0, end_dim=-1):
        return ops.flatten(self, start_dim, end_dim)

    def unflatten(self, dim, sizes):
        return ops.unflatten(self, dim, sizes)

    def squeeze(self, dim=None):
        return ops.squeeze(self, dim)

    def unsqueeze(self, dim):
        return ops.unsqueeze(self, dim)

    def expand(self, *sizes):
        return ops.expand(self, _shape(sizes))

    def expand_as(self, other):
        return ops.expand(self, other.shape)

    def broadcast_to(self, size):
        return ops.broadcast_to(self, size)

    def repeat(self, *sizes):
        return ops.repeat(self, _shape(sizes))

    def repeat_interleave(self, repeats, dim=None):
        return ops.repeat_interleave(self, repeats, dim)

    def tile(self, *dims):
        return ops.tile(self, _shape(dims))

    def flip(self, *dims):
        return ops.flip(self, _shape(dims))

    def roll(self, shifts, dims=None):
        return ops.roll(self, shifts, dims)

    def split(self, split_size_or_sections, dim=0):
        return ops.split(self, split_size_or_sections, dim)

    def chunk(self, chunks, dim=0):
        return ops.chunk(self, chunks, dim)

    def unbind(self, dim=0):
        return ops.unbind(self, dim)

    def narrow(self, dim, start, length):
        return ops.narrow(self, dim, start, length)

    def select(self, dim, index):
        return ops.select(self, dim, index)

    def diagonal(self, offset=0, dim1=0, dim2=1):
        return ops.diagonal(self, offset, dim1, dim2)

    def tril(self, diagonal=0):
        return ops.tril(self, diagonal)

    def triu(self, diagonal=0):
        return ops.triu(self, diagonal)

    # Indexing

    def gather(self, dim, index):
        return ops.gather(self, dim, index)

    def scatter(self, dim, index, src):
        return ops.scatter(self, dim, index, src)

    def scatter_add(self, dim, index, src):
        return ops.scatter_add(self, dim, index, src)

    def index_select(self, dim, index):
        return ops.index_select(self, dim, index)

    def index_add(self, dim, index, source, *, alpha=1):
        return ops.index_add(self, dim, index, source, alpha=alpha)

    def index_put(self, indices, values, accumulate=False):
        return ops.index_put(self, indices, values, accumulate)

    def take_along_dim(self, indices, dim=None):
        return ops.take_along_dim(self, indices, dim)

    def masked_select(self, mask):
        return ops.masked_select(self, mask)

    def nonzero(self):
        return ops.nonzero(self)

    # Products

    def matmul(self, other):
        return ops.matmul(self, other)

    def mm(self, mat2):
        return ops.mm(self, mat2)

    def bmm(self, mat2):
        return ops.bmm(self, mat2)

    def mv(self, vec):
        return ops.mv(self, vec)

    def dot(self, tensor):
        return ops.dot(self, tensor)

    def outer(self, vec2):
        return ops.outer(self, vec2)

    # Copies and conversions

    def clone(self):
        return ops.clone(self)

    def to(self, *args, **kwargs):
        return ops.to(self, *args, **kwargs)

    def type(self, dtype):
        return ops.cast(self, dtype)

    def float(self):
        return ops.cast(self, "float32")

    def double(self):
        return ops.cast(self, "float64")

    def half(self):
        return ops.cast(self, "float16")

    def long(self):
        return ops.cast(self, "int64")

    def int(self):
        return ops.cast(self, "int32")

    def bool(self):
        return ops.cast(self, "bool")

    def type_as(self, other):
        return ops.cast(self, other.dtype)

    def cpu(self):
        return ops.to(self, "cpu")

    def cuda(self, device=None):
        return ops.to(self, _cuda_name(device))

    def new_zeros(self, *size, dtype=None):
        return ops.zeros(_shape(size), dtype=dtype or self.dtype, device=self.device)

    def new_ones(self, *size, dtype=None):
        return ops.ones(_shape(size), dtype=dtype or self.dtype, device=self.device)

    def new_tensor(self, data):
        return ops.tensor_like(data, self)

    # In place: the out-of-place operation, written back into this tensor's memory

    def add_(self, *args, **kwargs):
        return inplace.change(self, ops.add, *args, **kwargs)

    def sub_(self, *args, **kwargs):
        return inplace.change(self, ops.sub, *args, **kwargs)

    def mul_(self, *args, **kwargs):
        return inplace.change(self, ops.mul, *args, **kwargs)

    def div_(self, *args, **kwargs):
        return inplace.change(self, ops.div, *args, **kwargs)

    def pow_(self, *args, **kwargs):
        return inplace.change(self, ops.pow, *args, **kwargs)

    def clamp_(self, *args, **kwargs):
        return inplace.change(self, ops.clamp, *args, **kwargs)

    def masked_fill_(self, *args, **kwargs):
        return inplace.change(self, ops.masked_fill, *args, **kwargs)

    def relu_(self, *args, **kwargs):
        return inplace.change(self, ops.relu, *args, **kwargs)

    def exp_(self, *args, **kwargs):
        return inplace.change(self, ops.exp, *args, **kwargs)

    def sqrt_(self, *args, **kwargs):
        return inplace.change(self, ops.sqrt, *args, **kwargs)

    def neg_(self, *args, **kwargs):
        return inplace.change(self, ops.neg, *args, **kwargs)

    def tanh_(self, *args, **kwargs):
        return inplace.change(self, ops.tanh, *args, **kwargs)

    def sigmoid_(self, *args, **kwargs):
        return inplace.change(self, ops.sigmoid, *args, **kwargs)

    def lerp_(self, *args, **kwargs):
        return inplace.change(self, ops.lerp, *args, **kwargs)

    def tril_(self, *args, **kwargs):
        return inplace.change(self, ops.tril, *args, **kwargs)

    def triu_(self, *args, **kwargs):
        return inplace.change(self, ops.triu, *args, **kwargs)

    def index_add_(self, *args, **kwargs):
        return inplace.change(self, ops.index_add, *args, **kwargs)

    def scatter_(self, *args, **kwargs):
        return inplace.change(self, ops.scatter, *args, **kwargs)

    def scatter_add_(self, *args, **kwargs):
        return inplace.change(self, ops.scatter_add, *args, **kwargs)

    def index_put_(self, *args, **kwargs):
        return inplace.change(self, ops.index_put, *args, **kwargs)

    def zero_(self):
        return inplace.change(self, ops.zeros_like)

    def fill_(self, value):
        return inplace.change(self, ops.full_like, value)

    def copy_(self, other):
        return inplace.change(self, ops.copy_of, other)

    # Sizes

    def size(self, dim=None):
        return self.shape if dim is None else self.shape[dim]

    def dim(self):
        return self.array.ndim

    def numel(self):
        return self.array.size

    def element_size(self):
        return self.array.itemsize

    def is_floating_point(self):
        return self.array.dtype.kind == "f"


def _first(*values):
    """The first value that is not None."""
    for value in values:
        if value is not None:
            return value
    return None


def _shape(sizes):
    """`x.reshape(2, 3)` and `x.reshape((2, 3))` mean the same."""
    if len(sizes) == 1 and not isinstance(sizes[0], int) and hasattr(sizes[0], "__iter__"):
        return tuple(sizes[0])
    return sizes


def _cuda_name(device):
    if device is None:
        return "cuda"
    return f"cuda:{device}" if isinstance(device, int) else device
