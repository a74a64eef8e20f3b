"""`mt.fft` against `torch.fft`: values and gradients, and a layer that multiplies by a filter."""

import numpy as np
import pytest

import minitorch_attn as mt

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.parity

COMPLEX_INPUT = {"fft", "ifft", "irfft", "fft2", "ifft2", "irfft2"}


def ours(name, real, imag, **options):
    x = mt.fft.Complex(real, imag) if imag is not None else real
    y = getattr(mt.fft, name)(x, **options)
    return (y.real, y.imag) if isinstance(y, mt.fft.Complex) else (y,)


def theirs(name, real, imag, **options):
    y = getattr(torch.fft, name)(torch.complex(real, imag) if imag is not None else real, **options)
    return (y.real, y.imag) if y.is_complex() else (y,)


@pytest.mark.parametrize("draw", range(8))
@pytest.mark.parametrize("name", sorted(COMPLEX_INPUT | {"rfft", "rfft2"}))
def test_transform(name, draw, device):
    rng = np.random.default_rng(draw)
    shape = tuple(int(n) for n in rng.integers(2, 6, 3))
    values = [rng.normal(size=shape) for _ in range(1 + (name in COMPLEX_INPUT and draw % 4 != 3))]
    options = {"norm": [None, "backward", "ortho", "forward"][rng.integers(4)]}
    if name.endswith("2"):
        options["dim"] = [(-2, -1), (0, 2), (1, 0)][rng.integers(3)]
        if draw % 2:
            options["s"] = [int(n) for n in rng.integers(1, 8, 2)]
    else:
        options["dim"] = int(rng.integers(-3, 3))
        if draw % 2:
            options["n"] = int(rng.integers(1, 8))
    leaves = [mt.tensor(v, device=device, requires_grad=True) for v in values]
    torch_leaves = [torch.tensor(v, requires_grad=True) for v in values]
    got = ours(name, *(leaves + [None])[:2], **options)
    want = theirs(name, *(torch_leaves + [None])[:2], **options)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.numpy(force=True), atol=1e-12)
    weights = [rng.normal(size=tuple(b.shape)) for b in want]
    cotangents = [mt.tensor(w, device=device) for w in weights]
    sum((a * w).sum() for a, w in zip(got, cotangents, strict=True)).backward()
    sum((b * torch.tensor(w)).sum() for b, w in zip(want, weights, strict=True)).backward()
    for a, b in zip(leaves, torch_leaves, strict=True):
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), atol=1e-12)


def test_a_global_filter(device):
    """The layer of GFNet: a learned complex filter between `rfft2` and `irfft2`."""
    rng = np.random.default_rng(0)
    x, re, im = (rng.normal(size=size) for size in ((2, 4, 6, 3), (4, 4, 3), (4, 4, 3)))
    values = (x, re, im)
    a = [mt.tensor(v, device=device, requires_grad=True) for v in values]
    b = [torch.tensor(v, requires_grad=True) for v in values]
    z = mt.fft.rfft2(a[0], dim=(1, 2), norm="ortho") * mt.fft.Complex(a[1], a[2])
    got = mt.fft.irfft2(z, s=(4, 6), dim=(1, 2), norm="ortho")
    z = torch.fft.rfft2(b[0], dim=(1, 2), norm="ortho") * torch.complex(b[1], b[2])
    want = torch.fft.irfft2(z, s=(4, 6), dim=(1, 2), norm="ortho")
    np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), atol=1e-12)
    (got * got).sum().backward()
    (want * want).sum().backward()
    for p, q in zip(a, b, strict=True):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), atol=1e-10)
