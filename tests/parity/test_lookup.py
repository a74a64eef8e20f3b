"""Elements by index: gather, scatter, selections, embedding."""

import numpy as np
from parity.comparing import Op, checks
from parity.drawing import Operand


def looked_up(d):
    """A tensor, one of its axes, and an index smaller than it along the other axes."""
    x = d.tensor(d.shape(), dtype="float64")
    dim = d.axis(x)
    axis = dim % x.ndim if x.ndim and -x.ndim <= dim < x.ndim else 0
    size = x.shape[axis] if x.ndim else 1
    sizes = [d.integer(0, n) for n in x.shape]
    if x.ndim:
        sizes[axis] = d.integer(0, 5) if size else 0
        if d.rarely():
            sizes[-1 - axis] = 6
    index = d.indices(sizes, size)
    return x, dim, index, size


def gathered(d):
    return looked_up(d)[:3]


def scattered(d):
    x, dim, index, _ = looked_up(d)
    if d.flag():
        return x, dim, index, d.choice(0.5, 2)
    source = d.tensor([n + d.integer(0, 1) for n in index.shape], dtype="float64")
    return x, dim, distinct(index, dim), source


def distinct(index, dim):
    """Where several writes meet, no library says who wins: one write, or one slice."""
    host = index.host
    if host.ndim and host.size and -host.ndim <= dim < host.ndim:
        take = [slice(None)] * host.ndim
        take[dim] = slice(0, 1)
        index.host = host[tuple(take)]
    return index


def scatter_added(d):
    x, dim, index, _ = looked_up(d)
    return x, dim, index, d.tensor([n + d.integer(0, 1) for n in index.shape], dtype="float64")


def scatter_reduced(d):
    """Without ties, where PyTorch's second derivative is another."""
    x, dim, index, _ = looked_up(d)
    src = d.tensor([n + d.integer(0, 1) for n in index.shape], dtype="float64", ties=False)
    if x.ndim and x.host.size:
        x = d.tensor(x.shape, dtype="float64", ties=False)
    return (
        x,
        dim,
        index,
        src,
        d.choice("sum", "prod", "mean", "amax", "amin"),
        d.some(include_self=d.flag()),
    )


def along(d):
    x, dim, index, size = looked_up(d)
    if d.integer(0, 3) == 3:
        x = d.tensor(d.filled(), dtype="float64", layout="plain")  # else PyTorch's view() fails
        return x, d.indices(d.shape(1, 1), x.host.size, wrong=False)
    if x.ndim and -x.ndim <= dim < x.ndim:
        shape = [d.choice(n, 1) for n in x.shape]
        shape[dim] = d.integer(0, 4) if size else 0
        index = d.indices(shape, size)
    # PyTorch takes an index that is too large modulo the size; ours refuses it, as gather does.
    within = np.clip(index.host, -size, size - 1) if size else index.host
    return x, Operand(np.asarray(within), "plain", False), dim


def slices(d):
    """A tensor, an axis, a vector of indices into it, and slices for those places."""
    x = d.tensor(d.shape(), dtype="float64")
    dim = d.axis(x)
    size = x.shape[dim] if x.ndim and -x.ndim <= dim < x.ndim else 1
    index = d.indices((d.integer(0, 4 if x.ndim else 1) if size else 0,), size)
    shape = list(x.shape)
    if x.ndim and -x.ndim <= dim < x.ndim:
        shape[dim] = len(index.host)
    if d.rarely():
        shape = [*shape, 2]
    return x, dim, index, d.tensor(shape, dtype="float64")


def index_added(d):
    return *slices(d), d.some(alpha=d.choice(2, -0.5))


def index_copied(d):
    x, dim, index, source = slices(d)
    if index.host.size:  # each place once: who wins is nobody's promise
        index.host = index.host[:1]
        if source.ndim and -source.ndim <= dim < source.ndim and x.ndim == source.ndim:
            take = [slice(None)] * source.ndim
            take[dim] = slice(0, 1)
            source.host = source.host[tuple(take)]
    return x, dim, index, source


def index_filled(d):
    x, dim, index, _ = slices(d)
    return x, dim, index, d.choice(0.5, -2, d.tensor((), dtype="float64"))


def put(d):
    """Indices for the first axes, broadcast with each other and with the values."""
    x = d.tensor(d.filled(1), dtype="float64")
    shape = d.shape(0, 2)
    count = d.integer(1, x.ndim)
    indices = [d.indices(shape, x.shape[axis], negative=True) for axis in range(count)]
    if d.rarely():
        indices[-1].host = indices[-1].host.astype("float64")
    values = d.choice(d.tensor((), dtype="float64"),
                      d.tensor((*shape, *x.shape[count:]), dtype="float64"))  # fmt: skip
    return x, tuple(indices), values, {"accumulate": True}


def masked(d):
    x, mask = d.broadcastable(2)
    return d.tensor(x, "ffi"), d.mask(mask)


def entries(d):
    """Integers, slices, None, an ellipsis, a mask or index tensors: one for each axis."""
    x = d.tensor(d.shape(), dtype="float64")
    index, axis, shape = [], 0, d.shape(0, 2)
    while axis < x.ndim and d.integer(0, 5):
        size = x.shape[axis]
        kind = d.choice("slice", "integer", "new", "tensor", "mask", "slice")
        if kind == "slice":
            bound = d.choice(None, 0, 1, -1, size, size + 3)
            index.append(slice(d.choice(None, 0, 1, -2), bound, d.choice(None, 1, 2)))
        elif kind == "integer":
            index.append(d.integer(-size - d.rarely(), max(size - 1, 0)))
        elif kind == "new":
            index.append(None)
            axis -= 1
        elif kind == "tensor":
            # PyTorch lets a wrong one pass where another axis leaves nothing to look up.
            index.append(d.indices(shape if size else (0,), size, negative=True, wrong=False))
        else:
            index.append(d.mask((size,)))
        axis += 1
    if d.integer(0, 3) == 3:
        index.insert(d.integer(0, len(index)) if axis == x.ndim else len(index), Ellipsis)
    return x, tuple(index)


def embedded(d):
    count, size = d.choice(5, 3, 1), d.choice(3, 1, 4)
    ids = d.indices(d.shape(0, 3), count)
    weight = d.tensor((count, size))
    return ids, weight, d.some(padding_idx=d.choice(0, -1, count))


def embedded_by_frequency(d):
    ids, weight, options = embedded(d)
    return ids, weight, options | {"scale_grad_by_freq": True}


def one_hot(d):
    ids = d.indices(d.filled(0, 3), 4)
    return ids, d.choice(-1, 4, 6, 2)


def unique(d):
    x = d.tensor(d.filled(), "fib", low=0, high=2)
    flags = d.some(return_inverse=d.flag(), return_counts=d.flag())
    return x, flags | ({"dim": d.axis(x)} if d.flag() else {})


def counted(d):
    x = d.indices((d.integer(1, 7),), 5, wrong=False)
    weights = d.tensor(x.shape, "fi", grad=False)
    return x, d.choice(None, weights, d.tensor((3,), grad=False)), d.choice(0, 3, 9)


test_along_an_axis = checks(
    Op("gather", gathered),
    Op("scatter", scattered),
    Op("scatter_add", scatter_added),
    Op("scatter_reduce", scatter_reduced),
    Op("take_along_dim", along),
)
test_slices = checks(
    Op("index_select", lambda d: slices(d)[:3]),
    Op("index_add", index_added),
    Op("index_copy", index_copied),
    Op("index_fill", index_filled),
)
test_by_index = checks(
    Op("index_put", put),
    Op("Tensor.__getitem__", entries),
    Op("masked_select", masked),
    Op("nonzero", lambda d: (d.tensor(kinds="fib", low=0, high=1), d.some(as_tuple=d.flag()))),
    Op("unique", unique, second=False),
    Op("unique_consecutive", unique, second=False),
    Op("bincount", counted),
    Op("argwhere", lambda d: (d.tensor(kinds="fib", low=0, high=1),)),
)
test_embedding = checks(
    Op("nn.functional.embedding", embedded),
    # PyTorch's second derivative forgets the scale.
    Op("nn.functional.embedding", embedded_by_frequency, second=False, label=" by frequency"),
    Op("nn.functional.one_hot", one_hot),
)
