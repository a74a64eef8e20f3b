"""Audio features: frames, windows, the STFT, mel filters and log-mel spectrograms."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.backend import from_host, to_host
from minitorch_attn.data import audio
from minitorch_attn.errors import ArgumentError, DTypeError, ShapeError

SIZES = [(0, 5, 3), (1, 5, 3), (2, 5, 3), (4, 5, 3), (5, 5, 3), (7, 5, 3), (8, 5, 3), (23, 4, 7)]


def slowly(waveform, window_size, hop, fft_size, mels, rate, center=False, floor=1e-10):
    """The log-mel spectrogram with loops over frames, samples, frequencies and filters."""
    n = len(waveform)
    if center:
        places = range(-(window_size // 2), n + window_size // 2)
        waveform = [waveform[abs((p + n - 1) % (2 * n - 2) - n + 1)] for p in places]
    points = audio.mel_to_hertz(np.linspace(0, audio.hertz_to_mel(rate / 2), mels + 2))
    rows = []
    for start in range(0, len(waveform) - window_size + 1, hop):
        sums = [0.0] * mels
        for k in range(fft_size // 2 + 1):
            value = 0j
            for i in range(window_size):
                hann = 0.5 - 0.5 * np.cos(2 * np.pi * i / window_size)
                value += waveform[start + i] * hann * np.exp(-2j * np.pi * i * k / fft_size)
            f = k * rate / fft_size
            for m in range(mels):
                up = (f - points[m]) / (points[m + 1] - points[m])
                down = (points[m + 2] - f) / (points[m + 2] - points[m + 1])
                sums[m] += abs(value) ** 2 * max(0, min(up, down))
        rows.append([np.log(max(s, floor)) for s in sums])
    return np.array(rows).reshape(-1, mels)


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("fft_size", [11, 13, 16])
def test_the_definition(rng, device, fft_size, center):
    waveform = rng.normal(size=29)
    expected = slowly(waveform, 11, 7, fft_size, 3, 800, center)
    assert len(expected) == (5 if center else 3)
    settings = {"num_mels": 3, "window_size": 11, "hop": 7, "center": center}
    for dtype, tolerance in (("float64", 1e-10), ("float32", 1e-5)):
        array = from_host(waveform.astype(dtype), device)
        found = audio.log_mel_spectrogram(array, 800, fft_size=fft_size, **settings)
        assert type(found) is type(array) and found.dtype == dtype
        np.testing.assert_allclose(to_host(found), expected, tolerance, tolerance)
    if fft_size == 11:  # the default
        found = audio.log_mel_spectrogram(waveform, 800, **settings)
        np.testing.assert_allclose(found, expected, 1e-10)


def test_leading_axes_and_strided_waveforms(rng, device):
    waveforms = rng.normal(size=(2, 3, 58))
    settings = {"num_mels": 3, "window_size": 11, "hop": 7}
    array = from_host(waveforms, device)[:, :, ::2]
    found = to_host(audio.log_mel_spectrogram(array, 800, **settings))
    assert found.shape == (2, 3, 3, 3)
    for i in range(2):
        for j in range(3):
            alone = audio.log_mel_spectrogram(waveforms[i, j, ::2], 800, **settings)
            np.testing.assert_allclose(found[i, j], alone, 1e-12)


@pytest.mark.parametrize(("length", "size", "hop"), SIZES)
@pytest.mark.parametrize("center", [False, True])
def test_frames(length, size, hop, center, device):
    waveform = np.arange(length) + 10.0
    if center and not length:
        with pytest.raises(ShapeError, match="empty waveform"):
            audio.frames(waveform, size, hop, center)
        return
    found = to_host(audio.frames(from_host(waveform, device), size, hop, center))
    whole = np.pad(waveform, size // 2, "reflect") if center else waveform
    starts = range(0, len(whole) - size + 1, hop)
    expected = np.array([whole[start : start + size] for start in starts]).reshape(-1, size)
    np.testing.assert_array_equal(found, expected)


def test_windows_are_periodic():
    for size in (1, 2, 7, 400):
        place = 2 * np.pi * np.arange(size) / size
        np.testing.assert_allclose(audio.window(size), 0.5 - 0.5 * np.cos(place), atol=1e-15)
        found = audio.window(size, "hamming")
        np.testing.assert_allclose(found, 0.54 - 0.46 * np.cos(place), atol=1e-15)
        np.testing.assert_array_equal(audio.window(size, "rectangular"), np.ones(size))
    np.testing.assert_allclose(audio.window(8), np.hanning(9)[:-1], atol=1e-15)
    overlap = audio.window(8)[:4] + audio.window(8)[4:]
    np.testing.assert_allclose(overlap, 1)  # that is why it is periodic


@pytest.mark.parametrize("kind", ["hann", "hamming", "rectangular"])
def test_stft_is_the_transform_of_each_windowed_frame(kind, rng, device):
    waveform = rng.normal(size=(2, 41))
    found = audio.stft(from_host(waveform, device), 13, 5, 16, kind, center=True)
    cut = audio.frames(waveform, 13, 5, center=True) * audio.window(13, kind)
    k, n = np.arange(9)[:, None], np.arange(13)
    expected = cut @ np.exp(-2j * np.pi * k * n / 16).T
    np.testing.assert_allclose(to_host(found), expected, atol=1e-12)
    power = audio.power_spectrogram(from_host(waveform, device), 13, 5, 16, kind, center=True)
    np.testing.assert_allclose(to_host(power), abs(expected) ** 2, atol=1e-11)


def test_parseval(rng):
    """The power of all frequencies is that of the windowed samples."""
    waveform = rng.normal(size=64)
    power = audio.power_spectrogram(waveform, 64, 1)[0]
    both_sides = power[0] + 2 * power[1:-1].sum() + power[-1]
    assert both_sides / 64 == pytest.approx(((waveform * audio.window(64)) ** 2).sum())


@pytest.mark.parametrize("scale", ["htk", "slaney"])
def test_scales_are_inverse_and_increasing(scale):
    hertz = np.concatenate([np.linspace(0, 999, 50), np.geomspace(1000, 48000, 50)])
    mel = audio.hertz_to_mel(hertz, scale)
    assert (np.diff(mel) > 0).all() and mel[0] == 0
    np.testing.assert_allclose(audio.mel_to_hertz(mel, scale), hertz, 1e-12, atol=1e-9)


def test_slaney_scale_is_smooth_where_it_changes():
    slopes = np.diff(audio.hertz_to_mel([999, 1000, 1001], "slaney"))
    assert slopes[0] == pytest.approx(0.015) and slopes[1] == pytest.approx(0.0145, abs=1e-4)
    assert audio.hertz_to_mel(6400, "slaney") == pytest.approx(42)


@pytest.mark.parametrize("scale", ["htk", "slaney"])
def test_triangles(scale):
    filters = audio.mel_filters(7, 2048, 8000, 100, 3900, scale)
    assert filters.shape == (1025, 7) and filters.dtype == np.float64
    frequency = np.arange(1025) * 8000 / 2048
    points = audio.mel_to_hertz(np.linspace(*audio.hertz_to_mel([100, 3900], scale), 9), scale)
    for m in range(7):
        inside = (frequency > points[m]) & (frequency < points[m + 2])
        np.testing.assert_array_equal(filters[:, m] > 0, inside)
        assert frequency[filters[:, m].argmax()] == pytest.approx(points[m + 1], abs=4)
    middle = (frequency > points[1]) & (frequency < points[-2])
    np.testing.assert_allclose(filters.sum(1)[middle], 1)  # neighbors overlap and share
    areas = audio.mel_filters(7, 2048, 8000, 100, 3900, scale, "slaney").sum(0) * 8000 / 2048
    np.testing.assert_allclose(areas, 1, rtol=1e-3)


def test_silence_and_floor():
    silent = audio.log_mel_spectrogram(np.zeros(900, np.float32))
    np.testing.assert_allclose(silent, np.log(1e-10), 1e-6)
    loud = audio.log_mel_spectrogram(np.zeros(900), floor=0.5)
    np.testing.assert_allclose(loud, np.log(0.5))
    assert audio.log_mel_spectrogram(np.zeros(399)).shape == (0, 80)
    assert audio.log_mel_spectrogram(np.zeros((2, 0))).shape == (2, 0, 80)


def test_reached_from_the_package():
    assert mt.data.audio is audio and mt.data.read_wav is audio.read_wav


WAVE = np.zeros(1000)


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (DTypeError, "divide 16-bit", lambda: audio.log_mel_spectrogram(np.zeros(9, np.int16))),
        (DTypeError, "float32 or float64", lambda: audio.frames([0.0, 1.0], 2, 1)),
        (DTypeError, r"x.numpy\(\)", lambda: audio.stft(mt.zeros(900))),
        (ShapeError, "sample axis", lambda: audio.frames(np.zeros(()), 2, 1)),
        (ArgumentError, "hop must be a positive integer", lambda: audio.frames(WAVE, 2, 0)),
        (ArgumentError, "size must be a positive integer", lambda: audio.frames(WAVE, 2.0, 1)),
        (ArgumentError, "size must be", lambda: audio.window(True)),
        (ArgumentError, "'hamming'", lambda: audio.window(3, "kaiser")),
        (ArgumentError, "at least window_size", lambda: audio.stft(WAVE, 20, 5, 19)),
        (ArgumentError, "at least window_size", lambda: audio.stft(WAVE, 20, 5, 25.0)),
        (ArgumentError, "floor must be positive", lambda: audio.log_mel_spectrogram(WAVE, floor=0)),
        (ArgumentError, "'htk' or 'slaney'", lambda: audio.hertz_to_mel(3.0, "bark")),
        (ArgumentError, "'htk' or 'slaney'", lambda: audio.mel_to_hertz(3.0, "HTK")),
        (ArgumentError, "norm is unknown", lambda: audio.mel_filters(3, 8, norm="area")),
        (ArgumentError, "num_mels must be", lambda: audio.mel_filters(0, 8)),
        (ArgumentError, "fft_size must be", lambda: audio.mel_filters(3, 0)),
        (ArgumentError, "the band is empty", lambda: audio.mel_filters(3, 8, low=-1)),
        (ArgumentError, "the band is empty", lambda: audio.mel_filters(3, 8, low=50, high=50)),
        (ArgumentError, "the band is empty", lambda: audio.mel_filters(3, 8, 800, high=401)),
        (ArgumentError, "the band is empty", lambda: audio.mel_filters(3, 8, float("nan"))),
    ],
)
def test_arguments(error, message, call):
    with pytest.raises(error, match=message):
        call()
