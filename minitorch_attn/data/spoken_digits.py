"""Spoken digits: synthetic speech of ten words by different speakers, at 8 kHz.

A source excites a filter, as in the human vocal tract. The source is a series of pulses. For
vowels, the pulses are regular, at the speaker's pitch. For the noise of consonants, they are
random. The resonances of the mouth are called formants. Each formant responds to a pulse with a
damped sinusoid. The response to one pulse is the sum over the formants:

    h(t) = sum_k a_k exp(-pi b_k t) sin(2 pi f_k t)

Every sound has its own frequencies f_k, bandwidths b_k and amplitudes a_k. The sum of
the responses to all pulses is the waveform ("formant wave functions", Rodet 1984 [1]_).

References
----------
.. [1] Rodet 1984, "Time-Domain Formant-Wave-Function Synthesis", Computer Music Journal 8(3).
.. [2] Peterson and Barney 1952, "Control Methods Used in a Study of the Vowels", table II.
.. [3] Klatt 1980, "Software for a Cascade/Parallel Formant Synthesizer", tables II and III.
"""

import operator
from typing import NamedTuple

import numpy as np

from ..errors import ArgumentError
from ..named_errors import names_arguments

__all__ = [
    "DIGIT_WORDS", "SAMPLE_RATE", "Speaker", "Utterance", "add_noise", "draw_speakers",
    "draw_utterances", "say_digits",
]  # fmt: skip

SAMPLE_RATE = 8000
DIGIT_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")

# For each sound: men's formants in Hz [2, 3], duration in ms, loudness of voice and of noise.
_SOUNDS = {
    "iy": (270, 2290, 3010, 130, 0.8, 0), "ih": (390, 1990, 2550, 90, 0.9, 0),
    "eh": (530, 1840, 2480, 100, 1, 0), "ah": (640, 1190, 2390, 100, 1, 0),
    "aa": (730, 1090, 2440, 110, 1, 0), "ao": (570, 840, 2410, 120, 1, 0),
    "uh": (440, 1020, 2240, 90, 0.9, 0), "uw": (300, 870, 2240, 150, 0.8, 0),
    "w": (290, 610, 2150, 70, 0.6, 0), "r": (310, 1060, 1380, 80, 0.7, 0),
    "n": (250, 1340, 2470, 90, 0.45, 0),
    "f": (1100, 2000, 3300, 110, 0, 0.3), "th": (1500, 2600, 3500, 110, 0, 0.25),
    "s": (2900, 3500, 3850, 120, 0, 0.6), "z": (280, 3400, 3800, 90, 0.3, 0.5),
    "v": (250, 1100, 2080, 70, 0.4, 0.15),
    "t": (2500, 3100, 3700, 30, 0, 0.7), "k": (1500, 1900, 2700, 30, 0, 0.7),
    "-": (500, 1500, 2500, 55, 0, 0),  # the closed mouth before a "t" or "k"
}  # fmt: skip
_WORDS = (
    "z ih r ao uh", "w ah n", "- t uw", "th r iy", "f ao r", "f aa ih v", "s ih - k s",
    "s eh v ah n", "eh ih - t", "n aa ih n",
)  # fmt: skip
_BANDWIDTHS = np.array([[70.0], [100.0], [150.0]])  # of a voice's formants, in Hz
_LEVELS = np.array([1.0, 0.5, 0.25])  # amplitudes of the formants of a voice
_NOISE_BANDWIDTH = 400.0
_VOICE, _NOISE = 128, 40  # samples after which the response to a pulse has faded


class Speaker(NamedTuple):
    """Properties of a voice.

    Attributes
    ----------
    pitch : float
        Mean pitch in Hz.
    tempo : float
        Relative speed. Durations are divided by this number.
    formants : float array of shape (3,)
        Factors that multiply the formant frequencies. A shorter throat has higher formants.
    levels : float array of shape (3,)
        Amplitudes of the formants, which determine the timbre.
    breath : float
        Loudness of the noise in vowels.
    """

    pitch: float
    tempo: float
    formants: np.ndarray
    levels: np.ndarray
    breath: float


class Utterance(NamedTuple):
    """Utterance of several digits, with the position of each word in the waveform.

    Attributes
    ----------
    waveform : float32 array of shape (sample,)
    digits : int64 array of shape (word,)
    spans : int64 array of shape (word, 2)
        First sample of each word, and first sample after the word.
    speaker : int
        Index of the speaker.
    """

    waveform: np.ndarray
    digits: np.ndarray
    spans: np.ndarray
    speaker: int


@names_arguments
def draw_speakers(count, generator):
    """Draw speakers: men, women and children with fast or slow speech and dark or bright voices.

    Parameters
    ----------
    count : int
    generator : numpy.random.Generator

    Returns
    -------
    list of Speaker

    Examples
    --------
    >>> [round(speaker.pitch) for speaker in draw_speakers(3, np.random.default_rng(0))]
    [173, 79, 185]
    """
    speakers = []
    for _ in range(count):
        size = generator.uniform(0, 1)  # from 0, a long throat, to 1, a short throat
        pitch = 95 * 2.6**size * np.exp(generator.normal(0, 0.08))
        throat = (0.92 + 0.3 * size) * np.exp(generator.normal(0, 0.03))
        tempo = np.exp(generator.uniform(-0.25, 0.25))
        formants = throat * np.exp(generator.normal(0, 0.03, 3))  # individual accent
        levels = _LEVELS * np.exp(generator.normal(0, 0.35, 3))
        breath = generator.uniform(0, 0.1)
        speakers.append(Speaker(float(pitch), float(tempo), formants, levels, float(breath)))
    return speakers


@names_arguments
def say_digits(digits, speaker, generator, gap=(0.03, 0.2)):
    """Synthesize digits in a speaker's voice. A word sounds slightly different each time.

    Parameters
    ----------
    digits : sequence of int
        Numbers from 0 to 9.
    speaker : Speaker
    generator : numpy.random.Generator
    gap : (float, float)
        Shortest and longest silence before, between and after the words, in seconds.

    Returns
    -------
    waveform : float32 array of shape (sample,)
        Its root-mean-square amplitude during the words is 0.05, which keeps the peaks below 1.
    spans : int64 array of shape (word, 2)
        First sample of each word, and first sample after the word.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> waveform, spans = say_digits([4, 2], draw_speakers(1, rng)[0], rng)
    >>> for digit, (start, end) in zip([4, 2], spans):
    ...     print(DIGIT_WORDS[digit], f"{start / SAMPLE_RATE:.2f} s to {end / SAMPLE_RATE:.2f} s")
    four 0.03 s to 0.44 s
    two 0.58 s to 0.91 s
    """
    digits = [operator.index(digit) for digit in digits]
    if not all(0 <= digit <= 9 for digit in digits):
        raise ArgumentError("say_digits: digits must be between 0 and 9", got=f"{digits!r:.60}")
    knots, values, spans, length = _tracks(digits, speaker, generator, gap)
    waveform = np.zeros(length)
    if digits:
        tracks = _Tracks(knots, values)
        waveform += _voice(tracks, speaker, generator, length)
        waveform += _noise(tracks, speaker, generator, length)
        spoken = sum(end - start for start, end in spans)
        waveform *= 0.05 / np.sqrt((waveform**2).sum() / spoken)
    return waveform.astype(np.float32), np.array(spans, np.int64).reshape(-1, 2)


@names_arguments
def draw_utterances(count, speakers, generator, shortest=3, longest=7, snr=None):
    """Draw utterances of random digits by random speakers.

    Parameters
    ----------
    count : int
    speakers : list of Speaker
    generator : numpy.random.Generator
    shortest, longest : int, default 3 and 7
        Smallest and largest number of digits in an utterance. Each number is equally likely.
    snr : float or (float, float), optional
        Signal-to-noise ratio in dB, or a range from which each utterance's ratio is drawn. By
        default, no noise is added.

    Returns
    -------
    list of Utterance

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> first, second = draw_utterances(2, draw_speakers(5, rng), rng, snr=5)
    >>> first.digits, first.speaker, first.waveform.dtype
    (array([8, 4, 8]), 2, dtype('float32'))
    """
    if not 0 <= shortest <= longest or (count and not speakers):
        raise ArgumentError(
            "draw_utterances: the numbers of digits are invalid, or there are no speakers",
            got=f"{shortest} to {longest} digits, {len(speakers)} speakers",
        )
    utterances = []
    for _ in range(count):
        speaker = int(generator.integers(len(speakers)))
        digits = generator.integers(10, size=generator.integers(shortest, longest + 1))
        waveform, spans = say_digits(digits, speakers[speaker], generator)
        if snr is not None:
            waveform = add_noise(waveform, generator.uniform(*np.broadcast_to(snr, 2)), generator)
        utterances.append(Utterance(waveform, digits, spans, speaker))
    return utterances


@names_arguments
def add_noise(waveform, snr, generator):
    """Add white Gaussian noise with a given signal-to-noise ratio in dB.

    Parameters
    ----------
    waveform : float array of shape (..., sample)
    snr : float
        10 log10(P / N) in dB, where P and N are the mean powers of the waveform and the noise.
    generator : numpy.random.Generator

    Returns
    -------
    array of the same shape and dtype

    Examples
    --------
    >>> noisy = add_noise(np.ones(100_000), 20, np.random.default_rng(0))
    >>> round(float(noisy.std()), 2)
    0.1
    """
    if not snr > -np.inf:
        raise ArgumentError("add_noise: snr must be greater than -inf dB", got=str(snr))
    power = (waveform**2).mean(-1, keepdims=True) if waveform.size else 0.0
    noise = generator.standard_normal(waveform.shape, np.float32)
    return waveform + (noise * np.sqrt(power * 10 ** (-snr / 10))).astype(waveform.dtype)


class _Tracks:
    """Voice parameters over time: the formants, the loudness of voice and noise, and the pitch.

    Each parameter is piecewise linear, with given values at certain times, the knots.
    """

    def __init__(self, knots, values):
        self.knots, self.values = knots, values  # (knot,), (knot, curve)

    def at(self, times):
        """Return the formants, voice, noise and pitch at `times`, which are in samples.

        The formants have shape (time, 3). Voice, noise and pitch have shape (time,).
        """
        curves = [np.interp(times, self.knots, curve) for curve in self.values.T]
        return np.stack(curves[:3], axis=-1), *curves[3:]


def _tracks(digits, speaker, generator, gap):
    """Draw the voice parameters of an utterance.

    Return the knots (the times for which parameters are given), the parameters at the knots, the
    spans of the words, and the length of the utterance. All times are in samples.
    """
    time = generator.uniform(*gap) * SAMPLE_RATE
    knots, values, spans = [], [], []
    for place, digit in enumerate(digits):
        start = time
        pitch = speaker.pitch * (1 - 0.15 * place / len(digits)) * np.exp(generator.normal(0, 0.06))
        times, rows = _word(_WORDS[digit].split(), time, pitch, speaker, generator)
        time = times[-1]
        spans.append((int(start), int(time)))
        knots += times
        values += rows
        time += generator.uniform(*gap) * SAMPLE_RATE
    return np.array(knots), np.array(values).reshape(len(knots), 6), spans, int(time)


def _word(sounds, time, pitch, speaker, generator):
    """Draw the voice parameters of a word, which is silent at both ends.

    Return the knots (the times, in samples, for which parameters are given) and the parameters at
    the knots.
    """
    loudness = np.exp(generator.normal(0, 0.2))
    times, rows = [time], []
    for sound in sounds:
        *formants, duration, voice, noise = _SOUNDS[sound]
        duration *= SAMPLE_RATE / 1000 / speaker.tempo * np.exp(generator.normal(0, 0.12))
        formants = formants * speaker.formants * np.exp(generator.normal(0, 0.02, 3))
        pitch *= np.exp(generator.normal(-0.01, 0.03))
        times += [time + 0.25 * duration, time + 0.75 * duration]  # constant between these times
        rows += [[*formants, voice * loudness, noise * loudness, pitch]] * 2
        time += duration
    silence = [[*row[:3], 0.0, 0.0, row[5]] for row in (rows[0], rows[-1])]
    return [*times, time], [silence[0], *rows, silence[1]]


def _voice(tracks, speaker, generator, length):
    """Sum the responses of the formants to the pulses of the voice."""
    steps = np.arange(0, length, 16)
    *_, pitch = tracks.at(steps)
    periods = np.cumsum(pitch * 16 / SAMPLE_RATE)  # number of pulses so far
    times = np.interp(np.arange(periods[-1]), periods, steps)
    times += generator.normal(0, 0.01, len(times)) * SAMPLE_RATE / speaker.pitch  # jitter
    formants, voice, _, _ = tracks.at(times)
    heard = voice > 0.01
    levels = voice[heard, None] * speaker.levels
    return _ring(times[heard], formants[heard], levels, _BANDWIDTHS, _VOICE, length)


def _noise(tracks, speaker, generator, length):
    """Sum the responses of the formants to random pulses, on average one every six samples."""
    times = generator.uniform(0, length, length // 6)
    formants, voice, noise, _ = tracks.at(times)
    level = noise + speaker.breath * voice
    heard = level > 0.04
    signs = generator.choice([-0.5, 0.5], heard.sum())
    levels = np.repeat((level[heard] * signs)[:, None], 3, axis=1)
    return _ring(times[heard], formants[heard], levels, _NOISE_BANDWIDTH, _NOISE, length)


def _ring(times, formants, levels, bandwidths, size, length):
    """Sum damped sinusoids, one for each formant and each start time in `times`."""
    first = np.ceil(times).astype(np.int64)
    frequency = np.minimum(formants.T, 0.48 * SAMPLE_RATE) / SAMPLE_RATE  # (formant, pulse)
    pole = np.exp(2j * np.pi * frequency - np.pi * bandwidths / SAMPLE_RATE)
    rings = np.empty((len(pole), size, len(times)), np.complex64)
    rings[:, 0] = levels.T * pole ** (first - times)  # a pulse may begin between two samples
    done = 1
    while done < size:  # each step doubles the number of powers
        more = min(done, size - done)
        factor = (pole**done).astype(np.complex64)[:, None]
        np.multiply(rings[:, :more], factor, out=rings[:, done : done + more])
        done += more
    sound = rings.imag.sum(0)  # (size, pulse)
    index = np.arange(size)[:, None] + first
    return np.bincount(index.ravel(), sound.ravel(), length + size)[:length]
