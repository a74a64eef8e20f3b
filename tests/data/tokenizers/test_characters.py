"""Characters to ids and back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitorch_attn.data import CharTokenizer
from minitorch_attn.errors import ArgumentError, DataError, IndexRangeError


@given(st.text(st.characters(codec=None, exclude_categories=()), min_size=1))
def test_every_text_comes_back(text):
    tokenizer = CharTokenizer.from_text(text)
    ids = tokenizer.encode(text)
    assert ids.dtype == np.int64 and ids.shape == (len(text),)
    assert set(ids.tolist()) == set(range(len(tokenizer)))
    assert CharTokenizer(tokenizer.vocabulary).decode(ids) == text


def test_the_id_of_a_character_is_its_place_in_any_order():
    tokenizer = CharTokenizer("zabé")
    assert tokenizer.encode("baz").tolist() == [2, 1, 0]
    assert tokenizer.encode("").shape == (0,)
    assert tokenizer.decode(np.array([[0, 3]])) == "zé"


def test_unknown_characters_are_shown():
    with pytest.raises(DataError, match=r"'!', 'B', '€'"):
        CharTokenizer("abc").encode("aB!c€B")


def test_ids_outside_and_double_characters():
    for ids in ([3], [-1]):
        with pytest.raises(IndexRangeError, match="0 to 2"):
            CharTokenizer("abc").decode(ids)
    for vocabulary in ("abca", ""):
        with pytest.raises(ArgumentError):
            CharTokenizer(vocabulary)
