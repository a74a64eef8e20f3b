"""Apply learned BPE merges to a word, and cache the resulting token ids."""

import heapq
from itertools import pairwise

__all__ = ["KeptWords", "merge_tokens"]

_LONGEST_KEPT_WORD = 48  # maximum number of characters in a cached word
_NONE = (-1, -1)


def merge_tokens(ids, ranks):
    """Repeatedly apply the BPE merge of lowest rank to a word, leftmost first, until none applies.

    Time: O(n log n). The tokens form a linked list, and a heap contains the possible merges. A
    merge whose tokens have changed since it was pushed is skipped.

    Parameters
    ----------
    ids : sequence of int
        Tokens of a word.
    ranks : dict of (int, int) to (int, int)
        Precedence of each pair, and the id of its merged token.

    Returns
    -------
    list of int

    Examples
    --------
    >>> merge_tokens([1, 2, 3, 1, 2], {(2, 3): (0, 4), (1, 2): (1, 5)})
    [1, 4, 5]
    """
    end = len(ids)
    ids = [*ids, -1]  # -1: before the first or after the last token; no merge contains it
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
    """Cache that maps words to token ids, and computes the ids of a word on first use.

    When the cache is full, it is cleared.

    Parameters
    ----------
    compute : callable
        Function from a word to its ids.
    limit : int
        Maximum number of words in the cache.
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
