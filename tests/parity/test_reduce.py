"""Operations with a `dim`: reductions, variances, norms, extrema, sorting, scans, softmax."""

from parity.comparing import Op, checks


def reduced(kinds="fffib", *, none=True, empty=True, low=-2.0, high=2.0, many=True):
    """An operand and the axes to reduce, by position or by name."""

    def draw(d):
        x = d.tensor(kinds=kinds, low=low, high=high)
        dim = d.axes(x, none, empty) if many else d.choice(None, d.axis(x)) if none else d.axis(x)
        if dim is None:
            return d.choice((x,), (x, {"dim": None, "keepdim": d.flag()}) if many else (x,))
        if d.flag():
            return x, dim, d.flag()
        return x, {"dim": dim, **d.some(keepdim=d.flag())}

    return draw


def with_dtype(name):
    def draw(d):
        x = d.tensor(kinds="fib")
        options = {"dtype": d.dtype("fi" if name != "mean" else "f")}
        if x.needs_grad:  # with an integer dtype ours gives a constant, PyTorch refuses
            options["dtype"] = d.dtype("f")
        if name == "cumsum" or name == "cumprod":
            return x, d.axis(x), options
        return x, d.axis(x), d.flag(), options

    return Op(name, draw, label=" into a dtype")


def spread(d):
    x = d.tensor()
    if d.rarely():
        return x, d.flag()
    # With dim=() PyTorch's value is over all axes, its gradient over none.
    dim = d.axes(x, empty=False)
    options = d.some(keepdim=d.flag())
    # A correction above 1 for a 0-d tensor: PyTorch's gradient is not that of one element.
    corrections = (0, 1, 0.5, None, *([2] if x.ndim else []))
    options |= d.choice({}, {"unbiased": d.flag()}, {"correction": d.choice(*corrections)})
    if dim is None and "unbiased" in options:
        options.pop("keepdim", None)
        return x, options["unbiased"]
    return x, {"dim": dim, **options}


def along(kinds="f", **given):
    def draw(d):
        x = d.tensor(kinds=kinds, **given)
        return x, d.axis(x)

    return draw


def softened(d):
    x = d.tensor(low=d.choice(-2, -800.0), high=d.choice(2.0, 800.0))
    return x, d.axis(x), d.some(dtype=d.dtype("f"))


ORDERS = (2, 1, 0, 3, -1, 2.5, 0.5, float("inf"), float("-inf"))


def vector_norm(d):
    x = d.tensor()
    axes = d.axes(x, empty=False)
    return x, d.some(ord=d.choice(*ORDERS)) | {"dim": axes} | d.some(keepdim=d.flag())


def norm(d):
    x = d.tensor()
    dim = d.axes(x, empty=False)
    p = d.choice(*ORDERS[:7], "fro", float("inf"))
    if d.flag():
        return x, p
    return x, p, dim, d.flag()


def matrix_norm(d):
    """Of matrices whose largest and smallest singular values are single ones."""
    x = d.tensor((*d.filled(0, 1), *d.choice((2, 3), (3, 2), (3, 1), (4, 4))), ties=False)
    axes = d.choice((-2, -1), (-1, -2), (0, 1), (1, 1), 0)
    order = d.choice("fro", "nuc", 1, -1, 2, -2, float("inf"), float("-inf"), 3)
    return x, order, axes, d.some(keepdim=d.flag())


def any_norm(d):
    x = d.tensor(d.filled(), ties=False)
    axes = d.choice(None, d.axis(x), (-2, -1))
    return x, d.some(ord=d.choice(2, 1, 3, float("inf"), "nuc")) | {"dim": axes}


def normalized(d):
    """In float64: short rows cancel most digits of the second derivative."""
    x = d.tensor(dtype="float64")
    return x, d.some(p=d.choice(2.0, 1.0, 3.0, float("inf")), dim=d.axis(x), eps=0.5)


def ordered(d, distinct=False):
    x = d.tensor(kinds="ffi" if not distinct else "f", ties=not distinct)
    return x, d.some(dim=d.axis(x), descending=d.flag(), stable=True)


def largest(d):
    """Distinct elements, because the order of equal ones is nobody's promise."""
    x = d.tensor(ties=False, strided=True)
    dim = d.axis(x)
    size = x.shape[dim] if x.ndim and -x.ndim <= dim < x.ndim else 1
    return x, d.integer(0, size + d.rarely()), dim, d.some(largest=d.flag(), sorted=True)


def middle(d):
    x = d.tensor(d.filled(), ties=False)
    return d.choice((x,), (x, d.axis(x)), (x, d.axis(x), d.flag()))


def extreme(d):
    """By dim with indices, over all, or between two tensors."""
    x = d.tensor(kinds="ffi")
    if d.integer(0, 3) == 3:
        return tuple(d.pair("fi"))
    return d.choice((x,), (x, d.axis(x)), (x, d.axis(x), d.flag()))


def searched(d):
    """Sorted boundaries, and values among them."""
    boundaries = d.tensor((d.integer(0, 6),), layout="plain", dtype="float64", grad=False)
    boundaries.host.sort()
    values = d.tensor(dtype="float64", grad=False)
    return boundaries, values, d.some(right=d.flag(), out_int32=d.flag())


def bucketized(d):
    boundaries, values, options = searched(d)
    return values, boundaries, options


test_sums = checks(
    Op("sum", reduced()),
    Op("mean", reduced("f")),
    Op("prod", reduced(many=False, none=False)),
    Op("prod", lambda d: (d.tensor(kinds="fffi"),), label=" of all"),
    Op("all", reduced("fib", low=-1, high=1)),
    Op("any", reduced("fib", low=-1, high=1)),
    *[with_dtype(name) for name in ("sum", "mean", "prod", "cumsum", "cumprod")],
    *[Op(name, along("fffib")) for name in ("cumsum", "cumprod")],
    # With dim=() PyTorch's logsumexp contradicts itself about the shape.
    Op("logsumexp", reduced("f", none=False, empty=False)),
    Op("trace", lambda d: (d.tensor(d.shape(2 - d.rarely(), 2), "fi"),)),
)
test_spread = checks(
    *[Op(name, spread) for name in ("var", "std", "var_mean", "std_mean")],
    Op("linalg.vector_norm", vector_norm),
    Op("norm", norm),
    Op("linalg.matrix_norm", matrix_norm),
    Op("linalg.norm", any_norm),
    Op("nn.functional.normalize", normalized),
)
test_extremes = checks(
    *[Op(name, reduced("fib", none=False)) for name in ("amax", "amin")],
    *[Op(name, lambda d: (d.tensor(kinds="fib"),), label=" of all") for name in ("amax", "amin")],
    *[Op(name, extreme) for name in ("max", "min")],
    *[Op(name, reduced("fi", many=False)) for name in ("argmax", "argmin")],
)
test_order = checks(
    Op("sort", ordered),
    Op("argsort", ordered),
    Op("topk", largest),
    Op("median", middle),
    Op("searchsorted", searched),
    Op("bucketize", bucketized),
)
test_softmax = checks(
    *[Op(name, softened) for name in ("softmax", "log_softmax")],
    *[Op(f"nn.functional.{name}", softened) for name in ("softmax", "log_softmax", "softmin")],
)
