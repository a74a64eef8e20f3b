# %% [markdown]
# # Sound into tokens: waveform, spectrogram, mel, patches
#
# Two seconds of a telephone call are 16,000 numbers, and none of them means anything by itself.
# What should the tokens of a sound be, so that a Transformer can read it? Why do nearly all speech
# models start with the same picture, the log-mel spectrogram?
#
# *Prerequisites:* attention (lesson 8) and patches of an image (lesson 21).

# %%
import numpy as np

import minitorch_attn as mt
from minitorch_attn.course.lesson import show, where
from minitorch_attn.course.your_turn import check
from minitorch_attn.data import audio
from minitorch_attn.data.spoken_digits import (
    DIGIT_WORDS,
    add_noise,
    draw_speakers,
    draw_utterances,
    say_digits,
)
from minitorch_attn.viz.style import COLOURS, new_figure

mt.manual_seed(0)
rng = np.random.default_rng(0)

# %% [markdown]
# ## The waveform
#
# A microphone measures the air pressure, here 8,000 times per second. The speech in this lesson is
# synthetic: `spoken_digits.py` excites a model of the mouth with pulses (vowels) and noise
# (consonants), and each synthetic speaker has their own pitch, tempo and timbre. No download is
# needed, and the time of each word is known.

# %%
RATE = 8000
speakers = draw_speakers(30, rng)
utterance = draw_utterances(1, speakers, rng, shortest=4, longest=4, snr=20)[0]
waveform = utterance.waveform
print("digits   ", utterance.digits)
print("samples  ", len(waveform), f"({len(waveform) / RATE:.1f} s)")
print("scores of one attention head, if each sample were a token:", f"{len(waveform) ** 2:,}")

# %% [markdown]
# ## Frames
#
# Within 25 ms the mouth hardly moves. So we cut the sound into **frames** of 25 ms, one every 10
# ms. We multiply each frame by a **window** that falls to zero at both ends. The section "What goes
# wrong without a window" shows why. For a frame of $N$ samples, the Hann window is
# $w_n = \frac12 - \frac12 \cos(2 \pi n / N)$.

# %% [markdown] tags=["your-turn"]
# ## Your turn: windowed frames
#
# Write `windowed_frames(waveform, size, hop)`. `waveform` has shape (sample,). Return the frames of
# `size` samples that start at 0, `hop`, 2 `hop`, ..., each multiplied by the Hann window, as a
# tensor of shape (frame, size). Drop the samples after the last complete frame.
#
# *Hint:* How many frames fit? An index of shape (frame, size) is a column of starts plus a row
# `mt.arange(size)`.


# %% tags=["answer"]
def windowed_frames(waveform, size, hop):
    """Return the frames times the Hann window, shape (frame, size)."""
    count = (len(waveform) - size) // hop + 1
    index = mt.arange(count).unsqueeze(1) * hop + mt.arange(size)  # (frame, size)
    window = 0.5 - 0.5 * mt.cos(2 * np.pi * mt.arange(size, dtype=waveform.dtype) / size)
    return waveform[index] * window


# %% tags=["check"]
check(
    windowed_frames,
    cases=[(mt.randn(23), 7, 3), (mt.randn(11), 5, 6), (mt.randn(5), 5, 2)],
    expected=lambda waveform, size, hop: mt.stack(
        [
            waveform[start : start + size] * mt.tensor(audio.window(size))
            for start in range(0, len(waveform) - size + 1, hop)
        ]
    ),
    properties={"each frame starts with 0": lambda y, *_: (abs(y[:, 0]) < 1e-9).all()},
)

# %% [markdown]
# ## The spectrogram
#
# The Fourier transform of a frame shows how strong each frequency is in it, and its squared
# magnitude is the power. Placed side by side, the power spectra of all frames form the
# **spectrogram**, a picture with time from left to right and frequency from bottom to top. A vowel
# is a stack of bright bands, the resonances of the mouth ("formants"). An "s" is noise at the top.

# %%
power = audio.power_spectrogram(waveform, window_size=200, hop=80)  # 25 ms and 10 ms
print("spectrogram", power.shape, "(frame, frequency)")
assert power.shape == ((len(waveform) - 200) // 80 + 1, 200 // 2 + 1)

# %% tags=["plot"]
words = [(*span, DIGIT_WORDS[d]) for span, d in zip(utterance.spans, utterance.digits, strict=True)]
figure = mt.viz.sound_figure(waveform, np.log(power + 1e-6), RATE, 80, words, "Four spoken digits")
figure.axes[1].set_yticks(range(0, 101, 25), [f"{40 * k}" for k in range(0, 101, 25)])
figure.axes[1].set_ylabel("frequency in Hz")
show(figure, "Each word has its own pattern. The waveform above shows little more than loudness.")

# %% [markdown]
# Short frames show precisely *when* something happens, and long frames show precisely *which
# frequency* it has. No frame length is good at both.

# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# Two flutes play tones of 1000 and 1040 Hz. We compute spectra with Hann windows of 12.5, 25, 50
# and 100 ms. Which of them show two peaks? Write down your answer, then run the next cell.

# %%
time = np.arange(2 * RATE) / RATE
flutes = np.sin(2 * np.pi * 1000 * time) + np.sin(2 * np.pi * 1040 * time)
peaks = {}
for milliseconds in (12.5, 25, 50, 100):
    size = int(RATE * milliseconds / 1000)
    spectrum = audio.power_spectrogram(flutes, size, 37, fft_size=4096).mean(0)
    inner = spectrum[1:-1]
    is_peak = (inner > spectrum[:-2]) & (inner > spectrum[2:]) & (inner > 0.1 * inner.max())
    peaks[milliseconds] = (np.flatnonzero(is_peak) + 1) * RATE / 4096
    print(f"{milliseconds:5} ms: peaks at", peaks[milliseconds].round().astype(int), "Hz")
assert [len(found) for found in peaks.values()] == [1, 1, 2, 2]

# %% [markdown]
# A window of $T$ seconds blurs each tone into a band of about $4/T$ Hz: 160 Hz for the usual 25 ms,
# 40 Hz for 100 ms. Padding the frames with zeros to 4,096 samples made the curves smooth, but added
# no information. Speech needs short windows, because a "t" lasts 20 ms. In such windows, the
# harmonics of a low voice, which are 100 Hz apart, blur into one band. This loss of detail is an
# advantage for recognizing words, because the pitch of a voice does not matter.
#
# ## Mel: fewer bands, spaced as we hear them
#
# We hear the step from 200 to 300 Hz as large and the step from 3,200 to 3,300 Hz as small. The
# **mel** scale makes equal steps sound equally large: $m = 2595 \log_{10}(1 + f / 700)$. A mel
# filter bank sums the power under triangles whose edges $p_0 < p_1 < \dots$ are equally spaced in
# mel. Triangle $i$ rises from 0 at $p_i$ to 1 at $p_{i+1}$ and falls to 0 at $p_{i+2}$.

# %% [markdown] tags=["your-turn"]
# ## Your turn: triangles
#
# Write `triangles(frequency, points)`. `frequency` has shape (frequency,). `points` has shape
# (mel + 2,) and contains the edges $p_i$. Both are in Hz. Return the values of all triangles at all
# frequencies, of shape (frequency, mel).
#
# *Hint:* Compute the rising line through $(p_i, 0)$ and $(p_{i+1}, 1)$ and the falling line, for
# all $i$ at once. A triangle is the smaller of the two, but never below 0.


# %% tags=["answer"]
def triangles(frequency, points):
    """Return the filters, shape (frequency, mel)."""
    left, middle, right = points[:-2], points[1:-1], points[2:]  # (mel,)
    rising = (frequency.unsqueeze(1) - left) / (middle - left)
    falling = (right - frequency.unsqueeze(1)) / (right - middle)
    return mt.minimum(rising, falling).clamp(min=0)


# %% tags=["check"]
check(
    triangles,
    cases=[
        (mt.arange(9) * 4000 / 8, mt.tensor(audio.mel_to_hertz(np.linspace(0, 2146.06, 7)))),
        (mt.tensor([0.0, 2.0, 9.0]), mt.tensor([1.0, 3.0, 4.0, 8.0])),
        (mt.tensor([5.0]), mt.tensor([1.0, 3.0, 11.0])),
    ],
    expected=lambda frequency, points: mt.stack(
        [
            mt.where(
                f <= points[1:-1],
                (f - points[:-2]) / (points[1:-1] - points[:-2]),
                (points[2:] - f) / (points[2:] - points[1:-1]),
            ).clamp(min=0)
            for f in frequency
        ]
    ),
    properties={"no value is above 1": lambda y, *_: y.max() <= 1},
)

# %%
filters = audio.mel_filters(num_mels=20, fft_size=200, sample_rate=RATE)
print("filters", filters.shape, "(frequency, mel)")
print("frequencies under the first and the last triangle:", (filters[:, [0, -1]] > 0).sum(0))
mel = audio.log_mel_spectrogram(waveform, RATE, num_mels=20, window_size=200, hop=80)
assert np.allclose(mel, np.log(np.maximum(power @ filters, 1e-10)), atol=1e-4)

# %% tags=["plot"]
figure = new_figure(9, 4.8)
upper, lower = figure.subplots(2, 1)
for m, column in enumerate(filters.T):
    upper.plot(np.arange(101) * 40, column, color=COLOURS[m % 3], linewidth=1)
upper.set(xlabel="frequency in Hz", title="20 mel filters", xlim=(0, 4000))
lower.imshow(mel.T, origin="lower", aspect="auto", cmap="magma", extent=(0, len(mel) / 100, 0, 20))
lower.set(xlabel="time in seconds", ylabel="mel band", title="log-mel spectrogram")
show(figure, "Narrow filters for low frequencies, wide ones for high: 101 numbers become 20.")

# %% [markdown]
# ## What the mel bands and the logarithm are good for
#
# Do the mel bands lose anything that a recognizer needs? We classify single words, in noise as loud
# as the speech (0 dB). The references are words from 20 speakers. Each word of 10 *other* speakers
# gets the label of its nearest neighbor among the references. For this comparison, each word is
# reduced to 12 points in time.


# %%
def spoken_words(of):
    """Let each speaker say all ten digits in noise. Return a list of waveforms, and the labels."""
    found = []
    for speaker in of:
        for digit in range(10):
            sound, ((start, end),) = say_digits([digit], speaker, rng)
            found.append(add_noise(sound[start:end], 0, rng))
    return found, np.tile(np.arange(10), len(of))


def twelve_moments(features):
    """Return the features (frame, ...) at 12 equally spaced times, minus their mean."""
    place = np.linspace(0, len(features) - 1, 12).round().astype(int)
    return (features[place] - features[place].mean()).ravel()


def mel_bands(sound):
    return audio.log_mel_spectrogram(sound, RATE, 20, 200, 80, floor=1e-6)


FEATURES = {
    "waveform": lambda sound: sound[: len(sound) // 100 * 100].reshape(-1, 100),
    "power": lambda sound: audio.power_spectrogram(sound, 200, 80),
    "log power": lambda sound: np.log(audio.power_spectrogram(sound, 200, 80) + 1e-6),
    "mel": lambda sound: np.exp(mel_bands(sound)),
    "log-mel": mel_bands,
}
known, labels = spoken_words(speakers[:20])
new, truth = spoken_words(speakers[20:])
right = {}
print("                numbers   correct words of new speakers (a guess: 10%)")
for name, features in FEATURES.items():
    a, b = (np.array([twelve_moments(features(s)) for s in part]) for part in (known, new))
    nearest = ((b[:, None] - a) ** 2).sum(-1).argmin(1)
    right[name] = (labels[nearest] == truth).mean()
    print(f"{name:15} {a.shape[1]:7} {right[name]:7.0%}")
assert right["log-mel"] > 0.9 > right["log power"] > right["waveform"] + 0.3
assert right["log-mel"] > right["mel"] > right["power"]

# %% [markdown]
# The raw waveform is useless for this comparison: two recordings of the same word never have the
# same waveform. The logarithm turns loudness into an offset, and it gives weak consonants more
# weight. But it also gives more weight to frequencies that contain only noise. A mel band averages
# the noise of several frequencies *before* the logarithm, so mel bands work better than single
# frequencies. The mel representation is five times smaller than the spectrogram, and gives better
# results. It loses pitch and fine detail, which do not matter for this task (though they do for
# music).
#
# ## Three kinds of tokens
#
# The COMP541 deck ("Pre-training in Speech") says "with spectrograms instead of images";
# `docs/decks.md` lists the decks. But patches of a spectrogram are only one of three kinds of
# tokens that speech models use:
#
# - **frames**: Conformer (arXiv:2005.08100v1) and Whisper (arXiv:2212.04356v1) read frames of 80
#   mel bands, one every 10 ms. Strided convolutions first halve the number of frames once or twice.
# - **patches of the spectrogram**: AST (arXiv:2104.01778v3) treats the spectrogram as an image, and
#   cuts it into patches of 16 x 16, as ViT does.
# - **pieces of the waveform**: VATT (arXiv:2104.11178v3) projects pieces of 128 samples, so the
#   network has to learn about frequencies itself.

# %% [markdown] tags=["your-turn"]
# ## Your turn: patches of a spectrogram
#
# Write `spectrogram_patches(features, frames, bands)`. `features` has shape (frame, mel). Return
# patches of `frames` times `bands` values as rows, of shape (token, frames * bands). The tokens are
# ordered by time, and tokens that start at the same frame are ordered from low to high bands.
# Within a patch, all bands of its first frame come first. Leave out frames and bands that do not
# fill a patch.
#
# *Hint:* Drop the frames and bands that do not fill a patch, then reshape to (patch, frame, patch,
# band). Which two axes must be swapped?


# %% tags=["answer"]
def spectrogram_patches(features, frames, bands):
    """Return the patches, shape (token, frames * bands)."""
    times, heights = features.shape[0] // frames, features.shape[1] // bands
    whole = features[: times * frames, : heights * bands]
    parts = whole.reshape(times, frames, heights, bands)
    return parts.transpose(1, 2).reshape(times * heights, frames * bands)


# %% tags=["check"]
check(
    spectrogram_patches,
    cases=[(mt.randn(13, 11), 3, 5), (mt.randn(4, 6), 4, 2), (mt.randn(7, 5), 2, 5)],
    expected=lambda features, frames, bands: mt.stack(
        [
            features[t : t + frames, b : b + bands].flatten()
            for t in range(0, features.shape[0] - frames + 1, frames)
            for b in range(0, features.shape[1] - bands + 1, bands)
        ]
    ),
    properties={
        "the first patch begins in the first frame": lambda y, x, frames, bands: (
            y[0, :bands] == x[0, :bands]
        ).all()
    },
)

# %%
seconds = 10
print(f"{seconds} s of sound                     tokens    scores per head")
counts = {
    "samples, 8 kHz": seconds * 8000,
    "128 samples at 48 kHz (VATT)": seconds * 48000 // 128,
    "frames, every 10 ms": seconds * 100,
    "frames, every 40 ms (Conformer)": seconds * 25,
    "patches of 16 x 16 of 128 bands": seconds * 100 // 16 * (128 // 16),
}
for name, tokens in counts.items():
    print(f"{name:34} {tokens:6,} {tokens**2:18,}")

# %% [markdown]
# Pieces of the waveform and the log-mel spectrogram also react differently to a small delay. We
# delay a word by half a millisecond, which nobody can hear, and correlate each representation of
# the word with the same representation of the delayed word.


# %%
def correlation(a, b):
    return np.corrcoef(a.ravel(), b.ravel())[0, 1]


word = say_digits([9], speakers[0], rng)[0]
one, late = word[200:3400], word[196:3396]
print(f"pieces of the waveform   {correlation(one, late):5.2f}")
print(f"log-mel spectrogram      {correlation(mel_bands(one), mel_bands(late)):5.2f}")
assert correlation(one, late) < 0.7 < 0.95 < correlation(mel_bands(one), mel_bands(late))

# %% [markdown]
# A token of raw samples changes with every shift, and a network has to learn to ignore this change.
# With enough data, it can learn this. The power spectrum ignores small shifts by construction: a
# shift changes only the phase of each frequency, and the squared magnitude does not depend on the
# phase.
#
# ## What goes wrong without a window
#
# A frame that is cut out without a window ends in the middle of a wave. The Fourier transform
# treats the frame as if it repeated forever, so there is a jump from the end of the frame to its
# start. This jump spreads the tone over all frequencies ("leakage"). A second tone, 60 dB weaker
# than the first, disappears in this leakage.

# %%
tones = np.sin(2 * np.pi * 1015 * time) + 0.001 * np.sin(2 * np.pi * 2500 * time)
decibels = {}
for kind in ("rectangular", "hann"):
    spectrum = audio.power_spectrogram(tones, 200, 200, kind=kind)[3]
    decibels[kind] = 10 * np.log10(spectrum / spectrum.max())
    beside, weak = decibels[kind][55], decibels[kind][62:64].max()  # at 2200 and about 2500 Hz
    print(f"{kind:12} at 2200 Hz: {beside:6.1f} dB   at 2500 Hz: {weak:6.1f} dB")
assert decibels["rectangular"][55] > -50  # no tone here, yet above the weak tone's -60 dB
assert decibels["hann"][55] < -80 and -65 < decibels["hann"][62:64].max() < -55

# %% tags=["plot"]
figure = new_figure(8, 3.2)
axes = figure.subplots()
for (kind, curve), colour in zip(decibels.items(), (COLOURS[1], COLOURS[0]), strict=True):
    axes.plot(np.arange(101) * 40, curve, color=colour, label=f"{kind} window")
axes.set(xlabel="frequency in Hz", ylabel="power in dB", ylim=(-125, 3))
axes.legend()
show(figure, "With the Hann window, the second tone stands out; without a window, it is hidden.")

# %% [markdown]
# Filters can leak, too. If the lines of a triangle are not cut off at 0, the filter has negative
# values, and its band subtracts the power of distant loud frequencies. In exercise 56 below, low
# tones appear in bands that begin above their frequency.
#
# ## In the library

# %%
where(
    audio.frames, audio.stft, audio.mel_filters, audio.log_mel_spectrogram, audio.spec_augment,
    audio.read_wav, say_digits,
)  # fmt: skip

# %% [markdown]
# ## Exercise
#
# Record yourself, or take any WAV file, and read it with `mt.data.read_wav`. Compute its log-mel
# spectrogram with 40 bands and plot it with `mt.viz.sound_figure`. Then halve and double the length
# of the window, and say what becomes sharper and what becomes blurred. At which length do you see
# the individual pulses of the voice, and at which its harmonics?
#
# Then practice:
#
# ```sh
# mta exercise start 56
# ```
#
# ## Three questions
#
# 1. A word is spoken twice as loud. What happens to its log-mel spectrogram?
# 2. The sound is white noise. Why does the logarithm of a mel band above 3 kHz vary less from frame
#    to frame than the logarithm of a single frequency of the transform?
# 3. The sound can be reconstructed from tokens of a waveform, but not from a log-mel spectrogram.
#    What is missing, and for which task would that matter?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. The power is multiplied by 4, so all entries grow by $\ln 4 \approx 1.4$, except where the
#    power is below the minimum at which it is clipped before the logarithm. Subtracting the mean of
#    an utterance removes this offset.
# 2. A mel band is a weighted sum of many frequencies with independent noise, so its relative
#    variation is smaller. The logarithm turns relative variation into absolute variation.
# 3. The phases are missing, and so is the detail within a band. For recognizing words, this loss is
#    an advantage. To synthesize speech, a second model (a vocoder) has to invent what is missing.
