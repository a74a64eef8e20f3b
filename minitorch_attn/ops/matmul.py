"""Matrix multiplication (matmul, `@`) and other products: mm, bmm, mv, dot, outer, tensordot."""

from .. import backend
from ..autograd.autocast import autocasts, mixes
from ..autograd.broadcasting import broadcast_shapes, sum_to_shape
from ..autograd.function import Function
from ..errors import DTypeError, ShapeError
from ..named_errors import names_arguments
from ..tensor import Tensor, wrap
from .arithmetic import mul
from .plumbing.axes import axes_of
from .plumbing.tensor_arguments import as_operand
from .reshape import Reshape, permute, reshape

__all__ = ["bmm", "dot", "inner", "matmul", "mm", "mv", "outer", "tensordot", "vdot"]


class MatMul(Function):
    r"""Matrix product over the last two axes; leading axes broadcast.

    Forward:  c = a @ b
    Backward: grad_a = grad_c @ b^T, grad_b = a^T @ grad_c
    Derivation: c_ij = sum_k a_ik b_kj; each gradient is summed over the leading axes that
    broadcasting repeated. If b is a single matrix and a is a batch, one product computes grad_b
    with this sum: the leading axes of a and grad_c are flattened into rows, and a^T @ grad_c sums
    over all rows.
    Saved: both inputs.
    """

    @staticmethod
    def forward(ctx, a, b):
        # (..., n, k) @ (..., k, m) -> (..., n, m)
        ctx.save(a, b)
        return backend.matmul(a, b)

    @staticmethod
    def backward(ctx, grad_c):
        a, b = ctx.saved
        need_a, need_b = ctx.needs_grad
        grad_a = grad_b = None
        if need_a:
            grad_a = MatMul.call(grad_c, b.swapaxes(-1, -2))
            grad_a = sum_to_shape(grad_a, a.shape)
        if need_b and b.ndim == 2 and a.ndim > 2:
            rows_a, rows_g = rows_of(a), rows_of(grad_c)
            grad_b = MatMul.call(rows_a.swapaxes(0, 1), rows_g)  # (k, rows) @ (rows, m)
        elif need_b:
            grad_b = MatMul.call(a.swapaxes(-1, -2), grad_c)
            grad_b = sum_to_shape(grad_b, b.shape)
        return grad_a, grad_b


def rows_of(x):
    """Flatten the leading axes into one: (..., n) -> (rows, n)."""
    if x.ndim == 2:
        return x
    rows = 1
    for n in x.shape[:-1]:
        rows *= n
    return x.reshape((rows, x.shape[-1]))


def same_dtype(a, b, where, names):
    """Return a and b as Tensors; raise DTypeError if their dtypes differ.

    As in PyTorch, products do not promote dtypes. Under autocast, the dtypes of a and b may differ
    if autocast converts both to the same dtype.
    """
    try:
        same = a.array.dtype == b.array.dtype
    except AttributeError:
        if all(isinstance(x, Tensor) or _is_number_array(x) for x in (a, b)):
            pair = [x if isinstance(x, Tensor) else wrap(x) for x in (a, b)]
            return same_dtype(*pair, where, names)
        name, x = (names[1], b) if hasattr(a, "array") else (names[0], a)
        raise DTypeError(
            f"{where}({', '.join(names)}): {name} is not a tensor",
            got=f"{type(x).__name__}",
            hint="create a tensor with mt.tensor(...), or use `*` to multiply by a number",
        ) from None
    if not same and not mixes(a, b):
        raise DTypeError(
            f"{where}({', '.join(names)}): the dtypes do not match",
            got=f"{names[0]} {a.dtype} and {names[1]} {b.dtype}",
            expected="operands of one dtype; products do not convert them",
            hint=_conversion(a, b, names),
        )
    return a, b


def _is_number_array(x):
    return backend.is_array(x) and backend.is_number_dtype(x.dtype)


def _conversion(a, b, names):
    """Return an error's hint, code that converts one operand to the dtype of the other.

    If possible, the operand that is converted is not a model parameter.
    """
    trained = names[1] == "weight" or (b.requires_grad and not a.requires_grad)
    if (b.dtype.kind == "f" != a.dtype.kind) or trained:
        line = f"{names[0]}.float()" if b.dtype == "float32" else f"{names[0]}.to({names[1]}.dtype)"
        whole = trained and b.requires_grad and a.dtype.kind == "f"
        return f"{line}, or module.to({names[0]}.dtype) for the whole module" if whole else line
    return f"{names[1]}.to({names[0]}.dtype)"


def _refuse(where, a, b, names, expected, hint=None):
    raise ShapeError(
        f"{where}({', '.join(names)}): the inner sizes do not match",
        got=f"{names[0]} {a.shape} and {names[1]} {b.shape}",
        expected=expected,
        hint=hint,
    )


def matmul(input, other):
    """Matrix product over the last two axes; leading axes broadcast.

    Parameters
    ----------
    input : Tensor of shape (..., n, k) or (k,)
    other : Tensor of shape (..., k, m) or (k,)
        A vector on the left acts as a matrix with one row, a vector on the right as a matrix with
        one column. The added axis of size 1 is removed from the result.

    Returns
    -------
    Tensor of shape (..., n, m)

    Raises
    ------
    ShapeError
        If the inner sizes do not match, or the leading axes do not broadcast.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> matmul(mt.tensor([[1.0, 2.0], [3.0, 4.0]]), mt.tensor([1.0, -1.0]))
    tensor([-1., -1.])
    """
    a, b = same_dtype(input, other, "matmul", ("a", "b"))
    shape_a, shape_b = a.array.shape, b.array.shape
    if len(shape_a) > 1 and len(shape_b) > 1 and shape_a[-1] == shape_b[-2]:
        lead_a, lead_b = shape_a[:-2], shape_b[:-2]
        if lead_a and lead_b and lead_a != lead_b:
            broadcast_shapes(lead_a, lead_b, where="matmul, leading axes of")
        return MatMul.apply(a, b)
    return _with_vectors(*_fitting(a, b))


def _fitting(a, b):
    """Raise ShapeError if the shapes do not allow a matrix product."""
    if a.ndim == 0 or b.ndim == 0:
        raise ShapeError(
            "matmul(a, b): the operands must have at least one axis",
            got=f"a {a.shape} and b {b.shape}",
            hint="use `*` to multiply by a number",
        )
    inner = b.shape[0] if b.ndim == 1 else b.shape[-2]
    if a.shape[-1] != inner:
        _refuse(
            "matmul", a, b, ("a", "b"),
            "a (..., n, k) and b (..., k, m): last axis of a = second-to-last axis of b",
            _transposed_fits(a, b),
        )  # fmt: skip
    return a, b


def _transposed_fits(a, b):
    if b.ndim > 1 and a.shape[-1] == b.shape[-1]:
        return "use b.swapaxes(-1, -2) if b has one key in each row"
    if a.ndim > 1 and b.ndim > 1 and a.shape[-2] == b.shape[-2]:
        return "use a.swapaxes(-1, -2) if a has one item in each column"
    return None


def _with_vectors(a, b):
    """Multiply operands that may be vectors: a vector acts as a matrix with one row or column."""
    rows = Reshape.apply(a, shape=(1, a.shape[0])) if a.ndim == 1 else a
    columns = Reshape.apply(b, shape=(b.shape[0], 1)) if b.ndim == 1 else b
    c = MatMul.apply(rows, columns)
    lead = c.shape[:-2]
    n = () if a.ndim == 1 else (c.shape[-2],)
    m = () if b.ndim == 1 else (c.shape[-1],)
    return Reshape.apply(c, shape=(*lead, *n, *m))


def _of_ranks(where, a, b, names, rank_a, rank_b):
    """Return a and b as Tensors; raise an error if their dtypes, ranks or sizes do not match."""
    a, b = same_dtype(a, b, where, names)
    if a.ndim != rank_a or b.ndim != rank_b:
        raise ShapeError(
            f"{where}({', '.join(names)}): the number of axes does not match",
            got=f"{names[0]} {a.shape} and {names[1]} {b.shape}",
            expected=f"{rank_a} and {rank_b} axes",
            hint="use matmul(), which accepts any number of axes",
        )
    inner = b.shape[-2] if rank_b > 1 else b.shape[0]
    if a.shape[-1] != inner or (rank_a == 3 and a.shape[0] != b.shape[0]):
        shapes = {1: "(k,)", 2: "(n, k)", 3: "(batch, n, k)"}
        right = {1: "(k,)", 2: "(k, m)", 3: "(batch, k, m)"}
        _refuse(where, a, b, names, f"{shapes[rank_a]} and {right[rank_b]}")
    return a, b


def mm(input, mat2):
    """Matrix product of two matrices, of shapes `(n, k)` and `(k, m)`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mm(mt.tensor([[1, 2]]), mt.tensor([[3], [4]]))
    tensor([[11]])
    """
    return MatMul.apply(*_of_ranks("mm", input, mat2, ("input", "mat2"), 2, 2))


def bmm(input, mat2):
    """Batched matrix product, for shapes `(batch, n, k)` and `(batch, k, m)`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> bmm(mt.zeros(7, 2, 3), mt.zeros(7, 3, 5)).shape
    (7, 2, 5)
    """
    return MatMul.apply(*_of_ranks("bmm", input, mat2, ("input", "mat2"), 3, 3))


@names_arguments
def mv(input, vec):
    """Matrix-vector product, for shapes `(n, k)` and `(k,)`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mv(mt.tensor([[1, 2], [3, 4]]), mt.tensor([1, -1]))
    tensor([-1, -1])
    """
    return _with_vectors(*_of_ranks("mv", input, vec, ("input", "vec"), 2, 1))


@names_arguments
@autocasts
def dot(input, tensor):
    """Dot product of two vectors of the same length.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> dot(mt.tensor([1.0, 2.0]), mt.tensor([3.0, 4.0]))
    tensor(11.)
    """
    return _with_vectors(*_of_ranks("dot", input, tensor, ("input", "tensor"), 1, 1))


@names_arguments
@autocasts
def vdot(input, other):
    """The same as `dot`, because complex numbers are not supported.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> vdot(mt.tensor([1, 2]), mt.tensor([3, 4]))
    tensor(11)
    """
    return dot(input, other)


@names_arguments
@autocasts
def inner(input, other):
    """Inner product over the last axes of both tensors; a 0-d tensor multiplies every element.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> inner(mt.zeros(2, 3), mt.zeros(5, 7, 3)).shape
    (2, 5, 7)
    """
    a, b = same_dtype(input, other, "inner", ("input", "other"))
    if a.ndim == 0 or b.ndim == 0:
        return mul(a, b)
    if a.shape[-1] != b.shape[-1]:
        _refuse("inner", a, b, ("input", "other"), "equal sizes of the last axes")
    c = MatMul.apply(rows_of(a), rows_of(b).swapaxes(0, 1))  # (rows, k) @ (k, rows)
    return Reshape.apply(c, shape=a.shape[:-1] + b.shape[:-1])


@names_arguments
def outer(input, vec2):
    """Outer product of two vectors, of shape `(n, m)` for vectors of lengths n and m.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> outer(mt.tensor([1, 2]), mt.tensor([1, 10]))
    tensor([[ 1, 10],
            [ 2, 20]])
    """
    input, vec2 = as_operand(input, "outer"), as_operand(vec2, "outer", "vec2")
    if input.ndim != 1 or vec2.ndim != 1:
        raise ShapeError(
            "outer(input, vec2): input and vec2 must be vectors",
            got=f"input {input.shape} and vec2 {vec2.shape}",
            hint="x.flatten()",
        )
    return mul(reshape(input, (input.shape[0], 1)), vec2)


@names_arguments
@autocasts
def tensordot(a, b, dims=2):
    """Tensor contraction: products summed over several axes at once.

    Parameters
    ----------
    a, b : Tensor
    dims : int, or two sequences of int
        The axes to sum over: the last `dims` axes of `a` and the first `dims` axes of `b`, or one
        list of axes for each tensor.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> tensordot(mt.zeros(2, 3, 5), mt.zeros(5, 3, 7), dims=((1, 2), (1, 0))).shape
    (2, 7)
    """
    a, b = same_dtype(a, b, "tensordot", ("a", "b"))
    if isinstance(dims, int):
        axes_a, axes_b = tuple(range(a.ndim - dims, a.ndim)), tuple(range(dims))
    else:
        axes_a = axes_of(tuple(dims[0]), a.ndim, "tensordot", "dims[0]")
        axes_b = axes_of(tuple(dims[1]), b.ndim, "tensordot", "dims[1]")
    if [a.shape[i] for i in axes_a] != [b.shape[i] for i in axes_b]:
        _refuse("tensordot", a, b, ("a", "b"), f"equal sizes of axes {axes_a} and {axes_b}")
    rest_a = [i for i in range(a.ndim) if i not in axes_a]
    rest_b = [i for i in range(b.ndim) if i not in axes_b]
    summed = 1
    for i in axes_a:
        summed *= a.shape[i]
    shape_a, shape_b = [a.shape[i] for i in rest_a], [b.shape[i] for i in rest_b]
    left = rows_of(reshape(permute(a, (*rest_a, *axes_a)), (*shape_a, summed)))
    right = rows_of(reshape(permute(b, (*rest_b, *axes_b)), (*shape_b, summed)))
    return reshape(MatMul.apply(left, right.swapaxes(0, 1)), (*shape_a, *shape_b))
