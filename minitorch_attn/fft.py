"""Fourier transforms, named as in `torch.fft`; complex results are pairs of real tensors."""

from .absent_names import absent as _absent
from .ops import fourier as _fourier
from .ops.plumbing.keyword_names import with_other_names

__all__ = [
    "Complex", "fft", "fft2", "ifft", "ifft2", "irfft", "irfft2", "rfft", "rfft2",
]  # fmt: skip

Complex = _fourier.Complex
fft = with_other_names(_fourier.fft)
fft2 = with_other_names(_fourier.fft2)
ifft = with_other_names(_fourier.ifft)
ifft2 = with_other_names(_fourier.ifft2)
irfft = with_other_names(_fourier.irfft)
irfft2 = with_other_names(_fourier.irfft2)
rfft = with_other_names(_fourier.rfft)
rfft2 = with_other_names(_fourier.rfft2)

__getattr__ = _absent(__name__)
