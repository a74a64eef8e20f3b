"""Changing a tensor in place, with the graph kept right.

An in-place operation is the out-of-place one, whose result is then written into the memory of
the tensor; the tensor takes over the result's place in the graph. Every tensor that shares the
memory shares a version counter, which rises by one: a backward pass that needs the old values
notices (`Context.saved`). A change through a view is a change of its base, too.
"""

from ..backend import array_module, shares_memory
from ..errors import DTypeError, GraphError, ShapeError
from ..tensor import Tensor, wrap
from .function import Function
from .modes import enable_grad, no_grad, state

__all__ = ["change", "check_writable", "is_tracked", "replay_view"]


def change(target, function, *args, **kwargs):
    """Run `function(target, ...)` and let `target` become the result.

    Parameters
    ----------
    target : Tensor
    function : callable
        The out-of-place operation.

    Returns
    -------
    Tensor
        `target` itself.
    """
    tracked = is_tracked(target, (*args, *kwargs.values()))
    if not tracked:
        with no_grad():
            result = function(target, *args, **kwargs)
        _write(target, result)
        return target
    _refuse_leaf(target)
    # The backward pass may need the old values: the operation reads them from a copy.
    before = wrap(target.array.copy(), target._current_edge())
    result = function(before, *args, **kwargs)
    if result._edge is None:
        result = Overwrite.apply(before, result)
    _write(target, result)
    _take_over(target, result)
    return target


def replay_view(view):
    """Give a view its place in its base's new history by making it again."""
    chain = [view]
    while chain[-1]._view.parent._view is not None:
        chain.append(chain[-1]._view.parent)
    for stale in reversed(chain):
        made = stale._view
        if made.base_edge is made.base._edge:
            continue  # replayed already; a second time would make it another node
        with enable_grad():
            fresh = made.function.apply(made.parent, **made.settings)
        if made.which is not None:
            fresh = fresh[made.which]
        stale._edge = fresh._edge
        made.base_edge = made.base._edge


def is_tracked(target, others=()):
    """Whether changing `target` with `others` has to be recorded in the graph."""
    if not state.grad_enabled:
        return False
    return target.requires_grad or any(isinstance(o, Tensor) and o.requires_grad for o in others)


def _refuse_leaf(target):
    base = target if target._view is None else target._view.base
    if base.requires_grad and base.is_leaf:
        which = "a leaf" if base is target else "a view of a leaf"
        raise GraphError(
            f"{which} that requires grad cannot be changed in place while recording.",
            hint="`with mt.no_grad():` for an update, or work on x.clone()",
        )


def _write(target, result):
    if result.shape != target.shape:
        raise ShapeError(
            "an in-place operation cannot change the shape of its tensor.",
            got=f"a result of shape {result.shape}",
            expected=f"{target.shape}",
        )
    order = "biuf"
    if order.index(result.dtype.kind) > order.index(target.dtype.kind):
        raise DTypeError(
            f"an in-place operation cannot store {result.dtype} in a {target.dtype} tensor.",
            hint=f"convert first: x = x.to({result.dtype})",
        )
    check_writable(target)
    target.array[...] = result.array
    target.changed_in_place()


def check_writable(target):
    """Refuse to write where several elements share one place in memory."""
    array = target.array
    reach = array.itemsize  # from the first to past the last byte along the axes seen so far
    axes = [(abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1]
    for stride, size in sorted(axes):
        if stride < reach and array.size:
            raise GraphError(
                "a tensor whose elements share memory cannot be changed in place.",
                got=f"shape {array.shape} with strides {array.strides}, as expand() makes them",
                hint="clone() it first",
            )
        reach += stride * (size - 1)


def _take_over(target, result):
    """`target` is now what `result` is; if it is a view, so is that part of its base."""
    if target._view is None:
        target._edge = result._edge
        return
    base = target._view.base
    whole = WriteThrough.apply(wrap(base.array, base._edge), result, path=_path(target))
    base._edge = whole._edge


def _path(view):
    """The view operations that lead from the base to `view`."""
    steps = []
    while view._view is not None:
        made = view._view
        steps.append((made.function, made.settings, made.which))
        view = made.parent
    return tuple(reversed(steps))


def _follow(x, path):
    for function, settings, which in path:
        x = function.call(x, **settings)
        x = x if which is None else x[which]
    return x


class Overwrite(Function):
    """y = value, which does not depend on x: what zero_() and fill_() do.

    Derivative: zero for x, so that y stays part of the graph.
    Saved: nothing.
    """

    @staticmethod
    def forward(ctx, x, value):
        return value

    @staticmethod
    def backward(ctx, grad_y):
        need_x, need_value = ctx.needs_grad
        return _Blank.call(grad_y, path=()) if need_x else None, grad_y if need_value else None


class WriteThrough(Function):
    """base with one of its views replaced: what assigning to a view does to the whole.

    Derivative: the replaced part no longer depends on the old base, so
        dL/d(base) = grad with zeros in the view,   dL/d(value) = grad seen through the view.
    Saved: nothing; the path of view operations is a setting.
    """

    @staticmethod
    def forward(ctx, base, value, *, path):
        ctx.path = path
        return base  # already written

    @staticmethod
    def backward(ctx, grad):
        grad_value = _follow(grad, ctx.path) if ctx.needs_grad[1] else None
        grad_base = _Blank.call(grad, path=ctx.path) if ctx.needs_grad[0] else None
        return grad_base, grad_value


class _Blank(Function):
    """The input with zeros where a view looks. Linear and its own transpose."""

    @staticmethod
    def forward(ctx, x, *, path):
        ctx.path = path
        y = x.copy()
        seen = _follow(y, path)
        if shares_memory(seen, y):
            seen[...] = 0
        else:  # the copy has another memory layout than the base, and some reshape copied it
            numbers = array_module(y).arange(y.size).reshape(y.shape)
            y.reshape(-1)[_follow(numbers, path)] = 0
        return y

    @staticmethod
    def backward(ctx, grad):
        return _Blank.call(grad, path=ctx.path)
