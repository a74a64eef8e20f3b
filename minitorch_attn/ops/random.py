"""Random numbers: rand, randn, randint, randperm, normal, bernoulli and multinomial.

All numbers are drawn on the host, by a generator that `mt.manual_seed` seeds, and then copied to
the device. The same seed therefore gives the same numbers on every device.
"""

from ..backend import as_device, from_host, host_generator
from ..errors import ArgumentError, DTypeError, ShapeError
from ..named_errors import names_arguments
from ..tensor import Tensor, leaf
from .plumbing.creation_arguments import count_of, dtype_of, shape_of
from .plumbing.operands import number
from .plumbing.range_check import InvalidValue, check_values
from .plumbing.tensor_arguments import as_operand

__all__ = [
    "bernoulli", "multinomial", "normal", "normal_like", "rand", "rand_like", "randint",
    "randint_like", "randn", "randn_like", "randperm", "uniform_like",
]  # fmt: skip


def _place(host, device, requires_grad=False):
    return leaf(from_host(host, as_device(device)), requires_grad)


@names_arguments
def rand(*sizes, size=None, dtype=None, device=None, requires_grad=False, generator=None):
    """Uniform random numbers in [0, 1); arguments as for `zeros`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> rand(2, 3).shape, rand(size=(4,), dtype=mt.float64).dtype
    ((2, 3), dtype('float64'))
    """
    shape = shape_of(sizes if size is None else (size,), "rand")
    host = (generator or host_generator()).random(shape).astype(_float(dtype, "rand"))
    return _place(host, device, requires_grad)


@names_arguments
def randn(*sizes, size=None, dtype=None, device=None, requires_grad=False, generator=None):
    """Standard normal random numbers; arguments as for `zeros`."""
    shape = shape_of(sizes if size is None else (size,), "randn")
    host = (generator or host_generator()).standard_normal(shape).astype(_float(dtype, "randn"))
    return _place(host, device, requires_grad)


def _float(dtype, where):
    dtype = dtype_of(dtype, where)
    if dtype.kind != "f":
        raise DTypeError(
            f"{where}: dtype must be a floating-point dtype",
            got=f"{dtype}",
            hint="randint(low, high, size) for integers",
        )
    return dtype


@names_arguments
def rand_like(input, *, dtype=None, device=None, requires_grad=False, generator=None):
    """Uniform random numbers with the shape, dtype and device of `input`."""
    input = as_operand(input, "rand_like")
    settings = {"dtype": dtype or input.dtype, "device": device or input.device}
    return rand(input.shape, requires_grad=requires_grad, generator=generator, **settings)


@names_arguments
def randn_like(input, *, dtype=None, device=None, requires_grad=False, generator=None):
    """Standard normal random numbers with the shape, dtype and device of `input`."""
    input = as_operand(input, "randn_like")
    settings = {"dtype": dtype or input.dtype, "device": device or input.device}
    return randn(input.shape, requires_grad=requires_grad, generator=generator, **settings)


@names_arguments
def randint(
    low=0, high=None, size=None, *, dtype=None, device=None, requires_grad=False, generator=None
):  # fmt: skip
    """Random integers from `low` up to, but not including, `high`.

    Parameters
    ----------
    low, high : int
        Lower limit (inclusive) and upper limit (exclusive). `randint(high, size)` starts at 0.
    size : tuple of int

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> randint(5, 6, (3,))
    tensor([5, 5, 5])
    """
    if size is None:  # randint(high, size)
        low, high, size = 0, low, high
    elif high is None:  # randint(high, size=size)
        low, high = 0, low
    low, high = number(low, "randint", "low"), number(high, "randint", "high")
    if low >= high:
        raise ArgumentError(
            "randint: low must be less than high",
            got=f"low={low}, high={high}",
            hint="high is exclusive: use high=low + 1 to draw only low",
        )
    shape = shape_of((size,), "randint")
    dtype = dtype_of(dtype or "int64", "randint")
    drawn = (generator or host_generator()).integers(low, high, size=shape).astype(dtype)
    return _place(drawn, device, requires_grad)


@names_arguments
def randint_like(
    input, low, high=None, *, dtype=None, device=None, requires_grad=False, generator=None
):  # fmt: skip
    """Random integers with the shape, dtype and device of `input`; limits as for `randint`."""
    input = as_operand(input, "randint_like")
    low, high = (0, low) if high is None else (low, high)
    settings = {"dtype": dtype or input.dtype, "device": device or input.device}
    settings |= {"requires_grad": requires_grad, "generator": generator}
    return randint(low, high, input.shape, **settings)


@names_arguments
def randperm(n, *, dtype=None, device=None, requires_grad=False, generator=None):
    """The integers from 0 to `n` - 1 in random order."""
    order = (generator or host_generator()).permutation(count_of(n, "randperm", "n"))
    return _place(order.astype(dtype_of(dtype or "int64", "randperm")), device, requires_grad)


@names_arguments
def normal(mean=0.0, std=1.0, size=None, *, dtype=None, device=None, generator=None):
    """Normal random numbers with a mean and standard deviation, each a number or a tensor.

    Parameters
    ----------
    mean, std : number or Tensor
        Mean and standard deviation of each element; tensors broadcast.
    size : tuple of int, optional
        Shape of the result; required if `mean` and `std` are numbers.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> normal(mt.tensor([1.0, 2.0]), 0.0)
    tensor([1., 2.])
    """
    tensors = [x for x in (mean, std) if isinstance(x, Tensor)]
    if size is None and not tensors:
        raise ArgumentError(
            "normal: size is missing",
            got="mean and std are numbers",
            hint="normal(0.0, 1.0, size=(2, 3))",
        )
    if isinstance(std, Tensor):
        check_values(std.array, std.array < 0, _NEGATIVE_STD)
    elif not number(std, "normal", "std") >= 0:
        raise _NEGATIVE_STD(True, std)
    if size is not None:
        shape = shape_of((size,), "normal")
    else:
        shape = tensors[0].shape if len(tensors) == 1 else (mean.detach() + std.detach()).shape
    like = tensors[0] if tensors else None
    dtype = _float(dtype or (like.dtype if like is not None else None), "normal")
    device = device or (like.device if like is not None else None)
    z = randn(shape, dtype=dtype, device=device, generator=generator)
    mean, std = (x.detach() if isinstance(x, Tensor) else x for x in (mean, std))
    return z * std + mean


@names_arguments
def uniform_like(input, low=0.0, high=1.0, *, generator=None):
    """Random numbers, uniform in [low, high), with the shape, dtype and device of `input`."""
    input = as_operand(input, "uniform_like")
    low, high = number(low, "uniform_like", "low"), number(high, "uniform_like", "high")
    if not low <= high:
        raise ArgumentError(
            "uniform_like: low must not be greater than high", got=f"low={low}, high={high}"
        )
    drawn = (generator or host_generator()).uniform(low, high, input.shape)
    return _place(drawn.astype(_float(input.dtype, "uniform_like")), input.device)


@names_arguments
def normal_like(input, mean=0.0, std=1.0, *, generator=None):
    """Normal random numbers with the shape, dtype and device of `input`."""
    input = as_operand(input, "normal_like")
    settings = {"dtype": input.dtype, "device": input.device, "generator": generator}
    return normal(mean, std, input.shape, **settings)


_NEGATIVE_STD = InvalidValue(
    ArgumentError, "normal: std must not be negative", "use std.abs(), or std.exp() for logarithms"
)


@names_arguments
def bernoulli(input, p=None, *, generator=None):
    """Random zeros and ones; each element of `input` is the probability of a 1 at its position.

    Parameters
    ----------
    input : Tensor
        Probabilities in [0, 1], of a floating-point dtype.
    p : float, optional
        One probability for all elements, instead of the values of `input`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> bernoulli(mt.tensor([0.0, 1.0]))
    tensor([0., 1.])
    """
    input = as_operand(input, "bernoulli")
    chance = input.numpy() if p is None else number(p, "bernoulli", "p")
    within = (0 <= chance) & (chance <= 1)
    if not (within if p is not None else within.all()):
        raise ArgumentError(
            f"bernoulli: {'input' if p is None else 'p'} must lie in [0, 1]",
            got=f"{p}" if p is not None else f"values from {chance.min()} to {chance.max()}",
            hint="mt.sigmoid(input) for logits",
        )
    drawn = (generator or host_generator()).random(input.shape) < chance
    return _place(drawn.astype(input.dtype), input.device)


@names_arguments
def multinomial(input, num_samples, replacement=False, *, generator=None):
    """Indices drawn with the probabilities or weights in each row of `input`.

    Parameters
    ----------
    input : Tensor of shape (category,) or (row, category)
        Non-negative weights; a row need not sum to 1.
    num_samples : int
        Number of indices to draw from each row.
    replacement : bool, default False
        Whether an index can be drawn more than once from a row.

    Returns
    -------
    Tensor of int64, shape (num_samples,) or (row, num_samples)

    Notes
    -----
    Sampling without replacement adds Gumbel noise g to each `log(weight)` and returns the indices
    of the largest sums. See Kool, van Hoof and Welling 2019, arXiv:1903.06059v2, section 2.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> multinomial(mt.tensor([[0.0, 3.0], [1.0, 0.0]]), 1)
    tensor([[1],
            [0]])
    """
    input = as_operand(input, "multinomial")
    count = count_of(num_samples, "multinomial", "num_samples")
    weights = input.numpy().astype("float64")
    _check_weights(input, weights, count, replacement)
    rows = weights.reshape(-1, weights.shape[-1])
    draw = _with_replacement if replacement else _without_replacement
    found = draw(rows, count, generator or host_generator())
    return _place(found.reshape(*weights.shape[:-1], count), input.device)


def _with_replacement(rows, count, generator):
    """Sample indices: locate uniform random numbers among the cumulative sums of each row."""
    limits = rows.cumsum(axis=1)
    points = generator.random((len(rows), count)) * limits[:, -1:]
    return (points[:, :, None] >= limits[:, None, :]).sum(axis=2)  # (row, draw)


def _without_replacement(rows, count, generator):
    """Draw a random waiting time for each index, and return the `count` indices that come first.

    The times are exponentially distributed, with the weights as rates. Then -log(time) is
    log(weight) plus Gumbel noise, so the shortest times belong to the largest of these sums.
    """
    waits = generator.standard_exponential(rows.shape)
    positive = rows > 0
    waits[~positive] = float("inf")
    waits[positive] /= rows[positive]
    return waits.argsort(axis=1, kind="stable")[:, :count]


def _check_weights(input, weights, count, replacement):
    if input.ndim not in (1, 2) or not weights.shape[-1]:
        raise ShapeError(
            "multinomial: input must have one or two axes, and at least one category",
            got=f"input {input.shape}",
            hint="input.reshape(-1, input.shape[-1])",
        )
    if input.dtype.kind != "f":
        raise DTypeError(
            "multinomial: input must be a floating-point tensor",
            got=f"{input.dtype}",
            hint="input.float()",
        )
    if not ((weights >= 0) & (weights < float("inf"))).all() or (weights.sum(axis=-1) == 0).any():
        raise ArgumentError(
            "multinomial: the weights of each row must be finite, not negative, and not all 0",
            got=f"values from {weights.min()} to {weights.max()}",
            hint="mt.softmax(input, -1) for logits",
        )
    fewest = int((weights > 0).sum(axis=-1).min(initial=count))
    if not replacement and count > fewest:
        raise ArgumentError(
            "multinomial: num_samples exceeds the number of categories that can be drawn",
            got=f"num_samples={count}, and {fewest} weights above 0 in a row",
            hint="replacement=True can draw an index more than once",
        )
