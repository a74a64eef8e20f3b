"""In-place operations (inplace): change a tensor and keep its graph correct.

An in-place operation runs its out-of-place form, writes the result into the memory of the tensor,
and gives the tensor the graph node of the result. Tensors that share memory share a version
counter, which every change increments. A backward pass that needs the old values then raises an
error (`Context.saved`). A change to a view also changes its base.
"""

from copy import copy

from ..backend import address, array_module, shares_memory
from ..errors import DTypeError, GraphError, ShapeError
from ..tensor import Tensor, wrap
from .autocast import using_casts
from .function import Function
from .modes import enable_grad, no_grad, state

__all__ = ["change", "change_shape", "check_writable", "is_tracked", "replay_view"]


def change(target, function, *args, **kwargs):
    """Run `function(target, ...)` and write the result into `target`.

    Parameters
    ----------
    target : Tensor
    function : callable
        Out-of-place operation, such as `ops.add`.

    Returns
    -------
    Tensor
        `target` itself.
    """
    if state.autocast is not None:  # the result must have the dtype of the target
        with using_casts(None):
            return change(target, function, *args, **kwargs)
    tracked = is_tracked(target, (*args, *kwargs.values()))
    if not tracked:
        with no_grad():
            result = function(target, *args, **kwargs)
        _write(target, result, function.__name__)
        return target
    _refuse_leaf(target, function.__name__)
    # The backward pass may need the old values: the operation reads them from a copy.
    before = wrap(target.array.copy(), target._current_edge())
    result = function(before, *args, **kwargs)
    if result._edge is None:
        result = Overwrite.apply(before, result)
    _write(target, result, function.__name__)
    _take_over(target, result)
    return target


def change_shape(target, function, *args, **kwargs):
    """Change the shape of `target` in place, to that of the view `function(target, ...)`.

    Parameters
    ----------
    target : Tensor
    function : callable
        Operation that returns a view, such as `ops.squeeze`.

    Returns
    -------
    Tensor
        `target` itself.
    """
    tracked = is_tracked(target)
    if tracked:
        _refuse_leaf(target, function.__name__)
    result = function(copy(target), *args, **kwargs)
    target.array = result.array
    if tracked:
        target._edge = result._edge
    if target._view is not None:
        target._view = result._view  # a view of the same base
    return target


def replay_view(view):
    """Recreate a view after its base has received a new node in the graph."""
    chain = [view]
    while chain[-1]._view.parent._view is not None:
        chain.append(chain[-1]._view.parent)
    for stale in reversed(chain):
        made = stale._view
        if made.base_edge is made.base._edge:
            continue  # already recreated; doing it again would create another node
        _check_shape_kept(stale)
        with enable_grad():
            fresh = made.function.apply(made.parent, **made.settings)
        if made.which is not None:
            fresh = fresh[made.which]
        stale._edge = fresh._edge
        made.base_edge = made.base._edge


def is_tracked(target, others=()):
    """Return True if the graph must record an in-place change of `target` that uses `others`."""
    if not state.grad_enabled:
        return False
    return target.requires_grad or any(isinstance(o, Tensor) and o.requires_grad for o in others)


def _refuse_leaf(target, where):
    base = target if target._view is None else target._view.base
    if base.requires_grad and base.is_leaf:
        which = "a leaf" if base is target else "a view of a leaf"
        raise GraphError(
            f"{where}: in-place operation: the tensor must not be {which} that requires grad",
            hint="update it inside `with mt.no_grad():`, or change x.clone()",
        )


def _write(target, result, where):
    if result.shape != target.shape:
        raise ShapeError(
            f"{where}: in-place operation: the shape of the result does not match the tensor",
            got=f"a result of shape {result.shape}",
            expected=f"{target.shape}",
        )
    order = "biuf"
    if order.index(result.dtype.kind) > order.index(target.dtype.kind):
        raise DTypeError(
            f"{where}: in-place operation: {result.dtype} cannot be stored in a tensor of "
            f"{target.dtype}",
            hint=f"convert first: x = x.to({result.dtype})",
        )
    check_writable(target, where)
    target.array[...] = result.array
    target.changed_in_place()


def check_writable(target, where):
    """Raise an error if several elements of the tensor share one memory location."""
    array = target.array
    reach = array.itemsize  # number of bytes that the axes seen so far span
    axes = [(abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1]
    for stride, size in sorted(axes):
        if stride < reach and array.size:
            raise GraphError(
                f"{where}: in-place operation: elements of the tensor must not share memory",
                got=f"shape {array.shape} with strides {array.strides}, as produced by expand()",
                hint="call x.clone() first",
            )
        reach += stride * (size - 1)


def _take_over(target, result):
    """Give `target` the node of `result`; if `target` is a view, give its base a new node too."""
    if target._view is None:
        target._edge = result._edge
        return
    view = target
    while view._view is not None:
        _check_shape_kept(view)
        view = view._view.parent
    base = target._view.base
    whole = WriteThrough.apply(wrap(base.array, base._edge), result, path=_path(target))
    base._edge = whole._edge


def _check_shape_kept(view):
    """Raise GraphError if a view's source tensor has changed shape in place."""
    made = view._view
    try:
        again = _follow(made.parent.array, [(made.function, made.settings, made.which)])
    except (IndexError, ValueError):
        again = None
    kept = again is not None and (again.shape, again.strides) == (view.shape, view.array.strides)
    if not kept or (again.size and address(again) != view.data_ptr()):
        raise GraphError(
            "view: the source tensor of the view has changed its shape in place",
            hint="create the view again, or use y = x.squeeze() instead of x.squeeze_()",
        )


def _path(view):
    """Return the view operations that lead from the base to `view`."""
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
    """Overwrite every element of x with a value, as zero_() and fill_() do.

    Forward:  y = value
    Backward: grad_x = 0, grad_value = grad_y
    Derivation: y does not depend on x, so grad_x is 0. It is an array of zeros, not None,
    so that the tensors from which x was computed get a gradient of zeros, as in PyTorch.
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
    """Write a value into a tensor through one of its views, as `view[...] = value` does.

    Forward:  base with one of its views replaced by value
    Backward: grad_base = grad_output with zeros in the view,
        grad_value = grad_output seen through the view
    Derivation: the replaced part no longer depends on the old base, and the rest is unchanged.
    Saved: nothing. The keyword argument `path` contains the view operations.
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
    """Zero the elements of x that a view selects.

    Forward:  x with zeros in a view
    Backward: grad_x = grad_output with zeros in the same view
    Derivation: the operation is linear, and its matrix is symmetric.
    Saved: nothing.
    """

    @staticmethod
    def forward(ctx, x, *, path):
        ctx.path = path
        y = x.copy()
        seen = _follow(y, path)
        if shares_memory(seen, y):
            seen[...] = 0
        else:  # a reshape in the path made a copy, because of the memory layout of y
            numbers = array_module(y).arange(y.size).reshape(y.shape)
            y.reshape(-1)[_follow(numbers, path)] = 0
        return y

    @staticmethod
    def backward(ctx, grad):
        return _Blank.call(grad, path=ctx.path)
