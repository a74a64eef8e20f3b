"""Leaf order: let the backward pass reach each parameter as soon as its gradient is complete.

The engine processes the nodes of the graph in order of decreasing number. A leaf gets its number
when it is created, before the forward pass, so the engine would process all leaves last. Data
parallelism needs each gradient early, to exchange it while the backward pass continues.
"""

import math

from .function import Leaf

__all__ = ["number_early"]


def number_early(outputs, leaves, keep=False):
    """Give each leaf a new node number, just below the numbers of the nodes that use the leaf.

    Parameters
    ----------
    outputs : list of Tensor
        Tensors from which the backward pass starts, or from which the loss is computed.
    leaves : list of Leaf
        Nodes of the parameters. If one node uses several leaves, the backward pass reaches them in
        the reverse order of this list.
    keep : bool, default False
        Whether a leaf keeps its number if it is already less than the numbers of the nodes that
        use the leaf. This is needed if an earlier forward pass used the leaf and its backward pass
        has not run yet.

    Returns
    -------
    set of int
        Indices of the leaves that the graph does not contain.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> w, unused = mt.ones(2, requires_grad=True), mt.ones(3, requires_grad=True)
    >>> product = 3 * w
    >>> loss = product.exp().sum()
    >>> leaves = [x._current_edge()[0] for x in (w, unused)]
    >>> number_early([loss], leaves)
    {1}
    >>> node = product._current_edge()[0]
    >>> node.number - 1 < leaves[0].number < node.number
    True
    """
    smallest = _smallest_users([t._current_edge()[0] for t in outputs if t.requires_grad])
    share = 1.0 / (len(leaves) + 1)
    unused = set()
    for i, leaf in enumerate(leaves):
        user = smallest.get(leaf)
        if user is None:
            unused.add(i)
        elif not (keep and leaf.number < user):
            leaf.number = user - 1 + (i + 1) * share
    return unused


def _smallest_users(roots):
    """For each leaf of the graph of `roots`, find the smallest node number among its users."""
    found = {node: node.number for node in roots if isinstance(node, Leaf)}
    waiting, seen = list(roots), set(roots)
    while waiting:
        user = waiting.pop()
        for used in [edge[0] for edge in user.edges if edge is not None]:
            if isinstance(used, Leaf):
                found[used] = min(found.get(used, math.inf), user.number)
            elif used not in seen:
                seen.add(used)
                waiting.append(used)
    return found
