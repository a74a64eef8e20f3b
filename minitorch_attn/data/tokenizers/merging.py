"""Applying learnt merges to one word."""

import heapq
from itertools import pairwise

__all__ = ["KeptWords", "merge_tokens"]

_LONGEST_KEPT_WORD = 48  # characters
_NONE = (-1, -1)


def merge_tokens(ids, ranks):
    """Join neighbours, those of the earliest merge and the leftmost first, until none applies.

    Takes O(n log n): the tokens form a chain, so that joining two moves nothing, and a heap holds
    the merges that were possible at some time. One whose tokens have changed since is passed over.

    Parameters
    ----------
    ids : sequence of int
        The tokens of a word.
    ranks : dict of (int, int) to (int, int)
        The precedence of a pair, and the id of the two together.

    Returns
    -------
    list of int

    Examples
    --------
    >>> merge_tokens([1, 2, 3, 1, 2], {(2, 3): (0, 4), (1, 2): (1, 5)})
    [1, 4, 5]
    """
    end = len(ids)
    ids = [*ids, -1]  # stands behind the last token and before the first: no merge knows -1
    following = [*range(1, end + 1), end]
    preceding = list(range(-1, end))
    heap = [(ranks[pair][0], i) for i, pair in enumerate(pairwise(ids)) if pair in ranks]
    heapq.heapify(heap)
    while heap:
        rank, place = heapq.heappop(heap)
        other = following[place]
        rank_now, joined = ranks.get((ids[place], ids[other]), _NONE)
        if rank_now != rank:
            continue
        ids[place], ids[other] = joined, -1
        after = following[place] = following[other]
        preceding[after] = place
        for start in (preceding[place], place):
            pair = ids[start], ids[following[start]]
            if pair in ranks:
                heapq.heappush(heap, (ranks[pair][0], start))
    return [token for token in ids if token >= 0]


class KeptWords(dict):
    """The ids of words met before: looking up another one computes it.

    Forgets all of them when it is full, so that its size is bounded.

    Parameters
    ----------
    compute : callable
        From a word to its ids.
    limit : int
        Words to keep.
    """

    def __init__(self, compute, limit):
        super().__init__()
        self._compute, self._limit = compute, limit

    def __missing__(self, word):
        ids = self._compute(word)
        if len(word) <= _LONGEST_KEPT_WORD:
            if len(self) >= self._limit:
                self.clear()
            self[word] = ids
        return ids
