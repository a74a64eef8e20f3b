"""Applying merges to a word."""

import random
import time
from itertools import pairwise

from data.tokenizers import bpe_oracle
from hypothesis import given
from hypothesis import strategies as st

from minitorch_attn.data.tokenizers.merging import KeptWords, merge_tokens

LETTERS = st.sampled_from(b"abc")


@given(st.data())
def test_against_one_merge_at_a_time(data):
    """Merges in any order, also a part after what is built from it."""
    word = bytes(data.draw(st.lists(LETTERS, max_size=25)))
    tokens = [bytes([letter]) for letter in b"abc"]
    merges = []
    for _ in range(data.draw(st.integers(0, 12))):
        pair = data.draw(st.tuples(st.sampled_from(tokens), st.sampled_from(tokens)))
        if pair not in merges:
            merges.append(pair)
            if pair[0] + pair[1] not in tokens:
                tokens.append(pair[0] + pair[1])
    data.draw(st.randoms()).shuffle(merges)
    number = {token: i for i, token in enumerate(tokens)}
    ranks = {(number[a], number[b]): (r, number[a + b]) for r, (a, b) in enumerate(merges)}
    found = merge_tokens([number[bytes([letter])] for letter in word], ranks)
    assert [tokens[i] for i in found] == bpe_oracle.encode(word, merges)


def test_a_merge_whose_tokens_have_changed_is_passed_over():
    """The second 2 is gone when the turn of (0, 2) comes; (3, 0) is earlier than (0, 3)."""
    ranks = {(2, 2): (0, 3), (0, 2): (1, 4), (3, 0): (2, 7), (0, 3): (3, 6)}
    assert merge_tokens([0, 2, 2, 0], ranks) == [0, 7]


def test_a_word_of_many_letters_is_quick():
    random.seed(3)
    ids = random.choices(range(4), k=50_000)
    ranks = {pair: (i, 4 + i) for i, pair in enumerate(sorted(set(pairwise(ids))))}
    start = time.process_time()
    assert len(merge_tokens(ids, ranks)) < 40_000
    assert time.process_time() - start < 5  # a quadratic search takes minutes


def test_kept_words_are_computed_once_and_are_few():
    asked = []
    kept = KeptWords(lambda word: asked.append(word) or [len(word)], limit=3)
    assert [kept[word] for word in ("a", "bb", "a", "bb")] == [[1], [2], [1], [2]]
    assert asked == ["a", "bb"]
    for word in map(str, range(100)):
        kept[word]
        assert len(kept) <= 3
    kept["x" * 1000]
    assert "x" * 1000 not in kept
