"""Pairs of texts as padded ids, and endless batches of them."""

import numpy as np
import pytest

from minitorch_attn.backend import to_host
from minitorch_attn.data.pairs import GeneratedBatches, PairTokenizer
from minitorch_attn.errors import CheckpointError, DataError


def counted(generator):
    text = "xyz"[: generator.integers(1, 4)]
    return text, text[::-1]


def test_texts_go_to_ids_and_back():
    tokenizer = PairTokenizer("xyz")
    texts = ["xyz", "", "zz"]
    ids = tokenizer.encode(texts)
    assert ids.tolist() == [[3, 4, 5, 2], [2, 0, 0, 0], [5, 5, 2, 0]]
    assert [tokenizer.decode(row) for row in ids] == texts
    assert len(tokenizer) == 6 and ids.dtype == np.int64
    assert tokenizer.decode([3, 0, 1, 4]) == "x__y"
    with pytest.raises(DataError):
        tokenizer.encode(["w"])


def test_batches_depend_on_seed_and_number_alone(device):
    def batches(seed=3):
        return GeneratedBatches(counted, PairTokenizer("xyz"), 7, seed, device)

    stream = batches()
    ten = [[to_host(part.array) for part in next(stream)] for _ in range(5)]
    other = batches()
    other.load_state_dict({"position": 3})
    for part, expected in zip(next(other), ten[3], strict=True):
        assert (to_host(part.array) == expected).all()
    assert other.state_dict() == {"position": 4}
    tokenizer = PairTokenizer("xyz")
    for source, target in zip(*ten[0], strict=True):
        assert tokenizer.decode(target) == tokenizer.decode(source)[::-1]
    first = [to_host(part.array) for part in next(batches(seed=4))]
    assert not all(np.array_equal(a, b) for a, b in zip(first, ten[0], strict=True))
    with pytest.raises(CheckpointError):
        other.load_state_dict({"position": -1})
