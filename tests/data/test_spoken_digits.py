"""Spoken digits: pitch, formants, tempo and noise are those that the speaker and the words say."""

import numpy as np
import pytest

from minitorch_attn.data import spoken_digits
from minitorch_attn.data.audio import log_mel_spectrogram, power_spectrogram
from minitorch_attn.data.spoken_digits import (
    DIGIT_WORDS,
    SAMPLE_RATE,
    Speaker,
    add_noise,
    draw_speakers,
    draw_utterances,
    say_digits,
)
from minitorch_attn.errors import ArgumentError, DTypeError

PLAIN = Speaker(100.0, 1.0, np.ones(3), np.array([1.0, 0.5, 0.25]), 0.0)


def power_of(digit, speaker, rng, low, high):
    """Spectra of the middle frames of many takes of a digit, summed, from `low` to `high` of it."""
    total = 0
    for _ in range(12):
        waveform, ((start, end),) = say_digits([digit], speaker, rng)
        piece = waveform[start + int(low * (end - start)) : start + int(high * (end - start))]
        total = total + power_spectrogram(piece.astype(np.float64), 256, 64).sum(0)
    return total


def peak(power, low, high):
    frequency = np.arange(129) * SAMPLE_RATE / 256
    inside = (frequency >= low) & (frequency <= high)
    return (power * frequency)[inside].sum() / power[inside].sum()


def test_shapes_spans_and_loudness(rng):
    for digits in ([], [3], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]):
        waveform, spans = say_digits(digits, PLAIN, rng)
        assert waveform.dtype == np.float32 and spans.dtype == np.int64
        assert spans.shape == (len(digits), 2)
        edges = np.concatenate([[0], spans.ravel(), [len(waveform)]])
        assert (np.diff(edges) > 0).all() if digits else len(waveform) > 0
        gaps = np.diff(edges)[::2][: len(digits)] / SAMPLE_RATE
        assert (gaps >= 0.029).all() and (gaps <= 0.201).all()
        words = [waveform[start:end] for start, end in spans]
        if digits:
            assert np.sqrt((np.concatenate(words) ** 2).mean()) == pytest.approx(0.05, rel=0.02)
            assert all(np.abs(word).max() > 0.03 for word in words)
            assert not waveform[: spans[0, 0]].any()  # silence before the first word


@pytest.mark.parametrize("pitch", [90.0, 150.0, 220.0])
def test_pitch(pitch, rng):
    """The autocorrelation of a vowel has its maximum at the period."""
    found = []
    for _ in range(10):
        waveform, ((start, end),) = say_digits([9], PLAIN._replace(pitch=pitch), rng)
        word = waveform[(start + end) // 2 - 500 : (start + end) // 2 + 500]
        correlation = np.correlate(word, word, "full")[999:]
        found.append(SAMPLE_RATE / (25 + correlation[25:200].argmax()))
    assert np.median(found) == pytest.approx(pitch, rel=0.1)


def test_vowels_have_their_formants(rng):
    """The first two formants of "two" (uw) and of the first vowel of "nine" (aa)."""
    assert peak(power_of(2, PLAIN, rng, 0.55, 0.95), 100, 500) == pytest.approx(300, abs=60)
    assert peak(power_of(9, PLAIN, rng, 0.3, 0.5), 500, 900) == pytest.approx(730, abs=90)
    three = power_of(3, PLAIN, rng, 0.7, 0.95)  # iy
    assert peak(three, 1800, 2700) == pytest.approx(2290, abs=150)
    short = PLAIN._replace(formants=np.full(3, 1.2))
    higher = peak(power_of(3, short, rng, 0.7, 0.95), 2100, 3200)
    assert higher == pytest.approx(2290 * 1.2, abs=200)


def test_rings_are_damped_sinusoids():
    """Two pulses between samples, with their own formants, against the formula of the module."""
    times = np.array([2.25, 5.5])
    formants = np.array([[500.0, 1500.0, 2500.0], [700.0, 1200.0, 9000.0]])
    levels = np.array([[1.0, 0.5, 0.25], [-0.5, 0.3, 0.1]])
    widths = np.array([[70.0], [100.0], [150.0]])
    expected = np.zeros(20)
    for start, frequencies, amounts in zip(times, formants, levels, strict=True):
        for f, b, a in zip(frequencies, widths[:, 0], amounts, strict=True):
            t = (np.arange(20) - start) / SAMPLE_RATE
            ring = a * np.exp(-np.pi * b * t) * np.sin(2 * np.pi * min(f, 3840.0) * t)
            expected += np.where((t >= 0) & (np.arange(20) < np.ceil(start) + 13), ring, 0)
    found = spoken_digits._ring(times, formants, levels, widths, 13, 20)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_consonants_are_noise_at_high_frequencies(rng):
    six, two = (power_of(d, PLAIN, rng, 0, 0.25) for d in (6, 1))
    high = np.arange(129) * SAMPLE_RATE / 256 > 2600
    assert six[high].sum() / six.sum() > 0.5 > 0.1 > two[high].sum() / two.sum()


def test_tempo_breath_and_levels(rng):
    def duration(speaker):
        return np.mean([np.diff(say_digits([7], speaker, rng)[1]) for _ in range(30)])

    assert duration(PLAIN) / duration(PLAIN._replace(tempo=2.0)) == pytest.approx(2, rel=0.1)
    bright = PLAIN._replace(levels=np.array([0.25, 0.5, 1.0]))
    dark, light = (power_of(1, s, rng, 0.4, 0.8) for s in (PLAIN, bright))
    assert peak(light, 0, 4000) > peak(dark, 0, 4000) + 300
    breathy = power_of(1, PLAIN._replace(breath=0.6), rng, 0.4, 0.8)
    assert breathy[110:].sum() / breathy.sum() > 3 * dark[110:].sum() / dark.sum()


def test_the_seed_decides():
    def draw(seed):
        rng = np.random.default_rng(seed)
        return draw_utterances(4, draw_speakers(3, rng), rng, snr=(0, 10))

    for one, same, other in zip(draw(1), draw(1), draw(2), strict=True):
        for a, b in zip(one, same, strict=True):
            np.testing.assert_array_equal(a, b)
        assert one.waveform.shape != other.waveform.shape
    rng = np.random.default_rng(0)
    takes = [say_digits([5], PLAIN, rng)[0] for _ in range(2)]
    assert takes[0].shape != takes[1].shape  # no two takes of a word are equal


def test_utterances(rng):
    utterances = draw_utterances(150, draw_speakers(4, rng), rng)
    assert {len(u.digits) for u in utterances} == {3, 4, 5, 6, 7}
    assert {u.speaker for u in utterances} == {0, 1, 2, 3}
    assert set(np.concatenate([u.digits for u in utterances])) == set(range(10))
    for u in utterances[:9]:
        assert u.waveform.dtype == np.float32 and u.digits.dtype == np.int64
        assert u.spans.shape == (len(u.digits), 2)
    assert draw_utterances(0, [], rng) == []
    assert len(draw_utterances(1, draw_speakers(1, rng), rng, 0, 0)[0].waveform) > 0
    for settings in ({"shortest": 5, "longest": 4}, {"shortest": -1}):
        with pytest.raises(ArgumentError, match="numbers of digits"):
            draw_utterances(2, draw_speakers(1, rng), rng, **settings)
    with pytest.raises(ArgumentError, match="no speakers"):
        draw_utterances(2, [], rng)
    with pytest.raises(ArgumentError, match="between 0 and 9"):
        say_digits([3, 10], PLAIN, rng)
    with pytest.raises(DTypeError):
        say_digits([2.5], PLAIN, rng)


@pytest.mark.parametrize("snr", [-5, 5, 20])
def test_noise(snr, rng):
    clean = say_digits([1, 2, 3], PLAIN, rng)[0]
    noise = add_noise(clean, snr, rng) - clean
    found = 10 * np.log10((clean**2).mean() / (noise**2).mean())
    assert noise.dtype == np.float32 and found == pytest.approx(snr, abs=0.3)
    white = power_spectrogram(noise, 256, 128).mean(0)[1:-1]
    assert white.max() < 3 * white.min()
    several = np.stack([clean, 2 * clean])
    noise = add_noise(several, snr, rng) - several
    assert noise[1].std() == pytest.approx(2 * noise[0].std(), rel=0.1)
    with pytest.raises(ArgumentError, match="greater than -inf dB"):
        add_noise(clean, float("nan"), rng)
    np.testing.assert_array_equal(add_noise(clean, float("inf"), rng), clean)
    assert add_noise(np.zeros(0, np.float32), snr, rng).shape == (0,)


def test_a_small_classifier_reads_new_speakers(rng):
    """Nearest means of 12 by 10 blocks of the spectrogram, from 20 speakers to 10 others."""

    def features(speakers):
        rows, labels = [], []
        for speaker in speakers:
            for digit in range(10):
                waveform, ((start, end),) = say_digits([digit], speaker, rng)
                mel = log_mel_spectrogram(waveform[start:end], SAMPLE_RATE, 36, 200, 40)
                mel = np.maximum(mel, mel.max() - 9)
                place = np.linspace(0, len(mel) - 1, 10).round().astype(int)
                blocks = mel[place].reshape(10, 12, 3).mean(-1)
                rows.append((blocks - blocks.mean()).ravel())
                labels.append(digit)
        return np.array(rows), np.array(labels)

    speakers = draw_speakers(30, rng)
    (x, y), (new, truth) = features(speakers[:20]), features(speakers[20:])
    means = np.stack([x[y == digit].mean(0) for digit in range(10)])
    found = ((new[:, None] - means) ** 2).sum(-1).argmin(1)
    assert (found == truth).mean() > 0.85 and len(DIGIT_WORDS) == 10
