"""Learning the merges of byte-pair encoding from counted words.

Sennrich et al. 2016, "Neural Machine Translation of Rare Words with Subword Units",
arXiv:1508.07909v5, sec. 3.2, Algorithm 1, on bytes: join the most frequent pair of neighbours
everywhere, again and again.
"""

import heapq
import os
from collections import Counter
from itertools import pairwise

import numpy as np

from ...errors import DataError
from .gpt2_files import unreadable

__all__ = ["count_words", "learn_merges"]

_EDGE, _GONE = -1, -2  # tokens between two words, and where a merged neighbour was
_SHIFT = 32  # a pair is one integer: first << 32 | second


def count_words(path, segmenter):
    """How often each pre-token occurs in a text file, as bytes; special tokens are left out.

    Parameters
    ----------
    path : str or path
    segmenter : Segmenter

    Returns
    -------
    dict of bytes to int
    """
    counts = Counter()
    try:
        with open(path, encoding="utf-8", newline="") as file:  # line ends are kept as they are
            for words, _ in segmenter.stream(file):
                counts.update(words)
    except OSError as error:
        raise unreadable(path, error) from None
    except UnicodeDecodeError as error:
        raise DataError(
            f"{os.fspath(path)} is not UTF-8.", got=str(error), expected="text in UTF-8"
        ) from None
    if not counts:
        raise DataError(f"{os.fspath(path)} holds no text.", expected="a text to learn from")
    return {word.encode(): count for word, count in counts.items()}


def learn_merges(words, vocab_size):
    """The merges that bring a vocabulary of the 256 bytes to `vocab_size` tokens.

    The most frequent pair is merged; of equally frequent pairs the greatest, first tokens compared
    before second ones, byte by byte. Pairs within one word count, and a word counts as often as it
    occurs.

    Parameters
    ----------
    words : mapping of bytes to int
        How often each word occurs.
    vocab_size : int

    Returns
    -------
    tokens : list of bytes
        The 256 bytes and what was merged from them, in this order.
    merges : list of (int, int)
        The pairs in the order of merging, as places in `tokens`. It ends early when every word is
        one token. No two merges build the same token: which merges happen within the bytes that
        become a token does not depend on what stands around them.

    Examples
    --------
    >>> tokens, merges = learn_merges({b"low": 5, b"lower": 2, b"newest": 6, b"widest": 3}, 262)
    >>> tokens[256:]
    [b'st', b'est', b'ow', b'low', b'west', b'ne']
    """
    tokens = [bytes([value]) for value in range(256)]
    order = [_descending(token) for token in tokens]
    corpus = _Corpus(words)
    heap = [_entry(corpus, order, code) for code in corpus.counts]
    heapq.heapify(heap)
    merges = []
    while len(tokens) < vocab_size and heap:
        negative_count, *_, code = heapq.heappop(heap)
        count = corpus.counts.get(code, 0)
        if count != -negative_count:  # it has become rarer since it was written down
            if count:
                heapq.heappush(heap, _entry(corpus, order, code))
            continue
        first, second = _pair(code)
        merges.append((first, second))
        tokens.append(tokens[first] + tokens[second])
        order.append(_descending(tokens[-1]))
        for changed in corpus.merge(code, len(tokens) - 1):
            heapq.heappush(heap, _entry(corpus, order, changed))
    return tokens, merges


def _entry(corpus, order, code):
    """What a heap sorts by: the smallest entry is the pair to merge."""
    first, second = _pair(code)
    return -corpus.counts[code], order[first], order[second], code


def _descending(token):
    """A string that sorts before another's exactly if its token sorts after that one's."""
    return "".join(chr(255 - byte) for byte in token) + "\u0100"


def _pair(code):
    return code >> _SHIFT, code & (1 << _SHIFT) - 1


def _distinct(arrays):
    """The different elements of some arrays, in order; quicker here than np.unique."""
    places = np.sort(np.concatenate(arrays))
    return places[np.concatenate([[True], places[1:] != places[:-1]])]


class _Corpus:
    """All words as one chain of tokens, and how often each pair of neighbours occurs.

    A merge visits only the places where its pair occurs, all of them in one go.

    Attributes
    ----------
    counts : dict of int to int
        Occurrences of each pair, by code.
    """

    def __init__(self, words):
        # Every word stands between two edges, so that each of its tokens has two neighbours.
        lengths = np.fromiter(map(len, words), dtype=np.int64, count=len(words))
        number = np.repeat(np.arange(len(words)), lengths)  # of the word that a byte is in
        places = np.arange(len(number)) + number + 1
        size = len(number) + len(words) + 1
        self._token = np.full(size, _EDGE)
        self._token[places] = np.frombuffer(b"".join(words), dtype=np.uint8)
        self._weight = np.zeros(size, dtype=np.int64)
        occurrences = np.fromiter(words.values(), dtype=np.int64, count=len(words))
        self._weight[places] = occurrences[number]
        self._following = np.arange(size) + 1
        self._preceding = np.arange(size) - 1
        self.counts = {}
        self._where = {}  # code -> arrays of places where the pair started at some time
        self._add(places)

    def merge(self, code, new):
        """Make one token of a pair, everywhere; returns the pairs that became more frequent."""
        first, second = _pair(code)
        places = _distinct(self._where.pop(code))
        still = self._token[places] == first
        still &= self._token[self._following[places]] == second
        places = places[still]
        if first == second:
            places = places[self._not_overlapping(places)]
        followers = self._following[places]
        self._remove(_distinct([self._preceding[places], places, followers]))
        after = self._following[followers]
        self._token[places] = new
        self._token[followers] = _GONE
        self._following[places] = after
        self._preceding[after] = places
        return self._add(_distinct([self._preceding[places], places]))

    def _not_overlapping(self, places):
        """Every second place of a run such as the two of "aaa", from the left."""
        starts_run = np.ones(len(places), dtype=bool)
        starts_run[1:] = self._following[places[:-1]] != places[1:]
        number = np.arange(len(places))
        return (number - np.maximum.accumulate(np.where(starts_run, number, 0))) % 2 == 0

    def _add(self, places):
        """Count the pairs that start at these places; returns their codes."""
        codes = []
        for code, weight, where in self._grouped(places):
            self.counts[code] = self.counts.get(code, 0) + weight
            self._where.setdefault(code, []).append(where)
            codes.append(code)
        return codes

    def _remove(self, places):
        for code, weight, _ in self._grouped(places):
            self.counts[code] -= weight
            if not self.counts[code]:
                del self.counts[code]
                self._where.pop(code, None)

    def _grouped(self, places):
        """Yield (code, occurrences, places) of the pairs that start at `places`."""
        first, second = self._token[places], self._token[self._following[places]]
        inside = (first >= 0) & (second >= 0)
        places, codes = places[inside], (first[inside] << _SHIFT) | second[inside]
        if not len(codes):
            return
        order = np.argsort(codes)
        places, codes = places[order], codes[order]
        starts = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))
        weights = np.add.reduceat(self._weight[places], starts)
        limits = pairwise([*starts.tolist(), len(codes)])
        for code, weight, (a, b) in zip(
            codes[starts].tolist(), weights.tolist(), limits, strict=True
        ):
            yield code, weight, places[a:b]
