"""Fourier transforms, against the sums that define them and NumPy's; complex arithmetic."""

import numpy as np
import pytest
from op_table import Case, checks

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, DTypeError, ShapeError

NORMS = (None, "backward", "ortho", "forward")


def parts(z):
    pair = isinstance(z, mt.fft.Complex) or (isinstance(z, np.ndarray) and z.dtype.kind == "c")
    return (z.real, z.imag) if pair else z


def as_real(z, like):
    """NumPy's result as real arrays of the dtype of the input."""
    found = parts(z)
    return tuple([a.astype(like.dtype) for a in found]) if isinstance(found, tuple) else found


def case(name, shape, complex_input=False, **options):
    named = dict(options)
    if "dim" in named:
        named["axes" if name.endswith("2") else "axis"] = named.pop("dim")

    def ours(x, *imag):
        return parts(getattr(mt.fft, name)(mt.fft.Complex(x, *imag) if imag else x, **options))

    def numpys(x, *imag):
        return as_real(getattr(np.fft, name)(x + 1j * imag[0] if imag else x, **named), x)

    shapes = (shape, shape) if complex_input else (shape,)
    return Case(f"{name} of {shape}, {options}", ours, numpys, *shapes)


CASES = [
    *[case(name, (3, n), c) for n in (1, 2, 5, 6) for name, c in
      [("fft", False), ("fft", True), ("ifft", False), ("ifft", True), ("rfft", False)]],
    *[case("irfft", (3, n), True) for n in (2, 3, 4)],
    *[case("irfft", (2, 4), True, n=n) for n in (1, 4, 5, 7, 9)],
    case("irfft", (2, 4)),
    *[case(name, (2, 5, 3), c, n=n, dim=1, norm="ortho")
      for name, c in (("fft", True), ("ifft", True), ("rfft", False), ("irfft", True))
      for n in (3, 8)],
    *[case(name, (4, 3), c, dim=-2, norm=norm) for norm in NORMS
      for name, c in (("fft", True), ("ifft", True), ("rfft", False), ("irfft", True))],
    *[case(name, (2, 4, 5), c, norm=norm) for norm in (None, "ortho")
      for name, c in (("fft2", True), ("ifft2", True), ("rfft2", False), ("irfft2", True))],
    *[case(name, (3, 2, 4), c, s=(4, 6), dim=(0, 2))
      for name, c in (("fft2", False), ("ifft2", True), ("rfft2", False), ("irfft2", True))],
    Case("FNet", lambda x: mt.fft.fft(mt.fft.fft(x, dim=-1), dim=-2).real,
         lambda x: np.fft.fft2(x).real.astype(x.dtype), (2, 5, 3)),
    Case("abs", lambda a, b: mt.fft.Complex(a, b).abs(), np.hypot, (2, 3), (2, 3)),
    Case("product", lambda a, b, c, d: parts(mt.fft.Complex(a, b) * mt.fft.Complex(c, d)),
         lambda a, b, c, d: (a * c - b * d, a * d + b * c), *[(2, 3)] * 4),
    Case("quotient", lambda a, b, c, d: parts(mt.fft.Complex(a, b) / mt.fft.Complex(c, d)),
         lambda a, b, c, d: as_real((a + 1j * b) / (c + 1j * d), a), *[(3,)] * 4),
]  # fmt: skip

test_forward, test_gradient, test_second_gradient = checks(CASES)


@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_the_definition(n, make):
    x, z = make(n, requires_grad=False), np.arange(n)
    matrix = np.exp(-2j * np.pi * np.outer(z, z) / n)
    np.testing.assert_allclose(mt.fft.fft(x).numpy(), matrix @ x.numpy(), atol=1e-12)
    np.testing.assert_allclose(mt.fft.ifft(mt.fft.fft(x)).numpy(), x.numpy(), atol=1e-12)


def test_arithmetic_with_tensors_and_numbers(make):
    a, b, x = (make(2, 3, requires_grad=False) for _ in range(3))
    z, w = mt.fft.Complex(a, b), a.numpy() + 1j * b.numpy()
    y = x.numpy()
    for got, want in [
        (z + x, w + y), (z * x, w * y), (z - x, w - y), (z / x, w / y), (z[0], w[0]), (-z, -w),
        (z - 1, w - 1), (1j - z, 1j - w), (0.5 + z, 0.5 + w), (z * (2 - 3j), w * (2 - 3j)),
        (2 * z, 2 * w), (z / 4, w / 4), (z / 2j, w / 2j), (z.conj(), w.conj()),
    ]:  # fmt: skip
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)
        assert got.shape == want.shape and got.ndim == want.ndim
    assert repr(z).startswith("Complex(real=tensor(")


def test_integers_and_dtypes(device):
    whole = mt.fft.fft(mt.tensor([1, 2, 3], device=device))
    assert whole.real.dtype == whole.imag.dtype == np.float32
    assert mt.fft.rfft(mt.ones(3, dtype="float64", device=device)).imag.dtype == np.float64


def test_wrong_calls(make):
    x = make(2, 3)
    z = mt.fft.Complex(x, x)
    for call, error in (
        (lambda: mt.fft.fft(x, norm="unitary"), ArgumentError),
        (lambda: mt.fft.fft(x, n=0), ArgumentError),
        (lambda: mt.fft.fft(make(2, 0)), ArgumentError),
        (lambda: mt.fft.fft(x, dim=2), IndexError),
        (lambda: mt.fft.fft(make()), ShapeError),
        (lambda: mt.fft.fft(make(3, dtype="float16")), DTypeError),
        (lambda: mt.fft.rfft(z), DTypeError),
        (lambda: mt.fft.irfft(make(2, 1)), ArgumentError),
        (lambda: mt.fft.fft2(x, dim=1), ShapeError),
        (lambda: mt.fft.fft2(x, s=(2,)), ShapeError),
        (lambda: mt.fft.fft("x"), DTypeError),
        (lambda: mt.fft.Complex(x, make(3)), ShapeError),
        (lambda: z + "x", DTypeError),
    ):
        with pytest.raises(error):
            call()
