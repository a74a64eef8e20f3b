"""CTC decoding: find the labels of a sequence of frames, greedily or by prefix beam search.

Greedy decoding takes the most probable alignment of labels to frames (Graves et al., ICML 2006,
section 3.2, "best path decoding"). Prefix beam search (Hannun et al. 2014, arXiv:1408.2873v2,
algorithm 1, without a language model) sums over all alignments of a label sequence.
"""

import numpy as np

from ..computes import computes
from ..errors import ArgumentError, DTypeError, ShapeError
from ..named_errors import names_arguments
from ..tensor import Tensor, tensor
from .processors import whole

__all__ = ["ctc_decode"]


@computes("CTC decoding")
@names_arguments
def ctc_decode(log_probs, input_lengths=None, blank=0, beam_width=None):
    """Decode the output of a CTC model into label sequences.

    In an alignment (one class per frame), repeated labels are merged, and then blanks are removed.

    Parameters
    ----------
    log_probs : Tensor of shape (time, batch, class)
        Log-probabilities of the labels at each frame, as `log_softmax` returns them.
    input_lengths : integer Tensor, or tuple or list of int, of length batch, optional
        Number of frames of each sequence. By default, all frames are used.
    blank : int, default 0
        Class that means "no label".
    beam_width : int, optional
        Number of prefixes that prefix beam search keeps after each frame. By default, decoding is
        greedy: it takes the best label of each frame and, in a tie, the first of the best labels.

    Returns
    -------
    list of (Tensor, float)
        Labels (int64 of shape (length,), on the device of `log_probs`) and score of each sequence.
        With greedy decoding, the score is the log-probability of the best alignment. With beam
        search, it is the logarithm of the summed probability of all alignments that were kept.

    Raises
    ------
    ShapeError, DTypeError, ArgumentError
        If `log_probs` has the wrong shape or dtype, or another argument is out of range.

    Notes
    -----
    The search runs on the host in float64. It reads `log_probs` from the device once.

    References
    ----------
    .. [1] A. Graves et al., "Connectionist Temporal Classification", ICML 2006, section 3.2.
    .. [2] A. Hannun et al., "First-Pass Large Vocabulary Continuous Speech Recognition using
       Bi-Directional Recurrent DNNs", arXiv:1408.2873v2, algorithm 1.

    Examples
    --------
    The best alignment of two frames is two blanks, 0.6 * 0.6 = 0.36. The label 1 has three
    alignments, which sum to 0.64:

    >>> import minitorch_attn as mt
    >>> log_probs = mt.tensor([[[0.6, 0.4]], [[0.6, 0.4]]]).log()
    >>> [(labels, score)] = mt.ctc_decode(log_probs)
    >>> print(labels.tolist(), f"{score:.4f}")  # log 0.36
    [] -1.0217
    >>> [(labels, score)] = mt.ctc_decode(log_probs, beam_width=3)
    >>> print(labels.tolist(), f"{score:.4f}")  # log 0.64
    [1] -0.4463
    """
    _check(log_probs, blank, beam_width)
    lengths = _frames_of(input_lengths, *log_probs.shape[:2])
    frames = log_probs.detach().numpy().astype("float64")
    found = []
    for b, length in enumerate(lengths):
        rows = frames[:length, b]  # (time, class)
        labels, score = (
            _best_path(rows, blank) if beam_width is None else _beam(rows, blank, beam_width)
        )
        found.append((tensor(labels, dtype="int64", device=log_probs.device), score))
    return found


def _check(log_probs, blank, beam_width):
    """Raise an error if `log_probs`, `blank` or `beam_width` is invalid."""
    if not isinstance(log_probs, Tensor) or log_probs.dtype.kind != "f":
        raise DTypeError(
            "ctc_decode: log_probs must be a floating-point tensor",
            got=f"log_probs {getattr(log_probs, 'dtype', type(log_probs).__name__)}",
        )
    if log_probs.ndim != 3 or not log_probs.shape[2]:
        raise ShapeError(
            "ctc_decode: log_probs must have 3 axes and at least one class",
            got=f"log_probs {log_probs.shape}",
            expected="(time, batch, class)",
            hint="log_probs.unsqueeze(1) if there is no batch axis",
        )
    if whole(blank, "blank", "ctc_decode", 0) >= log_probs.shape[2]:
        raise ArgumentError(
            "ctc_decode: blank must be a class index",
            got=f"blank={blank} with {log_probs.shape[2]} classes",
        )
    if beam_width is not None:
        whole(beam_width, "beam_width", "ctc_decode")


def _frames_of(input_lengths, times, batch):
    """Return a list of int: the number of frames of each sequence."""
    if input_lengths is None:
        return [times] * batch
    lengths = input_lengths.tolist() if isinstance(input_lengths, Tensor) else list(input_lengths)
    if not isinstance(lengths, list) or len(lengths) != batch:
        raise ShapeError(
            "ctc_decode: input_lengths must have one length per sequence",
            got=f"input_lengths {input_lengths!r:.60} for {batch} sequences",
        )
    for length in lengths:
        if whole(length, "input_lengths", "ctc_decode", 0) > times:
            raise ArgumentError(
                "ctc_decode: input_lengths must not exceed the number of frames",
                got=f"a length of {length} for {times} frames",
            )
    return lengths


def _best_path(rows, blank):
    """Return the labels of the most probable alignment, and its log-probability."""
    path = rows.argmax(axis=1)
    first = np.ones(len(path), dtype=bool)  # start of each run of equal labels
    first[1:] = path[1:] != path[:-1]
    return path[first & (path != blank)].tolist(), float(rows.max(axis=1).sum())


def _beam(rows, blank, width):
    """Return the labels and the log-probability of the best prefix after the last frame.

    For each prefix, `ends_blank` is the log-probability of all its alignments that end in a blank.
    `ends_label` is the log-probability of all its alignments that end in its last label.
    """
    prefixes, ends_blank, ends_label = [()], np.zeros(1), np.full(1, -np.inf)
    for row in rows:
        stay_blank, stay_label, grown = _step(prefixes, ends_blank, ends_label, row, blank)
        # Candidates: the unchanged prefixes, then each prefix extended by each label.
        ends_blank = np.concatenate([stay_blank, np.full(grown.size, -np.inf)])
        ends_label = np.concatenate([stay_label, grown.reshape(-1)])
        score = np.logaddexp(ends_blank, ends_label)
        count, classes = grown.shape
        order = np.argsort(-score, kind="stable")[:width]
        order = order[(order < count) | (score[order] > -np.inf)]
        ends_blank, ends_label = ends_blank[order], ends_label[order]
        prefixes = [
            prefixes[k] if k < count else (*prefixes[(k - count) // classes], (k - count) % classes)
            for k in order.tolist()
        ]
    total = np.logaddexp(ends_blank, ends_label)
    best = int(total.argmax())
    return list(prefixes[best]), float(total[best])


def _step(prefixes, ends_blank, ends_label, row, blank):
    """Return the log-probabilities of prefixes after one more frame, as three arrays.

    The first two have shape (prefix,) and are for the given prefixes: the alignments that end in a
    blank, and those that end in the prefix's last label. The third has shape (prefix, class) and is
    for each prefix extended by each label. An entry is -inf if the extended prefix is one of the
    given prefixes; its probability is then part of the second array.

    A blank leaves a prefix unchanged. A label extends the prefix, with one exception: if the label
    repeats the last label of the prefix with no blank in between, the prefix is unchanged.
    """
    total = np.logaddexp(ends_blank, ends_label)
    grown = total[:, None] + row  # (prefix, class)
    grown[:, blank] = -np.inf
    stay_label = np.full(len(prefixes), -np.inf)
    place = {prefix: i for i, prefix in enumerate(prefixes)}
    longer = [(i, prefix) for i, prefix in enumerate(prefixes) if prefix]
    for i, (*_, last) in longer:
        grown[i, last] = ends_blank[i] + row[last]
        stay_label[i] = ends_label[i] + row[last]
    for i, (*parent, last) in longer:
        if (parent := place.get(tuple(parent))) is not None:
            # An extension of the parent by one label gives the same prefix.
            stay_label[i] = np.logaddexp(stay_label[i], grown[parent, last])
            grown[parent, last] = -np.inf
    return total + row[blank], stay_label, grown
