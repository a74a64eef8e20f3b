"""Mel filters, windows and log-mel spectrograms equal those of transformers' audio_utils."""

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
