"""Words to ids and back."""

import numpy as np
import pytest

from minitorch_attn.data.tokenizers import WordTokenizer
from minitorch_attn.errors import ArgumentError, DataError, IndexRangeError

TEXT = "The cat sat. The dog sat; a cat's naïve 日本"


def test_words_and_punctuation():
    tokenizer = WordTokenizer.from_text(TEXT)
    ids = tokenizer.encode(TEXT)
    assert ids.dtype == np.int64 and ids.max() == len(tokenizer) - 1
    assert tokenizer.decode(ids) == "The cat sat . The dog sat ; a cat ' s naïve 日本"
    assert tokenizer.vocabulary[:3] == ["The", "cat", "sat"]  # twice each, then in order


def test_limits_and_special_tokens():
    tokenizer = WordTokenizer.from_text(
        TEXT + " <pad>", max_words=2, special_tokens=["<pad>", "<unk>"], unknown="<unk>"
    )
    assert tokenizer.vocabulary == ["<pad>", "<unk>", "The", "cat"]
    assert tokenizer.encode("The <pad> bird.").tolist() == [2, 0, 1, 1]
    assert WordTokenizer.from_text(TEXT, min_count=2).vocabulary == ["The", "cat", "sat"]


def test_errors():
    tokenizer = WordTokenizer(["a", "b"])
    with pytest.raises(DataError, match="'c', 'd'"):
        tokenizer.encode("a d c")
    for ids in ([2], [-1]):
        with pytest.raises(IndexRangeError, match="0 to 1"):
            tokenizer.decode(ids)
    for words in ([], ["a", "a"]):
        with pytest.raises(ArgumentError, match="duplicates"):
            WordTokenizer(words)
    with pytest.raises(ArgumentError, match="'c'"):
        WordTokenizer(["a"], unknown="c")
    assert tokenizer.encode("").shape == (0,) and tokenizer.decode([]) == ""
