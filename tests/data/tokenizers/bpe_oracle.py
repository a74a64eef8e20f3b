"""Slow reference implementation of byte-pair encoding, directly from its definition."""

from collections import Counter
from itertools import pairwise


def train(words, vocab_size):
    """(tokens, merges) from a mapping of bytes to counts; recounts everything for each merge."""
    tokens = [bytes([value]) for value in range(256)]
    merges = []
    words = {tuple(bytes([value]) for value in word): count for word, count in words.items()}
    while len(tokens) < vocab_size:
        pairs = Counter()
        for word, count in words.items():
            for pair in pairwise(word):
                pairs[pair] += count
        if not pairs:
            break
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        merges.append(best)
        assert best[0] + best[1] not in tokens  # no token is built in two ways
        tokens.append(best[0] + best[1])
        words = {tuple(joined(word, best)): count for word, count in words.items()}
    return tokens, merges


def joined(word, pair):
    """The tokens of a word with every occurrence of a pair joined, from the left."""
    result, i = [], 0
    while i < len(word):
        if tuple(word[i : i + 2]) == pair:
            result.append(pair[0] + pair[1])
            i += 2
        else:
            result.append(word[i])
            i += 1
    return result


def encode(word, merges):
    """The tokens of one word: always the earliest merge, at its leftmost place, one at a time."""
    word = [bytes([value]) for value in word]
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    while True:
        found = [(ranks[pair], i) for i, pair in enumerate(pairwise(word)) if pair in ranks]
        if not found:
            return word
        _, i = min(found)
        word[i : i + 2] = [word[i] + word[i + 1]]


def split_at(text, special_tokens):
    """[text, special, text, ...]: at each place the longest special token, from the left."""
    parts, start, i = [], 0, 0
    while i < len(text):
        here = [token for token in special_tokens if text.startswith(token, i)]
        if here:
            token = max(here, key=len)
            parts += [text[start:i], token]
            start = i = i + len(token)
        else:
            i += 1
    return [*parts, text[start:]]
