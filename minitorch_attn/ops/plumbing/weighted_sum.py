"""Weighted sums of a few elements along one axis, for average pooling and interpolation."""

from functools import cached_property

from ...autograd.function import Function
from ...backend import array_module, device_of, from_host

__all__ = ["TapSum", "Taps", "at", "tap_sum"]

_host = array_module()  # tables are made on the host, where the sizes are known


class Taps:
    """A sparse matrix with few entries per row: `y[o] = sum_t weight[o, t] * x[index[o, t]]`.

    Parameters
    ----------
    index : host array of int64, shape (out, taps)
        Indices of the elements that each row reads. The index `size` marks an unused entry.
    weight : host array of shape (out, taps), or None
        Weight of each entry; None means that all weights are 1.
    size : int
        Length of the axis to read.
    """

    def __init__(self, index, weight, size):
        self.index, self.weight, self.size = index, weight, size
        self._placed = {}

    @cached_property
    def has_gaps(self):
        """True if the matrix has unused entries, whose index is `size`."""
        return bool((self.index == self.size).any())

    @cached_property
    def transposed(self):
        """Return the transposed matrix; it has one row for each of the `size` input elements."""
        out, taps = self.index.shape
        source = self.index.reshape(-1)
        order = _host.argsort(source, kind="stable")
        order = order[: int((source < self.size).sum())]  # unused entries are sorted last
        source = source[order]
        count = _host.bincount(source, minlength=self.size)
        rank = _host.arange(source.size) - _host.repeat(_host.cumsum(count) - count, count)
        shape = (self.size, int(count.max()) if source.size else 0)
        index, weight = _host.full(shape, out), None
        index[source, rank] = order // taps
        if self.weight is not None:
            weight = _host.zeros(shape)
            weight[source, rank] = self.weight.reshape(-1)[order]
        return Taps(index, weight, out)

    def on_device_of(self, x):
        """Return (index, weight) per tap, on x's device; evenly spaced indices become a slice."""
        key = device_of(x), x.dtype
        if key not in self._placed:
            self._placed[key] = [
                (self._placed_index(t, key[0]), self._placed_weight(t, *key))
                for t in range(self.index.shape[1])
            ]
        return self._placed[key]

    def index_on_device_of(self, x):
        """Return `index` on the device of x."""
        device = device_of(x)
        if device not in self._placed:
            self._placed[device] = from_host(self.index, device)
        return self._placed[device]

    def _placed_index(self, t, device):
        column = self.index[:, t]
        step = int(column[1] - column[0]) if column.size > 1 else 1
        if column.size and step > 0 and (_host.diff(column) == step).all():
            return slice(int(column[0]), int(column[-1]) + 1, step)
        return from_host(_host.ascontiguousarray(column), device)

    def _placed_weight(self, t, device, dtype):
        if self.weight is None:
            return None
        return from_host(self.weight[:, t].astype(dtype), device)


class TapSum(Function):
    r"""Sparse linear map along one axis, y = A x with a constant sparse matrix A.

    Forward:  y_o = sum over taps t of w_t * x_(i_t)
    Backward: grad_x = A^T grad_y
    Derivation: y_o = sum_t w[o, t] x[i[o, t]], so with g = dL/dy, dL/dx = A^T g: the same kind of
    sum with the transposed matrix.
    Saved: only the sparse matrix.
    """

    @staticmethod
    def forward(ctx, x, *, taps, axis, transposed=False):
        ctx.taps, ctx.axis, ctx.transposed = taps, axis, transposed
        taps = taps.transposed if transposed else taps
        xp = array_module(x)
        shape = (*x.shape[:axis], taps.index.shape[0], *x.shape[axis + 1 :])
        if taps.has_gaps:
            gap = xp.zeros((*x.shape[:axis], 1, *x.shape[axis + 1 :]), dtype=x.dtype)
            x = xp.concatenate([x, gap], axis=axis)
        y = None
        for index, weight in taps.on_device_of(x):
            part = at(x, index, axis)
            if weight is not None:
                part = part * weight.reshape(-1, *(1,) * (x.ndim - axis - 1))
            if y is None:
                y = part.copy() if weight is None else part  # a slice is a view of x
            else:
                y += part
        return xp.zeros(shape, dtype=x.dtype) if y is None else xp.ascontiguousarray(y)

    @staticmethod
    def backward(ctx, grad_y):
        return TapSum.call(grad_y, taps=ctx.taps, axis=ctx.axis, transposed=not ctx.transposed)


def at(x, index, axis):
    """Return the elements of x at `index`, a slice or an integer array, along an axis."""
    if isinstance(index, slice):
        return x[(slice(None),) * axis + (index,)]
    return x.take(index, axis=axis)


def tap_sum(input, tables):
    """Apply one sparse matrix (`Taps`) to each of the last axes of `input`.

    Parameters
    ----------
    input : Tensor
    tables : sequence of Taps or None
        One sparse matrix for each of the last axes; None leaves that axis unchanged.

    Returns
    -------
    Tensor
    """
    first = input.ndim - len(tables)
    for axis, taps in reversed(list(enumerate(tables, first))):
        if taps is not None:
            input = TapSum.apply(input, taps=taps, axis=axis)
    return input
