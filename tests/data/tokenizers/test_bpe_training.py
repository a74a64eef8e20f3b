"""BPE training: the same merges as by recounting all pairs each time, and fast."""

import time
from collections import Counter

import numpy as np
import pytest
from data.tokenizers import bpe_oracle
from hypothesis import given, settings
from hypothesis import strategies as st

from minitorch_attn.data.tokenizers.bpe_training import count_words, learn_merges
from minitorch_attn.data.tokenizers.pretokens import Segmenter
from minitorch_attn.errors import DataError

# Few letters make many ties, overlaps and tokens that can be built in two ways.
WORDS = st.dictionaries(
    st.lists(st.sampled_from(b"ab\x00\xff"), min_size=1, max_size=12).map(bytes)
    | st.binary(min_size=1, max_size=6),
    st.integers(1, 5),
    max_size=12,
)


@settings(deadline=None, max_examples=300)
@given(WORDS, st.integers(0, 40))
def test_against_plain_counting(words, more):
    tokens, merges = learn_merges(words, 256 + more)
    expected_tokens, expected_merges = bpe_oracle.train(words, 256 + more)
    assert tokens == expected_tokens
    assert [(tokens[a], tokens[b]) for a, b in merges] == expected_merges


def test_the_example_of_the_literature():
    """Sennrich et al. 2016, Algorithm 1, with ties broken by the greatest pair."""
    words = {b"low": 5, b"lower": 2, b"widest": 3, b"newest": 6}
    tokens, merges = learn_merges(words, 256 + 6)
    pairs = [tokens[a] + b"|" + tokens[b] for a, b in merges]
    assert pairs == [b"s|t", b"e|st", b"o|w", b"l|ow", b"w|est", b"n|e"]


def test_a_tie_compares_the_first_tokens_first():
    # All occur once: ("a", "c") < ("a", "cb") in bytes, and ("b", "a") is greater than either.
    tokens, merges = learn_merges({b"ac": 1, b"ba": 1}, 257)
    assert [(tokens[a], tokens[b]) for a, b in merges] == [(b"b", b"a")]


def test_a_prefix_is_smaller():
    words = {b"xab": 4, b"xac": 1, b"ab": 4}  # after "ab": (x, ab) 4 times
    _, expected = bpe_oracle.train(words, 259)
    tokens, merges = learn_merges(words, 259)
    assert [(tokens[a], tokens[b]) for a, b in merges] == expected


def test_nothing_left_to_merge():
    tokens, merges = learn_merges({b"aaaa": 2, b"b": 9}, 1000)
    assert tokens[256:] == [b"aa", b"aaaa"] and len(merges) == 2
    assert learn_merges({}, 300) == ([bytes([value]) for value in range(256)], [])


def test_counting_leaves_special_tokens_out(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes("né né\r\n<|end|>né".encode())
    counts = count_words(path, Segmenter(["<|end|>"]))
    assert counts == {"né".encode(): 2, " né".encode(): 1, b"\r\n": 1}


def test_counting_a_long_text_in_pieces(tmp_path, rng):
    letters = rng.choice(list("abc  \n'l1é<"), size=300_000)
    text = "".join(letters)
    path = tmp_path / "text.txt"
    path.write_text(text, encoding="utf-8", newline="")
    ((words, _),) = Segmenter().whole(text)
    assert count_words(path, Segmenter()) == {w.encode(): n for w, n in Counter(words).items()}


@pytest.mark.parametrize(("content", "message"), [(b"", "is empty"), (b"abc\xff", "not UTF-8")])
def test_files_that_hold_no_text(content, message, tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        count_words(path, Segmenter())
    with pytest.raises(DataError, match="could not be read"):
        count_words(tmp_path / "nowhere.txt", Segmenter())


def test_half_a_megabyte_of_different_words_takes_seconds_not_minutes(rng):
    letters = rng.integers(97, 123, size=(70_000, 7), dtype=np.uint8)
    words = dict.fromkeys(map(bytes, letters), 1)
    start = time.process_time()
    tokens, _ = learn_merges(words, 1000)
    assert len(tokens) == 1000
    assert time.process_time() - start < 8  # about 1 second where this was written
