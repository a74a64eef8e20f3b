"""Parallel calls: run several functions of tensors in threads, as one node of the graph.

Each call records its own graph, on its own thread. The node `Parallel` represents all of them: its
inputs are the tensors that the calls used but did not create, such as a model's parameters. In the
backward pass, each thread differentiates its own graph, and the node adds up the gradients. Let y_k
be the result of call k, w a tensor that the calls use, and L the loss:

    L = L(y_1(w), ..., y_n(w))        dL/dw = sum_k (dL/dy_k) (dy_k/dw)
"""

import math
from functools import partial

from ..backend.random import own_offsets, reserve_offsets
from ..backend.threads import shares, together
from ..tensor import Tensor, wrap
from .engine import run_backward
from .function import Context, Function, Leaf, next_number
from .modes import set_grad_enabled, state
from .nested import mapped, tensors_in

__all__ = ["in_parallel", "must_stay_in_thread"]

_SMALL = 1 << 17  # a sum of fewer numbers takes less time than starting a thread


def in_parallel(calls):
    """Run the calls in parallel threads with one BLAS thread each; this thread runs the first call.

    Parameters
    ----------
    calls : list of callable
        Functions without arguments that return a tensor, or tensors in nested tuples, lists and
        dicts. A tensor that one function changes must not be used by the others.

    Returns
    -------
    list
        The results, in the order of `calls`. If the calling thread records the graph, a backward
        pass through any result differentiates the calls in parallel threads, too.

    Notes
    -----
    Each call draws its dropout masks from its own range of counter values, so the masks do not
    depend on the order of the calls. A call that draws other random numbers raises an error.
    Autocast, anomaly mode and listeners (a recording, a checkpoint) apply to one thread only. While
    one of them is active, the calls therefore run one after another on this thread.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> w = mt.tensor([1.0, 2.0], requires_grad=True)
    >>> y, z = in_parallel([lambda: w.square(), lambda: 3 * w])
    >>> (y + z).sum().backward()
    >>> w.grad
    tensor([5., 7.])
    """
    if len(calls) < 2:
        return [call() for call in calls]
    start, offsets = next_number(), reserve_offsets(len(calls))
    pairs = zip(calls, offsets, strict=True)
    work = [partial(_run, call, offset, state.grad_enabled) for call, offset in pairs]
    if must_stay_in_thread():
        return [call() for call in work]
    results = together(work)
    parts = [[t for t in tensors_in(result) if t.requires_grad] for result in results]
    if not any(parts):
        return results
    return _joined_to_graph(results, parts, start)


def must_stay_in_thread():
    """Return True if calls must stay on this thread: a listener, anomaly mode or autocast is on."""
    return bool(state.listeners or state.anomaly or state.autocast is not None)


def _run(call, first_offset, recording):
    """Run a call with its own range of counter values for dropout masks.

    A graph is recorded if `recording` is True, as it is if the main thread records one.
    """
    with own_offsets(first_offset), set_grad_enabled(recording):
        return call()


def _joined_to_graph(results, parts, start):
    """Return the results as outputs of one `Parallel` node, which replaces the calls' graphs."""
    sources = [_sources(part, start) for part in parts]
    shapes = {edge: shape for found in sources for edge, shape in found.items()}
    ctx = Context()
    ctx.function, ctx.number = Parallel, next_number()
    ctx.edges = ctx.needs_grad = list(shapes)
    ctx.shapes = tuple(shapes.values())
    ctx.constants(parts, [list(found) for found in sources], False)
    inner = [tensor for part in parts for tensor in part]
    ctx.outputs_like = [(tensor.array.shape, tensor.array.dtype) for tensor in inner]
    index_of = {id(tensor): index for index, tensor in enumerate(inner)}

    def outside(tensor):
        index = index_of.get(id(tensor))
        return tensor if index is None else wrap(tensor.array, (ctx, index))

    return [mapped(result, Tensor, outside) for result in results]


def _sources(outputs, start):
    """Return {edge: shape} for the tensors that the graph of `outputs` uses but did not compute.

    These tensors are leaves, or results of nodes whose number is below `start`.
    """
    found, seen = {}, set()
    waiting = [(output._current_edge(), output.array.shape) for output in outputs]
    while waiting:
        edge, shape = waiting.pop()
        node = edge[0]
        if type(node) is Leaf or node.number < start:
            found[edge] = shape
        elif node not in seen:
            seen.add(node)
            pairs = zip(node.edges, node.shapes, strict=True)
            waiting.extend([pair for pair in pairs if pair[0] is not None])
    return found


class Parallel(Function):
    """The calls of `in_parallel` as one operation. Its inputs are the tensors that the calls used.

    Forward:  the calls, each on its own thread
    Backward: dL/dw = sum_k (dL/dy_k) (dy_k/dw)
    Derivation: the result y_k of each call k depends on the input w, so by the chain rule the
    contributions of all y_k add up.
    Saved: the graph of each call.
    """

    @staticmethod
    def backward(ctx, *grads):
        parts, sources, exposed = ctx.constant
        grads = iter(grads)
        work = [
            (part, [next(grads) for _ in part], edges) for part, edges in _pairs(parts, sources)
        ]
        recorded = isinstance(work[0][1][0], Tensor)
        if recorded:  # later passes need the graphs of the calls, to which the gradients link
            ctx.constants(parts, sources, True)
        keep = ctx.retained or exposed
        calls = [partial(_differentiate, *item, keep, recorded) for item in work]
        found = [call() for call in calls] if recorded else together(calls)
        groups = _grouped(ctx.edges, [edges for *_, edges in work], found)
        found.clear()
        return _summed(groups, in_threads=not recorded)


def _pairs(first, second):
    return [*zip(first, second, strict=True)]


def _grouped(edges, edges_of_calls, found):
    """Return, for each edge, the list of the gradients from the backward passes of the calls."""
    arrived = {edge: [] for edge in edges}
    for part, results in _pairs(edges_of_calls, found):
        for edge, result in _pairs(part, results):
            arrived[edge].append(result)
    return list(arrived.values())


def _differentiate(outputs, grads, edges, retain_graph, recorded):
    """Return the gradients of one call's inputs (`edges`), given the gradients of its outputs."""
    if not outputs:
        return []
    grads = grads if recorded else [wrap(grad) for grad in grads]
    return run_backward(
        outputs, grads, stops=edges, retain_graph=retain_graph, create_graph=recorded
    )


def _summed(groups, in_threads):
    """Return the sum of each group of gradients; large sums are divided among threads."""
    sizes = [math.prod(group[0].shape) * len(group) for group in groups]
    count = len(groups[0]) if in_threads and sum(sizes) > _SMALL else 1
    work = [partial(_sums, groups[part]) for part in shares(sizes, count)]
    return tuple([total for sums in together(work) for total in sums])


def _sums(groups):
    return [_sum(group) for group in groups]


def _sum(group):
    """Add up the gradients in a list, and empty it.

    In `total + x`, NumPy can write the result to the memory of an operand that nothing else refers
    to. `pop` removes the list's reference to x, so NumPy need not allocate an array for each sum.
    """
    total = group.pop(0)
    while group:
        total = total + group.pop(0)
    return total
