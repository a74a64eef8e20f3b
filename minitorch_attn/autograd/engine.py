"""Engine of the backward pass, which visits each graph node once, from outputs to leaves.

A node is created after the nodes that computed its inputs. So the newest node that a gradient has
reached is always ready: the nodes that use its output are newer, so the engine has already visited
them, and they have added their gradients. The engine does not recurse, so only memory limits the
length of a chain.
"""

import weakref
from heapq import heappop, heappush, heappushpop
from itertools import count
from sys import getrefcount

from .. import backend
from ..errors import DTypeError, GraphError, ShapeError
from ..tensor import Tensor, wrap
from . import anomaly, modes
from .autocast import using_casts
from .function import Leaf
from .modes import enable_grad, no_grad, state
from .tensor_habits import explain_backward

__all__ = [
    "Leaf", "accumulate", "add_accumulate_hook", "add_hook", "add_to_grad", "retain_grad",
    "run_backward",
]  # fmt: skip


def run_backward(roots, grads, *, targets=None, stops=None, retain_graph=False, create_graph=False):
    """Propagate gradients from `roots`, visiting the newest operation first.

    Parameters
    ----------
    roots : sequence of Tensor
    grads : sequence of Tensor
        Gradient dL/d(root) for each root.
    targets : list of Tensor, optional
        Tensors whose gradients are returned. Without `targets`, gradients are added to the `.grad`
        of the leaves.
    stops : list of (node, output index), optional
        Edges at which this pass stops, given instead of `targets`. Their gradients are returned
        before any hook has run.
    retain_graph : bool
        Whether to keep the arrays that the operations saved, for another backward pass.
    create_graph : bool
        Whether to record the backward pass itself, for second derivatives.

    Returns
    -------
    list or None
        Gradient (array or Tensor) of each target or stop. An entry is None if no gradient has
        reached it. Without `targets` and `stops`, the result is None.
    """
    arrived = _Arrivals(out_of_place=create_graph)
    waiting, grads_of, add = arrived.waiting, arrived.grads, arrived.add
    for root, grad in zip(roots, grads, strict=True):
        add(root._current_edge(), grad if create_graph else grad.array)
    wanted = path = None
    collected, last_nodes = {}, {edge[0] for edge in stops or ()}
    if targets is not None:
        wanted = [target._current_edge() for target in targets]
        path = _towards({edge[0] for edge in wanted}, [root._edge[0] for root in roots])
    watched = create_graph or modes.watchers > 0
    if watched:
        for listener in state.listeners:
            listener.start_backward(roots, grads)
    with enable_grad() if create_graph else no_grad():
        latest = None  # last node reached, kept out of the heap: in a chain, it is visited next
        try:
            while waiting or latest is not None:
                node = (heappop(waiting) if latest is None else heappushpop(waiting, latest))[1]
                latest = None  # the previous `latest` is `node`, or is on the heap
                grad = grads_of.pop(node)
                if path is not None and node not in path:
                    continue
                if stops is not None and node in last_nodes:
                    collected.update({(node, i): g for i, g in enumerate(_listed(grad))})
                    continue
                if type(grad) is list:  # the node has several outputs
                    grad = _filled(node, grad)
                    node.retained = retain_graph
                if node.hooks is not None:
                    grad = _run_hooks(node, grad)
                if wanted is not None:
                    _collect(node, grad, wanted, collected)
                    if not any(edge is not None and edge[0] in path for edge in node.edges):
                        continue  # no edge leads to a target: keep the saved arrays
                if type(node) is Leaf:
                    alone = not create_graph and getrefcount(grad) == ALONE
                    accumulate(node.tensor(), grad, create_graph, alone)
                    continue
                if watched:
                    results = _differentiate_watched(node, grad, create_graph)
                elif node.outputs_like is None:
                    results = (node.kernel or node.function).backward(node, grad)
                else:
                    results = (node.kernel or node.function).backward(node, *grad)
                if type(results) is not tuple:
                    results = (results,)
                if len(results) != len(node.edges):
                    _refuse_count(node, results)
                # The lengths were just compared; `strict=True` would take 5 % of a small step.
                for edge, result, shape in zip(node.edges, results, node.shapes):  # noqa: B905
                    if edge is None:
                        continue
                    if result is None:
                        _refuse_none(node, results)
                    source = edge[0]
                    if result.shape != shape or result.dtype is not source.dtype:
                        _check(node, results)
                    if source not in grads_of and source.outputs_like is None:
                        grads_of[source] = result  # the first gradient is often the only one
                        if latest is not None:
                            heappush(waiting, latest)
                        latest = (-source.number, source)
                    else:
                        add(edge, result)
                results = result = None  # a gradient without other references needs no copy
                if node.holds and not retain_graph:
                    node.free()
        except (AttributeError, TypeError) as error:
            explain_backward(error, node, roots, create_graph)
            raise
    wanted = stops if wanted is None else wanted
    return None if wanted is None else [collected.get(edge) for edge in wanted]


def _listed(grad):
    return grad if type(grad) is list else [grad]


def _towards(targets, roots):
    """Return every node that lies on a path from the roots to the targets."""
    stack, seen = list(roots), set(roots)
    while stack:
        for edge in stack.pop().edges:
            if edge is not None and edge[0] not in seen:
                seen.add(edge[0])
                stack.append(edge[0])
    path = set()
    for node in sorted(seen, key=lambda node: node.number):  # inputs first
        if node in targets or any(e is not None and e[0] in path for e in node.edges):
            path.add(node)
    return path


class _Arrivals:
    """Sum of the gradients that have arrived so far, for each output of a node."""

    def __init__(self, out_of_place):
        self.out_of_place = out_of_place
        self.waiting = []  # a heap of (-number, node): nodes that a gradient has reached
        self.grads = {}  # node -> gradient, or list of gradients if it has several outputs
        # Edges whose sum is a new array, to which later gradients can be added in place.
        self.owned = set()

    def add(self, edge, grad):
        """Add `grad` to the sum of gradients for `edge`, a pair (node, output index)."""
        node, index = edge
        grads = self.grads
        if node not in grads:
            heappush(self.waiting, (-node.number, node))
            if node.outputs_like is None:
                grads[node] = grad
                return
            grads[node] = [None] * len(node.outputs_like)
        if node.outputs_like is not None:
            grads, node = grads[node], index
        before = grads[node]
        if before is None:
            grads[node] = grad
        elif edge in self.owned:
            grads[node] += grad  # in place for arrays; a NumPy scalar (0-d sum) is replaced
        else:
            grads[node] = before + grad  # the first array may be in use elsewhere
            if not self.out_of_place:
                self.owned.add(edge)


def _filled(node, grads):
    """Return the gradients of all outputs of a node, with zeros where none has arrived."""
    like = next(g for g in grads if g is not None)
    pairs = zip(grads, node.outputs_like, strict=True)
    return tuple([_zeros(like, *form) if g is None else g for g, form in pairs])


def _zeros(like, shape, dtype):
    if isinstance(like, Tensor):
        return wrap(_zeros(like.array, shape, dtype))
    return backend.zeros_like_device(like, shape, dtype)


def _differentiate_watched(ctx, grad, create_graph):
    """Call `backward` of one node, with support for listeners, NaN detection and `create_graph`."""
    if state.autocast is not None:  # a gradient has the dtype of its tensor
        with using_casts(None):
            return _differentiate_watched(ctx, grad, create_graph)
    grads = grad if type(grad) is tuple else (grad,)
    for listener in state.listeners:
        listener.before_backward(ctx, grads)
    if create_graph and ctx._intermediate is not None:
        results = _through_composed(ctx, grads)
    else:
        ctx.as_tensors = create_graph
        try:
            backward = (ctx.function if create_graph else ctx.kernel or ctx.function).backward
            results = backward(ctx, *grads)
        finally:
            ctx.as_tensors = False
    together = results if type(results) is tuple else (results,)
    for listener in state.listeners:
        listener.record_backward(ctx, grads, together)
    if state.anomaly:
        anomaly.check_backward(ctx, together)
    return results


def _refuse_count(ctx, results):
    raise GraphError(
        f"{ctx.function.__name__}.backward returned {len(results)} gradients",
        expected=f"a gradient or None for each of its {len(ctx.edges)} inputs",
    )


def _refuse_none(ctx, results):
    missing = [i for i, e in enumerate(ctx.edges) if e is not None and results[i] is None]
    raise GraphError(
        f"{ctx.function.__name__}.backward returned None for its input {missing[0]}",
        expected="a gradient, because this input requires grad",
        hint="return grad * 0 for a gradient of zero, or pass the input as x.detach()",
    )


def _check(ctx, results):
    """Raise an error if a gradient has the wrong shape or dtype; never convert it."""
    name = f"{ctx.function.__name__}.backward"
    for i, (edge, result) in enumerate(zip(ctx.edges, results, strict=True)):
        if edge is None or result is None:
            continue
        if result.shape != ctx.shapes[i]:
            raise ShapeError(
                f"{name} returned a gradient of shape {result.shape} "
                f"for its input {i} of shape {ctx.shapes[i]}",
                hint="if the input was broadcast, return sum_to_shape(grad, ctx.shapes[i])",
            )
        node, index = edge
        dtype = node.dtype if node.outputs_like is None else node.outputs_like[index][1]
        if dtype is not None and result.dtype != dtype:
            raise DTypeError(
                f"{name} returned a {result.dtype} gradient for its {dtype} input {i}",
                hint="write constants as Python numbers, which take the array's dtype",
            )


def _through_composed(ctx, grads):
    """Differentiate the composed version of a fused operation, for second derivatives."""
    inputs = _saved_as_tensors(ctx)[: len(ctx.shapes)]
    # New nodes for the inputs, so that the inner backward pass stops there.
    aliases = [None if x is None else x.view_as_alias() for x in inputs]
    composed = getattr(ctx.kernel, "composed", None) or ctx.function.composed
    outputs = composed(ctx, *aliases, **ctx.settings)
    outputs = outputs if type(outputs) is tuple else (outputs,)
    wanted = [a for a, needed in zip(aliases, ctx.needs_grad, strict=True) if needed]
    pairs = [(o, g) for o, g in zip(outputs, grads, strict=True) if o.requires_grad]
    found = iter(
        run_backward(
            [o for o, _ in pairs],
            [g for _, g in pairs],
            targets=wanted,
            retain_graph=True,
            create_graph=True,
        )  # fmt: skip
    )
    return tuple(next(found) if needed else None for needed in ctx.needs_grad)


def _saved_as_tensors(ctx):
    ctx.as_tensors = True
    try:
        return ctx.saved
    finally:
        ctx.as_tensors = False


def _references_to_a_local():
    """Return `getrefcount` of an object that only a local variable refers to."""
    found = object()
    return getrefcount(found)


ALONE = _references_to_a_local()


def accumulate(tensor, grad, create_graph, alone=False):
    """Add `grad` to a tensor's `.grad`, and call the tensor's post-accumulate hooks.

    If `tensor` is None, because the leaf tensor no longer exists, do nothing.
    """
    if tensor is None:
        return
    add_to_grad(tensor, grad, create_graph, alone)
    leaf = tensor._edge and tensor._edge[0]
    if type(leaf) is Leaf:
        for hook in list((leaf.after_accumulate or {}).values()):
            hook(tensor)
    if modes.watchers:
        for listener in state.listeners:
            listener.record_gradient(tensor)


def add_to_grad(tensor, grad, create_graph=False, alone=False):
    """Add `grad` to a tensor's `.grad`.

    Unless `create_graph` is True, no other array shares the memory of `.grad` afterwards.

    Parameters
    ----------
    tensor : Tensor
    grad : array, or Tensor under `create_graph`
    create_graph : bool
    alone : bool
        True if nothing else refers to `grad`. Then `grad` becomes `.grad` without a copy, unless
        `grad` is a view or is not in C order.
    """
    if tensor.grad is None:
        if not create_graph and not (alone and backend.is_whole(grad)):
            grad = grad.copy()
        tensor.grad = grad if create_graph else wrap(backend.as_array(grad))
    elif create_graph:
        tensor.grad = tensor.grad + grad
    else:
        tensor.grad.array += grad
        tensor.grad.changed_in_place()


def _collect(node, grad, wanted, collected):
    for edge in wanted:
        if edge[0] is node:
            collected[edge] = grad[edge[1]] if type(grad) is tuple else grad


def _run_hooks(node, grad):
    """Run a node's hooks, each of which may replace the gradient; return the final gradient."""
    grads = list(grad) if type(grad) is tuple else [grad]
    for index, hooks in node.hooks.items():
        for key in sorted(hooks):
            hook = hooks.get(key)
            if hook is None:  # removed by an earlier hook
                continue
            given = grads[index]
            raw = not isinstance(given, Tensor)
            result = hook(wrap(backend.as_array(given)) if raw else given)
            if result is None:
                continue
            if not isinstance(result, Tensor):
                raise DTypeError(
                    "register_hook: the hook must return a Tensor or None", got=f"{result!r:.60}"
                )
            if result.shape != given.shape:
                raise ShapeError(
                    "gradient hook: the returned gradient does not have the shape of its tensor",
                    got=f"{result.shape}",
                    expected=f"{given.shape}",
                )
            grads[index] = result.array if raw else result
    return tuple(grads) if type(grad) is tuple else grads[0]


class HookHandle:
    """Handle returned when a hook is registered; `remove()` removes the hook."""

    def __init__(self, hooks, hook):
        self.hooks, self.key = hooks, _next_key()
        hooks[self.key] = hook

    def remove(self):
        """Remove the hook; a second call does nothing."""
        self.hooks.pop(self.key, None)


_next_key = count().__next__
_LAST = float("inf")  # key of the `retain_grad` hook, which runs last


def add_hook(tensor, hook):
    """Call `hook` with the complete gradient of `tensor`; its result replaces the gradient."""
    _check_hook(hook, "register_hook")
    if not tensor.requires_grad:
        raise GraphError(
            "register_hook: the tensor must require grad", hint="call x.requires_grad_() first"
        )
    node, index = tensor._current_edge()
    if node.hooks is None:
        node.hooks = {}
    return HookHandle(node.hooks.setdefault(index, {}), hook)


def _check_hook(hook, where):
    if not callable(hook):
        raise DTypeError(f"{where}: hook must be callable", got=f"hook={hook!r:.60}")


def retain_grad(tensor):
    """Store a non-leaf tensor's gradient in `.grad`, after all other hooks of the tensor.

    Calling this again for the same tensor has no effect.
    """
    holder = weakref.ref(tensor)  # the hook belongs to this tensor's own node

    def keep(grad):
        tensor = holder()
        if tensor is not None:
            recorded = grad.requires_grad
            add_to_grad(tensor, grad if recorded else grad.array, recorded)

    handle = add_hook(tensor, keep)
    handle.remove()
    handle.hooks[_LAST] = keep


def add_accumulate_hook(tensor, hook):
    """Call `hook(tensor)` after each addition to the `.grad` of a leaf."""
    if not (tensor.requires_grad and tensor.is_leaf):
        raise GraphError(
            "register_post_accumulate_grad_hook: the tensor must be a leaf that requires grad",
            hint="use register_hook(), which accepts any tensor that requires grad",
        )
    _check_hook(hook, "register_post_accumulate_grad_hook")
    leaf = tensor._edge[0]
    if leaf.after_accumulate is None:
        leaf.after_accumulate = {}
    return HookHandle(leaf.after_accumulate, hook)
