"""Sound figures: a waveform with its spectrogram, CTC probabilities, and attention over time."""

import numpy as np

from ..errors import ArgumentError, ShapeError
from ..named_errors import names_arguments
from .style import COLOURS, check_axes, host, new_figure

__all__ = ["ctc_figure", "sound_figure", "time_attention_figure"]


@names_arguments
def sound_figure(waveform, features, sample_rate, hop, words=(), title="Sound"):
    """Plot a waveform, and below it the spectrogram with the same time axis.

    Parameters
    ----------
    waveform : Tensor or array of shape (sample,)
    features : Tensor or array of shape (frame, band)
        Logarithms of a spectrogram, for example from `log_mel_spectrogram`. Values that are more
        than 12 below the largest value have the darkest color.
    sample_rate : float
        Samples per second.
    hop : int
        Number of samples between the starts of two frames.
    words : sequence of (start, end, word), optional
        Labeled parts of the sound: first sample, sample after the last, and label.
    title : str

    Returns
    -------
    matplotlib.figure.Figure
    """
    check_axes(waveform, 1, "sound_figure", "waveform", "(sample,)")
    check_axes(features, 2, "sound_figure", "features", "(frame, band)")
    _check_times(sample_rate, hop, "sound_figure")
    waveform = host(waveform)
    figure = new_figure(9, 4.6)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(2, 3))
    upper.plot(np.arange(len(waveform)) / sample_rate, waveform, color=COLOURS[0], linewidth=0.5)
    upper.set_ylabel("amplitude")
    upper.spines[["top", "right"]].set_visible(False)
    _draw_features(lower, host(features), sample_rate, hop)
    lower.set_xlabel("time in seconds")
    for start, end, word in words:
        for axes, color in ((upper, "0.3"), (lower, "white")):
            for edge in (start, end):
                axes.axvline(edge / sample_rate, color=color, linewidth=0.6, linestyle=":")
        middle = (start + end) / 2 / sample_rate
        upper.annotate(
            word, (middle, 1), xycoords=("data", "axes fraction"), ha="center", va="bottom"
        )
    figure.suptitle(title, fontsize=12)
    return figure


@names_arguments
def time_attention_figure(
    features, weights, labels, sample_rate, hop, title="Attention over time", spans=None
):
    """Plot a spectrogram, and below it the attention of each output over time.

    Parameters
    ----------
    features : Tensor or array of shape (frame, band)
    weights : Tensor or array of shape (output, key)
        Attention weights. The keys divide the duration of the sound into equal parts.
    labels : sequence of str
        Name of each output.
    sample_rate : float
        Samples per second.
    hop : int
        Number of samples between the starts of two frames.
    title : str
    spans : array of shape (output, 2), optional
        First and last sample of the part in which each output was spoken, drawn as a frame.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ShapeError
        If the numbers of labels and outputs differ.
    """
    check_axes(features, 2, "time_attention_figure", "features", "(frame, band)")
    check_axes(weights, 2, "time_attention_figure", "weights", "(output, key)")
    _check_times(sample_rate, hop, "time_attention_figure")
    features, weights = host(features), host(weights)
    if len(labels) != len(weights) or (spans is not None and len(spans) != len(weights)):
        raise ShapeError(
            "time_attention_figure: there must be one label, and one span, for each output",
            got=f"{len(labels)} labels and weights of shape {weights.shape}",
        )
    figure = new_figure(9, 2.9 + 0.3 * len(labels))
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(2, 0.3 + 0.3 * len(labels)))
    _draw_features(upper, features, sample_rate, hop)
    end, outputs = len(features) * hop / sample_rate, len(weights)
    lower.imshow(
        weights, cmap="Blues", vmin=0, aspect="auto", extent=(0, end, outputs - 0.5, -0.5),
        interpolation="nearest",
    )  # fmt: skip
    lower.set_yticks(range(outputs), list(labels))
    lower.set_xlabel("time in seconds")
    lower.set_ylabel("attention of each output")
    for row, (start, stop) in enumerate([] if spans is None else host(spans)):
        left, right = start / sample_rate, stop / sample_rate
        heights = row + np.array([-0.45, -0.45, 0.45, 0.45, -0.45])
        lower.plot([left, right, right, left, left], heights, color=COLOURS[1], linewidth=1)
    figure.suptitle(title, fontsize=12)
    return figure


@names_arguments
def ctc_figure(
    features, probabilities, labels, sample_rate, hop, title="CTC", blank=0, spans=()
):  # fmt: skip
    """Plot a spectrogram, and below it the probability of each CTC label over time.

    Parameters
    ----------
    features : Tensor or array of shape (frame, band)
    probabilities : Tensor or array of shape (key, class)
        Probabilities of the classes. The keys divide the duration of the sound into equal parts.
    labels : sequence of str
        Name of each class. The figure shows the name above each interval in which the class is the
        most probable.
    sample_rate : float
        Samples per second.
    hop : int
        Number of samples between the starts of two frames.
    title : str
    blank : int, default 0
        Class that stands for no label, drawn as a dotted line.
    spans : sequence of (start, end, word), optional
        Spoken words: first sample, sample after the last, and word.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ShapeError
        If the numbers of labels and classes differ.
    """
    check_axes(features, 2, "ctc_figure", "features", "(frame, band)")
    check_axes(probabilities, 2, "ctc_figure", "probabilities", "(key, class)")
    _check_times(sample_rate, hop, "ctc_figure")
    features, probabilities = host(features), host(probabilities)
    keys, classes = probabilities.shape
    if len(labels) != classes:
        raise ShapeError(
            "ctc_figure: there must be one label for each class",
            got=f"{len(labels)} labels and probabilities of shape {probabilities.shape}",
        )
    figure = new_figure(9, 4.8)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(1, 1))
    _draw_features(upper, features, sample_rate, hop)
    times = (np.arange(keys) + 0.5) * (len(features) * hop / sample_rate / max(keys, 1))
    for label, line in enumerate(probabilities.T):
        style = (
            {"color": "0.6", "linestyle": ":"}
            if label == blank
            else {"color": COLOURS[label % len(COLOURS)]}
        )
        lower.plot(times, line, linewidth=1.2, label=labels[label], **style)
    for key, label in _peaks(probabilities, blank):
        color = COLOURS[label % len(COLOURS)]
        place = (times[key], probabilities[key, label] + 0.03)
        lower.annotate(labels[label], place, ha="center", va="bottom", color=color)
    for start, end, word in spans:
        for edge in (start, end):
            upper.axvline(edge / sample_rate, color="white", linewidth=0.8, linestyle=":")
            lower.axvline(edge / sample_rate, color="0.3", linewidth=0.6, linestyle=":")
        middle = (start + end) / 2 / sample_rate
        upper.annotate(
            word, (middle, 1), xycoords=("data", "axes fraction"), ha="center", va="bottom"
        )
    lower.set(xlabel="time in seconds", ylabel="probability (dotted: blank)", ylim=(0, 1.2))
    lower.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title, fontsize=12)
    return figure


def _peaks(probabilities, blank):
    """Yield (key, label) at the peak of each interval where a non-blank label is most probable.

    `key` is the index of the time step, the first axis of `probabilities`.
    """
    best = probabilities.argmax(1) if probabilities.size else np.zeros(0, np.int64)
    edges = np.flatnonzero(np.diff(best, prepend=-1, append=-1))
    for first, last in zip(edges[:-1], edges[1:], strict=True):
        if best[first] != blank:
            label = int(best[first])
            yield first + int(probabilities[first:last, label].argmax()), label


def _check_times(sample_rate, hop, where):
    """Raise ArgumentError if the sample rate or the hop is not a positive number."""
    for name, value in (("sample_rate", sample_rate), ("hop", hop)):
        if np.ndim(value) or not 0 < value < np.inf:
            raise ArgumentError(f"{where}: {name} must be a positive number", got=f"{value!r:.60}")


def _draw_features(axes, features, sample_rate, hop):
    frames, bands = features.shape
    top = features.max() if features.size else 0.0
    extent = (0, max(frames, 1) * hop / sample_rate, -0.5, bands - 0.5)
    axes.imshow(
        features.T, origin="lower", aspect="auto", extent=extent, vmin=top - 12, vmax=top,
        cmap="magma", interpolation="nearest",
    )  # fmt: skip
    axes.set_ylabel("mel band")
