"""Batches for the VATT recipe: clips of a moving digit, two spoken words, and sentences."""

from typing import NamedTuple

import numpy as np

from ...data.audio import log_mel_spectrogram
from ...data.moving_digits import DIRECTIONS, draw_clips
from ...data.spoken_digits import DIGIT_WORDS, SAMPLE_RATE, draw_speakers, say_digits
from ...tensor import tensor
from .phases import RecipeStream

__all__ = [
    "BANDS", "FRAMES", "GALLERY", "KEYS", "LONGEST", "NAMES", "SIDE", "SOUND", "WORDS", "Examples",
    "VattBatches", "Voices", "draw_examples", "galleries", "sentence_of", "words_of",
]  # fmt: skip

SIDE, FRAMES = 24, 8  # pixels per side of a clip, and number of frames
SOUND, BANDS = 80, 24  # frames (1.2 s) and bands of a spectrogram
NAMES = list(DIRECTIONS)
# Keys of a numeric keypad, by direction from the key 5. For example, 9 is up right.
KEYS = np.array([8, 9, 6, 3, 2, 1, 4, 7])
WORDS = (
    "<pad>", *DIGIT_WORDS, "up", "down", "left", "right", "the", "now", "moves", "goes"
)  # fmt: skip
GALLERY = 50  # number of candidates in a retrieval test
_OPENINGS = ((), ("the",), ("now", "the"))
_VERBS = ("moves", "goes")
LONGEST = 6  # "now the seven moves down left"
_HOP, _WINDOW = 120, 240  # samples
_GAP = (1, 7)  # number of silent frames before a word: minimum, and maximum + 1
_HISS = 0.002  # standard deviation of the noise; that of the words is 0.05
_SPEED = 1  # pixels per frame
_NEAR_CENTER = 0.0  # fraction of the free space that the paths may use
_MEAN, _SPREAD = -4.0, 2.5  # approximate mean and standard deviation of log-mel spectrograms


class Voices:
    """Recordings of single digits, from which utterances are assembled.

    Parameters
    ----------
    speakers, takes : int
        Number of speakers, and number of times that each speaker says each digit.
    generator : numpy.random.Generator

    Attributes
    ----------
    words : list of list of list of float32 array of shape (frame, `BANDS`)
        Standardized log-mel spectrograms by speaker, digit and take.
    silence : float32 array of shape (frame, `BANDS`)
        Spectrogram of a long pause.
    """

    def __init__(self, speakers, takes, generator):
        def record(waveform):
            hiss = generator.standard_normal(len(waveform), np.float32)
            waveform = waveform + np.float32(_HISS) * hiss
            found = log_mel_spectrogram(waveform, SAMPLE_RATE, BANDS, _WINDOW, _HOP)
            return (found - np.float32(_MEAN)) / np.float32(_SPREAD)

        def say(digit, speaker):
            return record(say_digits([digit], speaker, generator, gap=(0, 0))[0])

        self.words = [
            [[say(digit, speaker) for _ in range(takes)] for digit in range(10)]
            for speaker in draw_speakers(speakers, generator)
        ]
        self.silence = record(np.zeros(10 * _HOP * SOUND, np.float32))

    def say(self, digits, generator):
        """Assemble utterances of digits, each from one random speaker's recordings, with pauses.

        Parameters
        ----------
        digits : int array of shape (utterance, word)
        generator : numpy.random.Generator

        Returns
        -------
        float32 array of shape (utterance, `SOUND`, `BANDS`)
            Spectrograms, truncated to `SOUND` frames.
        """
        starts = generator.integers(len(self.silence) - SOUND, size=len(digits))
        found = self.silence[starts[:, None] + np.arange(SOUND)]
        for frames, row in zip(found, digits, strict=True):
            speaker, time = self.words[generator.integers(len(self.words))], 0
            for digit in row:
                time += generator.integers(*_GAP)
                takes = speaker[digit]
                word = takes[generator.integers(len(takes))][: max(SOUND - time, 0)]
                frames[time : time + len(word)] = word
                time += len(word)
        return found


class Examples(NamedTuple):
    """Video clips with their sounds and sentences.

    Attributes
    ----------
    video : float32 array of shape (clip, 1, `FRAMES`, `SIDE`, `SIDE`)
    audio : float32 array of shape (clip, `SOUND`, `BANDS`)
    text : int64 array of shape (clip, sentence, `LONGEST`)
        Word ids, 0 for padding.
    digits, directions : int64 array of shape (clip,)
        Content of the clip, which is not used for training.
    """

    video: np.ndarray
    audio: np.ndarray
    text: np.ndarray
    digits: np.ndarray
    directions: np.ndarray


def sentence_of(digit, direction, generator):
    """Return a sentence about a moving digit, as a list of words.

    Parameters
    ----------
    digit, direction : int
        The direction is an index into `NAMES`.
    generator : numpy.random.Generator

    Examples
    --------
    >>> " ".join(sentence_of(7, 6, np.random.default_rng(0)))
    'now the seven goes left'
    """
    opening = _OPENINGS[generator.integers(len(_OPENINGS))]
    verb = _VERBS[generator.integers(len(_VERBS))]
    return [*opening, DIGIT_WORDS[digit], verb, *NAMES[direction].split()]


def words_of(ids):
    """Return the text of word ids.

    Examples
    --------
    >>> words_of([15, 8, 17, 13, 0, 0])
    'the seven moves left'
    """
    return " ".join(WORDS[i] for i in ids if i)


def draw_examples(count, digits, voices, generator, noise=0.0, others=None):
    """Generate clips with matching sounds and sentences.

    The sound is two spoken digits: the digit in the clip, and the key that lies in the direction of
    movement from the 5 of a numeric keypad. "Seven four" is a seven that moves left. The sentences
    describe the same movement.

    Parameters
    ----------
    count : int
    digits : (list of array, int array)
        Enlarged digits and their labels: the second and third arguments of `draw_clips`.
    voices : Voices
    generator : numpy.random.Generator
    noise : float, default 0
        Standard deviation of Gaussian noise on all pixels.
    others : float, optional
        Probability that the second sentence of a clip is about a random digit and direction instead
        of the clip's. By default, clips do not have a second sentence.

    Returns
    -------
    Examples
    """
    clips = draw_clips(count, *digits, generator, SIDE, FRAMES, noise, _NEAR_CENTER, (_SPEED,))
    spoken = np.stack([clips.digits, KEYS[clips.directions]], 1)
    said = [np.stack([clips.digits, clips.directions], 1)]
    if others is not None:
        about = np.stack([generator.integers(n, size=count) for n in (10, len(NAMES))], 1)
        said.append(np.where(generator.random((count, 1)) < others, about, said[0]))
    text = np.zeros((count, len(said), LONGEST), np.int64)
    for row, place in np.ndindex(text.shape[:2]):
        words = sentence_of(*said[place][row], generator)
        text[row, place, : len(words)] = [WORDS.index(word) for word in words]
    audio = voices.say(spoken, generator)
    return Examples(clips.frames, audio, text, clips.digits, clips.directions)


def galleries(kinds, count, generator):
    """Return random sets of examples. No two examples in a set have the same content.

    Parameters
    ----------
    kinds : int array of shape (example,)
        Content of each example, as a number: examples with the same number have the same content.
    count : int
        Number of sets.
    generator : numpy.random.Generator

    Returns
    -------
    int64 array of shape (count, `GALLERY`)
        Indices of the examples. If there are fewer than `GALLERY` different contents, there is one
        column per content.
    """
    found = []
    for _ in range(count):
        order = generator.permutation(len(kinds))
        _, first = np.unique(kinds[order], return_index=True)
        found.append(order[generator.permutation(first)[:GALLERY]])
    return np.array(found)


class VattBatches(RecipeStream):
    """Batches of clips, each with a sound and two sentences. Batch n depends only on (seed, n).

    Parameters
    ----------
    recipe : Vatt
    """

    def __next__(self):
        """Return video, audio and text, as in `Examples`."""
        generator = np.random.default_rng([self.seed, self.position])
        options = self.recipe.options
        drawn = draw_examples(
            self.batch_size, *self.recipe.training, generator, options["noise"], options["others"]
        )
        self.position += 1
        parts = drawn.video.astype(self.dtype), drawn.audio.astype(self.dtype), drawn.text
        return tuple(tensor(part, device=self.device) for part in parts)
