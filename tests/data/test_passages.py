"""Python's help topics as passages with labels."""

import re

import numpy as np
import pytest

from minitorch_attn.data.passages import HelpPassages
from minitorch_attn.data.tokenizers import WordTokenizer


@pytest.fixture(scope="module")
def text():
    pytest.importorskip("pydoc_data.topics")
    return HelpPassages(topics=5)


def test_no_paragraph_is_in_two_parts(text):
    held_out = [run for runs in text.held_out for run in runs]
    assert len(text.names) == len(text.held_out) == len(text.training) == 5
    assert not set(held_out) & set(text.reading)
    assert len(set(text.reading)) == len(text.reading)
    reading = " | ".join(text.reading)
    sentences = {s for run in held_out for s in re.split(r"(?<=\.) ", run) if len(s) > 120}
    assert len(sentences) > 50
    shared = [s for s in sentences if s in reading]
    assert len(shared) < 0.03 * len(sentences)  # a sentence that two paragraphs have


def test_a_quarter_is_held_out(text):
    for training, held_out in zip(text.training, text.held_out, strict=True):
        assert len(held_out) == (len(training) + len(held_out)) // 4


def test_passages_stay_within_a_run(text):
    tokenizer = WordTokenizer.from_text(" ".join(text.reading), special_tokens=["?"], unknown="?")
    ids, labels = text.passages(text.training, tokenizer, 17)
    assert ids.shape == (len(labels), 17) and set(labels) == set(range(5))
    for label in range(5):
        mine = iter(ids[labels == label])
        for run in text.training[label]:
            words = tokenizer.encode(run)
            for start in range(0, len(words) - 16, 17):
                assert (next(mine) == words[start : start + 17]).all()
        assert next(mine, None) is None
    assert np.bincount(labels).min() > 20
