"""Spoken digits in noise as log-mel features with labels: the batches of the recipe `speech`."""

import numpy as np

from ...data.audio import log_mel_spectrogram
from ...data.spec_augment import spec_augment
from ...data.spoken_digits import SAMPLE_RATE, add_noise
from ...tensor import tensor
from .phases import RecipeStream

__all__ = [
    "BLANK", "CLASSES", "END", "FEWEST", "HOP", "MELS", "MOST", "START", "TOKENS", "SpeechBatches",
    "frame_centers", "labels_of", "log_mel", "padded_log_mel", "written",
]  # fmt: skip

HOP, MELS = 80, 40  # numbers of samples between two frames (10 ms), and of mel bands
FEWEST, MOST = 3, 7  # number of digits in an utterance
BLANK, CLASSES = 0, 11  # the label of digit d is d + 1
START, END, TOKENS = 11, 12, 13  # further tokens of the decoder, for which 0 is padding
_WINDOW, _FFT = 200, 256  # samples of a frame (25 ms) and of its Fourier transform
_CHOICE = 4  # number of batches that are sorted by length; one of them is used
_GROWTH = 0.5  # fraction of a phase in which utterances get longer


class SpeechBatches(RecipeStream):
    """Utterances with new noise, masked by SpecAugment, and their labels.

    Batch n depends only on (seed, n). Its keys are "features", "lengths" (numbers of frames),
    "labels", "counts" (numbers of labels) and, in the second phase, "written" (targets of the
    decoder). The utterances of a batch have similar lengths, so there is little padding. Each phase
    begins with short utterances, whose alignments are easier to learn (Amodei et al. 2015,
    arXiv:1512.02595v1, section 3.2, SortaGrad).

    Parameters
    ----------
    recipe : Speech
    """

    def __next__(self):
        """Return the next batch, a dict of tensors."""
        generator = np.random.default_rng([self.seed, self.position])
        chosen = self._choose(generator)
        snr = self.recipe.options["snr"]
        noisy = [add_noise(one.waveform, snr, generator) for one in chosen]
        features, lengths = log_mel(noisy)
        features = spec_augment(
            features, generator, lengths, frequency_width=8, time_width=20, time_fraction=0.1
        )
        labels, counts = labels_of([one.digits for one in chosen])
        batch = {
            "features": features.astype(self.dtype), "lengths": lengths, "labels": labels,
            "counts": counts,
        }  # fmt: skip
        if self.position >= self.recipe.ctc_steps:
            batch["written"] = written(labels, counts)
        self.position += 1
        return {name: tensor(values, device=self.device) for name, values in batch.items()}

    def _choose(self, generator):
        """Choose random utterances of similar length; at the beginning of a phase, short ones."""
        utterances, size = self.recipe.training, self.batch_size
        drawn = generator.integers(len(utterances), size=_CHOICE * size)
        drawn = sorted(drawn, key=lambda i: len(utterances[i].waveform))
        start, end = self.recipe.phase(self.position)
        progress = (self.position - start) / max(end - start, 1)
        first = size * generator.integers(min(1 + int(_CHOICE * progress / _GROWTH), _CHOICE))
        return [utterances[i] for i in drawn[first : first + size]]


def padded_log_mel(waveforms):
    """Return padded log-mel features (utterance, frame, band), and the numbers of frames.

    Parameters
    ----------
    waveforms : list of float arrays of shape (sample,)
    """
    padded = np.zeros((len(waveforms), max(map(len, waveforms))), waveforms[0].dtype)
    for row, waveform in zip(padded, waveforms, strict=True):
        row[: len(waveform)] = waveform
    lengths = np.array([1 + (len(waveform) - _WINDOW) // HOP for waveform in waveforms])
    return log_mel_spectrogram(padded, SAMPLE_RATE, MELS, _WINDOW, HOP, _FFT), lengths


def log_mel(waveforms):
    """Return standardized log-mel features, and the numbers of frames.

    Parameters
    ----------
    waveforms : list of float arrays of shape (sample,)

    Returns
    -------
    features : float array of shape (utterance, frame, band)
        Each band of an utterance has mean 0 and variance 1, and padding is 0.
    lengths : int64 array of shape (utterance,)

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> features, lengths = log_mel([rng.normal(size=1000), rng.normal(size=520)])
    >>> features.shape, lengths, float(abs(features[1, :5].mean(0)).max()) < 1e-12
    ((2, 11, 40), array([11,  5]), True)
    """
    features, lengths = padded_log_mel(waveforms)
    sound = (np.arange(features.shape[1]) < lengths[:, None])[..., None]  # (utterance, frame, 1)
    count = lengths[:, None, None]
    centered = features - (features * sound).sum(1, keepdims=True) / count
    centered *= sound
    variance = (centered**2).sum(1, keepdims=True) / count
    return (centered / np.sqrt(variance + 1e-5)).astype(features.dtype), lengths


def frame_centers(count):
    """For each output frame of the encoder, return the center of the sound that it covers.

    The centers are sample indices, for the first `count` output frames. The encoder's two
    subsampling convolutions compute output frame i from the input frames 4 i to 4 i + 6.

    Examples
    --------
    >>> frame_centers(3)
    array([340, 660, 980])
    """
    return (4 * np.arange(count) + 3) * HOP + _WINDOW // 2


def labels_of(digits):
    """Return the digits' labels (utterance, `MOST`), padded with 0, and their number per utterance.

    Examples
    --------
    >>> labels_of([[4, 0, 4], [9, 8, 7, 6]])
    (array([[ 5,  1,  5,  0,  0,  0,  0],
           [10,  9,  8,  7,  0,  0,  0]]), array([3, 4]))
    """
    labels = np.zeros((len(digits), MOST), np.int64)
    for row, some in zip(labels, digits, strict=True):
        row[: len(some)] = np.add(some, 1)
    return labels, np.array([len(some) for some in digits])


def written(labels, counts):
    """Return the decoder's targets: labels, end token, and padding to `MOST` + 1 tokens.

    Examples
    --------
    >>> written(*labels_of([[4, 0, 4], [9, 8, 7, 6]]))
    array([[ 5,  1,  5, 12,  0,  0,  0,  0],
           [10,  9,  8,  7, 12,  0,  0,  0]])
    """
    found = np.pad(labels, ((0, 0), (0, 1)))
    found[np.arange(len(found)), counts] = END
    return found
