"""Passages from Python's help topics, for pre-training and for classification with few labels."""

import re

import numpy as np

from ..errors import DataError

__all__ = ["HelpPassages"]

_RUN = 5  # paragraphs per run
_SHARE = 4  # one in four runs is held out


class HelpPassages:
    """Passages from the longest help topics, each labeled with its topic.

    The paragraphs of a topic are grouped into runs of five. One run in four is held out. Each
    passage is a part of one run, so training and held-out passages do not share sentences. A
    paragraph that occurs in several topics is used once, for the longest of these topics. Held-out
    paragraphs do not occur in the pre-training text.

    Parameters
    ----------
    topics : int, default 8
        Number of topics to use, starting with the longest.

    Attributes
    ----------
    names : list of str
        Names of the topics.
    training, held_out : list of list of str
        For each topic, its runs of five paragraphs, as plain text in lower case.
    reading : list of str
        Pre-training text: the runs of all topics without the held-out paragraphs.

    Examples
    --------
    >>> help_passages = HelpPassages()
    >>> help_passages.names[:2]
    ['specialnames', 'compound']
    >>> len(help_passages.training[0]) > 2 * len(help_passages.held_out[0]) > 0
    True
    """

    def __init__(self, topics=8):
        runs = _runs_of_topics()
        self.names = list(runs)[:topics]
        self.held_out = [runs[name][_SHARE - 1 :: _SHARE] for name in self.names]
        self.training = [
            [run for place, run in enumerate(runs[name]) if place % _SHARE != _SHARE - 1]
            for name in self.names
        ]
        others = [runs[name] for name in list(runs)[topics:]]
        self.reading = [run for some in (*self.training, *others) for run in some]

    def passages(self, runs, tokenizer, length):
        """Cut runs into non-overlapping passages of a given length, and label each passage.

        Parameters
        ----------
        runs : list of list of str
            `training` or `held_out` of this object.
        tokenizer : WordTokenizer
        length : int
            Number of tokens in a passage.

        Returns
        -------
        ids : int64 array of shape (passage, length)
        labels : int64 array of shape (passage,)
            Index of each passage's topic in `names`.
        """
        found, labels = [], []
        for label, some in enumerate(runs):
            for run in some:
                ids = tokenizer.encode(run)
                starts = range(0, len(ids) - length + 1, length)
                found += [ids[start : start + length] for start in starts]
                labels += [label] * len(starts)
        return np.stack(found), np.array(labels, dtype=np.int64)


def _runs_of_topics():
    """Return a dict from each topic to its runs of five paragraphs, longest topic first."""
    try:
        from pydoc_data.topics import topics
    except ImportError:
        raise DataError(
            "this Python was installed without its help topics (the module pydoc_data)"
        ) from None
    seen, runs = set(), {}
    for name in sorted(topics, key=lambda name: (-len(topics[name]), name)):
        paragraphs = []
        for paragraph in re.split(r"\n\s*\n", topics[name]):
            plain = " ".join(re.sub(r"([^\w\s])\1{3,}", " ", paragraph).lower().split())
            if plain and plain not in seen:
                seen.add(plain)
                paragraphs.append(plain)
        if paragraphs:
            starts = range(0, len(paragraphs), _RUN)
            runs[name] = [" ".join(paragraphs[s : s + _RUN]) for s in starts]
    return runs
