"""Masks: allowed pairs against loops; polarity; combination; printing."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import masks
from minitorch_attn.errors import ArgumentError, DTypeError, ShapeError


def table(rows, columns, rule):
    return np.array([[rule(i, j) for j in range(columns)] for i in range(rows)])


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        (lambda d: masks.causal(5, device=d), table(5, 5, lambda i, j: j <= i)),
        (lambda d: masks.causal(3, 7, device=d), table(3, 7, lambda i, j: j <= i)),
        (lambda d: masks.causal(3, offset=4, device=d), table(3, 7, lambda i, j: j <= i + 4)),
        (lambda d: masks.causal(1, 5, 4, device=d), table(1, 5, lambda i, j: True)),
        (lambda d: masks.sliding_window(7, 3, device=d), table(7, 7, lambda i, j: abs(i - j) < 3)),
        (
            lambda d: masks.block_diagonal([2, 0, 3], device=d),
            table(5, 5, lambda i, j: (i < 2) == (j < 2)),
        ),
    ],
)
def test_constructors(mask, expected, device):
    mask = mask(device)
    np.testing.assert_array_equal(mask.attend.numpy(), expected)
    np.testing.assert_array_equal(mask.blocked.numpy(), ~expected)
    assert mask.shape == expected.shape and mask.device == mt.ones(1, device=device).device


def test_padding(device):
    mask = masks.padding([2, 0, 5], max_len=7, device=device)
    assert mask.shape == (3, 1, 1, 7)
    assert mask.attend.numpy().sum(-1).ravel().tolist() == [2, 0, 5]
    assert mask.attend.numpy()[0, 0, 0].tolist() == [True, True] + [False] * 5
    lengths = mt.tensor([2, 3], device=device)
    assert masks.padding(lengths, device=device).shape == (2, 1, 1, 3)


def test_sizes_of_numpy_are_sizes():
    assert masks.causal(np.int64(3)).shape == (3, 3)
    assert masks.padding(np.array([1, 2])).shape == (2, 1, 1, 2)
    assert masks.block_diagonal([np.int64(2)]).shape == (2, 2)


def test_the_three_ways_to_read_a_mask(device):
    attend = mt.tensor([[True, False]], device=device)
    for mask in (
        masks.from_attend(attend),
        masks.from_blocked(mt.tensor([[False, True]], device=device)),
        masks.from_attend([[True, False]]).to(device),
        masks.from_blocked(np.array([[False, True]])).to(device),
    ):
        assert mask.attend.tolist() == [[True, False]]
        assert mask.blocked.tolist() == [[False, True]]
        assert mask.additive(mt.float64).tolist() == [[0.0, -np.inf]]
        assert mask.additive(mt.float64).dtype == mt.float64
        assert mask.additive().dtype == mt.float32


def test_key_padding_of_pytorch(device):
    blocked = mt.tensor([[False, True], [False, False]], device=device)
    mask = masks.from_key_padding(blocked)
    assert mask.shape == (2, 1, 1, 2)
    assert mask.blocked.numpy()[:, 0, 0].tolist() == blocked.tolist()
    assert masks.from_key_padding(blocked[0]).shape == (1, 1, 1, 2)


def test_combination(device):
    causal, padding = masks.causal(3, device=device), masks.padding([1, 3], device=device)
    both, either = causal & padding, causal | padding
    assert both.shape == either.shape == (2, 1, 3, 3)
    a, b = causal.attend.numpy(), padding.attend.numpy()
    np.testing.assert_array_equal(both.attend.numpy(), a & b)
    np.testing.assert_array_equal(either.attend.numpy(), a | b)


def test_only_the_plain_triangle_counts_as_causal():
    assert masks.causal(3).is_causal and masks.causal(3, 5).is_causal
    assert not masks.causal(3, offset=1).is_causal
    assert not (masks.causal(3) & masks.causal(3)).is_causal
    assert masks.causal(3).to("strict").is_causal


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: masks.from_attend([0.0, 1.0]), DTypeError, "tensor != 0"),
        (lambda: masks.from_blocked([0, 1]), DTypeError, "expected  bool"),
        (lambda: masks.causal(3) & [True], DTypeError, "other must be a Mask"),
        (lambda: masks.causal(3) | mt.tensor([True]), DTypeError, "masks.from_attend"),
        (lambda: masks.causal(3) & masks.causal(5), ShapeError, "do not broadcast"),
        (lambda: masks.from_attend(np.ones((1,) * 5, bool)), ShapeError, "at most four axes"),
        (lambda: masks.from_key_padding(np.ones((1,) * 3, bool)), ShapeError, "batch, key"),
        (lambda: masks.padding([3], max_len=2), ArgumentError, "at most max_len"),
        (lambda: masks.padding([-1]), ArgumentError, "negative"),
        (lambda: masks.padding([1.5]), DTypeError, "must be integers"),
        (lambda: masks.padding(mt.tensor(3)), DTypeError, "for each sequence"),
        (lambda: masks.causal(-1), ArgumentError, "n must be a non-negative"),
        (lambda: masks.causal(2.0), ArgumentError, "got       2.0"),
        (lambda: masks.block_diagonal([2, -3]), ArgumentError, "negative"),
    ],
)
def test_wrong_calls(call, error, text):
    with pytest.raises(error, match=text.replace("|", r"\|")):
        call()


def test_empty_masks(device):
    assert masks.causal(0, device=device).shape == (0, 0)
    assert masks.padding([], device=device).shape == (0, 1, 1, 0)
    assert masks.block_diagonal([], device=device).shape == (0, 0)
    assert repr(masks.causal(0)).startswith("Mask of shape (0, 0)")


def test_text_is_a_small_grid():
    assert repr(masks.causal(2)) == "Mask of shape (2, 2): # may attend, . blocked\n  # .\n  # #"
    lines = repr(masks.causal(50)).splitlines()
    assert len(lines) == 18 and lines[-1] == "  ..." and lines[1].endswith(" ...")
    assert repr(masks.causal(2) & masks.padding([1, 2])).endswith(
        "(the first of 2 x 1 batches and heads)"
    )
    assert repr(masks.from_attend([True, False])).endswith("\n  # .")
