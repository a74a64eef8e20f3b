"""Features equal those of transformers' audio_utils, and WAV files those of SciPy."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitorch_attn.data import audio

audio_utils = pytest.importorskip("transformers.audio_utils")
EASY = settings(deadline=None, max_examples=100)


@st.composite
def bands(draw):
    """Arguments of a filter bank. Transformers divides an even sample rate only by two."""
    rate = 2 * draw(st.integers(400, 24_000))
    low, high = sorted(draw(st.tuples(*[st.floats(0, 1)] * 2).filter(lambda p: p[0] + 0.1 < p[1])))
    return {
        "sample_rate": rate,
        "low": low * rate / 2,
        "high": high * rate / 2,
        "mel_scale": draw(st.sampled_from(["htk", "slaney"])),
        "norm": draw(st.sampled_from([None, "slaney"])),
    }


def their_filters(num_mels, fft_size, band):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about filters that are zero everywhere
        return audio_utils.mel_filter_bank(
            fft_size // 2 + 1, num_mels, band["low"], band["high"], band["sample_rate"],
            band["norm"], band["mel_scale"],
        )  # fmt: skip


@EASY
@given(band=bands(), num_mels=st.integers(1, 40), half=st.integers(1, 130))
def test_mel_filters(band, num_mels, half):
    ours = audio.mel_filters(num_mels, 2 * half, **band)
    np.testing.assert_allclose(ours, their_filters(num_mels, 2 * half, band), 1e-7, 1e-10)


@pytest.mark.parametrize("scale", ["htk", "slaney"])
def test_scales(scale):
    hertz = np.linspace(0, 20_000, 1001)
    mel = audio_utils.hertz_to_mel(hertz, scale)
    np.testing.assert_allclose(audio.hertz_to_mel(hertz, scale), mel, 1e-12)
    np.testing.assert_allclose(audio.mel_to_hertz(mel, scale), hertz, 1e-9, 1e-9)


@pytest.mark.parametrize("kind", ["hann", "hamming"])
@pytest.mark.parametrize("size", [2, 3, 25, 400])
def test_windows(kind, size):
    theirs = audio_utils.window_function(size, kind)
    np.testing.assert_allclose(audio.window(size, kind), theirs, atol=1e-14)


@EASY
@given(
    band=bands(),
    length=st.integers(70, 400),
    size=st.integers(2, 60),
    hop=st.integers(1, 50),
    zeros=st.integers(0, 9),
    center=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_log_mel_spectrogram(band, length, size, hop, zeros, center, seed):
    waveform = np.random.default_rng(seed).normal(size=length)
    fft_size = 2 * ((size + zeros + 1) // 2)
    theirs = audio_utils.spectrogram(
        waveform, audio_utils.window_function(size, "hann"), size, hop, fft_size, power=2.0,
        center=center, mel_filters=their_filters(6, fft_size, band), mel_floor=1e-8,
        log_mel="log", dtype=np.float64,
    )  # fmt: skip
    ours = audio.log_mel_spectrogram(
        waveform, num_mels=6, window_size=size, hop=hop, fft_size=fft_size, center=center,
        floor=1e-8, **band,
    )  # fmt: skip
    assert ours.shape == theirs.T.shape
    # Transformers rounds the spectrum to complex64.
    np.testing.assert_allclose(np.exp(ours), np.exp(theirs.T), 1e-5, 2e-8)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "float32", "float64"])
@pytest.mark.parametrize("channels", [1, 2, 3])
def test_wav_files_of_scipy(dtype, channels, rng, tmp_path):
    wavfile = pytest.importorskip("scipy.io.wavfile")
    values = rng.uniform(-1, 1, (11, channels))
    if dtype == "uint8":
        stored = np.rint(values * 127 + 128).astype(dtype)
        values = (stored.astype(float) - 128) / 128
    elif dtype.startswith("int"):
        half = 2.0 ** (8 * np.dtype(dtype).itemsize - 1)
        stored = np.rint(values * (half - 1)).astype(dtype)
        values = stored / half
    else:
        stored = values.astype(dtype)
        values = stored.astype(float)
    wavfile.write(tmp_path / "theirs.wav", 8000, stored)
    samples, rate = audio.read_wav(tmp_path / "theirs.wav", dtype="float64")
    assert rate == 8000
    np.testing.assert_array_equal(samples, values.T)
    audio.write_wav(tmp_path / "ours.wav", values.T, 8000, dtype)
    rate, found = wavfile.read(tmp_path / "ours.wav")
    assert rate == 8000 and found.dtype == dtype
    np.testing.assert_array_equal(found.reshape(11, channels), stored)
