"""Checks of the autograd assignment: the library's engine computes the expected values."""

import numpy as np

from minitorch_attn.grader.build.checking import check, operation_check


def summed(inputs, settings):
    """Run sum_to_shape. Also return its input array, which must not change."""
    import numpy as np

    from minitorch_attn.autograd.broadcasting import sum_to_shape

    grad = inputs["grad"].copy()
    found = np.array(sum_to_shape(grad, tuple(settings["shape"])), copy=True)
    return {"output": found, "afterwards": grad}


def _summed(rng, cases):
    return [
        check(f"{tuple(a)} to {tuple(b)}", summed, {"grad": rng.normal(size=a)}, {"shape": b})
        for a, b in cases
    ]


def unbroadcast(rng):
    cases = [((2, 3, 4), [2, 1, 4]), ((2, 3, 4), [4]), ((2, 3, 4), [1, 4]), ((2, 3), [2, 3])]
    return _summed(rng, cases)


def unbroadcast_any(rng):
    cases = [((2, 3), []), ((5, 1, 3), [1, 1]), ((4, 0, 3), [1, 3]), ((2, 1, 3), [1, 3])]
    return _summed(rng, cases)


def arithmetic(name, operation, rng, shapes, **options):
    a, b = (rng.normal(size=shape) + 3.0 * rng.choice([-1, 1], shape) for shape in shapes)
    grad = rng.normal(size=np.broadcast_shapes(*shapes))
    operation = f"minitorch_attn.ops.arithmetic:{operation}"
    return operation_check(name, operation, {"a": a, "b": b}, {}, grad, **options)


def _both(rng, operation):
    return [
        arithmetic("equal shapes", operation, rng, [(4, 3), (4, 3)]),
        arithmetic("broadcast", operation, rng, [(4, 1, 3), (5, 3)]),
        arithmetic("a alone", operation, rng, [(4, 3), (3,)], needs=["a"]),
        arithmetic("b alone", operation, rng, [(4, 3), (3,)], needs=["b"]),
        arithmetic("large", operation, rng, [(400, 300), (400, 1)]),
    ]


def product(rng):
    return _both(rng, "Mul")


def quotient(rng):
    return _both(rng, "Div")


def collected(inputs, settings):
    """Accumulate gradients for three graph nodes, one of which has two outputs."""
    from heapq import heappop

    import numpy as np

    from minitorch_attn.autograd.engine import _Arrivals

    class Node:
        def __init__(self, number, outputs_like=None):
            self.number, self.outputs_like = number, outputs_like

    form = ((3,), np.dtype("float64"))
    one, two, three = Node(4), Node(9), Node(7, [form, form])
    arrived = _Arrivals(out_of_place=settings["out_of_place"])
    given = [row.copy() for row in inputs["rows"]]
    order = [(one, 0), (two, 0), (one, 0), (three, 1), (one, 0), (three, 1)]
    for edge, row in zip(order, given, strict=True):
        arrived.add(edge, row)
    lone = arrived.grads[three]
    visited = [heappop(arrived.waiting)[1].number for _ in range(len(arrived.waiting))]
    return {
        "one": np.array(arrived.grads[one]), "two": np.array(arrived.grads[two]),
        "second output": np.array(lone[1]), "first output": np.array(lone[0] is None),
        "visited": np.array(visited), "rows afterwards": np.stack(given),
    }  # fmt: skip


def arrivals(rng):
    rows = {"rows": rng.normal(size=(6, 3))}
    return [
        check(f"out of place: {flag}", collected, rows, {"out_of_place": flag})
        for flag in (False, True)
    ]


def filled(inputs, settings):
    """Run `_filled` for a graph node with two outputs, of which only one has a gradient."""
    import numpy as np

    from minitorch_attn.autograd.engine import _filled

    class Node:
        outputs_like = [((2, 3), np.dtype("float64")), ((4,), np.dtype("float32"))]

    first, second = _filled(Node, [inputs["grad"], None])
    return {"given": np.array(first), "missing": np.array(second)}


def unused_outputs(rng):
    return [check("two outputs", filled, {"grad": rng.normal(size=(2, 3))})]


def towards(inputs, settings):
    """Run `_towards` on a graph given by its edges; return, for each node, whether it was found."""
    import numpy as np

    from minitorch_attn.autograd.engine import _towards

    class Node:
        def __init__(self, number):
            self.number, self.edges = number, ()

    nodes = [Node(number) for number in range(settings["count"])]
    for node, sources in zip(nodes, settings["sources"], strict=True):
        node.edges = (*[(nodes[source], 0) for source in sources], None)
    targets = {nodes[number] for number in settings["targets"]}
    path = _towards(targets, [nodes[number] for number in settings["roots"]])
    return {"output": np.array([node in path for node in nodes])}


def paths(rng):
    made = []
    for number in range(3):
        count, sources = 12, [[]]
        for n in range(1, count):
            sources.append(rng.choice(n, size=min(n, 2), replace=False).tolist())
        targets = rng.choice(6, 2, replace=False).tolist()
        settings = {"count": count, "sources": sources, "targets": targets}
        settings["roots"] = [count - 1 - number]
        made.append(check(f"graph {number}", towards, {}, settings))
    return made


def accumulated(inputs, settings):
    """Add gradients to a leaf, and return .grad after each addition.

    Also return the added gradients, which must not change.
    """
    import numpy as np

    import minitorch_attn as mt
    from minitorch_attn.autograd.engine import add_to_grad

    leaf = mt.tensor(inputs["x"], requires_grad=True)
    rows = [row.copy() for row in inputs["rows"]]
    graph = settings["create_graph"]
    found = {}
    for number, row in enumerate(rows):
        add_to_grad(leaf, mt.tensor(row) if graph else row, graph)
        if number == 0:
            first = leaf.grad
        found[f"after {number}"] = leaf.grad.numpy().copy()
    if not graph:
        found["same tensor"] = np.array(leaf.grad is first)
    return {**found, "rows afterwards": np.stack(rows)}


def leaves(rng):
    arrays = {"x": rng.normal(size=3), "rows": rng.normal(size=(3, 3))}
    return [check("three gradients", accumulated, arrays, {"create_graph": False})]


def leaves_again(rng):
    arrays = {"x": rng.normal(size=3), "rows": rng.normal(size=(3, 3))}
    return [check("as tensors", accumulated, arrays, {"create_graph": True})]


def graph(inputs, settings):
    """Return the gradients of a small graph; the setting `kind` selects the graph."""
    import numpy as np

    import minitorch_attn as mt

    x = mt.tensor(inputs["x"], requires_grad=True)
    w = mt.tensor(inputs["w"], requires_grad=True)
    g = mt.tensor(inputs["g"])
    visits = []

    class Shift(mt.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a + 1.0

        @staticmethod
        def backward(ctx, grad):
            visits.append(1)
            return grad + 0.0

    kind, more = settings["kind"], {}
    if kind == "chain":
        ((x @ w).sin().exp() @ w).backward(g)
    elif kind == "two ways":
        h = (x @ w).exp()
        (h.sin() + h + x.exp()).backward(g)
    elif kind == "shared":
        h = Shift.apply(x @ w)
        a = h.sin()
        (a + h.exp() + h + (a + h).sin()).backward(g)
    elif kind == "long":
        h = x @ w
        for _ in range(settings["count"]):
            h = Shift.apply(h)
        h.backward(g)
    elif kind == "chosen":
        h = (x @ w).sin()
        y = h.exp() + x
        found = mt.autograd.grad([y], [h, w], [g])
        more = {"of h": found[0].numpy(), "of w": found[1].numpy()}
        more["untouched"] = np.array(x.grad is None and w.grad is None)
        y = (x @ w).sin() + x
        y.backward(g)
    elif kind == "second pass":
        y = ((x @ w).exp()) @ w
        y.backward(g, retain_graph=True)
        y.backward(g)
        try:
            y.backward(g)
            more["refused"] = np.array(False)
        except mt.errors.GraphError:
            more["refused"] = np.array(True)
    elif kind == "hooks":
        h = (x @ w).sin()
        seen = []
        h.register_hook(lambda grad: seen.append(grad.numpy().copy()) or grad + grad)
        (h.exp() + h).backward(g)
        more = {"seen": np.stack(seen)}
    elif kind == "second derivatives":
        y = (x @ w).exp().sin()
        (first,) = mt.autograd.grad([y], [x], [g], create_graph=True)
        first.sin().backward(g)
        more = {"first": first.detach().numpy()}
    more["visits"] = np.array(len(visits))
    return {"x": x.grad.numpy(), "w": w.grad.numpy(), **more}


def _graphs(rng, *kinds, **settings):
    made = []
    for kind in kinds:
        arrays = {name: 0.5 * rng.normal(size=(4, 4)) for name in "xwg"}
        made.append(check(kind, graph, arrays, {"kind": kind, **settings}))
    return made


def chain(rng):
    return _graphs(rng, "chain", "two ways")


def shared(rng):
    return _graphs(rng, "shared")


def long_chain(rng):
    return _graphs(rng, "long", count=5000)


def chosen(rng):
    return _graphs(rng, "chosen")


def second_pass(rng):
    return _graphs(rng, "second pass")


def hooks(rng):
    return _graphs(rng, "hooks")


def second_derivatives(rng):
    return _graphs(rng, "second derivatives")
