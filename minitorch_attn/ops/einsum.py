"""Einsum (Einstein summation): products of tensors, written with one letter per axis."""

from ..autograd.autocast import autocasts
from ..errors import ArgumentError, ShapeError
from ..named_errors import names_arguments
from ..tensor import Tensor
from .arithmetic import mul
from .matmul import matmul
from .plumbing.tensor_arguments import not_tensors
from .reshape import Permute, Reshape
from .sum_mean import sum as sum_over
from .triangle import diagonal

__all__ = ["einsum"]

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


@names_arguments
@autocasts
def einsum(equation, *operands):
    """Einstein summation: multiply tensors, and sum over the axes that the result does not name.

    Parameters
    ----------
    equation : str
        An equation such as "bqd,bkd->bqk". Without "->" the result has the letters that appear
        once, in alphabetical order (capitals first). "..." stands for all other axes, which
        broadcast. A letter that appears twice in one operand selects the diagonal of its two axes.
    *operands : Tensor, or one sequence of Tensor
        One tensor for each term. Without an equation, each tensor is followed by the list of its
        axis numbers. A list at the end then gives the axes of the result.

    Returns
    -------
    Tensor

    Notes
    -----
    Operands are multiplied in pairs from left to right, by `matmul` where axes are summed. Autograd
    differentiates these products, to any order.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> a, b = mt.tensor([[1.0, 2.0], [3.0, 4.0]]), mt.tensor([1.0, 10.0])
    >>> einsum("ij,j->i", a, b), einsum("ii", a), einsum("...j->...", a)
    (tensor([21., 43.]), tensor(5.), tensor([3., 7.]))
    """
    if isinstance(equation, Tensor):
        equation, operands = _from_lists((equation, *operands))
    if len(operands) == 1 and isinstance(operands[0], (tuple, list)):
        operands = tuple(operands[0])
    terms, result = _parse(equation, operands)
    pairs = zip(operands, terms, strict=True)
    factors = [_without_repeats(x, labels, equation) for x, labels in pairs]
    factors = _without_stretched(factors, equation)
    product, labels = factors[0]
    for i in range(1, len(factors)):
        needed = set(result).union(*[later for _, later in factors[i + 1 :]])
        product, labels = _multiply(product, labels, *factors[i], needed)
    product, labels = _sum_out(product, labels, result)
    return Permute.apply(product, dims=tuple([labels.index(label) for label in result]))


def _from_lists(arguments):
    """Convert (tensor, list of axis numbers, tensor, list, ...) to an equation and the operands.

    A list at the end, without a tensor, contains the axes of the output.
    """

    def written(axes):
        return "".join(["..." if n is Ellipsis else _LETTERS[n] for n in axes])

    operands = arguments[0 : len(arguments) // 2 * 2 : 2]
    equation = ",".join([written(axes) for axes in arguments[1::2]])
    if len(arguments) % 2:
        equation += "->" + written(arguments[-1])
    return equation, operands


def _parse(equation, operands):
    """Return labels for the axes of each operand and of the result.

    The label of a named axis is its letter. The axes that an ellipsis stands for get the labels
    "...1", "...2" and so on, counted from the last of these axes.
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise ArgumentError(
            f"einsum({equation!r}): the numbers of terms and operands do not match",
            got=f"{len(terms)} terms and {len(operands)} operands",
            hint="separate the terms with commas: 'ij,jk->ik' for two operands",
        )
    try:
        labelled = [_labels(t, x.ndim, equation) for t, x in zip(terms, operands, strict=True)]
    except AttributeError as error:
        named = {f"operands[{i}]": x for i, x in enumerate(operands)}
        raise not_tensors(error, f"einsum({equation!r})", **named) from None
    dots = max([_dots(labels) for labels in labelled], key=len)
    if arrow:
        before, has_dots, after = right.partition("...")
        result = [*before, *(dots if has_dots else ()), *after]
    else:
        letters = [label for labels in labelled for label in labels if len(label) == 1]
        result = dots + sorted({c for c in letters if letters.count(c) == 1})
    known = {label for labels in labelled for label in labels}
    for label in result:
        if label not in known or result.count(label) > 1:
            raise ArgumentError(
                f"einsum({equation!r}): an axis of the result is repeated or is not in any operand",
                got=f"{label!r}",
                hint="name each axis of the result once, with a letter from an operand",
            )
    return labelled, result


def _dots(labels):
    return [label for label in labels if len(label) > 1]


def _labels(term, ndim, equation):
    """Return one label per axis of an operand."""
    before, has_dots, after = term.partition("...")
    letters = before + after
    count = ndim - len(letters)
    if count < 0 or (count and not has_dots) or not all(c in _LETTERS for c in letters):
        raise ArgumentError(
            f"einsum({equation!r}): a term does not match its operand",
            got=f"{term!r} for {ndim} axes",
            expected="one letter per axis, or '...' for the rest",
            hint="use '...' for the axes that a term does not name",
        )
    return [*before, *[f"...{i}" for i in range(count, 0, -1)], *after]


def _without_repeats(x, labels, equation):
    """Take the diagonal over axes that share a letter."""
    labels = list(labels)
    for label in sorted(set(labels)):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            if x.shape[first] != x.shape[second]:
                raise ShapeError(
                    f"einsum({equation!r}): axes with the same letter must have the same size",
                    got=f"{label!r} is {x.shape[first]} and {x.shape[second]} in {x.shape}",
                    hint="use different letters, unless you want the diagonal of these axes",
                )
            x = diagonal(x, 0, first, second)
            del labels[second], labels[first]
            labels.append(label)
    return x, labels


def _without_stretched(factors, equation):
    """Remove axes of size 1 that broadcast to a larger size in another operand."""
    sizes = {}
    for x, labels in factors:
        for label, n in zip(labels, x.shape, strict=True):
            if sizes.get(label, 1) != 1 and n not in (1, sizes[label]):
                raise ShapeError(
                    f"einsum({equation!r}): the sizes of an axis do not match",
                    got=f"{label!r} is {sizes[label]} and {n}",
                    expected="equal sizes, or 1",
                    hint="use a different letter for one of the two axes, or transpose an operand",
                )
            sizes[label] = n if sizes.get(label, 1) == 1 else sizes[label]
    kept = []
    for x, labels in factors:
        same = [i for i, label in enumerate(labels) if x.shape[i] == sizes[label]]
        if len(same) < len(labels):
            x = Reshape.apply(x, shape=tuple([x.shape[i] for i in same]))
        kept.append((x, [labels[i] for i in same]))
    return kept


def _sum_out(x, labels, needed):
    """Sum x over the axes that neither the result nor a later operand needs."""
    gone = tuple([i for i, label in enumerate(labels) if label not in needed])
    if gone:
        x = sum_over(x, gone)
    return x, [label for label in labels if label in needed]


def _multiply(a, labels_a, b, labels_b, needed):
    """Return the product of two factors, summed over shared axes that are not needed later."""
    a, labels_a = _sum_out(a, labels_a, needed.union(labels_b))
    b, labels_b = _sum_out(b, labels_b, needed.union(labels_a))
    shared = [label for label in labels_a if label in labels_b]
    batch = [label for label in shared if label in needed]
    summed = [label for label in shared if label not in needed]
    rows = [label for label in labels_a if label not in shared]
    columns = [label for label in labels_b if label not in shared]
    size = dict(zip(labels_a + labels_b, a.shape + b.shape, strict=True))
    shape = [tuple([size[label] for label in group]) for group in (batch, rows, summed, columns)]
    a = Permute.apply(a, dims=tuple([labels_a.index(c) for c in batch + rows + summed]))
    b = Permute.apply(b, dims=tuple([labels_b.index(c) for c in batch + summed + columns]))
    labels = batch + rows + columns
    if not summed:
        a = Reshape.apply(a, shape=(*shape[0], *shape[1], *[1] * len(columns)))
        b = Reshape.apply(b, shape=(*shape[0], *[1] * len(rows), *shape[3]))
        return mul(a, b), labels
    n, k, m = (_count(group) for group in shape[1:])
    a = Reshape.apply(a, shape=(*shape[0], n, k))  # (batch, rows, summed)
    b = Reshape.apply(b, shape=(*shape[0], k, m))  # (batch, summed, columns)
    return Reshape.apply(matmul(a, b), shape=(*shape[0], *shape[1], *shape[3])), labels


def _count(sizes):
    count = 1
    for n in sizes:
        count *= n
    return count
