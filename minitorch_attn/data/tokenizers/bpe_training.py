"""BPE training: learn the merges of byte-pair encoding from word counts.

This is Algorithm 1 of Sennrich et al. 2016, "Neural Machine Translation of Rare Words with Subword
Units", arXiv:1508.07909v5, sec. 3.2, applied to bytes. The algorithm repeatedly merges the most
frequent pair of adjacent tokens.
"""

import heapq
import os
from collections import Counter
from itertools import pairwise

import numpy as np

from ...errors import DataError
from ...files import read_error

__all__ = ["count_words", "learn_merges"]

_EDGE, _GONE = -1, -2  # markers for the edge of a word, and for a merged position
_SHIFT = 32  # a pair is one integer: first << 32 | second


def count_words(path, segmenter):
    """Count how often each word (GPT-2 pre-token) occurs in a text file, without special tokens.

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
        with open(path, encoding="utf-8", newline="") as file:  # keep line endings
            for words, _ in segmenter.stream(file):
                counts.update(words)
    except OSError as error:
        raise read_error(path, error, DataError) from None
    except UnicodeDecodeError as error:
        raise DataError(
            f"{os.fspath(path)} is not UTF-8",
            got=str(error), expected="text in UTF-8",
            hint=f"if it is Latin-1: iconv -f LATIN1 -t UTF-8 < {os.fspath(path)} > converted.txt",
        ) from None  # fmt: skip
    if not counts:
        raise DataError(f"{os.fspath(path)} is empty", expected="a file that contains text")
    return {word.encode(): count for word, count in counts.items()}


def learn_merges(words, vocab_size):
    """Learn the merges that extend the vocabulary from the 256 bytes to `vocab_size` tokens.

    Each step merges the most frequent pair of adjacent tokens. In a tie, the greatest pair is
    merged: the first tokens are compared byte by byte, then the second tokens. Pairs are counted
    only within words, and each word counts as often as it occurs.

    Parameters
    ----------
    words : mapping of bytes to int
        Number of occurrences of each word.
    vocab_size : int

    Returns
    -------
    tokens : list of bytes
        The 256 bytes, then the merged tokens.
    merges : list of (int, int)
        Pairs in merge order, as indices into `tokens`. Merging stops early if every word is one
        token. No two merges create the same token, because the merges within a token do not
        depend on the bytes around it.

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
        if count != -negative_count:  # the pair's count has decreased since it was pushed
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
    """Return the heap entry of a pair. The pair with the smallest entry is merged next."""
    first, second = _pair(code)
    return -corpus.counts[code], order[first], order[second], code


def _descending(token):
    """Return a sort key for a token. The keys sort in the reverse order of the tokens."""
    return "".join(chr(255 - byte) for byte in token) + "\u0100"


def _pair(code):
    return code >> _SHIFT, code & (1 << _SHIFT) - 1


def _distinct(arrays):
    """Return the sorted unique elements of several arrays, faster than np.unique."""
    places = np.sort(np.concatenate(arrays))
    return places[np.concatenate([[True], places[1:] != places[:-1]])]


class _Corpus:
    """All words as one linked list of tokens, with the counts of adjacent pairs.

    A merge visits only the positions of its pair, in one vectorized step.

    Attributes
    ----------
    counts : dict of int to int
        Number of occurrences of each pair. A key is the code of a pair: first << 32 | second.
    """

    def __init__(self, words):
        # An edge before and after every word gives each token two neighbors.
        lengths = np.fromiter(map(len, words), dtype=np.int64, count=len(words))
        number = np.repeat(np.arange(len(words)), lengths)  # index of the word of each byte
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
        self._where = {}  # code -> arrays of positions at which the pair has started
        self._add(places)

    def merge(self, code, new):
        """Replace every occurrence of a pair with the token `new`.

        Return the codes of the pairs that contain `new`.
        """
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
        """Return a mask that excludes overlapping pairs: "aaaa" has 2 pairs "aa", not 3."""
        starts_run = np.ones(len(places), dtype=bool)
        starts_run[1:] = self._following[places[:-1]] != places[1:]
        number = np.arange(len(places))
        return (number - np.maximum.accumulate(np.where(starts_run, number, 0))) % 2 == 0

    def _add(self, places):
        """Add the pairs that start at these positions to the counts, and return their codes."""
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
        """Yield (code, count, positions) of each distinct token pair that starts at `places`."""
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
