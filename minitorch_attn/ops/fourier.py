"""The discrete Fourier transform, and complex tensors as pairs of a real and an imaginary part.

Tensors are real. A transform therefore takes and returns a `Complex`: two tensors of the same shape
that have gradients like any other tensors. `fft.py` exports these functions as `mt.fft`.
"""

import math

from ..autograd.function import Function
from ..backend import array_module
from ..errors import ArgumentError, DTypeError, ShapeError
from ..named_errors import names_arguments
from ..tensor import Tensor
from .cat_split import stack
from .creation import tensor_like
from .flip_roll_repeat import narrow
from .pad import pad
from .plumbing.axes import axes_of, axis_of, sizes_of
from .plumbing.operands import floating
from .plumbing.tensor_arguments import as_operand
from .reshape import movedim
from .vector_norm import vector_norm

__all__ = []  # not exported to `mt`, where names such as `fft` would be too general


class Fourier(Function):
    """Fourier sum along an axis of length n; x and y are pairs of real arrays (real, imaginary).

    Forward:  y_k = scale * sum_j x_j exp(sign * 2 pi i j k / n)
    Backward: the same sum of grad_real + i grad_imag, with -sign in place of sign
    Derivation: y = F x with a symmetric matrix F. Write the gradients with respect to the real and
    imaginary parts as one complex number. For a real loss, the gradient of x is the conjugate
    transpose of F times the gradient of y. F is symmetric, so only the conjugation remains, which
    changes the sign of the exponent.
    Saved: nothing.
    """

    @staticmethod
    def forward(ctx, real, imag, *, axis, sign, scale):
        ctx.axis, ctx.sign, ctx.scale = axis, sign, scale
        xp = array_module(real)
        x = real if imag is None else real + 1j * imag
        if sign < 0:
            y = xp.fft.fft(x, axis=axis)
        else:
            y = xp.fft.ifft(x, axis=axis, norm="forward")  # without the factor 1 / n
        return (y.real * scale).astype(real.dtype), (y.imag * scale).astype(real.dtype)

    @staticmethod
    def backward(ctx, grad_real, grad_imag):
        settings = {"axis": ctx.axis, "sign": -ctx.sign, "scale": ctx.scale}
        real, imag = Fourier.call(grad_real, grad_imag, **settings)
        return real, imag if ctx.needs_grad[1] else None


class Complex:
    """A complex tensor: two real tensors of the same shape.

    It supports +, -, * and / with complex tensors, real tensors and numbers. A real tensor must be
    the right operand, as in `z * x`.

    Parameters
    ----------
    real, imag : Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> z = mt.fft.Complex(mt.tensor([3.0]), mt.tensor([4.0]))
    >>> z.abs(), (z * z).real, (z * 1j).imag
    (tensor([5.]), tensor([-7.]), tensor([3.]))
    """

    __array_ufunc__ = None  # NumPy then leaves `array * z` to `__rmul__`

    def __init__(self, real, imag):
        self.real, self.imag = (
            as_operand(real, "Complex", "real"),
            as_operand(imag, "Complex", "imag"),
        )
        if self.real.shape != self.imag.shape:
            raise ShapeError(
                "Complex: real and imag must have the same shape",
                got=f"real {self.real.shape} and imag {self.imag.shape}",
                hint="imag=mt.zeros_like(real) for a real number",
            )

    @property
    def shape(self):
        """Sizes of the axes, as a tuple."""
        return self.real.shape

    @property
    def ndim(self):
        """Number of axes."""
        return self.real.ndim

    def abs(self):
        """Absolute value, sqrt(real^2 + imag^2); its gradient at 0 is 0."""
        return vector_norm(stack([self.real, self.imag]), dim=0)

    def conj(self):
        """Conjugate: the same real part, and the negated imaginary part."""
        return Complex(self.real, -self.imag)

    def numpy(self):
        """The values as a complex NumPy array."""
        return self.real.numpy() + 1j * self.imag.numpy()

    def __neg__(self):
        return Complex(-self.real, -self.imag)

    def __add__(self, other):
        other = _as_complex(other, self)
        return Complex(self.real + other.real, self.imag + other.imag)

    def __sub__(self, other):
        return self + (-_as_complex(other, self))

    def __mul__(self, other):
        if isinstance(other, (int, float, Tensor)):
            return Complex(self.real * other, self.imag * other)
        other = _as_complex(other, self)
        real = self.real * other.real - self.imag * other.imag
        return Complex(real, self.real * other.imag + self.imag * other.real)

    def __truediv__(self, other):
        if isinstance(other, (int, float, Tensor)):
            return Complex(self.real / other, self.imag / other)
        other = _as_complex(other, self)
        return self * other.conj() / (other.real * other.real + other.imag * other.imag)

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other):
        return -self + other

    def __getitem__(self, index):
        return Complex(self.real[index], self.imag[index])

    def __repr__(self):
        return f"Complex(real={self.real!r}, imag={self.imag!r})"


def _as_complex(value, like):
    """Return a Complex, Tensor or number as a Complex that broadcasts with `like`."""
    if isinstance(value, Complex):
        return value
    if isinstance(value, Tensor):
        return Complex(value, value * 0)
    if isinstance(value, (int, float, complex)):
        return Complex(tensor_like(value.real, like.real), tensor_like(value.imag, like.real))
    raise DTypeError(
        "Complex: the operand is neither a Complex, a tensor nor a number",
        got=type(value).__name__,
        hint="mt.fft.Complex(real, imag)",
    )


@names_arguments
def fft(input, n=None, dim=-1, norm=None):
    """Discrete Fourier transform along one axis: y_k = sum_j x_j exp(-2 pi i j k / n).

    Parameters
    ----------
    input : Tensor or Complex
    n : int, optional
        Length to which the axis is first truncated or padded with zeros.
    dim : int
        Axis to transform.
    norm : {"backward", "ortho", "forward"}, optional
        Scaling: "backward", the default, divides the inverse transform by n; "forward" divides this
        transform by n; "ortho" divides both by sqrt(n).

    Returns
    -------
    Complex

    Notes
    -----
    FNet (arXiv:2105.03824v4, eq. 3) replaces attention by `fft(fft(x, dim=-1), dim=-2).real`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.fft.fft(mt.tensor([1.0, 2.0, 3.0, 4.0])).real
    tensor([10., -2., -2., -2.])
    """
    return _transform("fft", input, n, dim, norm, -1)


@names_arguments
def ifft(input, n=None, dim=-1, norm=None):
    """Inverse of `fft`; the arguments are the same.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.fft.ifft(mt.fft.fft(mt.tensor([1.0, 2.0]))).real
    tensor([1., 2.])
    """
    return _transform("ifft", input, n, dim, norm, 1)


@names_arguments
def rfft(input, n=None, dim=-1, norm=None):
    """The first n // 2 + 1 elements of the transform of a real tensor, which determine the others.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.fft.rfft(mt.tensor([1.0, 2.0, 3.0, 4.0])).real
    tensor([10., -2., -2.])
    """
    if isinstance(input, Complex):
        raise DTypeError("rfft: input must be real", got="Complex", hint="fft(input)")
    whole = _transform("rfft", input, n, dim, norm, -1)
    half = whole.shape[dim] // 2 + 1
    return Complex(narrow(whole.real, dim, 0, half), narrow(whole.imag, dim, 0, half))


@names_arguments
def irfft(input, n=None, dim=-1, norm=None):
    """Inverse of `rfft`: a real tensor of length `n`, by default 2 * (size of the axis - 1).

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.fft.irfft(mt.fft.rfft(mt.tensor([1.0, 2.0, 3.0, 4.0])))
    tensor([1., 2., 3., 4.])
    """
    real, imag = _parts("irfft", input)
    axis = _axis("irfft", real, dim)
    n = _length("irfft", 2 * (real.shape[axis] - 1) if n is None else n)
    half = n // 2 + 1
    xp = array_module(real.array)
    weights = xp.full(half, 2.0)  # an element counts twice: its conjugate is not stored
    weights[0] = 1.0
    if n % 2 == 0:
        weights[-1] = 1.0  # the first and, for an even n, the last element are their own conjugates
    shape = tuple([half if i == axis else 1 for i in range(real.ndim)])
    weights = tensor_like(weights.reshape(shape), real)
    parts = [None if x is None else _resized(x, axis, half) * weights for x in (real, imag)]
    return _transform("irfft", _pair(*parts), n, axis, norm, 1).real


@names_arguments
def fft2(input, s=None, dim=(-2, -1), norm=None):
    """`fft` along two axes; `s` gives their lengths.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.fft.fft2(mt.ones(2, 2)).real
    tensor([[4., 0.],
            [0., 0.]])
    """
    return _along_axes("fft2", fft, fft, input, s, dim, norm)


@names_arguments
def ifft2(input, s=None, dim=(-2, -1), norm=None):
    """`ifft` along two axes; `s` gives their lengths."""
    return _along_axes("ifft2", ifft, ifft, input, s, dim, norm)


@names_arguments
def rfft2(input, s=None, dim=(-2, -1), norm=None):
    """`rfft` along the last of two axes, then `fft` along the first; `s` gives their lengths."""
    return _along_axes("rfft2", rfft, fft, input, s, dim, norm)


@names_arguments
def irfft2(input, s=None, dim=(-2, -1), norm=None):
    """Inverse of `rfft2`: `ifft` along the first of two axes, then `irfft` along the last."""
    lengths, dims = _lengths_and_axes("irfft2", input, s, dim)
    return irfft(ifft(input, lengths[0], dims[0], norm), lengths[1], dims[1], norm)


def _along_axes(where, last, first, input, s, dim, norm):
    lengths, dims = _lengths_and_axes(where, input, s, dim)
    return first(last(input, lengths[1], dims[1], norm), lengths[0], dims[0], norm)


def _lengths_and_axes(where, input, s, dim):
    real, _ = _parts(where, input)
    dims = axes_of(tuple(dim) if isinstance(dim, (tuple, list)) else (dim,), real.ndim, where)
    lengths = (None, None) if s is None else sizes_of(s, where, "s")
    if len(dims) != 2 or len(lengths) != 2:
        raise ShapeError(f"{where}: dim and s must have two numbers each", got=f"dim={dim}, s={s}")
    return lengths, dims


_NORMS = {None: (0, 1), "backward": (0, 1), "ortho": (0.5, 0.5), "forward": (1, 0)}


def _transform(where, input, n, dim, norm, sign):
    """Apply `Fourier` along one axis, cut or padded to n elements."""
    real, imag = _parts(where, input)
    axis = _axis(where, real, dim)
    if norm not in _NORMS:
        raise ArgumentError(
            f"{where}: norm is unknown",
            got=f"{norm!r}",
            expected="'backward', 'ortho' or 'forward'",
        )
    n = _length(where, real.shape[axis] if n is None else n)
    real, imag = (None if x is None else _resized(x, axis, n) for x in (real, imag))
    scale = math.pow(n, -_NORMS[norm][sign > 0])
    return Complex(*Fourier.apply(real, imag, axis=axis, sign=sign, scale=scale))


def _parts(where, input):
    """Return the real part of a Complex or a Tensor, and the imaginary part or None."""
    if isinstance(input, Complex):
        real, imag = input.real, input.imag
    else:
        real, imag = floating(as_operand(input, where), where), None
    if real.dtype.itemsize < 4:
        raise DTypeError(
            f"{where}: half precision is not supported", got=f"{real.dtype}", hint="input.float()"
        )
    return real, imag


def _pair(real, imag):
    return real if imag is None else Complex(real, imag)


def _axis(where, real, dim):
    if not real.ndim:
        raise ShapeError(f"{where}: input must have at least 1 axis", got="shape ()")
    return axis_of(dim, real.ndim, where)


def _length(where, n):
    (n,) = sizes_of((n,), where, "n")
    if n < 1:
        raise ArgumentError(
            f"{where}: the length of the transform must be at least 1",
            got=f"{n}",
            hint="pass a positive n, to which the axis is padded with zeros",
        )
    return n


def _resized(x, axis, n):
    """Cut an axis to its first n elements, or append zeros."""
    size = x.shape[axis]
    if size >= n:
        return x if size == n else narrow(x, axis, 0, n)
    return movedim(pad(movedim(x, axis, -1), (0, n - size)), -1, axis)
