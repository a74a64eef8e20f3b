"""Audio features: frames, windows, the STFT, mel filters and the log-mel spectrogram.

Functions that take a waveform accept NumPy and CuPy arrays, and return arrays on the same device.
Leading axes, such as a batch or channel axis, are kept. `wav.py` reads and writes files.
"""

import math

import numpy as np

from ..backend import array_module, device_of, from_host, is_array, like
from ..errors import ArgumentError, DTypeError, ShapeError
from ..named_errors import names_arguments
from .spec_augment import spec_augment
from .wav import read_wav, write_wav

__all__ = [
    "frames", "hertz_to_mel", "log_mel_spectrogram", "mel_filters", "mel_to_hertz",
    "power_spectrogram", "read_wav", "spec_augment", "stft", "window", "write_wav",
]  # fmt: skip

_WINDOWS = {  # a and b of a - b cos(2 pi n / size)
    "hann": (0.5, 0.5), "hamming": (0.54, 0.46), "rectangular": (1.0, 0.0),
}  # fmt: skip
# Slaney's scale is linear below 1000 Hz (15 mel) and logarithmic above.
_BREAK_HERTZ, _BREAK_MEL, _MEL_PER_HERTZ = 1000.0, 15.0, 3 / 200
_LOG_STEP = 27 / math.log(6.4)


@names_arguments
def window(size, kind="hann"):
    """Periodic window function: w_n = a - b cos(2 pi n / size), where `kind` determines a and b.

    Parameters
    ----------
    size : int
        Number of samples.
    kind : {"hann", "hamming", "rectangular"}
        Hann: a = b = 1/2. Hamming: a = 0.54, b = 0.46. Rectangular: a = 1, b = 0.

    Returns
    -------
    float64 array of shape (size,)

    Notes
    -----
    A periodic window is one period of its cosine, so the last sample is not a copy of the first.
    `numpy.hanning` returns the symmetric window, whose first and last samples are both zero.

    Examples
    --------
    >>> window(4)
    array([0. , 0.5, 1. , 0.5])
    """
    _check_size(size, "window", "size")
    if kind not in _WINDOWS:
        raise ArgumentError(
            "window: kind is unknown", got=repr(kind), expected=", ".join(map(repr, _WINDOWS))
        )
    a, b = _WINDOWS[kind]
    return a - b * np.cos(2 * np.pi * np.arange(size) / size)


@names_arguments
def frames(waveform, size, hop, center=False):
    """Cut a waveform into overlapping frames. Samples after the last complete frame are dropped.

    Parameters
    ----------
    waveform : float array of shape (..., sample)
    size : int
        Number of samples in a frame.
    hop : int
        Number of samples between the starts of two frames.
    center : bool, default False
        If True, frame t is centered on sample t * hop. To make this possible, the waveform is first
        extended by `size // 2` reflected samples at both ends.

    Returns
    -------
    array of shape (..., frame, size)
        A waveform that is shorter than one frame gives no frames.

    Examples
    --------
    >>> frames(np.arange(6.0), 4, 2)
    array([[0., 1., 2., 3.],
           [2., 3., 4., 5.]])
    """
    _check_waveform(waveform, "frames")
    _check_size(size, "frames", "size")
    _check_size(hop, "frames", "hop")
    length = waveform.shape[-1]
    edge = size // 2 if center else 0
    if edge and not length:
        raise ShapeError("frames: an empty waveform cannot be reflected", got=str(waveform.shape))
    count = max(0, (length + 2 * edge - size) // hop + 1)
    index = np.arange(count)[:, None] * hop + np.arange(size) - edge  # (frame, size)
    period = max(2 * (length - 1), 1)
    index = np.abs(index) % period  # reflection: ... 2 1 0 1 2 ... n-1 n-2 ...
    index = np.where(index < length, index, period - index)
    return waveform[..., from_host(index, device_of(waveform))]


@names_arguments
def stft(waveform, window_size=400, hop=160, fft_size=None, kind="hann", center=False):
    """Short-time Fourier transform: the spectrum of every windowed frame.

    Parameters
    ----------
    waveform : float array of shape (..., sample)
    window_size : int, default 400
        Number of samples in a frame.
    hop : int, default 160
        Number of samples between the starts of two frames.
    fft_size : int, optional
        Length of the Fourier transform. Frames are padded with zeros to this length. Default:
        `window_size`.
    kind : {"hann", "hamming", "rectangular"}
        Window function.
    center : bool, default False
        Whether frame t is centered on sample t * hop; see `frames`.

    Returns
    -------
    complex array of shape (..., frame, fft_size // 2 + 1)
        X_tk = sum_n w_n x_(t hop + n) exp(-2 pi i k n / fft_size). The dtype is complex64
        for a float32 waveform, otherwise complex128.

    Examples
    --------
    >>> tone = np.cos(2 * np.pi * 3 * np.arange(32) / 16)  # 3 periods in 16 samples
    >>> np.abs(stft(tone, 16, 16)).round(1)[0]
    array([0., 0., 2., 4., 2., 0., 0., 0., 0.])
    """
    pieces = frames(waveform, window_size, hop, center)  # (..., frame, window_size)
    fft_size = window_size if fft_size is None else fft_size
    if not _is_size(fft_size) or fft_size < window_size:
        raise ArgumentError(
            "stft: fft_size must be an integer that is at least window_size",
            got=f"fft_size={fft_size!r}, window_size={window_size}",
        )
    pieces = pieces * like(window(window_size, kind), pieces)
    return array_module(pieces).fft.rfft(pieces, fft_size)  # zeros after the frame


@names_arguments
def power_spectrogram(waveform, window_size=400, hop=160, fft_size=None, kind="hann", center=False):
    """Power of every frequency in every frame: |STFT|^2. See `stft` for the parameters.

    Returns
    -------
    array of shape (..., frame, fft_size // 2 + 1)
        Entry k is the power at the frequency k * sample_rate / fft_size, in Hz.

    Examples
    --------
    >>> power_spectrogram(np.ones(8), 4, 4)
    array([[4., 1., 0.],
           [4., 1., 0.]])
    """
    spectrum = stft(waveform, window_size, hop, fft_size, kind, center)
    return spectrum.real**2 + spectrum.imag**2


@names_arguments
def hertz_to_mel(frequency, mel_scale="htk"):
    """Convert frequencies in Hz to mel, a scale on which equal steps sound equally far apart.

    Parameters
    ----------
    frequency : float or array
    mel_scale : {"htk", "slaney"}
        "htk": 2595 log10(1 + f / 700). "slaney": 3 f / 200 up to 1000 Hz,
        15 + 27 ln(f / 1000) / ln 6.4 above.

    Returns
    -------
    float64 array

    References
    ----------
    .. [1] Young et al., "The HTK Book", section 5.4 (the formula "htk").
    .. [2] Slaney 1998, "Auditory Toolbox", Technical Report 1998-010 (the scale "slaney").

    Examples
    --------
    >>> hertz_to_mel([0, 700, 1000], "htk").round(1), hertz_to_mel([0, 1000, 6400], "slaney")
    (array([  0. , 781.2, 1000. ]), array([ 0., 15., 42.]))
    """
    frequency = np.asarray(frequency, np.float64)
    if _is_htk(mel_scale, "hertz_to_mel"):
        return 2595 * np.log10(1 + frequency / 700)
    above = np.maximum(frequency, _BREAK_HERTZ) / _BREAK_HERTZ
    return np.minimum(frequency, _BREAK_HERTZ) * _MEL_PER_HERTZ + _LOG_STEP * np.log(above)


@names_arguments
def mel_to_hertz(mel, mel_scale="htk"):
    """Convert mel values to frequencies in Hz, the inverse of `hertz_to_mel`.

    Parameters
    ----------
    mel : float or array
    mel_scale : {"htk", "slaney"}

    Returns
    -------
    float64 array

    Examples
    --------
    >>> mel_to_hertz(hertz_to_mel([60.0, 3000.0], "slaney"), "slaney").round(9)
    array([  60., 3000.])
    """
    mel = np.asarray(mel, np.float64)
    if _is_htk(mel_scale, "mel_to_hertz"):
        return 700 * (10 ** (mel / 2595) - 1)
    linear = np.minimum(mel, _BREAK_MEL) / _MEL_PER_HERTZ
    return linear * np.exp(np.maximum(mel - _BREAK_MEL, 0) / _LOG_STEP)


@names_arguments
def mel_filters(
    num_mels, fft_size, sample_rate=16000, low=0.0, high=None, mel_scale="htk", norm=None
):
    """Triangular filters: the weights that sum a power spectrum into mel bands.

    Parameters
    ----------
    num_mels : int
        Number of filters.
    fft_size : int
        Length of the Fourier transform.
    sample_rate : float, default 16000
        Samples per second.
    low, high : float
        Lower edge of the first and upper edge of the last filter in Hz. `high` is half the sample
        rate by default.
    mel_scale : {"htk", "slaney"}
        Mel scale on which the filters are equally spaced; see `hertz_to_mel`.
    norm : {None, "slaney"}
        None: every triangle has height 1. "slaney": every triangle has area 1 in Hz, so wider
        filters have lower peaks.

    Returns
    -------
    float64 array of shape (fft_size // 2 + 1, num_mels)

    Notes
    -----
    Let p_0 < ... < p_(num_mels + 1) be edges that are equally spaced in mel and converted to
    Hz. The value of filter m at frequency f is
    max(0, min((f - p_m) / (p_(m+1) - p_m), (p_(m+2) - f) / (p_(m+2) - p_(m+1)))).
    A filter that lies between two neighboring frequencies of the transform is zero everywhere.

    Examples
    --------
    >>> mel_filters(3, 8, sample_rate=8000).round(2)
    array([[0.  , 0.  , 0.  ],
           [0.17, 0.83, 0.  ],
           [0.  , 0.2 , 0.8 ],
           [0.  , 0.  , 0.56],
           [0.  , 0.  , 0.  ]])
    """
    _check_size(num_mels, "mel_filters", "num_mels")
    _check_size(fft_size, "mel_filters", "fft_size")
    high = sample_rate / 2 if high is None else high
    if not 0 <= low < high <= sample_rate / 2 < math.inf:
        raise ArgumentError(
            "mel_filters: the band is empty or exceeds half the sample rate",
            got=f"low={low}, high={high}, sample_rate={sample_rate}",
            expected="0 <= low < high <= sample_rate / 2",
        )
    if norm not in (None, "slaney"):
        raise ArgumentError(
            "mel_filters: norm is unknown", got=repr(norm), expected="None or 'slaney'"
        )
    ends = hertz_to_mel([low, high], mel_scale)
    points = mel_to_hertz(np.linspace(*ends, num_mels + 2), mel_scale)
    frequency = np.arange(fft_size // 2 + 1)[:, None] * (sample_rate / fft_size)
    left, middle, right = points[:-2], points[1:-1], points[2:]  # (mel,)
    rising, falling = (frequency - left) / (middle - left), (right - frequency) / (right - middle)
    triangles = np.maximum(0, np.minimum(rising, falling))  # (frequency, mel)
    return triangles * (2 / (right - left)) if norm == "slaney" else triangles


@names_arguments
def log_mel_spectrogram(
    waveform, sample_rate=16000, num_mels=80, window_size=400, hop=160, fft_size=None, low=0.0,
    high=None, mel_scale="htk", norm=None, center=False, floor=1e-10,
):  # fmt: skip
    """Log-mel spectrogram, the usual input of a speech model.

    Parameters
    ----------
    waveform : float array of shape (..., sample)
    sample_rate : float, default 16000
        Samples per second.
    num_mels : int, default 80
        Number of mel bands.
    window_size, hop : int, default 400 and 160
        Length of a frame, and distance between frames, in samples: 25 ms and 10 ms at 16 kHz.
    fft_size : int, optional
        Length of the Fourier transform, at least `window_size`. Default: `window_size`.
    low, high, mel_scale, norm
        Edges, scale and normalization of the mel filters; see `mel_filters`.
    center : bool, default False
        Whether frame t is centered on sample t * hop; see `frames`.
    floor : float, default 1e-10
        Positive lower bound, to which smaller values are raised before the logarithm.

    Returns
    -------
    array of shape (..., frame, num_mels)
        ln(max(P M, floor)), where P is the power spectrogram with a periodic Hann window and M
        are the mel filters.

    Raises
    ------
    DTypeError
        If the waveform is not an array of floating-point numbers.

    References
    ----------
    .. [1] Davis and Mermelstein 1980, "Comparison of Parametric Representations for Monosyllabic
       Word Recognition in Continuously Spoken Sentences" (mel filters of the power spectrum).

    Examples
    --------
    >>> tone = np.sin(2 * np.pi * 440 * np.arange(16000) / 16000)
    >>> features = log_mel_spectrogram(tone)
    >>> features.shape, int(features.mean(0).argmax())
    ((98, 80), 15)
    """
    _check_waveform(waveform, "log_mel_spectrogram")
    if not floor > 0:
        raise ArgumentError("log_mel_spectrogram: floor must be positive", got=str(floor))
    power = power_spectrogram(waveform, window_size, hop, fft_size, center=center)
    fft_size = window_size if fft_size is None else fft_size
    filters = mel_filters(num_mels, fft_size, sample_rate, low, high, mel_scale, norm)
    mel = power @ like(filters, power)  # (..., frame, frequency) @ (frequency, mel)
    xp = array_module(mel)
    return xp.log(xp.maximum(mel, floor))


def _is_htk(mel_scale, name):
    if mel_scale not in ("htk", "slaney"):
        raise ArgumentError(
            f"{name}: mel_scale is unknown", got=repr(mel_scale), expected="'htk' or 'slaney'"
        )
    return mel_scale == "htk"


def _is_size(value):
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value > 0


def _check_size(value, name, argument):
    if not _is_size(value):
        raise ArgumentError(f"{name}: {argument} must be a positive integer", got=repr(value))


def _check_waveform(waveform, name):
    if not is_array(waveform) or waveform.dtype not in (np.float32, np.float64):
        dtype = getattr(waveform, "dtype", None)
        raise DTypeError(
            f"{name}: waveform must be an array of float32 or float64",
            got=type(waveform).__name__ if dtype is None else f"dtype {dtype}",
            hint="divide 16-bit integers by 32768.0; pass x.numpy() for a tensor x",
        )
    if waveform.ndim < 1:
        raise ShapeError(f"{name}: waveform must have a sample axis", got=str(waveform.shape))
