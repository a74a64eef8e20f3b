"""Methods that reduce, order and multiply.

Each is one line that calls the operation of that name.
"""

from . import knot
from .arguments import first

__all__ = ["Reductions"]


class Reductions:
    """PyTorch's method names; the documentation is at the functions in `ops/`."""

    __slots__ = ()

    # Reductions

    def sum(self, dim=None, keepdim=False, *, axis=None, keepdims=None, dtype=None):
        return knot.ops.sum(self, first(dim, axis), first(keepdims, keepdim), dtype=dtype)

    def mean(self, dim=None, keepdim=False, *, axis=None, keepdims=None, dtype=None):
        return knot.ops.mean(self, first(dim, axis), first(keepdims, keepdim), dtype=dtype)

    def var(self, dim=None, unbiased=None, keepdim=False, *, correction=None):
        return knot.ops.var(self, dim, unbiased, keepdim, correction=correction)

    def std(self, dim=None, unbiased=None, keepdim=False, *, correction=None):
        return knot.ops.std(self, dim, unbiased, keepdim, correction=correction)

    def prod(self, dim=None, keepdim=False, *, dtype=None):
        return knot.ops.prod(self, dim, keepdim, dtype=dtype)

    def max(self, dim=None, keepdim=False):
        return knot.ops.max(self, dim, keepdim)

    def min(self, dim=None, keepdim=False):
        return knot.ops.min(self, dim, keepdim)

    def amax(self, dim=(), keepdim=False):
        return knot.ops.amax(self, dim, keepdim)

    def amin(self, dim=(), keepdim=False):
        return knot.ops.amin(self, dim, keepdim)

    def argmax(self, dim=None, keepdim=False):
        return knot.ops.argmax(self, dim, keepdim)

    def argmin(self, dim=None, keepdim=False):
        return knot.ops.argmin(self, dim, keepdim)

    def all(self, dim=None, keepdim=False):
        return knot.ops.all(self, dim, keepdim)

    def any(self, dim=None, keepdim=False):
        return knot.ops.any(self, dim, keepdim)

    def norm(self, p=2, dim=None, keepdim=False):
        return knot.ops.norm(self, p, dim, keepdim)

    def logsumexp(self, dim, keepdim=False):
        return knot.ops.logsumexp(self, dim, keepdim)

    def cumsum(self, dim, *, dtype=None):
        return knot.ops.cumsum(self, dim, dtype=dtype)

    def sort(self, dim=-1, descending=False, stable=False):
        return knot.ops.sort(self, dim, descending, stable=stable)

    def argsort(self, dim=-1, descending=False, stable=False):
        return knot.ops.argsort(self, dim, descending, stable=stable)

    def topk(self, k, dim=-1, largest=True, sorted=True):
        return knot.ops.topk(self, k, dim, largest, sorted)

    def softmax(self, dim, dtype=None):
        return knot.ops.softmax(self, dim, dtype=dtype)

    def log_softmax(self, dim, dtype=None):
        return knot.ops.log_softmax(self, dim, dtype=dtype)

    def cumprod(self, dim, *, dtype=None):
        return knot.ops.cumprod(self, dim, dtype=dtype)

    def median(self, dim=None, keepdim=False):
        return knot.ops.median(self, dim, keepdim)

    # Products

    def matmul(self, other):
        return knot.ops.matmul(self, other)

    def mm(self, mat2):
        return knot.ops.mm(self, mat2)

    def bmm(self, mat2):
        return knot.ops.bmm(self, mat2)

    def mv(self, vec):
        return knot.ops.mv(self, vec)

    def dot(self, tensor):
        return knot.ops.dot(self, tensor)

    def outer(self, vec2):
        return knot.ops.outer(self, vec2)

    def addmm(self, mat1, mat2, *, beta=1, alpha=1):
        return knot.ops.addmm(self, mat1, mat2, beta=beta, alpha=alpha)

    def addmv(self, mat, vec, *, beta=1, alpha=1):
        return knot.ops.addmv(self, mat, vec, beta=beta, alpha=alpha)

    def baddbmm(self, batch1, batch2, *, beta=1, alpha=1):
        return knot.ops.baddbmm(self, batch1, batch2, beta=beta, alpha=alpha)

    def inner(self, other):
        return knot.ops.inner(self, other)

    def trace(self):
        return knot.ops.trace(self)

    def vdot(self, other):
        return knot.ops.vdot(self, other)
