"""Shapes and arrangement: reshaping, axes, joining and splitting, repetition, triangles."""

from hypothesis import strategies as st
from parity.comparing import Op, checks


def rearranged(d, size):
    """Sizes whose product is `size`, one of them perhaps -1; now and then wrong."""
    sizes, rest = [], size
    for _ in range(d.integer(0, 3)):
        fitting = [n for n in (1, 2, 3, 4) if rest and rest % n == 0] or [rest]
        sizes.append(d.choice(*fitting))
        rest = rest // sizes[-1] if sizes[-1] else 1
    if rest != 1 or d.flag():
        sizes.append(rest)
    if sizes and d.integer(0, 2) == 2:
        sizes[d.integer(0, len(sizes) - 1)] = -1
    if d.rarely():
        sizes.append(d.choice(2, -1, -2))
    return tuple(sizes)


def reshaped(d, layout=None):
    x = d.tensor(kinds="ffib", layout=layout)
    return x, rearranged(d, x.host.size)


def viewed(d):
    """Strided memory, too, where view refuses; not negative strides, which PyTorch lacks."""
    return reshaped(d, layout=d.choice("plain", "transposed", "sliced", "expanded"))


def permuted(d):
    x = d.tensor()
    order = d.draw(permutations(x.ndim))
    order = [a - x.ndim if d.flag() else a for a in order]
    if order and d.rarely():
        order[0] = order[-1]
    return x, tuple(order)


def permutations(n):
    return st.permutations(range(n))


def two_axes(d):
    x = d.tensor()
    return x, d.axis(x), d.axis(x)


def moved(d):
    x = d.tensor(d.shape(1))
    if d.flag():
        return x, d.axis(x), d.axis(x)
    count = d.integer(0, x.ndim)
    return x, *[tuple(d.draw(permutations(x.ndim)))[:count] for _ in range(2)]


def flattened(d):
    x = d.tensor()
    return x, d.some(start_dim=d.axis(x), end_dim=d.axis(x))


def unflattened(d):
    x = d.tensor(d.shape(1))
    dim = d.axis(x)
    size = x.shape[dim] if -x.ndim <= dim < x.ndim else 1
    return x, dim, rearranged(d, size)


def squeezed(d):
    x = d.tensor()
    return d.choice((x,), (x, d.axis(x)), (x, d.axes(x, none=False)))


def stretched(d):
    whole, part = d.broadcastable(2)
    x = d.tensor(part)
    sizes = tuple([-1 if len(whole) == len(part) and d.integer(0, 3) == 3 else n for n in whole])
    return x, sizes


def repeated(d):
    x = d.tensor(d.shape(0, 3))
    count = d.integer(max(x.ndim - d.rarely(), 0), x.ndim + 1)
    return x, tuple([d.choice(1, 2, 3, 0) for _ in range(count)])


def tiled(d):
    x = d.tensor(d.shape(0, 3))
    return x, tuple([d.choice(1, 2, 3, 0) for _ in range(d.integer(0, 4))])


def interleaved(d):
    x = d.tensor()
    if d.flag():
        return x, d.integer(0, 3)
    dim = d.axis(x)
    size = x.shape[dim] if x.ndim and -x.ndim <= dim < x.ndim else 1
    counts = d.tensor((size,), dtype="int64", low=0, high=3, layout="plain")
    repeats = d.choice(d.integer(0, 3), counts)
    return x, repeats, {"dim": dim}


def rolled(d):
    x = d.tensor()
    if d.flag():
        return x, d.integer(-5, 5)
    dims = d.axes(x, none=False, empty=False)
    if isinstance(dims, tuple):
        return x, tuple([d.integer(-5, 5) for _ in dims]), dims
    return x, d.integer(-5, 5), dims


def cut(d):
    x = d.tensor()
    dim = d.axis(x)
    size = x.shape[dim] if x.ndim and -x.ndim <= dim < x.ndim else 1
    return x, dim, size


def narrowed(d):
    x, dim, size = cut(d)
    start = d.integer(-size - d.rarely(), size)
    return x, dim, start, d.integer(0, max(size - start % max(size, 1), 0) + d.rarely())


def selected(d):
    x, dim, size = cut(d)
    return x, dim, d.integer(-size - d.rarely(), max(size - 1, 0))


def parted(d):
    x, dim, size = cut(d)
    if d.flag():
        return x, d.integer(0 if d.rarely() else 1, 4), dim
    first = d.integer(0, size)
    return x, [first, size - first + d.rarely()], dim


def chunked(d):
    x, dim, _ = cut(d)
    return x, d.integer(0 if d.rarely() else 1, 5), dim


def tensor_parted(d):
    x, dim, size = cut(d)
    return x, d.choice(d.integer(1, 4), [d.integer(0, 3), d.integer(0, 5)]), dim


def joined(d):
    """Tensors alike except along one axis; dtypes may differ."""
    shape = list(d.shape(1))
    dim, parts = d.axis(len(shape)), []
    for _ in range(d.integer(1, 3)):
        sizes = list(shape)
        if -len(shape) <= dim < len(shape):
            sizes[dim] = d.integer(0, 3)
        parts.append(sizes)
    if d.rarely():
        parts[-1][0] += 1
    if all(sizes == [0] for sizes in parts):
        dim = 0  # PyTorch takes any dim there
    same = d.choice(d.dtype(), None)
    return [d.tensor(sizes, "fi", dtype=same) for sizes in parts], dim


def stacked(d):
    shape = d.shape(0, 3)
    shapes = [shape for _ in range(d.integer(1, 3))]
    if d.rarely():
        shapes[-1] = (*shape, 2)
    same = d.choice(d.dtype(), None)
    return [d.tensor(s, "fi", dtype=same) for s in shapes], d.axis(len(shape), new=1)


def piled(d):
    shape = d.shape(0, 3)
    return ([d.tensor(shape, dtype="float64") for _ in range(d.integer(1, 3))],)


def diagonal(d):
    x = d.tensor(d.shape(2 - d.rarely()))
    first = d.axis(x)
    second = d.axis(x)
    return x, d.integer(-4, 4), first, second


def embedded(d):
    x = d.tensor(d.shape(1, 3))
    dims = d.choice({}, {"dim1": d.axis(x, new=1), "dim2": d.axis(x, new=1)})
    return x, d.some(offset=d.integer(-2, 2)) | dims


def triangle(d):
    x = d.tensor(d.shape(2 - d.rarely()), "ffib")
    return x, d.choice({}, {"diagonal": d.integer(-4, 4)})


def windows(d):
    x, dim, size = cut(d)
    return x, dim, d.integer(0, size + d.rarely()), d.integer(0 if d.rarely() else 1, 3)


def any_one(d):
    return (d.tensor(kinds="ffib"),)


def flipped(d):
    x = d.tensor()
    dims = d.axes(x, none=False)
    return x, dims if isinstance(dims, tuple) else (dims,)


def turned(d):
    x = d.tensor(d.shape(2))
    return x, d.integer(-5, 5), (d.axis(x), d.axis(x))


test_axes_and_sizes = checks(
    Op("reshape", reshaped),
    Op("Tensor.view", viewed),
    Op("Tensor.view_as", lambda d: (d.tensor(layout="plain"), d.tensor())),
    Op("Tensor.reshape_as", lambda d: (d.tensor(layout="plain"), d.tensor())),
    Op("permute", permuted),
    *[Op(name, two_axes) for name in ("transpose", "swapaxes", "swapdims")],
    *[Op(name, moved) for name in ("movedim", "moveaxis")],
    Op("t", lambda d: (d.tensor(d.shape(0, 3)),)),
    Op("flatten", flattened),
    Op("ravel", any_one),
    Op("unflatten", unflattened),
    Op("squeeze", squeezed),
    Op("unsqueeze", lambda d: (x := d.tensor(), d.axis(x, new=1))),
)
test_repetition = checks(
    Op("Tensor.expand", stretched),
    Op("Tensor.expand_as", lambda d: tuple(d.pair())),
    Op("broadcast_to", stretched),
    Op("broadcast_tensors", lambda d: tuple(d.pair(count=3)), method=False),
    Op("Tensor.repeat", repeated),
    Op("tile", tiled),
    Op("repeat_interleave", interleaved),
    Op("roll", rolled),
    Op("flip", flipped),
    *[Op(name, lambda d: (d.tensor(),)) for name in ("fliplr", "flipud")],
    Op("rot90", turned),
    Op("meshgrid", lambda d: (*[d.tensor(d.shape(0, 1), dtype="float64") for _ in range(3)],
                              {"indexing": d.choice("ij", "xy")}), method=False),
)  # fmt: skip
test_parts = checks(
    Op("narrow", narrowed),
    Op("select", selected),
    Op("split", parted),
    Op("chunk", chunked),
    Op("tensor_split", tensor_parted),
    *[Op(name, lambda d: (d.tensor(), d.choice(1, 2, [1, 2]))) for name in ("hsplit", "vsplit")],
    Op("unbind", lambda d: (x := d.tensor(), d.axis(x))),
    Op("Tensor.unfold", windows),
)
test_joins = checks(
    *[Op(name, joined) for name in ("cat", "concat", "concatenate")],
    Op("stack", stacked),
    *[Op(name, piled) for name in ("hstack", "vstack")],
    *[Op(name, any_one, method=False) for name in ("atleast_1d", "atleast_2d")],
)
test_triangles = checks(
    Op("diagonal", diagonal),
    Op("diag", lambda d: (d.tensor(d.shape(1, 2 + d.rarely())), d.integer(-3, 3))),
    Op("diag_embed", embedded),
    *[Op(name, triangle) for name in ("tril", "triu")],
    *[Op(name, lambda d: (d.integer(0, 5), d.integer(0, 5), d.integer(-3, 3)), method=False)
      for name in ("tril_indices", "triu_indices")],
)  # fmt: skip
test_copies = checks(
    Op("clone", any_one),
    *[Op(f"Tensor.{name}", any_one)
      for name in ("float", "double", "long", "int", "bool", "contiguous")],
    Op("Tensor.to", lambda d: (d.tensor(kinds="ffib"), d.dtype("fib"))),
    Op("Tensor.type_as", lambda d: (d.tensor(kinds="ffib"), d.tensor(kinds="fib"))),
)  # fmt: skip
